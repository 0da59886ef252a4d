//! Losses.

use ubique_core::op::cross_entropy::{CrossEntropy, LossReduction};
use ubique_core::op::ctc_loss::CtcLoss;
use ubique_core::{DType, Result, Tensor};
use ubique_nn::loss::{self, Nll};

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};

pub const ROWS: &[Row] = &[
    ("nn.functional.binary_cross_entropy_with_logits", binary_cross_entropy),
    ("nn.functional.cross_entropy", cross_entropy),
    ("nn.functional.ctc_loss", ctc_loss),
    ("nn.functional.huber_loss", |c| {
        let delta = c.float(3, "delta", 1.0)?;
        compared(c, |x, y, reduction| loss::huber(x, y, delta, reduction))
    }),
    ("nn.functional.kl_div", kl_div),
    ("nn.functional.l1_loss", |c| compared(c, loss::l1)),
    ("nn.functional.mse_loss", |c| compared(c, loss::mse)),
    ("nn.functional.nll_loss", nll),
    ("nn.functional.smooth_l1_loss", |c| {
        let beta = c.float(usize::MAX, "beta", 1.0)?;
        compared(c, |x, y, reduction| loss::smooth_l1(x, y, beta, reduction))
    }),
];

fn reduction(c: &Call<'_>) -> Outcome<LossReduction> {
    match c.text(usize::MAX, "reduction")? {
        None | Some("mean") => Ok(LossReduction::Mean),
        Some("sum") => Ok(LossReduction::Sum),
        Some("none") => Ok(LossReduction::None),
        Some(other) => unmapped(format!("reduction {other}")),
    }
}

/// A loss of two operands of one dtype. PyTorch broadcasts them; here that is a mistake.
fn compared(c: &Call<'_>, f: impl Fn(&Tensor, &Tensor, LossReduction) -> Result<Tensor>) -> Outcome {
    let (x, y) = (c.input()?, c.tensor(1, "target")?);
    if x.dtype() != y.dtype() {
        return unmapped("operands of two dtypes");
    }
    let shape = x.shape().broadcast(y.shape())?;
    one(f(&x.expand(&shape)?, &y.expand(&shape)?, reduction(c)?))
}

fn binary_cross_entropy(c: &Call<'_>) -> Outcome {
    if c.get(2, "weight").is_some() {
        return unmapped("a weight for each element");
    }
    let positive = c.maybe_tensor(usize::MAX, "pos_weight")?;
    one(loss::bce_with_logits(c.input()?, c.tensor(1, "target")?, positive, reduction(c)?))
}

/// Targets may be logarithms, and the mean may be over the batch alone.
fn kl_div(c: &Call<'_>) -> Outcome {
    let (x, mut y) = (c.input()?, c.tensor(1, "target")?.clone());
    if c.flag(usize::MAX, "log_target", false)? {
        y = y.exp()?;
    }
    if c.text(usize::MAX, "reduction")? == Some("batchmean") {
        let batch = x.shape().first().copied().unwrap_or(1);
        return one(loss::kl_div(x, &y, LossReduction::Sum)?.div(batch as f64));
    }
    one(loss::kl_div(x, &y, reduction(c)?))
}

fn nll(c: &Call<'_>) -> Outcome {
    let options = Nll {
        weight: c.maybe_tensor(2, "weight")?,
        ignore_index: Some(c.int(usize::MAX, "ignore_index", -100)? as i64),
        reduction: reduction(c)?,
    };
    one(loss::nll(c.input()?, c.tensor(1, "target")?, options))
}

/// Of logits: PyTorch's gradient counts on log-softmax before it.
fn ctc_loss(c: &Call<'_>) -> Outcome {
    let x = c.input()?.log_softmax(-1)?;
    let targets = c.tensor(1, "targets")?;
    let lengths = (c.tensor(2, "input_lengths")?, c.tensor(3, "target_lengths")?);
    let options = CtcLoss {
        blank: c.int(4, "blank", 0)?.unsigned_abs(),
        zero_infinity: c.flag(usize::MAX, "zero_infinity", false)?,
    };
    one(x.ctc_loss(targets, lengths.0, lengths.1, reduction(c)?, options))
}

fn cross_entropy(c: &Call<'_>) -> Outcome {
    let (x, targets, weight) = (c.input()?, c.tensor(1, "target")?, c.maybe_tensor(2, "weight")?);
    if targets.dtype() != DType::I64 {
        return unmapped("targets that are probabilities");
    }
    let options = CrossEntropy {
        reduction: reduction(c)?,
        smoothing: c.float(usize::MAX, "label_smoothing", 0.0)?,
        ignore_index: Some(c.int(usize::MAX, "ignore_index", -100)? as i64),
        weight: weight.is_some(),
    };
    one(x.cross_entropy(targets, weight, options))
}
