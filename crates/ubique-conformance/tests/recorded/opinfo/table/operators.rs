//! Operators with the operands exchanged, changes of dtype, and what makes or spreads one value.

use ubique_core::{DType, Expr, Scalar, Tensor};

use super::{Row, countable, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("__radd__", |c| exchanged(c, |a, b| b + a)),
    ("__rand__", |c| one(c.tensor(1, "other")?.bit_and(c.input()?))),
    ("__rdiv__", |c| exchanged(c, |a, b| b / a)),
    ("__rmatmul__", |c| one(c.tensor(1, "other")?.matmul(c.input()?))),
    ("__rmul__", |c| exchanged(c, |a, b| b * a)),
    ("__ror__", |c| one(c.tensor(1, "other")?.bit_or(c.input()?))),
    ("__rsub__", |c| exchanged(c, |a, b| b - a)),
    ("__rxor__", |c| one(c.tensor(1, "other")?.bit_xor(c.input()?))),
    ("bool", |c| one(c.input()?.cast(DType::Bool))),
    ("float", |c| one(c.input()?.cast(DType::F32))),
    ("half", |c| one(c.input()?.cast(DType::F16))),
    ("int", |c| one(c.input()?.cast(DType::I32))),
    ("long", |c| one(c.input()?.cast(DType::I64))),
    ("full", |c| {
        let Some(value) = value(c)? else { return unmapped("no value") };
        one(Tensor::full(c.shape(0, "size")?, value, dtype(c)?, c.device))
    }),
    ("ones", |c| one(Tensor::ones(c.shape(0, "size")?, dtype(c)?, c.device))),
    ("zeros", |c| one(Tensor::zeros(c.shape(0, "size")?, dtype(c)?, c.device))),
    ("full_like", |c| {
        let Some(value) = value(c)? else { return unmapped("no value") };
        alike(c, c.input()?.full_like(value)?)
    }),
    ("ones_like", |c| alike(c, c.input()?.ones_like()?)),
    ("zeros_like", |c| alike(c, c.input()?.zeros_like()?)),
    ("mT", |c| one(c.input()?.t())),
    ("sum_to_size", |c| one(countable(c.input()?)?.sum_to(&c.shape(1, "size")?))),
];

/// The operand's tensor goes to the right.
fn exchanged(c: &Call<'_>, f: fn(&Tensor, &Tensor) -> Expr) -> Outcome {
    let (x, other) = (c.input()?, c.tensor(1, "other")?);
    match x.dtype() == DType::Bool {
        true => unmapped("arithmetic of bools"),
        false => one(f(x, other).tensor()),
    }
}

fn value(c: &Call<'_>) -> Outcome<Option<Scalar>> {
    Ok(match c.get(1, "fill_value") {
        Some(Arg::Bool(v)) => Some((*v).into()),
        Some(Arg::Int(v)) => Some((*v).into()),
        Some(Arg::Float(v)) => Some((*v).into()),
        _ => None,
    })
}

/// The dtype asked for; that of a result in f64 is not recorded, but taken for the call's.
fn dtype(c: &Call<'_>) -> Outcome<DType> {
    match c.get(usize::MAX, "dtype") {
        Some(Arg::DType(DType::F64)) if c.dtype != DType::F64 => unmapped("a result of another dtype"),
        Some(Arg::DType(dtype)) => Ok(*dtype),
        _ => Ok(c.dtype),
    }
}

/// In another dtype, where one is asked for.
fn alike(c: &Call<'_>, x: Tensor) -> Outcome {
    one(x.cast(dtype(c)?))
}
