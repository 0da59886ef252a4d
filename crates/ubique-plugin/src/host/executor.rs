//! A loaded backend's device as an [`Executor`].

use std::ptr::null_mut;
use std::slice;
use std::sync::Arc;

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::memory::{MemoryControl, MemoryUsage};
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{DeviceInfo, Executor, Few, Operand, Outputs, Several, Support, View};
use ubique_core::{DType, Error, HostTensor, Op, Result, TensorSpec};

use super::buffer::{PluginBuffer, give};
use super::device::Device;
use super::ops::{Known, Prepared};
use crate::abi;
use crate::text;

pub struct PluginExecutor {
    info: DeviceInfo,
    device: Arc<Device>,
}

impl PluginExecutor {
    pub fn new(info: DeviceInfo, device: Arc<Device>) -> PluginExecutor {
        PluginExecutor { info, device }
    }

    /// A handle that the backend gave, as a buffer.
    #[inline]
    fn wrap(&self, handle: *mut abi::Buffer, spec: &TensorSpec) -> Result<Buffer> {
        if handle.is_null() {
            return Err(Error::backend("the backend reported success, but gave no buffer"));
        }
        // What core asks for can be addressed; with an extent of 0 the others may be of any size.
        let bytes = spec.shape.iter().fold(spec.dtype.size(), |bytes, &extent| bytes.wrapping_mul(extent));
        Ok(Buffer::new(PluginBuffer { device: self.device.clone(), handle, bytes }))
    }

    /// Whether the backend takes an op on operands of these specs.
    fn takes(&self, op: &Known, inputs: &[TensorSpec]) -> bool {
        op.supports(inputs, |prepared| {
            let specs: Vec<abi::Spec> = inputs.iter().map(spec).collect();
            let Device { table, handle, .. } = &*self.device;
            // SAFETY: both handles are live, and the list is valid for the call.
            unsafe { (table.supports)(*handle, prepared.handle, specs.as_ptr(), specs.len()) != 0 }
        })
    }

    #[inline(always)]
    fn run(&self, op: &Prepared, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        if let [output] = outputs {
            let mut result = null_mut();
            let reused = self.call(op, inputs, &[spec(output)], slice::from_mut(&mut result))?;
            return self.result(result, output, inputs, reused).map(Several::One);
        }
        self.run_many(op, inputs, outputs)
    }

    #[inline(never)]
    fn run_many(&self, op: &Prepared, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        let specs: Vec<abi::Spec> = outputs.iter().map(spec).collect();
        let mut results = vec![null_mut(); outputs.len()];
        let reused = self.call(op, inputs, &specs, &mut results)?;
        let results = results.into_iter().zip(outputs);
        results
            .map(|(result, spec)| self.result(result, spec, inputs, reused))
            .collect::<Result<_>>()
            .map(Several::Many)
    }

