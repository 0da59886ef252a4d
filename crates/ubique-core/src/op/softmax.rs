//! Softmax, its logarithm, and the logarithm of the sum of exponentials, over an axis; without overflow.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::{Lanes, require_axis, widened};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands, require_float, require_same_dtype};
use crate::shape::{Shape, TensorSpec, normalize_axes};
use crate::tensor::Tensor;

/// eˣ / Σ eˣ along an axis, or the logarithm of that.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Softmax {
    /// The axis that sums to 1.
    pub axis: usize,
    /// Whether to give the logarithm.
    pub log: bool,
}

/// The largest value of a lane, NaN where there is one.
fn max_nan(lane: &[f64]) -> f64 {
    lane.iter().fold(f64::NEG_INFINITY, |a, &b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
}

/// The softmax of a lane, or its logarithm.
pub(crate) fn softmax_lane(lane: &[f64], log: bool) -> Vec<f64> {
    let max = max_nan(lane);
    let sum: f64 = lane.iter().map(|x| (x - max).exp()).sum();
    lane.iter().map(|x| if log { x - max - sum.ln() } else { (x - max).exp() / sum }).collect()
}

const SHAPES: [(&[usize], usize); 8] = [
    (&[2, 3, 5], 1),
    (&[2, 3, 5], 2),
    (&[4, 7], 0),
    (&[1], 0),
    (&[3, 0], 1),
    (&[0, 3], 1),
    (&[3, 1031], 1),
    (&[130, 2, 9], 0),
];

impl Rule for Softmax {
    fn name(&self) -> &'static str {
        if self.log { "log_softmax" } else { "softmax" }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_float(x)?;
        require_axis(x, self.axis)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let op = Op::SoftmaxBackward(SoftmaxBackward { axis: self.axis, log: self.log });
        Ok(Cotangents::one(run::call(op, [call.output(0)?.into(), call.grad(0)?.into()])?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        if x.elements() == 0 {
            return Ok(Some(vec![x.clone()]));
        }
        widened(inputs, |inputs| {
            let (x, axis) = (&inputs[0], [self.axis as isize]);
            let shifted = (x - x.max_keepdim(&axis)?).tensor()?;
            let exp = shifted.exp()?;
            let sum = exp.sum_keepdim(&axis)?;
            Ok(vec![if self.log { (shifted - sum.log()?).tensor()? } else { (exp / sum).tensor()? }])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let lanes = Lanes::new(&outputs[0].shape, self.axis);
        let values = lanes.map(&inputs[0].floats(), |lane| softmax_lane(lane, self.log));
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for log in [false, true] {
                for (shape, axis) in SHAPES {
                    cases.push(Case::new(Softmax { axis, log }).input(shape, dtype));
                }
                let wide = Fill::Uniform(-60.0, 60.0);
                cases.push(Case::new(Softmax { axis: 1, log }).input_with([3, 50], dtype, wide).not_smooth());
                let infinite =
                    Fill::Values(vec![f64::NEG_INFINITY, 1.0, 2.0, f64::NAN, f64::NEG_INFINITY, f64::INFINITY]);
                // Along axis 0 each lane holds one kind of special value.
                cases
                    .push(Case::new(Softmax { axis: 0, log }).input_with([2, 6], dtype, infinite.clone()).not_smooth());
                cases.push(Case::new(Softmax { axis: 1, log }).input_with([2, 3], dtype, infinite).not_smooth());
            }
        }
        cases
    }
}

/// The gradient of [`Softmax`] from its result `y` and the gradient `g` of that: `y·(g - Σ y·g)`, or `g - e^y · Σ g` for the logarithm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoftmaxBackward {
    /// The axis that sums to 1.
    pub axis: usize,
    /// Whether `y` is the logarithm.
    pub log: bool,
}

impl Rule for SoftmaxBackward {
    fn name(&self) -> &'static str {
        if self.log { "log_softmax_backward" } else { "softmax_backward" }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [y, g] = operands(inputs)?;
        require_float(y)?;
        require_same_dtype(y, g)?;
        require_axis(y, self.axis)?;
        require_same_shape(y, g)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [y, g] = inputs else { return Err(Error::value("takes 2 operands")) };
            let axis = [self.axis as isize];
            let grad = match self.log {
                false => y * (g - (y * g).tensor()?.sum_keepdim(&axis)),
                true => g - y.exp()? * g.sum_keepdim(&axis)?,
            };
            Ok(vec![grad.tensor()?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let lanes = Lanes::new(&outputs[0].shape, self.axis);
        let (y, g) = (inputs[0].floats(), inputs[1].floats());
        let mut out = vec![0.0; y.len()];
        for start in lanes.starts() {
            let (y, g) = (lanes.lane(&y, start), lanes.lane(&g, start));
            let sum: f64 = if self.log { g.iter().sum() } else { y.iter().zip(&g).map(|(y, g)| y * g).sum() };
            let grad = |(y, g): (&f64, &f64)| if self.log { g - y.exp() * sum } else { y * (g - sum) };
            lanes.store(&mut out, start, &y.iter().zip(&g).map(grad).collect::<Vec<_>>());
        }
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, out)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for log in [false, true] {
                for (shape, axis) in SHAPES {
                    // Results of softmax are small, those of its logarithm negative.
                    let extent = shape[axis].max(1) as f64;
                    let y = if log {
                        Fill::Uniform(-3.0 - extent.ln(), -extent.ln())
                    } else {
                        Fill::Uniform(0.0, 2.0 / extent)
                    };
                    cases
                        .push(Case::new(SoftmaxBackward { axis, log }).input_with(shape, dtype, y).input(shape, dtype));
                }
            }
        }
        cases
    }
}

/// Refuses operands of different shapes, for ops that do not broadcast.
pub(crate) fn require_same_shape(a: &TensorSpec, b: &TensorSpec) -> Result<()> {
    if a.shape == b.shape {
        return Ok(());
    }
    Err(Error::shape(format!("operands have shapes {} and {}, which must be equal", a.shape, b.shape)))
}

/// log Σ eˣ over an axis, which the result lacks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LogSumExp {
    /// The axis summed over.
    pub axis: usize,
}

