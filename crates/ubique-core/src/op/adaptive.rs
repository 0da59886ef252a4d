//! The largest element of each of a given number of windows.

use crate::error::Result;
use crate::op::conv::per_axis;
use crate::op::index::index_tensor;
use crate::op::pool::Means;
use crate::shape::Shape;
use crate::tensor::Tensor;

impl Tensor {
    /// The largest elements of as many windows as `output` says, one extent for each axis after the first two, or one for
    /// all: the windows are those of [`Tensor::adaptive_avg_pool`]. NaN where a window holds one. Any dtype; of equal
    /// elements each gets a part of the gradient.
    ///
    /// # Errors
    /// Where the number of extents does not fit or an axis is empty.
    pub fn adaptive_max_pool(&self, output: impl Into<Shape>) -> Result<Tensor> {
        let output = output.into();
        let pool = || {
            let means = Means::Adaptive(per_axis("output", &output, self.rank().saturating_sub(2), 1)?);
            let shape = means.output(self.shape())?;
            (2..self.rank()).try_fold(self.clone(), |x, axis| largest(&x, &means, axis, shape[axis]))
        };
        pool().map_err(|e| e.with_op("adaptive_max_pool", &[self.spec()]))
    }
}

/// Windows along one axis differ in length: shorter ones repeat their last element, which changes no maximum.
fn largest(x: &Tensor, means: &Means, axis: usize, output: usize) -> Result<Tensor> {
    let spans = means.spans(axis - 2, x.shape()[axis], output);
    let longest = spans.iter().map(|span| span.end - span.start).max().unwrap_or(1);
    let of_span = |(start, end): (usize, usize)| (0..longest).map(move |i| (start + i).min(end - 1) as i64);
    let places: Vec<i64> = spans.iter().flat_map(|span| of_span((span.start, span.end))).collect();
    let places = index_tensor(places, [output * longest], x.device())?;
    let windows = x.index_select(axis as isize, &places)?;
    windows.reshape(x.shape().with(axis, output).inserted(axis + 1, longest))?.max(&[axis as isize + 1])
}
