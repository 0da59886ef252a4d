//! Losses.

use ubique_core::op::cross_entropy::{CrossEntropy, LossReduction};
use ubique_core::{DType, Tensor};

use super::{Row, one};
use crate::call::Outcome;
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[("NegativeLogLikelihoodLoss", nll), ("SoftmaxCrossEntropyLoss", cross_entropy)];

fn reduction(n: &Node<'_>) -> Outcome<LossReduction> {
    Ok(match n.text("reduction", "mean")? {
        "none" => LossReduction::None,
        "sum" => LossReduction::Sum,
        _ => LossReduction::Mean,
    })
}

fn ignored(n: &Node<'_>) -> Outcome<Option<i64>> {
    Ok(if n.has("ignore_index") { Some(n.int("ignore_index", 0)? as i64) } else { None })
}

/// Of logits; the second result is their log-softmax.
fn cross_entropy(n: &Node<'_>) -> Outcome {
    let (logits, targets, weight) = (n.x(0)?, n.x(1)?, n.maybe(2)?);
    let options =
        CrossEntropy { reduction: reduction(n)?, smoothing: 0.0, ignore_index: ignored(n)?, weight: weight.is_some() };
    Ok(vec![logits.cross_entropy(targets, weight, options)?, logits.log_softmax(1)?])
}

/// Of logarithms that need not be those of probabilities.
fn nll(n: &Node<'_>) -> Outcome {
    let (x, targets, weight) = (n.x(0)?, n.x(1)?.cast(DType::I64)?, n.maybe(2)?);
    let ignored = match ignored(n)? {
        Some(index) => targets.eq(index)?,
        None => targets.lt(0)?.bit_and(&targets.gt(0)?)?,
    };
    let targets = targets.masked_fill(&ignored, 0)?;
    let weights = match weight {
        Some(weight) => weight.index_select(0, &targets.reshape([targets.elements()])?)?.reshape(targets.shape())?,
        None => Tensor::ones(targets.shape(), x.dtype(), n.device())?,
    };
    let weights = weights.masked_fill(&ignored, 0)?;
    let losses = x.gather(1, &targets.unsqueeze(1)?)?.squeeze(1)?.neg()?.mul(&weights)?;
    match reduction(n)? {
        LossReduction::None => Ok(vec![losses]),
        LossReduction::Sum => one(losses.sum_all()),
        LossReduction::Mean => one(losses.sum_all()?.div(&weights.sum_all()?)),
    }
}
