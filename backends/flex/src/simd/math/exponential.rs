//! Exponentials: `x = k·ln 2 + r` with integer `k`, a polynomial for `e^r`, and the exponent bits for `2^k`.

use super::super::Isa;
use super::{at_least, at_most, wide};
use std::f32::consts::{LN_2, LOG2_E};

/// Adding and subtracting 1.5·2²³ rounds to an integer, which the low bits of the sum then hold.
pub(super) const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has so few digits that its product with any exponent is exact.
pub(super) const LN2_HIGH: f32 = 0.693_359_4;
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;

/// (e^r − 1 − r) / r² on |r| ≤ ½·ln 2.
const EXP: [f32; 5] = [0.49999994, 0.16666521, 0.04166839, 0.00836871, 0.0013814614];
/// (2^r − 1) / r on |r| ≤ ½.
const EXP2: [f32; 6] = [LN_2, 0.24022648, 0.055503324, 0.009618437, 0.0013398874, 0.00015353359];

/// 2^n for an integer `n` in [−126, 127]; any value for others.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// The integer that [`ROUND`] left in the low bits of a sum.
#[inline(always)]
fn rounded_bits(sum: f32) -> i32 {
    (sum.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32)
}

/// e^r and k with `x = k·ln 2 + r`, for |x| ≤ 2¹⁰.
#[inline(always)]
fn reduced<S: Isa>(x: f32) -> (f32, i32) {
    let sum = S::fma(x, LOG2_E, ROUND);
    let k = sum - ROUND;
    let r = S::fma(-k, LN2_LOW, S::fma(-k, LN2_HIGH, x));
    (S::fma(r * r, S::poly(r, EXP), r) + 1.0, rounded_bits(sum))
}

/// e^x as `p·a·b`, with powers of two `a` and `b` that together reach over- and underflow: the last multiplication
/// is the only one that rounds, so factors may go between `p` and the powers.
#[inline(always)]
pub(super) fn exp_parts<S: Isa>(x: f32) -> (f32, f32, f32) {
    let (p, k) = reduced::<S>(at_least(at_most(x, 89.0), -104.0));
    let half = k >> 1;
    (p, power_of_two(half), power_of_two(k.wrapping_sub(half)))
}

/// [`exp_parts`] with fewer rounding errors, for |x| ≤ 174: what the first steps lost is added in the last one.
#[inline(always)]
pub(super) fn exp_parts_precise<S: Isa>(x: f32) -> (f32, f32, f32) {
    let sum = S::fma(x, LOG2_E, ROUND);
    let k = sum - ROUND;
    let high = S::fma(-k, LN2_HIGH, x);
    let r = S::fma(-k, LN2_LOW, high);
    let lost = S::fma(-k, LN2_LOW, high - r);
    let p = 1.0 + r;
    let rest = S::fma(r * r, S::poly(r, EXP), (1.0 - p) + r + lost);
    let k = rounded_bits(sum);
    let half = k >> 1;
    (p + rest, power_of_two(half), power_of_two(k.wrapping_sub(half)))
}

/// e^x for |x| ≤ 87.
#[inline(always)]
pub(super) fn exp_normal<S: Isa>(x: f32) -> f32 {
    let (p, k) = reduced::<S>(x);
    p * power_of_two(k)
}

/// e^x.
#[inline(always)]
pub fn exp<S: Isa>(x: f32) -> f32 {
    let (p, a, b) = exp_parts::<S>(x);
    p * a * b
}

/// 2^x.
#[inline(always)]
pub fn exp2<S: Isa>(x: f32) -> f32 {
    let x = at_least(at_most(x, 129.0), -151.0);
    let sum = x + ROUND;
    let r = x - (sum - ROUND);
    let k = rounded_bits(sum);
    let half = k >> 1;
    S::fma(r, S::poly(r, EXP2), 1.0) * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// e^x − 1, accurate near 0.
#[inline(always)]
pub fn expm1<S: Isa>(x: f32) -> f32 {
    (wide::expm1::<S>(x as f64) as f32).copysign(x)
}
