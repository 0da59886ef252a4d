//! Layers: modules with parameters, ready to be put together.

mod activation;
mod attention;
mod basic;
mod conv;
mod linear;
mod norm;
mod pool;
mod quantized;
mod recurrent;

pub use activation::{Activation, PRelu};
pub use attention::MultiHeadAttention;
pub use basic::{Dropout, Flatten, Function, Sequential};
pub use conv::{
    Conv, Conv1d, Conv2d, Conv3d, ConvConfig, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
};
pub use linear::{Embedding, Linear};
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use pool::{AdaptiveAvgPool, AvgPool, MaxPool};
pub use quantized::QuantizedLinear;
pub use recurrent::{Cell, Gru, GruCell, Lstm, LstmCell, Recurred, Recurrent, RecurrentConfig};

use ubique_core::{Result, Tensor};

use crate::param::Param;

/// The value of a parameter that may be absent.
fn optional(param: &Option<Param>) -> Result<Option<Tensor>> {
    param.as_ref().map(Param::value).transpose()
}
