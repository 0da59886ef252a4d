//! Exponentials and what is made of them, in f32 and without branches, so that a loop over a slice becomes vector code;
//! calls of the system's functions one by one do not.

use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

/// Adding and subtracting 1.5·2²³ rounds to an integer, which the low bits of the sum then hold.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, of which the first times an exponent is exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// (eʳ − 1 − r) / r² on |r| ≤ ½·ln 2, as in the Cephes library.
const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
/// ln(erfc(z) / t) + z² in t = 1 / (1 + z/2), z ≥ 0, as in Numerical Recipes.
const ERFC: [f32; 10] = [
    0.170_872_77,
    -0.822_152_23,
    1.488_515_9,
    -1.135_204,
    0.278_868_07,
    -0.186_288_06,
    0.096_784_18,
    0.374_091_96,
    1.000_023_7,
    -1.265_512_2,
];

/// A polynomial from its highest coefficient down.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[0];
    for coefficient in &coefficients[1..] {
        value = value * x + coefficient;
    }
    value
}

/// 2ⁿ for `n` in [−126, 127].
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// eˣ within 1 ulp.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these bounds the result is infinite or 0. NaN passes both comparisons.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    // x = n·ln 2 + r.
    let sum = x * LOG2_E + ROUND;
    let n = sum - ROUND;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let power = polynomial(r, EXP) * (r * r) + r + 1.0;
    let n = (sum.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    // Two factors reach results that a single power of two cannot.
    let half = n >> 1;
    power * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// 1 / (1 + e⁻ˣ) within 2 ulp.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// x·sigmoid(x).
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    if x == f32::NEG_INFINITY { -0.0 } else { x * sigmoid(x) }
}

/// x·Φ(x), Φ the normal distribution function.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let z = x.abs() * FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * z);
    let tail = t * exp(polynomial(t, ERFC) - z * z);
    let twice = if x < 0.0 { tail } else { 2.0 - tail };
    if x == f32::NEG_INFINITY { -0.0 } else { 0.5 * x * twice }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest difference from the function in f64, in units of f32's precision at the larger of the value and `floor`.
    fn worst(f: fn(f32) -> f32, wanted: fn(f64) -> f64, floor: f64) -> f64 {
        let samples = (0..=u32::MAX).step_by(9973).map(f32::from_bits).filter(|x| !x.is_nan());
        let errors = samples.map(|x| {
            let (got, wanted) = (f(x), wanted(x.into()));
            if got == wanted as f32 {
                return 0.0;
            }
            // The smallest numbers are coarser.
            ((f64::from(got) - wanted).abs() - 2e-45).max(0.0) / wanted.abs().max(floor) / f64::from(f32::EPSILON)
        });
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn functions_are_near_those_of_f64() {
        assert!(worst(exp, f64::exp, 0.0) < 1.0);
        assert!(
            worst(sigmoid, |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }, 0.0) < 2.0
        );
        let gelu64 = ubique_core::op::unary::Unary::Gelu.float_fn();
        assert!(worst(gelu, gelu64, 1.0) < 2.0);
        assert!(worst(silu, ubique_core::op::unary::Unary::Silu.float_fn(), 1e-30) < 2.5);
        assert!([exp, sigmoid, silu, gelu].iter().all(|f| f(f32::NAN).is_nan()));
    }
}
