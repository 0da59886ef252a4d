//! The functions of the table.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

use ubique_core::backend::{Backend, Few, OpenOptions, Operand, Outputs, Several, Support};
use ubique_core::{Error, Op, Result, TensorSpec};

use super::handles::{
    BufferHandle, DeviceHandle, Foreign, OpHandle, Seen, buffer, device, list, op, spec, view, whole, write_info,
};
use super::{guarded, guarded_or};
use crate::abi;
use crate::text;

/// # Safety
/// The context of a table of [`super::export`].
unsafe fn backend<'a>(context: *mut c_void) -> &'a dyn Backend {
    // SAFETY: as the caller promises.
    unsafe { &**context.cast::<Box<dyn Backend>>() }
}

pub unsafe extern "C" fn probe(
    context: *mut c_void,
    devices: *mut abi::DeviceInfo,
    capacity: usize,
    count: *mut usize,
    error: *mut abi::Error,
) -> abi::Code {
    let mut hint = None;
    let body = || {
        // SAFETY: the host passes the table's context, a list with room for `capacity`, and a place for the count.
        let (backend, count) = unsafe { (backend(context), &mut *count) };
        let infos = backend.probe().map_err(|unavailable| {
            hint = unavailable.hint;
            Error::unavailable(unavailable.why)
        })?;
        *count = infos.len();
        for (place, info) in infos.iter().take(capacity).enumerate() {
            let info = write_info(info)?;
            // SAFETY: within the capacity.
            unsafe { devices.add(place).write(info) };
        }
        Ok(())
    };
    // SAFETY: the host passes a place for an error.
    let code = unsafe { guarded(error, body) };
    if let Some(hint) = hint {
        // SAFETY: as above.
        text::write(&hint, unsafe { &mut (*error).hint });
    }
    code
}

pub unsafe extern "C" fn open_device(
    context: *mut c_void,
    index: usize,
    options: *const abi::OpenOptions,
    handle: *mut *mut abi::Device,
    error: *mut abi::Error,
) -> abi::Code {
    let body = || {
        // SAFETY: the host passes the table's context, options, and a place for the handle.
        let (backend, options, handle) = unsafe { (backend(context), &*options, &mut *handle) };
        let options = OpenOptions {
            threads: usize::try_from(options.threads).ok().filter(|&threads| threads > 0),
            memory_limit: Some(options.memory_limit).filter(|&bytes| bytes > 0),
        };
        let executor = backend.open(index, &options)?;
        *handle = Box::into_raw(Box::new(DeviceHandle { executor })).cast();
        Ok(())
    };
    // SAFETY: the host passes a place for an error.
    unsafe { guarded(error, body) }
}

pub unsafe extern "C" fn close_device(handle: *mut abi::Device) {
    // SAFETY: a handle of `open_device`, given back once.
    guarded_or((), || drop(unsafe { Box::from_raw(handle.cast::<DeviceHandle>()) }));
}

pub unsafe extern "C" fn prepare_op(
    _device: *mut abi::Device,
    _name: *const c_char,
    json: *const c_char,
    handle: *mut *mut abi::Op,
    error: *mut abi::Error,
) -> abi::Code {
    let body = || {
        // SAFETY: the host passes a NUL-terminated text and a place for the handle.
        let (json, handle) = unsafe { (CStr::from_ptr(json), &mut *handle) };
        let read = serde_json::from_slice::<Op>(json.to_bytes());
        let op = read.map_err(|e| Error::unsupported(format!("the op cannot be read: {e}")))?;
        *handle = Box::into_raw(Box::new(OpHandle { op })).cast();
        Ok(())
    };
    // SAFETY: the host passes a place for an error.
    unsafe { guarded(error, body) }
}

pub unsafe extern "C" fn free_op(handle: *mut abi::Op) {
    // SAFETY: a handle of `prepare_op`, given back once.
    guarded_or((), || drop(unsafe { Box::from_raw(handle.cast::<OpHandle>()) }));
}

