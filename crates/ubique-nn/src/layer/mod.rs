//! Layers: modules with parameters, ready to be put together.

mod basic;
mod conv;
mod linear;

pub use basic::{Dropout, Flatten, Function, Sequential};
pub use conv::{
    Conv, Conv1d, Conv2d, Conv3d, ConvConfig, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
};
pub use linear::{Embedding, Linear};

use ubique_core::{Result, Tensor};

use crate::param::Param;

/// The value of a parameter that may be absent.
fn optional(param: &Option<Param>) -> Result<Option<Tensor>> {
    param.as_ref().map(Param::value).transpose()
}
