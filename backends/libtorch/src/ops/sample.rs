//! Images sampled at points of a grid.

use tch::Tensor;
use ubique_core::TensorSpec;
use ubique_core::op::grid_sample::{GridSample, GridSampleBackward, Outside, Sampling};

use super::Call;
use super::grad::gradients;
use crate::error::Made;

/// Whether LibTorch has the sampling: of points from -1 to 1, and of something.
pub fn supports(op: &GridSample, inputs: &[TensorSpec]) -> bool {
    !op.pixels && inputs.iter().all(|x| x.shape.iter().all(|&extent| extent > 0))
}

/// In the dtype of the points, which is wider than that of a half-precision image.
pub fn grid_sample(op: &GridSample, image: &Tensor, points: &Tensor) -> Made {
    let (narrow, wide) = (image.f_kind()?, points.f_kind()?);
    let sampling = match op.sampling {
        Sampling::Bilinear => 0,
        Sampling::Nearest => 1,
    };
    let outside = match op.outside {
        Outside::Zeros => 0,
        Outside::Border => 1,
        Outside::Reflection => 2,
    };
    let y = image.f_to_kind(wide)?.f_grid_sampler_2d(points, sampling, outside, op.align_corners)?;
    Ok(y.f_to_kind(narrow)?)
}

pub fn backward(op: &GridSampleBackward, call: &Call<'_>) -> Made<Vec<Tensor>> {
    gradients(&[&call.x[0], &call.x[1]], &call.x[2], |leaves| grid_sample(&op.0, &leaves[0], &leaves[1]))
}
