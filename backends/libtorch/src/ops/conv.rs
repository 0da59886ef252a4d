//! Convolutions.

use tch::Tensor;
use ubique_core::TensorSpec;
use ubique_core::op::conv::{Conv, ConvBackwardWeight, ConvTranspose, Window};

use super::grad::gradient;
use super::{Call, has_elements};
use crate::dtype::ints;
use crate::error::Made;

/// Whether LibTorch has the convolution: of floats, over one to three axes, and of something.
pub fn supports(inputs: &[TensorSpec]) -> bool {
    let shapes = inputs.iter().all(has_elements);
    shapes && inputs[0].dtype.is_float() && (3..=5).contains(&inputs[0].shape.rank())
}

/// Strides, paddings and dilations.
pub fn lists(windows: &[Window]) -> [Vec<i64>; 3] {
    let list = |field: fn(&Window) -> usize| windows.iter().map(|window| field(window) as i64).collect();
    [list(|w| w.stride), list(|w| w.padding), list(|w| w.dilation)]
}

fn forward(windows: &[Window], groups: usize, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Made {
    let [stride, padding, dilation] = lists(windows);
    let none = vec![0i64; windows.len()];
    Ok(x.f_convolution(weight, bias, stride, padding, dilation, false, none, groups as i64)?)
}

pub fn conv(op: &Conv, call: &Call<'_>) -> Made {
    forward(&op.windows, op.groups, &call.x[0], &call.x[1], call.optional(call.x.len() > 2, 2))
}

pub fn conv_transpose(op: &ConvTranspose, call: &Call<'_>) -> Made {
    let [stride, padding, dilation] = lists(&op.windows);
    let (more, groups) = (ints(&op.output_padding), op.groups as i64);
    let bias = call.optional(call.x.len() > 2, 2);
    Ok(call.x[0].f_convolution(&call.x[1], bias, stride, padding, dilation, true, &*more, groups)?)
}

/// The weight itself does not matter to its gradient, only its shape.
pub fn weight_gradient(op: &ConvBackwardWeight, call: &Call<'_>) -> Made {
    let (x, g) = (&*call.x[0], &*call.x[1]);
    let weight = Tensor::f_zeros(&*ints(&call.out[0].shape), (x.f_kind()?, x.device()))?;
    gradient(&weight, g, |weight| forward(&op.windows, op.groups, x, weight, None))
}
