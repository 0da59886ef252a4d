//! Reductions, scans, softmax and matrix products.

use ubique_core::{DType, Result, Tensor};

use super::{Row, countable, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("all", |c| reduce(&truths(c)?, c, Tensor::all, Tensor::all_keepdim)),
    ("amax", |c| reduce(c.input()?, c, Tensor::max, Tensor::max_keepdim)),
    ("amin", |c| reduce(c.input()?, c, Tensor::min, Tensor::min_keepdim)),
    ("any", |c| reduce(&truths(c)?, c, Tensor::any, Tensor::any_keepdim)),
    ("argmax", |c| arg_reduce(c, Tensor::argmax)),
    ("argmin", |c| arg_reduce(c, Tensor::argmin)),
    ("count_nonzero", |c| reduce(&truths(c)?.cast(DType::I64)?, c, Tensor::sum, Tensor::sum_keepdim)),
    ("cumprod", |c| scan(c, Tensor::cumprod)),
    ("cumsum", |c| scan(c, Tensor::cumsum)),
    ("cummax", |c| running_extremum(c, Tensor::cummax_with_indices)),
    ("cummin", |c| running_extremum(c, Tensor::cummin_with_indices)),
    ("linalg.vector_norm", |c| norm(c, "ord", 2)),
    ("log_softmax", |c| softmax(c, Tensor::log_softmax)),
    ("logsumexp", |c| reduce(c.input()?, c, Tensor::logsumexp, Tensor::logsumexp_keepdim)),
    ("max/reduction_no_dim", |c| one(c.input()?.max_all())),
    ("max/reduction_with_dim", |c| extremum(c, Tensor::max, Tensor::max_keepdim, Tensor::argmax)),
    ("mean", |c| reduce(c.input()?, c, Tensor::mean, Tensor::mean_keepdim)),
    ("min/reduction_no_dim", |c| one(c.input()?.min_all())),
    ("min/reduction_with_dim", |c| extremum(c, Tensor::min, Tensor::min_keepdim, Tensor::argmin)),
    ("nn.functional.softmin", |c| softmax(c, |x, axis| x.neg()?.softmax(axis))),
    ("norm", |c| norm(c, "p", 2)),
    ("norm/fro", |c| norm(c, "p", 2)),
    ("norm/inf", |c| norm(c, "p", 2)),
    ("prod", |c| reduce(&countable(c.input()?)?, c, Tensor::prod, Tensor::prod_keepdim)),
    ("softmax", |c| softmax(c, Tensor::softmax)),
    ("std", |c| variance(c, Tensor::std, Tensor::std_keepdim)),
    ("std/unbiased", |c| variance(c, Tensor::std, Tensor::std_keepdim)),
    ("std_mean", |c| with_mean(c, Tensor::std, Tensor::std_keepdim)),
    ("sum", |c| reduce(&countable(c.input()?)?, c, Tensor::sum, Tensor::sum_keepdim)),
    ("var", |c| variance(c, Tensor::var, Tensor::var_keepdim)),
    ("var/unbiased", |c| variance(c, Tensor::var, Tensor::var_keepdim)),
    ("var_mean", |c| with_mean(c, Tensor::var, Tensor::var_keepdim)),
    ("addmm", added_product),
    ("baddbmm", added_product),
    ("bmm", product),
    ("dot", |c| one(c.input()?.dot(c.tensor(1, "other")?))),
    ("matmul", product),
    ("mm", product),
    ("mv", product),
    ("nn.functional.linear", |c| one(c.input()?.linear(c.tensor(1, "weight")?, c.maybe_tensor(2, "bias")?))),
    ("outer", |c| one(c.input()?.outer(c.tensor(1, "vec2")?))),
];

type Over = fn(&Tensor, &[isize]) -> Result<Tensor>;

fn truths(c: &Call<'_>) -> Outcome<Tensor> {
    let x = c.input()?;
    Ok(if x.dtype() == DType::Bool { x.clone() } else { x.ne(0)? })
}

fn reduce(x: &Tensor, c: &Call<'_>, f: Over, keep: Over) -> Outcome {
    c.same_dtype("dtype")?;
    let axes = c.ints(1, "dim")?;
    one(if c.flag(2, "keepdim", false)? { keep(x, &axes) } else { f(x, &axes) })
}

