//! The backend on the `ndarray` crate: operands are array views of the tensors' own memory, and kernels are written with
//! `ndarray`'s zips, lanes and products. It computes on one thread.
//!
//! Linking this crate registers the backend; it has one device, `ndarray:0`. Arrays become tensors and tensors arrays
//! without a copy where their memory allows it: [`from_array`], [`into_array`], [`to_array`], [`with_view`].

mod convert;
mod executor;
mod kernels;
mod memory;
mod view;

pub use convert::{from_array, into_array, to_array, with_view};

use std::sync::Arc;

use ubique_core::backend::registry::Linked;
use ubique_core::backend::{Backend, DTypeUsage, DeviceInfo, DeviceKind, Executor, OpenOptions, Unavailable};
use ubique_core::{DType, Error, Result};

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
    let usage = |dtype: DType| DTypeUsage {
        storage: true,
        arithmetic: !dtype.is_stored(),
        // Half-precision types are computed in f32.
        accelerated: !matches!(dtype, DType::F16 | DType::BF16) && !dtype.is_stored(),
    };
    DeviceInfo {
        name: "CPU, 1 thread, ndarray".to_owned(),
        kind: DeviceKind::Cpu,
        class: 0,
        memory: None,
        driver: format!("ubique-ndarray {}", env!("CARGO_PKG_VERSION")),
        dtypes: DType::ALL.map(|dtype| (dtype, usage(dtype))).to_vec(),
        default_float: DType::F32,
        default_int: DType::I64,
        // Below the CPU backend with vector code and threads, which `auto` and `cpu` shall mean.
        priority: -1,
        unavailable: None,
    }
}
