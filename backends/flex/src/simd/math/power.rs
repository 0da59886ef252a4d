//! Powers and roots.

use super::super::Isa;
use super::wide;

/// √x; NaN for negative x.
#[inline(always)]
pub fn sqrt<S: Isa>(x: f32) -> f32 {
    x.sqrt()
}

/// 1 / √x.
#[inline(always)]
pub fn rsqrt<S: Isa>(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// ∛x.
#[inline(always)]
pub fn cbrt<S: Isa>(x: f32) -> f32 {
    let w = x.abs() as f64;
    // A third of the bits is a third of the exponent: with the offset that makes up for its bias, 5 digits are right.
    let high = (w.to_bits() >> 32) as u32 / 3 + 0x2a9f_7893;
    let mut y = f64::from_bits((high as u64) << 32);
    // Halley's steps triple the digits. Of 0 the factor is ½, and what is left vanishes in f32.
    for _ in 0..2 {
        let cube = y * y * y;
        y *= S::fma(w, 2.0, cube) / S::fma(cube, 2.0, w);
    }
    let root = (y as f32).copysign(x);
    if w < f64::INFINITY { root } else { x }
}

/// 1 / x.
#[inline(always)]
pub fn recip<S: Isa>(x: f32) -> f32 {
    1.0 / x
}

/// √(x² + y²) without overflow; infinite if either is, even where the other is NaN.
#[inline(always)]
pub fn hypot<S: Isa>(x: f32, y: f32) -> f32 {
    let (a, b) = (x as f64, y as f64);
    let value = S::fma(a, a, b * b).sqrt() as f32;
    let infinite = (x.abs() == f32::INFINITY) | (y.abs() == f32::INFINITY);
    if infinite { f32::INFINITY } else { value }
}

/// x^y with the special cases of C and IEEE 754: x^0 and 1^y are 1 even for NaN; a negative base needs an integer
/// exponent, whose parity decides the sign.
#[inline(always)]
pub fn pow<S: Isa>(x: f32, y: f32) -> f32 {
    let (base, exponent) = (x.abs() as f64, y as f64);
    let magnitude = wide::exp::<S>(exponent * wide::ln::<S>(base)) as f32;

    // An f32 of 2²⁴ or more is an even integer.
    let huge = y.abs() >= 16_777_216.0;
    let sum = exponent + wide::ROUND;
    let integer = huge | (sum - wide::ROUND == exponent);
    let odd = !huge & integer & (sum.to_bits() & 1 == 1);

    let undefined = (x < 0.0) & (x > f32::NEG_INFINITY) & !integer;
    let value = if undefined { f32::NAN } else { magnitude };
    let value = if (y == 0.0) | (x == 1.0) | ((x == -1.0) & (y.abs() == f32::INFINITY)) { 1.0 } else { value };
    f32::from_bits(value.to_bits() ^ (((x.is_sign_negative() & odd) as u32) << 31))
}
