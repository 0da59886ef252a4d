//! What puts elements in other places, takes them from places that an index names, sorts or makes them.

use ubique_core::op::index::Combine;
use ubique_core::op::pad::PadMode;
use ubique_core::{DType, Result, Scalar, Tensor};

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("argsort", argsort),
    ("msort", |c| Ok(vec![c.input()?.sort(0, false)?.0])),
    ("sort", sort),
    ("topk", topk),
    ("argwhere", |c| one(c.input()?.nonzero())),
    ("nonzero", nonzero),
    ("cat", |c| one(Tensor::concat(&c.tensors(0, "tensors")?, c.int(1, "dim", 0)?))),
    ("stack", |c| one(Tensor::stack(&c.tensors(0, "tensors")?, c.int(1, "dim", 0)?))),
    ("chunk", |c| Ok(c.input()?.chunk(c.int(1, "chunks", 1)?.unsigned_abs(), c.int(2, "dim", 0)?)?)),
    ("split", split),
    ("split_with_sizes", |c| Ok(c.input()?.split(&c.extents(1, "split_sizes")?, c.int(2, "dim", 0)?)?)),
    ("constant_pad_nd", |c| pad(c, PadMode::Constant(c.scalar(2, "value")?.unwrap_or(0.into())))),
    ("nn.functional.pad/constant", |c| pad_mode(c, PadMode::Constant(c.scalar(3, "value")?.unwrap_or(0.into())))),
    ("nn.functional.pad/circular", |c| pad_mode(c, PadMode::Circular)),
    ("nn.functional.pad/reflect", |c| pad_mode(c, PadMode::Reflect)),
    ("nn.functional.pad/replicate", |c| pad_mode(c, PadMode::Replicate)),
    ("expand", expand),
    ("flatten", |c| one(c.input()?.flatten(c.int(1, "start_dim", 0)?, c.int(2, "end_dim", -1)?))),
    ("flip", |c| one(c.input()?.flip(&c.ints(1, "dims")?))),
    ("fliplr", |c| one(c.input()?.flip(&[1]))),
    ("flipud", |c| one(c.input()?.flip(&[0]))),
    ("movedim", movedim),
    ("narrow", |c| {
        one(c.input()?.narrow(c.int(1, "dim", 0)?, c.int(2, "start", 0)?, c.int(3, "length", 0)?.unsigned_abs()))
    }),
    ("permute", |c| one(c.input()?.permute(&c.ints(1, "dims")?))),
    ("repeat", |c| tile(c, "repeats")),
    ("tile", |c| tile(c, "dims")),
    ("repeat_interleave", repeat_interleave),
    ("reshape", reshape),
    ("view", reshape),
    ("roll", roll),
    ("select", |c| one(at(c.input()?, c.int(1, "dim", 0)?, c.int(2, "index", 0)?))),
    ("squeeze", squeeze),
    ("unsqueeze", |c| one(c.input()?.unsqueeze(c.int(1, "dim", 0)?))),
    ("t", |c| if c.input()?.rank() < 2 { Ok(vec![c.input()?.clone()]) } else { one(c.input()?.t()) }),
    ("transpose", transpose),
    ("unfold", unfold),
    ("gather", gather),
    ("take_along_dim", take_along_dim),
    ("index_select", index_select),
    ("index_add", index_add),
    ("scatter", scatter),
    ("scatter_add", scatter_add),
    ("masked_fill", masked_fill),
    ("masked_select", |c| one(c.input()?.masked_select(c.tensor(1, "mask")?))),
    ("where", select),
    ("nn.functional.embedding", embedding),
    ("nn.functional.one_hot", one_hot),
    ("arange", arange),
    ("eye", eye),
    ("linspace", linspace),
];

fn argsort(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    // Sorts here are always stable.
    c.flag(usize::MAX, "stable", false)?;
    one(x.argsort(c.int(1, "dim", -1)?, c.flag(2, "descending", false)?))
}

fn sort(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    c.flag(usize::MAX, "stable", false)?;
    let (values, places) = x.sort(c.int(1, "dim", -1)?, c.flag(2, "descending", false)?)?;
    Ok(vec![values, places])
}

fn topk(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let (k, axis) = (c.int(1, "k", 1)?.unsigned_abs(), c.int(2, "dim", -1)?);
    let largest = c.flag(3, "largest", true)?;
    if !c.flag(4, "sorted", true)? {
        return unmapped("an order that is not defined");
    }
    let (values, places) = x.topk(k, axis, largest)?;
    Ok(vec![values, places])
}

fn nonzero(c: &Call<'_>) -> Outcome {
    let places = c.input()?.nonzero()?;
    if !c.flag(usize::MAX, "as_tuple", false)? {
        return Ok(vec![places]);
    }
    // A column for each axis.
    Ok((0..places.shape()[1] as isize).map(|axis| at(&places, 1, axis)).collect::<Result<_>>()?)
}

