//! First values of parameters, drawn from the device's own random stream: the same seed gives the same model on every
//! device.

use ubique_core::{DType, Device, Error, Result, Shape, Tensor};

use crate::param::Param;

/// Where parameters are made, and of which dtype: a device (with its default float dtype), or a device and a dtype.
#[derive(Clone, Debug)]
pub struct Place {
    /// The device.
    pub device: Device,
    /// The parameters' dtype.
    pub dtype: DType,
}

impl From<&Device> for Place {
    fn from(device: &Device) -> Place {
        Place { dtype: device.info().default_float, device: device.clone() }
    }
}

impl From<(&Device, DType)> for Place {
    fn from((device, dtype): (&Device, DType)) -> Place {
        Place { device: device.clone(), dtype }
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Place {
        place.clone()
    }
}

/// Which way the variance of signals is to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fan {
    /// Forward: by the number of inputs of each output.
    In,
    /// Backward: by the number of outputs of each input.
    Out,
}

/// How a parameter begins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Init {
    /// One value everywhere.
    Constant(f64),
    /// Uniform in `[-bound, bound)`.
    Uniform {
        /// The largest magnitude.
        bound: f64,
    },
    /// Normal with mean 0.
    Normal {
        /// The standard deviation.
        std: f64,
    },
    /// Uniform with standard deviation `gain / √fan` (He et al. 2015).
    KaimingUniform {
        /// √2 for ReLU; see [`gain`].
        gain: f64,
        /// Which way.
        fan: Fan,
    },
    /// Normal with standard deviation `gain / √fan` (He et al. 2015).
    KaimingNormal {
        /// √2 for ReLU; see [`gain`].
        gain: f64,
        /// Which way.
        fan: Fan,
    },
    /// Uniform with standard deviation `gain · √(2 / (fan in + fan out))` (Glorot and Bengio 2010).
    XavierUniform {
        /// 1 for none or sigmoid, 5/3 for tanh.
        gain: f64,
    },
    /// Normal with standard deviation `gain · √(2 / (fan in + fan out))` (Glorot and Bengio 2010).
    XavierNormal {
        /// 1 for none or sigmoid, 5/3 for tanh.
        gain: f64,
    },
}

/// The gain of a leaky ReLU with the given slope below 0 (0 for plain ReLU): `√(2 / (1 + slope²))`.
pub fn gain(slope: f64) -> f64 {
    (2.0 / (1.0 + slope * slope)).sqrt()
}

/// Inputs of each output and outputs of each input, of a weight `[outputs, inputs, kernel…]`.
///
/// # Errors
/// Where the shape has fewer than two axes.
pub fn fans(shape: &Shape) -> Result<(usize, usize)> {
    match &shape[..] {
        [outputs, inputs, kernel @ ..] => {
            let size: usize = kernel.iter().product();
            Ok((inputs.saturating_mul(size), outputs.saturating_mul(size)))
        }
        _ => Err(Error::shape(format!("a weight of shape {shape} has no inputs and outputs; it needs two axes"))),
    }
}

impl Init {
    /// What the well-known frameworks begin fully connected and convolution weights with: uniform in ±1/√fan in.
    pub fn weight() -> Init {
        Init::KaimingUniform { gain: gain(5f64.sqrt()), fan: Fan::In }
    }

    /// A tensor of first values.
    ///
    /// # Errors
    /// Where the shape has no fans that the method needs, a bound is not finite, or memory cannot be had.
    pub fn tensor(self, shape: impl Into<Shape>, place: impl Into<Place>) -> Result<Tensor> {
        let (shape, Place { device, dtype }) = (shape.into(), place.into());
        let uniform = |bound: f64| match bound {
            // The range [0, 0) has no numbers in it.
            0.0 => Tensor::zeros(&shape, dtype, &device),
            bound => Tensor::uniform(&shape, -bound, bound, dtype, &device),
        };
        let normal = |std: f64| Tensor::normal(&shape, 0.0, std, dtype, &device);
        let kaiming = |gain: f64, fan: Fan| -> Result<f64> {
            let (inputs, outputs) = fans(&shape)?;
            Ok(gain * root_of_share(1.0, if fan == Fan::In { inputs } else { outputs }))
        };
        let xavier = |gain: f64| fans(&shape).map(|(i, o)| gain * root_of_share(2.0, i.saturating_add(o)));
        let root_3 = 3f64.sqrt();
        match self {
            Init::Constant(value) => Tensor::full(&shape, value, dtype, &device),
            Init::Uniform { bound } => uniform(bound),
            Init::Normal { std } => normal(std),
            Init::KaimingUniform { gain, fan } => uniform(root_3 * kaiming(gain, fan)?),
            Init::KaimingNormal { gain, fan } => normal(kaiming(gain, fan)?),
            Init::XavierUniform { gain } => uniform(root_3 * xavier(gain)?),
            Init::XavierNormal { gain } => normal(xavier(gain)?),
        }
    }

    /// A parameter with such values.
    ///
    /// # Errors
    /// As [`Init::tensor`], and for a dtype that is not floating point.
    pub fn param(self, shape: impl Into<Shape>, place: impl Into<Place>) -> Result<Param> {
        Param::new(self.tensor(shape, place)?)
    }
}

/// `√(share / count)`, and 0 for a count of 0, where there is nothing to draw.
fn root_of_share(share: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { (share / count as f64).sqrt() }
}
