//! A loaded backend's device as an [`Executor`].

use std::ptr::null_mut;
use std::sync::Arc;

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::memory::{MemoryControl, MemoryUsage};
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{DeviceInfo, Executor, Operand, Outputs, Several, Support, View};
use ubique_core::{DType, Error, HostTensor, Op, Result, TensorSpec};

use super::buffer::{PluginBuffer, give};
use super::device::Device;
use crate::abi;
use crate::text::{self, NO_ERROR};

pub struct PluginExecutor {
    info: DeviceInfo,
    device: Arc<Device>,
}

impl PluginExecutor {
    pub fn new(info: DeviceInfo, device: Arc<Device>) -> PluginExecutor {
        PluginExecutor { info, device }
    }

    /// A handle that the backend gave, as a buffer.
    fn wrap(&self, handle: *mut abi::Buffer, spec: &TensorSpec) -> Result<Buffer> {
        if handle.is_null() {
            return Err(Error::backend("the backend reported success, but gave no buffer"));
        }
        let bytes = spec.shape.bytes(spec.dtype)?;
        Ok(Buffer::new(PluginBuffer { device: self.device.clone(), handle, bytes }))
    }

    fn wait(&self, function: Option<abi::Wait>) -> Result<()> {
        let Some(function) = function else { return Ok(()) };
        let mut error = NO_ERROR;
        // SAFETY: the handle is live.
        let code = unsafe { function(self.device.handle, &mut error) };
        text::check(code, &error)
    }
}

fn spec(spec: &TensorSpec) -> abi::Spec {
    shaped(&spec.shape, spec.dtype)
}

fn shaped(shape: &[usize], dtype: DType) -> abi::Spec {
    // The numbers of dtypes are their places in the list.
    abi::Spec { dtype: dtype as u32, rank: shape.len() as u32, shape: shape.as_ptr() }
}

fn handle(view: &View) -> Result<*mut abi::Buffer> {
    let buffer: &PluginBuffer =
        view.buffer.downcast().ok_or_else(|| Error::backend("an operand lies in another backend's memory"))?;
    Ok(buffer.handle)
}

fn view(view: &View, owned: bool) -> Result<abi::View> {
    let layout = &view.layout;
    Ok(abi::View {
        spec: shaped(layout.shape(), view.dtype),
        strides: layout.strides().as_ptr(),
        offset: layout.offset(),
        buffer: handle(view)?,
        contiguous: layout.is_contiguous().into(),
        owned: owned.into(),
    })
}

/// Calls `f` with a list of what `each` makes of `items`. The usual numbers need no heap.
fn with_each<T, A, R>(items: &mut [A], each: impl Fn(&mut A) -> Result<T>, f: impl FnOnce(&[T]) -> R) -> Result<R> {
    match items {
        [a] => Ok(f(&[each(a)?])),
        [a, b] => Ok(f(&[each(a)?, each(b)?])),
        [a, b, c] => Ok(f(&[each(a)?, each(b)?, each(c)?])),
        more => Ok(f(&more.iter_mut().map(each).collect::<Result<Vec<T>>>()?)),
    }
}

impl Executor for PluginExecutor {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support {
        let native = self.device.known(op).supports(inputs, |prepared| {
            let specs: Vec<abi::Spec> = inputs.iter().map(spec).collect();
            let Device { table, handle, .. } = &*self.device;
            // SAFETY: both handles are live, and the list is valid for the call.
            unsafe { (table.supports)(*handle, prepared.handle, specs.as_ptr(), specs.len()) != 0 }
        });
        if native { Support::Native } else { Support::No }
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        let given = data.spec().clone();
        if !self.info.usage(given.dtype).storage {
            return Err(Error::dtype(format!("the device cannot store {}", given.dtype)));
        }
        let (mut buffer, mut error) = (null_mut(), NO_ERROR);
        let memory = give(data);
        // SAFETY: the memory is handed over; all pointers are valid for the call.
        let code =
            unsafe { (self.device.table.upload)(self.device.handle, &spec(&given), memory, &mut buffer, &mut error) };
        text::check(code, &error)?;
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
        let (Device { table, handle, .. }, mut error) = (&*self.device, NO_ERROR);
        // SAFETY: the target has that many bytes; everything is valid for the call.
        let code =
            unsafe { (table.download)(*handle, &view(from, false)?, data.as_mut_ptr().cast(), bytes, &mut error) };
        text::check(code, &error)?;
        HostTensor::from_bytes(data, from.dtype, from.shape()).map(Pending::ready)
    }

    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        let known = self.device.known(op);
        let prepared =
            known.prepared.as_ref().ok_or_else(|| Error::unsupported("the backend no longer has a kernel for this"))?;
        let mut few = [null_mut(); 4];
        let mut many = vec![null_mut(); if outputs.len() > few.len() { outputs.len() } else { 0 }];
        let results = if many.is_empty() { &mut few[..outputs.len()] } else { &mut many[..] };
        let mut error = NO_ERROR;
        let each = |operand: &mut Operand<'_>| match operand {
            Operand::Ref(operand) => view(operand, false),
            Operand::Own(operand) => {
                let unique = operand.buffer.is_unique();
                view(operand, unique)
            }
        };
        let code = with_each(inputs, each, |views| {
            let mut run = |specs: &[abi::Spec]| {
                // SAFETY: all handles are live, and the lists are valid for the call and as long as said.
                unsafe {
                    (self.device.table.execute)(
                        self.device.handle,
                        prepared.handle,
                        views.as_ptr(),
                        views.len(),
                        specs.as_ptr(),
                        results.as_mut_ptr(),
                        specs.len(),
                        &mut error,
                    )
                }
            };
            match outputs {
                [one] => run(&[spec(one)]),
                more => run(&more.iter().map(spec).collect::<Vec<_>>()),
            }
        })?;
        text::check(code, &error)?;
        let result = |(&result, spec): (&*mut abi::Buffer, &TensorSpec)| {
            // An operand's own memory, given on.
            let same = inputs.iter().find(|operand| handle(operand).is_ok_and(|handle| handle == result));
            match same {
                Some(operand) if operand.buffer.byte_len() < spec.shape.bytes(spec.dtype)? => {
                    Err(Error::backend("the backend gave an operand on whose memory is too small for the output"))
                }
                Some(operand) => Ok(operand.buffer.clone()),
                None => self.wrap(result, spec),
            }
        };
        match (&*results, outputs) {
            ([one], [spec]) => result((one, spec)).map(Several::One),
            (results, specs) => results.iter().zip(specs).map(result).collect::<Result<_>>().map(Several::Many),
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
