//! Eight-bit floating-point numbers: for storage, and cast before use.
//!
//! The formats are those of the Open Compute Project's 8-bit floating point specification (OFP8), revision 1.0.

use std::fmt;

use bytemuck::{Pod, Zeroable};

/// How the bits below the sign are divided, and what the largest of them mean.
struct Format {
    /// Bits after the binary point.
    mantissa: i32,
    bias: i32,
    /// The code of the largest finite number.
    largest: u8,
    /// The code of what is too large for that.
    overflow: u8,
}

const E4M3: Format = Format { mantissa: 3, bias: 7, largest: 0x7e, overflow: 0x7f };
const E5M2: Format = Format { mantissa: 2, bias: 15, largest: 0x7b, overflow: 0x7c };
/// All bits but the sign: not a number in both formats.
const NAN: u8 = 0x7f;

impl Format {
    /// The code of the nearest number; of two equally near ones the even one.
    fn encode(&self, value: f64) -> u8 {
        let sign = (value.is_sign_negative() as u8) << 7;
        let magnitude = value.abs();
        if magnitude.is_nan() {
            return sign | NAN;
        }
        // Numbers below the smallest normal one lie as far apart as those right above it.
        let exponent = (exponent(magnitude)).max(1 - self.bias);
        let steps = (magnitude * power(self.mantissa - exponent)).round_ties_even();
        // Codes of neighbouring numbers are neighbours, also where the mantissa overflows into the exponent.
        let code = f64::from((exponent + self.bias - 1) << self.mantissa) + steps;
        let code = if code <= f64::from(self.largest) { code as u8 } else { self.overflow };
        sign | code
    }

    const fn decode(&self, code: u8) -> f32 {
        let magnitude = code & 0x7f;
        let value = if magnitude > self.largest {
            if magnitude == self.overflow && magnitude != NAN { f32::INFINITY } else { f32::NAN }
        } else {
            let exponent = (magnitude >> self.mantissa) as i32;
            let fraction = (magnitude & ((1 << self.mantissa) - 1)) as i32;
            let (steps, exponent) =
                if exponent == 0 { (fraction, 1) } else { (fraction | 1 << self.mantissa, exponent) };
            // Within the range of normal f32 numbers, so the exponent's bits alone are the power of two.
            steps as f32 * f32::from_bits(((exponent - self.bias - self.mantissa + 127) as u32) << 23)
        };
        if code > 0x7f { -value } else { value }
    }

    const fn table(&self) -> [f32; 256] {
        let mut table = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            table[code] = self.decode(code as u8);
            code += 1;
        }
        table
    }
}

/// ⌊log₂⌋ of a magnitude; below all others' for 0 and above them for infinity.
fn exponent(magnitude: f64) -> i32 {
    (magnitude.to_bits() >> 52) as i32 - 1023
}

/// A power of two in the range of normal f64 numbers.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// A number of eight bits, `MANTISSA` of which come after the binary point.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Float8<const MANTISSA: u8>(u8);

/// Four exponent and three mantissa bits: ±448, 2⁻⁹ the smallest. There is no infinity: what is too large becomes NaN.
pub type F8E4M3 = Float8<3>;

/// Five exponent and two mantissa bits: ±57344, 2⁻¹⁶ the smallest. What is too large becomes infinite.
pub type F8E5M2 = Float8<2>;

impl<const MANTISSA: u8> Float8<MANTISSA> {
    const FORMAT: Format = match MANTISSA {
        2 => E5M2,
        3 => E4M3,
        _ => panic!("there are formats with 2 and with 3 bits of mantissa"),
    };
    const TABLE: [f32; 256] = Self::FORMAT.table();

    /// The number with this code.
    #[inline]
    pub const fn from_bits(code: u8) -> Self {
        Float8(code)
    }

    /// The code: sign, exponent, mantissa.
    #[inline]
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// The nearest number, of two equally near ones the even one.
    #[inline]
    pub fn from_f64(value: f64) -> Self {
        Float8(Self::FORMAT.encode(value))
    }

    /// The value, exactly.
    #[inline]
    pub fn to_f32(self) -> f32 {
        Self::TABLE[self.0 as usize]
    }
}

impl<const MANTISSA: u8> PartialEq for Float8<MANTISSA> {
    fn eq(&self, other: &Self) -> bool {
        self.to_f32() == other.to_f32()
    }
}

impl<const MANTISSA: u8> fmt::Debug for Float8<MANTISSA> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_the_specification_says() {
        let e4m3 = |code| F8E4M3::from_bits(code).to_f32();
        assert_eq!([e4m3(0x7e), e4m3(0x08), e4m3(0x07), e4m3(0x01)], [448.0, 0.015625, 0.875 / 64.0, 1.0 / 512.0]);
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan() && e4m3(0x80).is_sign_negative());
        let e5m2 = |code| F8E5M2::from_bits(code).to_f32();
        assert_eq!(
            [e5m2(0x7b), e5m2(0x04), e5m2(0x03), e5m2(0x01)],
            [57344.0, 1.0 / 16384.0, 0.75 / 16384.0, 1.0 / 65536.0]
        );
        assert_eq!([e5m2(0x7c), e5m2(0xfc)], [f32::INFINITY, f32::NEG_INFINITY]);
        assert!((0x7d..=0x7f).all(|code| e5m2(code).is_nan()));
    }

    #[test]
    fn every_number_survives_and_what_is_between_goes_to_the_nearest() {
        for code in 0..=255 {
            let (a, b) = (F8E4M3::from_bits(code), F8E5M2::from_bits(code));
            assert!(a.to_f32().is_nan() || F8E4M3::from_f64(a.to_f32().into()).to_bits() == code);
            assert!(b.to_f32().is_nan() || F8E5M2::from_f64(b.to_f32().into()).to_bits() == code);
        }
        for code in 0..0x7e {
            let at = |code| f64::from(F8E4M3::from_bits(code).to_f32());
            let (low, high) = (at(code), at(code + 1));
            let middle = low.midpoint(high);
            assert_eq!(F8E4M3::from_f64(middle).to_bits(), code + (code & 1));
            assert_eq!(F8E4M3::from_f64(middle.next_down()).to_bits(), code);
            assert_eq!(F8E4M3::from_f64(-middle.next_up()).to_bits(), 0x80 | (code + 1));
        }
    }

    #[test]
    fn what_is_too_large_is_not_a_number_or_infinite() {
        assert_eq!(F8E4M3::from_f64(464.0).to_f32(), 448.0);
        assert!(F8E4M3::from_f64(464.0f64.next_up()).to_f32().is_nan());
        assert!(F8E4M3::from_f64(f64::NEG_INFINITY).to_f32().is_nan());
        assert_eq!(F8E5M2::from_f64(61440.0f64.next_down()).to_f32(), 57344.0);
        assert_eq!(F8E5M2::from_f64(61440.0).to_f32(), f32::INFINITY);
        assert_eq!(F8E5M2::from_f64(f64::MIN).to_f32(), f32::NEG_INFINITY);
        assert_eq!(F8E5M2::from_f64(5e-324).to_bits(), 0);
        assert_eq!(F8E4M3::from_f64(-0.0).to_bits(), 0x80);
    }
}
