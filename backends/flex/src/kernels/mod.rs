//! The kernels, by op: which ops and dtypes there are kernels for, and the way to each.

pub mod activation;
pub mod attention;
pub mod batch_norm;
pub mod binary;
pub mod cast;
pub mod conv;
pub mod conv_weight;
pub mod copy;
mod correlate;
pub mod cross_entropy;
pub mod ctc_loss;
mod dtype;
pub mod fft;
pub mod fill;
mod float;
pub mod fused;
pub mod grid_sample;
pub mod index;
pub mod layer_norm;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod lines;
pub mod matmul;
pub mod optimizer;
pub mod pad;
pub mod pool;
mod product;
pub mod quantized;
pub mod radix;
pub mod random;
pub mod reduce;
pub mod resample;
pub mod rows;
pub mod scan;
pub mod search;
pub mod select;
pub mod softmax;
pub mod sort;
pub mod statistics;
pub mod unary;

use ubique_core::backend::{Operand, Outputs, View};
use ubique_core::op::Op;
use ubique_core::{Result, TensorSpec};

use crate::executor::Context;

/// Whether there is a kernel for an op on operands of these shapes and dtypes.
#[inline]
pub fn supports(op: &Op, inputs: &[TensorSpec]) -> bool {
    match op {
        Op::Unary(op) => unary::supports(*op),
        Op::Binary(_) | Op::BinaryScalar(_) | Op::Compare(_) | Op::CompareScalar(_) => true,
        Op::Fill(_) | Op::Arange(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Contiguous(_) => true,
        Op::Select(_) | Op::MaskedFill(_) | Op::Clamp(_) => true,
        Op::Reduce(reduce) => reduce::supports(reduce, inputs),
        Op::Concat(_) => true,
        Op::Gather(_) | Op::Scatter(_) | Op::IndexSelect(_) | Op::IndexAdd(_) => true,
        Op::Pad(_) | Op::Sort(_) | Op::TopK(_) | Op::Scan(_) | Op::ArgReduce(_) | Op::Random(_) | Op::Dropout(_) => {
            true
        }
        Op::Matmul(_) | Op::Linear(_) | Op::SearchSorted(_) | Op::Fft(_) => true,
        Op::Conv(op) => conv::supports(&op.windows, inputs),
        Op::ConvTranspose(op) => conv::supports(&op.windows, inputs),
        Op::ConvBackwardWeight(op) => conv::supports(&op.windows, inputs),
        Op::MaxPool(_) | Op::MaxPoolBackward(_) | Op::AvgPool(_) | Op::AvgPoolBackward(_) => pool::supports(inputs),
        Op::Quantize(_) | Op::Dequantize(_) | Op::QuantizedLinear(_) => quantized::supports(op, inputs),
        #[cfg(feature = "linalg")]
        op if linalg::supports(op) => true,
        op => fused::supports(op, inputs),
    }
}

/// Runs an op that [`supports`] accepts.
#[inline]
pub fn execute(context: &Context, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
    match (op, inputs) {
        (Op::Binary(op), [a, b]) => binary::binary(context, *op, a, b, &outputs[0]).map(Outputs::One),
        (Op::BinaryScalar(op), [x]) => binary::scalar(context, op, x, &outputs[0]).map(Outputs::One),
        (Op::Unary(op), [x]) => unary::unary(context, *op, x).map(Outputs::One),
        (Op::Compare(op), [a, b]) => binary::compare(context, *op, a, b, &outputs[0]).map(Outputs::One),
        (Op::CompareScalar(op), [x]) => binary::compare_scalar(context, op, x, &outputs[0]).map(Outputs::One),
        (Op::Fill(fill), []) => fill::fill(context, fill).map(Outputs::One),
        (Op::Arange(arange), []) => fill::arange(context, arange).map(Outputs::One),
        (Op::Cast(cast), [x]) => cast::cast(context, x, cast.dtype).map(Outputs::One),
        (Op::Bitcast(op), [x]) => copy::bitcast(context, op.dtype, x).map(Outputs::One),
        (Op::Contiguous(_), [x]) => copy::contiguous(context, x).map(Outputs::One),
        (Op::Select(_), [mask, a, b]) => select::select(context, mask, a, b, &outputs[0]).map(Outputs::One),
        (Op::MaskedFill(op), [x, mask]) => select::masked_fill(context, op, x, mask).map(Outputs::One),
        (Op::Clamp(op), [x]) => select::clamp(context, op, x).map(Outputs::One),
        (Op::Reduce(op), [x]) => reduce::reduce(context, op, x, &outputs[0]).map(Outputs::One),
        (Op::Concat(op), inputs) => copy::concat(context, op, inputs, &outputs[0]).map(Outputs::One),
        (Op::Gather(op), [x, index]) => index::gather(context, op, x, index).map(Outputs::One),
        (Op::Scatter(op), [x, index, source]) => index::scatter(context, op, x, index, source).map(Outputs::One),
        (Op::IndexSelect(op), [x, index]) => index::index_select(context, op, x, index, &outputs[0]).map(Outputs::One),
        (Op::IndexAdd(op), [x, index, source]) => index::index_add(context, op, x, index, source).map(Outputs::One),
        (Op::Pad(op), [x]) => pad::pad(context, op, x, &outputs[0]).map(Outputs::One),
        (Op::Sort(op), [x]) => sort::sort(context, op, x, outputs).map(Outputs::Many),
        (Op::TopK(op), [x]) => sort::topk(context, op, x, outputs).map(Outputs::Many),
        (Op::SearchSorted(op), [sorted, values]) => search::search(context, op, sorted, values).map(Outputs::One),
        (Op::Scan(op), [x]) => scan::scan(context, op, x).map(Outputs::One),
        (Op::ArgReduce(op), [x]) => scan::arg_reduce(context, op, x, &outputs[0]).map(Outputs::One),
        (Op::Random(op), []) => random::random(context, op).map(Outputs::One),
        (Op::Dropout(op), [x]) => random::dropout(context, op, x).map(Outputs::One),
        (Op::Matmul(_), [a, b]) => matmul::matmul(context, a, b, &outputs[0]).map(Outputs::One),
        (Op::Linear(_), inputs) => matmul::linear(context, &views(inputs), &outputs[0]).map(Outputs::One),
        (Op::Fft(op), inputs) => fft::fft(context, op, &views(inputs), outputs).map(Outputs::Many),
        (Op::Conv(op), inputs) => conv::conv(context, op, &views(inputs), &outputs[0]).map(Outputs::One),
        (Op::ConvTranspose(op), inputs) => {
            conv::conv_transpose(context, op, &views(inputs), &outputs[0]).map(Outputs::One)
        }
        (Op::ConvBackwardWeight(op), [x, g]) => {
            conv_weight::conv_backward_weight(context, op, x, g, &outputs[0]).map(Outputs::One)
        }
        (Op::MaxPool(op), [x]) => pool::max_pool(context, op, x, outputs),
        (Op::MaxPoolBackward(op), [x, g]) => pool::max_pool_backward(context, op, x, g).map(Outputs::One),
        (Op::AvgPool(op), [x]) => pool::avg_pool(context, op, x, &outputs[0]).map(Outputs::One),
        (Op::AvgPoolBackward(op), [g]) => pool::avg_pool_backward(context, op, g, &outputs[0]).map(Outputs::One),
        (Op::Quantize(op), inputs) => quantized::quantize(context, op, &views(inputs), &outputs[0]).map(Outputs::One),
        (Op::Dequantize(op), inputs) => {
            quantized::dequantize(context, op, &views(inputs), &outputs[0]).map(Outputs::One)
        }
        (Op::QuantizedLinear(op), inputs) => {
            quantized::linear(context, op, &views(inputs), &outputs[0]).map(Outputs::One)
        }
        #[cfg(feature = "linalg")]
        (op, inputs) if linalg::supports(op) => linalg::execute(context, op, inputs, outputs),
        (op, inputs) => fused::execute(context, op, inputs, outputs),
    }
}

/// The operands of an op that takes a varying number of them.
fn views<'a>(inputs: &'a [Operand<'_>]) -> Vec<&'a View> {
    inputs.iter().map(|x| &**x).collect()
}
