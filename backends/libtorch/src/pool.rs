//! The host memory of LibTorch's tensors, from ubique's pool: LibTorch's own allocator asks the system for every tensor, which
//! takes as long as a fifth of a small op.
//!
//! LibTorch has one allocator in a process, so the figures count the tensors of other users of LibTorch too.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::LazyLock;

use ubique_core::backend::pool::{Block, HostPool};

static POOL: LazyLock<HostPool> = LazyLock::new(|| {
    // SAFETY: the functions stay, and do what the shim says that they do.
    unsafe { ubique_use_allocator(allocate, free, free_own) };
    HostPool::new()
});

/// The pool, from which LibTorch takes memory after the first call.
pub fn pool() -> &'static HostPool {
    &POOL
}

/// What lies before a tensor's elements, as long as what blocks are aligned to.
#[repr(C, align(64))]
struct Header {
    block: Block,
    room: [u64; 2],
    /// At the end, where the system's allocator keeps the size of a piece of memory.
    mark: u64,
}

/// No size of anything.
const MARK: u64 = 0xF1D0_5EED_B10C_ED07;
const _: () = assert!(size_of::<Header>() == 64 && offset_of!(Header, mark) == 56);

extern "C" fn allocate(bytes: usize) -> *mut c_void {
    let whole = bytes.checked_add(size_of::<Header>());
    let Some(mut block) = whole.and_then(|bytes| POOL.alloc(bytes).ok()) else { return null_mut() };
    let header = block.as_mut_ptr().cast::<Header>();
    // SAFETY: the block begins aligned to its header, has room for it, and is alive as long as nobody drops what is written.
    unsafe {
        header.write(Header { block, room: [0; 2], mark: MARK });
        header.add(1).cast()
    }
}

unsafe extern "C" fn free(elements: *mut c_void) {
    // SAFETY: what `allocate` gave, freed once.
    drop(unsafe { elements.cast::<Header>().sub(1).read() });
}

/// Frees memory of this pool, and leaves other memory: what LibTorch took by hand it also frees by hand, from whatever allocator it
/// has by then.
unsafe extern "C" fn free_own(elements: *mut c_void) -> bool {
    // SAFETY: what `allocate` gave, or what the system's allocator gave, which keeps a size there.
    let own = unsafe { elements.cast::<u64>().sub(1).read() } == MARK;
    if own {
        // SAFETY: what `allocate` gave, freed once.
        unsafe { free(elements) };
    }
    own
}

unsafe extern "C" {
    /// In `shim.cpp`: makes LibTorch take its host memory from here. `allocate` gives memory aligned to 64 bytes, or null
    /// where there is none; it is never asked for no bytes, and the others are never given null.
    fn ubique_use_allocator(
        allocate: extern "C" fn(usize) -> *mut c_void,
        free: unsafe extern "C" fn(*mut c_void),
        free_own: unsafe extern "C" fn(*mut c_void) -> bool,
    );
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc, dealloc};
    use std::hint::black_box;

    use super::*;

    #[test]
    fn memory_of_others_is_left_alone() {
        let own = allocate(100);
        assert!(own.cast::<Header>().is_aligned());
        // SAFETY: what `allocate` gave, freed once.
        assert!(unsafe { free_own(own) });
        for bytes in [64, 4096, 1 << 22] {
            let layout = Layout::from_size_align(bytes, 64).expect("a layout");
            // SAFETY: not of no bytes, looked at while it is there, and freed once.
            unsafe {
                // From where the compiler does not know it, as LibTorch's is.
                let other = black_box(alloc(layout));
                assert!(!other.is_null() && !free_own(other.cast()));
                dealloc(other, layout);
            }
        }
        assert!(allocate(usize::MAX).is_null());
    }
}
