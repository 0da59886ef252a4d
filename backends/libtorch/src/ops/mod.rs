//! The kernels, by op: which ops and dtypes LibTorch has, and the way to each.
//!
//! An op stays without a kernel here, and is composed of others or runs on the host, where LibTorch has no such function
//! (`cbrt`, quantisation in blocks), where `tch` does not reach it (the optimisers' fused steps, the gradient of a batch norm
//! with statistics of its own), or where its numbers are others: ubique's random numbers are the same on every device, and
//! its gradient of the CTC loss is that of the operand, where LibTorch's is that of the logits under a log-softmax.

mod activation;
mod attention;
mod binary;
mod cast;
mod conv;
mod create;
mod fft;
mod grad;
mod index;
mod linalg;
mod loss;
mod matmul;
mod movement;
mod norm;
mod pool;
mod reduce;
mod resample;
mod sample;
mod scan;
mod softmax;
mod sort;
mod unary;

use tch::{Device, Kind, Tensor};
use ubique_core::backend::Several;
use ubique_core::op::Op;
use ubique_core::op::binary::Binary;
use ubique_core::op::unary::Unary;
use ubique_core::{DType, Error, TensorSpec};

use crate::dtype::{is_own, is_unsigned_bits};
use crate::error::Made;
use crate::memory::Operand;

/// Operands and what a result has to be, for kernels that ask for more than tensors.
struct Call<'a> {
    x: &'a [Operand<'a>],
    out: &'a [TensorSpec],
    device: Device,
}

impl Call<'_> {
    /// The dtype of the first result.
    fn dtype(&self) -> DType {
        self.out[0].dtype
    }

    /// The operand at a place, where the op has it.
    fn optional(&self, there: bool, at: usize) -> Option<&Tensor> {
        there.then(|| &*self.x[at])
    }
}

/// Whether LibTorch has an op for operands of these shapes and dtypes.
pub fn supports(op: &Op, inputs: &[TensorSpec], device: Device) -> bool {
    if device == Device::Vulkan {
        return on_vulkan(op, inputs);
    }
    let all = |fits: fn(DType) -> bool| inputs.iter().all(|x| fits(x.dtype));
    match op {
        // Bits, whatever they mean.
        Op::Contiguous(_) | Op::Bitcast(_) | Op::Concat(_) | Op::Select(_) | Op::IndexSelect(_) | Op::Gather(_) => true,
        Op::Fill(op) => !op.spec.dtype.is_stored(),
        Op::Arange(op) => !op.dtype.is_stored(),
        Op::MaskedFill(_) | Op::Pad(_) => !inputs[0].dtype.is_stored(),
        Op::Cast(op) => cast::supports(inputs[0].dtype, op.dtype),
        // Integers that wrap have the same bits with a sign and without.
        Op::Unary(op) => unary::supports(*op, inputs[0].dtype),
        Op::Binary(op) => binary::supports(*op, inputs[0].dtype, device),
        Op::BinaryScalar(op) => binary::supports(op.op, inputs[0].dtype, device),
        Op::Compare(op) => binary::compares(*op, inputs[0].dtype),
        Op::CompareScalar(op) => binary::compares(op.op, inputs[0].dtype),
        Op::Reduce(op) => reduce::supports(op, inputs[0].dtype),
        Op::Scan(op) => scan::supports(op, inputs[0].dtype),
        Op::Scatter(op) => index::scatters(op, inputs[0].dtype),
        Op::IndexAdd(_) => !inputs[0].dtype.is_stored(),
        Op::Matmul(_) => matmul::supports(inputs[0].dtype, device),
        Op::Clamp(_) | Op::ArgReduce(_) | Op::Sort(_) | Op::TopK(_) => all(is_own),
        Op::SearchSorted(_) => all(is_own) && !inputs[0].dtype.is_float() && inputs[0].dtype != DType::Bool,
        Op::Linear(_) | Op::Softmax(_) | Op::SoftmaxBackward(_) | Op::LogSumExp(_) | Op::Activation(_) => true,
        Op::Variance(op) => !op.axes.is_empty(),
        Op::Norm(op) => reduce::has_norm(op, &inputs[0]),
        Op::LayerNorm(_) | Op::LayerNormBackward(_) | Op::GroupNorm(_) => true,
        Op::Attention(_) | Op::BatchNorm(_) | Op::Resample(_) | Op::ResampleBackward(_) => {
            inputs.iter().all(has_elements)
        }
        Op::CrossEntropy(_) | Op::CrossEntropyBackward(_) => true,
        Op::CtcLoss(_) => loss::has_ctc(inputs),
        Op::Conv(_) | Op::ConvTranspose(_) | Op::ConvBackwardWeight(_) => conv::supports(inputs),
        Op::MaxPool(_) | Op::MaxPoolBackward(_) => pool::has_max(inputs),
        Op::AvgPool(_) | Op::AvgPoolBackward(_) => pool::has_mean(inputs),
        Op::GridSample(op) => sample::supports(op, inputs),
        Op::GridSampleBackward(op) => sample::has_gradient(op, inputs),
        Op::Fft(_) => fft::supports(inputs),
        Op::Cholesky(_) | Op::SolveTriangular(_) | Op::Lu(_) | Op::Solve(_) | Op::Inverse(_) => true,
        Op::Det(_) | Op::Slogdet(_) | Op::Qr(_) | Op::Eigh(_) | Op::Svd(_) => true,
        _ => false,
    }
}

