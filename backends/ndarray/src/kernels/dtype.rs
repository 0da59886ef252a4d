//! From a dtype to the element type that kernels are generic over. Half-precision operands never come here: they are
//! computed as f32 (see [`super::half`]), and bools are bytes, 0 or 1.

use bytemuck::Pod;
use num_traits::{CheckedDiv, CheckedRem, Float, PrimInt, WrappingAdd, WrappingMul, WrappingSub};
use ubique_core::{DType, Element, Error, Result};

/// Element types as the unsigned integers of their width, which walks move them as: a walk is compiled for each width, not
/// for each type.
pub trait Pattern: Pod {
    /// The integer of the same width.
    type Bits: Pod;
}
impl Pattern for f64 {
    type Bits = u64;
}
impl Pattern for f32 {
    type Bits = u32;
}
impl Pattern for i64 {
    type Bits = u64;
}
impl Pattern for i32 {
    type Bits = u32;
}
impl Pattern for i16 {
    type Bits = u16;
}
impl Pattern for i8 {
    type Bits = u8;
}
impl Pattern for u64 {
    type Bits = u64;
}
impl Pattern for u32 {
    type Bits = u32;
}
impl Pattern for u16 {
    type Bits = u16;
}
impl Pattern for u8 {
    type Bits = u8;
}

/// Bit patterns of a width, for kernels that move elements or compute alike for signed and unsigned integers.
pub trait Bits: Element + Pattern + PrimInt + WrappingAdd + WrappingSub + WrappingMul {}
impl<T: Element + Pattern + PrimInt + WrappingAdd + WrappingSub + WrappingMul> Bits for T {}

/// Integers.
pub trait Int: Bits + CheckedDiv + CheckedRem {}
impl<T: Bits + CheckedDiv + CheckedRem> Int for T {}

/// Floating-point numbers.
pub trait Real: Element + Pattern + Float {}
impl<T: Element + Pattern + Float> Real for T {}

/// A computation that is generic over bit patterns.
pub trait WithBits {
    /// What it gives.
    type Output;
    /// The computation for patterns of one width.
    fn run<B: Bits>(self) -> Self::Output;
}

/// Runs a computation on patterns as wide as a dtype's elements.
pub fn with_bits<F: WithBits>(dtype: DType, f: F) -> F::Output {
    match dtype.size() {
        8 => f.run::<u64>(),
        4 => f.run::<u32>(),
        2 => f.run::<u16>(),
        _ => f.run::<u8>(),
    }
}

/// A computation that is generic over integers.
pub trait WithInt {
    /// What it gives.
    type Output;
    /// The computation for one type.
    fn run<T: Int>(self) -> Self::Output;
}

/// Runs a computation for the type of an integer dtype; bools are bytes.
///
/// # Errors
/// For other dtypes, which dispatch does not let through.
pub fn with_int<R, F: WithInt<Output = Result<R>>>(dtype: DType, f: F) -> Result<R> {
    match dtype {
        DType::I64 => f.run::<i64>(),
        DType::I32 => f.run::<i32>(),
        DType::I16 => f.run::<i16>(),
        DType::I8 => f.run::<i8>(),
        DType::U64 => f.run::<u64>(),
        DType::U32 => f.run::<u32>(),
        DType::U16 => f.run::<u16>(),
        DType::U8 | DType::Bool => f.run::<u8>(),
        other => Err(Error::backend(format!("no kernel for {other}"))),
    }
}

/// Numbers of any kind.
pub trait Number: Element + Pattern + PartialOrd {}
impl<T: Element + Pattern + PartialOrd> Number for T {}

/// A computation that is generic over numbers.
pub trait WithNumber {
    /// What it gives.
    type Output;
    /// The computation for one type.
    fn run<T: Number>(self) -> Self::Output;
}

/// Runs a computation for the type of a dtype that is computed with; bools are bytes.
///
/// # Errors
/// For other dtypes, which dispatch does not let through.
pub fn with_number<R, F: WithNumber<Output = Result<R>>>(dtype: DType, f: F) -> Result<R> {
    struct AsInt<F>(F);
    impl<R, F: WithNumber<Output = Result<R>>> WithInt for AsInt<F> {
        type Output = Result<R>;
        fn run<T: Int>(self) -> Result<R> {
            self.0.run::<T>()
        }
    }
    match dtype {
        DType::F32 => f.run::<f32>(),
        DType::F64 => f.run::<f64>(),
        other => with_int(other, AsInt(f)),
    }
}
