//! Comparison of a result with the reference.

use std::fmt;

use ubique_core::op::reference::{RefTensor, Values};

use crate::tolerance::Tolerance;

/// The element that is furthest off.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// Its position in row-major order.
    pub position: usize,
    /// What the device gave.
    pub got: f64,
    /// What the reference says.
    pub wanted: f64,
    /// How many elements are off, of how many.
    pub count: (usize, usize),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (off, of) = self.count;
        write!(
            f,
            "{off} of {of} elements are off, worst at {}: got {:e}, wanted {:e}",
            self.position, self.got, self.wanted
        )
    }
}

/// Compares a result with the reference's value, rounded to the dtype.
///
/// # Errors
/// The worst element, where any is off beyond the tolerance.
pub fn compare(got: &RefTensor, wanted: &RefTensor, tolerance: Tolerance) -> Result<(), Mismatch> {
    let dtype = wanted.spec.dtype;
    let (mut worst, mut off) = (None::<(f64, usize, f64, f64)>, 0);
    let mut check = |position: usize, got: f64, wanted: f64, excess: f64| {
        if excess > 0.0 {
            off += 1;
            if worst.as_ref().is_none_or(|(e, ..)| excess > *e) {
                worst = Some((excess, position, got, wanted));
            }
        }
    };
    match (&got.values, &wanted.values) {
        (Values::Int(g), Values::Int(w)) => {
            for (i, (&g, &w)) in g.iter().zip(w).enumerate() {
                check(i, g as f64, w as f64, (g != w) as u8 as f64);
            }
        }
        _ => {
            for (i, (g, w)) in got.floats().into_iter().zip(wanted.floats()).enumerate() {
                check(i, g, w, excess(g, w, dtype.round(w), tolerance));
            }
        }
    }
    let len = (got.len(), wanted.len());
    match worst {
        Some((_, position, got, wanted)) => Err(Mismatch { position, got, wanted, count: (off, len.1) }),
        None if len.0 != len.1 => Err(Mismatch { position: 0, got: len.0 as f64, wanted: len.1 as f64, count: len }),
        None => Ok(()),
    }
}

/// How far beyond the tolerance a value is; 0 where it is within.
fn excess(got: f64, exact: f64, rounded: f64, tolerance: Tolerance) -> f64 {
    if got == rounded || got.is_nan() && exact.is_nan() {
        return 0.0;
    }
    let allowed = tolerance.absolute + tolerance.relative * exact.abs();
    let error = (got - exact).abs();
    match error.is_nan() || !exact.is_finite() || !got.is_finite() {
        // At the edge of the range one of both may round to infinity.
        true if exact.is_finite()
            && got.is_infinite()
            && (exact * (1.0 + tolerance.relative)).abs() >= rounded.abs()
            && rounded.is_infinite() =>
        {
            0.0
        }
        true => f64::INFINITY,
        false if error <= allowed => 0.0,
        false => error / allowed.max(f64::MIN_POSITIVE),
    }
}
