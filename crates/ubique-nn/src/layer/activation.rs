//! Activations as values, to choose them at run time, and the one that is trained.

use ubique_core::{Error, Result, Tensor};

use crate::init::{Init, Place};
use crate::module::{Forward, Module, Visitor};
use crate::param::Param;

/// An activation without parameters of its own. Where the choice is fixed, `Sequential::apply(Tensor::relu)` says the same.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the tensor method of the same name")]
pub enum Activation {
    Relu,
    LeakyRelu { slope: f64 },
    Elu { alpha: f64 },
    Celu { alpha: f64 },
    Selu,
    Gelu,
    GeluTanh,
    Silu,
    Mish,
    Softplus,
    Sigmoid,
    LogSigmoid,
    HardSigmoid,
    Tanh,
    Softmax { axis: isize },
    LogSoftmax { axis: isize },
    Glu { axis: isize },
}

/// The activations that a name alone says, with the usual constants.
const NAMED: [(&str, Activation); 15] = [
    ("relu", Activation::Relu),
    ("leaky_relu", Activation::LeakyRelu { slope: 0.01 }),
    ("elu", Activation::Elu { alpha: 1.0 }),
    ("celu", Activation::Celu { alpha: 1.0 }),
    ("selu", Activation::Selu),
    ("gelu", Activation::Gelu),
    ("gelu_tanh", Activation::GeluTanh),
    ("silu", Activation::Silu),
    ("mish", Activation::Mish),
    ("softplus", Activation::Softplus),
    ("sigmoid", Activation::Sigmoid),
    ("log_sigmoid", Activation::LogSigmoid),
    ("hard_sigmoid", Activation::HardSigmoid),
    ("tanh", Activation::Tanh),
    ("glu", Activation::Glu { axis: -1 }),
];

impl std::str::FromStr for Activation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Activation> {
        NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, activation)| activation).ok_or_else(|| {
            let known = NAMED.map(|(known, _)| known).join(", ");
            Error::value(format!("unknown activation {name:?}; known are {known}"))
        })
    }
}

impl Module for Activation {
    fn visit(&self, _: &mut Visitor<'_>) -> Result<()> {
        Ok(())
    }
}

impl Forward for Activation {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match *self {
            Activation::Relu => x.relu(),
            Activation::LeakyRelu { slope } => x.leaky_relu(slope),
            Activation::Elu { alpha } => x.elu(alpha),
            Activation::Celu { alpha } => x.celu(alpha),
            Activation::Selu => x.selu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
            Activation::Mish => x.mish(),
            Activation::Softplus => x.softplus(),
            Activation::Sigmoid => x.sigmoid(),
            Activation::LogSigmoid => x.log_sigmoid(),
            Activation::HardSigmoid => x.hard_sigmoid(),
            Activation::Tanh => x.tanh(),
            Activation::Softmax { axis } => x.softmax(axis),
            Activation::LogSoftmax { axis } => x.log_softmax(axis),
            Activation::Glu { axis } => x.glu(axis),
        }
    }
}

/// ReLU with a trained slope below 0 (He et al. 2015): see [`Tensor::prelu`].
#[derive(Debug)]
pub struct PRelu {
    /// The slope: one element, or one for each channel of `[N, C, …]`; begins at 0.25.
    pub weight: Param,
}

impl PRelu {
    /// A layer with one slope (`slopes` 1), or one for each of so many channels.
    ///
    /// # Errors
    /// Where the dtype is not floating point or memory cannot be had.
    pub fn new(slopes: usize, place: impl Into<Place>) -> Result<PRelu> {
        Ok(PRelu { weight: Init::Constant(0.25).param([slopes], place)? })
    }
}

impl Module for PRelu {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)
    }
}

impl Forward for PRelu {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.prelu(&self.weight.value()?)
    }
}
