//! Conversions between `f32` and the half-precision types, without branches so that they vectorise.

use super::Isa;
use super::elementwise::{Map1, unary};
use half::{bf16, f16};
use std::mem::MaybeUninit;

/// A 16-bit floating-point type, computed with in `f32`.
pub trait Half: Copy {
    /// The bits.
    fn bits(self) -> u16;
    /// The value with these bits.
    fn from_bits(bits: u16) -> Self;
    /// The `f32` of the same value.
    fn to_f32(bits: u16) -> f32;
    /// The bits of the nearest value, ties to even; NaN stays NaN.
    fn from_f32(x: f32) -> u16;
}

impl Half for f16 {
    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_bits(bits: u16) -> Self {
        f16::from_bits(bits)
    }

    #[inline(always)]
    fn to_f32(bits: u16) -> f32 {
        /// 2¹¹²: what the exponent biases differ by. The product also normalises denormals.
        const REBIAS: f32 = f32::from_bits(0x7780_0000);
        let magnitude = (bits as u32 & 0x7fff) << 13;
        let finite = (f32::from_bits(magnitude) * REBIAS).to_bits();
        let value = if magnitude >= 0x0f80_0000 { magnitude | 0x7f80_0000 } else { finite };
        f32::from_bits(value | (bits as u32 & 0x8000) << 16)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u16 {
        let bits = x.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        // A sum with ½ has the spacing of f16's denormals, hence rounds to one.
        let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        let odd = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_add(0xfff + odd).wrapping_sub(112 << 23) >> 13;
        let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
        let value = if magnitude < 0x3880_0000 { denormal } else { normal };
        let value = if magnitude >= 0x4780_0000 { special } else { value };
        (value | (bits >> 16) & 0x8000) as u16
    }
}

impl Half for bf16 {
    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_bits(bits: u16) -> Self {
        bf16::from_bits(bits)
    }

    #[inline(always)]
    fn to_f32(bits: u16) -> f32 {
        f32::from_bits((bits as u32) << 16)
    }

    #[inline(always)]
    fn from_f32(x: f32) -> u16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
    }
}

/// [`Half::to_f32`] as a function to map.
#[derive(Clone, Copy, Debug)]
struct Widen;

impl<H: Half> Map1<H, f32> for Widen {
    #[inline(always)]
    fn apply<S: Isa>(self, a: H) -> f32 {
        H::to_f32(a.bits())
    }
}

/// [`Half::from_f32`] as a function to map.
#[derive(Clone, Copy, Debug)]
struct Narrow;

impl<H: Half> Map1<f32, H> for Narrow {
    #[inline(always)]
    fn apply<S: Isa>(self, a: f32) -> H {
        H::from_bits(H::from_f32(a))
    }
}

/// Converts to `f32`, and thereby initialises all of `target`.
pub fn widen<H: Half>(source: &[H], target: &mut [MaybeUninit<f32>]) {
    unary(Widen, source, target);
}

/// Rounds to half precision, and thereby initialises all of `target`.
pub fn narrow<H: Half>(source: &[f32], target: &mut [MaybeUninit<H>]) {
    unary(Narrow, source, target);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_widens_exactly() {
        for bits in 0..=u16::MAX {
            let (f, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            let (wide_f, wide_b) = (<f16 as Half>::to_f32(bits), <bf16 as Half>::to_f32(bits));
            assert!(wide_f.to_bits() == f.to_f32().to_bits() || f.is_nan() && wide_f.is_nan(), "f16 {bits:#x}");
            assert!(wide_b.to_bits() == b.to_f32().to_bits() || b.is_nan() && wide_b.is_nan(), "bf16 {bits:#x}");
        }
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        let specials = [f32::INFINITY, f32::NAN, 65504.0, 65519.9, 65520.0, 5.96e-8, 2.98e-8, 2.99e-8, f32::MAX, 0.0];
        let sampled = (0..=u32::MAX).step_by(1009).map(f32::from_bits);
        // Values halfway between neighbours, which random samples miss.
        let ties = (0..0x7bff).map(|bits| {
            let (low, high) = (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
            0.5 * (low + high)
        });
        for x in specials.into_iter().chain(sampled).chain(ties).flat_map(|x| [x, -x]) {
            let (f, b) = (<f16 as Half>::from_f32(x), <bf16 as Half>::from_f32(x));
            if x.is_nan() {
                assert!(f16::from_bits(f).is_nan() && bf16::from_bits(b).is_nan(), "{x} {:#x}", x.to_bits());
            } else {
                assert_eq!(f, f16::from_f32_const(x).to_bits(), "f16 of {x}");
                assert_eq!(b, bf16::from_f32_const(x).to_bits(), "bf16 of {x}");
            }
        }
    }
}