impl Rule for LogSumExp {
    fn name(&self) -> &'static str {
        "logsumexp"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_float(x)?;
        require_axis(x, self.axis)?;
        let shape = x.shape.removed(self.axis);
        shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::BOTH)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let axis = self.axis as isize;
        let y = call.output(0)?;
        // Where every operand is -∞, so is the result, and their difference would be NaN.
        let y = y.masked_fill(&y.eq(f64::NEG_INFINITY)?, 0)?.unsqueeze(axis)?;
        let share = (call.input(0)? - y).tensor()?.exp()?;
        Ok(Cotangents::one((call.grad(0)?.unsqueeze(axis)? * share).tensor()?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let axis = self.axis as isize;
        if x.elements() == 0 {
            let nothing = Tensor::full(x.shape().removed(self.axis), f64::NEG_INFINITY, x.dtype(), x.device())?;
            return Ok(Some(vec![nothing]));
        }
        widened(inputs, |inputs| {
            let x = &inputs[0];
            let max = x.max_keepdim(&[axis])?;
            let shift = max.masked_fill(&max.is_inf()?, 0)?;
            let sum = (x - &shift).tensor()?.exp()?.sum_keepdim(&[axis])?;
            Ok(vec![(sum.log()? + shift).tensor()?.squeeze(axis)?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let lanes = Lanes::new(inputs[0].shape(), self.axis);
        let values = lanes.reduce(&inputs[0].floats(), |lane| {
            let max = max_nan(lane);
            if max.is_infinite() { max } else { lane.iter().map(|x| (x - max).exp()).sum::<f64>().ln() + max }
        });
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for (shape, axis) in SHAPES {
                cases.push(Case::new(LogSumExp { axis }).input(shape, dtype));
            }
            let infinite = Fill::Values(vec![f64::NEG_INFINITY, 1.0, 2.0, f64::NAN, f64::NEG_INFINITY, f64::INFINITY]);
            cases.push(Case::new(LogSumExp { axis: 0 }).input_with([2, 6], dtype, infinite).not_smooth());
        }
        cases
    }
}

impl Tensor {
    /// eˣ / Σ eˣ along an axis, without overflow. Shape and dtype (floating point) stay.
    /// A lane with +∞ or NaN, or of nothing but -∞, gives NaN.
    ///
    /// # Errors
    /// Where the axis is out of range or the dtype not floating point.
    pub fn softmax(&self, axis: isize) -> Result<Tensor> {
        let axis = self.shape().axis(axis).map_err(|e| e.with_op("softmax", &[self.spec()]))?;
        run::call(Op::Softmax(Softmax { axis, log: false }), [self.into()])
    }

    /// x - log Σ eˣ along an axis: the logarithm of [`Tensor::softmax`], accurate where that is tiny.
    ///
    /// # Errors
    /// Where the axis is out of range or the dtype not floating point.
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor> {
        let axis = self.shape().axis(axis).map_err(|e| e.with_op("log_softmax", &[self.spec()]))?;
        run::call(Op::Softmax(Softmax { axis, log: true }), [self.into()])
    }

    /// log Σ eˣ over axes (all of them where the list is empty), without overflow; -∞ for a sum of nothing.
    ///
    /// # Errors
    /// Where an axis is out of range or named twice, or the dtype is not floating point.
    pub fn logsumexp(&self, axes: &[isize]) -> Result<Tensor> {
        let axes = normalize_axes(axes, self.rank()).map_err(|e| e.with_op("logsumexp", &[self.spec()]))?;
        let (lanes, axis) = self.lanes_over(&axes)?;
        run::call(Op::LogSumExp(LogSumExp { axis }), [lanes.into()])
    }

    /// As [`Tensor::logsumexp`]; the axes stay, with extent 1.
    ///
    /// # Errors
    /// As [`Tensor::logsumexp`].
    pub fn logsumexp_keepdim(&self, axes: &[isize]) -> Result<Tensor> {
        let mut shape = self.shape().clone();
        for axis in normalize_axes(axes, self.rank()).map_err(|e| e.with_op("logsumexp", &[self.spec()]))? {
            shape = shape.with(axis, 1);
        }
        self.logsumexp(axes)?.reshape(shape)
    }

    /// The same elements with several axes (sorted, valid) joined into one, and where that one is.
    pub(crate) fn lanes_over(&self, axes: &[usize]) -> Result<(Tensor, usize)> {
        if let [axis] = axes {
            return Ok((self.clone(), *axis));
        }
        let kept: Vec<usize> = (0..self.rank()).filter(|axis| !axes.contains(axis)).collect();
        let order: Vec<isize> = kept.iter().chain(axes).map(|&axis| axis as isize).collect();
        let joined = axes.iter().map(|&axis| self.shape()[axis]).collect::<Shape>().elements()?;
        let shape: Shape = kept.iter().map(|&axis| self.shape()[axis]).chain([joined]).collect();
        Ok((self.permute(&order)?.reshape(shape)?, kept.len()))
    }
}
