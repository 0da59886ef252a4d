//! Cross entropy of logits with class numbers, by log-softmax, with label smoothing, ignored targets and class weights.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::check_index;
use crate::op::lanes::{Lanes, widened};
use crate::op::layer_norm::{require_count, require_parameter};
use crate::op::reference::RefTensor;
use crate::op::softmax::softmax_lane;
use crate::op::{Op, Rule, Specs, Traits, require_float};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// What is made of the losses of the single targets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReduction {
    /// Their mean, weighted by the weights of the target classes; ignored targets do not count. Of nothing NaN.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// They are given as they are; ignored targets have loss 0.
    None,
}

/// For each target y with logits x of C classes: `-(1 - s) · w[y] · log p[y] - s/C · Σ w[c] · log p[c]`, p = softmax(x), s the smoothing
/// (Szegedy et al. 2016).
///
/// Operands: logits `[N, C, …]` (or `[C]`), targets `[N, …]` (or rank 0; i64 or i32), class weights `[C]` where there are any.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CrossEntropy {
    /// What is made of the losses.
    pub reduction: LossReduction,
    /// The share of the target that is spread evenly over all classes, in [0, 1].
    pub smoothing: f64,
    /// A target that does not count, wherever it stands.
    pub ignore_index: Option<i64>,
    /// Whether there are class weights.
    pub weight: bool,
}

/// The axis of the classes.
fn class_axis(logits: &Shape) -> usize {
    (logits.rank() > 1) as usize
}

impl CrossEntropy {
    /// Checks logits, targets and weights.
    fn check(&self, inputs: &[TensorSpec]) -> Result<()> {
        let (logits, targets) = (&inputs[0], &inputs[1]);
        require_float(logits)?;
        if logits.shape.rank() == 0 {
            return Err(Error::shape("the logits have no class axis"));
        }
        if !matches!(targets.dtype, DType::I64 | DType::I32) {
            return Err(Error::dtype(format!("targets are class numbers, i64 or i32, not {}", targets.dtype)));
        }
        let axis = class_axis(&logits.shape);
        if targets.shape != logits.shape.removed(axis) {
            return Err(Error::shape(format!(
                "targets {} do not belong to logits {} with classes on axis {axis}",
                targets.shape, logits.shape
            )));
        }
        if !(0.0..=1.0).contains(&self.smoothing) {
            return Err(Error::value(format!("the smoothing {} is outside [0, 1]", self.smoothing)));
        }
        match inputs.get(2) {
            Some(weight) if self.weight => {
                require_parameter(weight, "the class weight", &logits.shape[axis].into(), logits.dtype)
            }
            _ => Ok(()),
        }
    }

    /// Which targets do not count, if any may.
    fn ignored(&self, targets: &Tensor) -> Result<Option<Tensor>> {
        self.ignore_index.map(|index| targets.eq(index)).transpose()
    }

    /// The targets with 0 in the places of ignored ones, and their class weights, with 0 for ignored ones.
    fn weighted_targets(&self, targets: &Tensor, weight: Option<&Tensor>, dtype: DType) -> Result<(Tensor, Tensor)> {
        let ignored = self.ignored(targets)?;
        let safe = match &ignored {
            Some(ignored) => targets.masked_fill(ignored, 0)?,
            None => targets.clone(),
        };
        let weights = match weight {
            Some(weight) => weight.index_select(0, &safe.reshape([safe.elements()])?)?.reshape(safe.shape())?,
            None => Tensor::ones(safe.shape(), dtype, safe.device())?,
        };
        let weights = match &ignored {
            Some(ignored) => weights.masked_fill(ignored, 0)?,
            None => weights,
        };
        Ok((safe, weights))
    }

    /// The class of a reference target, or `None` where it is ignored.
    fn target(&self, target: i128, classes: usize) -> Result<Option<usize>> {
        if self.ignore_index.is_some_and(|index| i128::from(index) == target) {
            return Ok(None);
        }
        check_index(target, classes).map(Some)
    }

    /// The weights of the targets, and what the gradient of each loss is from the gradient of the result.
    fn shares(&self, targets: &[Option<usize>], weight: &[f64], g: &[f64]) -> Vec<f64> {
        let total: f64 = targets.iter().flatten().map(|&c| weight[c]).sum();
        let share = |i: usize| match self.reduction {
            LossReduction::Mean => g[0] / total,
            LossReduction::Sum => g[0],
            LossReduction::None => g[i],
        };
        (0..targets.len()).map(share).collect()
    }
}

/// A weight `[C]` as `[C, 1, …]`, for logits of the given shape.
fn along_classes(weight: &Tensor, logits: &Shape) -> Result<Tensor> {
    let after = logits.rank() - 1 - class_axis(logits);
    weight.reshape([weight.elements()].into_iter().chain(std::iter::repeat_n(1, after)).collect::<Shape>())
}

