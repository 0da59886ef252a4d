//! Creation from parameters: one value everywhere, and evenly spaced values. Zeros, ones, `eye` and `linspace` come from these.

use serde::{Deserialize, Serialize};

use crate::dispatch::{Device, run};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Case;
use crate::op::reference::{RefTensor, Values};
use crate::op::{Rule, Specs, Traits, operands};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// One value everywhere.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fill {
    /// The result's shape and dtype.
    pub spec: TensorSpec,
    /// The value, cast to the dtype.
    pub value: Scalar,
}

impl Rule for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        operands::<0>(inputs)?;
        self.spec.shape.bytes(self.spec.dtype)?;
        Ok(self.spec.clone().into())
    }

    fn traits(&self) -> Traits {
        Traits::NO_GRADIENT.moves()
    }

    fn reference(&self, _inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let count = outputs[0].shape.elements()?;
        let value = self.value.cast(self.spec.dtype);
        let values = match value {
            Scalar::Float(value) => Values::Float(vec![value; count]),
            value => Values::Int(vec![value.as_i128(); count]),
        };
        Ok(vec![RefTensor { spec: outputs[0].clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::ALL {
            for shape in [Shape::empty(), Shape::from([3, 5]), Shape::from([0, 2])] {
                cases.push(Case::new(Fill { spec: TensorSpec::new(shape, dtype), value: Scalar::Float(3.7) }));
            }
        }
        for value in [f64::NAN, f64::NEG_INFINITY, -0.0, 1e300] {
            cases.push(Case::new(Fill { spec: TensorSpec::new([4], DType::F32), value: Scalar::Float(value) }));
        }
        cases
    }
}

/// `start + i * step` for `i` in `0..len`, computed in the dtype's accumulation type (f64, or wrapping integers).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Arange {
    /// The first value.
    pub start: Scalar,
    /// The distance of neighbours.
    pub step: Scalar,
    /// How many.
    pub len: usize,
    /// The result's dtype.
    pub dtype: DType,
}

impl Rule for Arange {
    fn name(&self) -> &'static str {
        "arange"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        operands::<0>(inputs)?;
        if self.dtype == DType::Bool {
            return Err(Error::dtype("a range of bools makes no sense"));
        }
        let spec = TensorSpec::new([self.len], self.dtype);
        spec.shape.bytes(self.dtype)?;
        Ok(spec.into())
    }

    fn reference(&self, _inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let shape = outputs[0].shape.clone();
        Ok(vec![match self.dtype.is_float() {
            true => {
                let (start, step) = (self.start.as_f64(), self.step.as_f64());
                RefTensor::float(shape, self.dtype, (0..self.len).map(|i| start + i as f64 * step).collect())
            }
            false => {
                let (start, step) = (self.start.as_i128(), self.step.as_i128());
                let values = (0..self.len as i128).map(|i| start.wrapping_add(i.wrapping_mul(step))).collect();
                RefTensor::int(shape, self.dtype, values)
            }
        }])
    }

    fn cases() -> Vec<Case> {
        let arange = |start: Scalar, step: Scalar, len, dtype| Case::new(Arange { start, step, len, dtype });
        let mut cases = vec![
            arange(0.5.into(), (-0.25).into(), 7, DType::F32),
            arange(1.0.into(), 1e-3.into(), 1000, DType::F64),
            arange(250.into(), 3.into(), 5, DType::U8),
        ];
        for dtype in DType::FLOATS.into_iter().chain(DType::INTS) {
            cases.push(arange(0.into(), 1.into(), 9, dtype));
            cases.push(arange(3.into(), 2.into(), 0, dtype));
        }
        cases
    }
}

impl Tensor {
    /// A tensor with one value everywhere, cast to `dtype`.
    ///
    /// # Errors
    /// Where the size overflows or memory cannot be had.
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>, dtype: DType, device: &Device) -> Result<Tensor> {
        run::create(Fill { spec: TensorSpec::new(shape, dtype), value: value.into() }, device)
    }

    /// Zeros.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn zeros(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::full(shape, 0, dtype, device)
    }

    /// Ones.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn ones(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::full(shape, 1, dtype, device)
    }

    /// A tensor like this one (shape, dtype, device) with one value everywhere.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full(self.shape(), value, self.dtype(), self.device())
    }

    /// Zeros like this tensor.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn zeros_like(&self) -> Result<Tensor> {
        self.full_like(0)
    }

    /// Ones like this tensor.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn ones_like(&self) -> Result<Tensor> {
        self.full_like(1)
    }

    /// `start`, `start + step`, … below (or, for a negative step, above) `end`: shape `[ceil((end - start) / step)]`.
    ///
    /// # Errors
    /// Where the step is 0 or not finite, or the length overflows.
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        let len = arange_len(start, end, step).map_err(|e| e.with_op("arange", &[]))?;
        run::create(Arange { start, step, len, dtype }, device)
    }

    /// `count` values from `start` to `end`, both included.
    ///
    /// # Errors
    /// Where the dtype is not floating point.
    pub fn linspace(start: f64, end: f64, count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
        if !dtype.is_float() {
            return Err(Error::dtype(format!("needs a floating-point dtype, got {dtype}")).with_op("linspace", &[]));
        }
        let step = if count > 1 { (end - start) / (count - 1) as f64 } else { 0.0 };
        run::create(Arange { start: start.into(), step: step.into(), len: count, dtype }, device)
    }

    /// The identity matrix `[rows, columns]`: 1 on the diagonal, 0 elsewhere.
    ///
    /// # Errors
    /// Where the size overflows.
    pub fn eye(rows: usize, columns: usize, dtype: DType, device: &Device) -> Result<Tensor> {
        let index = |len: usize| Tensor::arange(0, len, 1, device.default_int(), device);
        index(rows)?.unsqueeze(1)?.eq(&index(columns)?)?.cast(dtype)
    }
}

fn arange_len(start: Scalar, end: Scalar, step: Scalar) -> Result<usize> {
    let float = [start, end, step].iter().any(|s| matches!(s, Scalar::Float(_)));
    let bad = |why: &str| Error::value(format!("range from {start} to {end} by {step}: {why}"));
    if float {
        let (start, end, step) = (start.as_f64(), end.as_f64(), step.as_f64());
        let len = ((end - start) / step).ceil();
        return match len {
            _ if step == 0.0 => Err(bad("the step is 0")),
            len if len.is_nan() || len >= isize::MAX as f64 => Err(bad("not finite")),
            len => Ok(len.max(0.0) as usize),
        };
    }
    let (start, end, step) = (start.as_i128(), end.as_i128(), step.as_i128());
    if step == 0 {
        return Err(bad("the step is 0"));
    }
    let span = if step > 0 { end - start } else { start - end };
    let len = (span + step.abs() - 1).div_euclid(step.abs());
    usize::try_from(len.max(0)).map_err(|_| bad("too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_lengths() {
        let len = |a: Scalar, b: Scalar, c: Scalar| arange_len(a, b, c);
        assert_eq!(len(0.into(), 10.into(), 3.into()).unwrap(), 4);
        assert_eq!(len(10.into(), 0.into(), (-3).into()).unwrap(), 4);
        assert_eq!(len(0.into(), (-1).into(), 1.into()).unwrap(), 0);
        assert_eq!(len(0.into(), 1.0.into(), 0.25.into()).unwrap(), 4);
        assert!(len(0.into(), 1.into(), 0.into()).is_err());
        assert!(len(0.into(), f64::INFINITY.into(), 1.into()).is_err());
        assert!(len(0.into(), f64::NAN.into(), 1.into()).is_err());
    }
}
