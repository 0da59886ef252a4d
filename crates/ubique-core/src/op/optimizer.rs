//! Optimiser steps as single ops: a backend that owns their operands updates parameter and state in one pass, in place.

use serde::{Deserialize, Serialize};

use crate::dispatch::run::{self, Arg};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::widened;
use crate::op::layer_norm::require_count;
use crate::op::reference::RefTensor;
use crate::op::softmax::require_same_shape;
use crate::op::{Op, Rule, Specs, require_float, require_same_dtype};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// A step of Adam (Kingma and Ba 2015), or of AdamW (Loshchilov and Hutter 2019) where the decay is decoupled.
///
/// Operands: parameter, gradient, running mean of gradients, running mean of their squares; outputs: the new parameter
/// and the new means.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct AdamStep {
    /// The learning rate.
    pub learning_rate: f64,
    /// How much of the running mean of gradients stays.
    pub beta1: f64,
    /// How much of the running mean of squares stays.
    pub beta2: f64,
    /// What is added to the root of the mean of squares.
    pub eps: f64,
    /// How strongly parameters are drawn to 0.
    pub weight_decay: f64,
    /// Whether the decay acts on the parameter itself, and not through the gradient.
    pub decoupled: bool,
    /// Which step this is, from 1 on.
    pub step: u64,
}

impl Default for AdamStep {
    /// The constants of the paper, at the first step.
    fn default() -> AdamStep {
        AdamStep {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            step: 1,
        }
    }
}

impl AdamStep {
    /// `1 - βᵗ` for both means: what they lack because they began at 0.
    pub fn corrections(&self) -> (f64, f64) {
        let step = self.step as f64;
        (1.0 - self.beta1.powf(step), 1.0 - self.beta2.powf(step))
    }
}

/// Refuses operands that are not of one shape and one floating-point dtype.
fn require_alike(inputs: &[TensorSpec]) -> Result<()> {
    let Some((first, rest)) = inputs.split_first() else { return Ok(()) };
    require_float(first)?;
    rest.iter().try_for_each(|other| require_same_dtype(first, other).and_then(|()| require_same_shape(first, other)))
}

const SHAPES: [&[usize]; 4] = [&[2, 3], &[], &[0], &[1037]];

impl Rule for AdamStep {
    fn name(&self) -> &'static str {
        "adam_step"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 4)?;
        require_alike(inputs)?;
        let beta = |beta: f64| (0.0..1.0).contains(&beta);
        if self.step == 0 || !beta(self.beta1) || !beta(self.beta2) {
            let message = format!(
                "needs a step from 1 on and betas in [0, 1), got {}, {}, {}",
                self.step, self.beta1, self.beta2
            );
            return Err(Error::value(message));
        }
        Ok(Specs::Many(vec![inputs[0].clone(); 3]))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [parameter, grad, mean, square] = inputs else { return Err(Error::value("takes 4 operands")) };
            let (mut parameter, mut grad) = (parameter.clone(), grad.clone());
            if self.weight_decay != 0.0 {
                match self.decoupled {
                    true => parameter = (parameter * (1.0 - self.learning_rate * self.weight_decay)).tensor()?,
                    false => grad = (grad + &parameter * self.weight_decay).tensor()?,
                }
            }
            let mean = (mean * self.beta1 + &grad * (1.0 - self.beta1)).tensor()?;
            let square = (square * self.beta2 + grad.square()? * (1.0 - self.beta2)).tensor()?;
            let (c1, c2) = self.corrections();
            let root = square.sqrt()? * (1.0 / c2.sqrt()) + self.eps;
            let parameter = (parameter - &mean * (self.learning_rate / c1) / root).tensor()?;
            Ok(vec![parameter, mean, square])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let [mut p, g, mut m, mut v] = [0, 1, 2, 3].map(|i| inputs[i].floats());
        let (c1, c2) = self.corrections();
        for i in 0..p.len() {
            let mut g = g[i];
            match self.decoupled {
                true => p[i] -= self.learning_rate * self.weight_decay * p[i],
                false => g += self.weight_decay * p[i],
            }
            m[i] = self.beta1 * m[i] + (1.0 - self.beta1) * g;
            v[i] = self.beta2 * v[i] + (1.0 - self.beta2) * g * g;
            p[i] -= self.learning_rate * (m[i] / c1) / ((v[i] / c2).sqrt() + self.eps);
        }
        let all = [p, m, v].into_iter().zip(outputs);
        Ok(all.map(|(values, spec)| RefTensor::float(spec.shape.clone(), spec.dtype, values)).collect())
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for (step, weight_decay, decoupled) in [(1, 0.0, false), (7, 0.1, false), (3, 0.1, true)] {
                for shape in SHAPES {
                    let op = AdamStep { learning_rate: 0.01, weight_decay, decoupled, step, ..AdamStep::default() };
                    let case = Case::new(op).input(shape, dtype).input(shape, dtype).input(shape, dtype);
                    cases.push(case.input_with(shape, dtype, Fill::Uniform(0.1, 2.0)));
                }
            }
        }
        cases
    }
}