/// The class weights of reference operands, ones where there are none.
fn reference_weight(weight: Option<&RefTensor>, classes: usize) -> Vec<f64> {
    weight.map_or_else(|| vec![1.0; classes], RefTensor::floats)
}

impl Rule for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 2 + self.weight as usize)?;
        self.check(inputs)?;
        let shape = match self.reduction {
            LossReduction::None => inputs[1].shape.clone(),
            _ => Shape::empty(),
        };
        shape.bytes(inputs[0].dtype)?;
        Ok(TensorSpec { shape, dtype: inputs[0].dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        if call.wants(2) {
            return Err(Error::gradient("class weights have no gradient; detach them"));
        }
        let mut inputs = vec![call.input(0)?, call.input(1)?];
        if self.weight {
            inputs.push(call.input(2)?);
        }
        inputs.push(call.grad(0)?);
        let mut out = Cotangents::none(call.operands());
        out.set(0, run::call_list(Op::CrossEntropyBackward(CrossEntropyBackward(self.clone())), &inputs)?);
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [logits, targets, weight @ ..] = inputs else { return Err(Error::value("takes 2 or 3 operands")) };
            let axis = class_axis(logits.shape()) as isize;
            let log_p = logits.log_softmax(axis)?;
            let (safe, weights) = self.weighted_targets(targets, weight.first(), logits.dtype())?;
            let picked = log_p.gather(axis, &safe.unsqueeze(axis)?)?.squeeze(axis)?;
            let mut loss = (picked * &weights * (self.smoothing - 1.0)).tensor()?;
            if self.smoothing > 0.0 {
                let classes = logits.shape()[axis as usize] as f64;
                let all = match weight.first() {
                    Some(weight) => (log_p * along_classes(weight, logits.shape())?).tensor()?,
                    None => log_p,
                };
                let spread = (all.sum(&[axis])? * (self.smoothing / classes)).tensor()?;
                loss = (loss - spread).tensor()?;
            }
            if let Some(ignored) = self.ignored(targets)? {
                loss = loss.masked_fill(&ignored, 0)?;
            }
            Ok(vec![match self.reduction {
                LossReduction::Mean => (loss.sum_all()? / weights.sum_all()?).tensor()?,
                LossReduction::Sum => loss.sum_all()?,
                LossReduction::None => loss,
            }])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let lanes = Lanes::new(inputs[0].shape(), class_axis(inputs[0].shape()));
        let weight = reference_weight(inputs.get(2), lanes.len);
        let logits = inputs[0].floats();
        let (mut losses, mut total) = (Vec::new(), 0.0);
        for (start, target) in lanes.starts().zip(inputs[1].ints()) {
            let Some(class) = self.target(target, lanes.len)? else {
                losses.push(0.0);
                continue;
            };
            let log_p = softmax_lane(&lanes.lane(&logits, start), true);
            let mut loss = -(1.0 - self.smoothing) * weight[class] * log_p[class];
            if self.smoothing > 0.0 {
                let all: f64 = log_p.iter().zip(&weight).map(|(p, w)| p * w).sum();
                loss -= self.smoothing / lanes.len as f64 * all;
            }
            losses.push(loss);
            total += weight[class];
        }
        let values = match self.reduction {
            LossReduction::Mean => vec![losses.iter().sum::<f64>() / total],
            LossReduction::Sum => vec![losses.iter().sum()],
            LossReduction::None => losses,
        };
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        cases(|op, _| Case::new(op), false)
    }
}

/// Shapes of logits, each with every reduction, with and without smoothing, ignored targets and weights.
fn cases(make: impl Fn(CrossEntropy, &[usize]) -> Case, with_gradient: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let shapes: [&[usize]; 6] = [&[4, 5], &[5], &[2, 3, 4], &[0, 3], &[2, 3, 2, 2], &[3, 1031]];
    for dtype in DType::FLOATS {
        for shape in shapes {
            for reduction in [LossReduction::Mean, LossReduction::Sum, LossReduction::None] {
                for (smoothing, ignore_index, weight) in
                    [(0.0, None, false), (0.1, Some(1), true), (0.0, Some(-100), true), (0.3, None, false)]
                {
                    let axis = (shape.len() > 1) as usize;
                    let targets = Shape::from(shape).removed(axis);
                    let classes = match ignore_index {
                        Some(index) => vec![0.0, index as f64, 2.0, 0.0],
                        None => vec![1.0, 0.0, 2.0],
                    };
                    let op = CrossEntropy { reduction, smoothing, ignore_index, weight };
                    let case =
                        make(op, shape).input(shape, dtype).input_with(&targets, DType::I64, Fill::Values(classes));
                    let case = if weight { case.input_with(shape[axis], dtype, Fill::Uniform(0.3, 2.0)) } else { case };
                    let result = if reduction == LossReduction::None { targets } else { Shape::empty() };
                    let case = if with_gradient { case.input(result, dtype) } else { case };
                    // Weights have no gradient, and the mean of nothing none that is a number.
                    cases.push(if weight || shape[0] == 0 { case.not_smooth() } else { case });
                }
            }
        }
    }
    cases
}

