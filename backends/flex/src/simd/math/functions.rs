//! The functions as types: a loop has to be compiled for each function, and types select what it is compiled for.

use super::super::elementwise::{Map1, Map2};
use super::super::{Isa, Portable};
use super::trigonometric::{REDUCIBLE, cos_reducible, sin_reducible, tan_reducible};

/// Rows are `Type function`, for functions of one argument.
macro_rules! unary_types {
    ($($Type:ident $function:ident,)*) => {$(
        #[doc = concat!("[`", stringify!($function), "`](super::", stringify!($function), ") as a type.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Type;

        impl Map1<f32, f32> for $Type {
            #[inline(always)]
            fn apply<S: Isa>(self, x: f32) -> f32 {
                super::$function::<S>(x)
            }
        }
    )*};
}

unary_types! {
    Exp exp,
    Exp2 exp2,
    Expm1 expm1,
    Ln ln,
    Log2 log2,
    Log10 log10,
    Log1p log1p,
    Sqrt sqrt,
    Rsqrt rsqrt,
    Cbrt cbrt,
    Recip recip,
    Asin asin,
    Acos acos,
    Atan atan,
    Sinh sinh,
    Cosh cosh,
    Tanh tanh,
    Asinh asinh,
    Acosh acosh,
    Atanh atanh,
    Erf erf,
    Erfc erfc,
    Sigmoid sigmoid,
    Silu silu,
    Gelu gelu,
    GeluTanh gelu_tanh,
}

/// Rows are `Type function fast-form`, for circular functions, whose fast forms need moderate arguments.
macro_rules! circular_types {
    ($($Type:ident $function:ident $fast:ident,)*) => {$(
        #[doc = concat!("[`", stringify!($function), "`](super::", stringify!($function), ") as a type.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Type;

        impl Map1<f32, f32> for $Type {
            const PARTIAL: bool = true;

            #[inline(always)]
            fn covers(self, x: f32) -> bool {
                x.abs() <= REDUCIBLE
            }

            #[inline(always)]
            fn apply<S: Isa>(self, x: f32) -> f32 {
                $fast::<S>(x)
            }

            #[inline(always)]
            fn apply_anywhere(self, x: f32) -> f32 {
                super::$function::<Portable>(x)
            }
        }
    )*};
}

circular_types! {
    Sin sin sin_reducible,
    Cos cos cos_reducible,
    Tan tan tan_reducible,
}

/// Rows are `Type function`, for functions of two arguments.
macro_rules! binary_types {
    ($($Type:ident $function:ident,)*) => {$(
        #[doc = concat!("[`", stringify!($function), "`](super::", stringify!($function), ") as a type.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $Type;

        impl Map2<f32, f32, f32> for $Type {
            #[inline(always)]
            fn apply<S: Isa>(self, a: f32, b: f32) -> f32 {
                super::$function::<S>(a, b)
            }
        }
    )*};
}

binary_types! {
    Pow pow,
    Atan2 atan2,
    Hypot hypot,
}
