//! Products of matrices.

use tch::Device;
use ubique_core::DType;

use super::is_held;

/// Whether LibTorch has products in a dtype: of integers, which wrap, on the CPU only.
pub fn supports(dtype: DType, device: Device) -> bool {
    dtype.is_float() || device == Device::Cpu && is_held(dtype)
}
