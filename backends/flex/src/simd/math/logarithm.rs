//! Logarithms: `x = 2^k·m` with m in [√½, √2), and a polynomial in `m − 1`.

use super::super::Isa;
use super::exponential::{LN2_HIGH, LN2_LOW};
use super::wide;

/// (ln(1+f) − f + f²/2) / f³ on [√½ − 1, √2 − 1].
const LN: [f32; 8] = [0.3333333, -0.2500082, 0.20001227, -0.16623357, 0.14201759, -0.13160183, 0.12761575, -0.07634496];

/// The natural logarithm.
#[inline(always)]
pub fn ln<S: Isa>(x: f32) -> f32 {
    /// The bits of √½.
    const LEAST: u32 = 0x3f35_04f3;
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = if denormal { x * 8_388_608.0 } else { x };
    let bias = if denormal { 127.0 + 23.0 } else { 127.0 };
    let shifted = scaled.to_bits().wrapping_add(0x3f80_0000 - LEAST);
    let k = (shifted >> 23) as i32 as f32 - bias;
    let f = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(LEAST)) - 1.0;
    let square = f * f;
    let rest = S::fma(k, LN2_LOW, S::fma(square, -0.5, square * f * S::poly(f, LN)));
    let value = S::fma(k, LN2_HIGH, rest + f);
    let value = if x < f32::INFINITY { value } else { x };
    let outside = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { value } else { outside }
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2<S: Isa>(x: f32) -> f32 {
    (wide::ln::<S>(x as f64) * std::f64::consts::LOG2_E) as f32
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10<S: Isa>(x: f32) -> f32 {
    (wide::ln::<S>(x as f64) * std::f64::consts::LOG10_E) as f32
}

/// ln(1 + x), accurate near 0.
#[inline(always)]
pub fn log1p<S: Isa>(x: f32) -> f32 {
    let w = x as f64;
    // Close to 0, 1 + x would lose digits of x even in f64; three terms of the series are enough there.
    let near = w * S::poly(w, [1.0, -0.5, 1.0 / 3.0]);
    let value = if w.abs() < 1.0 / 4096.0 { near } else { wide::ln::<S>(1.0 + w) };
    value as f32
}
