//! The inverse of matrices.

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, join};
use super::solve::invertible;
use super::{DTYPES, dominant, square};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::error::Result;
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The inverse.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Inverse;

impl Rule for Inverse {
    fn name(&self) -> &'static str {
        "inverse"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        square(a)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    /// `-Yᵀ Ȳ Yᵀ` for the inverse Y.
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let y = call.output(0)?.t()?;
        Ok(Cotangents::one(y.matmul(call.grad(0)?)?.matmul(&y)?.neg()?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let all = invertible(&inputs[0])?;
        Ok(vec![join(&outputs[0], all.iter().map(|packed| packed.solve(&Matrix::identity(packed.both.rows)).values))])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            let case = |shape: &[usize], fill| Case::new(Inverse).input_with(shape, dtype, fill);
            for n in [1, 2, 3, 5, 17] {
                cases.push(case(&[1, n, n], dominant(n, n, 1, true)));
            }
            cases.push(case(&[2, 3, 4, 4], dominant(4, 4, 6, true)));
            cases.push(case(&[1500, 4, 4], dominant(4, 4, 7, true)));
            cases.push(case(&[1, 70, 70], dominant(70, 70, 1, true)).not_smooth());
            cases.push(case(&[0, 3, 3], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 0, 0], Fill::Values(vec![1.0])));
            for refused in [vec![0.0], vec![1.0, 2.0, 2.0, 4.0], vec![1.0, f64::NAN, 2.0, 4.0]] {
                cases.push(case(&[1, 2, 2], Fill::Values(refused)).not_smooth());
            }
        }
        cases
    }
}

impl Tensor {
    /// The inverse of a matrix `[.., n, n]` in f32 or f64. To solve equations, [`Tensor::solve`] is faster and more exact.
    ///
    /// # Errors
    /// Where the matrix is not square, the dtype is another, or (see [`crate::op::linalg`]) a matrix is singular.
    pub fn inverse(&self) -> Result<Tensor> {
        run::call(Op::Inverse(Inverse), [self.into()])
    }
}
