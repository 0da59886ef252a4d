//! Where the largest or smallest element of an axis stands.

use serde::{Deserialize, Serialize};

use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::require_axis;
use crate::op::reduce::{groups, reduced_shape};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, operands};
use crate::shape::{TensorSpec, normalize_axis};
use crate::tensor::Tensor;

/// Which element is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extremum {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// The place (i64) of the largest or smallest element of each line along an axis. Of equal elements the first one's;
/// where there is NaN, the first NaN's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArgReduce {
    /// Which element.
    pub op: Extremum,
    /// The axis.
    pub axis: usize,
    /// Whether the axis stays, with extent 1.
    pub keepdim: bool,
}

/// Whether `b` takes the place of `a`, which came before it.
fn beats<T: PartialOrd>(op: Extremum, a: T, b: T) -> bool {
    match op {
        Extremum::Max => b > a,
        Extremum::Min => b < a,
    }
}

impl Rule for ArgReduce {
    fn name(&self) -> &'static str {
        match self.op {
            Extremum::Max => "argmax",
            Extremum::Min => "argmin",
        }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        if require_axis(&x.shape, self.axis)? == 0 {
            return Err(Error::shape(format!("axis {} has no elements to choose from", self.axis)));
        }
        let shape = reduced_shape(&x.shape, &[self.axis], self.keepdim);
        shape.bytes(DType::I64)?;
        Ok(TensorSpec { shape, dtype: DType::I64 }.into())
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let x = &inputs[0];
        let found = groups(x.shape(), &[self.axis]).map(|line| {
            let better = |best: usize, i: usize| match &x.values {
                Values::Float(v) => {
                    let (a, b) = (v[line[best]], v[line[i]]);
                    if !a.is_nan() && (b.is_nan() || beats(self.op, a, b)) { i } else { best }
                }
                Values::Int(v) if beats(self.op, v[line[best]], v[line[i]]) => i,
                Values::Int(_) => best,
            };
            (0..line.len()).reduce(better).unwrap_or(0) as i128
        });
        Ok(vec![RefTensor::int(&outputs[0].shape, DType::I64, found.collect())])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for op in [Extremum::Max, Extremum::Min] {
            let arg = |axis, keepdim| Case::new(ArgReduce { op, axis, keepdim });
            for dtype in DType::COMPUTED {
                cases.push(arg(1, false).input_with([2, 7, 3], dtype, Fill::Uniform(-9.0, 9.0)));
                cases.push(arg(1, true).input_with([5, 9], dtype, Fill::Uniform(-9.0, 9.0)));
                cases.push(arg(0, false).input_with([13], dtype, Fill::Special));
                cases.push(arg(0, false).input_with([1031], dtype, Fill::Distinct(-1e4, 1e4)));
            }
            cases.push(arg(1, false).input([0, 3], DType::F32));
            cases.push(arg(0, false).input([1], DType::F32));
            cases.push(arg(0, true).input_with([3], DType::F32, Fill::Values(vec![f64::NAN])));
            cases.push(arg(0, true).input_with([4], DType::F32, Fill::Values(vec![f64::NEG_INFINITY, f64::INFINITY])));
            cases.push(arg(0, false).input_with([4], DType::F32, Fill::Values(vec![-0.0, 0.0])));
        }
        cases
    }
}

fn arg_reduce(op: Extremum, x: &Tensor, axis: isize, keepdim: bool) -> Result<Tensor> {
    let rule = ArgReduce { op, axis: 0, keepdim };
    let axis = normalize_axis(axis, x.rank()).map_err(|e| e.with_op(rule.name(), &[x.spec()]))?;
    run::call(Op::ArgReduce(ArgReduce { axis, ..rule }), [x.into()])
}

impl Tensor {
    /// The place (i64) of the largest element of each line along an axis; the first one's where several are equal, and
    /// the first NaN's where there is NaN. With `keepdim` the axis stays, with extent 1.
    ///
    /// # Errors
    /// Where the axis is out of range or empty.
    pub fn argmax(&self, axis: isize, keepdim: bool) -> Result<Tensor> {
        arg_reduce(Extremum::Max, self, axis, keepdim)
    }

    /// The place (i64) of the smallest element of each line along an axis; see [`Tensor::argmax`].
    ///
    /// # Errors
    /// Where the axis is out of range or empty.
    pub fn argmin(&self, axis: isize, keepdim: bool) -> Result<Tensor> {
        arg_reduce(Extremum::Min, self, axis, keepdim)
    }
}
