//! Running sums, products and extrema.

use tch::Tensor;
use ubique_core::DType;
use ubique_core::op::scan::{Scan, ScanOp};

use super::{is_held, numbers};
use crate::dtype::{is_own, kind};
use crate::error::Made;

/// Whether LibTorch has the accumulation for a dtype.
pub fn supports(op: &Scan, dtype: DType) -> bool {
    match op.op {
        ScanOp::Sum | ScanOp::Prod => is_held(dtype),
        ScanOp::Max | ScanOp::Min => is_own(dtype),
    }
}

pub fn scan(op: &Scan, x: &Tensor, dtype: DType) -> Made {
    let axis = op.axis as i64;
    let x = numbers(x)?;
    Ok(match op.op {
        ScanOp::Sum => x.f_cumsum(axis, kind(dtype))?,
        ScanOp::Prod => x.f_cumprod(axis, kind(dtype))?,
        ScanOp::Max => x.f_cummax(axis)?.0,
        ScanOp::Min => x.f_cummin(axis)?.0,
    })
}