/// LibTorch's Vulkan has 32-bit floats and few ops.
fn on_vulkan(op: &Op, inputs: &[TensorSpec]) -> bool {
    let has = match op {
        Op::Binary(op) => matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div),
        Op::Unary(op) => matches!(op, Unary::Relu | Unary::Sigmoid | Unary::Tanh),
        _ => false,
    };
    has && inputs.iter().all(|x| x.dtype == DType::F32 && has_elements(x) && (1..=4).contains(&x.shape.rank()))
}

/// Whether LibTorch's CPU kernel computes half-precision operands less exactly than in f32, or has no kernel for them.
fn is_narrow(op: &Op) -> bool {
    match op {
        Op::Conv(_) | Op::ConvTranspose(_) | Op::ConvBackwardWeight(_) | Op::AvgPool(_) | Op::AvgPoolBackward(_) => {
            true
        }
        Op::LayerNormBackward(_) | Op::GridSample(_) | Op::GridSampleBackward(_) => true,
        Op::Unary(op) => *op == Unary::Erf,
        _ => false,
    }
}

/// Runs an op that [`supports`] accepts. Results may have a wider dtype and another layout than they are to have. Inlined, as the
/// functions of the most usual ops are: callers are what a small op's time goes to.
#[inline(always)]
pub fn execute(op: &Op, x: &[Operand<'_>], out: &[TensorSpec], device: Device) -> Made<Several<Tensor>> {
    let is_half = |x: &Operand<'_>| matches!(x.dtype, DType::F16 | DType::BF16);
    if device == Device::Cpu && is_narrow(op) && x.iter().any(is_half) {
        return run_wide(op, x, out, device);
    }
    run(op, &Call { x, out, device })
}

/// Runs an op on the same operands in f32.
#[inline(never)]
fn run_wide(op: &Op, x: &[Operand<'_>], out: &[TensorSpec], device: Device) -> Made<Several<Tensor>> {
    let wide = x.iter().map(|x| Ok(x.f_to_kind(Kind::Float)?)).collect::<Made<Vec<Tensor>>>()?;
    let x: Vec<Operand<'_>> = wide.iter().map(|x| Operand::new(x, DType::F32)).collect();
    run(op, &Call { x: &x, out, device })
}

fn run(op: &Op, call: &Call<'_>) -> Made<Several<Tensor>> {
    let Call { x, device, .. } = *call;
    let one = match op {
        Op::Binary(op) => binary::binary(*op, &x[0], &x[1], call.dtype()),
        Op::BinaryScalar(op) => binary::scalar(op, &x[0], call.dtype()),
        Op::Unary(op) => unary::unary(*op, &x[0], call.dtype()),
        Op::Activation(op) => activation::activation(*op, &x[0]),
        Op::Compare(op) => binary::compare(*op, &x[0], &x[1]),
        Op::Fill(op) => create::fill(op, device),
        Op::Arange(op) => create::arange(op, device),
        Op::Select(_) => Ok(x[1].f_where_self(&x[0], &x[2])?),
        Op::Contiguous(_) => Ok(x[0].f_contiguous()?),
        Op::Concat(op) => movement::concat(op, x),
        Op::Reduce(op) => reduce::reduce(op, &x[0], call.dtype()),
        Op::Scan(op) => scan::scan(op, &x[0], call.dtype()),
        Op::ArgReduce(op) => reduce::arg_reduce(op, &x[0]),
        Op::Matmul(_) => Ok(x[0].f_matmul(&x[1])?),
        Op::Linear(_) => Ok(x[0].f_linear(&x[1], call.optional(x.len() > 2, 2))?),
        Op::Softmax(op) => softmax::softmax(op, &x[0]),
        Op::SoftmaxBackward(op) => softmax::backward(op, &x[0], &x[1]),
        Op::LogSumExp(op) => Ok(x[0].f_logsumexp([op.axis as i64], false)?),
        Op::Variance(op) => reduce::variance(op, &x[0]),
        Op::Norm(op) => reduce::norm(op, &x[0]),
        Op::LayerNorm(op) => norm::layer_norm(op, call),
        Op::GroupNorm(op) => norm::group_norm(op, call),
        Op::Attention(op) => attention::attention(op, call),
        Op::CrossEntropy(op) => loss::cross_entropy(op, call),
        Op::CrossEntropyBackward(op) => loss::cross_entropy_backward(op, call),
        Op::CtcLoss(op) => loss::ctc_loss(op, call),
        Op::Conv(op) => conv::conv(op, call),
        Op::ConvTranspose(op) => conv::conv_transpose(op, call),
        Op::ConvBackwardWeight(op) => conv::weight_gradient(op, call),
        Op::MaxPoolBackward(op) => pool::max_backward(op, call),
        Op::AvgPool(op) => pool::mean(op, call),
        Op::AvgPoolBackward(op) => pool::mean_backward(op, call),
        Op::GridSample(op) => sample::grid_sample(op, &x[0], &x[1]),
        Op::Resample(op) => resample::resample(op, &x[0]),
        Op::ResampleBackward(op) => resample::backward(op, &x[0]),
        Op::Cholesky(_) => linalg::cholesky(&x[0]),
        Op::SolveTriangular(op) => linalg::solve_triangular(op, &x[0], &x[1]),
        Op::Solve(_) => linalg::solve(&x[0], &x[1]),
        Op::Inverse(_) => linalg::inverse(&x[0]),
        Op::Det(_) => linalg::det(&x[0]),
        // Ops whose operands or parameters speak of elements of their own dtype.
        Op::CompareScalar(op) => binary::compare_scalar(op, call),
        Op::Bitcast(op) => movement::bitcast(op, call),
        Op::MaskedFill(op) => movement::masked_fill(op, call),
        Op::Clamp(op) => binary::clamp(op, call),
        Op::Cast(op) => cast::cast(op, call),
        Op::Pad(op) => movement::pad(op, call),
        Op::Gather(op) => index::gather(op, call),
        Op::Scatter(op) => index::scatter(op, call),
        Op::IndexSelect(op) => index::index_select(op, call),
        Op::IndexAdd(op) => index::index_add(op, call),
        Op::SearchSorted(op) => sort::search_sorted(op, call),
        op => return several(op, call),
    };
    one.map(Several::One)
}

/// Ops with more results than one, or a number that depends on their parameters.
fn several(op: &Op, call: &Call<'_>) -> Made<Several<Tensor>> {
    let x = call.x;
    let many = match op {
        Op::Sort(op) => sort::sort(op.axis, op.descending, &x[0], None),
        Op::TopK(op) => sort::sort(op.axis, op.largest, &x[0], Some(op.k)),
        Op::MaxPool(op) => pool::max(op, call),
        Op::BatchNorm(op) => norm::batch_norm(op, call),
        Op::LayerNormBackward(op) => norm::layer_norm_backward(op, call),
        Op::GridSampleBackward(op) => sample::backward(op, call),
        Op::Fft(op) => fft::fft(op, call),
        Op::Lu(_) => linalg::lu(&x[0]),
        Op::Slogdet(_) => linalg::slogdet(&x[0]),
        Op::Qr(op) => linalg::qr(op, &x[0]),
        Op::Eigh(_) => linalg::eigh(&x[0]),
        Op::Svd(_) => linalg::svd(&x[0]),
        op => Err(Error::backend(format!("LibTorch has no kernel for {}", op.name())).into()),
    };
    many.map(Several::Many)
}

/// Whether an operand has elements: of none, many of LibTorch's functions make an error.
fn has_elements(x: &TensorSpec) -> bool {
    x.shape.iter().all(|&extent| extent > 0)
}

/// Bools as numbers, which LibTorch orders; numbers as they are.
fn numbers(x: &Tensor) -> Made {
    Ok(if x.f_kind()? == Kind::Bool { x.f_to_kind(Kind::Uint8)? } else { x.shallow_clone() })
}

/// Whether elements are held as they are, or as the bits of signed integers.
fn is_held(dtype: DType) -> bool {
    is_own(dtype) || is_unsigned_bits(dtype)
}
