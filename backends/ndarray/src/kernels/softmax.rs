//! Softmax and the logarithm of sums of exponentials, line by line, in f32.

use std::mem::MaybeUninit;

use ndarray::{ArrayView1, Axis, Zip};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::softmax::{LogSumExp, Softmax};
use ubique_core::{DType, Result, TensorSpec};

use super::reduce::larger;
use super::walk::target;
use crate::view::array;

/// Whether operands are of a dtype that these kernels are worth having for.
pub fn supports(inputs: &[TensorSpec]) -> bool {
    inputs.iter().all(|x| matches!(x.dtype, DType::F32 | DType::F16 | DType::BF16))
}

/// The largest element of a line, and the sum of what the others' exponentials are of its.
fn sum(x: ArrayView1<'_, f32>) -> (f32, f64) {
    let largest = x.fold(f32::NEG_INFINITY, |a, &b| larger(a, b));
    (largest, x.fold(0.0, |sum, &x| sum + f64::from((x - largest).exp())))
}

/// Exponentials that sum to 1 along an axis, or their logarithms.
pub fn softmax(pool: &HostPool, op: &Softmax, x: &View) -> Result<Buffer> {
    let mut out = UninitBuffer::<f32>::new(pool, x.layout.elements())?;
    if x.layout.elements() > 0 {
        let (x, mut target, axis) = (array::<f32>(x)?, target(out.as_mut_slice(), x.shape())?, Axis(op.axis));
        Zip::from(x.lanes(axis)).and(target.lanes_mut(axis)).for_each(|x, target| {
            let (largest, sum) = sum(x);
            match op.log {
                true => {
                    let log = sum.ln() as f32;
                    Zip::from(x).map_assign_into(target, |&x| x - largest - log);
                }
                false => {
                    let share = (1.0 / sum) as f32;
                    Zip::from(x).map_assign_into(target, |&x| (x - largest).exp() * share);
                }
            }
        });
    }
    // SAFETY: every line is written.
    Ok(unsafe { out.assume_init() })
}

/// The logarithm of the sum of exponentials along an axis, without overflow.
pub fn log_sum_exp(pool: &HostPool, op: &LogSumExp, x: &View, out: &TensorSpec) -> Result<Buffer> {
    let mut result = UninitBuffer::<f32>::new(pool, out.shape.elements()?)?;
    let slots = result.as_mut_slice();
    if x.layout.elements() == 0 {
        slots.fill(MaybeUninit::new(f32::NEG_INFINITY));
    } else {
        for (x, slot) in array::<f32>(x)?.lanes(Axis(op.axis)).into_iter().zip(slots) {
            let (largest, sum) = sum(x);
            slot.write(match largest.is_infinite() {
                true => largest,
                false => (f64::from(largest) + sum.ln()) as f32,
            });
        }
    }
    // SAFETY: the result has an element for each line.
    Ok(unsafe { result.assume_init() })
}
