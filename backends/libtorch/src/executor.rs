//! An opened device.

use smallvec::SmallVec;
use tch::{Cuda, Device};
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{DeviceInfo, Executor, Operand, Outputs, Several, Support, View};
use ubique_core::{Error, HostTensor, Op, Result, TensorSpec};

use crate::error::Made;
use crate::{autograd, memory, ops};

/// LibTorch on one of its devices.
pub struct LibTorchExecutor {
    device: Device,
    info: DeviceInfo,
}

impl LibTorchExecutor {
    /// A device that is there.
    pub fn new(device: Device, info: DeviceInfo) -> LibTorchExecutor {
        LibTorchExecutor { device, info }
    }

    fn run(&self, op: &Op, inputs: &[Operand<'_>], outputs: &[TensorSpec]) -> Made<Outputs> {
        // ubique differentiates itself.
        let _without = autograd::set(false);
        let operands: SmallVec<[memory::Operand<'_>; 4]> =
            inputs.iter().map(|view| memory::read(view)).collect::<Made<_>>()?;
        match (ops::execute(op, &operands, outputs, self.device)?, outputs) {
            (Several::One(tensor), [spec]) => memory::store(tensor, spec, self.device).map(Several::One),
            (made, outputs) => {
                let made = made.into_vec();
                if made.len() != outputs.len() {
                    let text = format!("the kernel gave {} outputs instead of {}", made.len(), outputs.len());
                    return Err(Error::backend(text).into());
                }
                let buffers =
                    made.into_iter().zip(outputs).map(|(tensor, spec)| memory::store(tensor, spec, self.device));
                buffers.collect::<Made<_>>().map(Several::Many)
            }
        }
    }
}

impl Executor for LibTorchExecutor {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support {
        if ops::supports(op, inputs, self.device) { Support::Native } else { Support::No }
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        Ok(memory::upload(data, self.device)?)
    }

    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        Ok(Pending::ready(memory::download(view)?))
    }

    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        Ok(self.run(op, inputs, outputs)?)
    }

    fn sync(&self) -> Result<()> {
        if let Device::Cuda(index) = self.device {
            Cuda::synchronize(index as i64);
        }
        Ok(())
    }
}
