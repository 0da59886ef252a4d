//! Elementwise functions and comparisons of two operands, or of one and a scalar.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Operand, View};
use ubique_core::op::binary::{Binary, BinaryScalar, Compare, CompareScalar};
use ubique_core::{DType, Element, Error, Result, Scalar, TensorSpec};

use super::dtype::{for_element, for_int};
use super::rows::{self, Source};
use crate::executor::Context;
use crate::memory::{contiguous, elements, reusable};
use crate::simd::elementwise::{self as lanes, Operand as Lane};
use crate::simd::half::Half;
use crate::simd::math;

/// Maps two operands to a slice, and initialises all of it.
type Slices<A, B> = fn(Lane<'_, A>, Lane<'_, A>, &mut [MaybeUninit<B>]);

/// Runs a function of two tensors.
#[inline]
pub fn binary(
    context: &Context,
    op: Binary,
    a: &mut Operand<'_>,
    b: &mut Operand<'_>,
    out: &TensorSpec,
) -> Result<Buffer> {
    arithmetic(context, op, Right::Tensor(b), a, false, out)
}

/// Runs a function of a tensor and a scalar.
#[inline]
pub fn scalar(context: &Context, op: &BinaryScalar, x: &mut Operand<'_>, out: &TensorSpec) -> Result<Buffer> {
    arithmetic(context, op.op, Right::Scalar(op.scalar), x, op.reversed, out)
}

/// The second operand.
enum Right<'r, 'v> {
    Tensor(&'r mut Operand<'v>),
    Scalar(Scalar),
}

fn arithmetic(
    context: &Context,
    op: Binary,
    right: Right<'_, '_>,
    left: &mut Operand<'_>,
    reversed: bool,
    out: &TensorSpec,
) -> Result<Buffer> {
    match left.dtype {
        DType::F32 => run::<f32>(context, right, left, reversed, out, float32(op)?),
        DType::F64 => run::<f64>(context, right, left, reversed, out, float64(op)?),
        DType::F16 => run_with::<f16, f16>(context, right, left, reversed, out, &through_f32(float32(op)?)),
        DType::BF16 => run_with::<bf16, bf16>(context, right, left, reversed, out, &through_f32(float32(op)?)),
        DType::Bool => run::<bool>(context, right, left, reversed, out, bools(op)?),
        other => for_int!(other, T => run::<T>(context, right, left, reversed, out, int::<T>(op)?)),
    }
}

/// As [`run_with`], writing over an operand that was given away where that is possible.
fn run<T: Element>(
    context: &Context,
    right: Right<'_, '_>,
    left: &mut Operand<'_>,
    reversed: bool,
    out: &TensorSpec,
    kernel: Slices<T, T>,
) -> Result<Buffer> {
    match right {
        Right::Scalar(scalar) => {
            if let Operand::Own(view) = left
                && let Some(data) = reusable::<T>(view)
            {
                in_place(context, data, &Other::Scalar(T::from_scalar(scalar)), reversed, kernel);
                return Ok(view.buffer.clone());
            }
            run_with(context, Right::Scalar(scalar), left, reversed, out, &kernel)
        }
        Right::Tensor(right) => {
            if let Some(buffer) = over(context, left, right, false, out, kernel)? {
                return Ok(buffer);
            }
            if let Some(buffer) = over(context, right, left, true, out, kernel)? {
                return Ok(buffer);
            }
            run_with(context, Right::Tensor(right), left, reversed, out, &kernel)
        }
    }
}

/// Writes over `owned` where that was given away, is unique, and lies in the same order as the other operand.
fn over<T: Element>(
    context: &Context,
    owned: &mut Operand<'_>,
    other: &View,
    reversed: bool,
    out: &TensorSpec,
    kernel: Slices<T, T>,
) -> Result<Option<Buffer>> {
    let Operand::Own(view) = owned else { return Ok(None) };
    if view.shape() != &out.shape || other.shape() != &out.shape {
        return Ok(None);
    }
    let (Some(slice), Some(data)) = (contiguous::<T>(other)?, reusable::<T>(view)) else { return Ok(None) };
    in_place(context, data, &Other::Slice(slice), reversed, kernel);
    Ok(Some(view.buffer.clone()))
}

/// The operand beside the one that is written over.
enum Other<'a, T> {
    Slice(&'a [T]),
    Scalar(T),
}

