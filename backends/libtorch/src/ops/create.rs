//! Tensors from nothing.

use tch::{Device, Kind, Tensor};
use ubique_core::Scalar;
use ubique_core::op::fill::{Arange, Fill};

use crate::dtype::{ints, kind, scalar};
use crate::error::Made;

pub fn fill(op: &Fill, device: Device) -> Made {
    let options = (kind(op.spec.dtype), device);
    Ok(Tensor::f_full(&*ints(&op.spec.shape), scalar(op.value, op.spec.dtype), options)?)
}

/// In f64 or in integers that wrap, and then in the dtype.
pub fn arange(op: &Arange, device: Device) -> Made {
    let count = op.len as i64;
    if op.dtype.is_float() {
        let steps = Tensor::f_arange(count, (Kind::Double, device))?;
        let values = steps.f_mul_scalar(op.step.as_f64())?.f_add_scalar(op.start.as_f64())?;
        return Ok(values.f_to_kind(kind(op.dtype))?);
    }
    let bits = |value: Scalar| value.cast(op.dtype).as_i128() as i64;
    let steps = Tensor::f_arange(count, (Kind::Int64, device))?;
    let values = steps.f_mul_scalar(bits(op.step))?.f_add_scalar(bits(op.start))?;
    Ok(values.f_to_kind(kind(op.dtype))?)
}
