//! Activation functions of neural networks.

use super::super::Isa;
use super::at_most;
use super::exponential::exp_parts_precise;

/// From here on x·e^−x is 0.
const VANISHING: f32 = 150.0;
/// From here on x·Φ(−x) is 0.
const FARTHEST: f32 = 15.0;

/// e^(a²/2)·Φ(−a) in (a − 3)/(a + 3), for a in [0, 15].
const NORMAL_TAIL: [f32; 10] = [
    0.12151395,
    -0.20640261,
    0.123225056,
    -0.046213236,
    0.006131811,
    0.0029042137,
    -0.0009828224,
    -0.0003385459,
    0.000114504604,
    5.2676427e-05,
];

/// 1 / (1 + e^−x), accurate for negative x too.
#[inline(always)]
pub fn sigmoid<S: Isa>(x: f32) -> f32 {
    gate::<S>(1.0, x)
}

/// x · sigmoid(x).
#[inline(always)]
pub fn silu<S: Isa>(x: f32) -> f32 {
    gate::<S>(x, x)
}

/// −∞ as the least finite number, whose product with a vanishing factor is the limit −0 instead of NaN.
#[inline(always)]
fn finite_below(x: f32) -> f32 {
    if x < f32::MIN { f32::MIN } else { x }
}

/// y · sigmoid(x). For negative x that is y·e^x / (1 + e^x), which does not overflow; y goes in before the powers of
/// two, so that denormal results are rounded once.
#[inline(always)]
fn gate<S: Isa>(y: f32, x: f32) -> f32 {
    let (a, y) = (x.abs(), finite_below(y));
    let (p, high, low) = exp_parts_precise::<S>(-at_most(a, VANISHING));
    let low = if a >= VANISHING { 0.0 } else { low };
    let e = p * high * low;
    let denominator = 1.0 + e;
    let numerator = if x < 0.0 { y * p * high * low } else { y };
    let quotient = numerator / denominator;
    // What rounding lost of the denominator, and of the quotient where that can be told, is worth an ulp.
    let lost = (1.0 - denominator) + e;
    let rest = if S::FMA { S::fma(-quotient, denominator, numerator) } else { 0.0 };
    let correction = S::fma(-quotient, lost, rest) * S::fma(S::fma(0.25, e, -0.75), e, 1.0);
    // Infinite quotients have no correction.
    (if correction.is_nan() { quotient } else { quotient + correction }).copysign(y)
}

/// x·Φ(x) with the exact normal distribution function Φ, as x·Φ(−|x|) or what that leaves of x.
#[inline(always)]
pub fn gelu<S: Isa>(x: f32) -> f32 {
    let vanishes = x.abs() >= FARTHEST;
    let a = at_most(x.abs(), FARTHEST);
    let square = a * a;
    // What rounding a² lost matters: it is multiplied by the size of the exponent.
    let lost = if S::FMA { S::fma(a, a, -square) } else { (a as f64 * a as f64 - square as f64) as f32 };
    let (p, high, low) = exp_parts_precise::<S>(-0.5 * square);
    let low = if vanishes { 0.0 } else { low };
    let ratio = S::poly((a - 3.0) / (a + 3.0), NORMAL_TAIL);
    let tail = finite_below(at_most(x, FARTHEST)) * (S::fma(p, -0.5 * lost, p) * ratio) * high * low;
    if x > 0.0 { x - tail } else { tail }
}

/// ½·x·(1 + tanh(u)) with u = √(2/π)·(x + 0.044715·x³), which is x·sigmoid(2u).
#[inline(always)]
pub fn gelu_tanh<S: Isa>(x: f32) -> f32 {
    const SCALE: f32 = 1.595_769_2;
    gate::<S>(x, x * S::fma(x * x, SCALE * 0.044_715, SCALE))
}
