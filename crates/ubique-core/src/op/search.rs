//! Places of values in sorted sequences, and counts of values.

use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::op::lanes::accumulator;
use crate::tensor::Tensor;

/// On which side of equal elements a value belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Side {
    /// Before all of them: `sorted[i - 1] < value <= sorted[i]`.
    #[default]
    Left,
    /// After all of them: `sorted[i - 1] <= value < sorted[i]`.
    Right,
}

impl Side {
    /// Whether an element stands before where a value belongs. As in sorting, NaN is larger than all else.
    fn precedes(self, element: &Tensor, value: &Tensor) -> Result<Tensor> {
        let nan = value.ne(value)?;
        match self {
            Side::Left => element.lt(value)?.bit_or(&nan.bit_and(&element.eq(element)?)?),
            Side::Right => element.le(value)?.bit_or(&nan),
        }
    }
}

impl Tensor {
    /// Where values belong in this ascending sequence, so that it stays in order: for each value how many elements stand
    /// before it (i64, `0..=n`), in the values' shape. A sequence `[n]` serves values of any shape, one `[.., n]` with
    /// leading axes values `[.., m]` with the same ones. NaN is larger than all else. Any one dtype. Takes log₂(n) steps; a
    /// sequence out of order gives places that mean nothing.
    ///
    /// # Errors
    /// Where the sequence has rank 0, leading axes or dtypes differ.
    pub fn searchsorted(&self, values: &Tensor, side: Side) -> Result<Tensor> {
        search(self, values, side).map_err(|e| e.with_op("searchsorted", &[self.spec(), values.spec()]))
    }

    /// In which bucket between ascending boundaries `[n]` each element lies (i64, `0..=n`): with [`Side::Left`] bucket i holds
    /// `boundaries[i - 1] < x <= boundaries[i]`, with [`Side::Right`] `boundaries[i - 1] <= x < boundaries[i]`. Any one
    /// dtype.
    ///
    /// # Errors
    /// Where the boundaries are no vector or dtypes differ.
    pub fn bucketize(&self, boundaries: &Tensor, side: Side) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("bucketize", &[self.spec(), boundaries.spec()]);
        if boundaries.rank() != 1 {
            return Err(fail(Error::shape("the boundaries have to be a vector")));
        }
        search(boundaries, self, side).map_err(fail)
    }

    /// How often each number occurs in this vector: element i of the result counts those equal to i (i64), or sums their
    /// `weights` (of the same shape; the result has their dtype). The length is the largest number plus 1, at least
    /// `min_length`. Any integer dtype. Waits for the device, because the result's size depends on the data.
    ///
    /// # Errors
    /// Where this is no vector or not of an integer dtype, a number is negative, or the weights have another shape or are
    /// bool.
    pub fn bincount(&self, weights: Option<&Tensor>, min_length: usize) -> Result<Tensor> {
        let specs = || [self.spec()].into_iter().chain(weights.map(Tensor::spec)).collect::<Vec<_>>();
        bincount(self, weights, min_length).map_err(|e| e.with_op("bincount", &specs()))
    }

    /// How many elements lie in each of `bins` equally wide bins between `low` and `high`: the counts `[bins]` (i64) and the
    /// bins' edges `[bins + 1]`. A bin holds its lower edge, and the last one both; what lies outside, and NaN, is not
    /// counted. Any number dtype and shape; edges are f64 for f64 and integers, and f32 for other floats.
    ///
    /// # Errors
    /// Where there are no bins, the bounds are not finite or not in order, or for bools.
    pub fn histogram(&self, bins: usize, low: f64, high: f64) -> Result<(Tensor, Tensor)> {
        histogram(self, bins, low, high).map_err(|e| e.with_op("histogram", &[self.spec()]))
    }
}

fn search(sorted: &Tensor, values: &Tensor, side: Side) -> Result<Tensor> {
    let Some((&count, lead)) = sorted.shape().split_last() else {
        return Err(Error::shape("the sequence has no axis"));
    };
    let shape = values.shape().clone();
    let (sorted, mut values) = (sorted.detach(), values.detach());
    if lead.is_empty() {
        values = values.reshape([values.elements()])?;
    } else if values.rank() != sorted.rank() || !values.shape().starts_with(lead) {
        return Err(Error::shape(format!("values {shape} do not have the leading axes of {}", sorted.shape())));
    }
    let mut place = Tensor::zeros(values.shape(), DType::I64, values.device())?;
    // The place is found bit by bit, from the highest that `0..=count` can have.
    let mut step = if count == 0 { 0 } else { 1 << count.ilog2() };
    while step > 0 {
        let next = (&place + step as i64).tensor()?;
        let element = sorted.gather(-1, &(&next - 1).tensor()?.minimum(count - 1)?)?;
        let reached = side.precedes(&element, &values)?.bit_and(&next.le(count)?)?;
        place = next.select(&reached, &place)?;
        step /= 2;
    }
    place.reshape(shape)
}

fn bincount(x: &Tensor, weights: Option<&Tensor>, min_length: usize) -> Result<Tensor> {
    if x.rank() != 1 || !x.dtype().is_int() {
        return Err(Error::shape("takes a vector of an integer dtype"));
    }
    let index = x.cast(DType::I64)?;
    let weights = match weights {
        Some(weights) if weights.shape() != x.shape() => {
            return Err(Error::shape(format!("{} weights for {} numbers", weights.shape(), x.shape())));
        }
        Some(weights) if weights.dtype() == DType::Bool => {
            return Err(Error::dtype("the weights are bool; cast them to a number first"));
        }
        Some(weights) => weights.clone(),
        None => index.ones_like()?,
    };
    let mut length = min_length;
    if index.elements() > 0 {
        let (low, high) = (index.min_all()?.item::<i64>()?, index.max_all()?.item::<i64>()?);
        let largest = usize::try_from(high).ok().filter(|_| low >= 0).and_then(|high| high.checked_add(1));
        length = length.max(largest.ok_or_else(|| Error::value(format!("numbers reach from {low} to {high}")))?);
    }
    Tensor::zeros([length], weights.dtype(), x.device())?.index_add(0, &index, &weights)
}

fn histogram(x: &Tensor, bins: usize, low: f64, high: f64) -> Result<(Tensor, Tensor)> {
    if x.dtype().kind() == Kind::Bool {
        return Err(Error::dtype("does not take bool; cast first"));
    }
    if !(low.is_finite() && high.is_finite() && low < high) {
        return Err(Error::value(format!("bins cannot lie between {low} and {high}")));
    }
    let Some(last) = bins.checked_sub(1) else {
        return Err(Error::value("needs at least one bin"));
    };
    let dtype = if x.dtype().is_float() { accumulator(x.dtype()) } else { DType::F64 };
    let x = x.detach().reshape([x.elements()])?.cast(dtype)?;
    // All but the last edge by steps from the first, whose rounding must not move the last.
    let step = high / bins as f64 - low / bins as f64;
    let lower = Tensor::linspace(low, low + step * last as f64, bins, dtype, x.device())?;
    let edges = Tensor::concat(&[&lower, &Tensor::full([1], high, dtype, x.device())?], 0)?;
    let inside = x.ge(&edges.narrow(0, 0, 1)?)?.bit_and(&x.le(&edges.narrow(0, -1, 1)?)?)?;
    let bin = (search(&lower, &x, Side::Right)? - 1).tensor()?.maximum(0)?;
    let counts = Tensor::zeros([bins], DType::I64, x.device())?.index_add(0, &bin, &inside.cast(DType::I64)?)?;
    Ok((counts, edges))
}
