//! The singular value decomposition.

use serde::{Deserialize, Serialize};

use super::eigh::inverse_gaps;
use super::matrix::{Matrix, finite_matrices, join};
use super::{DTYPES, dominant, extents, sign, spec};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The factors of `A = U·diag(S)·Vᵀ`, with as many singular values, in descending order, as the smaller of rows and columns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Svd;

/// Sweeps after which Jacobi's iteration has long converged: it does so quadratically.
const SWEEPS: usize = 64;

/// The factors U, S and V.
struct Factors(Matrix, Vec<f64>, Matrix);

impl Factors {
    /// Turns pairs of columns until all are orthogonal (Hestenes, 1958): they are U·diag(S) then.
    fn new(a: &Matrix) -> Factors {
        if a.rows < a.columns {
            let Factors(v, s, u) = Factors::new(&a.transposed());
            return Factors(u, s, v).with_signs();
        }
        let (mut u, mut v) = (a.clone(), Matrix::identity(a.columns));
        for _ in 0..SWEEPS {
            let mut turned = false;
            for p in 0..a.columns {
                for q in p + 1..a.columns {
                    turned |= orthogonalise(&mut u, &mut v, p, q);
                }
            }
            if !turned {
                break;
            }
        }
        let lengths: Vec<f64> = (0..a.columns).map(|c| u.column(c).fold(0.0, f64::hypot)).collect();
        let mut order: Vec<usize> = (0..a.columns).collect();
        order.sort_by(|&i, &j| lengths[j].total_cmp(&lengths[i]));
        let s: Vec<f64> = order.iter().map(|&i| lengths[i]).collect();
        let mut factors = Factors(u.take_columns(&order), s, v.take_columns(&order));
        factors.normalise();
        factors.with_signs()
    }

    /// Columns of length 1; those of singular values that are 0 but for rounding are made orthogonal to the others.
    fn normalise(&mut self) {
        let Factors(u, s, _) = self;
        let nothing = s.first().map_or(0.0, |largest| largest * f64::EPSILON * u.rows as f64);
        for k in 0..u.columns {
            if s[k] > nothing {
                (0..u.rows).for_each(|row| u[(row, k)] /= s[k]);
                continue;
            }
            let rest = (0..u.rows).map(|unit| {
                let mut x: Vec<f64> = (0..u.rows).map(|row| (row == unit) as u8 as f64).collect();
                for _ in 0..2 {
                    for before in 0..k {
                        let along: f64 = u.column(before).zip(&x).map(|(a, b)| a * b).sum();
                        x.iter_mut().enumerate().for_each(|(row, x)| *x -= along * u[(row, before)]);
                    }
                }
                (x.iter().copied().fold(0.0, f64::hypot), x)
            });
            let longest = rest.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
            longest.1.iter().enumerate().for_each(|(row, x)| u[(row, k)] = x / longest.0);
        }
    }

    fn with_signs(mut self) -> Factors {
        let Factors(u, _, v) = &mut self;
        for k in 0..u.columns {
            let sign = sign(u.column(k));
            (0..u.rows).for_each(|row| u[(row, k)] *= sign);
            (0..v.rows).for_each(|row| v[(row, k)] *= sign);
        }
        self
    }
}

/// Turns two columns so that they are orthogonal; `false` where they are.
fn orthogonalise(u: &mut Matrix, v: &mut Matrix, p: usize, q: usize) -> bool {
    let product = |i: usize, j: usize| u.column(i).zip(u.column(j)).map(|(a, b)| a * b).sum::<f64>();
    let (pp, qq, pq) = (product(p, p), product(q, q), product(p, q));
    if pq.abs() <= f64::EPSILON * (pp * qq).sqrt() {
        return false;
    }
    let cot = (qq - pp) / (2.0 * pq);
    let tan = 1.0_f64.copysign(cot) / (cot.abs() + cot.hypot(1.0));
    let cos = 1.0 / tan.hypot(1.0);
    u.rotate_columns(p, q, cos, tan * cos);
    v.rotate_columns(p, q, cos, tan * cos);
    true
}

/// What a vector's gradient has outside the space that orthonormal columns span: `(1 - U Uᵀ) Ū`.
fn outside(u: &Tensor, g: &Tensor) -> Result<Tensor> {
    (g - u.matmul(&u.t()?.matmul(g)?)?).tensor()
}

/// `F∘(Xᵀ X̄ - X̄ᵀ X)`.
fn turning(f: &Tensor, x: &Tensor, g: &Tensor) -> Result<Tensor> {
    let product = x.t()?.matmul(g)?;
    (f * (&product - product.t())).tensor()
}