/// Pieces of one length, the last of which may be shorter.
fn split(c: &Call<'_>) -> Outcome {
    let (x, axis) = (c.input()?, c.int(2, "dim", 0)?);
    let size = c.int(1, "split_size", 1)?.unsigned_abs().max(1);
    let extent = x.shape()[x.shape().axis(axis)?];
    let lengths: Vec<usize> = (0..extent).step_by(size).map(|start| size.min(extent - start)).collect();
    Ok(x.split(&lengths, axis)?)
}

/// Padding as PyTorch lists it: pairs from the last axis on.
fn pad(c: &Call<'_>, mode: PadMode) -> Outcome {
    let (x, flat) = (c.input()?, c.extents(1, "pad")?);
    let mut padding = vec![(0, 0); x.rank()];
    for (pair, place) in flat.chunks_exact(2).zip(padding.iter_mut().rev()) {
        *place = (pair[0], pair[1]);
    }
    one(x.pad(&padding, mode))
}

fn pad_mode(c: &Call<'_>, mode: PadMode) -> Outcome {
    c.text(2, "mode")?;
    pad(c, mode)
}

fn expand(c: &Call<'_>) -> Outcome {
    let (x, sizes) = (c.input()?, c.ints(1, "size")?);
    let before = sizes.len() - x.rank();
    let extent = |(i, &size): (usize, &isize)| if size < 0 { x.shape()[i - before] } else { size.unsigned_abs() };
    one(x.expand(sizes.iter().enumerate().map(extent).collect::<Vec<_>>()))
}

/// Several axes moved: the others keep their order in the places that are left.
fn movedim(c: &Call<'_>) -> Outcome {
    let (x, from, to) = (c.input()?, c.ints(1, "source")?, c.ints(2, "destination")?);
    if let ([from], [to]) = (from.as_slice(), to.as_slice()) {
        return one(x.movedim(*from, *to));
    }
    let places = |list: Vec<isize>| list.into_iter().map(|axis| x.shape().axis(axis)).collect::<Result<Vec<_>>>();
    let (from, to) = (places(from)?, places(to)?);
    let mut rest = (0..x.rank()).filter(|axis| !from.contains(axis));
    let order = (0..x.rank()).filter_map(|place| match to.iter().position(|&t| t == place) {
        Some(i) => Some(from[i] as isize),
        None => rest.next().map(|axis| axis as isize),
    });
    one(x.permute(&order.collect::<Vec<_>>()))
}

fn tile(c: &Call<'_>, name: &str) -> Outcome {
    one(c.input()?.tile(&c.extents(1, name)?))
}

fn repeat_interleave(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let Some(Arg::Int(count)) = c.get(1, "repeats") else { return unmapped("a count for each element") };
    let count = count.unsigned_abs() as usize;
    match c.get(2, "dim") {
        Some(_) => one(x.repeat(count, c.int(2, "dim", 0)?)),
        None => one(x.reshape([x.elements()])?.repeat(count, 0)),
    }
}

/// One extent may be -1: what is left.
fn reshape(c: &Call<'_>) -> Outcome {
    let (x, sizes) = (c.input()?, c.ints(1, "shape")?);
    let known: usize = sizes.iter().filter(|&&size| size >= 0).map(|size| size.unsigned_abs()).product();
    let extent = |&size: &isize| if size < 0 { x.elements() / known.max(1) } else { size.unsigned_abs() };
    one(x.reshape(sizes.iter().map(extent).collect::<Vec<_>>()))
}

fn roll(c: &Call<'_>) -> Outcome {
    let (x, shifts, axes) = (c.input()?, c.ints(1, "shifts")?, c.ints(2, "dims")?);
    if !axes.is_empty() {
        return one(x.roll(&shifts, &axes));
    }
    one(x.reshape([x.elements()])?.roll(&shifts, &[0])?.reshape(x.shape()))
}

pub fn at(x: &Tensor, axis: isize, index: isize) -> Result<Tensor> {
    x.narrow(axis, index, 1)?.squeeze(axis)
}

/// Axes of another extent than 1 stay as they are.
fn squeeze(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let axes = c.ints(1, "dim")?;
    let named = axes.iter().map(|&axis| x.shape().axis(axis)).collect::<Result<Vec<_>>>()?;
    let goes = |axis: &usize| x.shape()[*axis] == 1 && (axes.is_empty() || named.contains(axis));
    let mut out = x.clone();
    for axis in (0..x.rank()).rev().filter(goes) {
        out = out.squeeze(axis as isize)?;
    }
    Ok(vec![out])
}

fn transpose(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    one(x.transpose(c.int(1, "dim0", 0)?, c.int(2, "dim1", 0)?))
}

fn unfold(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let axis = c.int(1, "dimension", 0)?;
    one(x.unfold(axis, c.int(2, "size", 1)?.unsigned_abs(), c.int(3, "step", 1)?.unsigned_abs()))
}

fn gather(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    one(x.gather(c.int(1, "dim", 0)?, c.tensor(2, "index")?))
}

