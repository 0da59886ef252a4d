//! A backend's memory as a [`Storage`], and host memory on its way to the backend.

use std::ffi::c_void;
use std::sync::Arc;

use ubique_core::backend::buffer::{Buffer, Storage};
use ubique_core::{HostTensor, Result};

use super::device::Device;
use crate::abi;
use crate::text;

/// The handle of a piece of the backend's memory.
pub struct PluginBuffer {
    pub device: Arc<Device>,
    pub handle: *mut abi::Buffer,
    pub bytes: usize,
}

// SAFETY: by the contract, handles can be used from any thread.
unsafe impl Send for PluginBuffer {}
// SAFETY: as above.
unsafe impl Sync for PluginBuffer {}

impl Storage for PluginBuffer {
    fn byte_len(&self) -> usize {
        self.bytes
    }

    fn host_bytes(&self) -> Option<&[u8]> {
        let find = self.device.table.raw.host_pointer?;
        // SAFETY: both handles are live.
        let start = unsafe { find(self.device.handle, self.handle) }.cast::<u8>();
        if self.bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: by the contract, the memory has that many bytes, is initialised, and lives as long as the buffer.
        (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, self.bytes) })
    }

    // No `host_bytes_mut`: the memory may be somebody else's, whom the backend only lets look at it.

    fn check(&self) -> Result<()> {
        let Some(check) = self.device.table.raw.check_buffer else { return Ok(()) };
        // SAFETY: both handles are live.
        text::checked(|error| unsafe { check(self.device.handle, self.handle, error) })
    }
}

impl Drop for PluginBuffer {
    fn drop(&mut self) {
        // SAFETY: the handle is given back once, while the device is open.
        unsafe { (self.device.table.free_buffer)(self.handle) };
    }
}

/// Host data as memory that changes hands, without a copy.
pub fn give(data: HostTensor) -> abi::Memory {
    let bytes = data.bytes().len();
    let mut buffer = Box::new(data.into_buffer());
    // Few bytes lie in the buffer's handle itself, hence the address is taken after the move into the box.
    let writable = buffer.host_bytes_mut().is_some();
    let data = buffer.host_bytes().unwrap_or_default().as_ptr();
    let context = Box::into_raw(buffer).cast::<c_void>();
    abi::Memory { data: data.cast(), bytes, writable: writable.into(), context, release: Some(release) }
}

unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: made by `give`, and released once, by the contract.
    drop(unsafe { Box::from_raw(context.cast::<Buffer>()) });
}
