//! From integers to floats.

use serde::{Deserialize, Serialize};

use super::{Scheme, Width, samples, with_scales};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Rule, Specs, Traits, require_float};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// Integers, scales and, where the scheme is affine, zero points to floats: (q − z)·s, computed in the scales' dtype.
/// Differentiable in the scales.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dequantize {
    /// How the integers were made.
    pub scheme: Scheme,
    /// Shape and dtype of the result.
    pub spec: TensorSpec,
}

impl Rule for Dequantize {
    fn name(&self) -> &'static str {
        "dequantize"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [values, scales @ ..] = inputs else { return Err(Error::value("takes integers, scales and zero points")) };
        require_float(&self.spec)?;
        self.spec.shape.bytes(self.spec.dtype)?;
        let wanted = self.scheme.values(&self.spec.shape)?;
        if *values != wanted {
            return Err(Error::shape(format!("{} takes integers {wanted}, got {values}", self.spec)));
        }
        self.scheme.check_scales(&self.spec.shape, self.spec.dtype, scales)?;
        Ok(self.spec.clone().into())
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [values, scales, zero_points @ ..] = inputs else { return Ok(None) };
        let (shape, scheme) = (&self.spec.shape, self.scheme);
        let q = match scheme.width {
            Width::Q8 => values.clone(),
            Width::Q4 => unpack(values, shape)?,
        };
        let mut steps = q.cast(scales.dtype())?;
        if let [zero_points] = zero_points {
            steps = (steps - scheme.spread(zero_points, shape)?.cast(scales.dtype())?).tensor()?;
        }
        Ok(Some(vec![(steps * scheme.spread(scales, shape)?).tensor()?.cast(self.spec.dtype)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let values = floats(self.scheme, &self.spec.shape, inputs);
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (scheme, shape) in samples() {
            for dtype in DType::FLOATS {
                let spec = TensorSpec::new(&shape, dtype);
                let case = with_values(Case::new(Dequantize { scheme, spec }), scheme, &shape);
                cases.push(with_scales(case, scheme, &shape, dtype));
            }
        }
        cases
    }
}

/// Adds integers of all sizes to a case, as a scheme has them for floats of a shape.
pub(super) fn with_values(case: Case, scheme: Scheme, shape: &Shape) -> Case {
    match scheme.width {
        Width::Q8 => case.input_with(shape, DType::I8, Fill::Uniform(-128.0, 128.0)),
        Width::Q4 => {
            let packed = scheme.values(shape).map_or_else(|_| Shape::empty(), |spec| spec.shape);
            case.input_with(packed, DType::U8, Fill::Uniform(0.0, 256.0))
        }
    }
}

/// The floats that reference values (integers, scales, zero points) stand for.
pub(super) fn floats(scheme: Scheme, shape: &Shape, inputs: &[RefTensor]) -> Vec<f64> {
    let (values, scales) = (inputs[0].ints(), inputs[1].floats());
    let zero_points = inputs.get(2).map(RefTensor::ints);
    let columns = shape.last().copied().unwrap_or(1).max(1);
    let integer = |at: usize| match scheme.width {
        Width::Q8 => values[at],
        Width::Q4 => {
            let (row, column) = (at / columns, at % columns);
            let nibble = values[row * columns.div_ceil(2) + column / 2] >> (column % 2 * 4) & 15;
            if nibble < 8 { nibble } else { nibble - 16 }
        }
    };
    let float = |(at, own): (usize, usize)| {
        let zero = zero_points.as_ref().map_or(0, |zero_points| zero_points[own]);
        (integer(at) - zero) as f64 * scales[own]
    };
    scheme.scale_indices(shape).enumerate().map(float).collect()
}

/// The i8 that pairs in u8 stand for, in a shape whose last axis may be odd.
fn unpack(packed: &Tensor, shape: &Shape) -> Result<Tensor> {
    // Moved to the upper half and back, which brings the sign down.
    let half = |bits: Tensor| bits.cast(DType::I8)?.shr(4)?.unsqueeze(-1);
    let pairs = Tensor::concat(&[&half(packed.shl(4)?)?, &half(packed.clone())?], -1)?;
    let axis = shape.rank() - 1;
    pairs.reshape(shape.with(axis, packed.shape()[axis] * 2))?.narrow(-1, 0, shape[axis])
}
