//! From floats to integers.

use serde::{Deserialize, Serialize};

use super::{Scheme, Width, samples, with_scales};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::accumulator;
use crate::op::reference::RefTensor;
use crate::op::{Rule, Specs, require_float};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// Beyond what any integer of a scheme can be, and small enough to round and convert.
const BOUND: f64 = 1024.0;

/// x, scales and, where the scheme is affine, zero points to integers: q = clamp(round(x/s) + z). Halves go to the even
/// neighbour, infinities and what is too large to the ends of the range, NaN to what stands for 0. The scales are f32, for
/// f64 f64, and that is what the quotient is rounded to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Quantize {
    /// How.
    pub scheme: Scheme,
}

impl Rule for Quantize {
    fn name(&self) -> &'static str {
        "quantize"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, scales @ ..] = inputs else { return Err(Error::value("takes a tensor, scales and zero points")) };
        require_float(x)?;
        self.scheme.check_scales(&x.shape, x.dtype, scales)?;
        Ok(self.scheme.values(&x.shape)?.into())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, scales, zero_points @ ..] = inputs else { return Ok(None) };
        let (shape, scheme) = (x.shape(), self.scheme);
        let steps = (x.cast(scales.dtype())? / scheme.spread(scales, shape)?).tensor()?;
        // The integer of NaN is 0.
        let mut q = steps.clamp(-BOUND, BOUND)?.round()?.cast(DType::I32)?;
        if let [zero_points] = zero_points {
            q = (q + scheme.spread(zero_points, shape)?.cast(DType::I32)?).tensor()?;
        }
        let (low, high) = scheme.range();
        let q = q.clamp(i64::from(low), i64::from(high))?.cast(DType::I8)?;
        Ok(Some(vec![match scheme.width {
            Width::Q8 => q,
            Width::Q4 => pack(&q)?,
        }]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, scales, scheme) = (inputs[0].floats(), inputs[1].floats(), self.scheme);
        let zero_points = inputs.get(2).map(RefTensor::ints);
        let (shape, dtype) = (inputs[0].shape(), inputs[1].spec.dtype);
        let (low, high) = scheme.range();
        let integer = |(x, at): (&f64, usize)| {
            let zero = zero_points.as_ref().map_or(0, |zero_points| zero_points[at]);
            let steps = dtype.round(dtype.round(*x) / scales[at]).clamp(-BOUND, BOUND).round_ties_even();
            (steps as i128 + zero).clamp(low.into(), high.into())
        };
        let q: Vec<i128> = x.iter().zip(scheme.scale_indices(shape)).map(integer).collect();
        let q = match scheme.width {
            Width::Q8 => q,
            Width::Q4 => {
                let pair = |pair: &[i128]| pair[0] & 15 | (pair.get(1).unwrap_or(&0) & 15) << 4;
                q.chunks(shape.last().copied().unwrap_or(1).max(1)).flat_map(|row| row.chunks(2).map(pair)).collect()
            }
        };
        Ok(vec![RefTensor::int(outputs[0].shape.clone(), outputs[0].dtype, q)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (scheme, shape) in samples() {
            let quantize = || Case::new(Quantize { scheme });
            for dtype in DType::FLOATS {
                cases.push(with_scales(quantize().input(&shape, dtype), scheme, &shape, dtype));
            }
            let special = quantize().input_with(&shape, DType::F32, Fill::Special);
            cases.push(with_scales(special, scheme, &shape, DType::F32));
            // Halves, and scales of nothing.
            let halves = quantize().input_with(&shape, DType::F32, Fill::Values(vec![-1.25, 0.25, 0.75, 40.0, 0.0]));
            let scales = scheme.scales(&shape).unwrap_or_default();
            let halves = halves.input_with(&scales, accumulator(DType::F32), Fill::Values(vec![0.5, 0.0]));
            cases.push(match scheme.affine {
                true => halves.input_with(scales, DType::I8, Fill::Values(vec![1.0, -3.0])),
                false => halves,
            });
        }
        cases
    }
}

/// Pairs of small i8 along the last axis in one u8 each; an odd last one beside 0.
fn pack(q: &Tensor) -> Result<Tensor> {
    let odd = q.shape().last().map_or(0, |n| n % 2);
    let q = q.pad_axis(-1, 0, odd, 0)?;
    let shape = q.shape();
    let axis = shape.rank() - 1;
    let pairs = shape.iter().take(axis).copied().chain([shape[axis] / 2, 2]).collect::<Vec<_>>();
    let nibbles = q.cast(DType::U8)?.bit_and(15)?.reshape(pairs)?;
    let half = |at| nibbles.narrow(-1, at, 1)?.squeeze(-1);
    half(0)?.bit_or(&half(1)?.shl(4)?)
}
