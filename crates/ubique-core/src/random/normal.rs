//! Box–Muller normals in f64 arithmetic, written without branches so that the lanes of a batch go together.

use super::engine::{Draw, LANES, Words, join};
use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// f32 normals: two pairs a block.
pub(super) struct Normal32;

/// f64 normals: one pair a block.
pub(super) struct Normal64;

impl Draw for Normal32 {
    type Out = f32;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn convert(&self, words: &Words, out: &mut [f32]) {
        let [a, b, c, d] = words;
        let (cos0, sin0) = pairs(a.map(unit_24), b.map(turn_24));
        let (cos1, sin1) = pairs(c.map(unit_24), d.map(turn_24));
        for (lane, four) in out.as_chunks_mut::<4>().0.iter_mut().enumerate().take(LANES) {
            *four = [cos0[lane], sin0[lane], cos1[lane], sin1[lane]].map(|z| z as f32);
        }
    }
}

impl Draw for Normal64 {
    type Out = f64;
    const PER_BLOCK: usize = 2;

    #[inline(always)]
    fn convert(&self, words: &Words, out: &mut [f64]) {
        let [a, b, c, d] = words;
        let unit = std::array::from_fn(|lane| open_52(join(a[lane], b[lane])));
        let turn = std::array::from_fn(|lane| open_52(join(c[lane], d[lane])));
        let (cos, sin) = pairs(unit, turn);
        for (lane, two) in out.as_chunks_mut::<2>().0.iter_mut().enumerate().take(LANES) {
            *two = [cos[lane], sin[lane]];
        }
    }
}

/// `(word + ½)·2⁻³²` truncated to the 24 significant bits of an f32.
#[inline(always)]
fn unit_24(word: u32) -> f64 {
    const BELOW_F32: u64 = (1 << 29) - 1;
    let exact = (f64::from(word) + 0.5) * (1.0 / (1u64 << 32) as f64);
    f64::from_bits(exact.to_bits() & !BELOW_F32)
}

/// `(top 24 bits + ½)·2⁻²⁴`.
#[inline(always)]
fn turn_24(word: u32) -> f64 {
    (f64::from((word >> 8) as i32) + 0.5) * (1.0 / (1u32 << 24) as f64)
}

/// `(top 52 bits + ½)·2⁻⁵²`.
#[inline(always)]
fn open_52(word: u64) -> f64 {
    // The bits as a mantissa make a number in [1, 2); both steps are exact.
    let one_to_two = f64::from_bits(word >> 12 | 1f64.to_bits());
    one_to_two - (1.0 - 0.5 / (1u64 << 52) as f64)
}

/// `√(−2 ln unit)` times the cosine and the sine of `turn` turns.
#[inline(always)]
fn pairs(unit: [f64; LANES], turn: [f64; LANES]) -> ([f64; LANES], [f64; LANES]) {
    let (mut cos, mut sin) = ([0.0; LANES], [0.0; LANES]);
    for lane in 0..LANES {
        let radius = (-2.0 * ln(unit[lane])).sqrt();
        let (c, s) = cos_sin_turns(turn[lane]);
        cos[lane] = radius * c;
        sin[lane] = radius * s;
    }
    (cos, sin)
}

/// Natural logarithm of a normal positive number, within about 1 ulp.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const MANTISSA: u32 = 52;
    const BIAS: u64 = 1023 << MANTISSA;
    // ln 2 in two parts; the first has 21 trailing zero bits, so its product with an exponent is exact.
    const LN2_HIGH: f64 = f64::from_bits(std::f64::consts::LN_2.to_bits() & !((1 << 21) - 1));
    const LN2_LOW: f64 = (std::f64::consts::LN_2 - LN2_HIGH) + 2.319_046_813_846_299_6e-17;
    // x = m·2^k with m in [√½, √2): the exponent of x/√½, biased.
    let biased = x.to_bits().wrapping_sub(FRAC_1_SQRT_2.to_bits()).wrapping_add(BIAS) >> MANTISSA;
    let k = f64::from(biased as i32) - 1023.0;
    let m = f64::from_bits(x.to_bits().wrapping_sub(biased << MANTISSA).wrapping_add(BIAS));
    // ln(1+f) = 2·atanh(s), s = f/(2+f), z = s², = 2s·(1 + z/3 + z²/5 + …); and 2s = f − s·f, where f is exact.
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let series = 2.0 * z * polynomial(z, &ATANH_SERIES);
    k * LN2_HIGH + (f - (s * (f - series) - k * LN2_LOW))
}

