//! Element types: what LibTorch computes with, and how it holds those that it does not.

use std::ffi::c_int;

use tch::Kind;
use ubique_core::{DType, Scalar};

/// LibTorch's type for elements of a dtype. Unsigned integers wider than a byte and 8-bit floats are held as integers of
/// the same width: their bits move as well as any.
pub fn kind(dtype: DType) -> Kind {
    match dtype {
        DType::F64 => Kind::Double,
        DType::F32 => Kind::Float,
        DType::F16 => Kind::Half,
        DType::BF16 => Kind::BFloat16,
        DType::I64 | DType::U64 => Kind::Int64,
        DType::I32 | DType::U32 => Kind::Int,
        DType::I16 | DType::U16 => Kind::Int16,
        DType::I8 => Kind::Int8,
        DType::U8 | DType::F8E4M3 | DType::F8E5M2 => Kind::Uint8,
        DType::Bool => Kind::Bool,
        // A dtype that came later, which the devices do not list.
        _ => Kind::ComplexDouble,
    }
}

/// LibTorch's own number for a type, of those that [`kind`] gives.
pub fn kind_number(kind: Kind) -> c_int {
    match kind {
        Kind::Uint8 => 0,
        Kind::Int8 => 1,
        Kind::Int16 => 2,
        Kind::Int => 3,
        Kind::Int64 => 4,
        Kind::Half => 5,
        Kind::Float => 6,
        Kind::Double => 7,
        Kind::Bool => 11,
        Kind::BFloat16 => 15,
        _ => -1,
    }
}

/// Whether LibTorch holds a dtype's bits as those of signed integers.
pub fn is_unsigned_bits(dtype: DType) -> bool {
    matches!(dtype, DType::U16 | DType::U32 | DType::U64)
}

/// Whether LibTorch has the dtype itself.
pub fn is_own(dtype: DType) -> bool {
    !is_unsigned_bits(dtype) && !dtype.is_stored()
}

/// A scalar as the element that a tensor of the dtype would hold.
pub fn scalar(value: Scalar, dtype: DType) -> tch::Scalar {
    match value.cast(dtype) {
        Scalar::Float(value) => value.into(),
        Scalar::Int(value) => value.into(),
        Scalar::Bool(value) => i64::from(value).into(),
        Scalar::UInt(value) => match dtype {
            DType::U16 => i64::from(value as u16 as i16).into(),
            DType::U32 => i64::from(value as u32 as i32).into(),
            _ => (value as i64).into(),
        },
    }
}

/// Extents, axes or the like as LibTorch takes them. What a tensor has fits.
pub fn ints(values: &[usize]) -> smallvec::SmallVec<[i64; 8]> {
    values.iter().map(|&value| value as i64).collect()
}
