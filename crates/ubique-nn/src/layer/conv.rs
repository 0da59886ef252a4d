//! Convolutions of any number of spatial axes.

use ubique_core::op::conv::ConvOptions;
use ubique_core::{Error, Result, Shape, Tensor};

use super::linear::bias;
use super::optional;
use crate::init::{Init, Place, fans};
use crate::module::{Forward, Module, Visitor};
use crate::param::Param;

/// How a kernel of `N` axes moves, and what else a convolution has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvConfig<const N: usize> {
    /// The distance of neighbouring windows.
    pub stride: [usize; N],
    /// Zeros put on both sides (for transposed convolutions: results cut from both sides).
    pub padding: [usize; N],
    /// The distance of the kernel's taps.
    pub dilation: [usize; N],
    /// More results at the far side, of transposed convolutions only.
    pub output_padding: [usize; N],
    /// Into how many groups, unconnected to each other, the channels are divided.
    pub groups: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

impl<const N: usize> Default for ConvConfig<N> {
    fn default() -> ConvConfig<N> {
        ConvConfig { stride: [1; N], padding: [0; N], dilation: [1; N], output_padding: [0; N], groups: 1, bias: true }
    }
}

impl<const N: usize> ConvConfig<N> {
    fn options(&self) -> ConvOptions {
        let options = ConvOptions::new().stride(self.stride).padding(self.padding).dilation(self.dilation);
        options.output_padding(self.output_padding).groups(self.groups)
    }

    /// Refuses channels that the groups do not divide.
    fn check(&self, inputs: usize, outputs: usize) -> Result<()> {
        if self.groups > 0 && inputs.is_multiple_of(self.groups) && outputs.is_multiple_of(self.groups) {
            return Ok(());
        }
        Err(Error::value(format!("{inputs} to {outputs} channels cannot be divided into {} groups", self.groups)))
    }
}

/// Weight and bias of a convolution in either direction.
#[derive(Debug)]
struct Kernel<const N: usize> {
    weight: Param,
    bias: Option<Param>,
    options: ConvOptions,
}

impl<const N: usize> Kernel<N> {
    fn new(shape: [usize; 2], kernel: [usize; N], outputs: usize, config: ConvConfig<N>, place: Place) -> Result<Self> {
        let shape: Shape = shape.into_iter().chain(kernel).collect();
        let (inputs, _) = fans(&shape)?;
        let weight = Init::weight().param(shape, &place)?;
        let bias = if config.bias { Some(bias(inputs, outputs, &place)?) } else { None };
        Ok(Kernel { weight, bias, options: config.options() })
    }

    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)?;
        visitor.part("bias", &self.bias)
    }
}

/// Refuses anything but `[batch, channels, N spatial axes]`.
fn require_rank<const N: usize>(x: &Tensor) -> Result<()> {
    if x.rank() == N + 2 {
        return Ok(());
    }
    Err(Error::shape(format!(
        "a convolution over {N} axes takes [batch, channels, …] of rank {}, got {}",
        N + 2,
        x.shape()
    )))
}

/// A convolution (cross-correlation): x `[batch, inputs, …N]` with a weight `[outputs, inputs / groups, kernel…]`.
///
/// ```
/// # use ubique_core::{DType, Device, Tensor};
/// # use ubique_nn::{Conv2d, ConvConfig, Forward};
/// # use ubique_flex as _;
/// let device = Device::new("flex")?.autodiff();
/// let conv = Conv2d::new(3, 8, [3, 3], ConvConfig { padding: [1, 1], stride: [2, 2], ..Default::default() }, &device)?;
/// let y = conv.forward(&Tensor::ones([1, 3, 32, 32], DType::F32, &device)?)?;
/// assert_eq!(*y.shape(), [1, 8, 16, 16]);
/// # Ok::<(), ubique_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Conv<const N: usize>(Kernel<N>);

/// A convolution over one axis.
pub type Conv1d = Conv<1>;
/// A convolution over two axes.
pub type Conv2d = Conv<2>;
/// A convolution over three axes.
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// A layer whose weight and bias begin uniform in ±1/√(inputs of each output).
    ///
    /// # Errors
    /// Where the groups do not divide the channels, the dtype is not floating point, or memory cannot be had.
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: [usize; N],
        config: ConvConfig<N>,
        place: impl Into<Place>,
    ) -> Result<Self> {
        config.check(inputs, outputs)?;
        if config.output_padding != [0; N] {
            return Err(Error::value("only transposed convolutions have output padding"));
        }
        Ok(Conv(Kernel::new([outputs, inputs / config.groups], kernel, outputs, config, place.into())?))
    }

    /// The weight.
    pub fn weight(&self) -> &Param {
        &self.0.weight
    }

    /// The bias, where there is one.
    pub fn bias(&self) -> Option<&Param> {
        self.0.bias.as_ref()
    }
}

impl<const N: usize> Module for Conv<N> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        self.0.visit(visitor)
    }
}

impl<const N: usize> Forward for Conv<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        require_rank::<N>(x)?;
        x.conv(&self.0.weight.value()?, optional(&self.0.bias)?.as_ref(), &self.0.options)
    }
}

/// A transposed convolution, the gradient of a convolution as a layer: x `[batch, inputs, …N]` with a weight
/// `[inputs, outputs / groups, kernel…]`.
#[derive(Debug)]
pub struct ConvTranspose<const N: usize>(Kernel<N>);

/// A transposed convolution over one axis.
pub type ConvTranspose1d = ConvTranspose<1>;
/// A transposed convolution over two axes.
pub type ConvTranspose2d = ConvTranspose<2>;
/// A transposed convolution over three axes.
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    /// A layer whose weight and bias begin uniform in ±1/√(outputs of each group · kernel size).
    ///
    /// # Errors
    /// As [`Conv::new`].
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: [usize; N],
        config: ConvConfig<N>,
        place: impl Into<Place>,
    ) -> Result<Self> {
        config.check(inputs, outputs)?;
        Ok(ConvTranspose(Kernel::new([inputs, outputs / config.groups], kernel, outputs, config, place.into())?))
    }

    /// The weight.
    pub fn weight(&self) -> &Param {
        &self.0.weight
    }

    /// The bias, where there is one.
    pub fn bias(&self) -> Option<&Param> {
        self.0.bias.as_ref()
    }
}

impl<const N: usize> Module for ConvTranspose<N> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        self.0.visit(visitor)
    }
}

impl<const N: usize> Forward for ConvTranspose<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        require_rank::<N>(x)?;
        x.conv_transpose(&self.0.weight.value()?, optional(&self.0.bias)?.as_ref(), &self.0.options)
    }
}
