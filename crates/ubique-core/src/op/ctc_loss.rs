//! Connectionist temporal classification: the probability of a sequence of labels, summed over all its alignments in time.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::cross_entropy::LossReduction;
use crate::op::index::{Combine, check_index, index_tensor};
use crate::op::lanes::widened;
use crate::op::layer_norm::require_parameter;
use crate::op::reference::RefTensor;
use crate::op::{Rule, Specs, Traits, operands, require_float};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// The logarithm of what cannot be, in the decomposition: an infinity would make differences and gradients NaN.
const FLOOR: f64 = -1e30;
/// Logarithms below this stand for 0.
const IMPOSSIBLE: f64 = -1e29;

/// `-log P(targets)`, where P sums over all alignments: at each time a label or the blank is seen, repeated labels without
/// a blank between count once, and blanks do not count (Graves et al. 2006).
///
/// Operands: log probabilities `[T, N, C]`, targets `[N, S]`, input lengths `[N]` and target lengths `[N]` (all three i64 or
/// i32). Result: `[N]`. See [`Tensor::ctc_loss`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CtcLoss {
    /// The class that stands for no label.
    pub blank: usize,
    /// Whether targets that cannot be aligned, as they are too long, have loss and gradient 0, and not +∞ and NaN.
    pub zero_infinity: bool,
}

/// A length that an operand holds, no larger than `most`.
///
/// # Errors
/// Where it is negative or larger.
pub fn check_length(what: &str, length: i128, most: usize) -> Result<usize> {
    usize::try_from(length)
        .ok()
        .filter(|&length| length <= most)
        .ok_or_else(|| Error::index(format!("an {what} length of {length} is outside 0..={most}")))
}

impl CtcLoss {
    fn check(&self, inputs: [&TensorSpec; 4]) -> Result<()> {
        let [log_p, targets, lengths @ ..] = inputs;
        require_float(log_p)?;
        let (&[steps, batch, classes], &[rows, longest]) = (&*log_p.shape, &*targets.shape) else {
            return Err(Error::shape("needs log probabilities [T, N, C] and targets [N, S]"));
        };
        if let Some(other) = inputs[1..].iter().find(|spec| !matches!(spec.dtype, DType::I64 | DType::I32)) {
            return Err(Error::dtype(format!("targets and lengths are i64 or i32, not {}", other.dtype)));
        }
        if rows != batch || lengths.iter().any(|spec| spec.shape != [batch]) {
            return Err(Error::shape(format!("needs targets [{batch}, S] and two times {batch} lengths")));
        }
        if self.blank >= classes {
            return Err(Error::value(format!("the blank is class {} of {classes}", self.blank)));
        }
        // All ways through all examples, which the decomposition keeps.
        let states = longest.checked_mul(2).and_then(|n| n.checked_add(1)).zip(steps.checked_add(1));
        let (states, times) = states.ok_or_else(|| Error::shape("the sequences are too long to be counted"))?;
        Shape::from([times, batch, states]).bytes(log_p.dtype).map(drop)
    }

    /// The loss of what cannot be.
    fn impossible(&self) -> f64 {
        if self.zero_infinity { 0.0 } else { f64::INFINITY }
    }

    /// The gradient of that.
    fn impossible_gradient(&self) -> f64 {
        if self.zero_infinity { 0.0 } else { f64::NAN }
    }
}

impl Rule for CtcLoss {
    fn name(&self) -> &'static str {
        "ctc_loss"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [log_p, targets, input_lengths, target_lengths] = operands(inputs)?;
        self.check([log_p, targets, input_lengths, target_lengths])?;
        Ok(TensorSpec::new([log_p.shape[1]], log_p.dtype).into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let inputs = [call.input(0)?, call.input(1)?, call.input(2)?, call.input(3)?, call.grad(0)?];
        let mut out = Cotangents::none(4);
        out.set(0, run::call_list(CtcLossBackward(*self).into(), &inputs)?);
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [log_p, targets, input_lengths, target_lengths] = inputs else {
                return Err(Error::value("takes 4 operands"));
            };
            if input_lengths.elements() == 0 {
                return Ok(vec![Tensor::zeros([0], log_p.dtype(), log_p.device())?]);
            }
            let lattice = Lattice::new(self, log_p, targets, input_lengths, target_lengths)?;
            let total = lattice.total(&Tensor::stack(&lattice.forward()?.iter().collect::<Vec<_>>(), 0)?)?;
            Ok(vec![total.neg()?.masked_fill(&total.lt(IMPOSSIBLE)?, self.impossible())?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let loss = |way: Alignment| {
            let total = way.total(&way.forward());
            if total == f64::NEG_INFINITY { self.impossible() } else { -total }
        };
        let losses = Alignment::all(self, inputs)?.into_iter().map(loss).collect();
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, losses)])
    }

    fn cases() -> Vec<Case> {
        cases(Case::new, false)
    }
}

