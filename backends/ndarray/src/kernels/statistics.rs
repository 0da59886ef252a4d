//! Variance and standard deviation.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::statistics::Variance;
use ubique_core::{DType, Error, Result, TensorSpec};

use super::copy::to_contiguous;
use super::dtype::Real;
use super::reduce::wide;
use crate::view::contiguous;

/// The variance over axes, or its root.
pub fn variance(pool: &HostPool, op: &Variance, x: &View, out: &TensorSpec) -> Result<Buffer> {
    match x.dtype {
        DType::F32 => run::<f32>(pool, op, x, out),
        DType::F64 => run::<f64>(pool, op, x, out),
        other => Err(Error::backend(format!("variance has no kernel for {other}"))),
    }
}

/// Goes over the elements twice, in f64: for the mean, and for how far they are from it.
fn run<T: Real>(pool: &HostPool, op: &Variance, x: &View, out: &TensorSpec) -> Result<Buffer> {
    let count: usize = op.axes.iter().map(|&axis| x.shape()[axis]).product();
    let mut result = UninitBuffer::<T>::new(pool, out.shape.elements()?)?;
    let slots = result.fill(T::nan());
    if count > 0 && !slots.is_empty() {
        let kept = (0..x.shape().rank()).filter(|axis| !op.axes.contains(axis));
        let order: Vec<usize> = kept.chain(op.axes.iter().copied()).collect();
        // Rows of what is reduced together.
        let rows = to_contiguous(pool, &View::new(x.buffer.clone(), x.layout.permute(&order), x.dtype))?;
        let rows = contiguous::<T>(&rows)?.ok_or_else(|| Error::backend("the operand is strided"))?;
        for (row, slot) in rows.chunks_exact(count).zip(slots) {
            let mean = row.iter().map(|&x| wide(x)).sum::<f64>() / count as f64;
            let squares: f64 = row.iter().map(|&x| (wide(x) - mean) * (wide(x) - mean)).sum();
            let variance = squares / (count as f64 - op.ddof).max(0.0);
            *slot = T::from(if op.root { variance.sqrt() } else { variance }).unwrap_or_else(T::nan);
        }
    }
    // SAFETY: `fill` writes every element.
    Ok(unsafe { result.assume_init() })
}
