//! The device's thread: it owns the memory, and works the queue off in order.
//!
//! Yours hands jobs to a stream of the driver instead. What matters is the same: a job that fails spoils its outputs, a job
//! on spoilt operands passes their error on, and nothing else is touched.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use ubique_core::backend::pending::Promise;
use ubique_core::op::reference::RefTensor;
use ubique_core::{DType, Error, HostTensor, Layout, Op, Result, TensorSpec};

use crate::faults::Faults;
use crate::memory::Region;

/// Elements in device memory.
pub struct Source {
    pub region: Arc<Region>,
    pub layout: Arc<Layout>,
    pub dtype: DType,
}

/// An op on device memory.
pub struct Run {
    pub op: Op,
    pub inputs: Vec<Source>,
    pub outputs: Vec<(Arc<Region>, TensorSpec)>,
}

pub enum Job {
    /// Bytes from a staging buffer to an offset of a region.
    Write { to: Arc<Region>, at: usize, bytes: Box<[u8]> },
    /// A kernel.
    Run(Run),
    /// Elements to the host, row-major.
    Read { from: Source, promise: Promise<HostTensor> },
    /// Says when everything before it is done.
    Mark(Sender<()>),
}

/// Works jobs off until nobody can send any more.
pub fn work(jobs: &Receiver<Job>, capacity: usize, faults: &Faults) {
    let mut memory = Bytes(vec![0; capacity]);
    for job in jobs {
        faults.wait_while_paused();
        match job {
            Job::Write { to, at, bytes } => {
                faults.delay_transfer();
                match lost(faults) {
                    Ok(()) => memory.write(&to, at, &bytes),
                    Err(error) => spoil(&to, &error),
                }
            }
            Job::Run(run) => {
                if let Err(error) = run.on(&mut memory, faults) {
                    let specs: Vec<TensorSpec> = run.inputs.iter().map(Source::spec).collect();
                    let error = error.with_op(run.op.name(), &specs);
                    run.outputs.iter().for_each(|(region, _)| spoil(region, &error));
                }
            }
            Job::Read { from, promise } => {
                faults.delay_transfer();
                promise.keep(lost(faults).and_then(|()| memory.read(&from)).and_then(|tensor| tensor.to_host()));
            }
            // Whoever asked may have gone.
            Job::Mark(done) => _ = done.send(()),
        }
    }
}

impl Run {
    fn on(&self, memory: &mut Bytes, faults: &Faults) -> Result<()> {
        let fails = faults.op_fails();
        lost(faults)?;
        if fails {
            return Err(Error::backend("the kernel failed"));
        }
        let operands = self.inputs.iter().map(|input| memory.read(input)).collect::<Result<Vec<_>>>()?;
        let specs: Vec<TensorSpec> = self.outputs.iter().map(|(_, spec)| spec.clone()).collect();
        for (value, (region, _)) in self.op.rule().reference(&operands, &specs)?.iter().zip(&self.outputs) {
            memory.write(region, 0, value.to_host()?.bytes());
        }
        Ok(())
    }
}

fn lost(faults: &Faults) -> Result<()> {
    if faults.is_lost() { Err(Error::unavailable("the device is lost; open it again after a reset")) } else { Ok(()) }
}

fn spoil(region: &Region, error: &Error) {
    // The first error is the cause; later ones follow from it.
    let _ = region.spoilt.set(error.clone());
}

impl Source {
    fn spec(&self) -> TensorSpec {
        TensorSpec::new(self.layout.shape(), self.dtype)
    }
}

/// The device's memory. Only this thread has it.
struct Bytes(Vec<u8>);

impl Bytes {
    fn write(&mut self, region: &Region, at: usize, bytes: &[u8]) {
        self.0[region.start + at..][..bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self, from: &Source) -> Result<RefTensor> {
        if let Some(error) = from.region.spoilt.get() {
            return Err(error.clone());
        }
        let Region { start, len, .. } = *from.region;
        let elements = len / from.dtype.size();
        let bytes = self.0[start..][..elements * from.dtype.size()].to_vec();
        let all = RefTensor::from_host(&HostTensor::from_bytes(bytes, from.dtype, [elements])?);
        Ok(all.gather(&from.spec(), from.layout.positions()))
    }
}
