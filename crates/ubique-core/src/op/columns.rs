//! Windows as columns of a matrix (im2col), and back.

use crate::error::{Error, Result};
use crate::op::conv::{ConvOptions, Window, per_axis};
use crate::shape::Shape;
use crate::tensor::Tensor;

impl Tensor {
    /// The windows that a convolution would see, as columns: `[N, C, ..]` with any number of spatial axes gives
    /// `[N, C·Πkernel, Πwindows]`, where the columns run through the windows and each column through the channels, and
    /// through the kernel in each. Places in the padding are 0. A weight `[O, C·Πkernel]` times this is the convolution. Any
    /// dtype; of the options only stride, padding and dilation count. PyTorch calls this `unfold`.
    ///
    /// # Errors
    /// Where the rank is below 3, options do not fit, or a window is larger than the padded tensor.
    pub fn im2col(&self, kernel: impl Into<Shape>, options: &ConvOptions) -> Result<Tensor> {
        columns(self, &kernel.into(), options).map_err(|e| e.with_op("im2col", &[self.spec()]))
    }

    /// The sum of windows that lie as [`Tensor::im2col`] gives them, each element in its place: `[N, C·Πkernel, Πwindows]`
    /// gives `[N, C, output..]`. The gradient of im2col, and not its inverse: where windows overlap they are added. Any number
    /// dtype. PyTorch calls this `fold`.
    ///
    /// # Errors
    /// Where the extents are not those that im2col gives for this output, or options do not fit.
    pub fn col2im(&self, output: impl Into<Shape>, kernel: impl Into<Shape>, options: &ConvOptions) -> Result<Tensor> {
        image(self, &output.into(), &kernel.into(), options).map_err(|e| e.with_op("col2im", &[self.spec()]))
    }
}

/// One spatial axis: how the kernel moves over it.
struct Axis {
    input: usize,
    kernel: usize,
    window: Window,
    windows: usize,
}

fn axes(inputs: &[usize], kernel: &[usize], options: &ConvOptions) -> Result<Vec<Axis>> {
    let kernel = per_axis("the kernel", kernel, inputs.len(), 1)?;
    let windows = options.windows(inputs.len())?;
    let axis = |((&input, kernel), window): ((&usize, usize), Window)| {
        Ok(Axis { input, kernel, windows: window.output(input, kernel)?, window })
    };
    inputs.iter().zip(kernel).zip(windows).map(axis).collect()
}

fn extents(axes: &[Axis], extent: impl Fn(&Axis) -> usize) -> Shape {
    axes.iter().map(extent).collect()
}

fn columns(x: &Tensor, kernel: &[usize], options: &ConvOptions) -> Result<Tensor> {
    let &[batch, channels, ref inputs @ ..] = &**x.shape() else {
        return Err(Error::shape("needs axes [batch, channels, ..]"));
    };
    if inputs.is_empty() {
        return Err(Error::shape("has no spatial axis"));
    }
    let axes = axes(inputs, kernel, options)?;
    let mut windows = x.clone();
    for (i, Axis { kernel, window, .. }) in axes.iter().enumerate() {
        let at = i as isize + 2;
        // A window of one element has no dilation.
        let dilation = if *kernel == 1 { 1 } else { window.dilation };
        windows = windows
            .pad_axis(at, window.padding, window.padding, 0)?
            .unfold(at, dilation * (kernel - 1) + 1, window.stride)?
            .slice(-1, None, None, dilation as isize)?;
    }
    // [N, C, windows.., kernel..] -> [N, C, kernel.., windows..]
    let spatial = axes.len() as isize;
    let order: Vec<isize> = [0, 1].into_iter().chain(spatial + 2..2 * spatial + 2).chain(2..spatial + 2).collect();
    let rows = [channels].into_iter().chain(axes.iter().map(|a| a.kernel)).collect::<Shape>().elements()?;
    windows.permute(&order)?.reshape([batch, rows, extents(&axes, |a| a.windows).elements()?])
}

fn image(x: &Tensor, output: &[usize], kernel: &[usize], options: &ConvOptions) -> Result<Tensor> {
    let &[batch, rows, count] = &**x.shape() else {
        return Err(Error::shape("needs axes [batch, channels · kernel, windows]"));
    };
    if output.is_empty() {
        return Err(Error::shape("the output has no spatial axis"));
    }
    let axes = axes(output, kernel, options)?;
    let (taps, windows) = (extents(&axes, |a| a.kernel).elements()?, extents(&axes, |a| a.windows).elements()?);
    if rows % taps != 0 || count != windows {
        return Err(Error::shape(format!(
            "needs {windows} windows of a multiple of {taps} elements, got {count} of {rows}"
        )));
    }
    let lead = [batch, rows / taps].into_iter();
    let split = lead.chain(axes.iter().map(|a| a.kernel)).chain(axes.iter().map(|a| a.windows));
    // [N, C, kernel.., windows..] -> [N, C, kernel, windows, kernel, windows, ..]
    let spatial = axes.len() as isize;
    let order: Vec<isize> = [0, 1].into_iter().chain((2..spatial + 2).flat_map(|at| [at, at + spatial])).collect();
    let mut sum = x.reshape(split.collect::<Shape>())?.permute(&order)?;
    for (i, axis) in axes.iter().enumerate() {
        sum = axis.add_windows(&sum, i + 2)?;
    }
    Ok(sum)
}

impl Axis {
    /// Adds up windows: the axes `[.., kernel, windows, ..]` become `[.., input, ..]`.
    fn add_windows(&self, x: &Tensor, at: usize) -> Result<Tensor> {
        let Axis { input, kernel, window, windows } = self;
        let steps = |count: usize, step: usize| -> Result<Tensor> {
            (Tensor::arange(0, count, 1, x.device().default_int(), x.device())? * step as i64).tensor()
        };
        let places = (steps(*kernel, window.dilation)?.unsqueeze(1)? + steps(*windows, window.stride)?).tensor()?;
        let places = places.reshape([places.elements()])?;
        let shape = x.shape().removed(at + 1);
        let source = x.reshape(shape.with(at, places.elements()))?;
        Tensor::zeros(shape.with(at, input + 2 * window.padding), x.dtype(), x.device())?
            .index_add(at as isize, &places, &source)?
            .narrow(at as isize, window.padding as isize, *input)
    }
}