/// Cosine and sine of `turn` whole turns, for `turn` in `(0, 1)`, each within about 1 ulp.
#[inline(always)]
fn cos_sin_turns(turn: f64) -> (f64, f64) {
    // Adding this leaves the nearest integer in the low mantissa bits.
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    const SIGN: u64 = 1 << 63;
    let shifted = 4.0 * turn + ROUND;
    let quarter = shifted.to_bits();
    // The rest is an exact difference within an eighth of a turn of 0.
    let x = (turn - (shifted - ROUND) * 0.25) * TAU;
    let z = x * x;
    let sin = x + x * (z * polynomial(z, &SIN_SERIES));
    let cos = 1.0 + z * polynomial(z, &COS_SERIES);
    let (c, s) = (cos.to_bits(), sin.to_bits());
    let swap = (c ^ s) & (quarter & 1).wrapping_neg();
    let cos_sign = (quarter.wrapping_add(1) << 62) & SIGN;
    let sin_sign = (quarter << 62) & SIGN;
    (f64::from_bits((c ^ swap) ^ cos_sign), f64::from_bits((s ^ swap) ^ sin_sign))
}

/// `1/3, 1/5, 1/7, …`: the Taylor coefficients of the inverse hyperbolic tangent after the first.
const ATANH_SERIES: [f64; 10] = [
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
];
const SIN_SERIES: [f64; 8] = alternating_factorials(3);
const COS_SERIES: [f64; 8] = alternating_factorials(2);

/// `−1/n!, 1/(n+2)!, −1/(n+4)!, …`: the Taylor coefficients of the sine (n = 3) or the cosine (n = 2) after the first.
const fn alternating_factorials(n: u64) -> [f64; 8] {
    let mut coefficients = [0.0; 8];
    let (mut factorial, mut i, mut next) = (1u64, 0, 1);
    while i < coefficients.len() {
        while next <= n + 2 * i as u64 {
            factorial *= next;
            next += 1;
        }
        coefficients[i] = if i % 2 == 0 { -1.0 } else { 1.0 } / factorial as f64;
        i += 1;
    }
    coefficients
}

/// `c[0] + c[1]·x + c[2]·x² + …` by Horner's rule.
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulps(a: f64, b: f64) -> f64 {
        (a - b).abs() / (b.abs().max(f64::MIN_POSITIVE) * f64::EPSILON)
    }

    #[test]
    fn elementary_functions_are_within_two_ulp() {
        for i in 1..200_000u64 {
            // Spread over the unit interval, with ever smaller and ever closer-to-one values.
            let spread = (i as f64 + 0.5) / 200_000.0;
            for u in [spread, spread * 2f64.powi(-(i as i32 % 50)), 1.0 - spread * 2f64.powi(-(i as i32 % 50))] {
                if u < 1.0 {
                    assert!(ulps(ln(u), libm::log(u)) <= 2.0, "ln {u}: {} {}", ln(u), libm::log(u));
                }
            }
            // Keep to the first octant, where the reference needs no reduction either.
            let t = spread / 8.0;
            let (c, s) = cos_sin_turns(t);
            assert!(ulps(c, libm::cos(t * TAU)) <= 2.0, "cos {t}");
            assert!(ulps(s, libm::sin(t * TAU)) <= 2.0, "sin {t}");
        }
    }

    #[test]
    fn angles_reflect_exactly() {
        for i in 0..1000 {
            let t = (f64::from(i) + 0.5) / 4096.0;
            let (c, s) = cos_sin_turns(t);
            assert_eq!(cos_sin_turns(t + 0.25), (-s, c));
            assert_eq!(cos_sin_turns(t + 0.5), (-c, -s));
            assert_eq!(cos_sin_turns(t + 0.75), (s, -c));
            assert!(c > 0.0 && s > 0.0);
        }
    }

    #[test]
    fn units_are_open_and_fit_their_type() {
        for word in [0, 1, 2, 0x7F_FFFF, 0x80_0000, 0x80_0001, u32::MAX - 1, u32::MAX] {
            for value in [unit_24(word), turn_24(word)] {
                assert!(value > 0.0 && value < 1.0);
            }
            assert_eq!(f64::from(unit_24(word) as f32), unit_24(word));
        }
        assert_eq!(unit_24(0), 0.5f64.powi(33));
        assert_eq!(unit_24(u32::MAX), 1.0 - 0.5f64.powi(24));
        assert_eq!(open_52(0), 0.5f64.powi(53));
        assert_eq!(open_52(u64::MAX), 1.0 - 0.5f64.powi(53));
    }
}