fn arg_reduce(c: &Call<'_>, f: fn(&Tensor, isize, bool) -> Result<Tensor>) -> Outcome {
    let x = c.input()?;
    let keep = c.flag(2, "keepdim", false)?;
    match c.get(1, "dim") {
        None if keep => unmapped("all axes kept"),
        None => one(f(&x.reshape([x.elements()])?, 0, false)),
        Some(_) => one(f(x, c.int(1, "dim", 0)?, keep)),
    }
}

fn extremum(c: &Call<'_>, f: Over, keep: Over, place: fn(&Tensor, isize, bool) -> Result<Tensor>) -> Outcome {
    let x = c.input()?;
    let (axis, kept) = (c.int(1, "dim", 0)?, c.flag(2, "keepdim", false)?);
    let values = if kept { keep(x, &[axis]) } else { f(x, &[axis]) };
    Ok(vec![values?, place(x, axis, kept)?])
}

fn scan(c: &Call<'_>, f: fn(&Tensor, isize) -> Result<Tensor>) -> Outcome {
    c.same_dtype("dtype")?;
    let x = c.input()?;
    one(f(x, c.int(1, "dim", 0)?))
}

fn running_extremum(c: &Call<'_>, f: fn(&Tensor, isize) -> Result<(Tensor, Tensor)>) -> Outcome {
    let (values, places) = f(c.input()?, c.int(1, "dim", 0)?)?;
    Ok(vec![values, places])
}

fn softmax(c: &Call<'_>, f: fn(&Tensor, isize) -> Result<Tensor>) -> Outcome {
    let x = c.input()?;
    one(f(x, c.int(1, "dim", 0)?))
}

fn norm(c: &Call<'_>, name: &str, default: isize) -> Outcome {
    c.same_dtype("dtype")?;
    let x = c.input()?;
    let p = match c.get(1, name) {
        Some(Arg::Text(text)) if text == "fro" => 2.0,
        _ => c.float(1, name, default as f64)?,
    };
    let axes = c.ints(2, "dim")?;
    one(if c.flag(3, "keepdim", false)? { x.norm_keepdim(p, &axes) } else { x.norm(p, &axes) })
}

type Spread = fn(&Tensor, &[isize], f64) -> Result<Tensor>;

/// `(x, unbiased)` or `(x, dim, unbiased, keepdim)`, or with `correction` in the place of `unbiased`.
fn variance(c: &Call<'_>, f: Spread, keep: Spread) -> Outcome {
    let x = c.input()?;
    let unbiased = |flag: bool| if flag { 1.0 } else { 0.0 };
    if let Some(Arg::Bool(flag)) = c.get(1, "dim") {
        return one(f(x, &[], unbiased(*flag)));
    }
    let axes = c.ints(1, "dim")?;
    let ddof = match c.maybe_float(usize::MAX, "correction")? {
        Some(correction) => correction,
        None => unbiased(c.flag(2, "unbiased", true)?),
    };
    one(if c.flag(3, "keepdim", false)? { keep(x, &axes, ddof) } else { f(x, &axes, ddof) })
}

fn with_mean(c: &Call<'_>, f: Spread, keep: Spread) -> Outcome {
    let mut results = variance(c, f, keep)?;
    let (x, axes) =
        (c.input()?, if matches!(c.get(1, "dim"), Some(Arg::Bool(_))) { vec![] } else { c.ints(1, "dim")? });
    results.push(if c.flag(3, "keepdim", false)? { x.mean_keepdim(&axes)? } else { x.mean(&axes)? });
    Ok(results)
}

fn product(c: &Call<'_>) -> Outcome {
    one(c.input()?.matmul(c.tensor(1, "other")?))
}

/// `beta · x + alpha · (a @ b)`.
fn added_product(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let mut product = c.tensor(1, "mat1")?.matmul(c.tensor(2, "mat2")?)?;
    if let Some(alpha) = c.scalar(usize::MAX, "alpha")? {
        product = product.mul(alpha)?;
    }
    match c.scalar(usize::MAX, "beta")? {
        Some(beta) => one(x.mul(beta)?.add(&product)),
        None => one(x.add(&product)),
    }
}
