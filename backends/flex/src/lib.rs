//! The eager CPU backend: pure Rust, runs on any machine, computes each op as it comes.
//!
//! Linking this crate registers the backend; it has one device, `flex:0`.

mod executor;
mod kernels;
mod memory;
pub mod simd;
mod threads;

use std::sync::Arc;

use ubique_core::backend::registry::Linked;
use ubique_core::backend::{Backend, DeviceInfo, Executor, OpenOptions, Unavailable};
use ubique_core::{Error, Result};

ubique_core::inventory::submit! { Linked(|| Box::new(Flex)) }

/// The backend; [`Backend::open`] gives its one device.
#[derive(Debug, Default)]
pub struct Flex;

impl Backend for Flex {
    fn name(&self) -> &str {
        "flex"
    }

    fn id(&self) -> u8 {
        1
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        Ok(vec![info()])
    }

    fn open(&self, index: usize, options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        if index > 0 {
            return Err(Error::device(format!("flex has one device, 0; there is no {index}")));
        }
        Ok(Arc::new(executor::Flex::new(info(), options)?))
    }
}

fn info() -> DeviceInfo {
    let name = format!("CPU, {} threads, {}", threads::available(), simd::Level::current().name());
    DeviceInfo::cpu(name, format!("ubique-flex {}", env!("CARGO_PKG_VERSION")))
}
