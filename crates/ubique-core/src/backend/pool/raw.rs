//! A piece of system memory, and its way from and to the system.

use super::size;
use std::alloc;
use std::ptr::NonNull;

/// An allocation by [`Raw::allocate`] that has an owner elsewhere; plain data, freed by hand.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    pub ptr: NonNull<u8>,
    pub capacity: usize,
    /// Sized exactly, and not to be cached.
    pub persistent: bool,
}

// SAFETY: system memory belongs to no thread.
unsafe impl Send for Raw {}
// SAFETY: `Raw` gives no access to the memory.
unsafe impl Sync for Raw {}

impl Raw {
    /// Uninitialised memory of `capacity` (not 0) bytes; `None` if the system has none.
    pub fn allocate(capacity: usize, persistent: bool) -> Option<Self> {
        let layout = size::layout(capacity).filter(|layout| layout.size() > 0)?;
        // SAFETY: the size is not 0.
        let ptr = NonNull::new(unsafe { alloc::alloc(layout) })?;
        Some(Self { ptr, capacity, persistent })
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
