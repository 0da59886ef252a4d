//! Functions of two operands, or of an operand and a scalar: arithmetic, bits, comparisons, bounds.

use tch::{Device, Tensor};
use ubique_core::op::binary::{Binary, BinaryScalar, Compare, CompareScalar};
use ubique_core::op::select::Clamp;
use ubique_core::{DType, Scalar};

use super::{Call, is_held, numbers};
use crate::dtype::{is_own, scalar as element};
use crate::error::Made;

/// Whether LibTorch has the function for a dtype.
pub fn supports(op: Binary, dtype: DType, device: Device) -> bool {
    use Binary as B;
    match op {
        // On the CPU LibTorch's remainders of quotients beyond 2^53 are not numbers.
        B::Rem | B::Fmod if dtype == DType::F64 && device == Device::Cpu => false,
        // The same bits with a sign and without.
        B::Add | B::Sub | B::Mul | B::And | B::Or | B::Xor | B::Shl => is_held(dtype),
        _ => is_own(dtype),
    }
}

/// Whether LibTorch has the comparison for a dtype.
pub fn compares(op: Compare, dtype: DType) -> bool {
    match op {
        Compare::Eq | Compare::Ne => is_held(dtype),
        _ => is_own(dtype),
    }
}

#[inline(always)]
pub fn binary(op: Binary, a: &Tensor, b: &Tensor, dtype: DType) -> Made {
    use Binary as B;
    Ok(match op {
        B::Add => a.f_add(b)?,
        B::Sub => a.f_sub(b)?,
        B::Mul => a.f_mul(b)?,
        B::Div | B::Rem | B::Fmod if !dtype.is_float() => return divide(op, a, b, dtype),
        B::Div => a.f_div(b)?,
        B::Rem => a.f_remainder_tensor(b)?,
        B::Fmod => a.f_fmod_tensor(b)?,
        B::Pow => a.f_pow(b)?,
        B::Atan2 => a.f_atan2(b)?,
        B::Hypot => a.f_hypot(b)?,
        B::Max => a.f_maximum(b)?,
        B::Min => a.f_minimum(b)?,
        B::And => a.f_bitwise_and_tensor(b)?,
        B::Or => a.f_bitwise_or_tensor(b)?,
        B::Xor => a.f_bitwise_xor_tensor(b)?,
        B::Shl => a.f_bitwise_left_shift(b)?,
        B::Shr => a.f_bitwise_right_shift(b)?,
        op => return Err(ubique_core::Error::backend(format!("LibTorch has no function for {op:?}")).into()),
    })
}

/// Integers, which LibTorch refuses to divide by 0, and which the processor refuses to divide by -1 where the result does
/// not fit: both divisors are replaced by 1, and their results put in afterwards.
fn divide(op: Binary, a: &Tensor, b: &Tensor, dtype: DType) -> Made {
    let zero = b.f_eq(0)?;
    let negative = (dtype != DType::U8).then(|| b.f_eq(-1)).transpose()?;
    let mut divisor = b.f_masked_fill(&zero, 1)?;
    if let Some(negative) = &negative {
        divisor = divisor.f_masked_fill(negative, 1)?;
    }
    let mut result = match op {
        Binary::Div => a.f_div_tensor_mode(&divisor, "trunc")?,
        Binary::Rem => a.f_remainder_tensor(&divisor)?,
        _ => a.f_fmod_tensor(&divisor)?,
    };
    // Of a division by 1 there is no remainder, as there is none of one by -1.
    if let (Some(negative), Binary::Div) = (&negative, op) {
        result = a.f_neg()?.f_where_self(negative, &result)?;
    }
    Ok(result.f_masked_fill(&zero, 0)?)
}

pub fn scalar(op: &BinaryScalar, x: &Tensor, dtype: DType) -> Made {
    use Binary as B;
    let value = || element(op.scalar, dtype);
    let float = dtype.is_float();
    Ok(match (op.op, op.reversed) {
        (B::Add, _) => x.f_add_scalar(value())?,
        (B::Mul, _) => x.f_mul_scalar(value())?,
        (B::Sub, false) => x.f_sub_scalar(value())?,
        (B::Sub, true) => x.f_rsub_scalar(value())?,
        (B::Div, false) if float => x.f_div_scalar(value())?,
        (B::Pow, false) if float && is_plain_power(op.scalar.cast(dtype)) => x.f_pow_tensor_scalar(value())?,
        _ => {
            let other = Tensor::f_full([], value(), (x.f_kind()?, x.device()))?;
            let (a, b) = if op.reversed { (&other, x) } else { (x, &other) };
            return binary(op.op, a, b, dtype);
        }
    })
}

/// Whether LibTorch's power by a scalar is that by a tensor: roots are shortcuts that differ at infinities.
fn is_plain_power(exponent: Scalar) -> bool {
    exponent.as_f64().abs() != 0.5
}

pub fn compare(op: Compare, a: &Tensor, b: &Tensor) -> Made {
    Ok(match op {
        Compare::Eq => a.f_eq_tensor(b)?,
        Compare::Ne => a.f_ne_tensor(b)?,
        Compare::Lt => a.f_lt_tensor(b)?,
        Compare::Le => a.f_le_tensor(b)?,
        Compare::Gt => a.f_gt_tensor(b)?,
        Compare::Ge => a.f_ge_tensor(b)?,
    })
}

pub fn compare_scalar(op: &CompareScalar, call: &Call<'_>) -> Made {
    let x = &call.x[0];
    let value = element(op.scalar, x.dtype);
    Ok(match op.op {
        Compare::Eq => x.f_eq(value)?,
        Compare::Ne => x.f_ne(value)?,
        Compare::Lt => x.f_lt(value)?,
        Compare::Le => x.f_le(value)?,
        Compare::Gt => x.f_gt(value)?,
        Compare::Ge => x.f_ge(value)?,
    })
}

pub fn clamp(op: &Clamp, call: &Call<'_>) -> Made {
    let (x, dtype) = (numbers(&call.x[0])?, call.dtype());
    Ok(match (op.min, op.max) {
        (Some(min), Some(max)) => x.f_clamp(element(min, dtype), element(max, dtype))?,
        (Some(min), None) => x.f_clamp_min(element(min, dtype))?,
        (None, Some(max)) => x.f_clamp_max(element(max, dtype))?,
        (None, None) => x,
    })
}
