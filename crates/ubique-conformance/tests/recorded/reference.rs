//! A device whose every op is computed by its f64 reference, so that the references themselves can be tested.

use std::sync::Arc;

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{
    Backend, DeviceInfo, Executor, OpenOptions, Operand, Outputs, Several, Support, Unavailable, View,
};
use ubique_core::op::reference::RefTensor;
use ubique_core::{Device, HostTensor, Op, Result, TensorSpec};

/// Lends flex's memory and computes with references.
struct Reference(Device);

impl Executor for Reference {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn supports(&self, _op: &Op, _inputs: &[TensorSpec]) -> Support {
        Support::Native
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        self.0.executor().upload(data)
    }

    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        self.0.executor().download(view)
    }

    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        let read = |view: &Operand<'_>| Ok(RefTensor::from_host(&self.download(view)?.wait()?));
        let inputs = inputs.iter().map(read).collect::<Result<Vec<_>>>()?;
        let results = op.rule().reference(&inputs, outputs)?;
        results.iter().map(|result| self.upload(result.to_host()?)).collect::<Result<Vec<_>>>().map(Several::Many)
    }
}

/// The backend of the device `reference`.
pub struct ReferenceBackend;

impl Backend for ReferenceBackend {
    fn name(&self) -> &str {
        "reference"
    }

    fn id(&self) -> u8 {
        253
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        Device::new("flex")
            .map(|flex| vec![flex.info().clone()])
            .map_err(|e| Unavailable { why: e.to_string(), hint: None })
    }

    fn open(&self, _index: usize, _options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        Ok(Arc::new(Reference(Device::new("flex")?)))
    }
}
