//! Convolution (cross-correlation, as networks use the word) over any number of spatial axes, transposed convolution, and
//! the gradient of the weight. The three are one trilinear form seen from its three sides, so each is the gradient of
//! the others.

mod geometry;
mod samples;

pub use geometry::{Geometry, Window, per_axis};

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Case;
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands, require_same_dtype};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;
use geometry::{add_bias, overflow};
use samples::samples;

/// What all three ops ask of their first two operands: numbers of one dtype, of rank 2 + spatial axes.
fn check(a: &TensorSpec, b: &TensorSpec, windows: &[Window], groups: usize) -> Result<()> {
    require_same_dtype(a, b)?;
    if a.dtype == DType::Bool {
        return Err(Error::dtype("bools cannot be convolved; cast them to a number first"));
    }
    if windows.is_empty() || a.shape.rank() != windows.len() + 2 || b.shape.rank() != windows.len() + 2 {
        let axes = windows.len();
        return Err(Error::shape(format!(
            "with {axes} spatial axes both operands have to have rank {}",
            axes.saturating_add(2)
        )));
    }
    match groups {
        0 => Err(Error::value("0 groups of channels")),
        _ => Ok(()),
    }
}

fn check_bias(bias: &TensorSpec, x: &TensorSpec, channels: usize) -> Result<()> {
    require_same_dtype(x, bias)?;
    match bias.shape == [channels] {
        true => Ok(()),
        false => Err(Error::shape(format!("the bias has to be [{channels}], got {}", bias.shape))),
    }
}

/// Input, weight and, where there is one, bias.
fn with_bias<T>(inputs: &[T]) -> Result<(&T, &T, Option<&T>)> {
    match inputs {
        [x, weight] => Ok((x, weight, None)),
        [x, weight, bias] => Ok((x, weight, Some(bias))),
        _ => Err(Error::value(format!("takes 2 or 3 operands, got {}", inputs.len()))),
    }
}

/// `[batch, channels, spatial..]`, if it can be stored.
fn spec(batch: usize, channels: usize, spatial: Vec<usize>, dtype: DType) -> Result<TensorSpec> {
    let spec = TensorSpec::new([batch, channels].into_iter().chain(spatial).collect::<Shape>(), dtype);
    spec.shape.bytes(dtype)?;
    Ok(spec)
}

/// The gradient of a bias: the sum over all axes but the channels'.
fn bias_gradient(g: &Tensor) -> Result<Tensor> {
    let axes: Vec<isize> = (0..g.rank() as isize).filter(|&axis| axis != 1).collect();
    g.sum(&axes)
}

/// The bias as `[channels, 1, ..]`, added.
pub(crate) fn plus_bias(y: Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let Some(bias) = bias else { return Ok(y) };
    let shape: Shape = [y.shape()[1]].into_iter().chain(y.shape()[2..].iter().map(|_| 1)).collect();
    (y + bias.reshape(shape)?).into()
}

/// A convolution; see [`Tensor::conv`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Conv {
    /// One for each spatial axis.
    pub windows: Vec<Window>,
    /// Groups of channels that do not see each other.
    pub groups: usize,
}

