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

/// A convolution (cross-correlation): x `[batch, inputs, …N]` with a weight `[outputs, inputs / groups, kernel…]`.
/// Where `TRANSPOSED`, the gradient of one as a layer, with a weight `[inputs, outputs / groups, kernel…]`.
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
pub struct Conv<const N: usize, const TRANSPOSED: bool = false> {
    weight: Param,
    bias: Option<Param>,
    options: ConvOptions,
}

/// A convolution over one axis.
pub type Conv1d = Conv<1>;
/// A convolution over two axes.
pub type Conv2d = Conv<2>;
/// A convolution over three axes.
pub type Conv3d = Conv<3>;
/// A transposed convolution.
pub type ConvTranspose<const N: usize> = Conv<N, true>;
/// A transposed convolution over one axis.
pub type ConvTranspose1d = ConvTranspose<1>;
/// A transposed convolution over two axes.
pub type ConvTranspose2d = ConvTranspose<2>;
/// A transposed convolution over three axes.
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize, const TRANSPOSED: bool> Conv<N, TRANSPOSED> {
    /// A layer whose weight and bias begin uniform in ±1/√(the weight's size without its first axis).
    ///
    /// # Errors
    /// Where the groups do not divide the channels, the dtype is not floating point, output padding is asked of a
    /// convolution that is not transposed, or memory cannot be had.
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: [usize; N],
        config: ConvConfig<N>,
        place: impl Into<Place>,
    ) -> Result<Self> {
        config.check(inputs, outputs)?;
        if !TRANSPOSED && config.output_padding != [0; N] {
            return Err(Error::value("only transposed convolutions have output padding"));
        }
        let place = place.into();
        let (first, second) = if TRANSPOSED { (inputs, outputs) } else { (outputs, inputs) };
        let shape: Shape = [first, second / config.groups].into_iter().chain(kernel).collect();
        let (fan_in, _) = fans(&shape)?;
        let weight = Init::weight().param(shape, &place)?;
        let bias = if config.bias { Some(bias(fan_in, outputs, &place)?) } else { None };
        Ok(Conv { weight, bias, options: config.options() })
    }

    /// The weight.
    pub fn weight(&self) -> &Param {
        &self.weight
    }

    /// The bias, where there is one.
    pub fn bias(&self) -> Option<&Param> {
        self.bias.as_ref()
    }
}

impl<const N: usize, const TRANSPOSED: bool> Module for Conv<N, TRANSPOSED> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)?;
        visitor.part("bias", &self.bias)
    }
}

impl<const N: usize, const TRANSPOSED: bool> Forward for Conv<N, TRANSPOSED> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.rank() != N + 2 {
            return Err(Error::shape(format!(
                "a convolution over {N} axes takes [batch, channels, …] of rank {}, got {}",
                N + 2,
                x.shape()
            )));
        }
        let (weight, bias) = (self.weight.value()?, optional(&self.bias)?);
        match TRANSPOSED {
            true => x.conv_transpose(&weight, bias.as_ref(), &self.options),
            false => x.conv(&weight, bias.as_ref(), &self.options),
        }
    }
}