/// The gradient of [`CtcLoss`] with respect to the log probabilities: operands as there, then the gradient of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CtcLossBackward(pub CtcLoss);

impl Rule for CtcLossBackward {
    fn name(&self) -> &'static str {
        "ctc_loss_backward"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [log_p, targets, input_lengths, target_lengths, g] = operands(inputs)?;
        self.0.check([log_p, targets, input_lengths, target_lengths])?;
        require_parameter(g, "the gradient", &log_p.shape[1].into(), log_p.dtype)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [log_p, targets, input_lengths, target_lengths, g] = inputs else {
                return Err(Error::value("takes 5 operands"));
            };
            let zeros = log_p.zeros_like()?;
            if zeros.elements() == 0 {
                return Ok(vec![zeros]);
            }
            let lattice = Lattice::new(&self.0, log_p, targets, input_lengths, target_lengths)?;
            let before = Tensor::stack(&lattice.forward()?.iter().collect::<Vec<_>>(), 0)?;
            let after = Tensor::stack(&lattice.backward()?.iter().collect::<Vec<_>>(), 0)?;
            let total = lattice.total(&before)?;
            let impossible = total.lt(IMPOSSIBLE)?.unsqueeze(1)?;
            let without = lattice.beyond()?.unsqueeze(2)?.bit_or(&impossible)?;
            // The probability of each state at each time, among all alignments.
            let log_share = (before.slice(0, Some(1), None, 1)? + after - total.unsqueeze(1)?).tensor()?;
            let share = log_share.masked_fill(&without, FLOOR)?.exp()?;
            let slope = (share * g.neg()?.unsqueeze(1)?).tensor()?;
            let grad = zeros.scatter(2, &lattice.index()?, &slope, Combine::Add)?;
            Ok(vec![grad.masked_fill(&impossible, self.0.impossible_gradient())?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (batch, classes) = (outputs[0].shape[1], outputs[0].shape[2]);
        let mut out = vec![0.0; outputs[0].shape.elements()?];
        for (n, (way, g)) in Alignment::all(&self.0, inputs)?.into_iter().zip(inputs[4].floats()).enumerate() {
            let (before, after) = (way.forward(), way.backward());
            let total = way.total(&before);
            let mut add = |time: usize, class: usize, value: f64| out[(time * batch + n) * classes + class] += value;
            if total == f64::NEG_INFINITY {
                let every = (0..outputs[0].shape[0]).flat_map(|time| (0..classes).map(move |class| (time, class)));
                every.for_each(|(time, class)| add(time, class, self.0.impossible_gradient()));
                continue;
            }
            for time in 0..way.rows.len() {
                for (state, &label) in way.labels.iter().enumerate() {
                    add(time, label, -g * (before[time + 1][state] + after[time + 1][state] - total).exp());
                }
            }
        }
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, out)])
    }

    fn cases() -> Vec<Case> {
        cases(|op| Case::new(CtcLossBackward(op)), true)
    }
}

/// The states that alignments go through, a blank and the labels in turn, for all examples at once.
struct Lattice {
    /// The class of each state, `[N, states]`.
    labels: Tensor,
    /// Where a state cannot be reached over the blank before it, since the label before that is the same.
    blocked: Tensor,
    /// The log probability of each state's class, `[T, N, states]`.
    emitted: Tensor,
    input_lengths: Tensor,
    /// The last state of each example, which is a blank, `[N]`.
    last: Tensor,
}

