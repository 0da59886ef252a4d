//! Linear algebra: factorisations of matrices, systems of equations, and what follows from them.
//!
//! All of it takes a matrix, or matrices in the last two axes with any leading axes as a batch, in f32 or f64. What is not
//! unique in the textbook is made unique here, so that every backend gives the same: the conventions stand with each method.
//!
//! **Matrices that have no answer.** Elements that are not finite, a singular matrix where an inverse is needed and one that
//! is not positive definite where that is needed are an error, which names the matrix of the batch, wherever the host sees
//! the values: on CPU devices and wherever the op falls back to the host. A kernel that runs asynchronously fills that
//! matrix's results with NaN instead. A matrix counts as singular where elimination meets a pivot of exactly 0; one that is
//! singular but for rounding gives large numbers.
//!
//! ```
//! # use ubique_core::{Result, Tensor};
//! /// The principal directions of samples `[count, features]`: where they spread most, and how far.
//! fn principal(samples: &Tensor) -> Result<(Tensor, Tensor)> {
//!     let centred = (samples - samples.mean_keepdim(&[0])?).tensor()?;
//!     let (_, spread, directions) = centred.svd()?;
//!     Ok((directions, spread))
//! }
//! ```

pub mod cholesky;
pub mod det;
pub mod eigh;
pub mod inverse;
pub mod lstsq;
pub mod lu;
mod matrix;
pub mod norm;
pub mod qr;
pub mod solve;
pub mod svd;
pub mod triangular;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Fill;
use crate::op::require_same_dtype;
use crate::random::Philox;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// The dtypes of matrices.
const DTYPES: [DType; 2] = [DType::F32, DType::F64];

/// Leading axes, rows and columns of an operand that has to be a matrix.
///
/// # Errors
/// Where the rank is below 2 or the dtype is neither f32 nor f64.
pub fn extents(x: &TensorSpec) -> Result<(&[usize], usize, usize)> {
    if !DTYPES.contains(&x.dtype) {
        return Err(Error::dtype(format!("takes f32 or f64, got {}; cast first", x.dtype)));
    }
    match &*x.shape {
        [lead @ .., rows, columns] => Ok((lead, *rows, *columns)),
        _ => Err(Error::shape(format!("needs a matrix: at least two axes, got {}", x.shape))),
    }
}

/// Leading axes and side of an operand that has to be a square matrix.
///
/// # Errors
/// As [`extents`]; also where there are other columns than rows.
pub fn square(x: &TensorSpec) -> Result<(&[usize], usize)> {
    match extents(x)? {
        (lead, rows, columns) if rows == columns => Ok((lead, rows)),
        (_, rows, columns) => Err(Error::shape(format!("needs a square matrix, got {rows} rows, {columns} columns"))),
    }
}

/// Refuses a right side that does not fit a square matrix: other leading axes, rows or dtype.
fn require_right_side(a: &TensorSpec, b: &TensorSpec) -> Result<()> {
    require_same_dtype(a, b)?;
    let ((lead, n), (other, rows, _)) = (square(a)?, extents(b)?);
    if rows != n || lead != other {
        return Err(Error::shape(format!("the right side {} does not fit the matrix {}", b.shape, a.shape)));
    }
    Ok(())
}

/// A spec with these leading and trailing axes.
fn spec(lead: &[usize], last: &[usize], dtype: DType) -> TensorSpec {
    TensorSpec { shape: lead.iter().chain(last).copied().collect(), dtype }
}

/// The matrix at a place of a batch, in words.
fn which(at: usize, of: usize) -> String {
    if of == 1 { "the matrix".to_owned() } else { format!("matrix {at} of the batch of {of}") }
}

/// The error for a matrix with elements that are not finite.
#[cold]
pub fn not_finite(at: usize, of: usize) -> Error {
    Error::value(format!("{} has elements that are not finite", which(at, of)))
}

/// The error for a matrix that has no inverse: elimination found nothing but 0 in a column.
#[cold]
pub fn singular(at: usize, of: usize, column: usize) -> Error {
    Error::value(format!("{} is singular: there is no pivot in column {column}", which(at, of)))
}

/// The error for a matrix that has no Cholesky factor.
#[cold]
pub fn not_positive_definite(at: usize, of: usize, row: usize) -> Error {
    Error::value(format!("{} is not positive definite: its leading minor of order {} is not", which(at, of), row + 1))
}

/// The error for an iteration that did not come to an end.
#[cold]
pub fn not_converged(at: usize, of: usize) -> Error {
    Error::value(format!("the iteration for {} does not converge", which(at, of)))
}

/// The sign that makes the first of a vector's largest elements positive. Elements within 1 % of the largest count as
/// largest, so that rounding does not decide.
pub fn sign(vector: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = vector.clone().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let first = vector.into_iter().find(|x| x.abs() >= 0.99 * largest);
    if first.is_some_and(|x| x < 0.0) { -1.0 } else { 1.0 }
}

/// A matrix and a right side with their leading axes broadcast; whether the right side was a vector, made a column here.
fn sides(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor, bool)> {
    let vector = b.rank() == 1;
    let b = if vector { b.unsqueeze(1)? } else { b.clone() };
    let lead = |x: &Tensor| -> Result<Shape> { Ok(Shape::from(extents(&x.spec())?.0)) };
    let whole = lead(a)?.broadcast(&lead(&b)?)?;
    let spread = |x: &Tensor| x.expand(whole.iter().chain(&x.shape()[x.rank() - 2..]).copied().collect::<Shape>());
    Ok((spread(a)?, spread(&b)?, vector))
}

/// The half of a sum of a matrix and its transpose.
fn symmetric_part(x: &Tensor) -> Result<Tensor> {
    ((x + x.t()) * 0.5).tensor()
}

/// Matrices whose elements on the diagonal are distinct and large beside the others. With `turned`, their rows are moved on
/// by one, so that elimination has to exchange them.
fn dominant(rows: usize, columns: usize, count: usize, turned: bool) -> Fill {
    let mut values = vec![0.0; count * rows * columns];
    Philox::new(0xa19e).fill_uniform_f64(0, &mut values);
    let reach = 1.2 / (rows.max(columns) as f64).sqrt();
    for (at, value) in values.iter_mut().enumerate() {
        let (matrix, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        let home = if turned { (row + 1) % rows } else { row };
        *value = (*value - 0.5) * reach;
        if home == column {
            let sign = if (matrix + column) % 3 == 1 { -1.0 } else { 1.0 };
            *value += sign * (1.5 + (column * 7 + matrix) as f64 % 11.0 + 0.05 * column as f64);
        }
    }
    Fill::Values(values)
}

/// Symmetric matrices with eigenvalues that are distinct and, where wanted, positive.
fn symmetric(n: usize, count: usize, positive: bool) -> Fill {
    let Fill::Values(mut values) = dominant(n, n, count, false) else { return Fill::Values(Vec::new()) };
    for matrix in values.chunks_mut((n * n).max(1)) {
        for row in 0..n {
            for column in 0..row {
                matrix[column * n + row] = matrix[row * n + column];
            }
            if positive {
                matrix[row * n + row] = matrix[row * n + row].abs();
            }
        }
    }
    Fill::Values(values)
}
