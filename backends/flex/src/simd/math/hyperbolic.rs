//! Hyperbolic functions and their inverses.

use super::super::Isa;
use super::exponential::exp_normal;
use super::{at_most, wide};

/// (tanh(x)/x − 1) / x² in x², for |x| ≤ 0.625.
const TANH: [f32; 5] = [-0.3333328, 0.13331442, -0.053739715, 0.020639088, -0.0057049883];
/// (sinh(x)/x − 1) / x² in x², for |x| ≤ 1.
const SINH: [f64; 5] =
    [0.16666666667047295, 0.008333333278472691, 0.00019841295398895296, 2.755214128329612e-06, 2.552664292755051e-08];

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<S: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let z = a * a;
    let small = S::fma(a * z, S::poly(z, TANH), a);
    let large = 1.0 - 2.0 / (exp_normal::<S>(at_most(a + a, 20.0)) + 1.0);
    (if a < 0.625 { small } else { large }).copysign(x)
}

/// The hyperbolic sine.
#[inline(always)]
pub fn sinh<S: Isa>(x: f32) -> f32 {
    let a = x.abs() as f64;
    let z = a * a;
    let small = S::fma(a * z, S::poly(z, SINH), a);
    let e = wide::exp::<S>(a);
    let value = if a < 1.0 { small } else { 0.5 * (e - 1.0 / e) };
    (value as f32).copysign(x)
}

/// The hyperbolic cosine.
#[inline(always)]
pub fn cosh<S: Isa>(x: f32) -> f32 {
    let e = wide::exp::<S>(x.abs() as f64);
    (0.5 * (e + 1.0 / e)) as f32
}

/// Below this the inverse functions take two terms of their series, since `1 + x` would lose digits of x even in f64.
const NEAR_ZERO: f64 = 1.0 / 1024.0;

/// The inverse hyperbolic sine: ln(a + √(a² + 1)), odd.
#[inline(always)]
pub fn asinh<S: Isa>(x: f32) -> f32 {
    let a = x.abs() as f64;
    let near = S::fma(a * a * a, -1.0 / 6.0, a);
    let far = wide::ln::<S>(a + S::fma(a, a, 1.0).sqrt());
    ((if a < NEAR_ZERO { near } else { far }) as f32).copysign(x)
}

/// The inverse hyperbolic cosine: ln(x + √(x² − 1)); NaN below 1.
#[inline(always)]
pub fn acosh<S: Isa>(x: f32) -> f32 {
    let w = x as f64;
    let value = wide::ln::<S>(w + S::fma(w, w, -1.0).sqrt());
    if x < 1.0 { f32::NAN } else { value as f32 }
}

/// The inverse hyperbolic tangent: ½·ln((1 + a)/(1 − a)), odd; infinite at ±1 and NaN beyond.
#[inline(always)]
pub fn atanh<S: Isa>(x: f32) -> f32 {
    let a = x.abs() as f64;
    let near = S::fma(a * a * a, 1.0 / 3.0, a);
    let far = 0.5 * wide::ln::<S>((1.0 + a) / (1.0 - a));
    ((if a < NEAR_ZERO { near } else { far }) as f32).copysign(x)
}
