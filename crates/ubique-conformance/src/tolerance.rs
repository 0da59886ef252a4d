//! How far a result may be from the reference, by op and dtype. One place, with reasons.

use ubique_core::op::case::{Case, Fill};
use ubique_core::op::unary::Unary;
use ubique_core::{DType, Op, TensorSpec};

/// `|got - wanted| <= absolute + relative · |wanted|`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Relative part.
    pub relative: f64,
    /// Absolute part.
    pub absolute: f64,
}

/// Activations made of several elementary functions.
const COMPOSED: [Unary; 7] =
    [Unary::Silu, Unary::Mish, Unary::Gelu, Unary::GeluTanh, Unary::Selu, Unary::Softplus, Unary::LogSigmoid];

impl Tolerance {
    /// The tolerance of an output of a case; `native` where one kernel computes it.
    pub fn of(case: &Case, output: &TensorSpec, native: bool) -> Tolerance {
        let (op, dtype) = (&case.op, output.dtype);
        // Half a unit in the last place of the dtype, times a factor.
        let ulp = match dtype {
            DType::F64 => f64::EPSILON,
            DType::F32 => f32::EPSILON as f64,
            DType::F16 => 9.8e-4,
            DType::BF16 => 7.9e-3,
            _ => return Tolerance { relative: 0.0, absolute: 0.0 },
        };
        let factor = match op {
            // Products of functions, each within 2 ulp of a value of the order of the operand; tails lose relative
            // accuracy to the rounding of the exponent's argument.
            Op::Unary(op) if COMPOSED.contains(op) => 12.0,
            // Elementary functions: within 2 ulp; f64 ones come from the host's libm, which is as good.
            Op::Unary(_) | Op::Cast(_) | Op::Fill(_) | Op::Arange(_) | Op::Clamp(_) => 2.0,
            Op::Binary(_) | Op::BinaryScalar(_) => 2.0,
            // Moves elements only.
            Op::Bitcast(_) => 0.0,
            Op::View(_) | Op::Contiguous(_) | Op::Concat(_) | Op::Pad(_) | Op::Select(_) | Op::MaskedFill(_) => 0.0,
            Op::Gather(_) | Op::IndexSelect(_) => 0.0,
            // Sums of products of up to 4 each, whose errors add up like a random walk.
            Op::Matmul(_) | Op::Linear(_) => 200.0 * walk(case, output),
            // Over the batch and all places, which some kernels sum one after the other.
            Op::ConvBackwardWeight(_) => 800.0 * walk(case, output),
            Op::Conv(_) | Op::ConvTranspose(_) | Op::QuantizedLinear(_) => {
                // Simpler ops round partial sums in between.
                200.0 * walk(case, output) * if native { 1.0 } else { 2.0 }
            }
            // What rounding leaves of operands without variance is divided by the root of epsilon.
            Op::LayerNormBackward(_) => 200.0,
            Op::LayerNorm(_) | Op::GroupNorm(_) if !native => 200.0,
            // Far from 0 a rounding of the operand is one of the result multiplied by mean over deviation.
            Op::LayerNorm(_) | Op::GroupNorm(_) | Op::Variance(_) => f64::max(40.0, 2.0 * remoteness(case)),
            Op::BatchNorm(_) | Op::BatchNormBackward(_) if !native => 200.0,
            // Weights are what is left of places, whose rounding grows with the axis, and slopes are multiplied by its extent.
            Op::GridSample(_) | Op::GridSampleBackward(_) => 200.0,
            // Errors grow with the condition number and the distance of eigenvalues, which the cases keep near 10 and 1.
            Op::Cholesky(_) | Op::SolveTriangular(_) | Op::Solve(_) | Op::Inverse(_) | Op::Lu(_) => 200.0,
            Op::Det(_) | Op::Slogdet(_) | Op::Qr(_) | Op::Eigh(_) | Op::Svd(_) => 200.0,
            // Sums of as many terms of the order of 1 as the axis has, which may all add up in one element and cancel in the
            // others.
            Op::Fft(op) => 40.0 + 4.0 * output.shape.get(op.axis).copied().unwrap_or(1) as f64,
            // Composed, exponentials of what is left of sums of logarithms, which grow with the number of steps.
            Op::CtcLoss(_) | Op::CtcLossBackward(_) if !native => 160.0,
            // Sums of many terms round at each step, and cancel. Those of the reference in f64, too.
            _ if dtype == DType::F64 => 160.0,
            _ => 40.0,
        };
        // A kernel computes half-precision results in f32 and rounds once: one ulp covers that and the f32 error. Simpler ops
        // round after each step.
        let factor = match (dtype, native) {
            (DType::F16 | DType::BF16, true) => f64::min(factor, 4.0),
            _ => factor,
        };
        // Below the smallest normal number a device may give 0, as most GPUs do; f16 is computed in f32.
        let smallest = match dtype {
            DType::F16 => 6e-8,
            DType::BF16 | DType::F32 => f64::from(f32::MIN_POSITIVE),
            _ => 1e-300,
        };
        // Sums near zero have no relative accuracy: their terms are of the order of 1 in the cases.
        let absolute = if factor > 10.0 {
            ulp * factor
        } else if factor > 0.0 {
            smallest
        } else {
            0.0
        };
        Tolerance {
            relative: ulp * factor,
            absolute: f64::max(absolute, if factor >= 4.0 { ulp * factor } else { absolute }),
        }
    }
}

/// The root of the number of terms in hundreds, at least 1.
fn walk(case: &Case, output: &TensorSpec) -> f64 {
    let count = |spec: &TensorSpec| spec.shape.elements().unwrap_or(0) as f64;
    let largest = case.inputs.iter().map(|input| count(&input.spec)).fold(0.0, f64::max);
    (largest / count(output).max(1.0) / 100.0).sqrt().max(1.0)
}

/// The mean of the first operand's elements over their deviation, where they are spread evenly between bounds.
fn remoteness(case: &Case) -> f64 {
    match case.inputs.first().map(|input| &input.values) {
        Some(&Fill::Uniform(low, high)) if high > low => ((low + high) / 2.0).abs() / ((high - low) / 12f64.sqrt()),
        _ => 0.0,
    }
}
