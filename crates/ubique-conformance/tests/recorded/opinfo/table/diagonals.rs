//! Triangles and diagonals of matrices, grids, and products that are no matrix products.

use ubique_core::Tensor;
use ubique_core::op::meshgrid::Indexing;

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("cross", cross),
    ("linalg.cross", |c| one(c.input()?.cross(c.tensor(1, "other")?, c.int(usize::MAX, "dim", -1)?))),
    ("diag", |c| one(c.input()?.diag(c.int(1, "diagonal", 0)?))),
    ("diag_embed", diag_embed),
    ("diagonal", |c| diagonal(c, 0, 1)),
    ("linalg.diagonal", |c| diagonal(c, -2, -1)),
    ("einsum", |c| {
        let operands = c.tensors(0, "operands")?;
        match c.text(1, "equation")? {
            Some(equation) => one(Tensor::einsum(equation, &operands)),
            None => unmapped("no equation"),
        }
    }),
    ("kron", |c| one(c.input()?.kron(c.tensor(1, "other")?))),
    ("meshgrid/list_of_tensors", |c| meshgrid(c, &c.tensors(0, "tensors")?)),
    ("meshgrid/variadic_tensors", |c| {
        let vectors = (0..c.count()).map(|i| c.tensor(i, "")).collect::<Outcome<Vec<_>>>()?;
        meshgrid(c, &vectors)
    }),
    ("tensordot", tensordot),
    ("trace", |c| one(c.input()?.trace())),
    ("tril", |c| one(c.input()?.tril(c.int(1, "diagonal", 0)?))),
    ("triu", |c| one(c.input()?.triu(c.int(1, "diagonal", 0)?))),
];

/// By default along the first axis of three elements.
fn cross(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let first = x.shape().iter().position(|&extent| extent == 3).unwrap_or(0);
    one(x.cross(c.tensor(1, "other")?, c.int(2, "dim", first as isize)?))
}

fn diag_embed(c: &Call<'_>) -> Outcome {
    if (c.int(usize::MAX, "dim1", -2)?, c.int(usize::MAX, "dim2", -1)?) != (-2, -1) {
        return unmapped("matrices in other axes than the last two");
    }
    one(c.input()?.diag_embed(c.int(1, "offset", 0)?))
}

fn diagonal(c: &Call<'_>, first: isize, second: isize) -> Outcome {
    let (first, second) = (c.int(2, "dim1", first)?, c.int(3, "dim2", second)?);
    one(c.input()?.diagonal(c.int(1, "offset", 0)?, first, second))
}

fn meshgrid(c: &Call<'_>, vectors: &[&Tensor]) -> Outcome {
    let xy = c.text(usize::MAX, "indexing")? == Some("xy");
    Ok(Tensor::meshgrid(vectors, if xy { Indexing::Xy } else { Indexing::Ij })?)
}

/// Pairs of axes, or as many as a number says: the last of one and the first of the other.
fn tensordot(c: &Call<'_>) -> Outcome {
    let (x, y) = (c.input()?, c.tensor(1, "other")?);
    let axes = |arg: &Arg<Tensor>| match arg {
        Arg::List(list) => {
            list.iter().map(|axis| if let Arg::Int(axis) = axis { Some(*axis as isize) } else { None }).collect()
        }
        _ => None,
    };
    let pairs: Option<(Vec<isize>, Vec<isize>)> = match c.get(2, "dims") {
        None => Some((vec![-2, -1], vec![0, 1])),
        Some(Arg::Int(count)) => Some(((-(*count as isize)..0).collect(), (0..*count as isize).collect())),
        Some(Arg::List(lists)) => match lists.as_slice() {
            [first, second] => axes(first).zip(axes(second)),
            _ => None,
        },
        Some(_) => None,
    };
    match pairs {
        Some((first, second)) => one(x.tensordot(y, &first, &second)),
        None => unmapped("axes that are no two lists"),
    }
}
