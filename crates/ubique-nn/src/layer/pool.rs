//! Pooling layers, over all axes after batch and channels.

use ubique_core::op::pool::PoolOptions;
use ubique_core::{Result, Shape, Tensor};

use crate::module::{Forward, Module, Visitor};

/// The largest element of each window: see [`Tensor::max_pool`].
#[derive(Clone, PartialEq, Debug)]
pub struct MaxPool {
    /// The window's extents: one for each spatial axis, or one for all.
    pub kernel: Shape,
    /// How windows move; side by side at first.
    pub options: PoolOptions,
}

impl MaxPool {
    /// Windows of the given extents, side by side.
    pub fn new(kernel: impl Into<Shape>) -> MaxPool {
        MaxPool { kernel: kernel.into(), options: PoolOptions::new() }
    }
}

impl Module for MaxPool {
    fn visit(&self, _: &mut Visitor<'_>) -> Result<()> {
        Ok(())
    }
}

impl Forward for MaxPool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.max_pool(&self.kernel, &self.options)
    }
}

/// The mean of each window: see [`Tensor::avg_pool`].
#[derive(Clone, PartialEq, Debug)]
pub struct AvgPool {
    /// The window's extents: one for each spatial axis, or one for all.
    pub kernel: Shape,
    /// How windows move; side by side at first.
    pub options: PoolOptions,
}

impl AvgPool {
    /// Windows of the given extents, side by side.
    pub fn new(kernel: impl Into<Shape>) -> AvgPool {
        AvgPool { kernel: kernel.into(), options: PoolOptions::new() }
    }
}

impl Module for AvgPool {
    fn visit(&self, _: &mut Visitor<'_>) -> Result<()> {
        Ok(())
    }
}

impl Forward for AvgPool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.avg_pool(&self.kernel, &self.options)
    }
}

/// Means of as many windows as said, whatever the input's extents: see [`Tensor::adaptive_avg_pool`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdaptiveAvgPool {
    /// The result's extents: one for each spatial axis, or one for all.
    pub output: Shape,
}

impl AdaptiveAvgPool {
    /// A layer that gives the given extents.
    pub fn new(output: impl Into<Shape>) -> AdaptiveAvgPool {
        AdaptiveAvgPool { output: output.into() }
    }
}

impl Module for AdaptiveAvgPool {
    fn visit(&self, _: &mut Visitor<'_>) -> Result<()> {
        Ok(())
    }
}

impl Forward for AdaptiveAvgPool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.adaptive_avg_pool(&self.output)
    }
}
