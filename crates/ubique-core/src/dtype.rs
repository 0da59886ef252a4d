//! Element types: the run-time `DType` and the Rust types that carry it.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::float8::{F8E4M3, F8E5M2};
use crate::scalar::Scalar;

/// The type of a tensor's elements.
///
/// `Bool` is stored as one byte, 0 or 1. The 8-bit floats are for storage: they can be moved and cast, but not computed with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[allow(missing_docs)] // the names say it
pub enum DType {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
    F8E4M3,
    F8E5M2,
}

/// What arithmetic a `DType` has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// IEEE-like floating point.
    Float,
    /// Two's-complement signed integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Truth values.
    Bool,
    /// Floating point that is stored, and cast before it is computed with.
    Stored,
}

impl DType {
    /// Every element type: those of [`DType::COMPUTED`], then those that are only stored.
    pub const ALL: [DType; 15] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool,
        DType::F8E4M3,
        DType::F8E5M2,
    ];
    /// The element types that ops compute with, floats first.
    pub const COMPUTED: [DType; 13] = match DType::ALL.first_chunk() {
        Some(computed) => *computed,
        None => panic!("there are more dtypes than those that ops compute with"),
    };
    /// The floating-point types that ops compute with.
    pub const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];
    /// The integer types, signed first.
    pub const INTS: [DType; 8] =
        [DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8];

    /// Bytes per element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool | DType::F8E4M3 | DType::F8E5M2 => 1,
        }
    }

    /// What arithmetic the type has.
    #[inline]
    pub const fn kind(self) -> Kind {
        match self {
            DType::F64 | DType::F32 | DType::F16 | DType::BF16 => Kind::Float,
            DType::I64 | DType::I32 | DType::I16 | DType::I8 => Kind::Signed,
            DType::U64 | DType::U32 | DType::U16 | DType::U8 => Kind::Unsigned,
            DType::Bool => Kind::Bool,
            DType::F8E4M3 | DType::F8E5M2 => Kind::Stored,
        }
    }

    /// Whether this is a floating-point type that ops compute with.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Whether this is an integer type (`Bool` is not).
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// Whether elements of this type can be moved and cast, but not computed with.
    #[inline]
    pub const fn is_stored(self) -> bool {
        matches!(self.kind(), Kind::Stored)
    }

    /// The lower-case name, such as `"f32"`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::Bool => "bool",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
        }
    }

    /// The smallest and largest value of an integer or bool type; `None` for floats.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        Some(match self {
            DType::I64 => (i64::MIN as i128, i64::MAX as i128),
            DType::I32 => (i32::MIN as i128, i32::MAX as i128),
            DType::I16 => (i16::MIN as i128, i16::MAX as i128),
            DType::I8 => (i8::MIN as i128, i8::MAX as i128),
            DType::U64 => (0, u64::MAX as i128),
            DType::U32 => (0, u32::MAX as i128),
            DType::U16 => (0, u16::MAX as i128),
            DType::U8 => (0, u8::MAX as i128),
            DType::Bool => (0, 1),
            _ => return None,
        })
    }

    /// Wraps an exact integer into an integer type's range (two's complement). `Bool` becomes `value != 0`.
    pub fn wrap(self, value: i128) -> i128 {
        match self {
            DType::I64 => value as i64 as i128,
            DType::I32 => value as i32 as i128,
            DType::I16 => value as i16 as i128,
            DType::I8 => value as i8 as i128,
            DType::U64 => value as u64 as i128,
            DType::U32 => value as u32 as i128,
            DType::U16 => value as u16 as i128,
            DType::U8 => value as u8 as i128,
            DType::Bool => (value != 0) as i128,
            _ => value,
        }
    }

    /// Rounds a float to the nearest value that a float type holds; integer types are left alone.
    pub fn round(self, value: f64) -> f64 {
        match self {
            DType::F32 => value as f32 as f64,
            DType::F16 => f16::from_f64(value).to_f64(),
            DType::BF16 => bf16::from_f64(value).to_f64(),
            DType::F8E4M3 => F8E4M3::from_f64(value).to_f32().into(),
            DType::F8E5M2 => F8E5M2::from_f64(value).to_f32().into(),
            _ => value,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;
    fn from_str(text: &str) -> Result<DType> {
        DType::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| {
            let known = DType::ALL.map(DType::name).join(", ");
            Error::dtype(format!("unknown dtype {text:?}; known are {known}"))
        })
    }
}

/// A Rust type that a tensor can hold.
pub trait Element:
    Copy + Send + Sync + PartialEq + fmt::Debug + bytemuck::CheckedBitPattern + bytemuck::NoUninit + Default + 'static
{
    /// The run-time name of this type.
    const DTYPE: DType;
    /// The value as a `Scalar`.
    fn to_scalar(self) -> Scalar;
    /// The nearest value of this type; casts as `as` does, with floats saturating into integers.
    fn from_scalar(scalar: Scalar) -> Self;
}

/// The three facts of each element type, one row a type; bodies differ only in the cast.
macro_rules! elements {
    ($($ty:ty => $dtype:ident, $to:expr, $from:expr;)*) => {$(
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn to_scalar(self) -> Scalar { ($to)(self) }
            #[inline]
            fn from_scalar(scalar: Scalar) -> Self { ($from)(scalar) }
        }
    )*};
}

elements! {
    f64 => F64, Scalar::Float, |s: Scalar| s.as_f64();
    f32 => F32, |v: f32| Scalar::Float(v as f64), |s: Scalar| s.as_f64() as f32;
    f16 => F16, |v: f16| Scalar::Float(v.to_f64()), |s: Scalar| f16::from_f64(s.as_f64());
    bf16 => BF16, |v: bf16| Scalar::Float(v.to_f64()), |s: Scalar| bf16::from_f64(s.as_f64());
    i64 => I64, Scalar::Int, |s: Scalar| s.saturating_i128(DType::I64) as i64;
    i32 => I32, |v: i32| Scalar::Int(v as i64), |s: Scalar| s.saturating_i128(DType::I32) as i32;
    i16 => I16, |v: i16| Scalar::Int(v as i64), |s: Scalar| s.saturating_i128(DType::I16) as i16;
    i8 => I8, |v: i8| Scalar::Int(v as i64), |s: Scalar| s.saturating_i128(DType::I8) as i8;
    u64 => U64, Scalar::UInt, |s: Scalar| s.saturating_i128(DType::U64) as u64;
    u32 => U32, |v: u32| Scalar::UInt(v as u64), |s: Scalar| s.saturating_i128(DType::U32) as u32;
    u16 => U16, |v: u16| Scalar::UInt(v as u64), |s: Scalar| s.saturating_i128(DType::U16) as u16;
    u8 => U8, |v: u8| Scalar::UInt(v as u64), |s: Scalar| s.saturating_i128(DType::U8) as u8;
    bool => Bool, Scalar::Bool, |s: Scalar| s.as_bool();
    F8E4M3 => F8E4M3, |v: F8E4M3| Scalar::Float(v.to_f32().into()), |s: Scalar| F8E4M3::from_f64(s.as_f64());
    F8E5M2 => F8E5M2, |v: F8E5M2| Scalar::Float(v.to_f32().into()), |s: Scalar| F8E5M2::from_f64(s.as_f64());
}
