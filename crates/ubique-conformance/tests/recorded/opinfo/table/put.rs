//! What puts elements to places that an index names, and stacks and splits by other names.

use ubique_core::op::index::Combine;
use ubique_core::{DType, Result, Scalar, Tensor};

use super::places::{at, corner};
use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};

pub const ROWS: &[Row] = &[
    ("broadcast_to", |c| one(c.input()?.expand(c.shape(1, "size")?))),
    ("hstack", |c| stacked(c, 1)),
    ("vstack", |c| stacked(c, 0)),
    ("index_copy", |c| {
        let (x, axis, source) = (c.input()?, c.int(1, "dim", 0)?, c.tensor(3, "source")?);
        one(x.scatter(axis, &along(c.tensor(2, "index")?, source, axis)?, source, Combine::Set))
    }),
    ("index_fill", index_fill),
    ("index_put", index_put),
    ("scatter_reduce/amax", |c| scatter_reduce(c, Combine::Max)),
    ("scatter_reduce/amin", |c| scatter_reduce(c, Combine::Min)),
    ("scatter_reduce/prod", |c| scatter_reduce(c, Combine::Mul)),
    ("scatter_reduce/sum", |c| scatter_reduce(c, Combine::Add)),
    ("select_scatter", |c| {
        one(c.input()?.select_assign(c.int(2, "dim", 0)?, c.int(3, "index", 0)?, c.tensor(1, "src")?))
    }),
    ("take", |c| {
        let (x, index) = (c.input()?, c.tensor(1, "index")?);
        one(x.reshape([x.elements()])?.index_select(0, &index.reshape([index.elements()])?)?.reshape(index.shape()))
    }),
    ("unbind", |c| {
        let (x, axis) = (c.input()?, c.int(1, "dim", 0)?);
        let count = x.shape()[x.shape().axis(axis)?];
        Ok((0..count as isize).map(|i| at(x, axis, i)).collect::<Result<_>>()?)
    }),
    ("unflatten", unflatten),
];

/// Vectors in a row, or as rows; others one after the other along the axis.
fn stacked(c: &Call<'_>, axis: isize) -> Outcome {
    let tensors = c.tensors(0, "tensors")?;
    match (tensors.iter().all(|x| x.rank() == 1), axis) {
        (true, 1) => one(Tensor::concat(&tensors, 0)),
        (true, _) => one(Tensor::stack(&tensors, 0)),
        _ => one(Tensor::concat(&tensors, axis)),
    }
}

/// An index of slices along an axis as an index of each element of a source.
fn along(index: &Tensor, source: &Tensor, axis: isize) -> Result<Tensor> {
    let axis = source.shape().axis(axis)?;
    let shape = (0..source.rank()).map(|a| if a == axis { index.elements() } else { 1 }).collect::<Vec<_>>();
    index.reshape(shape)?.expand(source.shape().with(axis, index.elements()))
}

/// The value may be a tensor of rank 0, which has a gradient.
fn index_fill(c: &Call<'_>) -> Outcome {
    let (x, axis) = (c.input()?, c.int(1, "dim", 0)?);
    let index = along(c.tensor(2, "index")?, x, axis)?;
    let source = match c.scalar_or_tensor(3, "value")? {
        Ok(value) => value.expand(index.shape())?,
        Err(value) => Tensor::full(index.shape(), value, x.dtype(), c.device)?,
    };
    one(x.scatter(axis, &index, &source, Combine::Set))
}

/// One index tensor for each of the first axes, or a mask of them.
fn index_put(c: &Call<'_>) -> Outcome {
    let (x, indices, values) = (c.input()?, c.tensors(1, "indices")?, c.tensor(2, "values")?);
    let combine = if c.flag(3, "accumulate", false)? { Combine::Add } else { Combine::Set };
    if combine == Combine::Add && c.dtype == DType::Bool {
        return unmapped("sums of bools");
    }
    let index = match indices.as_slice() {
        [mask] if mask.dtype() == DType::Bool => mask.nonzero()?,
        indices => {
            let shape = indices.iter().try_fold(indices[0].shape().clone(), |all, i| all.broadcast(i.shape()))?;
            let expanded = indices.iter().map(|index| index.expand(&shape)).collect::<Result<Vec<_>>>()?;
            Tensor::stack(&expanded.iter().collect::<Vec<_>>(), -1)?
        }
    };
    let shape = x.detach().gather_nd(&index)?.shape().clone();
    one(x.scatter_nd(&index, &values.expand(shape)?, combine))
}

/// Without what is there before, places that get something begin with what changes nothing.
fn scatter_reduce(c: &Call<'_>, combine: Combine) -> Outcome {
    let (x, axis, index, source) = (c.input()?, c.int(1, "dim", 0)?, c.tensor(2, "index")?, c.tensor(3, "src")?);
    c.text(4, "reduce")?;
    let source = corner(source, index)?;
    if c.flag(usize::MAX, "include_self", true)? {
        return one(x.scatter(axis, index, &source, combine));
    }
    let lowest = if c.dtype.is_float() { Scalar::Float(f64::NEG_INFINITY) } else { Scalar::Int(i64::MIN) };
    let highest = if c.dtype.is_float() { Scalar::Float(f64::INFINITY) } else { Scalar::Int(i64::MAX) };
    let nothing = match combine {
        Combine::Add | Combine::Set => Scalar::Int(0),
        Combine::Mul => Scalar::Int(1),
        Combine::Min if c.dtype == DType::Bool => Scalar::Bool(true),
        Combine::Max if c.dtype == DType::Bool => Scalar::Bool(false),
        Combine::Min => highest,
        Combine::Max => lowest,
    };
    let emptied = x.scatter(axis, index, &Tensor::full(index.shape(), nothing, x.dtype(), c.device)?, Combine::Set)?;
    one(emptied.scatter(axis, index, &source, combine))
}

/// An axis as several, of which one may be -1: what is left.
fn unflatten(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let (axis, sizes) = (x.shape().axis(c.int(1, "dim", 0)?)?, c.ints(2, "sizes")?);
    let known: usize = sizes.iter().filter(|&&size| size >= 0).map(|size| size.unsigned_abs()).product();
    let extent = |&size: &isize| if size < 0 { x.shape()[axis] / known.max(1) } else { size.unsigned_abs() };
    let (before, after) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
    let inside: Vec<usize> = sizes.iter().map(extent).collect();
    one(x.reshape([before, &inside, after].concat()))
}
