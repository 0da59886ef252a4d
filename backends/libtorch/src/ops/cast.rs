//! Changes of dtype. Floats that do not fit an integer saturate, and NaN becomes 0, where LibTorch leaves it to the
//! processor.

use tch::{Kind, Tensor};
use ubique_core::DType;
use ubique_core::op::unary::Cast;

use super::Call;
use crate::dtype::{is_unsigned_bits, kind};
use crate::error::Made;

/// Whether LibTorch can go from one dtype to the other without the host.
pub fn supports(from: DType, to: DType) -> bool {
    let wide = |dtype| dtype == DType::U64;
    let lacks = |a: DType, b: DType| a.is_stored() || wide(a) && b.is_float();
    !lacks(from, to) && !lacks(to, from)
}

pub fn cast(op: &Cast, call: &Call<'_>) -> Made {
    let x = &call.x[0];
    match op.dtype.int_range() {
        Some((low, high)) if x.dtype.is_float() && op.dtype != DType::Bool => {
            truncate(x, low as f64, high as f64, op.dtype)
        }
        _ if is_unsigned_bits(x.dtype) => Ok(widen(x, x.dtype)?.f_to_kind(kind(op.dtype))?),
        _ => Ok(x.f_to_kind(kind(op.dtype))?),
    }
}

/// Unsigned integers with their values. Those of 64 bits keep their bits, from which all narrower integers follow.
pub fn widen(x: &Tensor, dtype: DType) -> Made {
    let wide = x.f_to_kind(Kind::Int64)?;
    Ok(match dtype {
        DType::U16 => wide.f_bitwise_and(0xFFFF)?,
        DType::U32 => wide.f_bitwise_and(0xFFFF_FFFF)?,
        _ => wide,
    })
}

fn truncate(x: &Tensor, low: f64, high: f64, dtype: DType) -> Made {
    // Wide enough for every limit below 2^53 to be exact.
    let numbers = x.f_to_kind(Kind::Double)?.f_nan_to_num(0.0, f64::INFINITY, f64::NEG_INFINITY)?;
    if dtype != DType::I64 {
        return Ok(numbers.f_clamp(low, high)?.f_to_kind(Kind::Int64)?.f_to_kind(kind(dtype))?);
    }
    // 2^63 - 1 is no f64; numbers from 2^63 on are put in afterwards.
    let above = numbers.f_ge(high)?;
    let inside = numbers.f_masked_fill(&above, 0.0)?.f_clamp_min(low)?.f_to_kind(Kind::Int64)?;
    Ok(inside.f_masked_fill(&above, i64::MAX)?)
}
