//! The elementary functions of one argument as a table.

use std::mem::MaybeUninit;

use super::super::elementwise::{Map1, unary};
#[cfg(test)]
use super::super::{Level, elementwise::UnaryLoop, vectorize_with};
use super::functions::*;

/// An elementary function of one argument.
pub struct Unary {
    /// The name of the op that computes it.
    pub name: &'static str,
    /// Maps elements, and initialises all of its target. Panics if lengths differ.
    pub f32: fn(&[f32], &mut [MaybeUninit<f32>]),
    /// Maps elements with a given instruction set.
    #[cfg(test)]
    pub(super) f32_at: fn(Level, &[f32], &mut [MaybeUninit<f32>]),
}

impl Unary {
    /// Finds a function.
    pub fn find(name: &str) -> Option<&'static Unary> {
        UNARY.iter().find(|function| function.name == name)
    }
}

/// Every elementary function of one argument.
pub static UNARY: &[Unary] = &[
    one::<Exp>("exp"),
    one::<Exp2>("exp2"),
    one::<Expm1>("expm1"),
    one::<Ln>("log"),
    one::<Log2>("log2"),
    one::<Log10>("log10"),
    one::<Log1p>("log1p"),
    one::<Sqrt>("sqrt"),
    one::<Rsqrt>("rsqrt"),
    one::<Cbrt>("cbrt"),
    one::<Recip>("recip"),
    one::<Asin>("asin"),
    one::<Acos>("acos"),
    one::<Atan>("atan"),
    one::<Sinh>("sinh"),
    one::<Cosh>("cosh"),
    one::<Tanh>("tanh"),
    one::<Asinh>("asinh"),
    one::<Acosh>("acosh"),
    one::<Atanh>("atanh"),
    one::<Erf>("erf"),
    one::<Erfc>("erfc"),
    one::<Sigmoid>("sigmoid"),
    one::<Silu>("silu"),
    one::<Gelu>("gelu"),
    one::<GeluTanh>("gelu_tanh"),
    one::<Sin>("sin"),
    one::<Cos>("cos"),
    one::<Tan>("tan"),
];

/// A row of [`UNARY`].
const fn one<M: Map1<f32, f32> + Default>(name: &'static str) -> Unary {
    Unary {
        name,
        f32: |source, target| unary(M::default(), source, target),
        #[cfg(test)]
        f32_at: |level, source, target| vectorize_with(level, UnaryLoop { map: M::default(), source, target }),
    }
}
