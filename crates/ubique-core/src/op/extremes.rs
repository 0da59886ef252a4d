//! Extrema with where they stand, and largest magnitudes.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::scan::sources;
use crate::shape::normalize_axis;
use crate::tensor::Tensor;

impl Tensor {
    /// As [`Tensor::cummax`], and for each element the place (i64) along the axis of the one that it comes from: of equal
    /// elements the latest so far, of NaNs too.
    ///
    /// # Errors
    /// Where the axis is out of range.
    pub fn cummax_with_indices(&self, axis: isize) -> Result<(Tensor, Tensor)> {
        with_indices(self, "cummax_with_indices", axis, self.cummax(axis))
    }

    /// As [`Tensor::cummin`], and for each element the place (i64) along the axis of the one that it comes from: of equal
    /// elements the latest so far, of NaNs too.
    ///
    /// # Errors
    /// Where the axis is out of range.
    pub fn cummin_with_indices(&self, axis: isize) -> Result<(Tensor, Tensor)> {
        with_indices(self, "cummin_with_indices", axis, self.cummin(axis))
    }

    /// Where the elements that [`Tensor::topk`] gives stand in their line along the axis (i64).
    ///
    /// # Errors
    /// Where the axis is out of range or shorter than `k`.
    pub fn argtopk(&self, k: usize, axis: isize, largest: bool) -> Result<Tensor> {
        Ok(self.detach().topk(k, axis, largest)?.1)
    }

    /// The largest magnitude over the given axes (none given means all), which go away; NaN where any is NaN. Any number
    /// dtype; the magnitude of the smallest signed integer wraps to itself.
    ///
    /// # Errors
    /// Where an axis is out of range, named twice or empty, or for bools.
    pub fn max_abs(&self, axes: &[isize]) -> Result<Tensor> {
        self.abs()?.max(axes)
    }
}

fn with_indices(x: &Tensor, op: &str, axis: isize, extrema: Result<Tensor>) -> Result<(Tensor, Tensor)> {
    let fail = |e: Error| e.with_op(op, &[x.spec()]);
    let at = normalize_axis(axis, x.rank()).map_err(fail)?;
    let extrema = extrema.map_err(fail)?;
    let indices = sources(&x.detach(), &extrema.detach(), at, DType::I64)?;
    Ok((extrema, indices))
}