impl Lattice {
    fn new(
        op: &CtcLoss,
        log_p: &Tensor,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
    ) -> Result<Lattice> {
        let (steps, batch, longest) = (log_p.shape()[0], targets.shape()[0], targets.shape()[1]);
        let positions = Tensor::arange(0, longest + 1, 1, target_lengths.dtype(), log_p.device())?;
        // Also what refuses a length out of range.
        let last = (&positions * 2).tensor()?.index_select(0, target_lengths)?;
        let padding = positions.narrow(0, 0, longest)?.ge(target_lengths.unsqueeze(1)?)?;
        let targets = targets.masked_fill(&padding, op.blank)?;
        let blanks = Tensor::full([batch, longest], op.blank, targets.dtype(), log_p.device())?;
        let pairs = Tensor::stack(&[&blanks, &targets], 2)?.reshape([batch, 2 * longest])?;
        let labels = pairs.pad_axis(1, 0, 1, op.blank)?;
        let states = 2 * longest + 1;
        let blocked = labels.eq(&shifted(&labels, 2, op.blank)?)?;
        let index = labels.unsqueeze(0)?.expand([steps, batch, states])?;
        let emitted = log_p.clamp_min(FLOOR)?.gather(2, &index)?;
        Ok(Lattice { labels, blocked, emitted, input_lengths: input_lengths.clone(), last })
    }

    /// The class of each state at each time.
    fn index(&self) -> Result<Tensor> {
        self.labels.unsqueeze(0)?.expand(self.emitted.shape())
    }

    /// Which times an example does not have, `[T, N]`.
    fn beyond(&self) -> Result<Tensor> {
        let times = Tensor::arange(0, self.emitted.shape()[0], 1, self.input_lengths.dtype(), self.last.device())?;
        times.unsqueeze(1)?.ge(&self.input_lengths)
    }

    /// The numbers of the states.
    fn numbers(&self) -> Result<Tensor> {
        Tensor::arange(0, self.labels.shape()[1], 1, self.last.dtype(), self.last.device())
    }

    /// For 0 to T steps: the log probability of all ways from the start to each state.
    fn forward(&self) -> Result<Vec<Tensor>> {
        let start = self.numbers()?.eq(0)?.expand(self.labels.shape())?;
        let floor = Tensor::full(self.labels.shape(), FLOOR, self.emitted.dtype(), self.emitted.device())?;
        let mut rows = vec![floor.masked_fill(&start, 0)?];
        for time in 0..self.emitted.shape()[0] {
            let row = &rows[time];
            let skipped = shifted(row, 2, FLOOR)?.masked_fill(&self.blocked, FLOOR)?;
            let ways = Tensor::stack(&[row, &shifted(row, 1, FLOOR)?, &skipped], 0)?.logsumexp(&[0])?;
            rows.push((ways + self.emitted.narrow(0, time as isize, 1)?.squeeze(0)?).tensor()?);
        }
        Ok(rows)
    }

    /// For 1 to T steps: the log probability of all ways from each state to the end.
    fn backward(&self) -> Result<Vec<Tensor>> {
        let (steps, states) = (self.emitted.shape()[0], self.labels.shape()[1]);
        let floor = Tensor::full(self.labels.shape(), FLOOR, self.emitted.dtype(), self.emitted.device())?;
        let numbers = self.numbers()?;
        let last = self.last.unsqueeze(1)?;
        let ends = numbers.le(&last)?.bit_and(&numbers.ge((&last - 1).tensor()?)?)?;
        let end = floor.masked_fill(&ends, 0)?;
        // By the state that is skipped to.
        let blocked = self.blocked.pad_axis(1, 0, 2, true)?.narrow(1, 2, states)?;
        let back = |row: &Tensor, by: usize| row.pad_axis(1, 0, by, FLOOR)?.narrow(1, by as isize, states);
        let mut rows = vec![floor; steps + 1];
        for time in (1..=steps).rev() {
            let ways = match time == steps {
                true => rows[time].clone(),
                false => {
                    let next = (&rows[time + 1] + self.emitted.narrow(0, time as isize, 1)?.squeeze(0)?).tensor()?;
                    let skipped = back(&next, 2)?.masked_fill(&blocked, FLOOR)?;
                    Tensor::stack(&[&next, &back(&next, 1)?, &skipped], 0)?.logsumexp(&[0])?
                }
            };
            rows[time] = end.select(&self.input_lengths.eq(time as i64)?.unsqueeze(1)?, &ways)?;
        }
        Ok(rows.split_off(1))
    }

