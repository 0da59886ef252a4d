//! Softmax and the logarithm of sums of exponentials, line by line, in f32.

use std::mem::MaybeUninit;

use ndarray::{ArrayView1, Axis};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::softmax::{LogSumExp, Softmax};
use ubique_core::{DType, Error, Result, TensorSpec};

use super::math::exp;
use super::reduce::{largest, sum};
use super::walk::{Target, each, target};
use crate::view::array;

/// Whether operands are of a dtype that these kernels are worth having for.
pub fn supports(inputs: &[TensorSpec]) -> bool {
    inputs.iter().all(|x| matches!(x.dtype, DType::F32 | DType::F16 | DType::BF16))
}

/// Room for a line, for one that is strided or a result that is not kept.
fn room(len: usize) -> Result<Vec<f32>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|e| Error::out_of_memory(format!("room for {len} elements: {e}")))?;
    Ok(room)
}

/// A line as a slice: its own, or a copy in `room`.
fn line<'a>(x: &'a ArrayView1<'_, f32>, room: &'a mut Vec<f32>) -> &'a [f32] {
    if let Some(slice) = x.as_slice() {
        return slice;
    }
    room.clear();
    room.extend(x);
    room
}

/// Exponentials that sum to 1 along an axis, or their logarithms.
pub fn softmax(pool: &HostPool, op: &Softmax, x: &View) -> Result<Buffer> {
    let mut out = UninitBuffer::<f32>::new(pool, x.layout.elements())?;
    if x.layout.elements() > 0 {
        let kernel = if op.log { log_shares } else { shares };
        let (len, axis) = (x.shape()[op.axis], Axis(op.axis));
        let (mut source, mut result) = (room(len)?, room(len)?);
        let (x, mut target) = (array::<f32>(x)?, target(out.as_mut_slice(), x.shape())?);
        for (x, mut target) in x.lanes(axis).into_iter().zip(target.lanes_mut(axis)) {
            let x = line(&x, &mut source);
            match target.as_slice_mut() {
                Some(target) => kernel(x, target),
                None => {
                    kernel(x, &mut result.spare_capacity_mut()[..len]);
                    target.iter_mut().zip(result.spare_capacity_mut()).for_each(|(slot, y)| *slot = *y);
                }
            }
        }
    }
    // SAFETY: every line is written.
    Ok(unsafe { out.assume_init() })
}

/// What the exponentials of elements are of the largest one's, and their sum. Initialises all of the target.
fn exponentials<'a>(x: &[f32], largest: f32, target: Target<'a, f32>) -> (&'a mut [f32], f64) {
    each(x, target, |x| exp(x - largest));
    // SAFETY: all were written above.
    let terms = unsafe { target.assume_init_mut() };
    let sum = sum(terms);
    (terms, sum)
}

fn shares(x: &[f32], target: Target<'_, f32>) {
    let (terms, sum) = exponentials(x, largest(x), target);
    let share = (1.0 / sum) as f32;
    terms.iter_mut().for_each(|term| *term *= share);
}

fn log_shares(x: &[f32], target: Target<'_, f32>) {
    let largest = largest(x);
    let log = exponentials(x, largest, target).1.ln() as f32;
    each(x, target, |x| x - largest - log);
}

/// The logarithm of the sum of exponentials along an axis, without overflow.
pub fn log_sum_exp(pool: &HostPool, op: &LogSumExp, x: &View, out: &TensorSpec) -> Result<Buffer> {
    let mut result = UninitBuffer::<f32>::new(pool, out.shape.elements()?)?;
    let slots = result.as_mut_slice();
    if x.layout.elements() == 0 {
        slots.fill(MaybeUninit::new(f32::NEG_INFINITY));
    } else {
        let len = x.shape()[op.axis];
        let (mut source, mut terms) = (room(len)?, room(len)?);
        for (x, slot) in array::<f32>(x)?.lanes(Axis(op.axis)).into_iter().zip(slots) {
            let x = line(&x, &mut source);
            let largest = largest(x);
            slot.write(match largest.is_infinite() {
                true => largest,
                false => {
                    let (_, sum) = exponentials(x, largest, &mut terms.spare_capacity_mut()[..len]);
                    (f64::from(largest) + sum.ln()) as f32
                }
            });
        }
    }
    // SAFETY: the result has an element for each line.
    Ok(unsafe { result.assume_init() })
}
