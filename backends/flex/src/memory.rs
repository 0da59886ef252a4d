//! Kernel outputs in pooled memory, and operands as typed slices.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use ubique_core::backend::View;
use ubique_core::backend::buffer::{Buffer, Storage};
use ubique_core::backend::pool::{Block, HostPool};
use ubique_core::{Element, Error, Result};

pub use crate::simd::uninit::assume_init;

/// Memory of a result.
enum Memory {
    /// In the buffer itself.
    Inline(Buffer),
    /// From the pool.
    Pooled(Block),
}

impl Memory {
    #[inline]
    fn new(pool: &HostPool, len: usize) -> Result<Memory> {
        match Buffer::inline(len) {
            Some(buffer) => Ok(Memory::Inline(buffer)),
            None => pool.alloc(len).map(Memory::Pooled).map_err(|e| Error::out_of_memory(e.to_string())),
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

impl<T: Element> Out<T> {
    /// Memory for `len` elements.
    #[inline]
    pub fn new(pool: &HostPool, len: usize) -> Result<Out<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::shape("the result's size overflows"))?;
        Ok(Out { memory: Memory::new(pool, bytes)?, of: PhantomData })
    }

    /// The elements, to be written.
    #[inline]
    pub fn uninit(&mut self) -> &mut [MaybeUninit<T>] {
        let bytes = self.memory.bytes_mut();
        let len = bytes.len() / size_of::<T>();
        // SAFETY: memory is aligned to 8 bytes or more, as every element needs at most, and has room for `len`.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }

    /// The elements, all set to one value.
    pub fn filled(&mut self, value: T) -> &mut [T] {
        let slice = self.uninit();
        for element in slice.iter_mut() {
            element.write(value);
        }
        // SAFETY: all were written above.
        unsafe { assume_init(slice) }
    }

    /// The finished buffer.
    ///
    /// # Safety
    /// Every element has been written.
    #[inline]
    pub unsafe fn finish(self) -> Buffer {
        match self.memory {
            Memory::Inline(buffer) => buffer,
            Memory::Pooled(block) => Buffer::new(Filled(block)),
        }
    }
}

/// The whole buffer of an operand as elements; the layout says which of them are meant.
#[inline]
pub fn elements<T: Element>(view: &View) -> Result<&[T]> {
    let bytes = view.buffer.host_bytes().ok_or_else(|| Error::backend("the operand is not in host memory"))?;
    debug_assert_eq!(view.dtype, T::DTYPE);
    debug_assert!((bytes.as_ptr() as usize).is_multiple_of(align_of::<T>()) || bytes.is_empty());
    if bytes.is_empty() {
        return Ok(&[]);
    }
    // SAFETY: buffers of a dtype hold valid elements of it and are aligned for it (`HostTensor` copies others on the
    // way in); the length is rounded down to whole elements.
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
}

/// The elements that a contiguous operand means; `None` where it is strided.
#[inline]
pub fn contiguous<T: Element>(view: &View) -> Result<Option<&[T]>> {
    let layout = &view.layout;
    if !layout.is_contiguous() {
        return Ok(None);
    }
    let (start, len) = (layout.offset(), layout.elements());
    let all = elements::<T>(view)?;
    if len == 0 {
        return Ok(Some(&[]));
    }
    all.get(start..start + len).map(Some).ok_or_else(|| Error::backend("an operand's layout leaves its buffer"))
}

/// The elements of an operand that was given away, for writing in place: only where nobody else holds its buffer and
/// it covers the buffer whole.
#[inline]
pub fn reusable<T: Element>(view: &mut View) -> Option<&mut [T]> {
    let whole = view.layout.is_contiguous() && view.layout.offset() == 0;
    let len = view.layout.elements();
    if !whole || len == 0 || view.dtype != T::DTYPE {
        return None;
    }
    let bytes = view.buffer.host_bytes_mut()?;
    if bytes.len() != len * size_of::<T>() {
        return None;
    }
    // SAFETY: a unique, writable buffer of exactly `len` valid elements of this type, aligned for it (see `elements`).
    Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
}

/// The whole buffer of an operand as bit patterns of its elements' size, for kernels that only move elements.
///
/// `B` must be an unsigned integer as wide as the dtype; see [`crate::kernels::copy::with_bits`].
#[inline]
pub fn bits<B: bytemuck::Pod>(view: &View) -> Result<&[B]> {
    let bytes = view.buffer.host_bytes().ok_or_else(|| Error::backend("the operand is not in host memory"))?;
    let whole = bytes.len() / size_of::<B>() * size_of::<B>();
    bytemuck::try_cast_slice(&bytes[..whole]).map_err(|e| Error::backend(format!("an operand is misaligned: {e}")))
}

/// A slice that several threads write disjoint parts of.
pub struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    of: PhantomData<&'a mut [T]>,
}
impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<'_, T> {}
// SAFETY: it gives out parts only on the promise that no two overlap.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// The slice, to be written through copies of this value only.
    #[inline]
    pub fn new(slice: &'a mut [T]) -> Shared<'a, T> {
        Shared { start: slice.as_mut_ptr(), len: slice.len(), of: PhantomData }
    }

    /// A part of the slice.
    ///
    /// # Safety
    /// While the part is used, no thread has another one that overlaps it.
    #[inline(always)]
    pub unsafe fn part(self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a kernel leaves its target");
        // SAFETY: in bounds by the assertion; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start) }
    }
}

impl<T> Shared<'_, MaybeUninit<T>> {
    /// Writes an element.
    ///
    /// # Safety
    /// No other thread reads or writes this element.
    #[inline(always)]
    pub unsafe fn write(self, at: usize, value: T) {
        assert!(at < self.len, "a kernel leaves its target");
        // SAFETY: in bounds by the assertion; the rest is the caller's promise.
        unsafe { (*self.start.add(at)).write(value) };
    }
}
