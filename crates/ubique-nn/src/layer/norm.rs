//! Normalisation layers.

use ubique_core::op::batch_norm::BatchNormed;
use ubique_core::{DType, Error, Result, Shape, Tensor};

use super::optional;
use crate::init::{Init, Place};
use crate::module::{Forward, Module, Visitor};
use crate::param::{Buffer, Mode, Param};

/// What is added to variances unless said otherwise.
const EPS: f64 = 1e-5;

/// Brings the last axes to mean 0 and variance 1, then scales and shifts: see [`Tensor::layer_norm`].
#[derive(Debug)]
pub struct LayerNorm {
    /// The scale, of the shape of the normalised axes; begins at 1.
    pub weight: Param,
    /// The shift, of the same shape; begins at 0.
    pub bias: Option<Param>,
    /// What is added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// A layer that normalises the last axes, which have the given extents.
    ///
    /// # Errors
    /// Where the dtype is not floating point or memory cannot be had.
    pub fn new(shape: impl Into<Shape>, place: impl Into<Place>) -> Result<LayerNorm> {
        let (shape, place) = (shape.into(), place.into());
        let weight = Init::Constant(1.0).param(&shape, &place)?;
        Ok(LayerNorm { weight, bias: Some(Init::Constant(0.0).param(&shape, &place)?), eps: EPS })
    }
}

impl Module for LayerNorm {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)?;
        visitor.part("bias", &self.bias)
    }
}

impl Forward for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let axes = self.weight.spec().shape.rank();
        x.layer_norm(axes, Some(&self.weight.value()?), optional(&self.bias)?.as_ref(), self.eps)
    }
}

/// Brings the last axes to mean square 1, then scales: see [`Tensor::rms_norm`].
#[derive(Debug)]
pub struct RmsNorm {
    /// The scale, of the shape of the normalised axes; begins at 1.
    pub weight: Param,
    /// What is added to the mean square.
    pub eps: f64,
}

impl RmsNorm {
    /// A layer that normalises the last axes, which have the given extents.
    ///
    /// # Errors
    /// As [`LayerNorm::new`].
    pub fn new(shape: impl Into<Shape>, place: impl Into<Place>) -> Result<RmsNorm> {
        Ok(RmsNorm { weight: Init::Constant(1.0).param(shape, place)?, eps: EPS })
    }
}

impl Module for RmsNorm {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)
    }
}

impl Forward for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.rms_norm(self.weight.spec().shape.rank(), Some(&self.weight.value()?), self.eps)
    }
}

/// Brings groups of channels of `[N, C, …]` to mean 0 and variance 1, then scales and shifts each channel: see
/// [`Tensor::group_norm`].
#[derive(Debug)]
pub struct GroupNorm {
    /// Into how many groups the channels are divided.
    pub groups: usize,
    /// The scale `[C]`; begins at 1.
    pub weight: Param,
    /// The shift `[C]`; begins at 0.
    pub bias: Param,
    /// What is added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// A layer for the given number of channels.
    ///
    /// # Errors
    /// Where the groups do not divide the channels, the dtype is not floating point, or memory cannot be had.
    pub fn new(groups: usize, channels: usize, place: impl Into<Place>) -> Result<GroupNorm> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(Error::value(format!("{channels} channels cannot be divided into {groups} groups")));
        }
        let place = place.into();
        let weight = Init::Constant(1.0).param([channels], &place)?;
        Ok(GroupNorm { groups, weight, bias: Init::Constant(0.0).param([channels], &place)?, eps: EPS })
    }
}

impl Module for GroupNorm {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)?;
        visitor.part("bias", &self.bias)
    }
}

impl Forward for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.group_norm(self.groups, Some(&self.weight.value()?), Some(&self.bias.value()?), self.eps)
    }
}

/// Brings each channel of `[N, C, …]` to mean 0 and variance 1, then scales and shifts it (Ioffe and Szegedy 2015): in
/// training with the batch's statistics, of which it keeps running averages; in inference with those averages.
#[derive(Debug)]
pub struct BatchNorm {
    /// The scale `[C]`; begins at 1.
    pub weight: Param,
    /// The shift `[C]`; begins at 0.
    pub bias: Param,
    /// The running mean `[C]`; f32 for half-precision layers, as all their statistics.
    pub running_mean: Buffer,
    /// The running variance `[C]`, of the unbiased estimates (divided by the count less one).
    pub running_var: Buffer,
    /// How much of the batch goes into the running statistics.
    pub momentum: f64,
    /// What is added to the variance.
    pub eps: f64,
    mode: Mode,
}

impl BatchNorm {
    /// A layer for the given number of channels.
    ///
    /// # Errors
    /// Where the dtype is not floating point or memory cannot be had.
    pub fn new(channels: usize, place: impl Into<Place>) -> Result<BatchNorm> {
        let place = place.into();
        let wide = if place.dtype.size() < DType::F32.size() { DType::F32 } else { place.dtype };
        let statistics = (&place.device, wide);
        Ok(BatchNorm {
            weight: Init::Constant(1.0).param([channels], &place)?,
            bias: Init::Constant(0.0).param([channels], &place)?,
            running_mean: Buffer::new(Init::Constant(0.0).tensor([channels], statistics)?),
            running_var: Buffer::new(Init::Constant(1.0).tensor([channels], statistics)?),
            momentum: 0.1,
            eps: EPS,
            mode: Mode::default(),
        })
    }

    /// Moves a running average towards a batch's statistic.
    fn follow(&self, running: &Buffer, batch: &Tensor, factor: f64) -> Result<()> {
        let next = running.value() * (1.0 - self.momentum) + batch.detach() * (self.momentum * factor);
        running.set(next.tensor()?)
    }
}

impl Module for BatchNorm {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("weight", &self.weight)?;
        visitor.part("bias", &self.bias)?;
        visitor.part("running_mean", &self.running_mean)?;
        visitor.part("running_var", &self.running_var)?;
        visitor.part("training", &self.mode)
    }
}

impl Forward for BatchNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.value()?, self.bias.value()?);
        let parameters = (Some(&weight), Some(&bias));
        if !self.mode.is_training() {
            let (mean, variance) = (self.running_mean.value(), self.running_var.value());
            return x.batch_norm_inference(&mean, &variance, parameters.0, parameters.1, self.eps);
        }
        let count = x.elements().checked_div(weight.elements()).unwrap_or(0);
        if count < 2 && weight.elements() > 0 {
            let message = format!("in training each channel needs at least 2 elements, got {count} from {}", x.shape());
            return Err(Error::shape(message).with_op("batch_norm", &[x.spec()]));
        }
        let BatchNormed { output, mean, variance } = x.batch_norm(parameters.0, parameters.1, self.eps)?;
        self.follow(&self.running_mean, &mean, 1.0)?;
        self.follow(&self.running_var, &variance, count as f64 / (count as f64 - 1.0))?;
        Ok(output)
    }
}
