//! Activations with a parameter.

use tch::Tensor;
use ubique_core::op::activation::Activation;

use crate::error::Made;

/// Above 0 the operand, below it what the function says. `tch` reaches LibTorch's own only without their parameters.
pub fn activation(op: Activation, x: &Tensor) -> Made {
    let below = match op {
        Activation::LeakyRelu { slope } => x.f_mul_scalar(slope)?,
        Activation::Elu { alpha } => x.f_expm1()?.f_mul_scalar(alpha)?,
        Activation::Celu { alpha } => x.f_div_scalar(alpha)?.f_expm1()?.f_mul_scalar(alpha)?,
        op => return Err(ubique_core::Error::backend(format!("LibTorch has no function for {op:?}")).into()),
    };
    Ok(x.f_where_self(&x.f_gt(0)?, &below)?)
}
