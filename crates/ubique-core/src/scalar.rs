//! A single host value of any element type, as users write them: `x * 2.0`, `full(shape, 7)`.

use std::fmt;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::host::{WithElement, with_element};

/// A number or truth value without a tensor. An op that takes one gives it the tensor's dtype.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Scalar {
    /// A floating-point value.
    Float(#[serde(with = "real")] f64),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A truth value.
    Bool(bool),
}

/// An f64 in texts: a number, or `"inf"`, `"-inf"`, `"NaN"`, which JSON has no numbers for.
pub(crate) mod real {
    use serde::de::{Deserialize, Deserializer, Error, Unexpected};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() || !serializer.is_human_readable() {
            return serializer.serialize_f64(*value);
        }
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Text {
            Number(f64),
            Name(String),
        }
        if !deserializer.is_human_readable() {
            return f64::deserialize(deserializer);
        }
        match Text::deserialize(deserializer)? {
            Text::Number(value) => Ok(value),
            Text::Name(name) if matches!(name.as_str(), "inf" | "-inf" | "NaN") => Ok(name.parse().unwrap_or(f64::NAN)),
            Text::Name(name) => Err(D::Error::invalid_value(Unexpected::Str(&name), &"a number, inf, -inf or NaN")),
        }
    }
}

impl Scalar {
    /// The value as a float; `true` is 1.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(v) => v,
            Scalar::Int(v) => v as f64,
            Scalar::UInt(v) => v as f64,
            Scalar::Bool(v) => v as u8 as f64,
        }
    }

    /// The value as an exact integer; floats are truncated and saturate at the 64-bit ranges, NaN is 0.
    #[inline]
    pub fn as_i128(self) -> i128 {
        match self {
            Scalar::Float(v) if v < 0.0 => v as i64 as i128,
            Scalar::Float(v) => v as u64 as i128,
            Scalar::Int(v) => v as i128,
            Scalar::UInt(v) => v as i128,
            Scalar::Bool(v) => v as i128,
        }
    }

    /// The value as an integer of `dtype`: floats saturate as `as` does, integers wrap.
    #[inline]
    pub(crate) fn saturating_i128(self, dtype: DType) -> i128 {
        let value = self.as_i128();
        match (self, dtype.int_range()) {
            (Scalar::Float(_), Some((min, max))) => value.clamp(min, max),
            _ => dtype.wrap(value),
        }
    }

    /// Whether the value is not zero (NaN is true, as in C).
    #[inline]
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Float(v) => v != 0.0,
            Scalar::Int(v) => v != 0,
            Scalar::UInt(v) => v != 0,
            Scalar::Bool(v) => v,
        }
    }

    /// The value that a tensor of `dtype` would hold: rounded for floats, truncated and saturated or wrapped for integers.
    pub fn cast(self, dtype: DType) -> Scalar {
        use crate::dtype::Kind;
        match dtype.kind() {
            Kind::Float | Kind::Stored => Scalar::Float(dtype.round(self.as_f64())),
            Kind::Signed => Scalar::Int(self.saturating_i128(dtype) as i64),
            Kind::Unsigned => Scalar::UInt(self.saturating_i128(dtype) as u64),
            Kind::Bool => Scalar::Bool(self.as_bool()),
        }
    }

    /// The bits that a tensor of `dtype` would hold, in a type of the same width, such as `u16` for `f16`.
    ///
    /// # Errors
    /// Where the widths differ.
    pub fn to_bits<B: bytemuck::AnyBitPattern>(self, dtype: DType) -> Result<B> {
        bytemuck::try_pod_read_unaligned(&self.to_bytes(dtype)[..dtype.size()])
            .map_err(|_| Error::dtype(format!("{dtype} as {} bytes", size_of::<B>())))
    }

    /// The bytes in `dtype`, of which there are as many as it is wide.
    fn to_bytes(self, dtype: DType) -> [u8; 8] {
        struct ToBytes(Scalar);
        impl WithElement for ToBytes {
            type Output = [u8; 8];
            fn run<T: Element>(self) -> [u8; 8] {
                let mut bytes = [0; 8];
                bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&T::from_scalar(self.0)));
                bytes
            }
        }
        with_element(dtype, ToBytes(self))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float(v) => write!(f, "{v}"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::UInt(v) => write!(f, "{v}"),
            Scalar::Bool(v) => write!(f, "{v}"),
        }
    }
}

macro_rules! from {
    ($($ty:ty => |$v:ident| $e:expr;)*) => {$(
        impl From<$ty> for Scalar {
            #[inline]
            fn from($v: $ty) -> Scalar { $e }
        }
    )*};
}

from! {
    f64 => |v| Scalar::Float(v);
    f32 => |v| Scalar::Float(v as f64);
    f16 => |v| Scalar::Float(v.to_f64());
    bf16 => |v| Scalar::Float(v.to_f64());
    i64 => |v| Scalar::Int(v);
    i32 => |v| Scalar::Int(v as i64);
    i16 => |v| Scalar::Int(v as i64);
    i8 => |v| Scalar::Int(v as i64);
    isize => |v| Scalar::Int(v as i64);
    u64 => |v| Scalar::UInt(v);
    u32 => |v| Scalar::UInt(v as u64);
    u16 => |v| Scalar::UInt(v as u64);
    u8 => |v| Scalar::UInt(v as u64);
    usize => |v| Scalar::UInt(v as u64);
    bool => |v| Scalar::Bool(v);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_dtype() {
        assert_eq!(Scalar::Float(1.0).to_bits::<u16>(DType::F16).unwrap(), f16::ONE.to_bits());
        assert_eq!(Scalar::Float(-0.0).to_bits::<u64>(DType::F64).unwrap(), 1 << 63);
        assert_eq!(Scalar::Int(-1).to_bits::<u8>(DType::I8).unwrap(), 255);
        assert_eq!(Scalar::Bool(true).to_bits::<f32>(DType::F32).unwrap(), 1.0);
        assert!(Scalar::Int(1).to_bits::<u16>(DType::I32).is_err());
    }

    #[test]
    fn casts_saturate_floats_and_wrap_integers() {
        assert_eq!(Scalar::Float(300.0).cast(DType::U8), Scalar::UInt(255));
        assert_eq!(Scalar::Float(-1.5).cast(DType::U8), Scalar::UInt(0));
        assert_eq!(Scalar::Float(f64::NAN).cast(DType::I32), Scalar::Int(0));
        assert_eq!(Scalar::Int(300).cast(DType::U8), Scalar::UInt(44));
        assert_eq!(Scalar::Int(-1).cast(DType::U64), Scalar::UInt(u64::MAX));
        assert_eq!(Scalar::Float(1e300).cast(DType::F32), Scalar::Float(f64::INFINITY));
    }
}
