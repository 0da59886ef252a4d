//! The Cholesky factorisation of positive definite matrices.

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, finite_matrices, join};
use super::{DTYPES, not_positive_definite, square, symmetric, symmetric_part};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::error::Result;
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The lower triangular factor L with a positive diagonal of `L·Lᵀ = (A + Aᵀ)/2`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cholesky;

/// The factor, or the row at which the matrix shows not to be positive definite.
fn factor(a: &Matrix) -> Result<Matrix, usize> {
    let mut l = Matrix::from_fn(a.rows, a.rows, |_, _| 0.0);
    for row in 0..a.rows {
        for column in 0..=row {
            let known: f64 = (0..column).map(|k| l[(row, k)] * l[(column, k)]).sum();
            let rest = 0.5 * (a[(row, column)] + a[(column, row)]) - known;
            l[(row, column)] = match row == column {
                true if rest > 0.0 => rest.sqrt(),
                true => return Err(row),
                false => rest / l[(column, column)],
            };
        }
    }
    Ok(l)
}

impl Rule for Cholesky {
    fn name(&self) -> &'static str {
        "cholesky"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        square(a)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::OUTPUTS)
    }

    /// `L⁻ᵀ Φ(Lᵀ L̄) L⁻¹`, symmetric part, where Φ takes the lower triangle and half of the diagonal (Murray: "Differentiation
    /// of the Cholesky decomposition", 2016).
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let upper = call.output(0)?.t()?;
        let product = upper.matmul(&call.grad(0)?.tril(0)?)?;
        let halved = ((product.tril(0)? + product.tril(-1)?) * 0.5).tensor()?;
        let left = upper.solve_triangular(&halved, true)?;
        let both = upper.solve_triangular(&left.t()?, true)?;
        Ok(Cotangents::one(symmetric_part(&both)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let all = finite_matrices(&inputs[0])?;
        let factors = all
            .iter()
            .enumerate()
            .map(|(at, a)| factor(a).map(|l| l.values).map_err(|row| not_positive_definite(at, all.len(), row)));
        Ok(vec![join(&outputs[0], factors.collect::<Result<Vec<_>>>()?)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DTYPES {
            let case = |shape: &[usize], fill| Case::new(Cholesky).input_with(shape, dtype, fill);
            for n in [1, 2, 3, 5, 17] {
                cases.push(case(&[1, n, n], symmetric(n, 1, true)));
            }
            cases.push(case(&[3, 2, 4, 4], symmetric(4, 6, true)));
            cases.push(case(&[2000, 4, 4], symmetric(4, 7, true)));
            cases.push(case(&[1, 70, 70], symmetric(70, 1, true)).not_smooth());
            // Only the symmetric part counts.
            cases.push(case(&[1, 2, 2], Fill::Values(vec![4.0, 3.0, 1.0, 5.0])));
            cases.push(case(&[0, 3, 3], Fill::Values(vec![1.0])));
            cases.push(case(&[2, 0, 0], Fill::Values(vec![1.0])));
            for refused in [vec![1.0, 2.0, 2.0, 1.0], vec![0.0], vec![-1.0], vec![f64::NAN, 0.0, 0.0, 1.0]] {
                cases.push(case(&[1, 2, 2], Fill::Values(refused)).not_smooth());
            }
        }
        cases
    }
}

impl Tensor {
    /// The Cholesky factor of a positive definite matrix `[.., n, n]` in f32 or f64: the lower triangular L with a positive
    /// diagonal for which `A = L·Lᵀ`, or with `upper` its transpose U, for which `A = Uᵀ·U`. The matrix taken is the symmetric
    /// part `(A + Aᵀ)/2`, so its gradient is symmetric.
    ///
    /// # Errors
    /// Where the matrix is not square, the dtype is another, or (see [`crate::op::linalg`]) a matrix is not positive definite.
    pub fn cholesky(&self, upper: bool) -> Result<Tensor> {
        let lower = run::call(Op::Cholesky(Cholesky), [self.into()])?;
        if upper { lower.t() } else { Ok(lower) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn refusals_name_the_matrix() {
        let spec = TensorSpec::new([2, 2, 2], DType::F64);
        let x = RefTensor::float([2, 2, 2], DType::F64, vec![1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0]);
        let error = Cholesky.reference(&[x], &[spec]).unwrap_err();
        let text = "matrix 1 of the batch of 2 is not positive definite: its leading minor of order 2 is not";
        assert_eq!(error.message(), text);
        let wide = TensorSpec::new([2, 3], DType::F32);
        assert!(Cholesky.infer(&[wide]).unwrap_err().message().contains("2 rows, 3 columns"));
        assert!(Cholesky.infer(&[TensorSpec::new([2, 2], DType::F16)]).unwrap_err().message().contains("cast first"));
        assert!(Cholesky.infer(&[TensorSpec::new([2], DType::F32)]).is_err());
    }
}
