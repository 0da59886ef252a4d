//! Quantised tensors as users hold them: ordinary tensors for integers, scales and zero points, and what they stand for.

use crate::dispatch::{Device, run};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::op::lanes::accumulator;
use crate::op::quantized::Scheme;
use crate::op::quantized::dequantize::Dequantize;
use crate::op::quantized::linear::QuantizedLinear;
use crate::op::quantized::quantize::Quantize;
use crate::op::require_float;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// A tensor of 8-bit or 4-bit integers that stand for floats: x ≈ (q − z)·s.
///
/// ```
/// use ubique_core::op::quantized::Scheme;
/// # use ubique_core::{Device, Result, Tensor};
/// # fn example(device: &Device) -> Result<()> {
/// let weight = Tensor::uniform([128, 64], -1.0, 1.0, ubique_core::DType::F32, device)?;
/// let small = weight.quantize(Scheme::q4().blocks(32))?;
/// assert_eq!(small.bytes(), 128 * 64 / 2 + 128 * 2 * 4);
/// let x = Tensor::uniform([3, 64], -1.0, 1.0, ubique_core::DType::F32, device)?;
/// let y = small.linear(&x, None)?;
/// assert_eq!(y.shape(), &[3, 128]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QTensor {
    values: Tensor,
    scales: Tensor,
    zero_points: Option<Tensor>,
    scheme: Scheme,
    spec: TensorSpec,
}

impl QTensor {
    /// Puts together what [`QTensor::values`], [`QTensor::scales`] and [`QTensor::zero_points`] give; `spec` is the shape
    /// and dtype of the floats.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit the scheme.
    pub fn from_parts(
        values: Tensor,
        scales: Tensor,
        zero_points: Option<Tensor>,
        scheme: Scheme,
        spec: TensorSpec,
    ) -> Result<QTensor> {
        let quantized = QTensor { values, scales, zero_points, scheme, spec };
        let parts = quantized.parts();
        if let Some(other) = parts.iter().find(|part| part.device() != quantized.device()) {
            return Err(Error::device(format!("parts are on {} and {}", quantized.device(), other.device())));
        }
        let specs: Vec<TensorSpec> = parts.iter().map(|part| part.spec()).collect();
        Op::Dequantize(quantized.dequantize_op()).infer(&specs)?;
        Ok(quantized)
    }

    /// The integers: i8 in the floats' shape, or two 4-bit ones in each u8 of `[.., ⌈n/2⌉]`.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The scales: of rank 0, or `[.., blocks]`; f32, for f64 f64.
    pub fn scales(&self) -> &Tensor {
        &self.scales
    }

    /// The zero points (i8, as many as scales) of an affine scheme.
    pub fn zero_points(&self) -> Option<&Tensor> {
        self.zero_points.as_ref()
    }

    /// How the floats became integers.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The floats' shape.
    pub fn shape(&self) -> &Shape {
        &self.spec.shape
    }

    /// The floats' dtype.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Where the parts are.
    pub fn device(&self) -> &Device {
        self.values.device()
    }

    /// How many bytes integers, scales and zero points take.
    pub fn bytes(&self) -> usize {
        self.parts().iter().map(|part| part.elements() * part.dtype().size()).sum()
    }

    /// The floats that the integers stand for. Differentiable in the scales.
    ///
    /// # Errors
    /// Where memory cannot be had.
    pub fn dequantize(&self) -> Result<Tensor> {
        run::call_list(Op::Dequantize(self.dequantize_op()), &self.parts())
    }

    /// The same on another device.
    ///
    /// # Errors
    /// As [`Tensor::to_device`].
    pub fn to_device(&self, device: &Device) -> Result<QTensor> {
        let zero_points = self.zero_points.as_ref().map(|tensor| tensor.to_device(device)).transpose()?;
        Ok(QTensor {
            values: self.values.to_device(device)?,
            scales: self.scales.to_device(device)?,
            zero_points,
            ..self.clone()
        })
    }

    /// A fully connected layer with this weight `[outputs, inputs]`: x·Wᵀ + b for x `[.., inputs]` of this tensor's dtype
    /// and b `[outputs]`; gives `[.., outputs]`. The weight is not made floats as a whole where the device can do without.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit, or the weight has another rank than 2.
    pub fn linear(&self, x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let [outputs, inputs] = **self.shape() else {
            return Err(Error::shape(format!("a weight has to be [outputs, inputs], got {}", self.shape())));
        };
        if x.dtype() != self.dtype() || x.shape().last() != Some(&inputs) {
            let wanted = format!("takes {} of [.., {inputs}], got {}", self.dtype(), x.spec());
            return Err(Error::shape(wanted).with_op("quantized_linear", &[x.spec(), self.spec.clone()]));
        }
        let op = Op::QuantizedLinear(QuantizedLinear { scheme: self.scheme, outputs });
        let operands: Vec<&Tensor> = [x].into_iter().chain(self.parts()).collect();
        let product = run::call_list(op, &operands)?;
        match bias {
            Some(bias) => (product + bias).tensor(),
            None => Ok(product),
        }
    }

