//! Convolution whose taps lie where offsets put them, between elements too.

use crate::error::{Error, Result};
use crate::op::conv::{Conv, ConvOptions, Window, plus_bias};
use crate::op::grid_sample::GridSample;
use crate::op::lanes::accumulator;
use crate::op::{Rule, require_float, require_same_dtype};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

impl Tensor {
    /// Deformable convolution (Dai et al. 2017; with a mask Zhu et al. 2019) of images `[N, C, H, W]` with a weight
    /// `[O, C/groups, kh, kw]` and a bias `[O]`: gives `[N, O, oh, ow]`, with the extents of [`Tensor::conv`].
    ///
    /// For each of G groups of channels, each tap of the kernel and each output `offset` `[N, G·kh·kw·2, oh, ow]` says how far
    /// the tap is moved down and then how far to the right, in elements; the image is read there as by
    /// [`Tensor::grid_sample`], with zeros around it. G follows from the offset's extent, and divides C. What is read is
    /// multiplied with `mask` `[N, G·kh·kw, oh, ow]`, where there is one. Offsets of 0 without a mask make it [`Tensor::conv`].
    ///
    /// Any one floating-point dtype; half precision is computed in f32. Differentiable in all operands.
    ///
    /// # Errors
    /// Where shapes, dtypes, devices or options do not fit, the kernel is larger than the padded image, or the dtype is not
    /// floating point.
    pub fn deform_conv2d(
        &self,
        offset: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        mask: Option<&Tensor>,
        options: &ConvOptions,
    ) -> Result<Tensor> {
        let specs = || {
            let optional = [bias, mask].into_iter().flatten();
            [self, offset, weight].into_iter().chain(optional).map(Tensor::spec).collect::<Vec<_>>()
        };
        deform_conv(self, offset, weight, bias, mask, options).map_err(|e| e.with_op("deform_conv2d", &specs()))
    }
}

fn deform_conv(
    x: &Tensor,
    offset: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    mask: Option<&Tensor>,
    options: &ConvOptions,
) -> Result<Tensor> {
    require_float(&x.spec())?;
    let windows = options.windows(2)?;
    let conv = Conv { windows, groups: options.group_count() };
    let operands: Vec<TensorSpec> = [x, weight].into_iter().chain(bias).map(Tensor::spec).collect();
    let output = conv.infer(&operands)?.as_slice(&operands)[0].shape.clone();
    let (&[batch, channels, height, width], &[_, _, kh, kw], &[_, filters, oh, ow]) =
        (&**x.shape(), &**weight.shape(), &*output)
    else {
        return Err(Error::shape("needs an image [N, C, H, W]"));
    };
    let taps = Shape::from([kh, kw]).elements()?;
    let parts = offset_groups(offset, batch, channels, taps, [oh, ow])?;
    require_same_dtype(&x.spec(), &offset.spec())?;

    let wide = accumulator(x.dtype());
    let moved = offset.cast(wide)?.reshape([batch, parts, kh, kw, 2, oh, ow])?;
    let along = |axis: isize, places: Tensor| -> Result<Tensor> {
        (moved.narrow(4, axis, 1)?.squeeze(4)? + places.cast(wide)?).into()
    };
    let y = along(0, places(&conv.windows[0], kh, oh, x)?.reshape([kh, 1, oh, 1])?)?;
    let x_at = along(1, places(&conv.windows[1], kw, ow, x)?.reshape([1, kw, 1, ow])?)?;
    let rows = Shape::from([taps, oh]).elements()?;
    let images = Shape::from([batch, parts]).elements()?;
    let grid = Tensor::stack(&[&x_at, &y], -1)?.reshape([images, rows, ow, 2])?;
    let image = x.cast(wide)?.reshape([images, channels / parts, height, width])?;
    let mut read = image.grid_sample(&grid, GridSample { pixels: true, ..GridSample::default() })?;
    if let Some(mask) = mask {
        require_same_dtype(&x.spec(), &mask.spec())?;
        let shape = [batch, parts * taps, oh, ow];
        if *mask.shape() != shape {
            return Err(Error::shape(format!("the mask has to be {}, got {}", Shape::from(shape), mask.shape())));
        }
        read = (read * mask.cast(wide)?.reshape([images, 1, rows, ow])?).tensor()?;
    }
    let (groups, inner) = (conv.groups, Shape::from([weight.shape()[1], taps]).elements()?);
    let columns = read.reshape([batch, groups, inner, Shape::from([oh, ow]).elements()?])?;
    let product = weight.cast(wide)?.reshape([groups, filters / groups, inner])?.matmul(&columns)?;
    let bias = bias.map(|bias| bias.cast(wide)).transpose()?;
    plus_bias(product.reshape(output)?, bias.as_ref())?.cast(x.dtype())
}

/// How many groups of channels have offsets of their own.
fn offset_groups(offset: &Tensor, batch: usize, channels: usize, taps: usize, [oh, ow]: [usize; 2]) -> Result<usize> {
    let numbers = taps.checked_mul(2).ok_or_else(|| Error::shape("the kernel is too large"))?;
    let fits = match **offset.shape() {
        [n, count, h, w] if n == batch && [h, w] == [oh, ow] => Some(count / numbers).filter(|g| g * numbers == count),
        _ => None,
    };
    match fits {
        Some(groups) if groups > 0 && channels.is_multiple_of(groups) => Ok(groups),
        _ => Err(Error::shape(format!(
            "the offset has to be [{batch}, {numbers}·groups, {oh}, {ow}] with groups that divide {channels} channels, got {}",
            offset.shape()
        ))),
    }
}

/// Where the taps of the windows lie along an axis, `[kernel, windows]`, without offsets.
fn places(window: &Window, kernel: usize, windows: usize, like: &Tensor) -> Result<Tensor> {
    let steps = |count: usize, step: usize| -> Result<Tensor> {
        (Tensor::arange(0, count, 1, like.device().default_int(), like.device())? * step as i64).into()
    };
    let first = (steps(windows, window.stride)? - window.padding as i64).tensor()?;
    (steps(kernel, window.dilation)?.unsqueeze(1)? + first).into()
}
