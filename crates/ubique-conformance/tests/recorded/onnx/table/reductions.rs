//! Reductions, extrema and their places, scans, softmax.

use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("ReduceL1", |n| reduce(n, |x, axes| x.norm_keepdim(1.0, axes))),
    ("ReduceL2", |n| reduce(n, |x, axes| x.norm_keepdim(2.0, axes))),
    ("ReduceLogSum", |n| reduce(n, |x, axes| x.sum_keepdim(axes)?.log())),
    ("ReduceLogSumExp", |n| reduce(n, Tensor::logsumexp_keepdim)),
    ("ReduceMax", |n| reduce(n, |x, axes| if is_bool(x) { x.any_keepdim(axes) } else { x.max_keepdim(axes) })),
    ("ReduceMean", |n| reduce(n, Tensor::mean_keepdim)),
    ("ReduceMin", |n| reduce(n, |x, axes| if is_bool(x) { x.all_keepdim(axes) } else { x.min_keepdim(axes) })),
    ("ReduceProd", |n| reduce(n, Tensor::prod_keepdim)),
    ("ReduceSum", |n| reduce(n, Tensor::sum_keepdim)),
    ("ReduceSumSquare", |n| reduce(n, |x, axes| x.square()?.sum_keepdim(axes))),
    ("ArgMax", |n| arg_reduce(n, Tensor::argmax)),
    ("ArgMin", |n| arg_reduce(n, Tensor::argmin)),
    ("CumProd", |n| scan(n, Tensor::cumprod, 1)),
    ("CumSum", |n| scan(n, Tensor::cumsum, 0)),
    ("Hardmax", hardmax),
    ("LogSoftmax", |n| one(n.x(0)?.log_softmax(n.int("axis", -1)?))),
    ("Softmax", |n| one(n.x(0)?.softmax(n.int("axis", -1)?))),
    ("TopK", top_k),
];

fn is_bool(x: &Tensor) -> bool {
    x.dtype() == DType::Bool
}

fn reduce(n: &Node<'_>, keep: fn(&Tensor, &[isize]) -> Result<Tensor>) -> Outcome {
    let (x, axes, kept) = (n.x(0)?, n.axes(1)?, n.flag("keepdims", true)?);
    if n.flag("noop_with_empty_axes", false)? && axes.is_empty() {
        // Over axes of one element each is over none.
        return one(keep(&x.unsqueeze(0)?, &[0])?.squeeze(0));
    }
    let reduced = keep(x, &axes)?;
    if kept {
        return Ok(vec![reduced]);
    }
    let named = axes.iter().map(|&axis| x.shape().axis(axis)).collect::<Result<Vec<_>>>()?;
    let stays = |axis: &usize| !axes.is_empty() && !named.contains(axis);
    one(reduced.reshape((0..x.rank()).filter(stays).map(|axis| x.shape()[axis]).collect::<Vec<_>>()))
}

fn arg_reduce(n: &Node<'_>, f: fn(&Tensor, isize, bool) -> Result<Tensor>) -> Outcome {
    let (x, axis, keep) = (n.x(0)?, n.int("axis", 0)?, n.flag("keepdims", true)?);
    if !n.flag("select_last_index", false)? {
        return one(f(x, axis, keep));
    }
    let last = x.shape()[x.shape().axis(axis)?] as i64 - 1;
    one(f(&x.flip(&[axis])?, axis, keep)?.neg()?.add(last))
}

/// Forwards or backwards, with each element itself or without.
fn scan(n: &Node<'_>, f: fn(&Tensor, isize) -> Result<Tensor>, start: i64) -> Outcome {
    let (axis, reverse) = (n.value(1, 0)?, n.flag("reverse", false)?);
    let x = if reverse { n.x(0)?.flip(&[axis])? } else { n.x(0)?.clone() };
    let mut out = f(&x, axis)?;
    if n.flag("exclusive", false)? {
        let extent = x.shape()[x.shape().axis(axis)?];
        out = out.pad_axis(axis, 1, 0, start)?.narrow(axis, 0, extent)?;
    }
    Ok(vec![if reverse { out.flip(&[axis])? } else { out }])
}

/// 1 at the first of the largest elements, and 0 elsewhere.
fn hardmax(n: &Node<'_>) -> Outcome {
    let (x, axis) = (n.x(0)?, n.int("axis", -1)?);
    let classes = x.shape()[x.shape().axis(axis)?];
    one(x.argmax(axis, false)?.one_hot(classes, x.dtype())?.movedim(-1, axis))
}

fn top_k(n: &Node<'_>) -> Outcome {
    if !n.flag("sorted", true)? {
        return unmapped("an order that is not defined");
    }
    let (k, axis) = (n.value(1, 0)?.unsigned_abs(), n.int("axis", -1)?);
    let (values, places) = n.x(0)?.topk(k, axis, n.flag("largest", true)?)?;
    Ok(vec![values, places])
}
