//! The opened device: accepts work and returns at once.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::memory::MemoryControl;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{DeviceInfo, Executor, Operand, Outputs, Several, Support, View};
use ubique_core::op::view::Contiguous;
use ubique_core::{Error, HostTensor, Layout, Op, Result, TensorSpec};

use crate::Profile;
use crate::faults::Faults;
use crate::memory::{DeviceBuffer, Memory, Region};
use crate::queue::{self, Job, Run, Source};

/// Kernels take operands that start at a multiple of this many bytes only.
const OPERAND_ALIGN: usize = 16;
/// Bytes of a staging buffer: transfers go in pieces of this size.
const STAGING: usize = 64 << 10;

pub struct Device {
    info: DeviceInfo,
    profile: Profile,
    faults: Faults,
    memory: Arc<Memory>,
    queue: Sender<Job>,
}

impl Device {
    pub fn open(info: DeviceInfo, profile: Profile, faults: Faults) -> Device {
        let (queue, jobs) = channel();
        let memory = Arc::new(Memory::new(profile.memory, faults.clone(), queue.clone()));
        let (capacity, switches) = (profile.memory, faults.clone());
        std::thread::spawn(move || queue::work(&jobs, capacity, &switches));
        Device { info, profile, faults, memory, queue }
    }

    fn send(&self, job: Job) -> Result<()> {
        self.queue.send(job).map_err(|_| Error::backend("the device's thread has ended"))
    }

    fn source(&self, view: &View) -> Result<Source> {
        let buffer: &DeviceBuffer =
            view.buffer.downcast().ok_or_else(|| Error::backend("an operand lies in another backend's memory"))?;
        Ok(Source { region: buffer.0.clone(), layout: view.layout.clone(), dtype: view.dtype })
    }

    /// An operand as the kernels want it: where it starts at a wrong address, a copy that starts at a right one.
    fn aligned(&self, source: Source) -> Result<Source> {
        if (source.layout.offset() * source.dtype.size()).is_multiple_of(OPERAND_ALIGN) {
            return Ok(source);
        }
        let spec = TensorSpec::new(source.layout.shape(), source.dtype);
        let (region, dtype) = (self.region(&spec)?, source.dtype);
        let outputs = vec![(region.clone(), spec.clone())];
        self.send(Job::Run(Run { op: Op::Contiguous(Contiguous), inputs: vec![source], outputs }))?;
        Ok(Source { region, layout: Arc::new(Layout::contiguous(spec.shape)), dtype })
    }

    fn region(&self, spec: &TensorSpec) -> Result<Arc<Region>> {
        self.memory.allocate(spec.shape.bytes(spec.dtype)?)
    }
}

impl Executor for Device {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    // The required set, without which nothing works, and nothing more: dispatch makes the other ops of these. An op with a
    // result of a dtype that the device lacks has to be refused too.
    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support {
        let kernel = matches!(op, Op::Fill(_) | Op::Arange(_) | Op::Random(_))
            || matches!(op, Op::Unary(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Binary(_) | Op::BinaryScalar(_))
            || matches!(op, Op::Compare(_) | Op::CompareScalar(_) | Op::Select(_))
            || matches!(op, Op::Contiguous(_) | Op::Concat(_) | Op::Pad(_))
            || matches!(op, Op::Reduce(_) | Op::ArgReduce(_) | Op::Scan(_) | Op::Sort(_))
            || matches!(op, Op::Gather(_) | Op::Scatter(_) | Op::Matmul(_));
        let fits = || {
            op.infer(inputs)
                .is_ok_and(|outputs| outputs.iter().all(|output| self.profile.dtypes.contains(&output.dtype)))
        };
        if kernel && !self.profile.missing.contains(&op.name()) && fits() { Support::Native } else { Support::No }
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        if !self.profile.dtypes.contains(&data.dtype()) {
            return Err(Error::dtype(format!("the device cannot store {}", data.dtype())));
        }
        let region = self.region(data.spec())?;
        // A real device can only fetch from pinned memory, of which there is little: hence the pieces.
        for (piece, bytes) in data.bytes().chunks(STAGING).enumerate() {
            self.send(Job::Write { to: region.clone(), at: piece * STAGING, bytes: bytes.into() })?;
        }
        Ok(Buffer::new(DeviceBuffer(region)))
    }

    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        let (promise, pending) = Pending::promised();
        self.send(Job::Read { from: self.source(view)?, promise })?;
        Ok(pending)
    }

    // Everything that can be known now fails now: memory. Everything else spoils the outputs later.
    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        let sources = inputs.iter().map(|input| self.aligned(self.source(input)?)).collect::<Result<Vec<_>>>()?;
        let regions = outputs.iter().map(|spec| self.region(spec)).collect::<Result<Vec<_>>>()?;
        let targets = regions.iter().cloned().zip(outputs.iter().cloned()).collect();
        self.send(Job::Run(Run { op: op.clone(), inputs: sources, outputs: targets }))?;
        let mut buffers: Vec<Buffer> = regions.into_iter().map(|region| Buffer::new(DeviceBuffer(region))).collect();
        Ok(if buffers.len() == 1 { Several::One(buffers.remove(0)) } else { Several::Many(buffers) })
    }

    fn sync(&self) -> Result<()> {
        let (done, finished) = channel();
        self.send(Job::Mark(done))?;
        finished.recv().map_err(|_| Error::backend("the device's thread has ended"))?;
        if self.faults.is_lost() { Err(Error::unavailable("the device is lost")) } else { Ok(()) }
    }

    fn memory(&self) -> Option<&dyn MemoryControl> {
        Some(&*self.memory)
    }
}
