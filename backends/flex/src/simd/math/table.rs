//! The elementary functions as a table, to find one by name and apply it to slices of any floating-point type.

use super::super::elementwise::{
    Map1, Map2, Operand, binary, binary_half_with, unary, unary_half_with, unary_in_place,
};
use super::super::half::Half;
#[cfg(test)]
use super::super::{
    Level,
    elementwise::{BinaryLoop, UnaryLoop},
    vectorize_with,
};
use super::functions::*;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};
use std::mem::MaybeUninit;

/// An elementary function of one argument.
pub struct Unary {
    name: &'static str,
    /// Maps `f32` elements; initialises all of its target.
    f32: fn(&[f32], &mut [MaybeUninit<f32>]),
    f32_in_place: fn(&mut [f32]),
    f64: fn(f64) -> f64,
    /// Maps elements with a given instruction set.
    #[cfg(test)]
    pub(super) f32_at: fn(Level, &[f32], &mut [MaybeUninit<f32>]),
}

impl Unary {
    /// Finds a function of one argument.
    pub fn find(name: &str) -> Option<&'static Unary> {
        UNARY.iter().find(|function| function.name == name)
    }

    /// The function's name, as in this module.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Writes the values for `source` to `target`, and thereby initialises all of it. Panics if lengths differ.
    pub fn f32(&self, source: &[f32], target: &mut [MaybeUninit<f32>]) {
        (self.f32)(source, target)
    }

    /// Replaces each element by its value.
    pub fn f32_in_place(&self, data: &mut [f32]) {
        (self.f32_in_place)(data)
    }

    /// Writes the values for `source`, computed in `f32`, to `target`, and thereby initialises all of it. Panics if
    /// lengths differ.
    pub fn half<H: Half>(&self, source: &[H], target: &mut [MaybeUninit<H>]) {
        // SAFETY: the table's functions initialise their target.
        unsafe { unary_half_with(self.f32, source, target) }
    }

    /// The value for one `f64`.
    pub fn f64(&self, x: f64) -> f64 {
        (self.f64)(x)
    }
}

/// An elementary function of two arguments.
pub struct Binary {
    name: &'static str,
    /// Maps `f32` elements; initialises all of its target.
    f32: BinaryFn,
    f64: fn(f64, f64) -> f64,
    /// Maps elements with a given instruction set.
    #[cfg(test)]
    pub(super) f32_at: BinaryAt,
}

type BinaryFn = fn(Operand<'_, f32>, Operand<'_, f32>, &mut [MaybeUninit<f32>]);

#[cfg(test)]
type BinaryAt = fn(Level, &[f32], &[f32], &mut [MaybeUninit<f32>]);

impl Binary {
    /// Finds a function of two arguments.
    pub fn find(name: &str) -> Option<&'static Binary> {
        BINARY.iter().find(|function| function.name == name)
    }

    /// The function's name, as in this module.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Writes the values for pairs of elements to `target`, and thereby initialises all of it. Panics if lengths
    /// differ.
    pub fn f32(&self, a: Operand<'_, f32>, b: Operand<'_, f32>, target: &mut [MaybeUninit<f32>]) {
        (self.f32)(a, b, target)
    }

    /// Writes the values for pairs of elements, computed in `f32`, to `target`, and thereby initialises all of it.
    /// Panics if lengths differ.
    pub fn half<H: Half>(&self, a: Operand<'_, H>, b: Operand<'_, H>, target: &mut [MaybeUninit<H>]) {
        // SAFETY: the table's functions initialise their target.
        unsafe { binary_half_with(self.f32, a, b, target) }
    }

    /// The value for one pair of `f64`.
    pub fn f64(&self, a: f64, b: f64) -> f64 {
        (self.f64)(a, b)
    }
}

/// Every elementary function of one argument.
pub static UNARY: &[Unary] = &[
    one::<Exp>("exp", f64::exp),
    one::<Exp2>("exp2", f64::exp2),
    one::<Expm1>("expm1", f64::exp_m1),
    one::<Ln>("ln", f64::ln),
    one::<Log2>("log2", f64::log2),
    one::<Log10>("log10", f64::log10),
    one::<Log1p>("log1p", f64::ln_1p),
    one::<Sqrt>("sqrt", f64::sqrt),
    one::<Rsqrt>("rsqrt", |x| 1.0 / x.sqrt()),
    one::<Recip>("recip", f64::recip),
    one::<Asin>("asin", f64::asin),
    one::<Acos>("acos", f64::acos),
    one::<Atan>("atan", f64::atan),
    one::<Sinh>("sinh", f64::sinh),
    one::<Cosh>("cosh", f64::cosh),
    one::<Tanh>("tanh", f64::tanh),
    one::<Asinh>("asinh", f64::asinh),
    one::<Acosh>("acosh", f64::acosh),
    one::<Atanh>("atanh", f64::atanh),
    one::<Erf>("erf", libm::erf),
    one::<Erfc>("erfc", libm::erfc),
    one::<Sigmoid>("sigmoid", sigmoid_f64),
    one::<Silu>("silu", |x| finite_below(x) * sigmoid_f64(x)),
    one::<Gelu>("gelu", |x| 0.5 * finite_below(x) * libm::erfc(-x * FRAC_1_SQRT_2)),
    one::<GeluTanh>("gelu_tanh", |x| {
        finite_below(x) * sigmoid_f64(2.0 * FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x))
    }),
    one::<Sin>("sin", f64::sin),
    one::<Cos>("cos", f64::cos),
    one::<Tan>("tan", f64::tan),
];

/// Every elementary function of two arguments.
pub static BINARY: &[Binary] =
    &[two::<Pow>("pow", f64::powf), two::<Atan2>("atan2", f64::atan2), two::<Hypot>("hypot", f64::hypot)];

/// A row of [`UNARY`].
const fn one<M: Map1<f32, f32> + Default>(name: &'static str, f64: fn(f64) -> f64) -> Unary {
    Unary {
        name,
        f32: |source, target| unary(M::default(), source, target),
        f32_in_place: |data| unary_in_place(M::default(), data),
        f64,
        #[cfg(test)]
        f32_at: |level, source, target| vectorize_with(level, UnaryLoop { map: M::default(), source, target }),
    }
}

/// A row of [`BINARY`].
const fn two<M: Map2<f32, f32, f32> + Default>(name: &'static str, f64: fn(f64, f64) -> f64) -> Binary {
    Binary {
        name,
        f32: |a, b, target| binary(M::default(), a, b, target),
        f64,
        #[cfg(test)]
        f32_at: |level, a, b, target| vectorize_with(level, BinaryLoop { map: M::default(), a, b, target }),
    }
}

/// −∞ as the least finite number, whose product with a vanishing factor is the limit −0 instead of NaN.
fn finite_below(x: f64) -> f64 {
    if x < f64::MIN { f64::MIN } else { x }
}

/// 1 / (1 + e^−x) without overflow.
fn sigmoid_f64(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}
