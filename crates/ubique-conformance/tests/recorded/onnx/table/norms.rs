//! Normalisation.

use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::Outcome;
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("BatchNormalization", batch_norm),
    ("GroupNormalization", |n| group_norm(n, n.int("num_groups", 1)?.unsigned_abs())),
    ("InstanceNormalization", |n| group_norm(n, n.x(0)?.shape()[1])),
    ("LayerNormalization", layer_norm),
    ("LpNormalization", lp_norm),
    ("LRN", local_response),
    ("MeanVarianceNormalization", mean_variance),
    ("RMSNormalization", rms_norm),
];

const EPS: f64 = 1e-5;

/// In training also the running statistics, with the new ones mixed in.
fn batch_norm(n: &Node<'_>) -> Outcome {
    let (x, weight, bias) = (n.x(0)?, n.x(1)?, n.x(2)?);
    let (mean, variance) = (n.x(3)?, n.x(4)?);
    let (eps, momentum) = (n.float("epsilon", EPS)?, n.float("momentum", 0.9)?);
    if !n.flag("training_mode", false)? {
        return one(x.batch_norm_inference(mean, variance, Some(weight), Some(bias), eps));
    }
    let normed = x.batch_norm(Some(weight), Some(bias), eps)?;
    let mixed = |old: &Tensor, new: &Tensor| (old * momentum + new * (1.0 - momentum)).tensor();
    Ok(vec![normed.output, mixed(mean, &normed.mean)?, mixed(variance, &normed.variance)?])
}

fn group_norm(n: &Node<'_>, groups: usize) -> Outcome {
    n.ignore("stash_type");
    one(n.x(0)?.group_norm(groups, n.maybe(1)?, n.maybe(2)?, n.float("epsilon", EPS)?))
}

/// How many axes there are from the attribute `axis` on.
fn last_axes(n: &Node<'_>) -> Outcome<usize> {
    let x = n.x(0)?;
    Ok(x.rank() - x.shape().axis(n.int("axis", -1)?)?)
}

/// The result, and the mean and the reciprocal deviation of each row.
fn layer_norm(n: &Node<'_>) -> Outcome {
    let (x, axes, eps) = (n.x(0)?, last_axes(n)?, n.float("epsilon", EPS)?);
    n.dtype("stash_type", DType::F32)?;
    let over: Vec<isize> = (1..=axes as isize).map(|axis| -axis).collect();
    let deviation = x.var_keepdim(&over, 0.0)?.add(eps)?.rsqrt()?;
    Ok(vec![x.layer_norm(axes, n.maybe(1)?, n.maybe(2)?, eps)?, x.mean_keepdim(&over)?, deviation])
}

fn rms_norm(n: &Node<'_>) -> Outcome {
    n.dtype("stash_type", DType::F32)?;
    one(n.x(0)?.rms_norm(last_axes(n)?, n.maybe(1)?, n.float("epsilon", EPS)?))
}

/// Lines of norm 1; those of zeros stay.
fn lp_norm(n: &Node<'_>) -> Outcome {
    let (x, axis) = (n.x(0)?, n.int("axis", -1)?);
    let norm = x.norm_keepdim(n.float("p", 2.0)?, &[axis])?;
    one(x.div(&norm.masked_fill(&norm.eq(0)?, 1)?))
}

/// Over neighbouring channels (Krizhevsky et al. 2012).
fn local_response(n: &Node<'_>) -> Outcome {
    let (x, size) = (n.x(0)?, n.int("size", 1)?.unsigned_abs());
    let (alpha, beta, bias) = (n.float("alpha", 1e-4)?, n.float("beta", 0.75)?, n.float("bias", 1.0)?);
    let squares = x.square()?.pad_axis(1, (size - 1) / 2, size / 2, 0)?.unfold(1, size, 1)?.sum(&[-1])?;
    let scale = (squares * (alpha / size as f64) + bias).tensor()?.pow(beta)?;
    one(x.div(&scale))
}

fn mean_variance(n: &Node<'_>) -> Outcome {
    let (x, mut axes) = (n.x(0)?, n.ints("axes")?);
    if axes.is_empty() {
        axes = vec![0, 2, 3];
    }
    let deviation: Result<Tensor> = x.std_keepdim(&axes, 0.0)?.add(1e-9);
    one(x.sub(&x.mean_keepdim(&axes)?)?.div(&deviation?))
}
