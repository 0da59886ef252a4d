//! The one device of the backend.

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::memory::MemoryControl;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::{DeviceInfo, Executor, OpenOptions, Operand, Outputs, Support, View};
use ubique_core::{HostTensor, Op, Result, TensorSpec};

use crate::kernels;

/// The opened device.
pub struct NdArray {
    info: DeviceInfo,
    pool: HostPool,
}

impl NdArray {
    /// Opens the device.
    pub fn new(info: DeviceInfo, options: &OpenOptions) -> NdArray {
        NdArray { info, pool: options.memory_limit.map_or_else(HostPool::new, HostPool::with_limit) }
    }
}

impl Executor for NdArray {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support {
        if kernels::supports(op, inputs) { Support::Native } else { Support::No }
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        Ok(data.into_buffer())
    }

    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        let buffer = match view.layout.is_row_major() {
            true => view.buffer.clone(),
            false => kernels::copy::contiguous(&self.pool, view)?,
        };
        Ok(Pending::ready(HostTensor::from_buffer(buffer, view.spec())?))
    }

    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        kernels::execute(&self.pool, op, inputs, outputs)
    }

    fn memory(&self) -> Option<&dyn MemoryControl> {
        Some(&self.pool)
    }
}