impl Rule for Conv {
    fn name(&self) -> &'static str {
        "conv"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let (x, weight, bias) = with_bias(inputs)?;
        check(x, weight, &self.windows, self.groups)?;
        let (channels, filters) = (x.shape[1], weight.shape[0]);
        if !channels.is_multiple_of(self.groups) || !filters.is_multiple_of(self.groups) {
            return Err(Error::shape(format!(
                "{channels} input and {filters} output channels do not divide into {} groups",
                self.groups
            )));
        }
        if weight.shape[1] != channels / self.groups {
            let wanted = channels / self.groups;
            return Err(Error::shape(format!(
                "the weight is for {} channels, the input has {wanted} a group",
                weight.shape[1]
            )));
        }
        if let Some(bias) = bias {
            check_bias(bias, x, filters)?;
        }
        let extents = self.windows.iter().enumerate().map(|(i, w)| w.output(x.shape[i + 2], weight.shape[i + 2]));
        Ok(spec(x.shape[0], filters, extents.collect::<Result<_>>()?, x.dtype)?.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[0, 1]))
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (g, x) = (call.grad(0)?, call.spec(0)?);
        let mut out = Cotangents::none(call.operands());
        if call.wants(0) {
            let weight = call.input(1)?;
            let transposed = ConvTranspose::to_input(&self.windows, &x.shape[2..], &weight.shape()[2..], self.groups)?;
            out.set(0, run::call(transposed.into(), [g.into(), weight.into()])?);
        }
        if call.wants(1) {
            let kernel = call.spec(1)?.shape[2..].to_vec();
            out.set(1, weight_gradient(&self.windows, kernel, self.groups, call.input(0)?, g)?);
        }
        if call.wants(2) {
            out.set(2, bias_gradient(g)?);
        }
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let (x, weight, bias) = with_bias(inputs)?;
        let (groups, filters) = (self.groups, weight.shape()[0]);
        let columns = columns(x, &self.windows, &weight.shape()[2..], groups)?;
        let inner = columns.shape()[2];
        let product = weight.reshape([groups, filters / groups, inner])?.matmul(&columns)?;
        let extents = self.windows.iter().enumerate().map(|(i, w)| w.output(x.shape()[i + 2], weight.shape()[i + 2]));
        let shape = spec(x.shape()[0], filters, extents.collect::<Result<_>>()?, x.dtype())?.shape;
        Ok(Some(vec![plus_bias(product.reshape(shape)?, bias)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, weight, bias) = with_bias(inputs)?;
        let geometry = Geometry::new(x.shape(), weight.shape(), &outputs[0].shape, self.groups);
        let y = geometry.sum(&self.windows, [x, weight], &outputs[0], |x, w, y| [x, w, y])?;
        Ok(vec![add_bias(y, bias)])
    }

    fn cases() -> Vec<Case> {
        samples(|s, dtype, bias| {
            let op = Conv { windows: s.windows.to_vec(), groups: s.groups };
            let case = Case::new(op).input(s.input(), dtype).input(s.weight(), dtype);
            if bias { case.input([s.filters], dtype) } else { case }
        })
    }
}

/// The windows of the input as columns: `[batch, groups, channels·taps, outputs]`.
fn columns(x: &Tensor, windows: &[Window], kernel: &[usize], groups: usize) -> Result<Tensor> {
    let mut view = x.clone();
    for (i, window) in windows.iter().enumerate() {
        let axis = i as isize + 2;
        let padded = if window.padding > 0 { view.pad_axis(axis, window.padding, window.padding, 0)? } else { view };
        let taps = padded.unfold(axis, window.reach(kernel[i])? + 1, window.stride)?;
        view = if window.dilation > 1 { taps.slice(-1, None, None, window.dilation as isize)? } else { taps };
    }
    let axes = windows.len() as isize;
    // [batch, channels, outputs.., taps..] with the taps before the outputs.
    let order: Vec<isize> = [0, 1].into_iter().chain(axes + 2..2 * axes + 2).chain(2..axes + 2).collect();
    let outputs: usize = view.shape()[2..2 + windows.len()].iter().product();
    let inner = x.shape()[1] / groups * kernel.iter().product::<usize>();
    view.permute(&order)?.reshape([x.shape()[0], groups, inner, outputs])
}

/// A transposed convolution, the gradient of [`Conv`] for its input; see [`Tensor::conv_transpose`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConvTranspose {
    /// One for each spatial axis.
    pub windows: Vec<Window>,
    /// Elements more at the end of each axis of the output, below its stride.
    pub output_padding: Vec<usize>,
    /// Groups of channels that do not see each other.
    pub groups: usize,
}

impl ConvTranspose {
    /// The one that leads from a convolution's output back to its input.
    fn to_input(windows: &[Window], input: &[usize], kernel: &[usize], groups: usize) -> Result<ConvTranspose> {
        let axes = windows.iter().zip(input).zip(kernel);
        let output_padding = axes.map(|((w, &x), &k)| w.left_over(x, k)).collect::<Result<_>>()?;
        Ok(ConvTranspose { windows: windows.to_vec(), output_padding, groups })
    }
}

