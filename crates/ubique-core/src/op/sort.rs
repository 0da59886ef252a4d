//! Order along an axis: sorting, and the largest or smallest few. Sorts are stable, and NaN comes last either way.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::{Combine, require_axis};
use crate::op::reduce::groups;
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::{TensorSpec, normalize_axis};
use crate::tensor::Tensor;

/// The elements of each line along an axis in order, and (i64) where in the line each of them stood.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sort {
    /// The axis.
    pub axis: usize,
    /// Whether the largest come first. NaN comes last all the same, and equal elements keep their order.
    pub descending: bool,
}

/// The first `k` of what [`Sort`] gives.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TopK {
    /// The axis.
    pub axis: usize,
    /// How many of each line.
    pub k: usize,
    /// Whether the largest are wanted, in descending order, or the smallest, in ascending order.
    pub largest: bool,
}

/// The order of two floats; NaN after everything.
fn compare_floats(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) if descending => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}

/// Values and indices for specs of `k` elements along the axis.
fn specs(x: &TensorSpec, axis: usize, k: usize) -> Result<Specs> {
    let shape = x.shape.with(axis, k);
    shape.bytes(DType::I64)?;
    Ok(Specs::Many(vec![TensorSpec { shape: shape.clone(), dtype: x.dtype }, TensorSpec { shape, dtype: DType::I64 }]))
}

/// The gradient of elements picked out along an axis goes back to where they stood.
fn put_back(call: &Vjp<'_>, axis: usize) -> Result<Cotangents> {
    let x = call.spec(0)?;
    let zeros = Tensor::zeros(&x.shape, x.dtype, call.device())?;
    let index = call.output(1)?.detach();
    Ok(Cotangents::one(zeros.scatter(axis as isize, &index, &call.grad_or_zeros(0)?, Combine::Set)?))
}

/// The first `k` of each line in order, and where they stood.
fn reference(x: &RefTensor, axis: usize, k: usize, descending: bool, outputs: &[TensorSpec]) -> Vec<RefTensor> {
    let mut places = vec![0; outputs[0].shape.iter().product()];
    let mut index = vec![0i128; places.len()];
    for (from, to) in groups(x.shape(), &[axis]).zip(groups(&outputs[0].shape, &[axis])) {
        let mut order: Vec<usize> = (0..from.len()).collect();
        match &x.values {
            Values::Float(v) => order.sort_by(|&a, &b| compare_floats(v[from[a]], v[from[b]], descending)),
            Values::Int(v) if descending => order.sort_by(|&a, &b| v[from[b]].cmp(&v[from[a]])),
            Values::Int(v) => order.sort_by_key(|&a| v[from[a]]),
        }
        for (rank, &place) in order.iter().take(k).enumerate() {
            places[to[rank]] = from[place];
            index[to[rank]] = place as i128;
        }
    }
    vec![x.gather(&outputs[0], places.into_iter()), RefTensor::int(&outputs[1].shape, DType::I64, index)]
}

impl Rule for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        specs(x, self.axis, require_axis(&x.shape, self.axis)?)
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        put_back(call, self.axis)
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        Ok(reference(&inputs[0], self.axis, usize::MAX, self.descending, outputs))
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for descending in [false, true] {
            let sort = |axis| Case::new(Sort { axis, descending });
            for dtype in DType::COMPUTED {
                // Few values, so that many are equal.
                cases.push(sort(0).input_with([60], dtype, Fill::Uniform(-9.0, 9.0)).not_smooth());
                cases.push(sort(0).input_with([13, 3], dtype, Fill::Special));
                cases.push(sort(1).input_with([2, 39], dtype, Fill::Special));
                cases.push(sort(0).input_with([1023], dtype, Fill::Distinct(-1e4, 1e4)).not_smooth());
            }
            for dtype in DType::FLOATS {
                cases.push(sort(1).input_with([2, 7, 3], dtype, Fill::Distinct(-2.0, 2.0)));
            }
            cases.push(sort(0).input([0, 3], DType::F32));
            cases.push(sort(1).input([0, 3], DType::F32));
            cases.push(sort(0).input([1], DType::F32));
            cases.push(sort(0).input_with([5], DType::F32, Fill::Values(vec![-0.0, 0.0])).not_smooth());
        }
        cases
    }
}

