//! Whether a result is the recorded one.

use ubique_core::op::reference::{RefTensor, Values};
use ubique_core::{DType, Tensor};

use crate::record::Stored;

/// How far a result may be off, in units of the dtype's epsilon.
#[derive(Clone, Copy)]
pub enum Tolerance {
    /// Relative to each value.
    Each(f64),
    /// Relative to the largest finite magnitude of all values, since sums cancel, and so do gradients; and to this
    /// magnitude at least, that of the terms.
    Largest(f64, f64),
}

fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f32::EPSILON as f64,
    }
}

/// The smallest normal number: what is smaller loses digits.
fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => 2f64.powi(-14),
        _ => f32::MIN_POSITIVE as f64,
    }
}

/// Compares a result of the dtype `expected` with the recorded one, whose floats may be wider.
pub fn compare(got: &Tensor, wanted: &Stored, expected: DType, tolerance: Tolerance) -> Result<(), String> {
    if got.shape().as_ref() != wanted.shape.as_slice() || got.dtype() != expected {
        return Err(format!("is {}, wanted {expected}{:?}", got.spec(), wanted.shape));
    }
    let got = RefTensor::from_host(&got.to_host().map_err(|e| e.to_string())?);
    let wanted = RefTensor::from_host(&wanted.to_host().map_err(|e| e.to_string())?);
    match (&got.values, &wanted.values) {
        (Values::Int(got), Values::Int(wanted)) => match got.iter().zip(wanted).position(|(g, w)| g != w) {
            Some(i) => Err(format!("at {i}: got {}, wanted {}", got[i], wanted[i])),
            None => Ok(()),
        },
        _ => floats(&got.floats(), &wanted.floats(), expected, tolerance),
    }
}

fn floats(got: &[f64], wanted: &[f64], dtype: DType, tolerance: Tolerance) -> Result<(), String> {
    let largest = wanted.iter().map(|w| w.abs()).filter(|w| w.is_finite()).fold(0.0, f64::max);
    let allowed = |wanted: f64| match tolerance {
        Tolerance::Each(ulps) => epsilon(dtype) * ulps * wanted.abs(),
        Tolerance::Largest(ulps, terms) => epsilon(dtype) * ulps * f64::max(largest, terms),
    };
    let off = |(&got, &wanted): (&f64, &f64)| {
        let same = got == dtype.round(wanted) || got.is_nan() && wanted.is_nan();
        let error = (got - wanted).abs();
        !same && (error.is_nan() || error > allowed(wanted).max(smallest(dtype)))
    };
    match got.iter().zip(wanted).position(off) {
        Some(i) => Err(format!("at {i}: got {:e}, wanted {:e}", got[i], wanted[i])),
        None => Ok(()),
    }
}
