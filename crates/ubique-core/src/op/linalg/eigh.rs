//! Eigenvalues and eigenvectors of symmetric matrices.

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, finite_matrices, join};
use super::{DTYPES, sign, spec, square, symmetric, symmetric_part};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// Eigenvalues of `(A + Aᵀ)/2` in ascending order, and the eigenvectors as columns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Eigh;

/// Sweeps after which Jacobi's iteration has long converged: it does so quadratically.
const SWEEPS: usize = 64;

/// Jacobi's cyclic rotations: eigenvalues in ascending order, and eigenvectors with their signs fixed.
fn eigen(a: &Matrix) -> (Vec<f64>, Matrix) {
    let (n, mut a, mut v) = (a.rows, a.symmetric_part(), Matrix::identity(a.rows));
    let nothing = 0.1 * f64::EPSILON * a.values.iter().copied().fold(0.0, f64::hypot);
    for _ in 0..SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (off, gap) = (a[(p, q)], a[(q, q)] - a[(p, p)]);
                if off.abs() <= nothing {
                    continue;
                }
                // The smaller angle that makes the element 0.
                let cot = gap / (2.0 * off);
                let tan = 1.0_f64.copysign(cot) / (cot.abs() + cot.hypot(1.0));
                let cos = 1.0 / tan.hypot(1.0);
                a.rotate_columns(p, q, cos, tan * cos);
                a.rotate_rows(p, q, cos, tan * cos);
                (a[(p, q)], a[(q, p)]) = (0.0, 0.0);
                v.rotate_columns(p, q, cos, tan * cos);
                turned = true;
            }
        }
        if !turned {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[(i, i)].total_cmp(&a[(j, j)]));
    let signs: Vec<f64> = order.iter().map(|&i| sign(v.column(i))).collect();
    let vectors = v.take_columns(&order);
    let values = order.iter().map(|&i| a[(i, i)]).collect();
    (values, Matrix::from_fn(n, n, |row, column| signs[column] * vectors[(row, column)]))
}

/// `1 / (x[j] - x[i])` for the elements of the last axis, and 0 where i = j.
pub(super) fn inverse_gaps(x: &Tensor) -> Result<Tensor> {
    let gaps = (x.unsqueeze(-2)? - x.unsqueeze(-1)?).tensor()?;
    let n = x.shape()[x.rank() - 1];
    let one = Tensor::eye(n, n, x.dtype(), &x.device().inner())?;
    ((&gaps + &one).then(Tensor::recip) - one).tensor()
}

impl Rule for Eigh {
    fn name(&self) -> &'static str {
        "eigh"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        let (lead, n) = square(a)?;
        Ok(Specs::Many(vec![spec(lead, &[n], a.dtype), a.clone()]))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    /// `V (diag(λ̄) + F∘(Vᵀ V̄)) Vᵀ`, symmetric part, for `F[i, j] = 1 / (λ[j] - λ[i])` (Giles: "Collected matrix derivative
    /// results for forward and reverse mode algorithmic differentiation", 2008).
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (values, vectors) = (call.output(0)?, call.output(1)?);
        let mut middle = call.grad_or_zeros(0)?.diag_embed(0)?;
        if let Ok(g) = call.grad(1) {
            middle = (middle + inverse_gaps(values)? * vectors.t()?.matmul(g)?).tensor()?;
        }
        let whole = vectors.matmul(&middle)?.matmul(&vectors.t()?)?;
        Ok(Cotangents::one(symmetric_part(&whole)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let all = finite_matrices(&inputs[0])?;
        let (values, vectors): (Vec<_>, Vec<_>) = all.iter().map(eigen).unzip();
        Ok(vec![join(&outputs[0], values), join(&outputs[1], vectors.into_iter().map(|v| v.values))])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            let case = |shape: &[usize], fill| Case::new(Eigh).input_with(shape, dtype, fill);
            for n in [1, 2, 3, 5, 11] {
                cases.push(case(&[1, n, n], symmetric(n, 1, false)));
            }
            cases.push(case(&[2, 3, 4, 4], symmetric(4, 6, false)));
            cases.push(case(&[1500, 3, 3], symmetric(3, 7, true)));
            cases.push(case(&[1, 40, 40], separated(40)).not_smooth());
            // Far from diagonal, and not symmetric.
            cases.push(case(&[1, 3, 3], Fill::Values(vec![1.0, 3.0, -2.0, 2.0, 0.5, 1.5, 1.0, -1.0, -4.0])));
            cases.push(case(&[1, 2, 2], Fill::Values(vec![0.0, 1.0, 1.0, 0.0])).not_smooth());
            cases.push(case(&[0, 3, 3], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 0, 0], Fill::Values(vec![1.0])));
            cases.push(case(&[1, 2, 2], Fill::Values(vec![1.0, f64::NAN, 2.0, 4.0])).not_smooth());
        }
        cases
    }
}

/// A large symmetric matrix with eigenvalues about 1 apart.
fn separated(n: usize) -> Fill {
    let element = |i: usize, j: usize| if i == j { i as f64 } else { 0.3 / (1.0 + (i as f64 - j as f64).abs()) };
    Fill::Values((0..n * n).map(|at| element(at / n, at % n)).collect())
}

impl Tensor {
    /// The eigenvalues `[.., n]` of a symmetric matrix `[.., n, n]` in f32 or f64, in ascending order, and its eigenvectors
    /// `[.., n, n]`: column i, of length 1, belongs to eigenvalue i, and the first of its largest elements is positive (within
    /// 1 % of the largest counts as largest). The matrix taken is the symmetric part `(A + Aᵀ)/2`, so its gradient is symmetric.
    ///
    /// The vectors of equal eigenvalues are not unique. They come out as some orthonormal basis, and a gradient through them is
    /// not finite; one through the eigenvalues alone is.
    ///
    /// # Errors
    /// Where the matrix is not square, the dtype is another, or (see [`crate::op::linalg`]) an element is not finite.
    pub fn eigh(&self) -> Result<(Tensor, Tensor)> {
        let parts = <[Tensor; 2]>::try_from(run::call_many(Op::Eigh(Eigh), &[self])?);
        let [values, vectors] = parts.map_err(|_| Error::backend("eigh has two outputs"))?;
        Ok((values, vectors))
    }
}
