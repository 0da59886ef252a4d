//! Quantiles and the median.

use crate::error::{Error, Result};
use crate::op::index::index_tensor;
use crate::op::lanes::{accumulator, along_axis};
use crate::op::require_float;
use crate::shape::normalize_axis;
use crate::tensor::Tensor;

/// What a quantile is that falls between two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Interpolation {
    /// A mixture of both, by their distances.
    #[default]
    Linear,
    /// The smaller.
    Lower,
    /// The larger.
    Higher,
    /// The nearer; of equally near ones that at the even place.
    Nearest,
    /// Their mean.
    Midpoint,
}

impl Interpolation {
    /// The place of the lower element, and how much the next one counts.
    fn place(self, exact: f64) -> (usize, f64) {
        let (place, weight) = match self {
            Interpolation::Linear => (exact.floor(), exact.fract()),
            Interpolation::Lower => (exact.floor(), 0.0),
            Interpolation::Higher => (exact.ceil(), 0.0),
            Interpolation::Nearest => (exact.round_ties_even(), 0.0),
            Interpolation::Midpoint => (exact.floor(), if exact.fract() > 0.0 { 0.5 } else { 0.0 }),
        };
        (place as usize, weight)
    }
}

impl Tensor {
    /// The value below which the part `q` of the elements along an axis lies: of n elements in ascending order the one at
    /// place `q·(n - 1)`, counted from 0, and between two places what `interpolation` says. NaN where any element is NaN.
    /// The axis goes away, or with `keepdim` stays with extent 1. Any floating-point dtype; the gradient goes to the
    /// elements that the value is made of.
    ///
    /// # Errors
    /// Where q is not in 0..=1, the axis is out of range or empty, or the dtype is not floating point.
    pub fn quantile(&self, q: f64, axis: isize, interpolation: Interpolation, keepdim: bool) -> Result<Tensor> {
        quantile(self, q, axis, interpolation, keepdim).map_err(|e| e.with_op("quantile", &[self.spec()]))
    }

    /// The quantiles for several `q` at once, from one sort: as [`Tensor::quantile`], with a new first axis, which holds the
    /// value of each `q` in the order given.
    ///
    /// # Errors
    /// As [`Tensor::quantile`].
    pub fn quantiles(&self, q: &[f64], axis: isize, interpolation: Interpolation, keepdim: bool) -> Result<Tensor> {
        quantiles(self, q, axis, interpolation, keepdim).map_err(|e| e.with_op("quantiles", &[self.spec()]))
    }

    /// The median along an axis: the middle element, and of an even number the mean of the middle two (as numpy does). NaN
    /// where any element is NaN. Shapes and dtypes as in [`Tensor::quantile`].
    ///
    /// # Errors
    /// Where the axis is out of range or empty, or the dtype is not floating point.
    pub fn median(&self, axis: isize, keepdim: bool) -> Result<Tensor> {
        quantile(self, 0.5, axis, Interpolation::Linear, keepdim).map_err(|e| e.with_op("median", &[self.spec()]))
    }
}

fn quantile(x: &Tensor, q: f64, axis: isize, interpolation: Interpolation, keepdim: bool) -> Result<Tensor> {
    quantiles(x, &[q], axis, interpolation, keepdim)?.squeeze(0)
}

fn quantiles(x: &Tensor, q: &[f64], axis: isize, interpolation: Interpolation, keepdim: bool) -> Result<Tensor> {
    require_float(&x.spec())?;
    if let Some(q) = q.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        return Err(Error::value(format!("a quantile lies in 0..=1, not at {q}")));
    }
    let at = normalize_axis(axis, x.rank())?;
    let Some(last) = x.shape()[at].checked_sub(1) else {
        return Err(Error::shape(format!("axis {axis} has no elements")));
    };
    let sorted = x.sort(axis, false)?.0;
    let elements = |places: Vec<i64>| {
        let index = index_tensor(places, [q.len()], x.device())?;
        sorted.index_select(axis, &index)?.cast(accumulator(x.dtype()))
    };
    let (places, weights): (Vec<usize>, Vec<f64>) = q.iter().map(|q| interpolation.place(q * last as f64)).unzip();
    let lower = elements(places.iter().map(|&place| place as i64).collect())?;
    let mut value = lower.clone();
    if weights.iter().any(|&weight| weight > 0.0) {
        // Where the next element does not count the same one stands in for it, which may be infinite.
        let next = places.iter().zip(&weights).map(|(&place, &weight)| place as i64 + (weight > 0.0) as i64);
        let upper = elements(next.collect())?;
        let weights = along_axis(weights, at, &lower)?;
        let mixture = (&lower * (1.0 - &weights) + &upper * &weights).tensor()?;
        // Equal elements are taken as they are, so that rounding does not move them.
        value = lower.select(&lower.eq(&upper)?, &mixture)?;
    }
    // NaN stands last in the order.
    let largest = sorted.narrow(axis, last as isize, 1)?.detach();
    let value = value.masked_fill(&largest.ne(&largest)?, f64::NAN)?.cast(x.dtype())?;
    let value = value.movedim(at as isize, 0)?;
    if keepdim { value.unsqueeze(at as isize + 1) } else { Ok(value) }
}
