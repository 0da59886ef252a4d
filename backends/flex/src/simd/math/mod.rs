//! Elementary functions without branches, so that loops over them vectorise.
//!
//! Every `f32` function is within 2 ulp of the exact value over the whole range (denormals, infinities, NaN and signed
//! zeros included); the polynomials are minimax fits on the interval of their range reduction. Functions that lose
//! digits to cancellation compute in `f64`, whose error vanishes in the final rounding.
//!
//! [`UNARY`] lists those of one argument by name with whole-slice kernels.

mod activation;
mod error;
mod exponential;
mod functions;
mod hyperbolic;
mod logarithm;
mod power;
mod table;
#[cfg(test)]
mod tests;
mod trigonometric;
mod wide;

pub use activation::{gelu, gelu_tanh, sigmoid, silu};
pub use error::{erf, erfc};
pub use exponential::{exp, exp2, expm1};
pub use functions::*;
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use logarithm::{ln, log1p, log2, log10};
pub use power::{cbrt, hypot, pow, recip, rsqrt, sqrt};
pub use table::{UNARY, Unary};
pub use trigonometric::{acos, asin, atan, atan2, cos, sin, tan};

/// The smaller of `x` and `limit`, NaN where `x` is NaN.
#[inline(always)]
fn at_most<T: PartialOrd>(x: T, limit: T) -> T {
    if x > limit { limit } else { x }
}

/// The larger of `x` and `limit`, NaN where `x` is NaN.
#[inline(always)]
fn at_least<T: PartialOrd>(x: T, limit: T) -> T {
    if x < limit { limit } else { x }
}
