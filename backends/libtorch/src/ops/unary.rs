//! Functions of one operand.

use tch::{Kind, Tensor};
use ubique_core::DType;
use ubique_core::op::unary::Unary;

use crate::dtype::{is_own, is_unsigned_bits};
use crate::error::Made;

/// Whether LibTorch has the function for a dtype.
pub fn supports(op: Unary, dtype: DType) -> bool {
    use Unary as U;
    match op {
        U::Cbrt => false,
        U::Neg | U::Square | U::BitNot | U::Floor | U::Ceil | U::Round | U::Trunc => !dtype.is_stored(),
        // Bits without a sign compare in another way.
        U::Abs | U::Sign | U::Relu => is_own(dtype),
        _ => !is_unsigned_bits(dtype),
    }
}

#[inline(always)]
pub fn unary(op: Unary, x: &Tensor, dtype: DType) -> Made {
    use Unary as U;
    Ok(match op {
        U::Abs => x.f_abs()?,
        U::Neg => x.f_neg()?,
        U::Sign if dtype.is_float() => {
            // LibTorch gives 0 for NaN and for -0.
            let numbers = x.f_abs()?.f_gt(0)?;
            x.f_sign()?.f_where_self(&numbers, x)?
        }
        U::Sign => x.f_sign()?,
        U::Exp => x.f_exp()?,
        U::Exp2 => x.f_exp2()?,
        U::Expm1 => x.f_expm1()?,
        U::Log => x.f_log()?,
        U::Log2 => x.f_log2()?,
        U::Log10 => x.f_log10()?,
        U::Log1p => x.f_log1p()?,
        U::Sqrt => x.f_sqrt()?,
        U::Rsqrt => x.f_rsqrt()?,
        U::Recip => x.f_reciprocal()?,
        U::Square => x.f_mul(x)?,
        U::Sin => x.f_sin()?,
        U::Cos => x.f_cos()?,
        U::Tan => x.f_tan()?,
        U::Asin => x.f_asin()?,
        U::Acos => x.f_acos()?,
        U::Atan => x.f_atan()?,
        // In f32 LibTorch's own leave the range before the results do.
        U::Sinh => wide(x)?.f_sinh()?,
        U::Cosh => wide(x)?.f_cosh()?,
        U::Tanh => x.f_tanh()?,
        U::Asinh => x.f_asinh()?,
        U::Acosh => x.f_acosh()?,
        U::Atanh => x.f_atanh()?,
        U::Erf => x.f_erf()?,
        U::Erfc => x.f_erfc()?,
        U::Floor | U::Ceil | U::Round | U::Trunc if !dtype.is_float() => x.shallow_clone(),
        U::Floor => x.f_floor()?,
        U::Ceil => x.f_ceil()?,
        U::Round => x.f_round()?,
        U::Trunc => x.f_trunc()?,
        U::Fract => x.f_frac()?,
        U::IsNan => x.f_isnan()?,
        U::IsInf => x.f_isinf()?,
        U::IsFinite => x.f_isfinite()?,
        U::Not => x.f_logical_not()?,
        U::BitNot => x.f_bitwise_not()?,
        U::Relu => x.f_relu()?,
        U::Sigmoid => x.f_sigmoid()?,
        U::LogSigmoid => x.f_log_sigmoid()?,
        U::HardSigmoid => x.f_hardsigmoid()?,
        // LibTorch's own softplus is the identity from 20 on, which is not exact in f64.
        U::Softplus => x.f_neg()?.f_log_sigmoid()?.f_neg()?,
        U::Silu => above_infinity(x, dtype)?.f_silu()?,
        U::Mish => above_infinity(x, dtype)?.f_mish()?,
        U::Gelu => above_infinity(x, dtype)?.f_gelu("none")?,
        U::GeluTanh => above_infinity(x, dtype)?.f_gelu("tanh")?,
        U::Selu => x.f_selu()?,
        op => return Err(ubique_core::Error::backend(format!("LibTorch has no function for {op:?}")).into()),
    })
}

/// In f64.
fn wide(x: &Tensor) -> Made {
    Ok(x.f_to_kind(Kind::Double)?)
}

/// With the lowest number instead of -∞, of which LibTorch's gates make NaN where the limit is -0.
fn above_infinity(x: &Tensor, dtype: DType) -> Made {
    let lowest = match dtype {
        DType::F64 => f64::MIN,
        DType::F16 => -65504.0,
        DType::BF16 => -3.389_531_389_251_535_5e38,
        _ => f32::MIN.into(),
    };
    Ok(x.f_clamp_min(lowest)?)
}
