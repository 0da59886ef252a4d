//! Element-wise functions of two operands, or of one and a scalar.

use bytemuck::Pod;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::{Operand, View};
use ubique_core::op::binary::{Binary, BinaryScalar};
use ubique_core::{DType, Error, Result, Scalar, TensorSpec};

use super::dtype::{Bits, Int, Real, WithBits, WithInt, with_bits, with_int};
use super::walk::{self, Lane, Pair, Target, both, both_commutative, both_slow, pair_bits};
use crate::view::{contiguous, reusable};

/// Maps two lanes to a third.
type Kernel<T> = fn(Lane<'_, T>, Lane<'_, T>, Target<'_, T>);

/// A function and its operands.
struct Call<'r, 'v> {
    pool: &'r HostPool,
    op: Binary,
    left: &'r mut Operand<'v>,
    right: Right<'r, 'v>,
    /// Whether the operands change places.
    reversed: bool,
    out: &'r TensorSpec,
}

/// The second operand.
enum Right<'r, 'v> {
    Tensor(&'r mut Operand<'v>),
    Scalar(Scalar),
}

/// Runs a function of two tensors.
pub fn binary<'v>(
    pool: &HostPool,
    op: Binary,
    left: &mut Operand<'v>,
    right: &mut Operand<'v>,
    out: &TensorSpec,
) -> Result<Buffer> {
    arithmetic(Call { pool, op, left, right: Right::Tensor(right), reversed: false, out })
}

/// Runs a function of a tensor and a scalar.
pub fn scalar(pool: &HostPool, op: &BinaryScalar, left: &mut Operand<'_>, out: &TensorSpec) -> Result<Buffer> {
    let BinaryScalar { op, scalar, reversed } = *op;
    arithmetic(Call { pool, op, left, right: Right::Scalar(scalar), reversed, out })
}

fn arithmetic(call: Call<'_, '_>) -> Result<Buffer> {
    struct OnBits<'r, 'v>(Call<'r, 'v>);
    impl WithBits for OnBits<'_, '_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let kernel = bits::<B>(self.0.op, self.0.out.dtype)?;
            run(self.0, &pair_bits(kernel))
        }
    }
    struct OnInts<'r, 'v>(Call<'r, 'v>);
    impl WithInt for OnInts<'_, '_> {
        type Output = Result<Buffer>;
        fn run<T: Int>(self) -> Result<Buffer> {
            let kernel = int::<T>(self.0.op)?;
            run(self.0, &pair_bits(kernel))
        }
    }
    match (call.out.dtype, call.op) {
        (DType::F32, op) => run(call, &pair_bits(real::<f32>(op)?)),
        (DType::F64, op) => run(call, &pair_bits(real::<f64>(op)?)),
        (dtype, Binary::Add | Binary::Sub | Binary::Mul | Binary::And | Binary::Or | Binary::Xor | Binary::Shl) => {
            with_bits(dtype, OnBits(call))
        }
        (dtype, _) => with_int(dtype, OnInts(call)),
    }
}

/// Runs a kernel, over an operand that was given away where that is possible.
fn run<B: Pod>(call: Call<'_, '_>, kernel: &Pair<'_, B, B>) -> Result<Buffer> {
    let Call { pool, left, right, reversed, out, .. } = call;
    match right {
        Right::Scalar(scalar) => {
            let scalar = scalar.to_bits::<B>(out.dtype)?;
            if let Operand::Own(view) = left
                && let Some(data) = reusable::<B>(view)
            {
                walk::zip_in_place(data, Lane::Scalar(scalar), reversed, kernel);
                return Ok(view.buffer.clone());
            }
            walk::with_scalar(pool, left, scalar, reversed, kernel)
        }
        Right::Tensor(right) => {
            if let Some(buffer) = over(left, right, false, out, kernel)? {
                return Ok(buffer);
            }
            if let Some(buffer) = over(right, left, true, out, kernel)? {
                return Ok(buffer);
            }
            walk::zip(pool, left, right, &out.shape, kernel)
        }
    }
}

/// Writes over `owned` where that was given away, is unique, and lies in the same order as the other operand.
fn over<B: Pod>(
    owned: &mut Operand<'_>,
    other: &View,
    reversed: bool,
    out: &TensorSpec,
    kernel: &Pair<'_, B, B>,
) -> Result<Option<Buffer>> {
    let Operand::Own(view) = owned else { return Ok(None) };
    if view.shape() != &out.shape || other.shape() != &out.shape {
        return Ok(None);
    }
    let (Some(slice), Some(data)) = (contiguous::<B>(other)?, reusable::<B>(view)) else { return Ok(None) };
    walk::zip_in_place(data, Lane::Slice(slice), reversed, kernel);
    Ok(Some(view.buffer.clone()))
}

#[cold]
fn missing(op: Binary, dtype: DType) -> Error {
    Error::backend(format!("{op:?} has no kernel for {dtype}"))
}

