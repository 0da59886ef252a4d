//! Element-wise functions of one operand, and clamping.

use bytemuck::Pod;
use num_traits::Float;
use ubique_core::backend::Operand;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::op::select::Clamp;
use ubique_core::op::unary::Unary;
use ubique_core::{DType, Error, Result, Scalar};

use super::dtype::{Bits, Int, Number, Real, WithBits, WithInt, WithNumber, with_bits, with_int, with_number};
use super::math;
use super::walk::{self, Map, Target, each, map_bits};
use crate::view::reusable;

/// Maps a lane to another.
type Kernel<A, B> = fn(&[A], Target<'_, B>);

/// Runs a function.
pub fn unary(pool: &HostPool, op: Unary, x: &mut Operand<'_>) -> Result<Buffer> {
    struct OnBits<'r, 'v>(&'r HostPool, Unary, &'r mut Operand<'v>);
    impl WithBits for OnBits<'_, '_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let kernel = bits::<B>(self.1, self.2.dtype)?;
            run(self.0, self.2, &map_bits(kernel))
        }
    }
    struct OnInts<'r, 'v>(&'r HostPool, Unary, &'r mut Operand<'v>);
    impl WithInt for OnInts<'_, '_> {
        type Output = Result<Buffer>;
        fn run<T: Int>(self) -> Result<Buffer> {
            let kernel = int::<T>(self.1)?;
            run(self.0, self.2, &map_bits(kernel))
        }
    }
    match (x.dtype, op) {
        (DType::F32, Unary::IsNan | Unary::IsInf | Unary::IsFinite) => walk::map(pool, x, &map_bits(test::<f32>(op))),
        (DType::F64, Unary::IsNan | Unary::IsInf | Unary::IsFinite) => walk::map(pool, x, &map_bits(test::<f64>(op))),
        (DType::F32, op) => match single(op) {
            Some(kernel) => run(pool, x, &map_bits(kernel)),
            None => run_real::<f32>(pool, op, x),
        },
        (DType::F64, op) => run_real::<f64>(pool, op, x),
        (dtype, Unary::Neg | Unary::Square | Unary::Not | Unary::BitNot) => with_bits(dtype, OnBits(pool, op, x)),
        (dtype, _) => with_int(dtype, OnInts(pool, op, x)),
    }
}

/// Runs a kernel, over the operand where that was given away.
fn run<T: Pod>(pool: &HostPool, x: &mut Operand<'_>, kernel: &Map<'_, T, T>) -> Result<Buffer> {
    if let Operand::Own(view) = x
        && let Some(data) = reusable::<T>(view)
    {
        walk::map_in_place(data, kernel);
        return Ok(view.buffer.clone());
    }
    walk::map(pool, x, kernel)
}

fn run_real<T: Real>(pool: &HostPool, op: Unary, x: &mut Operand<'_>) -> Result<Buffer> {
    match real::<T>(op) {
        Some(kernel) => run(pool, x, &map_bits(kernel)),
        // The others are worth f64 even for f32: they are composed of several functions.
        None => {
            let f = op.float_fn();
            let narrow = |y: f64| T::from(y).unwrap_or_else(T::nan);
            let kernel = move |x: &[T], t: Target<'_, T>| each(x, t, |x| narrow(f(x.to_f64().unwrap_or(f64::NAN))));
            run(pool, x, &map_bits(kernel))
        }
    }
}

/// Functions of f32 that vector code can compute.
fn single(op: Unary) -> Option<Kernel<f32, f32>> {
    Some(match op {
        Unary::Exp => |x, t| each(x, t, math::exp),
        Unary::Sigmoid => |x, t| each(x, t, math::sigmoid),
        Unary::Silu => |x, t| each(x, t, math::silu),
        Unary::Gelu => |x, t| each(x, t, math::gelu),
        _ => return None,
    })
}

/// Functions that floats have themselves.
fn real<T: Real>(op: Unary) -> Option<Kernel<T, T>> {
    Some(match op {
        Unary::Abs => |x, t| each(x, t, T::abs),
        Unary::Neg => |x, t| each(x, t, |x: T| -x),
        Unary::Sign => |x, t| each(x, t, sign::<T>),
        Unary::Square => |x, t| each(x, t, |x: T| x * x),
        Unary::Floor => |x, t| each(x, t, T::floor),
        Unary::Ceil => |x, t| each(x, t, T::ceil),
        Unary::Trunc => |x, t| each(x, t, T::trunc),
        Unary::Fract => |x, t| each(x, t, |x: T| x - x.trunc()),
        Unary::Relu => |x, t| each(x, t, |x: T| if x < T::zero() { T::zero() } else { x }),
        Unary::Recip => |x, t| each(x, t, T::recip),
        Unary::Sqrt => |x, t| each(x, t, T::sqrt),
        Unary::Rsqrt => |x, t| each(x, t, |x: T| x.sqrt().recip()),
        Unary::Exp => |x, t| each(x, t, T::exp),
        Unary::Exp2 => |x, t| each(x, t, T::exp2),
        Unary::Expm1 => |x, t| each(x, t, T::exp_m1),
        Unary::Log => |x, t| each(x, t, T::ln),
        Unary::Log2 => |x, t| each(x, t, T::log2),
        Unary::Log10 => |x, t| each(x, t, T::log10),
        Unary::Log1p => |x, t| each(x, t, T::ln_1p),
        Unary::Sin => |x, t| each(x, t, T::sin),
        Unary::Cos => |x, t| each(x, t, T::cos),
        Unary::Tan => |x, t| each(x, t, T::tan),
        Unary::Asin => |x, t| each(x, t, T::asin),
        Unary::Acos => |x, t| each(x, t, T::acos),
        Unary::Atan => |x, t| each(x, t, T::atan),
        Unary::Sinh => |x, t| each(x, t, T::sinh),
        Unary::Cosh => |x, t| each(x, t, T::cosh),
        Unary::Tanh => |x, t| each(x, t, T::tanh),
        _ => return None,
    })
}

/// -1, 0 or 1; zeros keep their sign, and NaN stays.
fn sign<T: Real>(x: T) -> T {
    if x > T::zero() {
        T::one()
    } else if x < T::zero() {
        -T::one()
    } else {
        x
    }
}

fn test<T: Real>(op: Unary) -> Kernel<T, u8> {
    match op {
        Unary::IsNan => |x, t| each(x, t, |x: T| u8::from(Float::is_nan(x))),
        Unary::IsInf => |x, t| each(x, t, |x: T| u8::from(Float::is_infinite(x))),
        _ => |x, t| each(x, t, |x: T| u8::from(Float::is_finite(x))),
    }
}

#[cold]
fn missing(op: Unary, dtype: DType) -> Error {
    Error::backend(format!("{op:?} has no kernel for {dtype}"))
}

/// Functions that are the same for signed and unsigned integers. All wrap.
fn bits<B: Bits>(op: Unary, dtype: DType) -> Result<Kernel<B, B>> {
    Ok(match (op, dtype) {
        (Unary::Not, _) | (Unary::BitNot, DType::Bool) => |x, t| each(x, t, |x: B| x ^ B::one()),
        (Unary::BitNot, _) => |x, t| each(x, t, |x: B| !x),
        (Unary::Neg, _) => |x, t| each(x, t, |x: B| B::zero().wrapping_sub(&x)),
        (Unary::Square, _) => |x, t| each(x, t, |x: B| x.wrapping_mul(&x)),
        (op, dtype) => return Err(missing(op, dtype)),
    })
}

/// Functions that tell signed from unsigned integers.
fn int<T: Int>(op: Unary) -> Result<Kernel<T, T>> {
    Ok(match op {
        Unary::Abs => |x, t| each(x, t, |x: T| if x < T::zero() { T::zero().wrapping_sub(&x) } else { x }),
        // All bits set is -1, and of an unsigned type nothing is below 0.
        Unary::Sign => |x, t| each(x, t, |x: T| if x < T::zero() { !T::zero() } else { x.min(T::one()) }),
        Unary::Relu => |x, t| each(x, t, |x: T| x.max(T::zero())),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => |x, t| each(x, t, |x| x),
        op => return Err(missing(op, T::DTYPE)),
    })
}

/// Values held between bounds.
pub fn clamp(pool: &HostPool, op: &Clamp, x: &mut Operand<'_>) -> Result<Buffer> {
    struct Go<'r, 'v>(&'r HostPool, &'r Clamp, &'r mut Operand<'v>);
    impl WithNumber for Go<'_, '_> {
        type Output = Result<Buffer>;
        fn run<T: Number>(self) -> Result<Buffer> {
            let Go(pool, op, x) = self;
            let bound = |b: Option<Scalar>| b.map(|b| b.to_bits::<T>(x.dtype)).transpose();
            let (min, max) = (bound(op.min)?, bound(op.max)?);
            let hold = move |x| {
                let low = min.map_or(x, |min| if x < min { min } else { x });
                max.map_or(low, |max| if low > max { max } else { low })
            };
            run(pool, x, &map_bits(move |x: &[T], t: Target<'_, T>| each(x, t, hold)))
        }
    }
    with_number(x.dtype, Go(pool, op, x))
}