    /// The log probability of all alignments of each example, `[N]`, from the rows of [`Lattice::forward`], `[T + 1, N, states]`.
    fn total(&self, rows: &Tensor) -> Result<Tensor> {
        let (batch, states) = (self.labels.shape()[0], self.labels.shape()[1]);
        // Also what refuses a length out of range.
        let index = self.input_lengths.reshape([1, batch, 1])?.expand([1, batch, states])?;
        let row = rows.gather(0, &index)?.squeeze(0)?;
        let at_blank = row.gather(1, &self.last.unsqueeze(1)?)?.squeeze(1)?;
        let label = (&self.last - 1).tensor()?.clamp_min(0)?;
        let at_label = row.gather(1, &label.unsqueeze(1)?)?.squeeze(1)?.masked_fill(&self.last.eq(0)?, FLOOR)?;
        Tensor::stack(&[&at_blank, &at_label], 0)?.logsumexp(&[0])
    }
}

/// A row moved by some states towards the end.
fn shifted(row: &Tensor, by: usize, fill: impl Into<Scalar>) -> Result<Tensor> {
    row.pad_axis(1, by, 0, fill)?.narrow(1, 0, row.shape()[1])
}

/// One example of reference operands.
struct Alignment {
    /// The class of each state: blanks and labels in turn.
    labels: Vec<usize>,
    /// For each time the log probability of each state's class.
    rows: Vec<Vec<f64>>,
}

impl Alignment {
    fn all(op: &CtcLoss, inputs: &[RefTensor]) -> Result<Vec<Alignment>> {
        let &[steps, batch, classes] = &**inputs[0].shape() else {
            return Err(Error::shape("log probabilities have three axes"));
        };
        let (log_p, targets, longest) = (inputs[0].floats(), inputs[1].ints(), inputs[1].shape()[1]);
        let lengths = inputs[2].ints().into_iter().zip(inputs[3].ints());
        let example = |(n, (input, target)): (usize, (i128, i128))| {
            let target = check_length("target", target, longest)?;
            let mut labels = vec![op.blank];
            for &class in &targets[n * longest..][..target] {
                labels.extend([check_index(class, classes)?, op.blank]);
            }
            let row = |time: usize| labels.iter().map(|label| log_p[(time * batch + n) * classes + label]).collect();
            let rows = (0..check_length("input", input, steps)?).map(row).collect();
            Ok(Alignment { labels, rows })
        };
        lengths.enumerate().map(example).collect()
    }

    /// Whether an alignment may go from one state to another in one step.
    fn leads(&self, from: usize, to: usize) -> bool {
        to == from || to == from + 1 || to == from + 2 && self.labels[from] != self.labels[to]
    }

    /// For each number of steps the log probability of all ways from the start to each state.
    fn forward(&self) -> Vec<Vec<f64>> {
        let states = self.labels.len();
        let mut out = vec![vec![f64::NEG_INFINITY; states]];
        out[0][0] = 0.0;
        for (time, row) in self.rows.iter().enumerate() {
            let ways = |to: usize| (0..=to).rev().take(3).filter(move |&from| self.leads(from, to));
            let step = |to: usize| row[to] + log_sum(ways(to).map(|from| out[time][from]));
            let next = (0..states).map(step).collect();
            out.push(next);
        }
        out
    }

    /// For each number of steps the log probability of all ways from each state to the end.
    fn backward(&self) -> Vec<Vec<f64>> {
        let states = self.labels.len();
        let mut out = vec![vec![f64::NEG_INFINITY; states]; self.rows.len() + 1];
        out[self.rows.len()][states.saturating_sub(2)..].fill(0.0);
        for (time, row) in self.rows.iter().enumerate().rev() {
            let ways = |from: usize| (from..states).take(3).filter(move |&to| self.leads(from, to));
            let step = |from: usize| log_sum(ways(from).map(|to| row[to] + out[time + 1][to]));
            out[time] = (0..states).map(step).collect();
        }
        out
    }