impl Rule for ConvTranspose {
    fn name(&self) -> &'static str {
        "conv_transpose"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let (x, weight, bias) = with_bias(inputs)?;
        check(x, weight, &self.windows, self.groups)?;
        if self.output_padding.len() != self.windows.len() {
            return Err(Error::value(format!(
                "{} output paddings for {} axes",
                self.output_padding.len(),
                self.windows.len()
            )));
        }
        let channels = x.shape[1];
        if weight.shape[0] != channels || !channels.is_multiple_of(self.groups) {
            return Err(Error::shape(format!(
                "the weight is for {} channels in {} groups, the input has {channels}",
                weight.shape[0], self.groups
            )));
        }
        let filters = weight.shape[1].checked_mul(self.groups).ok_or_else(|| overflow("the output"))?;
        if let Some(bias) = bias {
            check_bias(bias, x, filters)?;
        }
        let extent =
            |(i, w): (usize, &Window)| w.transposed(x.shape[i + 2], weight.shape[i + 2], self.output_padding[i]);
        let extents = self.windows.iter().enumerate().map(extent).collect::<Result<_>>()?;
        Ok(spec(x.shape[0], filters, extents, x.dtype)?.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[0, 1]))
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let g = call.grad(0)?;
        let mut out = Cotangents::none(call.operands());
        if call.wants(0) {
            let conv = Conv { windows: self.windows.clone(), groups: self.groups };
            out.set(0, run::call(conv.into(), [g.into(), call.input(1)?.into()])?);
        }
        if call.wants(1) {
            let kernel = call.spec(1)?.shape[2..].to_vec();
            out.set(1, weight_gradient(&self.windows, kernel, self.groups, g, call.input(0)?)?);
        }
        if call.wants(2) {
            out.set(2, bias_gradient(g)?);
        }
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let (x, weight, bias) = with_bias(inputs)?;
        let mut spread = x.clone();
        let mut windows = Vec::new();
        for (i, window) in self.windows.iter().enumerate() {
            let axis = i as isize + 2;
            spread = dilate(&spread, axis, window.stride)?;
            let reach = window.reach(weight.shape()[i + 2])? as isize;
            let before = reach - window.padding as isize;
            spread = resize(&spread, axis, before, before + self.output_padding[i] as isize)?;
            windows.push(Window { stride: 1, padding: 0, dilation: window.dilation });
        }
        // [groups·in, out, ..] becomes [groups·out, in, ..], reversed.
        let (channels, filters, taps) = (weight.shape()[0] / self.groups, weight.shape()[1], &weight.shape()[2..]);
        let grouped =
            |a: usize, b: usize| [self.groups, a, b].into_iter().chain(taps.iter().copied()).collect::<Shape>();
        let swapped = weight.reshape(grouped(channels, filters))?.transpose(1, 2)?;
        let joined: Shape = [self.groups * filters, channels].into_iter().chain(taps.iter().copied()).collect();
        let axes: Vec<isize> = (2..weight.rank() as isize).collect();
        let weight = swapped.reshape(joined)?.flip(&axes)?;
        let y = run::call(Conv { windows, groups: self.groups }.into(), [(&spread).into(), (&weight).into()])?;
        Ok(Some(vec![plus_bias(y, bias)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, weight, bias) = with_bias(inputs)?;
        let geometry = Geometry::new(&outputs[0].shape, weight.shape(), x.shape(), self.groups);
        let y = geometry.sum(&self.windows, [x, weight], &outputs[0], |x, w, y| [y, w, x])?;
        Ok(vec![add_bias(y, bias)])
    }

    fn cases() -> Vec<Case> {
        samples(|s, dtype, bias| {
            let axes = s.windows.iter().zip(s.extents).zip(s.kernel);
            let output_padding = axes.map(|((w, &x), &k)| w.left_over(x, k).unwrap_or(0)).collect();
            let op = ConvTranspose { output_padding, windows: s.windows.to_vec(), groups: s.groups };
            let case = Case::new(op).input(s.output(), dtype).input(s.weight(), dtype);
            if bias { case.input([s.channels], dtype) } else { case }
        })
    }
}

/// `stride - 1` zeros between the elements of an axis.
fn dilate(x: &Tensor, axis: isize, stride: usize) -> Result<Tensor> {
    if stride == 1 {
        return Ok(x.clone());
    }
    let at = axis as usize;
    let extent = x.shape()[at];
    let padded = x.unsqueeze(axis + 1)?.pad_axis(axis + 1, 0, stride - 1, 0)?;
    padded.reshape(x.shape().with(at, extent * stride))?.narrow(axis, 0, (extent * stride).saturating_sub(stride - 1))
}

/// Zeros put at the ends of an axis, or elements taken away where a count is negative.
fn resize(x: &Tensor, axis: isize, before: isize, after: isize) -> Result<Tensor> {
    let padded = x.pad_axis(axis, before.max(0) as usize, after.max(0) as usize, 0)?;
    let (from, cut) = (before.min(0).unsigned_abs(), after.min(0).unsigned_abs());
    let extent = padded.shape()[axis as usize];
    padded.narrow(axis, from as isize, extent.saturating_sub(from + cut))
}

