//! Fully connected layers and tables of vectors.

use ubique_core::{Result, Tensor};

use super::optional;
use crate::init::{Init, Place};
use crate::module::{Forward, Module, Visitor};
use crate::param::Param;

/// A fully connected layer: `x · Wᵀ + b`, x `[.., inputs]`, W `[outputs, inputs]`, b `[outputs]`.
#[derive(Debug)]
pub struct Linear {
    /// W.
    pub weight: Param,
    /// b.
    pub bias: Option<Param>,
}

impl Linear {
    /// A layer whose weight and bias begin uniform in ±1/√inputs.
    ///
    /// # Errors
    /// Where the dtype is not floating point or memory cannot be had.
    pub fn new(inputs: usize, outputs: usize, place: impl Into<Place>) -> Result<Linear> {
        let place = place.into();
        let linear = Linear::without_bias(inputs, outputs, &place)?;
        Ok(Linear { bias: Some(bias(inputs, outputs, &place)?), ..linear })
    }

    /// A layer without b.
    ///
    /// # Errors
    /// As [`Linear::new`].
    pub fn without_bias(inputs: usize, outputs: usize, place: impl Into<Place>) -> Result<Linear> {
        Ok(Linear { weight: Init::weight().param([outputs, inputs], place)?, bias: None })
    }
}

/// A bias of `outputs` values in ±1/√inputs, where each output has that many inputs.
pub(super) fn bias(inputs: usize, outputs: usize, place: &Place) -> Result<Param> {
    let bound = if inputs == 0 { 0.0 } else { 1.0 / (inputs as f64).sqrt() };
    Init::Uniform { bound }.param([outputs], place)
}

impl Module for Linear {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)?;
        visitor.part("bias", &self.bias)
    }
}

impl Forward for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.linear(&self.weight.value()?, optional(&self.bias)?.as_ref())
    }
}

/// A table of vectors: from indices (i64 or i32) of any shape to `[.., width]`.
#[derive(Debug)]
pub struct Embedding {
    /// The table `[count, width]`.
    pub weight: Param,
}

impl Embedding {
    /// A table of `count` vectors that begin with the standard normal distribution.
    ///
    /// # Errors
    /// Where the dtype is not floating point or memory cannot be had.
    pub fn new(count: usize, width: usize, place: impl Into<Place>) -> Result<Embedding> {
        Ok(Embedding { weight: Init::Normal { std: 1.0 }.param([count, width], place)? })
    }
}

impl Module for Embedding {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)
    }
}

impl Forward for Embedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.value()?.embedding(x)
    }
}
