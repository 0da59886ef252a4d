//! Modules, losses, optimisers, schedules, data loading and checkpoints, on any device.
//!
//! A model is a struct of layers with one [`Module::visit`]; an [`Optimizer`] holds its parameters; gradients come from
//! [`Tensor::backward`](ubique_core::Tensor::backward):
//!
//! ```
//! use ubique_core::{DType, Device, Tensor};
//! use ubique_nn::{Adam, Forward, Linear, Module, Optimizer, Sequential, loss};
//! # use ubique_flex as _;
//!
//! let device = Device::new("flex")?.autodiff();
//! let model = Sequential::new()
//!     .add(Linear::new(2, 16, &device)?)
//!     .apply(Tensor::tanh)
//!     .add(Linear::new(16, 1, &device)?);
//! let mut optimizer = Optimizer::new(&model, 0.03, Adam::default())?;
//! let x = Tensor::from_vec(vec![0f32, 0., 0., 1., 1., 0., 1., 1.], [4, 2], &device)?;
//! let y = Tensor::from_vec(vec![0f32, 1., 1., 0.], [4, 1], &device)?;
//! let mut last = f64::INFINITY;
//! for _ in 0..200 {
//!     let loss = loss::mse(&model.forward(&x)?, &y, loss::Reduction::Mean)?;
//!     last = loss.item_scalar()?.as_f64();
//!     optimizer.step(&mut loss.backward()?)?;
//! }
//! assert!(last < 0.01, "{last}");
//! # Ok::<(), ubique_core::Error>(())
//! ```
#![warn(missing_docs)]

pub mod atomic_file;
pub mod checkpoint;
pub mod clip;
pub mod data;
pub mod init;
pub mod layer;
pub mod loss;
pub mod module;
pub mod optim;
pub mod param;
pub mod schedule;

pub use checkpoint::Checkpoint;
pub use init::{Init, Place};
pub use layer::*;
pub use module::{Forward, Module, StateDict, Visitor, no_grad};
pub use optim::{Adam, Optimizer, RmsProp, Sgd};
pub use param::{Buffer, Mode, Param};
pub use schedule::Schedule;
