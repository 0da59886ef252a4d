//! One tensor API for every device; the device is chosen at run time.
//!
//! ```
//! use ubique::{DType, Device, Tensor};
//!
//! # fn main() -> ubique::Result<()> {
//! let device = Device::auto()?.autodiff();
//! let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3], &device)?.require_grad()?;
//! let loss = (x.exp()? * 0.5 + &x).tensor()?.sum_all()?;
//! let gradients = loss.backward()?;
//! println!("{loss}\n{}", gradients.get(&x)?);
//! # assert_eq!(loss.dtype(), DType::F32);
//! # Ok(())
//! # }
//! ```
//!
//! Backends are cargo features (all on by default), and linking one is all it takes to have it: `flex` is the eager CPU,
//! `ndarray` the crate of that name (its conversions from and to arrays are in `ubique::ndarray`),
//! `plugins` loads those that `UBIQUE_PLUGIN_PATH` and the config file name.

pub use ubique_core::*;

#[cfg(feature = "flex")]
use ubique_flex as _;
#[cfg(feature = "ndarray")]
pub use ubique_ndarray as ndarray;
#[cfg(feature = "plugins")]
use ubique_plugin as _;

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
