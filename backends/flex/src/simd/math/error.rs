//! The error function and its complement.

use super::super::Isa;
use super::exponential::exp_normal;
use super::{at_most, wide};

/// erf(x)/x − 1 in x², for |x| ≤ 0.95.
const ERF_SMALL: [f32; 7] =
    [0.12837917, -0.37612632, 0.11283664, -0.026857706, 0.0051969523, -0.00080977037, 8.185094e-05];
/// ln(erfc(a)) for a in [0.9, 3.95].
const ERF_LARGE: [f32; 7] =
    [-0.0001664524, -1.1277972, -0.6369761, -0.104113646, 0.022315197, -0.0030654857, 0.00019821918];
/// e^(a²)·erfc(a) in (a − 2)/(a + 2), for a in [0, 10.2].
const ERFC: [f64; 14] = [
    0.2553956763178988,
    -0.427185847634019,
    0.24165819346131273,
    -0.07897856953660819,
    0.0037329072776790704,
    0.006997295805108443,
    -0.0008472791021462703,
    -0.0009809531823519288,
    4.433289562150877e-05,
    0.00017128458965485666,
    2.4849507329565638e-05,
    -2.3254310228418697e-05,
    -9.092395645659976e-06,
    -3.677141002412599e-07,
];
/// The error function.
#[inline(always)]
pub fn erf<S: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let small = S::fma(a, S::poly(a * a, ERF_SMALL), a);
    let large = 1.0 - exp_normal::<S>(S::poly(at_most(a, 3.95), ERF_LARGE));
    (if a < 0.92 { small } else { large }).copysign(x)
}

/// The complementary error function, 1 − erf(x), accurate in the tail.
#[inline(always)]
pub fn erfc<S: Isa>(x: f32) -> f32 {
    let a = at_most(x.abs() as f64, 10.2);
    let tail = wide::exp::<S>(-a * a) * S::poly((a - 2.0) / (a + 2.0), ERFC);
    (if x < 0.0 { 2.0 - tail } else { tail }) as f32
}
