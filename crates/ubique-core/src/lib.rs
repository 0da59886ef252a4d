//! Tensors, operations, dispatch, autodiff and the backend contract of ubique. No device code: backends are crates of
//! their own that implement [`backend::Backend`] and [`backend::Executor`].
#![warn(missing_docs)]

pub mod autodiff;
pub mod backend;
pub mod dispatch;
pub mod dtype;
pub mod error;
pub mod float8;
pub mod host;
pub mod layout;
pub mod op;
pub mod random;
pub mod scalar;
pub mod shape;
pub mod tensor;

pub use inventory;

pub use autodiff::{Gradients, grad};
pub use dispatch::{Checkpointing, Device, Dispatch, Fallback};
pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Result};
pub use float8::{F8E4M3, F8E5M2};
pub use host::HostTensor;
pub use layout::Layout;
pub use op::Op;
pub use scalar::Scalar;
pub use shape::{Shape, TensorSpec};
pub use tensor::{At, Expr, IntoAt, QTensor, Tensor};
