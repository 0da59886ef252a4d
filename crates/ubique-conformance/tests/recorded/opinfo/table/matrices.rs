//! Linear algebra, with results that are unique: as `INSTEAD` in `tools/make-opinfo-cases.py` records them.

use ubique_core::Tensor;
use ubique_core::op::linalg::norm::MatrixNorm;

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("cholesky", |c| one(c.input()?.cholesky(c.flag(1, "upper", false)?))),
    ("linalg.cholesky", |c| one(c.input()?.cholesky(c.flag(1, "upper", false)?))),
    ("linalg.det", |c| one(c.input()?.det())),
    ("linalg.slogdet", |c| Ok(c.input()?.slogdet().map(|(sign, log)| vec![sign, log])?)),
    ("logdet", logdet),
    ("linalg.eigh", |c| Ok(eigh(c)?.into())),
    ("linalg.eigvalsh", |c| Ok(eigh(c)?[..1].to_vec())),
    ("linalg.inv", |c| one(c.input()?.inverse())),
    ("linalg.lstsq/grad_oriented", least_squares),
    ("linalg.lu", lu),
    ("linalg.matrix_norm", |c| {
        let order = c.get(1, "ord").cloned().unwrap_or(Arg::Text("fro".into()));
        matrix_norm(c, &order, c.ints(2, "dim")?, c.flag(3, "keepdim", false)?)
    }),
    ("linalg.norm", norm),
    ("norm/nuc", |c| {
        c.text(1, "p")?;
        matrix_norm(c, &Arg::Text("nuc".into()), c.ints(2, "dim")?, c.flag(3, "keepdim", false)?)
    }),
    ("pinverse", |c| one(c.input()?.pinv(Some(c.float(1, "rcond", 1e-15)?)))),
    ("linalg.pinv", |c| one(c.input()?.pinv(c.maybe_float(usize::MAX, "rtol")?))),
    ("linalg.qr", qr),
    ("linalg.solve", solve),
    ("linalg.solve_triangular", solve_triangular),
    ("linalg.svd", svd),
    ("linalg.svdvals", |c| Ok(vec![c.input()?.svd()?.1])),
];

/// NaN where the determinant is negative.
fn logdet(c: &Call<'_>) -> Outcome {
    let (sign, log) = c.input()?.slogdet()?;
    one(log.masked_fill(&sign.lt(0)?, f64::NAN))
}

/// Either triangle is that of the symmetric part, which is recorded.
fn eigh(c: &Call<'_>) -> Outcome<[Tensor; 2]> {
    c.text(1, "UPLO")?;
    let (values, vectors) = c.input()?.eigh()?;
    Ok([values, vectors])
}

fn least_squares(c: &Call<'_>) -> Outcome {
    c.text(usize::MAX, "driver")?;
    one(c.input()?.lstsq(c.tensor(1, "B")?))
}

/// PyTorch gives the permutation as a matrix P, for which `A = P·L·U`: column i has its 1 at row `rows[i]`.
fn lu(c: &Call<'_>) -> Outcome {
    if !c.flag(usize::MAX, "pivot", true)? {
        return unmapped("no exchange of rows");
    }
    let x = c.input()?;
    let (rows, lower, upper) = x.lu()?;
    let count = x.shape()[x.rank() - 2];
    Ok(vec![rows.one_hot(count, x.dtype())?.t()?, lower, upper])
}

/// A norm over two axes.
fn matrix_norm(c: &Call<'_>, order: &Arg<Tensor>, axes: Vec<isize>, keep: bool) -> Outcome {
    let x = c.input()?;
    c.same_dtype("dtype")?;
    let (first, second) = match axes.as_slice() {
        [] => (-2, -1),
        [first, second] => (*first, *second),
        _ => return unmapped("a norm over other than two axes"),
    };
    let norm = match order {
        Arg::Text(name) if name == "fro" => MatrixNorm::Frobenius,
        Arg::Text(name) if name == "nuc" => MatrixNorm::Nuclear,
        Arg::Int(1) => MatrixNorm::One,
        Arg::Int(2) => MatrixNorm::Spectral,
        Arg::Float(order) if *order == f64::INFINITY => MatrixNorm::Infinity,
        _ => return unmapped("a norm that is a smallest sum or value"),
    };
    let (first, second) = (x.shape().axis(first)?, x.shape().axis(second)?);
    let others = (0..x.rank()).filter(|axis| ![first, second].contains(axis));
    let order: Vec<isize> = others.chain([first, second]).map(|axis| axis as isize).collect();
    let result = x.permute(&order)?.matrix_norm(norm)?;
    one(if keep { result.reshape(x.shape().with(first, 1).with(second, 1)) } else { Ok(result) })
}

/// Of a matrix where there is an order and there are two axes; of all elements without either; else of vectors.
fn norm(c: &Call<'_>) -> Outcome {
    let (x, order, axes) = (c.input()?, c.get(1, "ord").cloned(), c.ints(2, "dim")?);
    c.same_dtype("dtype")?;
    let keep = c.flag(3, "keepdim", false)?;
    let matrix = axes.len() == 2 || axes.is_empty() && x.rank() == 2;
    let order = match order {
        Some(order) if matrix => return matrix_norm(c, &order, axes, keep),
        None => 2.0,
        Some(Arg::Int(order)) => order as f64,
        Some(Arg::Float(order)) => order,
        Some(_) => return unmapped("an order that is no number"),
    };
    one(if keep { x.norm_keepdim(order, &axes) } else { x.norm(order, &axes) })
}

fn qr(c: &Call<'_>) -> Outcome {
    let complete = match c.text(1, "mode")? {
        None | Some("reduced") => false,
        Some("complete") => true,
        Some(_) => return unmapped("R alone"),
    };
    let (q, r) = c.input()?.qr(complete)?;
    Ok(vec![q, r])
}

/// PyTorch takes one right side for each of a batch of matrices as well.
fn solve(c: &Call<'_>) -> Outcome {
    let (a, b) = (c.input()?, c.tensor(1, "B")?);
    if !c.flag(usize::MAX, "left", true)? {
        return one(a.t()?.solve(&b.t()?)?.t());
    }
    let vectors = b.rank() > 1 && a.rank() == b.rank() + 1 && a.shape()[..b.rank()] == b.shape()[..];
    if vectors { one(a.solve(&b.unsqueeze(-1)?)?.squeeze(-1)) } else { one(a.solve(b)) }
}

fn solve_triangular(c: &Call<'_>) -> Outcome {
    let (mut a, b) = (c.input()?.clone(), c.tensor(1, "B")?);
    let upper = c.flag(usize::MAX, "upper", false)?;
    if c.flag(usize::MAX, "unitriangular", false)? {
        // The elements off the diagonal, with ones on it.
        let eye = Tensor::eye(a.shape()[a.rank() - 1], a.shape()[a.rank() - 1], a.dtype(), c.device)?;
        a = if upper { a.triu(1)? } else { a.tril(-1)? }.add(&eye)?;
    }
    match c.flag(usize::MAX, "left", true)? {
        true => one(a.solve_triangular(b, upper)),
        false => one(a.t()?.solve_triangular(&b.t()?, !upper)?.t()),
    }
}

/// Of a square matrix the reduced and the full vectors are the same.
fn svd(c: &Call<'_>) -> Outcome {
    let full = c.flag(1, "full_matrices", true)?;
    let (u, s, vt): (Tensor, Tensor, Tensor) = match full {
        true => c.input()?.svd_full()?,
        false => c.input()?.svd()?,
    };
    Ok(vec![u, s, vt])
}
