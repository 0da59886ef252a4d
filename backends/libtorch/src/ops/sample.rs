//! Images sampled at points of a grid.

use tch::Tensor;
use ubique_core::TensorSpec;
use ubique_core::op::grid_sample::{GridSample, GridSampleBackward, Outside, Sampling};

use super::grad::gradients;
use super::{Call, has_elements};
use crate::error::Made;

/// A point that lies outside of every image, which reaches from -1 to 1, by more than an element.
const BEYOND: f64 = 4.0;

/// Whether LibTorch has the sampling: of points from -1 to 1, and of something.
pub fn supports(op: &GridSample, inputs: &[TensorSpec]) -> bool {
    !op.pixels && inputs.iter().all(has_elements)
}

/// Whether LibTorch has the gradient: where a point lies on the border itself its slope there is that of outside, and ours
/// that of inside.
pub fn has_gradient(op: &GridSampleBackward, inputs: &[TensorSpec]) -> bool {
    op.0.outside == Outside::Zeros && supports(&op.0, inputs)
}

pub fn grid_sample(op: &GridSample, image: &Tensor, points: &Tensor) -> Made {
    sample(op, image, points, &lost(op, image, points)?)
}

fn sample(op: &GridSample, image: &Tensor, points: &Tensor, lost: &Tensor) -> Made {
    let sampling = match op.sampling {
        Sampling::Bilinear => 0,
        Sampling::Nearest => 1,
    };
    let outside = match op.outside {
        Outside::Zeros => 0,
        Outside::Border => 1,
        Outside::Reflection => 2,
    };
    let points = inside(op, points)?;
    // In the dtype of the points, which is wider than that of a half-precision image.
    let image = image.f_to_kind(points.f_kind()?)?;
    let y = image.f_grid_sampler_2d(&points, sampling, outside, op.align_corners)?;
    Ok(y.f_masked_fill(&lost.f_unsqueeze(1)?, 0.0)?)
}

/// Which points have no place, so that they see 0.
fn lost(op: &GridSample, image: &Tensor, points: &Tensor) -> Made {
    let size = image.size();
    let axes = [size[3], size[2]].map(|extent| op.places(extent as usize));
    let list = |values: [f64; 2]| Tensor::f_from_slice(&values)?.f_to_device(points.device());
    let (scale, shift) = (list(axes.map(|axis| axis.scale))?, list(axes.map(|axis| axis.shift))?);
    let at = points.f_mul(&scale)?.f_add(&shift)?;
    let lost = match op.outside {
        // Where an infinity is mirrored to is no place either.
        Outside::Reflection => at.f_isfinite()?.f_logical_not()?,
        _ => at.f_isnan()?,
    };
    Ok(lost.f_any_dim(-1, false)?)
}

/// Points that LibTorch can count elements with. It reads outside of its memory at points that are not finite.
fn inside(op: &GridSample, points: &Tensor) -> Made {
    let points = points.f_nan_to_num(0.0, BEYOND, -BEYOND)?;
    // Mirrored places come from far away; others are as far outside from here on.
    Ok(if op.outside == Outside::Reflection { points } else { points.f_clamp(-BEYOND, BEYOND)? })
}

pub fn backward(op: &GridSampleBackward, call: &Call<'_>) -> Made<Vec<Tensor>> {
    let (GridSampleBackward(op), image, points) = (op, &call.x[0], &call.x[1]);
    let lost = lost(op, image, points)?;
    let mut all = gradients(&[image, points], &call.x[2], |leaves| sample(op, &leaves[0], &leaves[1], &lost))?;
    // What a point does not see does not move it, whatever it is: 0 times NaN would be NaN.
    all[1] = all[1].f_masked_fill(&lost.f_unsqueeze(-1)?, 0.0)?;
    Ok(all)
}
