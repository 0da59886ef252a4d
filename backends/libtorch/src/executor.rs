//! An opened device.

use tch::{Cuda, Device, Tensor};
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::memory::MemoryControl;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{self, DeviceInfo, Executor, Few, Outputs, Several, Support, View};
use ubique_core::{Error, HostTensor, Op, Result, TensorSpec};

use crate::error::{Made, caught};
use crate::memory::Operand;
use crate::pool::pool;
use crate::{autograd, memory, ops};

/// LibTorch on one of its devices.
pub struct LibTorchExecutor {
    device: Device,
    info: DeviceInfo,
}

impl LibTorchExecutor {
    /// A device that is there.
    pub fn new(device: Device, info: DeviceInfo) -> LibTorchExecutor {
        if device == Device::Cpu {
            pool();
        }
        LibTorchExecutor { device, info }
    }

    fn run(&self, op: &Op, inputs: &[backend::Operand<'_>], outputs: &[TensorSpec]) -> Made<Outputs> {
        let mut operands = Few::new();
        for operand in inputs.iter().map_while(|view| memory::whole(view)) {
            operands.push(operand);
        }
        match operands.len() == inputs.len() {
            true => self.compute(op, &operands, outputs),
            false => self.run_on_parts(op, inputs, outputs),
        }
    }

    /// With operands of which some are not all that lies in their buffers.
    #[inline(never)]
    fn run_on_parts(&self, op: &Op, inputs: &[backend::Operand<'_>], outputs: &[TensorSpec]) -> Made<Outputs> {
        let parts = inputs.iter().map(|view| match memory::whole(view) {
            Some(whole) => Ok(whole.shallow_clone()),
            None => memory::part(view),
        });
        let parts = parts.collect::<Made<Vec<Tensor>>>()?;
        let operands = parts.iter().zip(inputs).map(|(tensor, view)| Operand::new(tensor, view.dtype));
        self.compute(op, &operands.collect::<Vec<_>>(), outputs)
    }

    #[inline(always)]
    fn compute(&self, op: &Op, operands: &[Operand<'_>], outputs: &[TensorSpec]) -> Made<Outputs> {
        match (ops::execute(op, operands, outputs, self.device)?, outputs) {
            (Several::One(tensor), [spec]) => memory::store(tensor, spec, self.device).map(Several::One),
            (made, outputs) => self.store_many(made.into_vec(), outputs),
        }
    }

    #[inline(never)]
    fn store_many(&self, made: Vec<Tensor>, outputs: &[TensorSpec]) -> Made<Outputs> {
        if made.len() != outputs.len() {
            let text = format!("the kernel gave {} outputs instead of {}", made.len(), outputs.len());
            return Err(Error::backend(text).into());
        }
        let buffers = made.into_iter().zip(outputs).map(|(tensor, spec)| memory::store(tensor, spec, self.device));
        buffers.collect::<Made<_>>().map(Several::Many)
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

    fn execute(&self, op: &Op, inputs: &mut [backend::Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        // ubique differentiates itself.
        Ok(caught(|| autograd::without(|| self.run(op, inputs, outputs)))?)
    }

    fn memory(&self) -> Option<&dyn MemoryControl> {
        (self.device == Device::Cpu).then(|| pool() as &dyn MemoryControl)
    }

    fn sync(&self) -> Result<()> {
        if let Device::Cuda(index) = self.device {
            Cuda::synchronize(index as i64);
        }
        Ok(())
    }
}