fn in_place<T: Element>(context: &Context, data: &mut [T], other: &Other<'_, T>, reversed: bool, kernel: Slices<T, T>) {
    const BLOCK: usize = 1024;
    context.threads.rows(data, 1, rows::GRAIN, &|start, part| {
        let mut block = [T::default(); BLOCK];
        let mut at = start;
        for piece in part.chunks_mut(BLOCK) {
            let source = &mut block[..piece.len()];
            source.copy_from_slice(piece);
            let len = piece.len();
            // SAFETY: same layout, and kernels initialise all of their target.
            let target = unsafe { &mut *(piece as *mut [T] as *mut [MaybeUninit<T>]) };
            let other = match other {
                Other::Slice(slice) => Lane::Slice(&slice[at..at + len]),
                Other::Scalar(scalar) => Lane::Scalar(*scalar),
            };
            let (a, b) = if reversed { (other, Lane::Slice(&*source)) } else { (Lane::Slice(&*source), other) };
            kernel(a, b, target);
            at += len;
        }
    });
}

/// Maps operands of any layout by a kernel on slices and scalars.
#[inline]
fn run_with<T: Element, U: Element>(
    context: &Context,
    right: Right<'_, '_>,
    left: &View,
    reversed: bool,
    out: &TensorSpec,
    kernel: &(dyn Fn(Lane<'_, T>, Lane<'_, T>, &mut [MaybeUninit<U>]) + Sync),
) -> Result<Buffer> {
    let mut result;
    match right {
        Right::Scalar(scalar) => {
            let scalar = T::from_scalar(scalar);
            let source = Source { data: elements::<T>(left)?, layout: (*left.layout).clone() };
            result = UninitBuffer::<U>::new(&context.pool, left.layout.elements())?;
            rows::map(&context.threads, source, result.as_mut_slice(), &|x: &[T], target| match reversed {
                false => kernel(Lane::Slice(x), Lane::Scalar(scalar), target),
                true => kernel(Lane::Scalar(scalar), Lane::Slice(x), target),
            });
        }
        Right::Tensor(right) => {
            let right: &View = right;
            match pair::<T>(left, right)? {
                Some((a, b)) => {
                    result = UninitBuffer::<U>::new(&context.pool, a.len())?;
                    kernel(Lane::Slice(a), Lane::Slice(b), result.as_mut_slice());
                }
                None => {
                    result = UninitBuffer::<U>::new(&context.pool, out.shape.elements()?)?;
                    let a = Source { data: elements::<T>(left)?, layout: left.layout.expand(&out.shape)? };
                    let b = Source { data: elements::<T>(right)?, layout: right.layout.expand(&out.shape)? };
                    rows::zip(&context.threads, a, b, result.as_mut_slice(), kernel);
                }
            }
        }
    }
    // SAFETY: the kernel is called for every part of the target, and initialises what it is given.
    Ok(unsafe { result.assume_init() })
}

/// The elements of two small operands that lie in the same order: no loop over rows is worth setting up for these.
#[inline]
fn pair<'a, T: Element>(left: &'a View, right: &'a View) -> Result<Option<(&'a [T], &'a [T])>> {
    if left.layout.elements() > rows::GRAIN || left.shape() != right.shape() {
        return Ok(None);
    }
    Ok(contiguous::<T>(left)?.zip(contiguous::<T>(right)?))
}

fn missing(op: Binary, dtype: DType) -> Error {
    Error::backend(format!("{op:?} has no kernel for {dtype}"))
}

fn float32(op: Binary) -> Result<Slices<f32, f32>> {
    Ok(match op {
        Binary::Add => |a, b, t| lanes::binary(|a: f32, b: f32| a + b, a, b, t),
        Binary::Sub => |a, b, t| lanes::binary(|a: f32, b: f32| a - b, a, b, t),
        Binary::Mul => |a, b, t| lanes::binary(|a: f32, b: f32| a * b, a, b, t),
        Binary::Div => |a, b, t| lanes::binary(|a: f32, b: f32| a / b, a, b, t),
        Binary::Max => |a, b, t| lanes::binary(|a: f32, b: f32| if a > b || a.is_nan() { a } else { b }, a, b, t),
        Binary::Min => |a, b, t| lanes::binary(|a: f32, b: f32| if a < b || a.is_nan() { a } else { b }, a, b, t),
        Binary::Pow => |a, b, t| lanes::binary(math::Pow, a, b, t),
        Binary::Atan2 => |a, b, t| lanes::binary(math::Atan2, a, b, t),
        Binary::Hypot => |a, b, t| lanes::binary(math::Hypot, a, b, t),
        Binary::Rem => {
            |a, b, t| lanes::binary(|a: f32, b: f32| Binary::Rem.eval_float(a as f64, b as f64) as f32, a, b, t)
        }
        Binary::Fmod => |a, b, t| lanes::binary(|a: f32, b: f32| a % b, a, b, t),
        op => return Err(missing(op, DType::F32)),
    })
}

