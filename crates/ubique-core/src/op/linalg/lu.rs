//! The LU factorisation with exchange of rows.

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, finite_matrices, join};
use super::{DTYPES, dominant, extents, spec};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::Combine;
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The factors of a matrix whose rows are exchanged so that each pivot is the largest of its column: where the rows came
/// from (i64), L with ones on its diagonal, and U.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lu;

/// A factorisation in one matrix: U, and below the diagonal L.
pub(super) struct Packed {
    pub both: Matrix,
    /// Which row of the operand each row is.
    pub rows: Vec<usize>,
    /// -1 where the number of exchanges is odd.
    pub sign: f64,
}

impl Packed {
    pub fn new(a: &Matrix) -> Packed {
        let mut packed = Packed { both: a.clone(), rows: (0..a.rows).collect(), sign: 1.0 };
        let Packed { both, rows, sign } = &mut packed;
        for k in 0..a.rows.min(a.columns) {
            let largest =
                (k + 1..a.rows).fold(k, |best, i| if both[(i, k)].abs() > both[(best, k)].abs() { i } else { best });
            if largest != k {
                both.swap_rows(k, largest);
                rows.swap(k, largest);
                *sign = -*sign;
            }
            if both[(k, k)] == 0.0 {
                continue;
            }
            for i in k + 1..a.rows {
                let factor = both[(i, k)] / both[(k, k)];
                both[(i, k)] = factor;
                for j in k + 1..a.columns {
                    let product = factor * both[(k, j)];
                    both[(i, j)] -= product;
                }
            }
        }
        packed
    }

    pub fn diagonal(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.both.rows.min(self.both.columns)).map(|i| self.both[(i, i)])
    }

    fn lower(&self) -> Matrix {
        Matrix::from_fn(self.both.rows, self.both.rows.min(self.both.columns), |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => self.both[(i, j)],
        })
    }

    fn upper(&self) -> Matrix {
        let k = self.both.rows.min(self.both.columns);
        Matrix::from_fn(k, self.both.columns, |i, j| if j >= i { self.both[(i, j)] } else { 0.0 })
    }

    /// The solution of `A·X = B`.
    pub fn solve(&self, b: &Matrix) -> Matrix {
        let (lu, n) = (&self.both, self.both.rows);
        let mut x = Matrix::from_fn(n, b.columns, |row, column| b[(self.rows[row], column)]);
        for column in 0..b.columns {
            for i in 0..n {
                let known: f64 = (0..i).map(|k| lu[(i, k)] * x[(k, column)]).sum();
                x[(i, column)] -= known;
            }
            for i in (0..n).rev() {
                let known: f64 = (i + 1..n).map(|k| lu[(i, k)] * x[(k, column)]).sum();
                x[(i, column)] = (x[(i, column)] - known) / lu[(i, i)];
            }
        }
        x
    }
}

/// The gradient of `A` with its rows exchanged, from those of L and U, where both are square.
fn square_gradient(l: &Tensor, u: &Tensor, gl: &Tensor, gu: &Tensor) -> Result<Tensor> {
    let middle = (l.t()?.matmul(gl)?.tril(-1)? + gu.matmul(&u.t()?)?.triu(0)?).tensor()?;
    let left = l.t()?.solve_triangular(&middle, true)?;
    u.solve_triangular(&left.t()?, true)?.t()
}

