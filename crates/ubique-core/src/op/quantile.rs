//! Quantiles and the median.

use crate::error::{Error, Result};
use crate::op::lanes::accumulator;
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
    require_float(&x.spec())?;
    if !(0.0..=1.0).contains(&q) {
        return Err(Error::value(format!("a quantile lies in 0..=1, not at {q}")));
    }
    let at = normalize_axis(axis, x.rank())?;
    let Some(last) = x.shape()[at].checked_sub(1) else {
        return Err(Error::shape(format!("axis {axis} has no elements")));
    };
    let sorted = x.sort(axis, false)?.0;
    let element = |place: usize| sorted.narrow(axis, place as isize, 1)?.cast(accumulator(x.dtype()));
    let (place, weight) = interpolation.place(q * last as f64);
    let lower = element(place)?;
    let value = if weight == 0.0 {
        lower
    } else {
        let upper = element(place + 1)?;
        let mixture = (&lower * (1.0 - weight) + &upper * weight).tensor()?;
        // Equal elements are taken as they are, so that rounding does not move them.
        lower.select(&lower.eq(&upper)?, &mixture)?
    };
    // NaN stands last in the order.
    let largest = element(last)?.detach();
    let value = value.masked_fill(&largest.ne(&largest)?, f64::NAN)?.cast(x.dtype())?;
    if keepdim { Ok(value) } else { value.squeeze(axis) }
}
