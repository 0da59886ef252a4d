//! Windows of signals.

use std::f64::consts::TAU;

use ubique_core::{DType, Tensor};

use super::{Row, one};
use crate::call::Outcome;
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("BlackmanWindow", |n| cosines(n, &[0.42, -0.5, 0.08])),
    ("HammingWindow", |n| cosines(n, &[25.0 / 46.0, -21.0 / 46.0])),
    ("HannWindow", |n| cosines(n, &[0.5, -0.5])),
];

/// `Σ factors[k] · cos(2πk·i/N)`, with N the size of a period or, of a symmetric window, one less.
fn cosines(n: &Node<'_>, factors: &[f64]) -> Outcome {
    let (size, dtype) = (n.value(0, 0)?, n.dtype("output_datatype", DType::F32)?);
    let period = if n.flag("periodic", true)? { size } else { size - 1 };
    let angles = Tensor::arange(0.0, size as f64, 1.0, DType::F64, n.device())?.mul(TAU / period as f64)?;
    let mut sum = angles.zeros_like()?;
    for (k, &factor) in factors.iter().enumerate() {
        sum = sum.add(&angles.mul(k as f64)?.cos()?.mul(factor)?)?;
    }
    one(sum.cast(dtype))
}