/// A step of stochastic gradient descent, with momentum where asked for (as Sutskever et al. 2013 write Nesterov's).
///
/// Operands: parameter, gradient and, with momentum and from the second step on, the momentum buffer; outputs: the new
/// parameter and, with momentum, the new buffer (at the first step the gradient itself).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SgdStep {
    /// The learning rate.
    pub learning_rate: f64,
    /// How much of the buffer stays; 0 for no momentum.
    pub momentum: f64,
    /// How much of the gradient is kept out of the buffer.
    pub dampening: f64,
    /// Whether to look ahead.
    pub nesterov: bool,
    /// How strongly parameters are drawn to 0, through the gradient.
    pub weight_decay: f64,
}

impl Rule for SgdStep {
    fn name(&self) -> &'static str {
        "sgd_step"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let most = if self.momentum != 0.0 { 3 } else { 2 };
        if !(2..=most).contains(&inputs.len()) {
            return Err(Error::value(format!(
                "takes 2 to {most} operands with momentum {}, got {}",
                self.momentum,
                inputs.len()
            )));
        }
        require_alike(inputs)?;
        Ok(if self.momentum != 0.0 { Specs::Many(vec![inputs[0].clone(); 2]) } else { Specs::Like(0) })
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [parameter, grad, buffer @ ..] = inputs else { return Err(Error::value("takes 2 or 3 operands")) };
            let grad =
                if self.weight_decay != 0.0 { (grad + parameter * self.weight_decay).tensor()? } else { grad.clone() };
            if self.momentum == 0.0 {
                return Ok(vec![(parameter - grad * self.learning_rate).tensor()?]);
            }
            let buffer = match buffer.first() {
                Some(buffer) => (buffer * self.momentum + &grad * (1.0 - self.dampening)).tensor()?,
                None => grad.clone(),
            };
            let direction = if self.nesterov { (grad + &buffer * self.momentum).tensor()? } else { buffer.clone() };
            Ok(vec![(parameter - direction * self.learning_rate).tensor()?, buffer])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (mut p, g) = (inputs[0].floats(), inputs[1].floats());
        let mut b = inputs.get(2).map_or_else(|| vec![0.0; p.len()], RefTensor::floats);
        for i in 0..p.len() {
            let g = g[i] + self.weight_decay * p[i];
            b[i] = if inputs.len() == 3 { self.momentum * b[i] + (1.0 - self.dampening) * g } else { g };
            let direction = if self.nesterov && self.momentum != 0.0 { g + self.momentum * b[i] } else { b[i] };
            p[i] -= self.learning_rate * direction;
        }
        let all = [p, b].into_iter().zip(outputs);
        Ok(all.map(|(values, spec)| RefTensor::float(spec.shape.clone(), spec.dtype, values)).collect())
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        let plain = SgdStep { learning_rate: 0.1, ..SgdStep::default() };
        let heavy = SgdStep { momentum: 0.9, dampening: 0.3, ..plain };
        let ahead = SgdStep { momentum: 0.9, nesterov: true, weight_decay: 0.01, ..plain };
        for dtype in DType::FLOATS {
            for shape in SHAPES {
                for (op, count) in [
                    (plain, 2),
                    (SgdStep { weight_decay: 0.1, ..plain }, 2),
                    (heavy, 2),
                    (heavy, 3),
                    (ahead, 2),
                    (ahead, 3),
                ] {
                    cases.push((0..count).fold(Case::new(op), |case, _| case.input(shape, dtype)));
                }
            }
        }
        cases
    }
}

impl Tensor {
    /// One step of Adam or AdamW: the new parameter (first), running mean of gradients, and running mean of squares, all of this
    /// parameter's shape and dtype. Given tensors whose memory nobody else holds are updated in place. Not tracked.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices differ, or the step is 0 or a beta outside [0, 1).
    pub fn adam_step<'a>(
        self,
        grad: impl Into<Arg<'a>>,
        mean: Tensor,
        square: Tensor,
        step: AdamStep,
    ) -> Result<[Tensor; 3]> {
        let results = run::call_owned(Op::AdamStep(step), [self.into(), grad.into(), mean.into(), square.into()])?;
        results
            .try_into()
            .map_err(|list: Vec<Tensor>| Error::backend(format!("adam_step gave {} outputs instead of 3", list.len())))
    }

    /// One step of gradient descent: the new parameter and, with momentum, the new buffer; `buffer` is `None` without
    /// momentum and at the first step. Given tensors whose memory nobody else holds are updated in place. Not tracked.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices differ, or there is a buffer without momentum.
    pub fn sgd_step<'a>(
        self,
        grad: impl Into<Arg<'a>>,
        buffer: Option<Tensor>,
        step: SgdStep,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let op = Op::SgdStep(step);
        let results = match buffer {
            Some(buffer) => run::call_owned(op, [self.into(), grad.into(), buffer.into()])?,
            None => run::call_owned(op, [self.into(), grad.into()])?,
        };
        let mut results = results.into_iter();
        let parameter = results.next().ok_or_else(|| Error::backend("sgd_step gave no output"))?;
        Ok((parameter, results.next()))
    }
}