impl Rule for Lu {
    fn name(&self) -> &'static str {
        "lu"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        let (lead, m, n) = extents(a)?;
        let k = m.min(n);
        Ok(Specs::Many(vec![spec(lead, &[m], DType::I64), spec(lead, &[m, k], a.dtype), spec(lead, &[k, n], a.dtype)]))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    /// `L⁻ᵀ (tril₋₁(Lᵀ L̄) + triu(Ū Uᵀ)) U⁻ᵀ` with the rows put back. Rows of a tall matrix and columns of a wide one beyond
    /// the square are functions of it, `L₂ = A₂ U⁻¹` and `U₂ = L⁻¹ A₂`, whose gradients are taken first.
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (rows, l, u) = (call.output(0)?, call.output(1)?, call.output(2)?);
        let (mut gl, mut gu) = (call.grad_or_zeros(1)?, call.grad_or_zeros(2)?);
        let (_, m, n) = extents(call.spec(0)?)?;
        let k = m.min(n);
        let (head, tail) =
            (|x: &Tensor, axis| x.narrow(axis, 0, k), |x: &Tensor, axis, len| x.narrow(axis, k as isize, len));
        let whole = if m > k {
            let (l2, g2) = (tail(l, -2, m - k)?, tail(&gl, -2, m - k)?);
            let below = u.solve_triangular(&g2.t()?, true)?.t()?;
            gu = (gu - l2.t()?.matmul(&below)?).tensor()?;
            let square = square_gradient(&head(l, -2)?, u, &head(&gl, -2)?, &gu)?;
            Tensor::concat(&[&square, &below], -2)?
        } else if n > k {
            let (u2, g2) = (tail(u, -1, n - k)?, tail(&gu, -1, n - k)?);
            let beside = l.t()?.solve_triangular(&g2, true)?;
            gl = (gl - beside.matmul(&u2.t()?)?).tensor()?;
            let square = square_gradient(l, &head(u, -1)?, &gl, &head(&gu, -1)?)?;
            Tensor::concat(&[&square, &beside], -1)?
        } else {
            square_gradient(l, u, &gl, &gu)?
        };
        let places = rows.detach().unsqueeze(-1)?.expand(whole.shape())?;
        Ok(Cotangents::one(whole.zeros_like()?.scatter(-2, &places, &whole, Combine::Set)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let all: Vec<Packed> = finite_matrices(&inputs[0])?.iter().map(Packed::new).collect();
        let rows = all.iter().flat_map(|p| p.rows.iter().map(|&row| row as i128)).collect();
        Ok(vec![
            RefTensor::int(outputs[0].shape.clone(), DType::I64, rows),
            join(&outputs[1], all.iter().map(|p| p.lower().values)),
            join(&outputs[2], all.iter().map(|p| p.upper().values)),
        ])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            let case = |shape: &[usize], fill| Case::new(Lu).input_with(shape, dtype, fill);
            for (m, n) in [(1, 1), (2, 2), (3, 3), (5, 5), (4, 2), (2, 4), (17, 17), (1, 3), (3, 1)] {
                cases.push(case(&[1, m, n], dominant(m, n, 1, true)));
            }
            cases.push(case(&[2, 3, 4, 3], dominant(4, 3, 6, true)));
            cases.push(case(&[1500, 4, 4], dominant(4, 4, 7, true)));
            cases.push(case(&[1, 70, 60], dominant(70, 60, 1, true)).not_smooth());
            cases.push(case(&[0, 3, 3], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 0, 3], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 3, 0], Fill::Values(vec![1.0])));
            // Columns without a pivot; elements that are not finite.
            cases.push(case(&[1, 3, 3], Fill::Values(vec![0.0])).not_smooth());
            cases.push(case(&[1, 2, 2], Fill::Values(vec![1.0, 2.0, 2.0, 4.0])).not_smooth());
            cases.push(case(&[1, 2, 2], Fill::Values(vec![1.0, f64::INFINITY, 2.0, 4.0])).not_smooth());
        }
        cases
    }
}

impl Tensor {
    /// The LU factorisation of a matrix `[.., m, n]` in f32 or f64 with exchange of rows: `rows` `[.., m]` (i64),
    /// L `[.., m, k]`, lower triangular with ones on its diagonal, and U `[.., k, n]`, upper triangular, for k the smaller of m
    /// and n. Row i of `L·U` is row `rows[i]` of the matrix, and each pivot is the element of largest magnitude in what is left
    /// of its column. The gradient needs pivots that are not 0.
    ///
    /// # Errors
    /// Where there are fewer than two axes, the dtype is another, or (see [`crate::op::linalg`]) an element is not finite.
    pub fn lu(&self) -> Result<(Tensor, Tensor, Tensor)> {
        let parts = <[Tensor; 3]>::try_from(run::call_many(Op::Lu(Lu), &[self])?);
        let [rows, lower, upper] = parts.map_err(|_| Error::backend("lu has three outputs"))?;
        Ok((rows, lower, upper))
    }
}