/// The gradient of [`Conv`] for its weight: from the input and the output's gradient.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConvBackwardWeight {
    /// One for each spatial axis.
    pub windows: Vec<Window>,
    /// Spatial extents of the weight.
    pub kernel: Vec<usize>,
    /// Groups of channels that do not see each other.
    pub groups: usize,
}

fn weight_gradient(windows: &[Window], kernel: Vec<usize>, groups: usize, x: &Tensor, g: &Tensor) -> Result<Tensor> {
    let op = ConvBackwardWeight { windows: windows.to_vec(), kernel, groups };
    run::call(op.into(), [x.into(), g.into()])
}

impl Rule for ConvBackwardWeight {
    fn name(&self) -> &'static str {
        "conv_backward_weight"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, g] = operands(inputs)?;
        check(x, g, &self.windows, self.groups)?;
        if self.kernel.len() != self.windows.len() {
            return Err(Error::value(format!("{} kernel extents for {} axes", self.kernel.len(), self.windows.len())));
        }
        let (channels, filters) = (x.shape[1], g.shape[1]);
        if x.shape[0] != g.shape[0] || !channels.is_multiple_of(self.groups) || !filters.is_multiple_of(self.groups) {
            return Err(Error::shape(format!("{} and {} do not fit with {} groups", x.shape, g.shape, self.groups)));
        }
        for (i, window) in self.windows.iter().enumerate() {
            let output = window.output(x.shape[i + 2], self.kernel[i])?;
            if output != g.shape[i + 2] {
                return Err(Error::shape(format!("the gradient's axis {} has to have extent {output}", i + 2)));
            }
        }
        Ok(spec(filters, channels / self.groups, self.kernel.clone(), x.dtype)?.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let weight = call.grad(0)?;
        let (x, g) = (call.input(0)?, call.input(1)?);
        let conv = Conv { windows: self.windows.clone(), groups: self.groups };
        let mut out = Cotangents::none(2);
        if call.wants(0) {
            let transposed = ConvTranspose::to_input(&self.windows, &x.shape()[2..], &self.kernel, self.groups)?;
            out.set(0, run::call(transposed.into(), [g.into(), weight.into()])?);
        }
        if call.wants(1) {
            out.set(1, run::call(conv.into(), [x.into(), weight.into()])?);
        }
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, g] = inputs else { return Ok(None) };
        let (batch, channels, filters) = (x.shape()[0], x.shape()[1], g.shape()[1]);
        let columns = columns(x, &self.windows, &self.kernel, self.groups)?;
        let rows = g.reshape([batch, self.groups, filters / self.groups, columns.shape()[3]])?;
        let shape = spec(filters, channels / self.groups, self.kernel.clone(), x.dtype())?.shape;
        Ok(Some(vec![rows.matmul(&columns.t()?)?.sum(&[0])?.reshape(shape)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, g) = (&inputs[0], &inputs[1]);
        let geometry = Geometry::new(x.shape(), &outputs[0].shape, g.shape(), self.groups);
        Ok(vec![geometry.sum(&self.windows, [x, g], &outputs[0], |x, w, y| [x, y, w])?])
    }

    fn cases() -> Vec<Case> {
        samples(|s, dtype, _| {
            let op = ConvBackwardWeight { windows: s.windows.to_vec(), kernel: s.kernel.to_vec(), groups: s.groups };
            Case::new(op).input(s.input(), dtype).input(s.output(), dtype)
        })
    }
}

/// How a kernel moves. Each list has one value for each spatial axis, or one for all; an empty list means the default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConvOptions {
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    output_padding: Shape,
    groups: Option<usize>,
}

impl ConvOptions {
    /// Stride 1, no padding, dilation 1, one group.
    pub fn new() -> ConvOptions {
        ConvOptions::default()
    }

    /// Distance of neighbouring windows (1).
    pub fn stride(self, stride: impl Into<Shape>) -> ConvOptions {
        ConvOptions { stride: stride.into(), ..self }
    }

    /// Zeros on both sides of the input (0); of a transposed convolution: what is cut from both sides of the output.
    pub fn padding(self, padding: impl Into<Shape>) -> ConvOptions {
        ConvOptions { padding: padding.into(), ..self }
    }

    /// Distance of the kernel's taps (1).
    pub fn dilation(self, dilation: impl Into<Shape>) -> ConvOptions {
        ConvOptions { dilation: dilation.into(), ..self }
    }

    /// Elements more at the end of a transposed convolution's output (0).
    pub fn output_padding(self, output_padding: impl Into<Shape>) -> ConvOptions {
        ConvOptions { output_padding: output_padding.into(), ..self }
    }

