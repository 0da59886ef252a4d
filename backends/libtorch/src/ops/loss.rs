//! Losses.

use tch::{Kind, Reduction, Tensor};
use ubique_core::op::cross_entropy::{CrossEntropy, CrossEntropyBackward, LossReduction};
use ubique_core::op::ctc_loss::{CtcLoss, check_length};
use ubique_core::op::index::check_index;
use ubique_core::{DType, TensorSpec};

use super::grad::gradient;
use super::index::extremes;
use super::{Call, has_elements};
use crate::error::Made;

/// The number that LibTorch shall ignore where nothing is ignored: no class has it.
const NO_CLASS: i64 = i64::MIN;

pub fn cross_entropy(op: &CrossEntropy, call: &Call<'_>) -> Made {
    let (logits, targets) = (&call.x[0], targets(op, call)?);
    loss(op, logits, &targets, call.optional(op.weight, 2))
}

pub fn cross_entropy_backward(op: &CrossEntropyBackward, call: &Call<'_>) -> Made {
    let (CrossEntropyBackward(op), g) = (op, &*call.x[call.x.len() - 1]);
    let targets = targets(op, call)?;
    let weight = call.optional(op.weight, 2);
    gradient(&call.x[0], g, |logits| loss(op, logits, &targets, weight))
}

fn loss(op: &CrossEntropy, logits: &Tensor, targets: &Tensor, weight: Option<&Tensor>) -> Made {
    let reduction = match op.reduction {
        LossReduction::Mean => Reduction::Mean,
        LossReduction::Sum => Reduction::Sum,
        LossReduction::None => Reduction::None,
    };
    let ignored = op.ignore_index.unwrap_or(NO_CLASS);
    Ok(logits.f_cross_entropy_loss(targets, weight, reduction, ignored, op.smoothing)?)
}

/// The targets, all of them classes or ignored.
fn targets(op: &CrossEntropy, call: &Call<'_>) -> Made {
    let (logits, targets) = (&call.x[0], call.x[1].f_to_kind(Kind::Int64)?);
    let classes = logits.size()[(logits.dim() > 1) as usize];
    let counted = match op.ignore_index {
        Some(ignored) => targets.f_masked_fill(&targets.f_eq(ignored)?, 0)?,
        None => targets.shallow_clone(),
    };
    // With all targets ignored there may be no class at all.
    for class in extremes(&counted)?.into_iter().flatten().filter(|&class| classes > 0 || class != 0) {
        check_index(class.into(), classes as usize)?;
    }
    Ok(targets)
}

/// Whether LibTorch has the loss for a dtype: not in half precision.
pub fn has_ctc(inputs: &[TensorSpec]) -> bool {
    matches!(inputs[0].dtype, DType::F32 | DType::F64) && has_elements(&inputs[0])
}

/// Refuses lengths and classes that lead outside of the operands, where LibTorch would read.
fn check_ctc(log_p: &Tensor, [targets, inputs, lengths]: [&Tensor; 3]) -> Made<()> {
    let [steps, _, classes] = log_p.size3().map(|(t, n, c)| [t, n, c])?;
    let longest = targets.size()[1];
    for (what, lengths, most) in [("target", lengths, longest), ("input", inputs, steps)] {
        for length in extremes(lengths)?.into_iter().flatten() {
            check_length(what, length.into(), most as usize)?;
        }
    }
    // What stands behind a target's end does not matter.
    let places = Tensor::f_arange(longest, (Kind::Int64, targets.device()))?;
    let behind = places.f_unsqueeze(0)?.f_ge_tensor(&lengths.f_unsqueeze(1)?)?;
    let counted = targets.f_masked_fill(&behind, 0)?;
    for class in extremes(&counted)?.into_iter().flatten() {
        check_index(class.into(), classes as usize)?;
    }
    Ok(())
}

pub fn ctc_loss(op: &CtcLoss, call: &Call<'_>) -> Made {
    let x = call.x;
    let [targets, inputs, lengths] = [1, 2, 3].map(|at| x[at].f_to_kind(Kind::Int64));
    let (targets, inputs, lengths) = (targets?, inputs?, lengths?);
    check_ctc(&x[0], [&targets, &inputs, &lengths])?;
    let blank = op.blank as i64;
    let (losses, _) = Tensor::f_internal_ctc_loss_tensor(&x[0], &targets, &inputs, &lengths, blank, op.zero_infinity)?;
    Ok(match op.zero_infinity {
        true => losses.f_masked_fill(&losses.f_eq(f64::INFINITY)?, 0.0)?,
        false => losses,
    })
}
