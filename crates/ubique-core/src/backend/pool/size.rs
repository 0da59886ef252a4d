//! Size classes: four to a power of two, so that rounding up wastes less than a quarter.

use std::alloc::Layout;

/// Every block starts at a multiple of this: a cache line, and the widest vector register.
pub(super) const ALIGN: usize = 64;
/// Blocks up to this size are cached by each thread.
pub(super) const SMALL: usize = 64 << 10;
/// Classes up to `SMALL`.
pub(super) const SMALL_CLASSES: usize = 36;

const HUGE_PAGE: usize = 2 << 20;
/// Above this, sizes are multiples of a huge page.
const LARGEST_CLASS: usize = 64 << 20;
/// From this on, blocks also start on a huge page.
const HUGE_ALIGNED: usize = 16 << 20;

/// The class of a size in `1..=SMALL`.
#[inline]
pub(super) fn small_class(bytes: usize) -> usize {
    let (last_unit, shift) = split(bytes);
    4 * shift as usize + (last_unit >> shift)
}

/// The size of the blocks of a small class.
#[inline]
pub(super) const fn small_capacity(class: usize) -> usize {
    let shift = (class / 4).saturating_sub(1);
    (class - 4 * shift + 1) * (ALIGN << shift)
}

/// The size of block that serves `bytes` (not 0); `None` if no block can be that large.
#[inline]
pub(super) fn capacity(bytes: usize) -> Option<usize> {
    if bytes > LARGEST_CLASS {
        return round_up(bytes, HUGE_PAGE);
    }
    let (last_unit, shift) = split(bytes);
    Some(((last_unit >> shift) + 1) * (ALIGN << shift))
}

/// `bytes` rounded up to whole cache lines only; `None` if no block can be that large.
pub(super) fn exact_capacity(bytes: usize) -> Option<usize> {
    round_up(bytes, ALIGN)
}

/// The largest block worth taking where `capacity` is needed: small ones must match, big ones may be a quarter larger.
pub(super) fn largest_fit(capacity: usize) -> usize {
    if capacity <= SMALL { capacity } else { capacity.saturating_add(capacity / 4) }
}

/// Size and alignment of a block of `capacity` bytes; `None` if it would be larger than the address space allows.
pub(super) fn layout(capacity: usize) -> Option<Layout> {
    let align = if capacity >= HUGE_ALIGNED { HUGE_PAGE } else { ALIGN };
    Layout::from_size_align(capacity, align).ok()
}

/// The index of the last unit of `ALIGN` bytes, and how many of its low bits the class ignores.
#[inline]
fn split(bytes: usize) -> (usize, u32) {
    let last_unit = (bytes - 1) / ALIGN;
    (last_unit, (last_unit | 4).ilog2() - 2)
}

fn round_up(bytes: usize, multiple: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(multiple).filter(|&size| layout(size).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_tight_and_agree() {
        let mut last = 0;
        for bytes in 1..=SMALL {
            let size = capacity(bytes).unwrap();
            assert!(size >= bytes && size.is_multiple_of(ALIGN));
            assert!(bytes <= 4 * ALIGN || size * 4 < bytes * 5 + 4 * ALIGN, "{bytes} in {size}");
            assert_eq!(small_capacity(small_class(bytes)), size);
            assert!(small_class(bytes) - last <= 1);
            last = small_class(bytes);
        }
        assert_eq!(last + 1, SMALL_CLASSES);
    }

    #[test]
    fn large_sizes() {
        assert_eq!(capacity((1 << 20) + 1), Some((1 << 20) + (256 << 10)));
        assert_eq!(capacity(LARGEST_CLASS), Some(LARGEST_CLASS));
        assert_eq!(capacity(LARGEST_CLASS + 1), Some(LARGEST_CLASS + HUGE_PAGE));
        for bytes in [usize::MAX, isize::MAX as usize, isize::MAX as usize + 1] {
            assert_eq!(capacity(bytes), None);
        }
        assert_eq!(exact_capacity(usize::MAX), None);
        assert_eq!(exact_capacity(65), Some(128));
    }
}
