//! Results of kernels while they are written: memory from a pool that becomes a buffer once every element is there.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::buffer::{Buffer, Storage};
use super::pool::{Block, HostPool};
use crate::error::{Error, Result};

/// Host memory for elements of type `T`, not initialised yet. Few bytes lie in the handle, as those of a [`Buffer`] do.
///
/// ```
/// use ubique_core::backend::{pool::HostPool, uninit::UninitBuffer};
///
/// # fn main() -> ubique_core::Result<()> {
/// let mut squares = UninitBuffer::<u32>::new(&HostPool::new(), 100)?;
/// squares.as_mut_slice().iter_mut().zip(0..).for_each(|(slot, i)| {
///     slot.write(i * i);
/// });
/// // SAFETY: the loop wrote every element.
/// let buffer = unsafe { squares.assume_init() };
/// assert_eq!(buffer.byte_len(), 400);
/// # Ok(())
/// # }
/// ```
pub struct UninitBuffer<T> {
    memory: Memory,
    of: PhantomData<T>,
}

enum Memory {
    /// In the buffer itself.
    Inline(Buffer),
    /// From the pool.
    Pooled(Block),
}

impl<T: Copy> UninitBuffer<T> {
    /// Whether elements have a size, and no stricter alignment than the memory has.
    const FITS: () = assert!(size_of::<T>() > 0 && align_of::<T>() <= align_of::<u64>());

    /// Memory for `len` elements.
    ///
    /// # Errors
    /// Where the pool has none, or the size in bytes overflows.
    #[inline]
    pub fn new(pool: &HostPool, len: usize) -> Result<UninitBuffer<T>> {
        const { Self::FITS };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::shape("the result's size overflows"))?;
        Ok(UninitBuffer { memory: Memory::new(pool, bytes)?, of: PhantomData })
    }

    /// The elements, to be written.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [MaybeUninit<T>] {
        let bytes = self.memory.bytes_mut();
        let len = bytes.len() / size_of::<T>();
        // SAFETY: the memory has room for `len` elements and is aligned to 8 bytes or more, which `FITS` makes enough.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }

    /// The elements, all set to one value.
    #[inline]
    pub fn fill(&mut self, value: T) -> &mut [T] {
        let slice = self.as_mut_slice();
        slice.fill(MaybeUninit::new(value));
        // SAFETY: all were written above.
        unsafe { slice.assume_init_mut() }
    }

    /// The finished buffer.
    ///
    /// # Safety
    /// Every element has been written.
    #[inline]
    pub unsafe fn assume_init(self) -> Buffer {
        match self.memory {
            Memory::Inline(buffer) => buffer,
            Memory::Pooled(block) => Buffer::new(Written(block)),
        }
    }
}

impl Memory {
    #[inline]
    fn new(pool: &HostPool, bytes: usize) -> Result<Memory> {
        match Buffer::inline(bytes) {
            Some(buffer) => Ok(Memory::Inline(buffer)),
            None => pool.alloc(bytes).map(Memory::Pooled).map_err(|e| Error::out_of_memory(e.to_string())),
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        match self {
            Memory::Inline(buffer) => buffer.host_bytes_mut().unwrap_or_default(),
            Memory::Pooled(block) => block.as_uninit_mut(),
        }
    }
}

/// A block all of whose bytes have been written.
struct Written(Block);

impl Storage for Written {
    fn byte_len(&self) -> usize {
        self.0.len()
    }

    fn host_bytes(&self) -> Option<&[u8]> {
        // SAFETY: who called `UninitBuffer::assume_init` promised that every byte was written.
        Some(unsafe { self.0.as_slice() })
    }

    fn host_bytes_mut(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        Some(self.0.as_uninit_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryControl;
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn few_elements_need_no_pool() {
        let none = HostPool::with_limit(0);
        let mut few = UninitBuffer::<u64>::new(&none, 2).unwrap();
        assert_eq!(few.fill(7), [7, 7]);
        // SAFETY: filled above.
        assert_eq!(unsafe { few.assume_init() }.host_bytes(), Some(bytemuck::bytes_of(&[7u64; 2])));
        assert_eq!(UninitBuffer::<u64>::new(&none, 3).err().unwrap().kind(), ErrorKind::OutOfMemory);
        assert!(UninitBuffer::<u16>::new(&none, usize::MAX).is_err());
    }

    #[test]
    fn pooled_memory_goes_back_with_the_buffer() {
        let pool = HostPool::new();
        let mut many = UninitBuffer::<u8>::new(&pool, 1000).unwrap();
        many.fill(3);
        // SAFETY: filled above.
        let buffer = unsafe { many.assume_init() };
        assert_eq!(buffer.host_bytes(), Some(&[3; 1000][..]));
        assert_eq!(pool.usage().requested_bytes, 1000);
        drop(buffer);
        assert_eq!(pool.usage().requested_bytes, 0);
    }
}
