//! Discrete Fourier transforms.

use tch::Tensor;
use ubique_core::op::fft::{Fft, FftNorm};
use ubique_core::{DType, TensorSpec};

use super::{Call, has_elements};
use crate::error::Made;

/// Whether LibTorch has the transform for a dtype, and of something.
pub fn supports(inputs: &[TensorSpec]) -> bool {
    matches!(inputs[0].dtype, DType::F32 | DType::F64) && has_elements(&inputs[0])
}

/// Real and imaginary parts from real and imaginary parts, or from real parts alone.
pub fn fft(op: &Fft, call: &Call<'_>) -> Made<Vec<Tensor>> {
    let re = &call.x[0];
    let pairs = match call.x.get(1) {
        Some(im) => Tensor::f_complex(re, im)?,
        None => re.shallow_clone(),
    };
    let norm = match op.norm {
        FftNorm::Backward => "backward",
        FftNorm::Ortho => "ortho",
        FftNorm::Forward => "forward",
    };
    let axis = op.axis as i64;
    let y = match op.inverse {
        true => pairs.f_fft_ifft(None, axis, norm)?,
        false => pairs.f_fft_fft(None, axis, norm)?,
    };
    // A conjugate may be one that LibTorch has only written down.
    let parts = y.f_resolve_conj()?.f_view_as_real()?;
    Ok(vec![parts.f_select(-1, 0)?, parts.f_select(-1, 1)?])
}