    /// The log probability of all alignments: those that end in the last label or in the blank after it.
    fn total(&self, forward: &[Vec<f64>]) -> f64 {
        log_sum(forward[self.rows.len()].iter().rev().take(2).copied())
    }
}

/// log Σ eˣ.
fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    let shift = if largest.is_finite() { largest } else { 0.0 };
    shift + values.map(|value| (value - shift).exp()).sum::<f64>().ln()
}

/// Shapes `[T, N, C]`, with targets and lengths.
struct Sample {
    shape: [usize; 3],
    targets: usize,
    classes: &'static [f64],
    input_lengths: &'static [f64],
    target_lengths: &'static [f64],
}

const SAMPLES: [Sample; 7] = [
    // Repeated labels, and lengths below the extents, behind which anything may stand.
    Sample {
        shape: [6, 3, 4],
        targets: 3,
        classes: &[1.0, 1.0, 2.0, 3.0, 1.0, -9.0, 2.0, 99.0, 99.0],
        input_lengths: &[6.0, 5.0, 3.0],
        target_lengths: &[3.0, 2.0, 1.0],
    },
    Sample { shape: [4, 2, 3], targets: 2, classes: &[1.0, 2.0], input_lengths: &[4.0], target_lengths: &[2.0, 0.0] },
    Sample { shape: [1, 1, 1], targets: 0, classes: &[], input_lengths: &[1.0], target_lengths: &[0.0] },
    Sample { shape: [3, 0, 2], targets: 2, classes: &[], input_lengths: &[], target_lengths: &[] },
    Sample { shape: [0, 2, 3], targets: 1, classes: &[1.0], input_lengths: &[0.0], target_lengths: &[0.0, 1.0] },
    // Too short for the targets: without the blank between two equal labels it would be long enough.
    Sample {
        shape: [3, 2, 3],
        targets: 3,
        classes: &[1.0, 1.0, 2.0],
        input_lengths: &[3.0, 2.0],
        target_lengths: &[3.0],
    },
    // Enough for several threads.
    Sample {
        shape: [40, 33, 7],
        targets: 12,
        classes: &[1.0, 3.0, 3.0, 6.0, 2.0, 5.0, 4.0],
        input_lengths: &[40.0, 31.0, 28.0],
        target_lengths: &[12.0, 3.0, 7.0, 0.0],
    },
];

fn cases(make: impl Fn(CtcLoss) -> Case, with_gradient: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::FLOATS {
        for sample in &SAMPLES {
            let [_, batch, classes] = sample.shape;
            for zero_infinity in [false, true] {
                let last = sample.classes.iter().all(|&class| class + 1.0 < classes as f64);
                for blank in if last { vec![0, classes - 1] } else { vec![0] } {
                    let values = |values: &[f64]| Fill::Values(values.to_vec());
                    let integer = if zero_infinity { DType::I32 } else { DType::I64 };
                    let case = make(CtcLoss { blank, zero_infinity })
                        .input_with(sample.shape, dtype, Fill::Uniform(-3.0, 0.0))
                        .input_with([batch, sample.targets], integer, values(sample.classes))
                        .input_with([batch], integer, values(sample.input_lengths))
                        .input_with([batch], DType::I64, values(sample.target_lengths));
                    let case = if with_gradient { case.input([batch], dtype) } else { case };
                    let impossible = matches!(sample.shape, [0, 2, _] | [3, 2, _]);
                    cases.push(if impossible { case.not_smooth() } else { case });
                }
            }
        }
        let special = vec![f64::NAN, f64::NEG_INFINITY, -0.5, 0.0, -1.5, -0.25, -2.0];
        let special = make(CtcLoss::default())
            .input_with([3, 13, 2], dtype, Fill::Values(special))
            .input_with([13, 1], DType::I64, Fill::Values(vec![1.0]))
            .input_with([13], DType::I64, Fill::Values(vec![3.0, 1.0, 2.0]))
            .input_with([13], DType::I64, Fill::Values(vec![1.0, 0.0]));
        let special = if with_gradient { special.input([13], dtype) } else { special };
        cases.push(special.not_smooth());
    }
    cases
}

