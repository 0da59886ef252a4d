//! Systems of linear equations.

use serde::{Deserialize, Serialize};

use super::lu::Packed;
use super::matrix::{Matrix, finite_matrices, join, matrices};
use super::{DTYPES, dominant, require_right_side, sides, singular};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The X of `A·X = B`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Solve;

/// The factors of matrices, all of which have an inverse.
pub(super) fn invertible(x: &RefTensor) -> Result<Vec<Packed>> {
    let all: Vec<Packed> = finite_matrices(x)?.iter().map(Packed::new).collect();
    for (at, packed) in all.iter().enumerate() {
        if let Some(column) = packed.diagonal().position(|pivot| pivot == 0.0) {
            return Err(singular(at, all.len(), column));
        }
    }
    Ok(all)
}

impl Rule for Solve {
    fn name(&self) -> &'static str {
        "solve"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a, b] = operands(inputs)?;
        require_right_side(a, b)?;
        Ok(Specs::Like(1))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[0]).and_outputs())
    }

    /// `B̄ = A⁻ᵀ X̄` and `Ā = -B̄ Xᵀ`.
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let right = call.input(0)?.t()?.solve(call.grad(0)?)?;
        let mut out = Cotangents::none(2);
        if call.wants(0) {
            out.set(0, right.matmul(&call.output(0)?.t()?)?.neg()?);
        }
        out.set(1, right);
        Ok(out)
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let solve = |(packed, b): (&Packed, &Matrix)| packed.solve(b).values;
        let all = invertible(&inputs[0])?;
        Ok(vec![join(&outputs[0], all.iter().zip(&matrices(&inputs[1])).map(solve))])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            let case = |a: &[usize], b: &[usize], fill| Case::new(Solve).input_with(a, dtype, fill).input(b, dtype);
            for (n, columns) in [(1, 1), (2, 3), (3, 1), (5, 2), (17, 4)] {
                cases.push(case(&[1, n, n], &[1, n, columns], dominant(n, n, 1, true)));
            }
            cases.push(case(&[2, 3, 4, 4], &[2, 3, 4, 2], dominant(4, 4, 6, true)));
            cases.push(case(&[1500, 4, 4], &[1500, 4, 3], dominant(4, 4, 7, true)));
            cases.push(case(&[1, 70, 70], &[1, 70, 33], dominant(70, 70, 1, true)).not_smooth());
            cases.push(case(&[0, 3, 3], &[0, 3, 2], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 2, 2], &[2, 2, 0], Fill::Values(vec![2.0, 1.0, 0.0, 1.0])));
            cases.push(case(&[2, 0, 0], &[2, 0, 3], Fill::Values(vec![1.0])));
            for refused in [vec![0.0], vec![1.0, 2.0, 2.0, 4.0], vec![1.0, f64::NAN, 2.0, 4.0]] {
                cases.push(case(&[1, 2, 2], &[1, 2, 1], Fill::Values(refused)).not_smooth());
            }
        }
        cases
    }
}

impl Tensor {
    /// The X for which `A·X = B`, where this A is `[.., n, n]` in f32 or f64 and B `[.., n, k]`, or a vector `[n]`; leading axes
    /// broadcast.
    ///
    /// # Errors
    /// Where shapes or dtypes do not fit, or (see [`crate::op::linalg`]) a matrix is singular.
    pub fn solve(&self, b: &Tensor) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("solve", &[self.spec(), b.spec()]);
        let (a, b, vector) = sides(self, b).map_err(fail)?;
        let x = run::call(Op::Solve(Solve), [a.into(), b.into()])?;
        if vector { x.squeeze(-1) } else { Ok(x) }
    }
}
