//! Operands as typed slices, and slices that threads share.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use ubique_core::backend::View;
use ubique_core::{Element, Error, Result};

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
