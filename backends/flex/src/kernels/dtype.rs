//! From a dtype to its element type, for kernels that need more of a type than every `Element` has.
//!
//! Macros, because a function could only be generic over one trait of the element types, and each family of kernels has
//! its own. In the body, the given name is the element type: `for_float!(x.dtype, T => run::<T>(context, x))`.

use ubique_core::{DType, Error, Result};

/// What a dtype gets that a family of kernels does not cover.
#[cold]
pub fn no_kernel<R>(dtype: DType) -> Result<R> {
    Err(Error::backend(format!("no kernel for {dtype}")))
}

/// The body for a floating-point dtype; otherwise what follows it, or an error.
macro_rules! for_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::kernels::dtype::for_float!($dtype, $T => $body, other => $crate::kernels::dtype::no_kernel(other))
    };
    ($dtype:expr, $T:ident => $body:expr, $other:ident => $rest:expr) => {
        match $dtype {
            ubique_core::DType::F32 => { type $T = f32; $body }
            ubique_core::DType::F64 => { type $T = f64; $body }
            ubique_core::DType::F16 => { type $T = half::f16; $body }
            ubique_core::DType::BF16 => { type $T = half::bf16; $body }
            $other => $rest,
        }
    };
}

/// The body for an integer dtype, or an error.
macro_rules! for_int {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ubique_core::DType::I64 => {
                type $T = i64;
                $body
            }
            ubique_core::DType::I32 => {
                type $T = i32;
                $body
            }
            ubique_core::DType::I16 => {
                type $T = i16;
                $body
            }
            ubique_core::DType::I8 => {
                type $T = i8;
                $body
            }
            ubique_core::DType::U64 => {
                type $T = u64;
                $body
            }
            ubique_core::DType::U32 => {
                type $T = u32;
                $body
            }
            ubique_core::DType::U16 => {
                type $T = u16;
                $body
            }
            ubique_core::DType::U8 => {
                type $T = u8;
                $body
            }
            other => $crate::kernels::dtype::no_kernel(other),
        }
    };
}

/// The body for a dtype of numbers, or an error.
macro_rules! for_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::kernels::dtype::for_float!($dtype, $T => $body, other => $crate::kernels::dtype::for_int!(other, $T => $body))
    };
}

/// The body for any dtype that kernels compute with.
macro_rules! for_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ubique_core::DType::Bool => { type $T = bool; $body }
            number => $crate::kernels::dtype::for_number!(number, $T => $body),
        }
    };
}

pub(crate) use {for_element, for_float, for_int, for_number};
