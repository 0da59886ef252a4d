//! Cores in `f64` for `f32` functions: no overflow, no denormals, and at least 34 correct bits.

use super::super::Isa;
use super::{at_least, at_most};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E};

/// Adding and subtracting 1.5·2⁵² rounds to an integer, which the low bits of the sum then hold.
pub(super) const ROUND: f64 = 6_755_399_441_055_744.0;

/// (e^r − 1 − r) / r² on |r| ≤ ½·ln 2.
const EXP: [f64; 8] = [
    0.49999999999812583,
    0.16666666666868918,
    0.04166666688338574,
    0.008333333246367656,
    0.0013888822784763736,
    0.0001984135974686332,
    2.4875677472095663e-05,
    2.7560523426587793e-06,
];
/// (2·artanh(s)/s − 2) / s² in s², for s from the reduction of ln.
const LN: [f64; 6] = [
    0.666666666665872,
    0.4000000005227514,
    0.28571417129557153,
    0.22223371699718666,
    0.18123642046102287,
    0.16819828032691633,
];
/// (atan(t)/t − 1) / t² in t², for t ≤ tan(π/8).
const ATAN: [f64; 6] = [
    -0.33333332499117335,
    0.1999990390729076,
    -0.14282007744103847,
    0.11044691545989896,
    -0.08476269409950594,
    0.04744050020168306,
];

/// e^r − 1 and 2^k with `x = k·ln 2 + r`; x saturates at ±700, far outside of what an `f32` result can tell apart.
#[inline(always)]
fn exp_parts<S: Isa>(x: f64) -> (f64, f64) {
    let x = at_least(at_most(x, 700.0), -700.0);
    let sum = S::fma(x, LOG2_E, ROUND);
    let r = S::fma(-(sum - ROUND), LN_2, x);
    let scale = f64::from_bits(sum.to_bits().wrapping_add(1023) << 52);
    (S::fma(r * r, S::poly(r, EXP), r), scale)
}

/// e^x.
#[inline(always)]
pub(super) fn exp<S: Isa>(x: f64) -> f64 {
    let (p, scale) = exp_parts::<S>(x);
    S::fma(p, scale, scale)
}

/// e^x − 1.
#[inline(always)]
pub(super) fn expm1<S: Isa>(x: f64) -> f64 {
    let (p, scale) = exp_parts::<S>(x);
    S::fma(p, scale, scale - 1.0)
}

/// ln x for 0, normal positive x and infinity; NaN for others.
#[inline(always)]
pub(super) fn ln<S: Isa>(x: f64) -> f64 {
    /// The bits of √½ without the low half, so that mantissas fall in [√½, √2).
    const LEAST: u64 = 0x3fe6_a09e_0000_0000;
    /// 2⁵² plus the bias of the exponent: subtracting it turns an exponent put into the low bits of 2⁵² into a number.
    const BIASED: f64 = 4_503_599_627_370_496.0 + 1023.0;
    let shifted = x.to_bits().wrapping_add(0x3ff0_0000_0000_0000 - LEAST);
    let k = f64::from_bits((shifted >> 52) | 0x4330_0000_0000_0000) - BIASED;
    let f = f64::from_bits((shifted & 0x000f_ffff_ffff_ffff).wrapping_add(LEAST)) - 1.0;
    let s = f / (f + 2.0);
    let z = s * s;
    let value = S::fma(k, LN_2, S::fma(s * z, S::poly(z, LN), s + s));
    let value = if x < f64::INFINITY { value } else { x };
    let outside = if x == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    if x > 0.0 { value } else { outside }
}

/// atan(n / d) for n, d ≥ 0, in [0, π/2].
#[inline(always)]
pub(super) fn atan_ratio<S: Isa>(n: f64, d: f64) -> f64 {
    /// tan(3π/8) and tan(π/8).
    const UPPER: f64 = 2.414213562373095;
    const LOWER: f64 = 0.41421356237309503;
    let (steep, middle) = (n > UPPER * d, n > LOWER * d);
    let top = if steep {
        -d
    } else if middle {
        n - d
    } else {
        n
    };
    let bottom = if steep {
        n
    } else if middle {
        n + d
    } else {
        d
    };
    let base = if steep {
        FRAC_PI_2
    } else if middle {
        FRAC_PI_4
    } else {
        0.0
    };
    let t = top / bottom;
    let z = t * t;
    base + S::fma(t * z, S::poly(z, ATAN), t)
}
