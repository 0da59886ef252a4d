//! Elementwise functions of one operand.

use std::mem::MaybeUninit;
use std::sync::LazyLock;

use half::{bf16, f16};
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Operand, View};
use ubique_core::op::Rule;
use ubique_core::op::unary::Unary;
use ubique_core::{DType, Element, Error, Result};

use super::dtype::{for_float, for_int};
use super::rows::{self, Source};
use crate::executor::Context;
use crate::memory::{elements, reusable};
use crate::simd::elementwise::{Map1, in_place_with, unary as vector, unary_half_with};
use crate::simd::half::Half;
use crate::simd::{Isa, math};

/// Maps a slice to a slice of the same length, and initialises all of it.
pub type Slices<A, B> = fn(&[A], &mut [MaybeUninit<B>]);

/// Every function of the family has a kernel.
pub fn supports(_op: Unary) -> bool {
    true
}

/// Runs a function.
pub fn unary(context: &Context, op: Unary, x: &mut Operand<'_>) -> Result<Buffer> {
    if matches!(op, Unary::IsNan | Unary::IsInf | Unary::IsFinite) {
        return for_float!(x.dtype, T => run::<T, bool>(context, x, &test::<T>(op)));
    }
    match x.dtype {
        DType::F32 => {
            let kernel = float32(op);
            if let Operand::Own(view) = x
                && let Some(data) = reusable::<f32>(view)
            {
                in_place(context, data, kernel);
                return Ok(view.buffer.clone());
            }
            run::<f32, f32>(context, x, &|source, target| kernel(source, target))
        }
        DType::F64 => {
            let f = op.float_fn();
            run::<f64, f64>(context, x, &move |source, target| each(source, target, f))
        }
        DType::F16 => run::<f16, f16>(context, x, &through_f32(float32(op))),
        DType::BF16 => run::<bf16, bf16>(context, x, &through_f32(float32(op))),
        DType::Bool => run::<bool, bool>(context, x, &|source, target| each(source, target, |b| !b)),
        other => for_int!(other, T => run::<T, T>(context, x, &int::<T>(op)?)),
    }
}

/// Maps an operand of any layout by a kernel on slices.
pub fn run<A: Element, B: Element>(
    context: &Context,
    x: &View,
    kernel: &(dyn Fn(&[A], &mut [MaybeUninit<B>]) + Sync),
) -> Result<Buffer> {
    let mut out = UninitBuffer::<B>::new(&context.pool, x.layout.elements())?;
    let source = Source { data: elements::<A>(x)?, layout: (*x.layout).clone() };
    rows::map(&context.threads, source, out.as_mut_slice(), kernel);
    // SAFETY: the kernel is called for every part of the target, and initialises what it is given.
    Ok(unsafe { out.assume_init() })
}

/// Maps elements one by one.
#[inline(always)]
pub fn each<A: Copy, B>(source: &[A], target: &mut [MaybeUninit<B>], f: impl Fn(A) -> B) {
    for (slot, &value) in target.iter_mut().zip(source) {
        slot.write(f(value));
    }
}

fn in_place(context: &Context, data: &mut [f32], kernel: Slices<f32, f32>) {
    // SAFETY: kernels initialise all of their target.
    context.threads.rows(data, 1, rows::GRAIN, &|_, part| unsafe { in_place_with(kernel, part) });
}

/// A kernel of f32 for half-precision elements, in blocks.
pub fn through_f32<H: Half>(kernel: Slices<f32, f32>) -> impl Fn(&[H], &mut [MaybeUninit<H>]) + Sync + Send {
    // SAFETY: kernels initialise all of their target.
    move |source, target| unsafe { unary_half_with(kernel, source, target) }
}

fn test<T: Element>(op: Unary) -> impl Fn(&[T], &mut [MaybeUninit<bool>]) + Sync + Send {
    let f: fn(f64) -> bool = match op {
        Unary::IsNan => f64::is_nan,
        Unary::IsInf => f64::is_infinite,
        _ => f64::is_finite,
    };
    move |source, target| each(source, target, |x: T| f(x.to_scalar().as_f64()))
}

/// The f32 kernel of every function of floats.
fn float32(op: Unary) -> Slices<f32, f32> {
    static TABLE: LazyLock<Vec<Slices<f32, f32>>> = LazyLock::new(|| Unary::ALL.iter().map(|&op| choose(op)).collect());
    TABLE.get(op as usize).copied().unwrap_or(|source, target| each(source, target, |x| x))
}

