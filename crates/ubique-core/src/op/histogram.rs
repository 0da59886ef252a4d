//! How often values occur: each number, and ranges of values.

use crate::dispatch::run;
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::op::index::is_index;
use crate::op::lanes::accumulator;
use crate::op::search::{SearchSorted, Side};
use crate::tensor::Tensor;

impl Tensor {
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
    /// With `weights`, a tensor of the same shape and any number dtype, each bin holds the sum of its elements' weights, in
    /// their dtype; differentiable in them. With `density` the values of bins are divided by their sum and by the bins'
    /// width, so that the area under them is 1 (NaN where no element is counted): they have the dtype of floating-point
    /// weights, else that of the edges.
    ///
    /// # Errors
    /// Where there are no bins, the bounds are not finite or not in order, weights have another shape, or for bools.
    pub fn histogram(
        &self,
        bins: usize,
        low: f64,
        high: f64,
        weights: Option<&Tensor>,
        density: bool,
    ) -> Result<(Tensor, Tensor)> {
        let specs = || [self.spec()].into_iter().chain(weights.map(Tensor::spec)).collect::<Vec<_>>();
        histogram(self, bins, (low, high), weights, density).map_err(|e| e.with_op("histogram", &specs()))
    }
}

/// Refuses weights that do not fit what they weigh.
fn check_weights(x: &Tensor, weights: &Tensor) -> Result<()> {
    if weights.shape() != x.shape() {
        return Err(Error::shape(format!("{} weights for {} numbers", weights.shape(), x.shape())));
    }
    if weights.dtype() == DType::Bool {
        return Err(Error::dtype("the weights are bool; cast them to a number first"));
    }
    Ok(())
}

fn bincount(x: &Tensor, weights: Option<&Tensor>, min_length: usize) -> Result<Tensor> {
    if x.rank() != 1 || !x.dtype().is_int() {
        return Err(Error::shape("takes a vector of an integer dtype"));
    }
    // What an index may be stays what it is: no dtype that the device may lack.
    let index = if is_index(x.dtype()) { x.clone() } else { x.cast(DType::I64)? };
    let weights = match weights {
        Some(weights) => {
            check_weights(x, weights)?;
            weights.clone()
        }
        None => Tensor::ones(x.shape(), DType::I64, x.device())?,
    };
    let mut length = min_length;
    if index.elements() > 0 {
        let (low, high) = (index.min_all()?.item_scalar()?.as_i128(), index.max_all()?.item_scalar()?.as_i128());
        let largest = usize::try_from(high).ok().filter(|_| low >= 0).and_then(|high| high.checked_add(1));
        length = length.max(largest.ok_or_else(|| Error::value(format!("numbers reach from {low} to {high}")))?);
    }
    Tensor::zeros([length], weights.dtype(), x.device())?.index_add(0, &index, &weights)
}

fn histogram(
    x: &Tensor,
    bins: usize,
    (low, high): (f64, f64),
    weights: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    if x.dtype().kind() == Kind::Bool {
        return Err(Error::dtype("does not take bool; cast first"));
    }
    if !(low.is_finite() && high.is_finite() && low < high) {
        return Err(Error::value(format!("bins cannot lie between {low} and {high}")));
    }
    let Some(last) = bins.checked_sub(1) else {
        return Err(Error::value("needs at least one bin"));
    };
    weights.map(|weights| check_weights(x, weights)).transpose()?;
    let dtype = if x.dtype().is_float() { accumulator(x.dtype()) } else { DType::F64 };
    let x = x.detach().reshape([x.elements()])?.cast(dtype)?;
    // All but the last edge by steps from the first, whose rounding must not move the last.
    let step = high / bins as f64 - low / bins as f64;
    let lower = Tensor::linspace(low, low + step * last as f64, bins, dtype, x.device())?;
    let edges = Tensor::concat(&[&lower, &Tensor::full([1], high, dtype, x.device())?], 0)?;
    let outside = x.ge(&edges.narrow(0, 0, 1)?)?.bit_and(&x.le(&edges.narrow(0, -1, 1)?)?)?.not()?;
    let search = SearchSorted { side: Side::Right, dtype: x.device().default_int() };
    let bin = (run::call(search.into(), [(&lower).into(), (&x).into()])? - 1).tensor()?.clamp(0, last)?;
    let weights = match weights {
        Some(weights) => weights.reshape([x.elements()])?,
        None => Tensor::ones([x.elements()], DType::I64, x.device())?,
    };
    let zeros = Tensor::zeros([bins], weights.dtype(), x.device())?;
    let counts = zeros.index_add(0, &bin, &weights.masked_fill(&outside, 0)?)?;
    if !density {
        return Ok((counts, edges));
    }
    let of = if weights.dtype().is_float() { weights.dtype() } else { dtype };
    let counts = counts.cast(accumulator(of))?;
    let widths = (edges.narrow(0, 1, bins)? - &lower).tensor()?.cast(counts.dtype())?;
    let total = counts.sum_all()?;
    Ok(((counts / total / widths).tensor()?.cast(of)?, edges))
}
