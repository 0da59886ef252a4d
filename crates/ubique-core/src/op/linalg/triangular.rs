//! Systems of equations with a triangular matrix.

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, join, matrices};
use super::{DTYPES, dominant, not_finite, require_right_side, sides, singular};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The X of `T·X = B`, where T is a triangle of the first operand; its other triangle is not looked at.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SolveTriangular {
    /// Whether it is the upper triangle.
    pub upper: bool,
}

impl SolveTriangular {
    /// Whether an element belongs to the triangle.
    pub fn has(&self, row: usize, column: usize) -> bool {
        if self.upper { column >= row } else { column <= row }
    }

    fn solve(&self, t: &Matrix, b: &Matrix) -> Matrix {
        let (n, mut x) = (t.rows, b.clone());
        for step in 0..n {
            let row = if self.upper { n - 1 - step } else { step };
            for column in 0..b.columns {
                let known = if self.upper { row + 1..n } else { 0..row };
                let sum: f64 = known.map(|k| t[(row, k)] * x[(k, column)]).sum();
                x[(row, column)] = (b[(row, column)] - sum) / t[(row, row)];
            }
        }
        x
    }

    fn check(&self, t: &Matrix, at: usize, of: usize) -> Result<()> {
        let finite = |row| (0..t.rows).all(|column| !self.has(row, column) || t[(row, column)].is_finite());
        if !(0..t.rows).all(finite) {
            return Err(not_finite(at, of));
        }
        (0..t.rows).find(|&i| t[(i, i)] == 0.0).map_or(Ok(()), |i| Err(singular(at, of, i)))
    }
}

impl Rule for SolveTriangular {
    fn name(&self) -> &'static str {
        "solve_triangular"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a, b] = operands(inputs)?;
        require_right_side(a, b)?;
        Ok(Specs::Like(1))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[0]).and_outputs())
    }

    /// `B̄ = T⁻ᵀ X̄` and `T̄ = -B̄ Xᵀ`, of which the triangle counts.
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let right = call.input(0)?.t()?.solve_triangular(call.grad(0)?, !self.upper)?;
        let mut out = Cotangents::none(2);
        if call.wants(0) {
            let grad = right.matmul(&call.output(0)?.t()?)?.neg()?;
            out.set(0, if self.upper { grad.triu(0)? } else { grad.tril(0)? });
        }
        out.set(1, right);
        Ok(out)
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (triangles, sides) = (matrices(&inputs[0]), matrices(&inputs[1]));
        let solution = |(at, (t, b)): (usize, (&Matrix, &Matrix))| {
            self.check(t, at, triangles.len())?;
            Ok(self.solve(t, b).values)
        };
        let all = triangles.iter().zip(&sides).enumerate().map(solution).collect::<Result<Vec<_>>>()?;
        Ok(vec![join(&outputs[0], all)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            for upper in [false, true] {
                let case = |a: &[usize], b: &[usize], fill| {
                    Case::new(SolveTriangular { upper }).input_with(a, dtype, fill).input(b, dtype)
                };
                for (n, columns) in [(1, 1), (2, 3), (5, 2), (17, 1)] {
                    cases.push(case(&[1, n, n], &[1, n, columns], dominant(n, n, 1, false)));
                }
                cases.push(case(&[2, 3, 4, 4], &[2, 3, 4, 2], dominant(4, 4, 6, false)));
                cases.push(case(&[1500, 4, 4], &[1500, 4, 3], dominant(4, 4, 7, false)));
                cases.push(case(&[1, 70, 70], &[1, 70, 33], dominant(70, 70, 1, false)).not_smooth());
                cases.push(case(&[0, 3, 3], &[0, 3, 2], Fill::Values(vec![1.0])));
                cases.push(case(&[2, 3, 3], &[2, 3, 0], Fill::Values(vec![1.0])));
                cases.push(case(&[2, 0, 0], &[2, 0, 3], Fill::Values(vec![1.0])));
                // What lies in the other triangle does not matter; a 0 on the diagonal does.
                let unread = if upper { vec![2.0, 1.0, f64::NAN, 4.0] } else { vec![2.0, f64::NAN, 1.0, 4.0] };
                cases.push(case(&[1, 2, 2], &[1, 2, 1], Fill::Values(unread)).not_smooth());
                cases.push(case(&[1, 2, 2], &[1, 2, 1], Fill::Values(vec![1.0, 1.0, 1.0, 0.0])).not_smooth());
                cases.push(case(&[1, 1, 1], &[1, 1, 1], Fill::Values(vec![f64::NAN])).not_smooth());
            }
        }
        cases
    }
}

impl Tensor {
    /// The X for which `A·X = B`, where this A `[.., n, n]` in f32 or f64 is lower triangular, or upper triangular: the other
    /// triangle is not looked at. B is `[.., n, k]`, or a vector `[n]`; leading axes broadcast. For `X·A = B` solve with
    /// transposes: `A.t()?.solve_triangular(&B.t()?, !upper)?.t()`.
    ///
    /// # Errors
    /// Where shapes or dtypes do not fit, or (see [`crate::op::linalg`]) there is a 0 on the diagonal.
    pub fn solve_triangular(&self, b: &Tensor, upper: bool) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("solve_triangular", &[self.spec(), b.spec()]);
        let (a, b, vector) = sides(self, b).map_err(fail)?;
        let x = run::call(Op::SolveTriangular(SolveTriangular { upper }), [a.into(), b.into()])?;
        if vector { x.squeeze(-1) } else { Ok(x) }
    }
}
