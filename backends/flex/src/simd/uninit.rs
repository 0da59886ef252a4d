//! Slices that are not initialised yet, and blocks of stack memory to stage elements in.

use std::mem::MaybeUninit;

/// The slice as one to be written anew.
///
/// # Safety
/// Only initialised elements are written to it.
pub unsafe fn as_uninit<T: Copy>(slice: &mut [T]) -> &mut [MaybeUninit<T>] {
    // SAFETY: MaybeUninit<T> has the layout of T, and the caller leaves every element initialised.
    unsafe { &mut *(slice as *mut [T] as *mut [MaybeUninit<T>]) }
}

/// Elements that fit in the first-level cache several times over, yet enough to make a call per block cheap.
pub const BLOCK: usize = 1024;

/// Stack memory for up to [`BLOCK`] elements.
pub struct Block<T>([MaybeUninit<T>; BLOCK]);

impl<T: Copy> Block<T> {
    /// Memory with nothing in it.
    #[inline(always)]
    pub(in crate::simd) fn new() -> Self {
        Block([const { MaybeUninit::uninit() }; BLOCK])
    }

    /// The first `len` elements, not initialised.
    #[inline(always)]
    pub fn first(&mut self, len: usize) -> &mut [MaybeUninit<T>] {
        &mut self.0[..len]
    }

    /// `len` copies of a value.
    pub fn fill(&mut self, value: T, len: usize) -> &[T] {
        let slice = self.first(len);
        for element in slice.iter_mut() {
            element.write(value);
        }
        // SAFETY: all were written above.
        unsafe { slice.assume_init_mut() }
    }

    /// A copy of a slice of at most [`BLOCK`] elements.
    pub fn copy(&mut self, source: &[T]) -> &[T] {
        let slice = self.first(source.len());
        for (element, &value) in slice.iter_mut().zip(source) {
            element.write(value);
        }
        // SAFETY: all were written above.
        unsafe { slice.assume_init_mut() }
    }
}