    /// Groups of channels that do not see each other (1); as many as input channels makes it depthwise.
    pub fn groups(self, groups: usize) -> ConvOptions {
        ConvOptions { groups: Some(groups), ..self }
    }

    pub(crate) fn group_count(&self) -> usize {
        self.groups.unwrap_or(1)
    }

    pub(crate) fn windows(&self, axes: usize) -> Result<Vec<Window>> {
        let stride = per_axis("stride", &self.stride, axes, 1)?;
        let padding = per_axis("padding", &self.padding, axes, 0)?;
        let dilation = per_axis("dilation", &self.dilation, axes, 1)?;
        Ok((0..axes).map(|i| Window { stride: stride[i], padding: padding[i], dilation: dilation[i] }).collect())
    }
}

impl Tensor {
    /// Convolution over all axes after the first two, which are examples and channels (1-d, 2-d and 3-d alike):
    /// input `[N, C, ..]`, weight `[O, C/groups, kernel..]`, bias `[O]`; gives `[N, O, ..]` with extents
    /// ⌊(input + 2·padding - dilation·(kernel - 1) - 1) / stride⌋ + 1. The kernel is not reversed: what is computed is
    /// the cross-correlation, as usual for networks. Half precision is summed in f32; integers wrap.
    ///
    /// # Errors
    /// Where shapes, dtypes or options do not fit, the kernel is larger than the padded input, or for bools.
    pub fn conv(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Result<Tensor> {
        let windows = options.windows(self.rank().saturating_sub(2)).map_err(|e| e.with_op("conv", &[self.spec()]))?;
        let op = Op::Conv(Conv { windows, groups: options.group_count() });
        match bias {
            Some(bias) => run::call(op, [self.into(), weight.into(), bias.into()]),
            None => run::call(op, [self.into(), weight.into()]),
        }
    }

    /// Transposed convolution, the gradient of [`Tensor::conv`] for its input: input `[N, C, ..]`,
    /// weight `[C, O/groups, kernel..]`, bias `[O]`; gives `[N, O, ..]` with extents
    /// (input - 1)·stride - 2·padding + dilation·(kernel - 1) + output_padding + 1.
    ///
    /// # Errors
    /// Where shapes, dtypes or options do not fit, padding exceeds the output, output padding is not below the stride,
    /// or for bools.
    pub fn conv_transpose(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("conv_transpose", &[self.spec()]);
        let axes = self.rank().saturating_sub(2);
        let windows = options.windows(axes).map_err(fail)?;
        let output_padding = per_axis("output padding", &options.output_padding, axes, 0).map_err(fail)?;
        let op = Op::ConvTranspose(ConvTranspose { windows, output_padding, groups: options.group_count() });
        match bias {
            Some(bias) => run::call(op, [self.into(), weight.into(), bias.into()]),
            None => run::call(op, [self.into(), weight.into()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(input: &[usize], weight: &[usize], window: Window, groups: usize) -> Result<Specs> {
        let spec = |shape: &[usize]| TensorSpec::new(shape, DType::F32);
        Conv { windows: vec![window; input.len().saturating_sub(2)], groups }.infer(&[spec(input), spec(weight)])
    }

    #[test]
    fn parameters_that_make_no_sense_are_errors() {
        let window = |stride, padding, dilation| Window { stride, padding, dilation };
        let ok = window(1, 0, 1);
        assert!(conv(&[1, 2, 5], &[3, 2, 3], ok, 1).is_ok());
        assert!(conv(&[1, 2, 5], &[3, 2, 3], window(0, 0, 1), 1).is_err());
        assert!(conv(&[1, 2, 5], &[3, 2, 3], window(1, 0, 0), 1).is_err());
        assert!(conv(&[1, 2, 5], &[3, 2, 3], window(1, usize::MAX, 1), 1).is_err());
        assert!(conv(&[1, 2, 5], &[3, 2, 3], window(1, 0, usize::MAX), 1).is_err());
        assert!(conv(&[1, 2, 5], &[3, 2, 3], ok, 0).is_err());
        assert!(conv(&[1, 2, 5], &[3, 1, 3], ok, 2).is_err());
        assert!(conv(&[1, 2, 5], &[3, 2, 0], ok, 1).is_err());
        assert!(conv(&[1, 2], &[3, 2], ok, 1).is_err());
        let error = conv(&[1, 2, 2], &[3, 2, 3], ok, 1).unwrap_err();
        assert!(error.message().contains("does not fit"), "{error}");
    }
}
