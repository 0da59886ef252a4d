//! The one device of the backend.

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::memory::MemoryControl;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::{DeviceInfo, Executor, OpenOptions, Operand, Outputs, Support, View};
use ubique_core::{HostTensor, Op, Result, TensorSpec};

use crate::kernels;
use crate::threads::Threads;

/// What kernels work with: memory and threads.
pub struct Context {
    /// Where outputs come from.
    pub pool: HostPool,
    /// Who computes them.
    pub threads: Threads,
}

/// The opened device.
pub struct Flex {
    info: DeviceInfo,
    context: Context,
}

impl Flex {
    /// Opens the device.
    pub fn new(info: DeviceInfo, options: &OpenOptions) -> Result<Flex> {
        let pool = match options.memory_limit {
            Some(bytes) => HostPool::with_limit(bytes),
            None => HostPool::new(),
        };
        Ok(Flex { info, context: Context { pool, threads: Threads::new(options.threads)? } })
    }
}

impl Executor for Flex {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    #[inline]
    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support {
        if kernels::supports(op, inputs) { Support::Native } else { Support::No }
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        Ok(data.into_buffer())
    }

    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        let spec = view.spec();
        let whole = view.layout.is_contiguous() && view.layout.offset() == 0;
        let buffer = if whole { view.buffer.clone() } else { kernels::copy::contiguous(&self.context, view)? };
        Ok(Pending::ready(HostTensor::from_buffer(buffer, spec)?))
    }

    #[inline]
    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        kernels::execute(&self.context, op, inputs, outputs)
    }

    fn memory(&self) -> Option<&dyn MemoryControl> {
        Some(&self.context.pool)
    }
}