fn choose(op: Unary) -> Slices<f32, f32> {
    match op {
        Unary::Abs => |s, t| vector(f32::abs, s, t),
        Unary::Neg => |s, t| vector(|x: f32| -x, s, t),
        Unary::Sign => |s, t| {
            vector(
                |x: f32| {
                    if x > 0.0 {
                        1.0
                    } else if x < 0.0 {
                        -1.0
                    } else {
                        x
                    }
                },
                s,
                t,
            )
        },
        Unary::Square => |s, t| vector(|x: f32| x * x, s, t),
        Unary::Floor => |s, t| vector(f32::floor, s, t),
        Unary::Ceil => |s, t| vector(f32::ceil, s, t),
        Unary::Round => |s, t| vector(f32::round_ties_even, s, t),
        Unary::Trunc => |s, t| vector(f32::trunc, s, t),
        Unary::Fract => |s, t| vector(|x: f32| x - x.trunc(), s, t),
        Unary::Relu => |s, t| vector(|x: f32| if x < 0.0 { 0.0 } else { x }, s, t),
        Unary::HardSigmoid => |s, t| {
            vector(
                |x: f32| {
                    let y = x * (1.0 / 6.0) + 0.5;
                    if y < 0.0 {
                        0.0
                    } else if y > 1.0 {
                        1.0
                    } else {
                        y
                    }
                },
                s,
                t,
            )
        },
        Unary::Softplus => |s, t| vector(Softplus, s, t),
        Unary::LogSigmoid => |s, t| vector(LogSigmoid, s, t),
        Unary::Mish => |s, t| vector(Mish, s, t),
        Unary::Selu => |s, t| vector(Selu, s, t),
        op => match math::Unary::find(op.name()) {
            Some(function) => function.f32,
            None => |s, t| each(s, t, |x| x),
        },
    }
}

/// Functions composed of others, as types that can be compiled for each instruction set.
macro_rules! composed {
    ($($(#[$doc:meta])* $name:ident => |$x:ident, $S:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;
        impl Map1<f32, f32> for $name {
            #[inline(always)]
            fn apply<$S: Isa>(self, $x: f32) -> f32 {
                $body
            }
        }
    )*};
}

composed! {
    /// log(1 + eˣ).
    Softplus => |x, S| softplus::<S>(x);
    /// -log(1 + e⁻ˣ).
    LogSigmoid => |x, S| -softplus::<S>(-x);
    /// x·tanh(softplus(x)); -0 at -∞ instead of NaN.
    Mish => |x, S| { let y = x * math::tanh::<S>(softplus::<S>(x)); if x == f32::NEG_INFINITY { -0.0 } else { y } };
    /// λx above 0, λα(eˣ - 1) below.
    Selu => |x, S| {
        let below = (1.050_701 * 1.673_263_2) * math::expm1::<S>(x);
        if x > 0.0 { 1.050_701 * x } else { below }
    };
}

#[inline(always)]
fn softplus<S: Isa>(x: f32) -> f32 {
    let above = if x < 0.0 { 0.0 } else { x };
    above + math::log1p::<S>(math::exp::<S>(-x.abs()))
}

/// What the integer functions need.
pub trait Int: Element {
    /// |x|, wrapping.
    fn abs(self) -> Self;
    /// -x, wrapping.
    fn neg(self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// x², wrapping.
    fn square(self) -> Self;
    /// max(x, 0).
    fn relu(self) -> Self;
    /// Every bit flipped.
    fn flipped(self) -> Self;
}

macro_rules! ints {
    ($($ty:ty: $abs:expr, $sign:expr, $relu:expr;)*) => {$(
        impl Int for $ty {
            #[inline(always)]
            fn abs(self) -> Self { $abs(self) }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn sign(self) -> Self { $sign(self) }
            #[inline(always)]
            fn square(self) -> Self { self.wrapping_mul(self) }
            #[inline(always)]
            fn relu(self) -> Self { $relu(self) }
            #[inline(always)]
            fn flipped(self) -> Self { !self }
        }
    )*};
}
ints! {
    i64: i64::wrapping_abs, i64::signum, |x: i64| x.max(0);
    i32: i32::wrapping_abs, i32::signum, |x: i32| x.max(0);
    i16: i16::wrapping_abs, i16::signum, |x: i16| x.max(0);
    i8: i8::wrapping_abs, i8::signum, |x: i8| x.max(0);
    u64: |x| x, |x: u64| x.min(1), |x| x;
    u32: |x| x, |x: u32| x.min(1), |x| x;
    u16: |x| x, |x: u16| x.min(1), |x| x;
    u8: |x| x, |x: u8| x.min(1), |x| x;
}

fn int<T: Int>(op: Unary) -> Result<Slices<T, T>> {
    Ok(match op {
        Unary::Abs => |s, t| each(s, t, T::abs),
        Unary::Neg => |s, t| each(s, t, T::neg),
        Unary::Sign => |s, t| each(s, t, T::sign),
        Unary::Square => |s, t| each(s, t, T::square),
        Unary::Relu => |s, t| each(s, t, T::relu),
        Unary::BitNot => |s, t| each(s, t, T::flipped),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => |s, t| each(s, t, |x| x),
        op => return Err(Error::backend(format!("{op:?} has no integer kernel"))),
    })
}