/// Functions of floats. NaN goes through the larger and the smaller.
fn real<T: Real>(op: Binary) -> Result<Kernel<T>> {
    Ok(match op {
        Binary::Add => |a, b, t| both_commutative(a, b, t, |a: T, b: T| a + b),
        Binary::Sub => |a, b, t| both(a, b, t, |a: T, b: T| a - b),
        Binary::Mul => |a, b, t| both_commutative(a, b, t, |a: T, b: T| a * b),
        Binary::Div => |a, b, t| both(a, b, t, |a: T, b: T| a / b),
        Binary::Max => |a, b, t| both_commutative(a, b, t, |a: T, b: T| if a > b || a.is_nan() { a } else { b }),
        Binary::Min => |a, b, t| both_commutative(a, b, t, |a: T, b: T| if a < b || a.is_nan() { a } else { b }),
        Binary::Pow => |a, b, t| both_slow(a, b, t, T::powf),
        Binary::Atan2 => |a, b, t| both_slow(a, b, t, T::atan2),
        Binary::Hypot => |a, b, t| both_slow(a, b, t, T::hypot),
        Binary::Fmod => |a, b, t| both_slow(a, b, t, |a: T, b: T| a % b),
        Binary::Rem => |a, b, t| both_slow(a, b, t, floor_mod),
        op => return Err(missing(op, T::DTYPE)),
    })
}

/// Remainder with the sign of the divisor, also where it is 0.
fn floor_mod<T: Real>(a: T, b: T) -> T {
    let r = a % b;
    match r == T::zero() {
        true => T::zero().copysign(b),
        false if (r < T::zero()) != (b < T::zero()) => r + b,
        false => r,
    }
}

/// Functions that are the same for signed and unsigned integers, and, as logic, for bools. All wrap.
fn bits<B: Bits>(op: Binary, dtype: DType) -> Result<Kernel<B>> {
    Ok(match (op, dtype) {
        (Binary::Add, DType::Bool) | (Binary::Or, _) => |a, b, t| both_commutative(a, b, t, |a: B, b: B| a | b),
        (Binary::Mul, DType::Bool) | (Binary::And, _) => |a, b, t| both_commutative(a, b, t, |a: B, b: B| a & b),
        (Binary::Xor, _) => |a, b, t| both_commutative(a, b, t, |a: B, b: B| a ^ b),
        (Binary::Add, _) => |a, b, t| both_commutative(a, b, t, |a: B, b: B| a.wrapping_add(&b)),
        (Binary::Sub, _) => |a, b, t| both(a, b, t, |a: B, b: B| a.wrapping_sub(&b)),
        (Binary::Mul, _) => |a, b, t| both_commutative(a, b, t, |a: B, b: B| a.wrapping_mul(&b)),
        // A negative count is, without its sign, a large one.
        (Binary::Shl, _) => |a, b, t| both(a, b, t, |a: B, b: B| count(b).map_or(B::zero(), |n| a << n)),
        (op, dtype) => return Err(missing(op, dtype)),
    })
}

/// A shift's count where it is below the width.
fn count<T: Bits>(b: T) -> Option<usize> {
    b.to_usize().filter(|&n| n < 8 * size_of::<T>())
}

/// Functions that tell signed from unsigned integers. Division by 0 gives 0, and what does not fit wraps.
fn int<T: Int>(op: Binary) -> Result<Kernel<T>> {
    Ok(match op {
        // Besides 0 only the smallest number divided by -1 has no quotient: wrapped, it is itself.
        Binary::Div => {
            |a, b, t| both_slow(a, b, t, |a: T, b: T| if b.is_zero() { b } else { a.checked_div(&b).unwrap_or(a) })
        }
        Binary::Fmod => |a, b, t| both_slow(a, b, t, fmod),
        Binary::Rem => |a, b, t| {
            both_slow(a, b, t, |a: T, b: T| {
                let r = fmod(a, b);
                if r.is_zero() || (r < T::zero()) == (b < T::zero()) { r } else { r + b }
            })
        },
        Binary::Pow => |a, b, t| both_slow(a, b, t, power),
        Binary::Max => |a, b, t| both_commutative(a, b, t, T::max),
        Binary::Min => |a, b, t| both_commutative(a, b, t, T::min),
        Binary::Shr => |a, b, t| {
            both_slow(a, b, t, |a: T, b: T| match count(b) {
                Some(n) => a >> n,
                None if a < T::zero() => !T::zero(),
                None => T::zero(),
            })
        },
        op => return Err(missing(op, T::DTYPE)),
    })
}

fn fmod<T: Int>(a: T, b: T) -> T {
    a.checked_rem(&b).unwrap_or(T::zero())
}

/// By squaring, wrapping. A negative exponent gives 0 unless the base is 1 or -1.
fn power<T: Int>(mut base: T, mut exponent: T) -> T {
    if exponent < T::zero() {
        let odd = exponent & T::one() == T::one();
        return match base {
            base if base == T::one() || base == !T::zero() && odd => base,
            base if base == !T::zero() => T::one(),
            _ => T::zero(),
        };
    }
    let mut result = T::one();
    while exponent > T::zero() {
        if exponent & T::one() == T::one() {
            result = result.wrapping_mul(&base);
        }
        base = base.wrapping_mul(&base);
        exponent = exponent >> 1;
    }
    result
}