impl Tensor {
    /// The loss of connectionist temporal classification: `-log P(targets)` for these log probabilities `[T, N, C]` (as
    /// [`Tensor::log_softmax`] over the last axis gives them), where P sums over all alignments of a target in time, with
    /// blanks between its labels.
    ///
    /// Targets are class numbers `[N, S]`, of which each example's target length counts, or those of all examples one after
    /// the other, rank 1; in that form the call waits for the device, as it has to read the lengths. Lengths are `[N]`:
    /// how many times and labels of each example count. Targets and lengths are i64 or i32. For one example without a batch
    /// give `[T, C]`, `[S]`, and lengths of rank 0.
    ///
    /// The result has the log probabilities' dtype: without reduction `[N]` (or rank 0 without a batch); the sum of all
    /// losses; or the mean over the batch of the losses, each divided by its target's length (at least 1). Half precision is
    /// computed in f32. Differentiable in the log probabilities, at least twice. Where a target is too long for its input the
    /// loss is +∞ and the gradient NaN, or both are 0 with [`CtcLoss::zero_infinity`].
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit, the blank is no class or, on host devices, a length exceeds its extent or
    /// a target within its length is no class.
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        reduction: LossReduction,
        options: CtcLoss,
    ) -> Result<Tensor> {
        let specs = || [self.spec(), targets.spec(), input_lengths.spec(), target_lengths.spec()];
        if self.rank() == 2 && [targets.rank(), input_lengths.rank(), target_lengths.rank()] == [1, 0, 0] {
            let batch = [self.unsqueeze(1)?, targets.unsqueeze(0)?, input_lengths.unsqueeze(0)?];
            let target_lengths = target_lengths.unsqueeze(0)?;
            let loss = batch[0].ctc_loss(&batch[1], &batch[2], &target_lengths, reduction, options)?;
            return if reduction == LossReduction::None { loss.squeeze(0) } else { Ok(loss) };
        }
        let rows = match targets.rank() {
            1 => Some(rows(targets, target_lengths).map_err(|e| e.with_op("ctc_loss", &specs()))?),
            _ => None,
        };
        let inputs = [self, rows.as_ref().unwrap_or(targets), input_lengths, target_lengths];
        let losses = run::call_list(options.into(), &inputs)?;
        match reduction {
            LossReduction::None => Ok(losses),
            LossReduction::Sum => losses.sum_all(),
            LossReduction::Mean => (losses / target_lengths.clamp_min(1)?.cast(self.dtype())?).tensor()?.mean_all(),
        }
    }
}

/// Targets that lie one after the other, `[Σ lengths]`, as rows `[N, longest]`.
fn rows(targets: &Tensor, lengths: &Tensor) -> Result<Tensor> {
    if lengths.rank() != 1 || !lengths.dtype().is_int() {
        return Err(Error::shape("targets that lie one after the other need target lengths [N]"));
    }
    let count = targets.elements();
    let numbers = lengths.to_host()?.scalars().into_iter().map(Scalar::as_i128);
    let lengths = numbers.map(|n| check_length("target", n, count)).collect::<Result<Vec<_>>>()?;
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let ends = lengths.iter().scan(0usize, |end, &length| end.checked_add(length).inspect(|&next| *end = next));
    let ends: Vec<usize> = ends.collect();
    if ends.len() < lengths.len() || ends.last().copied().unwrap_or(0) != count {
        return Err(Error::shape(format!("the target lengths do not add up to {count}, as many as there are targets")));
    }
    let starts = ends.iter().zip(&lengths).map(|(end, length)| (end - length) as i64).collect();
    let starts = index_tensor(starts, [lengths.len(), 1], targets.device())?;
    // Behind a row's end anything may stand.
    let places = Tensor::arange(0, longest, 1, starts.dtype(), targets.device())?;
    let places = (starts + places).tensor()?.clamp_max(count.saturating_sub(1))?;
    let taken = targets.index_select(0, &places.reshape([places.elements()])?)?;
    taken.reshape([lengths.len(), longest])
}
