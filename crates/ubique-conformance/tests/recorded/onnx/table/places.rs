//! What takes elements from places that an index names, or puts them there.

use ubique_core::op::index::Combine;
use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("Compress", compress),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonZero", |n| one(n.x(0)?.nonzero()?.t())),
    ("OneHot", one_hot),
    ("ReverseSequence", reverse_sequence),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
];

/// `0..count` as indices.
fn places(count: usize, n: &Node<'_>) -> Result<Tensor> {
    Tensor::arange(0, count, 1, DType::I64, n.device())
}

/// Indices that may count from the end of an axis.
fn from_start(index: &Tensor, extent: usize) -> Result<Tensor> {
    let index = index.cast(DType::I64)?;
    index.add(extent)?.select(&index.lt(0)?, &index)
}

/// The same for rows of indices along the first axes.
fn rows_from_start(index: &Tensor, extents: &[usize]) -> Result<Tensor> {
    let extents: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
    let extents = Tensor::from_slice(&extents, [extents.len()], index.device())?;
    index.add(&extents)?.select(&index.lt(0)?, index)
}

fn combine(n: &Node<'_>) -> Outcome<Combine> {
    Ok(match n.text("reduction", "none")? {
        "add" => Combine::Add,
        "mul" => Combine::Mul,
        "min" => Combine::Min,
        "max" => Combine::Max,
        _ => Combine::Set,
    })
}

fn compress(n: &Node<'_>) -> Outcome {
    let (x, kept) = (n.x(0)?, n.x(1)?.nonzero()?.squeeze(-1)?);
    match n.has("axis") {
        true => one(x.index_select(n.int("axis", 0)?, &kept)),
        false => one(x.reshape([x.elements()])?.index_select(0, &kept)),
    }
}

/// The index may have any rank; its axes take the place of the one that is indexed.
fn gather(n: &Node<'_>) -> Outcome {
    let (x, index) = (n.x(0)?, n.x(1)?);
    let axis = x.shape().axis(n.int("axis", 0)?)?;
    let flat = from_start(index, x.shape()[axis])?.reshape([index.elements()])?;
    let shape = [&x.shape()[..axis], index.shape(), &x.shape()[axis + 1..]].concat();
    one(x.index_select(axis as isize, &flat)?.reshape(shape))
}

fn gather_elements(n: &Node<'_>) -> Outcome {
    let (x, axis) = (n.x(0)?, n.int("axis", 0)?);
    one(x.gather(axis, &from_start(n.x(1)?, x.shape()[x.shape().axis(axis)?])?))
}

fn gather_nd(n: &Node<'_>) -> Outcome {
    let (x, index) = (n.x(0)?, n.x(1)?);
    let width = index.shape().last().copied().unwrap_or(0);
    match n.int("batch_dims", 0)? {
        0 => one(x.gather_nd(&rows_from_start(index, &x.shape()[..width])?)),
        1 => {
            // The place in the batch is the first number of each row.
            let index = rows_from_start(index, &x.shape()[1..width + 1])?;
            let extents = index.shape().with(index.rank() - 1, 1);
            let batch =
                places(index.shape()[0], n)?.reshape([vec![index.shape()[0]], vec![1; index.rank() - 1]].concat())?;
            one(x.gather_nd(&Tensor::concat(&[&batch.expand(extents)?, &index], -1)?))
        }
        _ => unmapped("several batch axes"),
    }
}

/// An index out of range gives a row of "off".
fn one_hot(n: &Node<'_>) -> Outcome {
    let (index, depth) = (n.x(0)?.cast(DType::I64)?, n.value(1, 0)?.unsigned_abs());
    let values = n.x(2)?;
    let (off, on) = (values.narrow(0, 0, 1)?, values.narrow(0, 1, 1)?);
    let hot = from_start(&index, depth)?.unsqueeze(-1)?.eq(&places(depth, n)?)?;
    one(on.select(&hot, &off)?.movedim(-1, n.int("axis", -1)?))
}

/// The first elements of each sequence backwards, as many as its length says.
fn reverse_sequence(n: &Node<'_>) -> Outcome {
    let (x, lengths) = (n.x(0)?, n.x(1)?);
    let (time, batch) = (n.int("time_axis", 0)?, n.int("batch_axis", 1)?);
    let moved = |x: &Tensor, back: bool| match (back, batch) {
        (_, 0) => Ok(x.clone()),
        _ => x.transpose(0, 1),
    };
    if time + batch != 1 {
        return unmapped("other axes than the first two");
    }
    // [batch, time, ..]
    let x = moved(x, false)?;
    let (lengths, at) = (lengths.unsqueeze(-1)?, places(x.shape()[1], n)?);
    let mirrored = lengths.sub(1)?.sub(&at)?;
    let index = mirrored.select(&at.lt(&lengths)?, &at)?;
    let index = index.reshape([index.shape().to_vec(), vec![1; x.rank() - 2]].concat())?.expand(x.shape())?;
    one(moved(&x.gather(1, &index)?, true))
}

fn scatter_elements(n: &Node<'_>) -> Outcome {
    let (x, axis) = (n.x(0)?, n.int("axis", 0)?);
    let index = from_start(n.x(1)?, x.shape()[x.shape().axis(axis)?])?;
    one(x.scatter(axis, &index, n.x(2)?, combine(n)?))
}

fn scatter_nd(n: &Node<'_>) -> Outcome {
    let (x, index) = (n.x(0)?, n.x(1)?);
    let width = index.shape().last().copied().unwrap_or(0);
    one(x.scatter_nd(&rows_from_start(index, &x.shape()[..width])?, n.x(2)?, combine(n)?))
}

/// Each example of a cache gets an update from a place of its own on.
fn tensor_scatter(n: &Node<'_>) -> Outcome {
    let (cache, update) = (n.x(0)?, n.x(1)?);
    let axis = cache.shape().axis(n.int("axis", -2)?)?;
    let (extent, batch) = (cache.shape()[axis], cache.shape()[0]);
    let starts =
        n.maybe(2)?.map_or_else(|| Tensor::zeros([batch], DType::I64, n.device()), |starts| Ok(starts.clone()))?;
    let mut index = starts.unsqueeze(-1)?.add(&places(update.shape()[axis], n)?)?;
    if n.text("mode", "linear")? == "circular" {
        index = index.rem(extent)?;
    }
    let mut shape = vec![1; cache.rank()];
    (shape[0], shape[axis]) = (batch, update.shape()[axis]);
    one(cache.scatter(axis as isize, &index.reshape(shape)?.expand(update.shape())?, update, Combine::Set))
}
