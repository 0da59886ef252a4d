//! Pooling over any number of spatial axes: largest elements and means of windows.

mod average;
mod max;
mod windows;

pub use average::{AvgPool, AvgPoolBackward, Means, Span};
pub use max::{MaxPool, MaxPoolBackward};
pub use windows::Pooling;

use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::op::conv::{Window, per_axis};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// How windows move. Each list has one value for each spatial axis, or one for all; an empty list means the default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolOptions {
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    ceil: bool,
    skip_padding: bool,
}

impl PoolOptions {
    /// Windows side by side, no padding, no dilation; windows that do not fit are left out.
    pub fn new() -> PoolOptions {
        PoolOptions::default()
    }

    /// Distance of neighbouring windows (the kernel's extent).
    pub fn stride(self, stride: impl Into<Shape>) -> PoolOptions {
        PoolOptions { stride: stride.into(), ..self }
    }

    /// Elements on both sides that do not count for the largest, and are 0 for means (0); at most half the kernel.
    pub fn padding(self, padding: impl Into<Shape>) -> PoolOptions {
        PoolOptions { padding: padding.into(), ..self }
    }

    /// Distance of a window's elements (1); not for means.
    pub fn dilation(self, dilation: impl Into<Shape>) -> PoolOptions {
        PoolOptions { dilation: dilation.into(), ..self }
    }

    /// Whether windows that end beyond the padded operand count too (no), if they begin inside.
    pub fn ceil_mode(self, ceil: bool) -> PoolOptions {
        PoolOptions { ceil, ..self }
    }

    /// Whether means count the padding's zeros as elements (yes).
    pub fn count_include_pad(self, count: bool) -> PoolOptions {
        PoolOptions { skip_padding: !count, ..self }
    }

    fn pooling(&self, op: &str, x: &Tensor, kernel: Shape) -> Result<Pooling> {
        let axes = x.rank().saturating_sub(2);
        let make = || {
            let kernel = per_axis("the kernel", &kernel, axes, 1)?;
            let stride =
                if self.stride.is_empty() { kernel.clone() } else { per_axis("stride", &self.stride, axes, 1)? };
            let padding = per_axis("padding", &self.padding, axes, 0)?;
            let dilation = per_axis("dilation", &self.dilation, axes, 1)?;
            let window = |i: usize| Window { stride: stride[i], padding: padding[i], dilation: dilation[i] };
            Ok(Pooling { kernel, windows: (0..axes).map(window).collect(), ceil: self.ceil })
        };
        make().map_err(|e: Error| e.with_op(op, &[x.spec()]))
    }
}

impl Tensor {
    /// The largest element of each window over all axes after the first two (`[N, C, ..]`; 1-d, 2-d and 3-d alike).
    /// Extents become ⌊(input + 2·padding - dilation·(kernel - 1) - 1) / stride⌋ + 1, rounded up in ceil mode.
    /// NaN where a window holds one. The gradient goes to the first of equal elements.
    ///
    /// # Errors
    /// Where options or extents do not fit, an axis is empty, or for bools.
    pub fn max_pool(&self, kernel: impl Into<Shape>, options: &PoolOptions) -> Result<Tensor> {
        let pooling = options.pooling("max_pool", self, kernel.into())?;
        run::call(MaxPool { pooling, indices: false }.into(), [self.into()])
    }

    /// As [`Tensor::max_pool`], and for each window the place of that element (i64): its position in the row-major
    /// spatial axes.
    ///
    /// # Errors
    /// As for [`Tensor::max_pool`].
    pub fn max_pool_with_indices(&self, kernel: impl Into<Shape>, options: &PoolOptions) -> Result<(Tensor, Tensor)> {
        let pooling = options.pooling("max_pool", self, kernel.into())?;
        let outputs = run::call_many(MaxPool { pooling, indices: true }.into(), &[self])?;
        <[Tensor; 2]>::try_from(outputs)
            .map(|[values, indices]| (values, indices))
            .map_err(|outputs| Error::backend(format!("max_pool gave {} outputs instead of 2", outputs.len())))
    }

    /// The mean of each window over all axes after the first two (`[N, C, ..]`; 1-d, 2-d and 3-d alike), with extents as
    /// in [`Tensor::max_pool`]. Floats only; half precision is summed in f32.
    ///
    /// # Errors
    /// Where options or extents do not fit, an axis is empty, windows are dilated, or for integers and bools.
    pub fn avg_pool(&self, kernel: impl Into<Shape>, options: &PoolOptions) -> Result<Tensor> {
        let pooling = options.pooling("avg_pool", self, kernel.into())?;
        let means = Means::Windows { pooling, count_padding: !options.skip_padding };
        run::call(AvgPool { means }.into(), [self.into()])
    }

    /// Means of as many windows as `output` says, one extent for each axis after the first two, or one for all:
    /// the i-th of n covers ⌊i·input/n⌋ to ⌈(i + 1)·input/n⌉. Floats only.
    ///
    /// # Errors
    /// Where the number of extents does not fit, an axis is empty, or for integers and bools.
    pub fn adaptive_avg_pool(&self, output: impl Into<Shape>) -> Result<Tensor> {
        let axes = self.rank().saturating_sub(2);
        let output = per_axis("output", &output.into(), axes, 1).map_err(|e| e.with_op("avg_pool", &[self.spec()]))?;
        run::call(AvgPool { means: Means::Adaptive(output) }.into(), [self.into()])
    }
}
