//! Fourier transforms, and windows of signals.

use std::f64::consts::TAU;

use ubique_core::op::fft::{self, FftNorm};
use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("BlackmanWindow", |n| cosines(n, &[0.42, -0.5, 0.08])),
    ("DFT", dft),
    ("HammingWindow", |n| cosines(n, &[25.0 / 46.0, -21.0 / 46.0])),
    ("HannWindow", |n| cosines(n, &[0.5, -0.5])),
    ("STFT", stft),
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

/// Real and imaginary parts, which stand in the last axis; of extent 1 there, the values are real.
fn parts(x: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
    let part = |at| x.narrow(-1, at, 1)?.squeeze(-1);
    Ok((part(0)?, if x.shape().last() == Some(&2) { Some(part(1)?) } else { None }))
}

/// The transform along an axis, an attribute in older operators; of real values the first half alone, where asked for.
fn dft(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    let (re, im) = parts(x)?;
    let length = n.values(1)?.and_then(|values| values.first().map(|length| length.unsigned_abs()));
    let axis = if n.has("axis") { n.int("axis", 1)? } else { n.value(2, -2)? };
    let axis = x.shape().axis(axis)? as isize;
    let zeros = re.zeros_like()?;
    let norm = FftNorm::Backward;
    let (re, im) = match (n.flag("inverse", false)?, n.flag("onesided", false)?) {
        (true, true) => {
            let Some(im) = im else { return unmapped("half a spectrum without imaginary parts") };
            return one(fft::irfft(&re, &im, length, axis, norm)?.unsqueeze(-1));
        }
        (true, false) => fft::ifft(&re, im.as_ref().unwrap_or(&zeros), length, axis, norm)?,
        (false, true) => fft::rfft(&re, length, axis, norm)?,
        (false, false) => fft::fft(&re, im.as_ref().unwrap_or(&zeros), length, axis, norm)?,
    };
    one(Tensor::stack(&[&re, &im], -1))
}

/// Transforms of windows, a step apart, of real signals `[N, length, 1]`.
fn stft(n: &Node<'_>) -> Outcome {
    let (signal, None) = parts(n.x(0)?)? else { return unmapped("complex signals") };
    let window = n.maybe(2)?;
    let step = n.value(1, 1)?.unsigned_abs();
    let length = match (n.values(3)?, window) {
        (Some(values), _) => values[0].unsigned_abs(),
        (None, Some(window)) => window.elements(),
        (None, None) => return unmapped("windows of no length"),
    };
    let mut frames = signal.unfold(-1, length, step)?;
    if let Some(window) = window {
        frames = frames.mul(window)?;
    }
    let (re, im) = match n.flag("onesided", true)? {
        true => fft::rfft(&frames, None, -1, FftNorm::Backward)?,
        false => fft::fft(&frames, &frames.zeros_like()?, None, -1, FftNorm::Backward)?,
    };
    one(Tensor::stack(&[&re, &im], -1))
}