pub unsafe extern "C" fn supports(
    handle: *mut abi::Device,
    prepared: *const abi::Op,
    inputs: *const abi::Spec,
    count: usize,
) -> u32 {
    guarded_or(0, || {
        // SAFETY: live handles and a valid list, by the contract.
        let (device, op, inputs) = unsafe { (device(handle), op(prepared), list(inputs, count)) };
        // SAFETY: valid specs, by the contract.
        let specs: Result<Vec<TensorSpec>> = inputs.iter().map(|raw| unsafe { spec(raw) }).collect();
        specs.is_ok_and(|specs| device.executor.supports(&op.op, &specs) == Support::Native).into()
    })
}

pub unsafe extern "C" fn upload(
    handle: *mut abi::Device,
    raw: *const abi::Spec,
    memory: abi::Memory,
    result: *mut *mut abi::Buffer,
    error: *mut abi::Error,
) -> abi::Code {
    let foreign = Foreign::new(memory);
    let body = || {
        // SAFETY: a live handle, a valid spec and a place for the result, by the contract.
        let (device, spec, result) = unsafe { (device(handle), spec(&*raw)?, &mut *result) };
        *result = BufferHandle::export(device.executor.upload(foreign.into_tensor(spec)?)?);
        Ok(())
    };
    // SAFETY: the host passes a place for an error.
    unsafe { guarded(error, body) }
}

pub unsafe extern "C" fn download(
    handle: *mut abi::Device,
    raw: *const abi::View,
    target: *mut c_void,
    bytes: usize,
    error: *mut abi::Error,
) -> abi::Code {
    let body = || {
        // SAFETY: a live handle, a valid view and room for that many bytes, by the contract.
        let (device, view) = unsafe { (device(handle), view(&*raw, buffer((*raw).buffer).buffer()?.clone())?) };
        let host = device.executor.download(&view)?.wait()?;
        let source = host.bytes();
        if source.len() != bytes {
            return Err(Error::backend(format!("the download has {} bytes instead of {bytes}", source.len())));
        }
        // SAFETY: as above; fresh host memory does not overlap the device's.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target.cast(), bytes) };
        Ok(())
    };
    // SAFETY: the host passes a place for an error.
    unsafe { guarded(error, body) }
}

pub unsafe extern "C" fn free_buffer(handle: *mut abi::Buffer) {
    // SAFETY: a handle of `BufferHandle::export`, given back once.
    guarded_or((), || unsafe { BufferHandle::free(handle) });
}

pub unsafe extern "C" fn host_pointer(_device: *mut abi::Device, handle: *mut abi::Buffer) -> *const c_void {
    guarded_or(null(), || {
        // SAFETY: a live handle, by the contract.
        unsafe { buffer(handle) }.host_pointer().cast()
    })
}

pub unsafe extern "C" fn check_buffer(
    _device: *mut abi::Device,
    handle: *mut abi::Buffer,
    error: *mut abi::Error,
) -> abi::Code {
    // SAFETY: a live handle and a place for an error, by the contract.
    unsafe { guarded(error, || buffer(handle).buffer()?.check()) }
}