fn take_along_dim(c: &Call<'_>) -> Outcome {
    let (x, index) = (c.input()?, c.tensor(1, "indices")?);
    if c.get(2, "dim").is_none() {
        return one(x.reshape([x.elements()])?.gather(0, &index.reshape([index.elements()])?));
    }
    let axis = c.int(2, "dim", 0)?;
    let at = x.shape().axis(axis)?;
    let shape = x.shape().with(at, 1).broadcast(&index.shape().with(at, 1))?;
    let (x, index) = (x.expand(shape.with(at, x.shape()[at]))?, index.expand(shape.with(at, index.shape()[at]))?);
    one(x.gather(axis, &index))
}

fn index_select(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    one(x.index_select(c.int(1, "dim", 0)?, c.tensor(2, "index")?))
}

fn index_add(c: &Call<'_>) -> Outcome {
    let (x, index, source) = (c.input()?, c.tensor(2, "index")?, c.tensor(3, "source")?);
    let axis = c.int(1, "dim", 0)?;
    match c.scalar(4, "alpha")? {
        None => one(x.index_add(axis, index, source)),
        Some(alpha) => one(x.index_add(axis, index, &source.mul(alpha)?)),
    }
}

/// PyTorch lets the source be larger than the index; only its corner counts.
pub fn corner(source: &Tensor, index: &Tensor) -> Result<Tensor> {
    let mut out = source.clone();
    for axis in 0..out.rank() {
        out = out.narrow(axis as isize, 0, index.shape()[axis])?;
    }
    Ok(out)
}

fn scatter(c: &Call<'_>) -> Outcome {
    let (x, index) = (c.input()?, c.tensor(2, "index")?);
    let axis = c.int(1, "dim", 0)?;
    let combine = match c.text(usize::MAX, "reduce")? {
        Some("add") => Combine::Add,
        Some("multiply") => Combine::Mul,
        _ => Combine::Set,
    };
    match c.scalar_or_tensor(3, "src")? {
        Ok(source) => one(x.scatter(axis, index, &corner(source, index)?, combine)),
        Err(value) => one(x.scatter(axis, index, &Tensor::full(index.shape(), value, x.dtype(), c.device)?, combine)),
    }
}

fn scatter_add(c: &Call<'_>) -> Outcome {
    let (x, index, source) = (c.input()?, c.tensor(2, "index")?, c.tensor(3, "src")?);
    one(x.scatter(c.int(1, "dim", 0)?, index, &corner(source, index)?, Combine::Add))
}

/// The value may be a tensor of rank 0, which has a gradient.
fn masked_fill(c: &Call<'_>) -> Outcome {
    let (x, mask) = (c.input()?, c.tensor(1, "mask")?);
    let shape = x.shape().broadcast(mask.shape())?;
    match c.scalar_or_tensor(2, "value")? {
        Ok(value) => one(value.select(mask, x)),
        Err(value) => one(x.expand(shape)?.masked_fill(mask, value)),
    }
}

/// `(x, mask, other)`: PyTorch's `where` begins with the mask, its samples with the first operand.
fn select(c: &Call<'_>) -> Outcome {
    let (x, mask) = (c.input()?, c.tensor(1, "mask")?);
    one(x.select(mask, c.right(2, "other", x)?))
}

fn embedding(c: &Call<'_>) -> Outcome {
    let (table, index) = (c.input()?, c.tensor(1, "index")?);
    // Frequencies and sparsity change the gradient's form and scale, `max_norm` the table itself.
    one(table.embedding(index))
}

fn one_hot(c: &Call<'_>) -> Outcome {
    let classes = c.int(1, "num_classes", -1)?;
    let Ok(classes) = usize::try_from(classes) else { return unmapped("a number of classes that the data says") };
    one(c.input()?.one_hot(classes, DType::I64))
}

/// `(end)`, `(start, end)` or `(start, end, step)`.
fn arange(c: &Call<'_>) -> Outcome {
    c.same_dtype("dtype")?;
    let number = |i: usize| c.number(i);
    let (start, end, step): (Scalar, Scalar, Scalar) = match c.count() {
        1 => (0.into(), number(0)?, 1.into()),
        2 => (number(0)?, number(1)?, 1.into()),
        _ => (number(0)?, number(1)?, number(2)?),
    };
    one(Tensor::arange(start, end, step, c.dtype, c.device))
}

fn eye(c: &Call<'_>) -> Outcome {
    c.same_dtype("dtype")?;
    let rows = c.int(0, "n", 0)?;
    let columns = c.int(1, "m", rows)?;
    one(Tensor::eye(rows.unsigned_abs(), columns.unsigned_abs(), c.dtype, c.device))
}

fn linspace(c: &Call<'_>) -> Outcome {
    c.same_dtype("dtype")?;
    if !c.dtype.is_float() {
        return unmapped("integers at even distances");
    }
    let count = c.int(2, "steps", 0)?.unsigned_abs();
    one(Tensor::linspace(c.float(0, "start", 0.0)?, c.float(1, "end", 0.0)?, count, c.dtype, c.device))
}
