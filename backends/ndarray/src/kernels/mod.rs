//! The kernels, by op: which ops and dtypes there are kernels for, and the way to each.

pub mod binary;
pub mod cast;
pub mod compare;
pub mod copy;
pub mod dtype;
pub mod fill;
pub mod half;
pub mod index;
mod math;
pub mod matmul;
pub mod pad;
pub mod reduce;
pub mod scan;
pub mod select;
pub mod softmax;
pub mod sort;
pub mod statistics;
pub mod unary;
pub mod walk;

use ubique_core::backend::pool::HostPool;
use ubique_core::backend::{Operand, Outputs, View};
use ubique_core::op::Op;
use ubique_core::{Error, Result, TensorSpec};

/// Whether there is a kernel for an op on operands of these shapes and dtypes.
pub fn supports(op: &Op, inputs: &[TensorSpec]) -> bool {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(_) | Op::Compare(_) | Op::CompareScalar(_) => true,
        Op::Fill(_) | Op::Arange(_) | Op::Random(_) | Op::Cast(_) | Op::Contiguous(_) | Op::Concat(_) | Op::Pad(_) => {
            true
        }
        Op::Bitcast(_) | Op::Select(_) | Op::MaskedFill(_) | Op::Clamp(_) | Op::Matmul(_) | Op::Linear(_) => true,
        Op::Reduce(_) | Op::ArgReduce(_) | Op::Scan(_) | Op::Sort(_) | Op::TopK(_) => true,
        Op::Gather(_) | Op::Scatter(_) | Op::IndexSelect(_) | Op::IndexAdd(_) | Op::Variance(_) => true,
        Op::Softmax(_) | Op::LogSumExp(_) => softmax::supports(inputs),
        _ => false,
    }
}

/// Runs an op that [`supports`] accepts.
pub fn execute(pool: &HostPool, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
    match half::computed(op, inputs.iter().map(|view| view.dtype)) {
        None => run(pool, op, inputs, outputs),
        Some(dtype) => {
            half::execute(pool, op, dtype, inputs, outputs, |op, inputs, outputs| run(pool, op, inputs, outputs))
        }
    }
}

fn run(pool: &HostPool, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
    let out = outputs.first().ok_or_else(|| Error::backend(format!("{} has no output", op.name())))?;
    match (op, inputs) {
        (Op::Binary(op), [a, b]) => binary::binary(pool, *op, a, b, out),
        (Op::BinaryScalar(op), [x]) => binary::scalar(pool, op, x, out),
        (Op::Unary(op), [x]) => unary::unary(pool, *op, x),
        (Op::Clamp(op), [x]) => unary::clamp(pool, op, x),
        (Op::Compare(op), [a, b]) => compare::compare(pool, *op, a, b, &out.shape),
        (Op::CompareScalar(op), [x]) => compare::compare_scalar(pool, op, x, &out.shape),
        (Op::Fill(op), []) => fill::fill(pool, op),
        (Op::Arange(op), []) => fill::arange(pool, op),
        (Op::Random(op), []) => fill::random(pool, op),
        (Op::Cast(op), [x]) => cast::cast(pool, x, op.dtype),
        (Op::Select(_), [mask, a, b]) => select::select(pool, mask, a, b, out),
        (Op::MaskedFill(op), [x, mask]) => select::masked_fill(pool, op, x, mask),
        (Op::Reduce(op), [x]) => reduce::reduce(pool, op, x, out),
        (Op::ArgReduce(op), [x]) => scan::arg_reduce(pool, op, x, out),
        (Op::Scan(op), [x]) => scan::scan(pool, op, x),
        (Op::Sort(op), [x]) => return sort::sort(pool, op, x, outputs),
        (Op::TopK(op), [x]) => return sort::topk(pool, op, x, outputs),
        (Op::Gather(op), [x, index]) => index::gather(pool, op, x, index),
        (Op::Scatter(op), [x, index, source]) => index::scatter(pool, op, x, index, source),
        (Op::IndexSelect(op), [x, index]) => index::index_select(pool, op, x, index, out),
        (Op::IndexAdd(op), [x, index, source]) => index::index_add(pool, op, x, index, source),
        (Op::Pad(op), [x]) => pad::pad(pool, op, x, out),
        // The copy's bits are the result's, whatever its dtype, and so is its alignment.
        (Op::Contiguous(_) | Op::Bitcast(_), [x]) => copy::contiguous(pool, x),
        (Op::Concat(op), inputs) => copy::concat(pool, op, &views(inputs), out),
        (Op::Variance(op), [x]) => statistics::variance(pool, op, x, out),
        (Op::Softmax(op), [x]) => softmax::softmax(pool, op, x),
        (Op::LogSumExp(op), [x]) => softmax::log_sum_exp(pool, op, x, out),
        (Op::Matmul(_), [a, b]) => matmul::matmul(pool, a, b, out),
        (Op::Linear(_), inputs) => matmul::linear(pool, &views(inputs), out),
        (op, _) => Err(Error::backend(format!("ndarray has no kernel for {}", op.name()))),
    }
    .map(Outputs::One)
}

/// The operands of an op that takes a varying number of them.
fn views<'a>(inputs: &'a [Operand<'_>]) -> Vec<&'a View> {
    inputs.iter().map(|x| &**x).collect()
}
