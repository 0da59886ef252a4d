//! What a program needs of a device, and which devices have it.

use crate::backend::{DeviceInfo, Executor, Support};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::shape::TensorSpec;

/// What a device has to have; see [`Device::auto_for`](crate::Device::auto_for). By default nothing.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// Dtypes to compute with, or to store those that are for nothing else.
    pub dtypes: Vec<DType>,
    /// Bytes of memory. A device that does not know how much it has is taken to have enough.
    pub memory: u64,
    /// Ops that have to run natively, with the operands that they will have.
    pub ops: Vec<(Op, Vec<TensorSpec>)>,
}

impl Requirements {
    /// Refuses a device by what is known before it is opened.
    pub(crate) fn check_info(&self, info: &DeviceInfo) -> Result<()> {
        if let Some(why) = &info.unavailable {
            return Err(why.into());
        }
        if let Some(dtype) = self.dtypes.iter().find(|&&dtype| !info.supports(dtype)) {
            return Err(Error::dtype(format!("it lacks {dtype}")));
        }
        match info.memory {
            Some(memory) if memory < self.memory => {
                Err(Error::out_of_memory(format!("it has {memory} bytes of memory, not {}", self.memory)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an opened device.
    pub(crate) fn check(&self, executor: &dyn Executor) -> Result<()> {
        self.check_info(executor.info())?;
        // Views are dispatch's own.
        let native = |op: &Op, inputs: &[TensorSpec]| {
            op.rule().traits().view || executor.supports(op, inputs) == Support::Native
        };
        match self.ops.iter().find(|(op, inputs)| !native(op, inputs)) {
            Some((op, inputs)) => {
                let operands = inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                Err(Error::unsupported(format!("it has no kernel for {}({operands})", op.name())))
            }
            None => Ok(()),
        }
    }
}
