//! Products with quantised weights.

use serde::{Deserialize, Serialize};

use super::dequantize::{Dequantize, floats, with_values};
use super::{Scheme, samples, with_scales};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Case;
use crate::op::matmul::Linear;
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, require_float};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// x·Wᵀ for x `[.., inputs]` and a quantised W `[outputs, inputs]`, given as integers, scales and, where the scheme is affine,
/// zero points. Sums are kept in the scales' dtype. Differentiable in x and in the scales.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QuantizedLinear {
    /// How W was quantised.
    pub scheme: Scheme,
    /// The rows of W.
    pub outputs: usize,
}

impl QuantizedLinear {
    /// The shape of W for an operand.
    fn weight(&self, x: &Shape) -> Result<Shape> {
        let inputs = x.last().ok_or_else(|| Error::shape("the operand has no axis of inputs"))?;
        Ok(Shape::from([self.outputs, *inputs]))
    }

    fn dequantize(&self, x: &TensorSpec) -> Result<Dequantize> {
        Ok(Dequantize { scheme: self.scheme, spec: TensorSpec::new(self.weight(&x.shape)?, x.dtype) })
    }
}

impl Rule for QuantizedLinear {
    fn name(&self) -> &'static str {
        "quantized_linear"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, weight @ ..] = inputs else { return Err(Error::value("takes an operand and a quantised weight")) };
        require_float(x)?;
        self.dequantize(x)?.infer(weight)?;
        let shape = x.shape.with(x.shape.rank() - 1, self.outputs);
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, weight @ ..] = inputs else { return Ok(None) };
        let dequantize = Op::Dequantize(self.dequantize(&x.spec())?);
        let weight = run::call_list(dequantize, &weight.iter().collect::<Vec<_>>())?;
        Ok(Some(vec![x.linear(&weight, None)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let x = &inputs[0];
        let shape = self.weight(x.shape())?;
        let weight = RefTensor::float(shape.clone(), x.spec.dtype, floats(self.scheme, &shape, &inputs[1..]));
        Linear.reference(&[x.clone(), weight], outputs)
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (scheme, shape) in samples() {
            let [outputs, inputs] = *shape else { continue };
            for dtype in DType::FLOATS {
                for lead in [&[1][..], &[], &[2, 3], &[0], &[17]] {
                    let x: Shape = lead.iter().copied().chain([inputs]).collect();
                    let case = Case::new(QuantizedLinear { scheme, outputs }).input(x, dtype);
                    cases.push(with_scales(with_values(case, scheme, &shape), scheme, &shape, dtype));
                }
            }
        }
        cases
    }
}
