//! Exponentials that sum to 1.

use tch::Tensor;
use ubique_core::op::softmax::{Softmax, SoftmaxBackward};

use crate::error::Made;

pub fn softmax(op: &Softmax, x: &Tensor) -> Made {
    let axis = op.axis as i64;
    Ok(if op.log { x.f_log_softmax(axis, None)? } else { x.f_softmax(axis, None)? })
}

pub fn backward(op: &SoftmaxBackward, y: &Tensor, g: &Tensor) -> Made {
    let (axis, kind) = (op.axis as i64, y.f_kind()?);
    Ok(match op.log {
        true => Tensor::f_internal_log_softmax_backward_data(g, y, axis, kind)?,
        false => Tensor::f_internal_softmax_backward_data(g, y, axis, kind)?,
    })
}