    /// The matrix product with another quantised tensor, as [`Tensor::matmul`] of the floats that both stand for.
    ///
    /// # Errors
    /// As [`Tensor::matmul`].
    pub fn matmul(&self, other: &QTensor) -> Result<Tensor> {
        self.dequantize()?.matmul(&other.dequantize()?)
    }

    fn parts(&self) -> Vec<&Tensor> {
        [&self.values, &self.scales].into_iter().chain(&self.zero_points).collect()
    }

    fn dequantize_op(&self) -> Dequantize {
        Dequantize { scheme: self.scheme, spec: self.spec.clone() }
    }
}

impl Tensor {
    /// This tensor as integers, with scales chosen from its values: the largest magnitude, or for an affine scheme the range
    /// including 0, of each block. Floats only. A block with a NaN or an infinity becomes NaN. Not differentiable; see
    /// [`Tensor::fake_quantize`].
    ///
    /// # Errors
    /// Where the scheme does not fit the shape, or the dtype is not floating point.
    pub fn quantize(&self, scheme: Scheme) -> Result<QTensor> {
        let (scales, zero_points) =
            chosen(&self.detach(), scheme).map_err(|e| e.with_op("quantize", &[self.spec()]))?;
        self.quantize_with(scheme, &scales, zero_points.as_ref())
    }

    /// This tensor as integers with given scales and, for an affine scheme, zero points, such as were found on other data.
    /// What lies beyond the range goes to its ends, NaN becomes 0.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit the scheme.
    pub fn quantize_with(&self, scheme: Scheme, scales: &Tensor, zero_points: Option<&Tensor>) -> Result<QTensor> {
        let operands: Vec<&Tensor> = [self, scales].into_iter().chain(zero_points).collect();
        let values = run::call_list(Op::Quantize(Quantize { scheme }), &operands)?;
        let (scales, zero_points) = (scales.clone(), zero_points.cloned());
        Ok(QTensor { values, scales, zero_points, scheme, spec: self.spec() })
    }

    /// What is left of this tensor after [`Tensor::quantize`] and [`QTensor::dequantize`], with the gradient of the identity,
    /// so that a network can be trained for being quantised (Bengio et al. 2013, the straight-through estimator).
    ///
    /// # Errors
    /// As [`Tensor::quantize`].
    pub fn fake_quantize(&self, scheme: Scheme) -> Result<Tensor> {
        let left = self.quantize(scheme)?.dequantize()?;
        // Adds exactly 0, with the gradient of this tensor.
        (left + (self - self.detach())).tensor()
    }
}

/// Scales and zero points for a tensor's own values.
fn chosen(x: &Tensor, scheme: Scheme) -> Result<(Tensor, Option<Tensor>)> {
    require_float(&x.spec())?;
    let shape = scheme.scales(x.shape())?;
    let x = x.cast(accumulator(x.dtype()))?;
    if x.elements() == 0 {
        let zero_points = || Tensor::zeros(&shape, DType::I8, x.device());
        return Ok((Tensor::zeros(&shape, x.dtype(), x.device())?, scheme.affine.then(zero_points).transpose()?));
    }
    // Rows of what shares a scale. Zeros that fill up the last block change no range, which has 0 in it anyway.
    let rows = match scheme.block {
        None => x.reshape([1, x.elements()])?,
        Some(block) => {
            let columns = x.shape()[x.rank() - 1];
            let missing = columns.div_ceil(block) * block - columns;
            x.pad_axis(-1, 0, missing, 0)?.reshape([shape.elements()?, block])?
        }
    };
    let (low, high) = (f64::from(scheme.range().0), f64::from(scheme.range().1));
    if !scheme.affine {
        return Ok(((rows.max_abs(&[1])? / high).tensor()?.reshape(shape)?, None));
    }
    let (smallest, largest) = (rows.min(&[1])?.minimum(0.0)?, rows.max(&[1])?.maximum(0.0)?);
    let steps = high - low;
    // Divided first, because the difference could overflow.
    let scales = (largest / steps - &smallest / steps).tensor()?;
    let zero_points = (low - smallest / &scales).tensor()?.round()?.clamp(low, high)?.cast(DType::I8)?;
    Ok((scales.reshape(&shape)?, Some(zero_points.reshape(shape)?)))
}