/// Runs an op on operands of which some are parts of their buffers, or given away.
///
/// # Safety
/// As for [`Seen::new`], of every view.
#[inline(never)]
unsafe fn with_parts(
    raw: &[abi::View],
    execute: impl FnOnce(&mut [Operand<'_>]) -> Result<Outputs>,
) -> Result<Outputs> {
    // SAFETY: as the caller promises.
    let mut seen = raw.iter().map(|raw| unsafe { Seen::new(raw) }).collect::<Result<Vec<_>>>()?;
    let done = execute(&mut seen.iter_mut().map(Seen::operand).collect::<Vec<_>>());
    if done.is_err() {
        // The host may make room and try again with the same operands.
        seen.iter_mut().for_each(Seen::give_back);
    }
    done
}

pub unsafe extern "C" fn execute(
    handle: *mut abi::Device,
    prepared: *const abi::Op,
    inputs: *const abi::View,
    input_count: usize,
    outputs: *const abi::Spec,
    results: *mut *mut abi::Buffer,
    output_count: usize,
    error: *mut abi::Error,
) -> abi::Code {
    let body = || {
        // SAFETY: live handles and valid lists, by the contract.
        let (device, op, raw) = unsafe { (device(handle), op(prepared), list(inputs, input_count)) };
        let mut specs = Few::new();
        // SAFETY: a valid list, by the contract.
        for raw in unsafe { list(outputs, output_count) } {
            // SAFETY: a valid spec, by the contract.
            specs.push(unsafe { spec(raw) }?);
        }
        let mut operands = Few::new();
        // SAFETY: valid views of live handles, by the contract.
        for view in raw.iter().map_while(|raw| unsafe { whole(raw) }) {
            operands.push(Operand::Ref(view));
        }
        let buffers = if operands.len() == raw.len() {
            device.executor.execute(&op.op, &mut operands, &specs)
        } else {
            // SAFETY: as above.
            unsafe { with_parts(raw, |operands| device.executor.execute(&op.op, operands, &specs)) }
        }?;
        let given = buffers.as_slice().len();
        if given != output_count {
            return Err(Error::backend(format!("the kernel gave {given} outputs instead of {output_count}")));
        }
        // SAFETY: the list has that many places.
        let put = |place: usize, buffer| unsafe { results.add(place).write(BufferHandle::export(buffer)) };
        match buffers {
            Several::One(buffer) => put(0, buffer),
            Several::Many(buffers) => buffers.into_iter().enumerate().for_each(|(place, buffer)| put(place, buffer)),
        }
        Ok(())
    };
    // SAFETY: the host passes a place for an error.
    unsafe { guarded(error, body) }
}

pub unsafe extern "C" fn flush(handle: *mut abi::Device, error: *mut abi::Error) -> abi::Code {
    // SAFETY: a live handle and a place for an error, by the contract.
    unsafe { guarded(error, || device(handle).executor.flush()) }
}

pub unsafe extern "C" fn sync(handle: *mut abi::Device, error: *mut abi::Error) -> abi::Code {
    // SAFETY: as above.
    unsafe { guarded(error, || device(handle).executor.sync()) }
}

pub unsafe extern "C" fn memory_usage(handle: *mut abi::Device, usage: *mut abi::MemoryUsage) {
    guarded_or((), || {
        // SAFETY: a live handle and a place for the figures, by the contract.
        let (device, usage) = unsafe { (device(handle), &mut *usage) };
        let known = device.executor.memory().map(|memory| memory.usage()).unwrap_or_default();
        *usage = abi::MemoryUsage {
            live_bytes: known.live_bytes,
            requested_bytes: known.requested_bytes,
            live_blocks: known.live_blocks,
            cached_bytes: known.cached_bytes,
            peak_bytes: known.peak_bytes,
            allocations: known.allocations,
            system_allocations: known.system_allocations,
            limit: known.limit.unwrap_or(0),
        };
    });
}

pub unsafe extern "C" fn memory_cleanup(handle: *mut abi::Device) -> u64 {
    // SAFETY: a live handle, by the contract.
    guarded_or(0, || unsafe { device(handle) }.executor.memory().map_or(0, |memory| memory.cleanup()))
}

pub unsafe extern "C" fn memory_limit(handle: *mut abi::Device, bytes: u64) {
    guarded_or((), || {
        // SAFETY: a live handle, by the contract.
        if let Some(memory) = unsafe { device(handle) }.executor.memory() {
            memory.set_limit(Some(bytes).filter(|&bytes| bytes > 0));
        }
    });
}