    /// Lets the backend run an op and write a handle for each output. Gives whether one is that of an operand.
    #[inline(always)]
    fn call(
        &self,
        op: &Prepared,
        inputs: &mut [Operand<'_>],
        outputs: &[abi::Spec],
        results: &mut [*mut abi::Buffer],
    ) -> Result<bool> {
        let (execute, device) = (self.device.table.execute, self.device.handle);
        let (outputs, room, places) = (outputs.as_ptr(), outputs.len(), results.as_mut_ptr());
        let mut views = Few::new();
        for input in inputs {
            views.push(operand(input));
        }
        require_own(&views)?;
        let (inputs, count) = (views.as_ptr(), views.len());
        // SAFETY: all handles are live, and the lists are valid for the call and as long as said.
        text::checked(|error| unsafe { execute(device, op.handle, inputs, count, outputs, places, room, error) })?;
        Ok(views.iter().any(|operand| results.contains(&operand.buffer)))
    }

    /// A handle that the backend gave for an output. Where some are `reused`, it may be an operand's, whose memory it gives on.
    #[inline]
    fn result(
        &self,
        result: *mut abi::Buffer,
        spec: &TensorSpec,
        inputs: &[Operand<'_>],
        reused: bool,
    ) -> Result<Buffer> {
        if !reused {
            return self.wrap(result, spec);
        }
        match inputs.iter().find(|operand| handle(operand) == result) {
            Some(operand) if operand.buffer.byte_len() < spec.shape.bytes(spec.dtype)? => {
                Err(Error::backend("the backend gave an operand on whose memory is too small for the output"))
            }
            Some(operand) => Ok(operand.buffer.clone()),
            None => self.wrap(result, spec),
        }
    }

    fn wait(&self, function: Option<abi::Wait>) -> Result<()> {
        let Some(function) = function else { return Ok(()) };
        // SAFETY: the handle is live.
        text::checked(|error| unsafe { function(self.device.handle, error) })
    }
}

fn spec(spec: &TensorSpec) -> abi::Spec {
    shaped(&spec.shape, spec.dtype)
}

fn shaped(shape: &[usize], dtype: DType) -> abi::Spec {
    // The numbers of dtypes are their places in the list.
    abi::Spec { dtype: dtype as u32, rank: shape.len() as u32, shape: shape.as_ptr() }
}

/// Null where the memory is another backend's.
fn handle(view: &View) -> *mut abi::Buffer {
    view.buffer.downcast().map_or(null_mut(), |buffer: &PluginBuffer| buffer.handle)
}

fn require_own(views: &[abi::View]) -> Result<()> {
    match views.iter().any(|view| view.buffer.is_null()) {
        true => Err(Error::backend("an operand lies in another backend's memory")),
        false => Ok(()),
    }
}

#[inline]
fn operand(operand: &mut Operand<'_>) -> abi::View {
    match operand {
        Operand::Ref(operand) => view(operand, false),
        Operand::Own(operand) => {
            let unique = operand.buffer.is_unique();
            view(operand, unique)
        }
    }
}

#[inline]
fn view(view: &View, owned: bool) -> abi::View {
    let layout = &view.layout;
    abi::View {
        spec: shaped(layout.shape(), view.dtype),
        strides: layout.strides().as_ptr(),
        offset: layout.offset(),
        buffer: handle(view),
        contiguous: layout.is_contiguous().into(),
        owned: owned.into(),
    }
}

impl Executor for PluginExecutor {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support {
        if self.takes(&self.device.known(op), inputs) { Support::Native } else { Support::No }
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        let given = data.spec().clone();
        if !self.info.usage(given.dtype).storage {
            return Err(Error::dtype(format!("the device cannot store {}", given.dtype)));
        }
        let (upload, memory, mut buffer) = (self.device.table.upload, give(data), null_mut());
        // SAFETY: the memory is handed over; all pointers are valid for the call.
        text::checked(|error| unsafe { upload(self.device.handle, &spec(&given), memory, &mut buffer, error) })?;
        self.wrap(buffer, &given)
    }

    fn download(&self, from: &View) -> Result<Pending<HostTensor>> {
        let whole = from.layout.is_row_major();
        if whole && from.buffer.host_bytes().is_some() {
            from.buffer.check()?;
            return HostTensor::from_buffer(from.buffer.clone(), from.spec()).map(Pending::ready);
        }
        let mut data = Vec::new();
        let bytes = from.shape().bytes(from.dtype)?;
        data.try_reserve_exact(bytes).map_err(|e| Error::out_of_memory(format!("room for a download: {e}")))?;
        data.resize(bytes, 0u8);
        let (Device { table, handle, .. }, view) = (&*self.device, view(from, false));
        require_own(slice::from_ref(&view))?;
        // SAFETY: the target has that many bytes; everything is valid for the call.
        text::checked(|error| unsafe { (table.download)(*handle, &view, data.as_mut_ptr().cast(), bytes, error) })?;
        HostTensor::from_bytes(data, from.dtype, from.shape()).map(Pending::ready)
    }

    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        let known = self.device.known(op);
        let gone = || Error::unsupported("the backend no longer has a kernel for this");
        self.run(known.prepared.as_ref().ok_or_else(gone)?, inputs, outputs)
    }

    fn try_execute(
        &self,
        op: &Op,
        inputs: &mut [Operand<'_>],
        specs: &[TensorSpec],
        outputs: &[TensorSpec],
    ) -> Result<Option<Outputs>> {
        let known = self.device.known(op);
        match &known.prepared {
            Some(prepared) if self.takes(&known, specs) => self.run(prepared, inputs, outputs).map(Some),
            _ => Ok(None),
        }
    }

    fn flush(&self) -> Result<()> {
        self.wait(self.device.table.raw.flush)
    }

    fn sync(&self) -> Result<()> {
        self.wait(self.device.table.raw.sync)
    }

    fn memory(&self) -> Option<&dyn MemoryControl> {
        self.device.table.raw.memory_usage.map(|_| self as &dyn MemoryControl)
    }
}

impl MemoryControl for PluginExecutor {
    fn usage(&self) -> MemoryUsage {
        let mut raw = abi::MemoryUsage::default();
        if let Some(function) = self.device.table.raw.memory_usage {
            // SAFETY: the handle is live.
            unsafe { function(self.device.handle, &mut raw) };
        }
        let mut usage = MemoryUsage::default();
        usage.live_bytes = raw.live_bytes;
        usage.requested_bytes = raw.requested_bytes;
        usage.live_blocks = raw.live_blocks;
        usage.cached_bytes = raw.cached_bytes;
        usage.peak_bytes = raw.peak_bytes;
        usage.allocations = raw.allocations;
        usage.system_allocations = raw.system_allocations;
        usage.limit = Some(raw.limit).filter(|&limit| limit > 0);
        usage
    }

    fn report(&self) -> String {
        let MemoryUsage { live_bytes, live_blocks, cached_bytes, .. } = self.usage();
        format!("{live_bytes} bytes in {live_blocks} blocks in use, {cached_bytes} bytes cached\n")
    }

    fn cleanup(&self) -> u64 {
        // SAFETY: the handle is live.
        self.device.table.raw.memory_cleanup.map_or(0, |function| unsafe { function(self.device.handle) })
    }

    fn set_limit(&self, bytes: Option<u64>) {
        if let Some(function) = self.device.table.raw.memory_limit {
            // SAFETY: the handle is live.
            unsafe { function(self.device.handle, bytes.unwrap_or(0)) };
        }
    }
}
