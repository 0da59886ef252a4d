//! Determinants, and their signs and logarithms.

use serde::{Deserialize, Serialize};

use super::lu::Packed;
use super::matrix::finite_matrices;
use super::{DTYPES, dominant, spec, square};
use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The determinant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Det;

/// The determinant's sign, and the logarithm of its magnitude.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Slogdet;

/// The gradient of a matrix whose determinant's logarithm has this gradient: `ḡ A⁻ᵀ`.
fn scaled_inverse(a: &Tensor, g: &Tensor) -> Result<Tensor> {
    let inverse = a.inverse().map_err(|e| e.context("the gradient of a determinant needs the inverse"))?;
    (inverse.t()? * g.unsqueeze(-1)?.unsqueeze(-1)?).tensor()
}

fn cases(op: impl Into<Op> + Clone) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DTYPES {
        let case = |shape: &[usize], fill| Case::new(op.clone()).input_with(shape, dtype, fill);
        for n in [1, 2, 3, 5] {
            cases.push(case(&[1, n, n], dominant(n, n, 1, true)));
        }
        cases.push(case(&[2, 3, 3, 3], dominant(3, 3, 6, true)));
        cases.push(case(&[1500, 4, 4], dominant(4, 4, 7, true)));
        cases.push(case(&[0, 3, 3], Fill::Values(vec![1.0])));
        cases.push(case(&[2, 0, 0], Fill::Values(vec![1.0])));
        for singular in [vec![0.0], vec![1.0, 2.0, 2.0, 4.0]] {
            cases.push(case(&[1, 2, 2], Fill::Values(singular)).not_smooth());
        }
        cases.push(case(&[1, 2, 2], Fill::Values(vec![1.0, f64::NAN, 2.0, 4.0])).not_smooth());
    }
    cases
}

impl Rule for Det {
    fn name(&self) -> &'static str {
        "det"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        Ok(spec(square(a)?.0, &[], a.dtype).into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::BOTH)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let g = (call.grad(0)? * call.output(0)?).tensor()?;
        Ok(Cotangents::one(scaled_inverse(call.input(0)?, &g)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let det = |packed: Packed| packed.sign * packed.diagonal().product::<f64>();
        let values = finite_matrices(&inputs[0])?.iter().map(Packed::new).map(det).collect();
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        cases(Det)
    }
}

impl Rule for Slogdet {
    fn name(&self) -> &'static str {
        "slogdet"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a] = operands(inputs)?;
        let one = spec(square(a)?.0, &[], a.dtype);
        Ok(Specs::Many(vec![one.clone(), one]))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS)
    }

    /// The sign is constant wherever it has a gradient at all.
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        Ok(Cotangents::one(scaled_inverse(call.input(0)?, &call.grad_or_zeros(1)?)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let all: Vec<Packed> = finite_matrices(&inputs[0])?.iter().map(Packed::new).collect();
        let sign = |p: &Packed| p.diagonal().fold(p.sign, |sign, x| if x == 0.0 { 0.0 } else { sign * x.signum() });
        let log = |p: &Packed| p.diagonal().map(|x| x.abs().ln()).sum::<f64>();
        let part = |spec: &TensorSpec, f: &dyn Fn(&Packed) -> f64| {
            RefTensor::float(spec.shape.clone(), spec.dtype, all.iter().map(f).collect())
        };
        Ok(vec![part(&outputs[0], &sign), part(&outputs[1], &log)])
    }

    fn cases() -> Vec<Case> {
        let mut all = cases(Slogdet);
        // The determinant itself would overflow.
        let large = || Fill::Values((0..400).map(|at| if at % 21 == 0 { 1e30 } else { 0.0 }).collect());
        all.extend(DTYPES.map(|dtype: DType| Case::new(Slogdet).input_with([1, 20, 20], dtype, large()).not_smooth()));
        all
    }
}

impl Tensor {
    /// The determinant of a matrix `[.., n, n]` in f32 or f64: `[..]`. It is 0 for a singular matrix, where its gradient is
    /// an error, and 1 for an empty one.
    ///
    /// # Errors
    /// Where the matrix is not square, the dtype is another, or (see [`crate::op::linalg`]) an element is not finite.
    pub fn det(&self) -> Result<Tensor> {
        run::call(Op::Det(Det), [self.into()])
    }

    /// The sign of the determinant (1, -1, or 0 for a singular matrix) and the logarithm of its magnitude (-∞ for a singular
    /// matrix), which has no trouble with determinants too large or small for the dtype.
    ///
    /// # Errors
    /// As [`Tensor::det`].
    pub fn slogdet(&self) -> Result<(Tensor, Tensor)> {
        let parts = <[Tensor; 2]>::try_from(run::call_many(Op::Slogdet(Slogdet), &[self])?);
        let [sign, log] = parts.map_err(|_| Error::backend("slogdet has two outputs"))?;
        Ok((sign, log))
    }
}
