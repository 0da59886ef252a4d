//! Kernel outputs in pooled memory: uninitialised slices that become buffers.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use ubique_core::backend::buffer::{Buffer, Storage};
use ubique_core::backend::pool::{Block, HostPool};
use ubique_core::{Error, Result};

/// Memory of a result.
enum Memory {
    /// In the buffer itself.
    Inline(Buffer),
    /// From the pool.
    Pooled(Block),
}

/// A pooled block all of whose bytes have been written.
struct Filled(Block);

impl Storage for Filled {
    fn byte_len(&self) -> usize {
        self.0.len()
    }

    fn host_bytes(&self) -> Option<&[u8]> {
        // SAFETY: `Out::finish` promises that every byte was written.
        Some(unsafe { self.0.as_slice() })
    }

    fn host_bytes_mut(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        Some(self.0.as_uninit_mut())
    }
}

/// An output under construction: `len` elements, not initialised yet.
pub struct Out<T> {
    memory: Memory,
    of: PhantomData<T>,
}

impl<T: Copy> Out<T> {
    /// Memory for `len` elements.
    pub fn new(pool: &HostPool, len: usize) -> Result<Out<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::shape("the result's size overflows"))?;
        let memory = match Buffer::inline(bytes) {
            Some(buffer) => Memory::Inline(buffer),
            None => Memory::Pooled(pool.alloc(bytes).map_err(|e| Error::out_of_memory(e.to_string()))?),
        };
        Ok(Out { memory, of: PhantomData })
    }

    /// The elements, to be written.
    pub fn uninit(&mut self) -> &mut [MaybeUninit<T>] {
        let bytes = match &mut self.memory {
            Memory::Inline(buffer) => buffer.host_bytes_mut().unwrap_or_default(),
            Memory::Pooled(block) => block.as_uninit_mut(),
        };
        let len = bytes.len() / size_of::<T>();
        // SAFETY: memory is aligned to 8 bytes or more, as every element needs at most, and has room for `len`.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }

    /// The elements, all set to one value.
    pub fn filled(&mut self, value: T) -> &mut [T] {
        let slice = self.uninit();
        slice.fill(MaybeUninit::new(value));
        // SAFETY: all were written above.
        unsafe { assume_init(slice) }
    }

    /// The finished buffer.
    ///
    /// # Safety
    /// Every element has been written.
    pub unsafe fn finish(self) -> Buffer {
        match self.memory {
            Memory::Inline(buffer) => buffer,
            Memory::Pooled(block) => Buffer::new(Filled(block)),
        }
    }
}

/// The slice as an initialised one.
///
/// # Safety
/// Every element has been written.
pub unsafe fn assume_init<T>(slice: &mut [MaybeUninit<T>]) -> &mut [T] {
    // SAFETY: MaybeUninit<T> has the layout of T, and the caller wrote every element.
    unsafe { &mut *(slice as *mut [MaybeUninit<T>] as *mut [T]) }
}