fn float64(op: Binary) -> Result<Slices<f64, f64>> {
    Ok(match op {
        Binary::Add => |a, b, t| lanes::binary(|a: f64, b: f64| a + b, a, b, t),
        Binary::Sub => |a, b, t| lanes::binary(|a: f64, b: f64| a - b, a, b, t),
        Binary::Mul => |a, b, t| lanes::binary(|a: f64, b: f64| a * b, a, b, t),
        Binary::Div => |a, b, t| lanes::binary(|a: f64, b: f64| a / b, a, b, t),
        Binary::Max => |a, b, t| lanes::binary(|a: f64, b: f64| if a > b || a.is_nan() { a } else { b }, a, b, t),
        Binary::Min => |a, b, t| lanes::binary(|a: f64, b: f64| if a < b || a.is_nan() { a } else { b }, a, b, t),
        Binary::Pow => |a, b, t| plain(a, b, t, f64::powf),
        Binary::Atan2 => |a, b, t| plain(a, b, t, f64::atan2),
        Binary::Hypot => |a, b, t| plain(a, b, t, f64::hypot),
        Binary::Rem => |a, b, t| plain(a, b, t, |a, b| Binary::Rem.eval_float(a, b)),
        Binary::Fmod => |a, b, t| plain(a, b, t, |a, b| a % b),
        op => return Err(missing(op, DType::F64)),
    })
}

/// Element by element, for functions that do not vectorise and for integers, whose loops the compiler vectorises for
/// the baseline: a copy of each for every instruction set would cost more build time than it saves run time.
#[inline(always)]
fn plain<A: Copy, B>(a: Lane<'_, A>, b: Lane<'_, A>, target: &mut [MaybeUninit<B>], f: impl Fn(A, A) -> B) {
    match (a, b) {
        (Lane::Slice(a), Lane::Slice(b)) => target.iter_mut().zip(a).zip(b).for_each(|((t, &a), &b)| {
            t.write(f(a, b));
        }),
        (Lane::Slice(a), Lane::Scalar(b)) => target.iter_mut().zip(a).for_each(|(t, &a)| {
            t.write(f(a, b));
        }),
        (Lane::Scalar(a), Lane::Slice(b)) => target.iter_mut().zip(b).for_each(|(t, &b)| {
            t.write(f(a, b));
        }),
        (Lane::Scalar(a), Lane::Scalar(b)) => target.iter_mut().for_each(|t| {
            t.write(f(a, b));
        }),
    }
}

/// A kernel of f32 for half-precision elements, in blocks.
fn through_f32<H: Half>(
    kernel: Slices<f32, f32>,
) -> impl Fn(Lane<'_, H>, Lane<'_, H>, &mut [MaybeUninit<H>]) + Sync + Send {
    // SAFETY: kernels initialise all of their target.
    move |a, b, target| unsafe { lanes::binary_half_with(kernel, a, b, target) }
}