/// The gradient of [`CrossEntropy`] with respect to the logits: operands as there, then the gradient of the result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CrossEntropyBackward(pub CrossEntropy);

impl Rule for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "cross_entropy_backward"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 3 + self.0.weight as usize)?;
        self.0.check(inputs)?;
        let shape = if self.0.reduction == LossReduction::None { inputs[1].shape.clone() } else { Shape::empty() };
        require_parameter(&inputs[inputs.len() - 1], "the gradient", &shape, inputs[0].dtype)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let op = &self.0;
        widened(inputs, |inputs| {
            let [logits, targets, weight @ .., g] = inputs else { return Err(Error::value("takes 3 or 4 operands")) };
            let weight = weight.first();
            let (axis, shape) = (class_axis(logits.shape()) as isize, logits.shape());
            let extent = shape[axis as usize];
            let p = logits.softmax(axis)?;
            let (safe, weights) = op.weighted_targets(targets, weight, logits.dtype())?;
            let classes = Tensor::arange(0, extent as i64, 1, targets.dtype(), targets.device())?;
            let hit = safe.unsqueeze(axis)?.eq(&along_classes(&classes, shape)?)?.cast(logits.dtype())?;
            let mut slope = ((&p - hit) * (weights.unsqueeze(axis)? * (1.0 - op.smoothing))).tensor()?;
            if op.smoothing > 0.0 {
                let each = op.smoothing / extent as f64;
                let spread = match weight {
                    Some(weight) => {
                        (&p * (weight.sum_all()? * each) - along_classes(weight, shape)? * each).tensor()?
                    }
                    None => (&p * op.smoothing - each).tensor()?,
                };
                slope = (slope + spread).tensor()?;
            }
            if let Some(ignored) = op.ignored(targets)? {
                slope = slope.masked_fill(&ignored.unsqueeze(axis)?, 0)?;
            }
            let share = match op.reduction {
                LossReduction::Mean => (g / weights.sum_all()?).tensor()?,
                LossReduction::Sum => g.clone(),
                LossReduction::None => g.unsqueeze(axis)?,
            };
            Ok(vec![(slope * share).tensor()?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let op = &self.0;
        let lanes = Lanes::new(inputs[0].shape(), class_axis(inputs[0].shape()));
        let weight = reference_weight(inputs.get(2).filter(|_| op.weight), lanes.len);
        let targets = inputs[1].ints().into_iter().map(|t| op.target(t, lanes.len)).collect::<Result<Vec<_>>>()?;
        let shares = op.shares(&targets, &weight, &inputs[inputs.len() - 1].floats());
        let (logits, total) = (inputs[0].floats(), weight.iter().sum::<f64>());
        let mut out = vec![0.0; logits.len()];
        for ((start, target), share) in lanes.starts().zip(targets).zip(shares) {
            let Some(class) = target else { continue };
            let p = softmax_lane(&lanes.lane(&logits, start), false);
            let spread = op.smoothing / lanes.len as f64;
            let slope = |(c, p): (usize, &f64)| {
                let hit = (c == class) as u8 as f64;
                share * ((1.0 - op.smoothing) * weight[class] * (p - hit) + spread * (p * total - weight[c]))
            };
            lanes.store(&mut out, start, &p.iter().enumerate().map(slope).collect::<Vec<_>>());
        }
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, out)])
    }

    fn cases() -> Vec<Case> {
        cases(|op, _| Case::new(CrossEntropyBackward(op)), true)
    }
}

impl Tensor {
    /// The cross entropy of these logits `[N, C, …]` (or `[C]`) with class numbers `targets` `[N, …]` (or rank 0; i64 or
    /// i32), by log-softmax, so that no logit is too large. `weight` `[C]` weighs the classes; `options.weight` is set by it.
    /// The result has rank 0, or the targets' shape without reduction; its dtype is that of the logits.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit, the smoothing is outside [0, 1], or, on host devices, a target that is
    /// not ignored is no class.
    pub fn cross_entropy(&self, targets: &Tensor, weight: Option<&Tensor>, options: CrossEntropy) -> Result<Tensor> {
        let op = CrossEntropy { weight: weight.is_some(), ..options };
        let inputs: Vec<&Tensor> = [self, targets].into_iter().chain(weight).collect();
        run::call_list(Op::CrossEntropy(op), &inputs)
    }
}
