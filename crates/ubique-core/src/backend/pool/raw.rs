//! A piece of system memory, and its way from and to the system.

use super::size;
use std::alloc;
use std::ptr::NonNull;

/// An allocation by [`Raw::allocate`] that has an owner elsewhere; plain data, freed by hand.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    pub ptr: NonNull<u8>,
    pub capacity: usize,
    pub life: Life,
}

/// What becomes of a block that is freed. As wide as the other fields of [`Raw`], so that copies go by whole words and
/// never wait for narrower stores.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Life {
    /// It is cached.
    Reusable,
    /// It was sized exactly, and goes back to the system.
    Persistent,
}

// SAFETY: system memory belongs to no thread.
unsafe impl Send for Raw {}
// SAFETY: `Raw` gives no access to the memory.
unsafe impl Sync for Raw {}

impl Raw {
    /// Uninitialised memory of `capacity` (not 0) bytes; `None` if the system has none.
    pub fn allocate(capacity: usize, life: Life) -> Option<Self> {
        let layout = size::layout(capacity).filter(|layout| layout.size() > 0)?;
        // SAFETY: the size is not 0.
        let ptr = NonNull::new(unsafe { alloc::alloc(layout) })?;
        Some(Self { ptr, capacity, life })
    }

    /// Gives the memory back to the system.
    ///
    /// # Safety
    /// It came from [`Raw::allocate`], nobody uses it, and it is not released again.
    pub unsafe fn release(self) {
        if let Some(layout) = size::layout(self.capacity) {
            // SAFETY: allocated with the layout of the same capacity; the caller vouches for the rest.
            unsafe { alloc::dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}
