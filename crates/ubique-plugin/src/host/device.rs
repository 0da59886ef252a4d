//! An opened device: its handle, and the ops prepared on it.

use std::ptr::null_mut;
use std::sync::Arc;

use ubique_core::backend::OpenOptions;
use ubique_core::{Error, Op, Result};

use super::ops::{Known, Prepared, Prepares};
use super::table::Table;
use crate::abi;
use crate::text;

/// The handle of an opened device, shared by the executor and the buffers.
pub struct Device {
    pub table: &'static Table,
    pub handle: *mut abi::Device,
    prepares: Prepares,
}

// SAFETY: by the contract, a backend's functions take calls from any thread, several at once.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    pub fn open(table: &'static Table, index: usize, options: &OpenOptions) -> Result<Device> {
        let options = abi::OpenOptions {
            size: size_of::<abi::OpenOptions>(),
            threads: options.threads.unwrap_or(0) as u64,
            memory_limit: options.memory_limit.unwrap_or(0),
        };
        let mut handle = null_mut();
        // SAFETY: the pointers are valid for the call.
        text::checked(|error| unsafe { (table.open_device)(table.raw.context, index, &options, &mut handle, error) })?;
        if handle.is_null() {
            return Err(Error::backend("the backend opened the device, but gave no handle of it"));
        }
        Ok(Device { table, handle, prepares: Prepares::default() })
    }

    /// The op as the backend knows it.
    pub fn known(&self, op: &Op) -> Arc<Known> {
        self.prepares.find(op, || Prepared::new(self, op))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Ops do not outlive their device.
        self.prepares.clear();
        // SAFETY: the handle is given back once, and every buffer, which holds this device, is gone.
        unsafe { (self.table.close_device)(self.handle) };
    }
}