impl Rule for Svd {
    fn name(&self) -> &'static str {
        "svd"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        let (lead, m, n) = extents(a)?;
        let k = m.min(n);
        Ok(Specs::Many(vec![spec(lead, &[m, k], a.dtype), spec(lead, &[k], a.dtype), spec(lead, &[k, n], a.dtype)]))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    /// `U (diag(S̄) + F∘(Uᵀ Ū - Ūᵀ U) S + S F∘(Vᵀ V̄ - V̄ᵀ V)) Vᵀ + (1 - U Uᵀ) Ū S⁻¹ Vᵀ + U S⁻¹ V̄ᵀ (1 - V Vᵀ)` for
    /// `F[i, j] = 1 / (s[j]² - s[i]²)` (Townsend: "Differentiating the singular value decomposition", 2016).
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (u, s, vt) = (call.output(0)?, call.output(1)?, call.output(2)?);
        let (_, m, n) = extents(call.spec(0)?)?;
        let mut middle = call.grad_or_zeros(1)?.diag_embed(0)?;
        let f = inverse_gaps(&s.square()?)?;
        let (row, column) = (s.unsqueeze(-2)?, s.unsqueeze(-1)?);
        let mut beyond = None;
        let mut beside = None;
        if let Ok(g) = call.grad(0) {
            middle = (middle + turning(&f, u, g)? * &row).tensor()?;
            beyond = if m > n { Some((outside(u, g)? / &row).tensor()?) } else { None };
        }
        if let Ok(g) = call.grad(2) {
            let (v, g) = (vt.t()?, g.t()?);
            middle = (middle + &column * turning(&f, &v, &g)?).tensor()?;
            beside = if n > m { Some((outside(&v, &g)? / &row).tensor()?) } else { None };
        }
        let mut left = u.matmul(&middle)?;
        if let Some(beyond) = beyond {
            left = (left + beyond).tensor()?;
        }
        let mut grad = left.matmul(vt)?;
        if let Some(beside) = beside {
            grad = (grad + u.matmul(&beside.t()?)?).tensor()?;
        }
        Ok(Cotangents::one(grad))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let all: Vec<Factors> = finite_matrices(&inputs[0])?.iter().map(Factors::new).collect();
        Ok(vec![
            join(&outputs[0], all.iter().map(|f| f.0.values.clone())),
            join(&outputs[1], all.iter().map(|f| f.1.clone())),
            join(&outputs[2], all.iter().map(|f| f.2.transposed().values)),
        ])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            let case = |shape: &[usize], fill| Case::new(Svd).input_with(shape, dtype, fill);
            for (m, n) in [(1, 1), (2, 2), (3, 3), (5, 5), (4, 2), (2, 4), (11, 9), (1, 3), (3, 1)] {
                cases.push(case(&[1, m, n], dominant(m, n, 1, true)));
            }
            cases.push(case(&[2, 3, 4, 3], dominant(4, 3, 6, true)));
            cases.push(case(&[1500, 3, 3], dominant(3, 3, 7, true)));
            cases.push(case(&[0, 3, 3], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 0, 3], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 3, 0], Fill::Values(vec![1.0])));
            // Far from diagonal; singular; elements that are not finite.
            cases.push(case(&[1, 3, 3], Fill::Values(vec![1.0, 3.0, -2.0, 2.0, 0.5, 1.5, 1.0, -1.0, -4.0])));
            cases.push(case(&[1, 2, 2], Fill::Values(vec![2.0, 0.0, 0.0, 0.0])).not_smooth());
            cases.push(case(&[1, 2, 2], Fill::Values(vec![1.0, f64::NAN, 2.0, 4.0])).not_smooth());
        }
        cases
    }
}

impl Tensor {
    /// The singular value decomposition of a matrix `[.., m, n]` in f32 or f64: U `[.., m, k]` with orthonormal columns, the
    /// singular values S `[.., k]` in descending order, and Vᵀ `[.., k, n]` with orthonormal rows, for k the smaller of m and n.
    /// The first of the largest elements of each column of U is positive (within 1 % of the largest counts as largest).
    ///
    /// The vectors of equal singular values are not unique. They come out as some orthonormal basis, and a gradient through
    /// them is not finite, nor where a singular value of a matrix that is not square is 0; one through S alone is.
    ///
    /// # Errors
    /// Where there are fewer than two axes, the dtype is another, or (see [`crate::op::linalg`]) an element is not finite.
    pub fn svd(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let parts = <[Tensor; 3]>::try_from(run::call_many(Op::Svd(Svd), &[self])?);
        let [u, s, vt] = parts.map_err(|_| Error::backend("svd has three outputs"))?;
        Ok((u, s, vt))
    }

    /// As [`Tensor::svd`], with the further columns of U, so that it is `[.., m, m]`, and rows of Vᵀ, `[.., n, n]`: those that a
    /// complete [`Tensor::qr`] of the others gives. They have no gradient.
    ///
    /// # Errors
    /// As [`Tensor::svd`].
    pub fn svd_full(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let (u, s, vt) = self.svd()?;
        Ok((completed(&u)?, s, completed(&vt.t()?)?.t()?))
    }
}

/// Orthonormal columns, and those that are missing to a square.
fn completed(columns: &Tensor) -> Result<Tensor> {
    let (_, m, k) = extents(&columns.spec())?;
    if m == k {
        return Ok(columns.clone());
    }
    let (q, _) = columns.qr(true)?;
    Tensor::concat(&[columns, &q.narrow(-1, k as isize, m - k)?], -1)
}
