//! Variance and the 2-norm of rows.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::statistics::Variance;
use ubique_core::{Result, TensorSpec};

use super::fused::floats;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::simd::reduce;

/// Whether the axes are the innermost ones, so that what is reduced lies in rows.
pub fn trailing(x: &TensorSpec, axes: &[usize]) -> bool {
    let rank = x.shape.rank();
    !axes.is_empty() && axes.iter().rev().enumerate().all(|(i, &axis)| axis + i + 1 == rank)
}

/// Each row to one value.
fn each_row(context: &Context, x: &View, out: &TensorSpec, f: impl Fn(&[f32]) -> f64 + Sync + Send) -> Result<Buffer> {
    let data = floats(x)?;
    let count = out.shape.elements()?;
    let len = data.len().checked_div(count).unwrap_or(0);
    let mut result = UninitBuffer::<f32>::new(&context.pool, count)?;
    context.threads.rows(result.as_mut_slice(), 1, (GRAIN / len.max(1)).max(1), &|first, part| {
        for (i, slot) in part.iter_mut().enumerate() {
            slot.write(f(&data[(first + i) * len..][..len]) as f32);
        }
    });
    // SAFETY: each slot is written.
    Ok(unsafe { result.assume_init() })
}

/// The variance of each row, or its root.
pub fn variance(context: &Context, op: &Variance, x: &View, out: &TensorSpec) -> Result<Buffer> {
    each_row(context, x, out, |row| {
        let count = row.len() as f64;
        let variance = reduce::mean_variance(row).1;
        // Rounding may leave a little less than nothing; NaN stays.
        let variance = if variance < 0.0 { 0.0 } else { variance } * count / (count - op.ddof).max(0.0);
        if op.root { variance.sqrt() } else { variance }
    })
}

/// The 2-norm of each row.
pub fn norm(context: &Context, x: &View, out: &TensorSpec) -> Result<Buffer> {
    each_row(context, x, out, |row| reduce::sum_of_squares(row).sqrt())
}