impl Rule for TopK {
    fn name(&self) -> &'static str {
        "topk"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        let extent = require_axis(&x.shape, self.axis)?;
        if self.k > extent {
            return Err(Error::shape(format!("the first {} of axis {}, whose extent is {extent}", self.k, self.axis)));
        }
        specs(x, self.axis, self.k)
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        put_back(call, self.axis)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let axis = self.axis as isize;
        let (values, index) = x.sort(axis, self.largest)?;
        Ok(Some(vec![values.narrow(axis, 0, self.k)?, index.narrow(axis, 0, self.k)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        Ok(reference(&inputs[0], self.axis, self.k, self.largest, outputs))
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for largest in [false, true] {
            let topk = |axis, k| Case::new(TopK { axis, k, largest });
            for dtype in DType::COMPUTED {
                cases.push(topk(0, 7).input_with([60], dtype, Fill::Uniform(-9.0, 9.0)).not_smooth());
                cases.push(topk(1, 11).input_with([2, 13], dtype, Fill::Special));
            }
            for dtype in DType::FLOATS {
                cases.push(topk(1, 3).input_with([2, 7, 3], dtype, Fill::Distinct(-2.0, 2.0)));
            }
            cases.push(topk(0, 100).input_with([1023], DType::F32, Fill::Distinct(-1e4, 1e4)));
            cases.push(topk(0, 5).input_with([5], DType::F64, Fill::Distinct(-1.0, 1.0)));
            cases.push(topk(0, 0).input([5], DType::F32));
            cases.push(topk(0, 0).input([0, 2], DType::F32));
            cases.push(topk(1, 2).input([0, 2], DType::F32));
        }
        cases
    }
}

fn pair(op: Op, x: &Tensor) -> Result<(Tensor, Tensor)> {
    let name = op.name();
    let results = run::call_many(op, &[x])?;
    <[Tensor; 2]>::try_from(results)
        .map(|[values, index]| (values, index))
        .map_err(|list| Error::backend(format!("{name} gave {} outputs instead of 2", list.len())))
}

impl Tensor {
    /// The elements of each line along `axis` in ascending (or descending) order, and where in the line each of them
    /// stood (i64). Stable: equal elements keep their order. NaN comes last in both directions.
    ///
    /// # Errors
    /// Where the axis is out of range.
    pub fn sort(&self, axis: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("sort", &[self.spec()]))?;
        pair(Op::Sort(Sort { axis, descending }), self)
    }

    /// Where the elements that [`Tensor::sort`] gives stood in their line (i64).
    ///
    /// # Errors
    /// Where the axis is out of range.
    pub fn argsort(&self, axis: isize, descending: bool) -> Result<Tensor> {
        Ok(self.detach().sort(axis, descending)?.1)
    }

    /// The `k` largest elements of each line along `axis` in descending order (or the `k` smallest, ascending), and
    /// where in the line they stood (i64). Of equal elements the earlier come first. NaN counts as after all others.
    ///
    /// # Errors
    /// Where the axis is out of range or shorter than `k`.
    pub fn topk(&self, k: usize, axis: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("topk", &[self.spec()]))?;
        pair(Op::TopK(TopK { axis, k, largest }), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_last_both_ways_and_ties_keep_their_order() {
        let x = RefTensor::float([5], DType::F32, vec![1.0, f64::NAN, 2.0, 1.0, f64::NEG_INFINITY]);
        let specs = [TensorSpec::new([5], DType::F32), TensorSpec::new([5], DType::I64)];
        let order = |descending| reference(&x, 0, 5, descending, &specs)[1].ints();
        assert_eq!(order(false), [4, 0, 3, 2, 1]);
        assert_eq!(order(true), [2, 0, 3, 4, 1]);
    }

    #[test]
    fn refuses_bad_axes_and_counts() {
        let spec = TensorSpec::new([2, 3], DType::F32);
        assert!(Op::Sort(Sort { axis: 2, descending: false }).infer(std::slice::from_ref(&spec)).is_err());
        let error = Op::TopK(TopK { axis: 1, k: 4, largest: true }).infer(&[spec]).unwrap_err();
        assert_eq!(error.to_string(), "topk(f32[2, 3]): the first 4 of axis 1, whose extent is 3");
    }
}
