//! The types of `include/ubique_backend_v1.h`, which documents them. A test compares the two with a C compiler.
#![allow(missing_docs)]

use std::ffi::{c_char, c_void};

use ubique_core::DType;

pub const VERSION: u32 = 1;
/// The exported function.
pub const SYMBOL: &str = "ubique_backend_v1";

pub type Code = i32;
pub const OK: Code = 0;

#[repr(C)]
#[derive(Clone)]
pub struct Error {
    pub message: [c_char; 768],
    pub hint: [c_char; 256],
}

/// Element types by their numbers, which are their places in the list: a list that grows is a new version of the interface.
pub const DTYPES: [DType; 15] = DType::ALL;

pub const STORAGE: u8 = 1;
pub const ARITHMETIC: u8 = 2;
pub const ACCELERATED: u8 = 4;

#[repr(C)]
#[derive(Clone)]
pub struct DeviceInfo {
    pub name: [c_char; 128],
    pub driver: [c_char; 128],
    pub kind: u32,
    pub device_class: u32,
    pub memory: u64,
    pub dtypes: [u8; 16],
    pub default_float: u32,
    pub default_int: u32,
    pub priority: i32,
    pub unavailable: u32,
    pub why: Error,
}

#[repr(C)]
pub struct OpenOptions {
    pub size: usize,
    pub threads: u64,
    pub memory_limit: u64,
}

/// What a handle points to is the backend's own affair.
#[repr(C)]
pub struct Device([u8; 0]);
#[repr(C)]
pub struct Op([u8; 0]);
#[repr(C)]
pub struct Buffer([u8; 0]);

#[repr(C)]
pub struct Spec {
    pub dtype: u32,
    pub rank: u32,
    pub shape: *const usize,
}

#[repr(C)]
pub struct View {
    pub spec: Spec,
    pub strides: *const isize,
    pub offset: usize,
    pub buffer: *mut Buffer,
    pub contiguous: u32,
    pub owned: u32,
}

#[repr(C)]
pub struct Memory {
    pub data: *const c_void,
    pub bytes: usize,
    pub writable: u32,
    pub context: *mut c_void,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MemoryUsage {
    pub live_bytes: u64,
    pub requested_bytes: u64,
    pub live_blocks: u64,
    pub cached_bytes: u64,
    pub peak_bytes: u64,
    pub allocations: u64,
    pub system_allocations: u64,
    pub limit: u64,
}

pub type Probe = unsafe extern "C" fn(*mut c_void, *mut DeviceInfo, usize, *mut usize, *mut Error) -> Code;
pub type OpenDevice =
    unsafe extern "C" fn(*mut c_void, usize, *const OpenOptions, *mut *mut Device, *mut Error) -> Code;
pub type CloseDevice = unsafe extern "C" fn(*mut Device);
pub type PrepareOp = unsafe extern "C" fn(*mut Device, *const c_char, *const c_char, *mut *mut Op, *mut Error) -> Code;
pub type FreeOp = unsafe extern "C" fn(*mut Op);
pub type Supports = unsafe extern "C" fn(*mut Device, *const Op, *const Spec, usize) -> u32;
pub type Upload = unsafe extern "C" fn(*mut Device, *const Spec, Memory, *mut *mut Buffer, *mut Error) -> Code;
pub type Download = unsafe extern "C" fn(*mut Device, *const View, *mut c_void, usize, *mut Error) -> Code;
pub type FreeBuffer = unsafe extern "C" fn(*mut Buffer);
pub type HostPointer = unsafe extern "C" fn(*mut Device, *mut Buffer) -> *const c_void;
pub type CheckBuffer = unsafe extern "C" fn(*mut Device, *mut Buffer, *mut Error) -> Code;
pub type Execute = unsafe extern "C" fn(
    *mut Device,
    *const Op,
    *const View,
    usize,
    *const Spec,
    *mut *mut Buffer,
    usize,
    *mut Error,
) -> Code;
pub type Wait = unsafe extern "C" fn(*mut Device, *mut Error) -> Code;
pub type Usage = unsafe extern "C" fn(*mut Device, *mut MemoryUsage);
pub type Cleanup = unsafe extern "C" fn(*mut Device) -> u64;
pub type Limit = unsafe extern "C" fn(*mut Device, u64);

#[repr(C)]
#[derive(Clone)]
pub struct Backend {
    pub size: usize,
    pub version: u32,
    pub id: u32,
    pub name: *const c_char,
    pub context: *mut c_void,
    pub probe: Option<Probe>,
    pub open_device: Option<OpenDevice>,
    pub close_device: Option<CloseDevice>,
    pub prepare_op: Option<PrepareOp>,
    pub free_op: Option<FreeOp>,
    pub supports: Option<Supports>,
    pub upload: Option<Upload>,
    pub download: Option<Download>,
    pub free_buffer: Option<FreeBuffer>,
    pub host_pointer: Option<HostPointer>,
    pub check_buffer: Option<CheckBuffer>,
    pub execute: Option<Execute>,
    pub flush: Option<Wait>,
    pub sync: Option<Wait>,
    pub memory_usage: Option<Usage>,
    pub memory_cleanup: Option<Cleanup>,
    pub memory_limit: Option<Limit>,
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// A C program that prints sizes and places of the header's structs.
    const PROGRAM: &str = r#"
#include <stdio.h>
#include "ubique_backend_v1.h"
int main(void) {
    printf("%zu %zu %zu %zu %zu %zu %zu %zu %zu\n", sizeof(ubique_error), sizeof(ubique_device_info),
           sizeof(ubique_open_options), sizeof(ubique_spec), sizeof(ubique_view), sizeof(ubique_memory),
           sizeof(ubique_memory_usage), sizeof(ubique_backend), offsetof(ubique_device_info, why));
    printf("%zu %zu %zu %zu %zu %zu\n", offsetof(ubique_view, buffer), offsetof(ubique_view, owned),
           offsetof(ubique_memory, release), offsetof(ubique_backend, name), offsetof(ubique_backend, execute),
           offsetof(ubique_backend, memory_limit));
    printf("%d %d %d %d\n", UBIQUE_F8E5M2, UBIQUE_BOOL, UBIQUE_DTYPES, UBIQUE_ACCELERATED);
    return 0;
}
"#;

    #[test]
    fn the_header_says_the_same() {
        use std::mem::offset_of;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sizes");
        let mut compiler = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-xc", "-"])
            .arg(format!("-I{}/include", env!("CARGO_MANIFEST_DIR")))
            .arg("-o")
            .arg(&program)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        compiler.stdin.take().unwrap().write_all(PROGRAM.as_bytes()).unwrap();
        assert!(compiler.wait().unwrap().success());
        let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
        let sizes = [
            size_of::<Error>(),
            size_of::<DeviceInfo>(),
            size_of::<OpenOptions>(),
            size_of::<Spec>(),
            size_of::<View>(),
            size_of::<Memory>(),
            size_of::<MemoryUsage>(),
            size_of::<Backend>(),
            offset_of!(DeviceInfo, why),
            offset_of!(View, buffer),
            offset_of!(View, owned),
            offset_of!(Memory, release),
            offset_of!(Backend, name),
            offset_of!(Backend, execute),
            offset_of!(Backend, memory_limit),
            DType::F8E5M2 as usize,
            DType::Bool as usize,
            DTYPES.len(),
            ACCELERATED as usize,
        ];
        let known: Vec<usize> = printed.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(known, sizes);
        assert!(DTYPES.iter().enumerate().all(|(number, &dtype)| dtype as usize == number));
        assert_eq!(DTYPES, DType::ALL);
    }
}
