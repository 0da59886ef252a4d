//! A backend's table, checked once: what must be there is there.

use std::ffi::CStr;

use crate::abi;

/// The functions that every backend has, and the table for those that it may lack.
pub struct Table {
    pub name: String,
    pub probe: abi::Probe,
    pub open_device: abi::OpenDevice,
    pub close_device: abi::CloseDevice,
    pub prepare_op: abi::PrepareOp,
    pub free_op: abi::FreeOp,
    pub supports: abi::Supports,
    pub upload: abi::Upload,
    pub download: abi::Download,
    pub free_buffer: abi::FreeBuffer,
    pub execute: abi::Execute,
    pub raw: abi::Backend,
}

// SAFETY: the pointers in it are the backend's, which takes calls from any thread.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// Checks what a library gave.
    ///
    /// # Safety
    /// The pointer is null, or points to a table that begins with its size and version and is as long as it says.
    pub unsafe fn read(table: *const abi::Backend) -> Result<Table, String> {
        if table.is_null() {
            return Err("it gave no table".to_owned());
        }
        // SAFETY: size and version are there, as the caller promises.
        let (size, version) = unsafe { ((*table).size, (*table).version) };
        if version != abi::VERSION {
            return Err(format!(
                "it speaks version {version} of the plugin interface; this program speaks {}",
                abi::VERSION
            ));
        }
        if size < size_of::<abi::Backend>() {
            let known = size_of::<abi::Backend>();
            return Err(format!("its table has {size} bytes, where version {version} has {known}; build it anew"));
        }
        // SAFETY: the table is as long as it says.
        let raw = unsafe { (*table).clone() };
        if raw.name.is_null() {
            return Err("it has no name".to_owned());
        }
        // SAFETY: a NUL-terminated text that stays valid, by the contract.
        let name = unsafe { CStr::from_ptr(raw.name) }.to_str().map_err(|_| "its name is not UTF-8")?.to_owned();
        let lacks = |what: &str| format!("its table lacks {what}");
        let memory = [raw.memory_usage.is_some(), raw.memory_cleanup.is_some(), raw.memory_limit.is_some()];
        if memory.contains(&true) && memory.contains(&false) {
            return Err(lacks("some of the three functions for memory"));
        }
        Ok(Table {
            name,
            probe: raw.probe.ok_or_else(|| lacks("probe"))?,
            open_device: raw.open_device.ok_or_else(|| lacks("open_device"))?,
            close_device: raw.close_device.ok_or_else(|| lacks("close_device"))?,
            prepare_op: raw.prepare_op.ok_or_else(|| lacks("prepare_op"))?,
            free_op: raw.free_op.ok_or_else(|| lacks("free_op"))?,
            supports: raw.supports.ok_or_else(|| lacks("supports"))?,
            upload: raw.upload.ok_or_else(|| lacks("upload"))?,
            download: raw.download.ok_or_else(|| lacks("download"))?,
            free_buffer: raw.free_buffer.ok_or_else(|| lacks("free_buffer"))?,
            execute: raw.execute.ok_or_else(|| lacks("execute"))?,
            raw,
        })
    }
}
