//! The QR factorisation.

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, finite_matrices, join};
use super::{DTYPES, dominant, extents, spec};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The factors of `A = Q·R`: Q with orthonormal columns, R upper triangular with no negative element on its diagonal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Qr {
    /// Whether Q is square, so that its further columns span what A's columns do not.
    pub complete: bool,
}

/// Householder's reflections, one for each column: the square Q, and R with as many rows as A.
fn factors(a: &Matrix) -> (Matrix, Matrix) {
    let (mut q, mut r) = (Matrix::identity(a.rows), a.clone());
    for k in 0..a.rows.min(a.columns) {
        let mut v: Vec<f64> = r.column(k).skip(k).collect();
        if v[1..].iter().all(|&x| x == 0.0) {
            continue;
        }
        let largest = v.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        v.iter_mut().for_each(|x| *x /= largest);
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v[0] += if v[0] < 0.0 { -length } else { length };
        let square: f64 = v.iter().map(|x| x * x).sum();
        for column in 0..r.columns {
            let along: f64 = (k..r.rows).map(|row| v[row - k] * r[(row, column)]).sum();
            (k..r.rows).for_each(|row| r[(row, column)] -= 2.0 * along / square * v[row - k]);
        }
        for row in 0..q.rows {
            let along: f64 = (k..q.rows).map(|column| v[column - k] * q[(row, column)]).sum();
            (k..q.rows).for_each(|column| q[(row, column)] -= 2.0 * along / square * v[column - k]);
        }
    }
    for k in 0..a.rows.min(a.columns) {
        if r[(k, k)] < 0.0 {
            (0..r.columns).for_each(|column| r[(k, column)] *= -1.0);
            (0..q.rows).for_each(|row| q[(row, k)] *= -1.0);
        }
    }
    (q, r)
}

/// The gradient of a matrix with no more columns than rows: `(Q̄ + Q copyltu(R R̄ᵀ - Q̄ᵀ Q)) R⁻ᵀ`, where `copyltu` copies the
/// lower triangle to the upper one (Liao, Liu, Wang and Xiang: "Differentiable programming tensor networks", 2019).
fn tall_gradient(q: &Tensor, r: &Tensor, gq: &Tensor, gr: &Tensor) -> Result<Tensor> {
    let middle = (r.matmul(&gr.t()?)? - gq.t()?.matmul(q)?).tensor()?;
    let copied = (middle.tril(0)? + middle.tril(-1)?.t()?).tensor()?;
    let left = (gq + q.matmul(&copied)?).tensor()?;
    r.solve_triangular(&left.t()?, true)?.t()
}

impl Rule for Qr {
    fn name(&self) -> &'static str {
        "qr"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        let (lead, m, n) = extents(a)?;
        let k = if self.complete { m } else { m.min(n) };
        Ok(Specs::Many(vec![spec(lead, &[m, k], a.dtype), spec(lead, &[k, n], a.dtype)]))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::BOTH)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (q, r) = (call.output(0)?, call.output(1)?);
        let (gq, gr) = (call.grad_or_zeros(0)?, call.grad_or_zeros(1)?);
        let (_, m, n) = extents(call.spec(0)?)?;
        if self.complete && m > n {
            let why = "the further columns of a complete Q have no gradient; take the reduced factors";
            return Err(Error::gradient(why));
        }
        let dependent = |e: Error| e.context("the gradient of qr needs linearly independent columns");
        if m >= n {
            return Ok(Cotangents::one(tall_gradient(q, r, &gq, &gr).map_err(dependent)?));
        }
        // A = [X, Y] and R = [U, V]: X = Q·U is square, and V = Qᵀ·Y.
        let beside = |x: &Tensor| x.narrow(-1, m as isize, n - m);
        let (y, gv) = (beside(call.input(0)?)?, beside(&gr)?);
        let gq = (gq + y.matmul(&gv.t()?)?).tensor()?;
        let square = tall_gradient(q, &r.narrow(-1, 0, m)?, &gq, &gr.narrow(-1, 0, m)?).map_err(dependent)?;
        Ok(Cotangents::one(Tensor::concat(&[&square, &q.matmul(&gv)?], -1)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let all: Vec<_> = finite_matrices(&inputs[0])?.iter().map(factors).collect();
        let q = all.iter().map(|(q, r)| {
            let k = if self.complete { r.rows } else { r.rows.min(r.columns) };
            Matrix::from_fn(r.rows, k, |row, column| q[(row, column)]).values
        });
        let r = all.iter().map(|(_, r)| {
            let k = if self.complete { r.rows } else { r.rows.min(r.columns) };
            Matrix::from_fn(k, r.columns, |row, column| if row <= column { r[(row, column)] } else { 0.0 }).values
        });
        Ok(vec![join(&outputs[0], q), join(&outputs[1], r)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            for complete in [false, true] {
                let case = |shape: &[usize], fill| Case::new(Qr { complete }).input_with(shape, dtype, fill);
                for (m, n) in [(1, 1), (2, 2), (3, 3), (5, 5), (2, 4), (17, 17), (1, 3)] {
                    cases.push(case(&[1, m, n], dominant(m, n, 1, true)));
                }
                let tall = |m: usize, n: usize, count: usize| case(&[count, m, n], dominant(m, n, count.min(7), true));
                for (m, n) in [(4, 2), (3, 1), (9, 3)] {
                    let case = tall(m, n, 1);
                    cases.push(if complete { case.not_smooth() } else { case });
                }
                cases.push(tall(70, 60, 1).not_smooth());
                cases.push(tall(4, 3, 1500).not_smooth());
                cases.push(case(&[2, 3, 3, 4], dominant(3, 4, 6, true)));
                cases.push(case(&[0, 3, 3], Fill::Values(vec![1.0])));
                cases.push(case(&[2, 0, 3], Fill::Values(vec![1.0])));
                cases.push(case(&[2, 3, 0], Fill::Values(vec![1.0])).not_smooth());
                cases.push(case(&[1, 2, 2], Fill::Values(vec![1.0, f64::NAN, 2.0, 4.0])).not_smooth());
            }
        }
        cases
    }
}

impl Tensor {
    /// The QR factorisation of a matrix `[.., m, n]` in f32 or f64: Q `[.., m, k]` with orthonormal columns and R
    /// `[.., k, n]`, upper triangular with no negative element on its diagonal, for k the smaller of m and n. With `complete`, k
    /// is m, and the further columns of Q are those that Householder's reflections give.
    ///
    /// The gradient needs linearly independent columns (the first m, where there are more), and that of a complete Q with more
    /// rows than columns does not exist: both are errors.
    ///
    /// # Errors
    /// Where there are fewer than two axes, the dtype is another, or (see [`crate::op::linalg`]) an element is not finite.
    pub fn qr(&self, complete: bool) -> Result<(Tensor, Tensor)> {
        let parts = <[Tensor; 2]>::try_from(run::call_many(Op::Qr(Qr { complete }), &[self])?);
        let [q, r] = parts.map_err(|_| Error::backend("qr has two outputs"))?;
        Ok((q, r))
    }
}
