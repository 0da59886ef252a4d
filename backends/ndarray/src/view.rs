//! Operands as array views of their own memory, whatever their strides.

use bytemuck::{AnyBitPattern, Pod};
use ndarray::{ArrayViewD, Axis, IxDyn, ShapeBuilder};
use ubique_core::backend::View;
use ubique_core::{Error, Layout, Result};

/// The whole buffer of an operand as elements; the layout says which of them are meant.
///
/// `T` must be as wide as the operand's dtype; any bit pattern is one of its values.
pub fn elements<T: AnyBitPattern>(view: &View) -> Result<&[T]> {
    let bytes = view.buffer.host_bytes().ok_or_else(|| Error::backend("the operand is not in host memory"))?;
    if size_of::<T>() != view.dtype.size() {
        return Err(Error::backend(format!("{} read as elements of {} bytes", view.dtype, size_of::<T>())));
    }
    let whole = bytes.len() / size_of::<T>() * size_of::<T>();
    bytemuck::try_cast_slice(&bytes[..whole]).map_err(|e| Error::backend(format!("an operand is misaligned: {e}")))
}

/// The elements that a contiguous operand means; `None` where it is strided.
pub fn contiguous<T: AnyBitPattern>(view: &View) -> Result<Option<&[T]>> {
    let (start, len) = (view.layout.offset(), view.layout.elements());
    match view.layout.is_contiguous() {
        false => Ok(None),
        true if len == 0 => Ok(Some(&[])),
        true => elements(view)?.get(start..start + len).map(Some).ok_or_else(outside),
    }
}

/// An operand as an array view. Operands without elements may have extents that no array can have, so kernels answer
/// those before they ask for views.
pub fn array<T: AnyBitPattern>(view: &View) -> Result<ArrayViewD<'_, T>> {
    of_layout(elements(view)?, &view.layout)
}

/// An array view of a layout's elements in a buffer.
pub fn of_layout<'a, T>(data: &'a [T], layout: &Layout) -> Result<ArrayViewD<'a, T>> {
    strided(data, layout.shape(), layout.strides(), layout.offset())
}

/// An array view by extents and strides, which may be negative or 0, of the elements from `offset` on.
///
/// Arrays are made with strides that are not negative, from their lowest element on; axes are then turned around.
pub fn strided<'a, T>(data: &'a [T], extents: &[usize], strides: &[isize], offset: usize) -> Result<ArrayViewD<'a, T>> {
    let refused = |e| Error::backend(format!("no array has shape {extents:?} and strides {strides:?}: {e}"));
    if extents.contains(&0) {
        // Strides of nothing may be of any size.
        return ArrayViewD::from_shape(IxDyn(extents), &data[..0]).map_err(refused);
    }
    let mut lowest = offset;
    for (&extent, &stride) in extents.iter().zip(strides).filter(|(_, stride)| **stride < 0) {
        let reach = (extent - 1).checked_mul(stride.unsigned_abs());
        lowest = reach.and_then(|reach| lowest.checked_sub(reach)).ok_or_else(outside)?;
    }
    let data = data.get(lowest..).ok_or_else(outside)?;
    let sizes: Vec<usize> = strides.iter().map(|stride| stride.unsigned_abs()).collect();
    let shape = IxDyn(extents).strides(IxDyn(&sizes));
    let mut array = ArrayViewD::from_shape(shape, data).map_err(refused)?;
    for (axis, _) in strides.iter().enumerate().filter(|(_, stride)| **stride < 0) {
        array.invert_axis(Axis(axis));
    }
    Ok(array)
}

/// The elements of an operand that was given away, for writing in place: only where nobody else holds its buffer and
/// it covers the buffer whole.
pub fn reusable<T: Pod>(view: &mut View) -> Option<&mut [T]> {
    let len = view.layout.elements();
    if !view.layout.is_row_major() || len == 0 || view.dtype.size() != size_of::<T>() {
        return None;
    }
    let bytes = view.buffer.host_bytes_mut()?;
    let aligned = bytes.as_ptr().cast::<T>().is_aligned();
    if bytes.len() != len * size_of::<T>() || !aligned {
        return None;
    }
    // SAFETY: a unique, writable and aligned buffer of exactly `len` elements, initialised as all buffers are, and any
    // bits are a value of `T`.
    Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) })
}

#[cold]
fn outside() -> Error {
    Error::backend("an operand's layout leaves its buffer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_of_every_kind_are_views() {
        let data: Vec<i32> = (0..12).collect();
        let list = |extents: &[usize], strides: &[isize], offset| {
            strided(&data, extents, strides, offset).map(|a| a.iter().copied().collect::<Vec<_>>())
        };
        assert_eq!(list(&[3, 4], &[4, 1], 0).unwrap(), data);
        assert_eq!(list(&[2, 2], &[-8, -2], 11).unwrap(), [11, 9, 3, 1]);
        assert_eq!(list(&[2, 3], &[0, -1], 2).unwrap(), [2, 1, 0, 2, 1, 0]);
        // Windows that overlap.
        assert_eq!(list(&[3, 2], &[1, 1], 4).unwrap(), [4, 5, 5, 6, 6, 7]);
        assert_eq!(list(&[], &[], 7).unwrap(), [7]);
        assert_eq!(list(&[1; 9], &[-5; 9], 3).unwrap(), [3]);
        assert_eq!(list(&[2, 0], &[-1, 1], 0).unwrap(), []);
        assert_eq!(list(&[0, 3], &[3, 1], 99).unwrap(), []);
    }

    #[test]
    fn layouts_that_leave_the_buffer_are_refused() {
        let data = [0u8; 4];
        assert!(strided(&data, &[5], &[1], 0).is_err());
        assert!(strided(&data, &[2], &[1], 4).is_err());
        assert!(strided(&data, &[2], &[-1], 0).is_err());
        assert!(strided(&data, &[2], &[isize::MIN], 1).is_err());
        assert!(strided(&data, &[2], &[isize::MAX], 1).is_err());
        assert!(strided(&data, &[usize::MAX, 2], &[0, 1], 0).is_err());
        assert!(strided(&data, &[], &[], 4).is_err());
    }
}
