//! Functions that PyTorch has by name and ubique makes of a few ops.

use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};

pub const ROWS: &[Row] = &[
    ("addcdiv", |c| added(c, |a, b| a.div(b))),
    ("addcmul", |c| added(c, |a, b| a.mul(b))),
    ("addmv", |c| scaled_sum(c, |a, b| a.matmul(b))),
    ("addr", |c| scaled_sum(c, Tensor::outer)),
    ("diff", diff),
    ("dist", |c| one(c.input()?.sub(c.tensor(1, "other")?)?.norm(c.float(2, "p", 2.0)?, &[]))),
    ("floor_divide", floor_divide),
    ("inner", inner),
    ("lerp", lerp),
    ("linalg.multi_dot", multi_dot),
    ("linalg.vecdot", |c| {
        let (x, y) = (c.input()?, c.tensor(1, "y")?);
        one(x.mul(y)?.sum(&[c.int(usize::MAX, "dim", -1)?]))
    }),
    ("logaddexp", logaddexp),
    ("nan_to_num", nan_to_num),
];

/// `x + value · f(a, b)`.
fn added(c: &Call<'_>, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Outcome {
    let (x, term) = (c.input()?, f(c.tensor(1, "tensor1")?, c.tensor(2, "tensor2")?)?);
    match c.scalar(usize::MAX, "value")? {
        Some(value) => one(x.add(&term.mul(value)?)),
        None => one(x.add(&term)),
    }
}

/// `beta · x + alpha · f(a, b)`, where a beta of 0 leaves x out.
fn scaled_sum(c: &Call<'_>, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Outcome {
    let x = c.input()?;
    let mut term = f(c.tensor(1, "a")?, c.tensor(2, "b")?)?;
    if let Some(alpha) = c.scalar(usize::MAX, "alpha")? {
        term = term.mul(alpha)?;
    }
    match c.scalar(usize::MAX, "beta")? {
        // Whatever it holds.
        Some(beta) if beta.as_f64() == 0.0 => {
            let everywhere = Tensor::full(x.shape(), true, DType::Bool, c.device)?;
            one(x.masked_fill(&everywhere, 0)?.add(&term))
        }
        Some(beta) => one(x.mul(beta)?.add(&term)),
        None => one(x.add(&term)),
    }
}

/// Differences of neighbours, `n` times over.
fn diff(c: &Call<'_>) -> Outcome {
    let (mut x, n, axis) = (c.input()?.clone(), c.int(1, "n", 1)?, c.int(2, "dim", -1)?);
    let [before, after] = [c.maybe_tensor(3, "prepend")?, c.maybe_tensor(4, "append")?];
    if n > 0 && (before.is_some() || after.is_some()) {
        x = Tensor::concat(&before.into_iter().chain([&x]).chain(after).collect::<Vec<_>>(), axis)?;
    }
    for _ in 0..n {
        let count = x.shape()[x.shape().axis(axis)?].saturating_sub(1);
        let (left, right) = (x.narrow(axis, 0, count)?, x.slice(axis, Some(1), None, 1)?);
        x = if x.dtype() == DType::Bool { right.bit_xor(&left)? } else { right.sub(&left)? };
    }
    Ok(vec![x])
}

/// What is left of the remainder, which has the sign of the divisor, divides; of floats up to rounding.
fn floor_divide(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let rest = x.rem(c.right(1, "other", x)?)?;
    let quotient = x.sub(&rest)?.div(c.right(1, "other", x)?)?;
    one(if c.dtype.is_float() { quotient.round() } else { Ok(quotient) })
}

fn inner(c: &Call<'_>) -> Outcome {
    let (x, y) = (c.input()?, c.tensor(1, "other")?);
    one(if x.rank() == 0 || y.rank() == 0 { x.mul(y) } else { x.tensordot(y, &[-1], &[-1]) })
}

fn lerp(c: &Call<'_>) -> Outcome {
    let (x, end) = (c.input()?, c.tensor(1, "end")?);
    let step = end.sub(x)?;
    one(x.add(&step.mul(c.right(2, "weight", x)?)?))
}

fn multi_dot(c: &Call<'_>) -> Outcome {
    let factors = c.tensors(0, "tensors")?;
    let Some((first, others)) = factors.split_first() else { return unmapped("no factors") };
    one(others.iter().try_fold((*first).clone(), |product, factor| product.matmul(factor)))
}

fn logaddexp(c: &Call<'_>) -> Outcome {
    let (x, y) = (c.input()?, c.tensor(1, "other")?);
    let shape = x.shape().broadcast(y.shape())?;
    one(Tensor::stack(&[&x.expand(&shape)?, &y.expand(&shape)?], 0)?.logsumexp(&[0]))
}

/// Infinities become the largest numbers of the dtype, as it is said in PyTorch's tests: of f64 also for f32.
fn nan_to_num(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    if !c.dtype.is_float() {
        return Ok(vec![x.clone()]);
    }
    let (nan, up, down) = (c.float(1, "nan", 0.0)?, c.maybe_float(2, "posinf")?, c.maybe_float(3, "neginf")?);
    let largest = if c.dtype == DType::F32 { f32::MAX.into() } else { f64::MAX };
    let finite = x.masked_fill(&x.is_nan()?, nan)?.masked_fill(&x.eq(f64::INFINITY)?, up.unwrap_or(largest))?;
    one(finite.masked_fill(&x.eq(f64::NEG_INFINITY)?, down.unwrap_or(-largest)))
}
