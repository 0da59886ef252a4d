//! The backend on LibTorch, through the `tch` crate: a library that the program loads at run time, so that the program
//! itself neither links nor needs LibTorch.
//!
//! LibTorch's kinds of device are listed one by one, whether they are there or not: `libtorch:0` is the CPU, and after it
//! come the CUDA devices, MPS and Vulkan.

mod autograd;
mod devices;
mod dtype;
mod error;
mod executor;
mod memory;
mod ops;
mod pool;

use std::sync::{Arc, LazyLock};

use ubique_core::backend::memory::MemoryControl;
use ubique_core::backend::{Backend, DeviceInfo, Executor, OpenOptions, Unavailable};
use ubique_core::{Error, Result};
use ubique_plugin::{Exported, export};

/// The backend; [`Backend::open`] gives its devices.
#[derive(Debug, Default)]
pub struct LibTorch;

impl Backend for LibTorch {
    fn name(&self) -> &str {
        "libtorch"
    }

    fn id(&self) -> u8 {
        128
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        Ok(devices::all().into_iter().map(|(_, info)| info).collect())
    }

    /// Opens a device. In a program LibTorch has one pool of CPU threads, whose size the option `threads` sets, and one of host
    /// memory, which the option `memory` limits.
    fn open(&self, index: usize, options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        let mut all = devices::all();
        if index >= all.len() {
            return Err(Error::device(format!("libtorch has {} devices; there is no {index}", all.len())));
        }
        let (device, info) = all.swap_remove(index);
        if let Some(why) = &info.unavailable {
            return Err(why.into());
        }
        match options.memory_limit {
            Some(bytes) if device == tch::Device::Cpu => pool::pool().set_limit(Some(bytes)),
            Some(_) => {
                return Err(Error::value("of LibTorch's devices only the CPU takes a limit; leave the option out"));
            }
            None => {}
        }
        if let Some(threads) = options.threads {
            let threads = i32::try_from(threads).ok().filter(|&threads| threads > 0);
            tch::set_num_threads(threads.ok_or_else(|| Error::value("LibTorch needs at least one thread"))?);
        }
        Ok(Arc::new(executor::LibTorchExecutor::new(device, info)))
    }
}

/// What a program looks for in the library.
#[unsafe(no_mangle)]
pub extern "C" fn ubique_backend_v1() -> *const Exported {
    static TABLE: LazyLock<&Exported> = LazyLock::new(|| {
        error::quiet();
        export(Box::new(LibTorch))
    });
    *TABLE
}
