//! Circular functions and their inverses.

use super::super::Isa;
use super::wide;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, PI};

/// The largest |x| for which the circular functions' fast forms hold; beyond it the multiple of π/2 loses digits.
pub(super) const REDUCIBLE: f32 = 1_048_576.0;

/// π/2 in two parts; the first has so few digits that its product with any multiple up to 2²⁰ is exact.
const FRAC_PI_2_HIGH: f64 = 1.570_796_326_734_125_6;
const FRAC_PI_2_LOW: f64 = 6.077_100_506_506_192e-11;

/// (sin(r)/r − 1) / r² in r², for |r| ≤ π/4.
const SIN: [f32; 3] = [-0.16666655, 0.00833216, -0.00019515218];
/// (cos(r) − 1 + r²/2) / r⁴ in r², for |r| ≤ π/4.
const COS: [f32; 3] = [0.041666646, -0.0013887315, 2.4433082e-05];
/// The same in more digits.
const SIN_WIDE: [f64; 4] =
    [-0.16666666640776293, 0.008333329302423783, -0.00019839311487471277, 2.7181141367967873e-06];
const COS_WIDE: [f64; 4] =
    [0.04166666661945388, -0.001388888349686765, 2.4799459311532738e-05, -2.7205684719547214e-07];
/// (asin(t)/t − 1) / t² in t², for t ≤ ½.
const ASIN: [f64; 7] = [
    0.16666667180248168,
    0.07499948898368822,
    0.04465997197075032,
    0.030112527598551923,
    0.024604699080474156,
    0.007509510724507043,
    0.034646286209127186,
];

/// r and the low bits of n with `x = n·π/2 + r`, |r| ≤ π/4, for |x| ≤ [`REDUCIBLE`].
#[inline(always)]
fn reduce<S: Isa>(x: f32) -> (f64, u32) {
    let x = x as f64;
    let sum = S::fma(x, FRAC_2_PI, wide::ROUND);
    let n = sum - wide::ROUND;
    (S::fma(-n, FRAC_PI_2_LOW, S::fma(-n, FRAC_PI_2_HIGH, x)), sum.to_bits() as u32)
}

/// sin(r + quadrant·π/2) for |r| ≤ π/4.
#[inline(always)]
fn sin_in_quadrant<S: Isa>(r: f32, quadrant: u32) -> f32 {
    let z = r * r;
    let sin = S::fma(r * z, S::poly(z, SIN), r);
    let cos = S::fma(z * z, S::poly(z, COS), S::fma(z, -0.5, 1.0));
    let value = if quadrant & 1 == 0 { sin } else { cos };
    f32::from_bits(value.to_bits() ^ ((quadrant & 2) << 30))
}

/// The sine for |x| ≤ [`REDUCIBLE`] or NaN.
#[inline(always)]
pub(super) fn sin_reducible<S: Isa>(x: f32) -> f32 {
    let (r, quadrant) = reduce::<S>(x);
    let value = sin_in_quadrant::<S>(r as f32, quadrant);
    if x == 0.0 { x } else { value }
}

/// The cosine for |x| ≤ [`REDUCIBLE`] or NaN.
#[inline(always)]
pub(super) fn cos_reducible<S: Isa>(x: f32) -> f32 {
    let (r, quadrant) = reduce::<S>(x);
    sin_in_quadrant::<S>(r as f32, quadrant.wrapping_add(1))
}

/// The tangent for |x| ≤ [`REDUCIBLE`] or NaN.
#[inline(always)]
pub(super) fn tan_reducible<S: Isa>(x: f32) -> f32 {
    let (r, quadrant) = reduce::<S>(x);
    let z = r * r;
    let sin = S::fma(r * z, S::poly(z, SIN_WIDE), r);
    let cos = S::fma(z * z, S::poly(z, COS_WIDE), S::fma(z, -0.5, 1.0));
    let even = quadrant & 1 == 0;
    let (n, d) = if even { (sin, cos) } else { (cos, -sin) };
    let value = n / d;
    if x == 0.0 { x } else { value as f32 }
}

/// The sine of x radians. A loop over it does not vectorise: [`Sin`](super::Sin) does, where arguments are moderate.
#[inline(always)]
pub fn sin<S: Isa>(x: f32) -> f32 {
    if x.abs() > REDUCIBLE { (x as f64).sin() as f32 } else { sin_reducible::<S>(x) }
}

/// The cosine of x radians. A loop over it does not vectorise: [`Cos`](super::Cos) does, where arguments are moderate.
#[inline(always)]
pub fn cos<S: Isa>(x: f32) -> f32 {
    if x.abs() > REDUCIBLE { (x as f64).cos() as f32 } else { cos_reducible::<S>(x) }
}

/// The tangent of x radians. A loop over it does not vectorise: [`Tan`](super::Tan) does, where arguments are moderate.
#[inline(always)]
pub fn tan<S: Isa>(x: f32) -> f32 {
    if x.abs() > REDUCIBLE { (x as f64).tan() as f32 } else { tan_reducible::<S>(x) }
}

/// asin(t), and whether it is to be doubled and subtracted from π/2 to give asin(a), for a ≥ 0.
#[inline(always)]
fn asin_parts<S: Isa>(a: f64) -> (f64, bool) {
    let large = a > 0.5;
    let z = if large { (1.0 - a) * 0.5 } else { a * a };
    let t = if large { z.sqrt() } else { a };
    (S::fma(t * z, S::poly(z, ASIN), t), large)
}

/// The arc sine; NaN outside of [−1, 1].
#[inline(always)]
pub fn asin<S: Isa>(x: f32) -> f32 {
    let (p, large) = asin_parts::<S>(x.abs() as f64);
    let value = if large { FRAC_PI_2 - 2.0 * p } else { p };
    (value as f32).copysign(x)
}

/// The arc cosine; NaN outside of [−1, 1].
#[inline(always)]
pub fn acos<S: Isa>(x: f32) -> f32 {
    let (p, large) = asin_parts::<S>(x.abs() as f64);
    let outer = if x < 0.0 { PI - 2.0 * p } else { 2.0 * p };
    let inner = FRAC_PI_2 - p.copysign(x as f64);
    (if large { outer } else { inner }) as f32
}

/// The arc tangent.
#[inline(always)]
pub fn atan<S: Isa>(x: f32) -> f32 {
    (wide::atan_ratio::<S>(x.abs() as f64, 1.0) as f32).copysign(x)
}

/// The angle of the point (x, y), in [−π, π].
#[inline(always)]
pub fn atan2<S: Isa>(y: f32, x: f32) -> f32 {
    let (n, d) = (y.abs() as f64, x.abs() as f64);
    let both_infinite = (n == f64::INFINITY) & (d == f64::INFINITY);
    let both_zero = (n == 0.0) & (d == 0.0);
    let n = if both_infinite { 1.0 } else { n };
    let d = if both_infinite | both_zero { 1.0 } else { d };
    let angle = wide::atan_ratio::<S>(n, d);
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    (angle as f32).copysign(y)
}
