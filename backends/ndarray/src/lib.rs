//! The backend on the `ndarray` crate: operands are array views of the tensors' own memory, and kernels are written with
//! `ndarray`'s zips, lanes and products. It computes on one thread.
//!
//! Linking this crate registers the backend; it has one device, `ndarray:0`. Arrays become tensors and tensors arrays
//! without a copy where their memory allows it: [`from_array`], [`into_array`], [`to_array`], [`with_view`].

mod convert;
mod executor;
mod kernels;
mod view;

pub use convert::{from_array, into_array, to_array, with_view};

use std::sync::Arc;

use ubique_core::backend::registry::Linked;
use ubique_core::backend::{Backend, DeviceInfo, Executor, OpenOptions, Unavailable};
use ubique_core::{Error, Result};

ubique_core::inventory::submit! { Linked(|| Box::new(NdArray)) }

/// The backend; [`Backend::open`] gives its one device.
#[derive(Debug, Default)]
pub struct NdArray;

impl Backend for NdArray {
    fn name(&self) -> &str {
        "ndarray"
    }

    fn id(&self) -> u8 {
        3
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        Ok(vec![info()])
    }

    fn open(&self, index: usize, options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        if index > 0 {
            return Err(Error::device(format!("ndarray has one device, 0; there is no {index}")));
        }
        match options.threads {
            None | Some(1) => Ok(Arc::new(executor::NdArray::new(info(), options))),
            Some(count) => {
                Err(Error::value(format!("ndarray computes on one thread, not on {count}; leave the option out")))
            }
        }
    }
}

fn info() -> DeviceInfo {
    let driver = format!("ubique-ndarray {}", env!("CARGO_PKG_VERSION"));
    // Below the CPU backend with vector code and threads, which `auto` and `cpu` shall mean.
    DeviceInfo { priority: -1, ..DeviceInfo::cpu("CPU, 1 thread, ndarray".to_owned(), driver) }
}