/// What the integer functions need; all wrap, and division by zero gives 0.
trait Int: Element + Ord {
    const BITS: i128;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn fmod(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn shl(self, other: Self) -> Self;
    fn shr(self, other: Self) -> Self;
}

macro_rules! ints {
    ($($ty:ident)*) => {$(
        impl Int for $ty {
            const BITS: i128 = $ty::BITS as i128;
            #[inline(always)]
            fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            #[inline(always)]
            fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            #[inline(always)]
            fn mul(self, b: Self) -> Self { self.wrapping_mul(b) }
            #[inline(always)]
            fn div(self, b: Self) -> Self { if b == 0 { 0 } else { self.wrapping_div(b) } }
            #[inline(always)]
            fn rem(self, b: Self) -> Self { Binary::Rem.eval_int(self as i128, b as i128, Self::DTYPE) as $ty }
            #[inline(always)]
            fn fmod(self, b: Self) -> Self { if b == 0 { 0 } else { self.wrapping_rem(b) } }
            #[inline(always)]
            fn pow(self, b: Self) -> Self { Binary::Pow.eval_int(self as i128, b as i128, Self::DTYPE) as $ty }
            #[inline(always)]
            fn and(self, b: Self) -> Self { self & b }
            #[inline(always)]
            fn or(self, b: Self) -> Self { self | b }
            #[inline(always)]
            fn xor(self, b: Self) -> Self { self ^ b }
            #[inline(always)]
            fn shl(self, b: Self) -> Self { if (0..<Self as Int>::BITS).contains(&(b as i128)) { self.wrapping_shl(b as u32) } else { 0 } }
            #[inline(always)]
            fn shr(self, b: Self) -> Self { Binary::Shr.eval_int(self as i128, b as i128, Self::DTYPE) as $ty }
        }
    )*};
}
ints! { i64 i32 i16 i8 u64 u32 u16 u8 }

fn int<T: Int>(op: Binary) -> Result<Slices<T, T>> {
    Ok(match op {
        Binary::Add => |a, b, t| plain(a, b, t, T::add),
        Binary::Sub => |a, b, t| plain(a, b, t, T::sub),
        Binary::Mul => |a, b, t| plain(a, b, t, T::mul),
        Binary::Div => |a, b, t| plain(a, b, t, T::div),
        Binary::Rem => |a, b, t| plain(a, b, t, T::rem),
        Binary::Fmod => |a, b, t| plain(a, b, t, T::fmod),
        Binary::Pow => |a, b, t| plain(a, b, t, T::pow),
        Binary::Max => |a, b, t| plain(a, b, t, T::max),
        Binary::Min => |a, b, t| plain(a, b, t, T::min),
        Binary::And => |a, b, t| plain(a, b, t, T::and),
        Binary::Or => |a, b, t| plain(a, b, t, T::or),
        Binary::Xor => |a, b, t| plain(a, b, t, T::xor),
        Binary::Shl => |a, b, t| plain(a, b, t, T::shl),
        Binary::Shr => |a, b, t| plain(a, b, t, T::shr),
        op => return Err(missing(op, T::DTYPE)),
    })
}

fn bools(op: Binary) -> Result<Slices<bool, bool>> {
    Ok(match op {
        Binary::Add | Binary::Max | Binary::Or => |a, b, t| plain(a, b, t, |a, b| a | b),
        Binary::Mul | Binary::Min | Binary::And => |a, b, t| plain(a, b, t, |a, b| a & b),
        Binary::Xor => |a, b, t| plain(a, b, t, |a, b| a ^ b),
        op => return Err(missing(op, DType::Bool)),
    })
}

/// Compares two tensors.
pub fn compare(
    context: &Context,
    op: Compare,
    a: &mut Operand<'_>,
    b: &mut Operand<'_>,
    out: &TensorSpec,
) -> Result<Buffer> {
    comparison(context, op, a, Right::Tensor(b), out)
}

/// Compares a tensor with a scalar.
pub fn compare_scalar(context: &Context, op: &CompareScalar, x: &Operand<'_>, out: &TensorSpec) -> Result<Buffer> {
    comparison(context, op.op, x, Right::Scalar(op.scalar), out)
}

fn comparison(context: &Context, op: Compare, a: &View, right: Right<'_, '_>, out: &TensorSpec) -> Result<Buffer> {
    fn go<T: Element + PartialOrd>(
        context: &Context,
        op: Compare,
        a: &View,
        right: Right<'_, '_>,
        out: &TensorSpec,
    ) -> Result<Buffer> {
        let kernel: Slices<T, bool> = match op {
            Compare::Eq => |a, b, t| plain(a, b, t, |a, b| a == b),
            Compare::Ne => |a, b, t| plain(a, b, t, |a, b| a != b),
            Compare::Lt => |a, b, t| plain(a, b, t, |a, b| a < b),
            Compare::Le => |a, b, t| plain(a, b, t, |a, b| a <= b),
            Compare::Gt => |a, b, t| plain(a, b, t, |a, b| a > b),
            Compare::Ge => |a, b, t| plain(a, b, t, |a, b| a >= b),
        };
        run_with::<T, bool>(context, right, a, false, out, &kernel)
    }
    for_element!(a.dtype, T => go::<T>(context, op, a, right, out))
}
