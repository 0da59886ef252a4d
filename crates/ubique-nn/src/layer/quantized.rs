//! Layers with quantised weights, for inference.

use ubique_core::op::quantized::Scheme;
use ubique_core::{QTensor, Result, Tensor, TensorSpec};

use super::Linear;
use crate::module::{Forward, Module, Visitor};
use crate::param::Buffer;

/// A fully connected layer whose weight is kept as 8-bit or 4-bit integers. It is not trained, and checkpoints hold the
/// integers.
///
/// ```
/// use ubique_core::{DType, Device, Tensor, op::quantized::Scheme};
/// use ubique_nn::{Forward, Linear};
/// # use ubique_flex as _;
///
/// let device = Device::new("flex")?;
/// let layer = Linear::new(64, 16, &device)?;
/// let small = layer.quantize(Scheme::q8().blocks(32))?;
/// let x = Tensor::uniform([3, 64], -1.0, 1.0, DType::F32, &device)?;
/// let off = (layer.forward(&x)? - small.forward(&x)?).tensor()?.max_abs(&[0, 1])?.item::<f32>()?;
/// assert!(off < 0.01);
/// # Ok::<(), ubique_core::Error>(())
/// ```
#[derive(Debug)]
pub struct QuantizedLinear {
    values: Buffer,
    scales: Buffer,
    zero_points: Option<Buffer>,
    bias: Option<Buffer>,
    scheme: Scheme,
    /// Shape and dtype of the weight that the integers stand for.
    spec: TensorSpec,
}

impl QuantizedLinear {
    /// A layer of a quantised weight `[outputs, inputs]` and a bias `[outputs]` of the weight's dtype.
    pub fn new(weight: &QTensor, bias: Option<Tensor>) -> QuantizedLinear {
        QuantizedLinear {
            values: Buffer::new(weight.values().clone()),
            scales: Buffer::new(weight.scales().clone()),
            zero_points: weight.zero_points().cloned().map(Buffer::new),
            bias: bias.map(Buffer::new),
            scheme: weight.scheme(),
            spec: TensorSpec::new(weight.shape(), weight.dtype()),
        }
    }

    /// The weight.
    ///
    /// # Errors
    /// Where its parts are on different devices.
    pub fn weight(&self) -> Result<QTensor> {
        let zero_points = self.zero_points.as_ref().map(Buffer::value);
        QTensor::from_parts(self.values.value(), self.scales.value(), zero_points, self.scheme, self.spec.clone())
    }
}

impl Linear {
    /// The same layer with its weight as it is now quantised, for inference.
    ///
    /// # Errors
    /// As [`Tensor::quantize`].
    pub fn quantize(&self, scheme: Scheme) -> Result<QuantizedLinear> {
        let bias = super::optional(&self.bias)?;
        Ok(QuantizedLinear::new(&self.weight.value()?.quantize(scheme)?, bias))
    }
}

impl Module for QuantizedLinear {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("values", &self.values)?;
        visitor.part("scales", &self.scales)?;
        visitor.part("zero_points", &self.zero_points)?;
        visitor.part("bias", &self.bias)
    }
}

impl Forward for QuantizedLinear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight()?.linear(x, self.bias.as_ref().map(Buffer::value).as_ref())
    }
}
