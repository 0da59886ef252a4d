//! The host memory of LibTorch's tensors, from ubique's pool: LibTorch's own allocator asks the system for every tensor, which
//! takes as long as a fifth of a small op.
//!
//! LibTorch has one allocator in a process, so the figures count the tensors of other users of LibTorch too.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::LazyLock;

use ubique_core::backend::pool::{Block, HostPool};

static POOL: LazyLock<HostPool> = LazyLock::new(|| {
    // SAFETY: the functions stay, and do what the shim says that they do.
    unsafe { ubique_use_allocator(allocate, free) };
    HostPool::new()
});

/// The pool, from which LibTorch takes memory after the first call.
pub fn pool() -> &'static HostPool {
    &POOL
}

/// Bytes before a tensor's elements, where its block is kept. A multiple of what blocks are aligned to.
const HEADER: usize = 64;
const _: () = assert!(size_of::<Block>() <= HEADER);

extern "C" fn allocate(bytes: usize) -> *mut c_void {
    let Some(mut block) = bytes.checked_add(HEADER).and_then(|bytes| POOL.alloc(bytes).ok()) else { return null_mut() };
    let start = block.as_mut_ptr();
    // SAFETY: the block begins aligned to its header, has room for it, and is alive as long as nobody drops what is written.
    unsafe {
        start.cast::<Block>().write(block);
        start.add(HEADER).cast()
    }
}

unsafe extern "C" fn free(elements: *mut c_void) {
    // SAFETY: what `allocate` gave, freed once.
    drop(unsafe { elements.byte_sub(HEADER).cast::<Block>().read() });
}

unsafe extern "C" {
    /// In `shim.cpp`: makes LibTorch take its host memory from here. `allocate` gives memory aligned to 64 bytes, or null
    /// where there is none; it is never asked for no bytes.
    fn ubique_use_allocator(allocate: extern "C" fn(usize) -> *mut c_void, free: unsafe extern "C" fn(*mut c_void));
}
