//! The way to kernels of fused ops, which compute in f32: half-precision operands are widened first and the results
//! narrowed.

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::{Operand, Outputs, View};
use ubique_core::op::Op;
use ubique_core::{DType, Error, Layout, Result, TensorSpec};

use super::{
    activation, attention, batch_norm, cast, copy, cross_entropy, ctc_loss, grid_sample, layer_norm, optimizer,
    resample, softmax, statistics,
};
use crate::executor::Context;
use crate::memory;

/// Whether there is a kernel for a fused op on operands of these shapes and dtypes.
pub fn supports(op: &Op, inputs: &[TensorSpec]) -> bool {
    let Some(first) = inputs.first() else { return false };
    if !matches!(first.dtype, DType::F32 | DType::F16 | DType::BF16) {
        return false;
    }
    match op {
        Op::Softmax(_) | Op::SoftmaxBackward(_) | Op::Activation(_) | Op::AdamStep(_) | Op::SgdStep(_) => true,
        Op::Attention(_) => true,
        Op::LogSumExp(op) => softmax::supports_logsumexp(op, first),
        Op::Variance(op) => statistics::trailing(first, &op.axes),
        Op::Norm(op) => op.p == 2.0 && statistics::trailing(first, &op.axes),
        Op::LayerNorm(op) => op.center || !op.bias,
        Op::LayerNormBackward(_) => true,
        Op::BatchNorm(_) | Op::BatchNormBackward(_) => batch_norm::supports(first),
        Op::CtcLoss(_) | Op::CtcLossBackward(_) | Op::Resample(_) | Op::ResampleBackward(_) => true,
        Op::GridSample(_) | Op::GridSampleBackward(_) => grid_sample::supports(first),
        Op::CrossEntropy(_) | Op::CrossEntropyBackward(_) => cross_entropy::supports(first),
        _ => false,
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Runs an op that [`supports`] accepts.
pub fn execute(context: &Context, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
    if !inputs.iter().any(|input| is_half(input.dtype)) {
        return run(context, op, inputs, outputs);
    }
    let widen = |view: &View| match is_half(view.dtype) {
        true => converted(context, view, DType::F32),
        false => Ok(view.clone()),
    };
    let mut wide = inputs.iter().map(|input| widen(input)).collect::<Result<Vec<View>>>()?;
    let mut operands: Vec<Operand<'_>> = wide.iter_mut().map(Operand::Own).collect();
    let results = run(context, op, &mut operands, outputs)?.into_vec();
    let narrow = |(buffer, spec): (Buffer, &TensorSpec)| -> Result<Buffer> {
        if !is_half(spec.dtype) {
            return Ok(buffer);
        }
        let view = View::new(buffer, Layout::contiguous(spec.shape.clone()), DType::F32);
        cast::cast(context, &view, spec.dtype)
    };
    results.into_iter().zip(outputs).map(narrow).collect::<Result<Vec<_>>>().map(several)
}

/// One output as such, several as a list.
pub fn several(mut buffers: Vec<Buffer>) -> Outputs {
    match buffers.len() {
        1 => Outputs::One(buffers.remove(0)),
        _ => Outputs::Many(buffers),
    }
}

/// A row-major copy in another dtype.
pub fn converted(context: &Context, view: &View, dtype: DType) -> Result<View> {
    let buffer = cast::cast(context, view, dtype)?;
    Ok(View::new(buffer, Layout::contiguous(view.shape().clone()), dtype))
}

/// Row-major f32 views of all operands that are f32; others as they are.
fn contiguous(context: &Context, inputs: &[Operand<'_>]) -> Result<Vec<View>> {
    inputs.iter().map(|input| copy::to_contiguous(context, input)).collect()
}

/// The elements of a row-major f32 view.
pub fn floats(view: &View) -> Result<&[f32]> {
    memory::contiguous::<f32>(view)?.ok_or_else(|| Error::backend("a fused kernel got a strided operand"))
}

fn run(context: &Context, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
    match op {
        Op::AdamStep(step) => return optimizer::adam(context, step, inputs),
        Op::SgdStep(step) => return optimizer::sgd(context, step, inputs),
        Op::Attention(attention) => {
            return attention::attention(context, attention, inputs, &outputs[0]).map(Outputs::One);
        }
        Op::Activation(activation) => {
            return activation::activation(context, *activation, &inputs[0]).map(Outputs::One);
        }
        _ => {}
    }
    let views = contiguous(context, inputs)?;
    match op {
        Op::Softmax(op) => softmax::softmax(context, op, &views[0]).map(Outputs::One),
        Op::SoftmaxBackward(op) => softmax::backward(context, op, &views[0], &views[1]).map(Outputs::One),
        Op::LogSumExp(_) => softmax::logsumexp(context, &views[0], &outputs[0]).map(Outputs::One),
        Op::Variance(op) => statistics::variance(context, op, &views[0], &outputs[0]).map(Outputs::One),
        Op::Norm(_) => statistics::norm(context, &views[0], &outputs[0]).map(Outputs::One),
        Op::LayerNorm(op) => layer_norm::forward(context, op, &views).map(Outputs::One),
        Op::LayerNormBackward(op) => layer_norm::backward(context, &op.0, &views).map(several),
        Op::BatchNorm(op) => batch_norm::forward(context, op, &views).map(several),
        Op::BatchNormBackward(op) => batch_norm::backward(context, op, &views).map(several),
        Op::CrossEntropy(op) => cross_entropy::forward(context, op, &views).map(Outputs::One),
        Op::CrossEntropyBackward(op) => cross_entropy::backward(context, &op.0, &views).map(Outputs::One),
        Op::CtcLoss(op) => ctc_loss::forward(context, op, &views).map(Outputs::One),
        Op::CtcLossBackward(op) => ctc_loss::backward(context, &op.0, &views).map(Outputs::One),
        Op::GridSample(op) => grid_sample::forward(context, op, &views, &outputs[0]).map(Outputs::One),
        Op::GridSampleBackward(op) => grid_sample::backward(context, &op.0, &views).map(several),
        Op::Resample(op) => resample::forward(context, op, &views[0]).map(Outputs::One),
        Op::ResampleBackward(op) => resample::backward(context, op, &views[0]).map(Outputs::One),
        op => Err(Error::backend(format!("flex has no fused kernel for {}", op.name()))),
    }
}
