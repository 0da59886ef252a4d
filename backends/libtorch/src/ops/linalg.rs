//! Linear algebra. What is not unique in the textbook is made unique as everywhere in ubique, and matrices that have no
//! answer are errors.

use tch::{Kind, Tensor};
use ubique_core::Error;
use ubique_core::op::linalg::qr::Qr;
use ubique_core::op::linalg::triangular::SolveTriangular;
use ubique_core::op::linalg::{not_finite, not_positive_definite, singular};

use crate::error::Made;

/// Refuses the first matrix of a batch for which a number is not 0: `error` gets its place, the number of matrices and the
/// number.
fn refuse(numbers: &Tensor, error: impl FnOnce(usize, usize, usize) -> Error) -> Made<()> {
    let line = numbers.f_reshape([-1])?;
    if line.numel() == 0 {
        return Ok(());
    }
    let place = line.f_ne(0)?.f_to_kind(Kind::Uint8)?.f_argmax(0, false)?.f_int64_value(&[])?;
    match line.f_int64_value(&[place])? {
        0 => Ok(()),
        number => Err(error(place as usize, line.numel(), number as usize).into()),
    }
}

/// Refuses matrices with elements that are not finite.
fn require_finite(a: &Tensor) -> Made<()> {
    let wrong = a.f_isfinite()?.f_logical_not()?.f_any_dims(&[-2i64, -1][..], false)?;
    refuse(&wrong.f_to_kind(Kind::Int64)?, |at, of, _| not_finite(at, of))
}

/// Refuses matrices for which elimination found no pivot in a column, which `info` numbers from 1.
fn require_invertible(info: &Tensor) -> Made<()> {
    refuse(info, |at, of, column| singular(at, of, column - 1))
}

fn symmetric_part(a: &Tensor) -> Made {
    Ok(a.f_add(&a.f_transpose(-2, -1)?)?.f_mul_scalar(0.5)?)
}

pub fn cholesky(a: &Tensor) -> Made {
    require_finite(a)?;
    let (factor, info) = symmetric_part(a)?.f_linalg_cholesky_ex(false, false)?;
    refuse(&info, |at, of, order| not_positive_definite(at, of, order - 1))?;
    Ok(factor)
}

pub fn solve_triangular(op: &SolveTriangular, a: &Tensor, b: &Tensor) -> Made {
    let triangle = if op.upper { a.f_triu(0)? } else { a.f_tril(0)? };
    require_finite(&triangle)?;
    let zeros = triangle.f_diagonal(0, -2, -1)?.f_eq(0)?;
    if zeros.numel() > 0 {
        let wrong = zeros.f_any_dim(-1, false)?.f_to_kind(Kind::Int64)?;
        let first = zeros.f_to_kind(Kind::Uint8)?.f_argmax(-1, false)?;
        // Numbered from 1, so that 0 means that all is well.
        require_invertible(&first.f_add_scalar(1)?.f_mul(&wrong)?)?;
    }
    Ok(triangle.f_linalg_solve_triangular(b, op.upper, true, false)?)
}

/// Where the rows came from, L and U.
pub fn lu(a: &Tensor) -> Made<Vec<Tensor>> {
    require_finite(a)?;
    let (exchanged, lower, upper) = Tensor::f_linalg_lu(a, true)?;
    let rows = match exchanged.numel() {
        0 => Tensor::f_zeros(&exchanged.size()[..exchanged.dim() - 1], (Kind::Int64, a.device()))?,
        _ => exchanged.f_argmax(-2, false)?,
    };
    Ok(vec![rows, lower, upper])
}

pub fn solve(a: &Tensor, b: &Tensor) -> Made {
    require_finite(a)?;
    let (x, info) = Tensor::f_linalg_solve_ex(a, b, true, false)?;
    require_invertible(&info)?;
    Ok(x)
}

pub fn inverse(a: &Tensor) -> Made {
    require_finite(a)?;
    let (inverse, info) = Tensor::f_linalg_inv_ex(a, false)?;
    require_invertible(&info)?;
    Ok(inverse)
}

pub fn det(a: &Tensor) -> Made {
    require_finite(a)?;
    Ok(Tensor::f_linalg_det(a)?)
}

pub fn slogdet(a: &Tensor) -> Made<Vec<Tensor>> {
    require_finite(a)?;
    let (sign, logarithm) = Tensor::f_linalg_slogdet(a)?;
    Ok(vec![sign, logarithm])
}

/// 1 where a number is 0 or above, and -1 below.
fn signs(x: &Tensor) -> Made {
    Ok(x.f_ones_like()?.f_where_self(&x.f_ge(0)?, &x.f_ones_like()?.f_neg()?)?)
}

/// With no negative element on R's diagonal.
pub fn qr(op: &Qr, a: &Tensor) -> Made<Vec<Tensor>> {
    require_finite(a)?;
    let (q, r) = Tensor::f_linalg_qr(a, if op.complete { "complete" } else { "reduced" })?;
    let signs = signs(&r.f_diagonal(0, -2, -1)?)?;
    let count = signs.size()[signs.dim() - 1];
    let turned = |x: &Tensor, axis: i64, signs: &Tensor| -> Made {
        let extent = x.size()[(x.dim() as i64 + axis) as usize];
        // The square Q has columns that no element of the diagonal belongs to, R rows of zeros.
        let first = x.f_narrow(axis, 0, count)?.f_mul(signs)?;
        Ok(Tensor::f_cat(&[first, x.f_narrow(axis, count, extent - count)?], axis)?)
    };
    Ok(vec![turned(&q, -1, &signs.f_unsqueeze(-2)?)?, turned(&r, -2, &signs.f_unsqueeze(-1)?)?])
}

/// The signs that make the first of each column's largest elements positive; elements within 1 % of the largest count as
/// largest. See [`ubique_core::op::linalg::sign`].
fn column_signs(columns: &Tensor) -> Made {
    let sizes = columns.f_abs()?;
    let largest = sizes.f_ge_tensor(&sizes.f_amax(&[-2i64][..], true)?.f_mul_scalar(0.99)?)?;
    let first = largest.f_to_kind(Kind::Uint8)?.f_argmax(-2, true)?;
    signs(&columns.f_gather(-2, &first, false)?)
}

/// Eigenvalues in ascending order, and eigenvectors as columns.
pub fn eigh(a: &Tensor) -> Made<Vec<Tensor>> {
    require_finite(a)?;
    let (values, vectors) = symmetric_part(a)?.f_linalg_eigh("L")?;
    if vectors.numel() == 0 {
        return Ok(vec![values, vectors]);
    }
    let signs = column_signs(&vectors)?;
    Ok(vec![values, vectors.f_mul(&signs)?])
}

/// U, the singular values in descending order, and Vᵀ.
pub fn svd(a: &Tensor) -> Made<Vec<Tensor>> {
    require_finite(a)?;
    // The function that takes the choice of a driver lets nobody leave the choice to it.
    let (u, s, v) = a.f_svd(true, true)?;
    if u.numel() == 0 || v.numel() == 0 {
        return Ok(vec![u, s, v.f_transpose(-2, -1)?]);
    }
    let signs = column_signs(&u)?;
    Ok(vec![u.f_mul(&signs)?, s, v.f_mul(&signs)?.f_transpose(-2, -1)?])
}
