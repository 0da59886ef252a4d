//! An axis sampled at another number of points, as the last axis of an image.

use tch::{Kind, Tensor};
use ubique_core::op::resize::{Resample, ResampleBackward, Resize};

use super::grad::gradient;
use crate::error::Made;

pub fn resample(op: &Resample, x: &Tensor) -> Made {
    let (axis, output) = (op.axis as i64, op.output as i64);
    if op.mode == Resize::Nearest {
        return Ok(x.f_index_select(axis, &nearest(x.size()[op.axis], output, x)?)?);
    }
    if output == 0 {
        return Ok(x.f_narrow(axis, 0, 0)?);
    }
    let last = x.f_movedim_int(axis, -1)?;
    let mut size = last.size();
    let lines = last.f_reshape([1, -1, size[size.len() - 1]])?;
    let sampled = match op.mode {
        Resize::Cubic => lines.f_unsqueeze(2)?.f_upsample_bicubic2d([1, output], op.align_corners, None, None)?,
        _ => lines.f_upsample_linear1d([output], op.align_corners, None)?,
    };
    if let Some(extent) = size.last_mut() {
        *extent = output;
    }
    Ok(sampled.f_reshape(&size)?.f_movedim_int(-1, axis)?)
}

/// The element that each point sees. LibTorch's own choice is by a rounded quotient.
fn nearest(input: i64, output: i64, like: &Tensor) -> Made {
    let points = Tensor::f_arange(output, (Kind::Int64, like.device()))?;
    Ok(points.f_mul_scalar(input)?.f_div_scalar_mode(output.max(1), "floor")?)
}

pub fn backward(op: &ResampleBackward, g: &Tensor) -> Made {
    let mut size = g.size();
    size[op.resample.axis] = op.input as i64;
    let x = Tensor::f_zeros(&size, (g.f_kind()?, g.device()))?;
    gradient(&x, g, |x| resample(&op.resample, x))
}
