//! How a tensor's elements lie in its buffer: extents, strides and an offset, all in elements.

use crate::error::{Error, Result};
use crate::shape::{Dims, Shape};

/// Strides in elements; negative for flipped axes, 0 for broadcast ones.
pub type Strides = Dims<isize>;

/// Shape, strides and the offset of the first element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    shape: Shape,
    strides: Strides,
    offset: usize,
    // What every kernel asks first, so it is worked out once.
    elements: usize,
    is_contiguous: bool,
}

impl Layout {
    fn new(shape: Shape, strides: Strides, offset: usize) -> Layout {
        // Wrapping, because with an extent of 0 the others may be of any size.
        let elements = shape.iter().fold(1usize, |count, &extent| count.wrapping_mul(extent));
        let mut step = 1isize;
        let mut dense = true;
        for (&stride, &extent) in strides.iter().zip(shape.iter()).rev() {
            dense &= extent == 1 || stride == step;
            step = step.wrapping_mul(extent as isize);
        }
        Layout { shape, strides, offset, elements, is_contiguous: dense || elements == 0 }
    }

    /// Row-major, from the buffer's start.
    #[inline]
    pub fn contiguous(shape: Shape) -> Layout {
        let mut strides = Strides::repeat(1, shape.rank());
        let mut elements = 1usize;
        let mut step = 1isize;
        for (stride, &extent) in strides.as_mut_slice().iter_mut().zip(shape.iter()).rev() {
            *stride = step;
            step = step.wrapping_mul(extent.max(1) as isize);
            elements = elements.wrapping_mul(extent);
        }
        Layout { shape, strides, offset: 0, elements, is_contiguous: true }
    }

    /// A layout from its parts.
    ///
    /// # Errors
    /// Where ranks differ, or an element would lie outside `0..buffer_elements`.
    pub fn strided(shape: Shape, strides: Strides, offset: usize, buffer_elements: usize) -> Result<Layout> {
        if shape.rank() != strides.len() {
            return Err(Error::shape(format!(
                "{shape} has {} axes, strides {strides} have {}",
                shape.rank(),
                strides.len()
            )));
        }
        if shape.elements()? > 0 {
            let (mut low, mut high) = (offset as i128, offset as i128);
            for (&extent, &stride) in shape.iter().zip(strides.iter()) {
                let reach = (extent as i128 - 1) * stride as i128;
                low += reach.min(0);
                high += reach.max(0);
            }
            if low < 0 || high >= buffer_elements as i128 {
                return Err(Error::shape(format!(
                    "shape {shape} with strides {strides} and offset {offset} reaches elements {low}..={high} of a buffer of {buffer_elements}"
                )));
            }
        }
        Ok(Layout::new(shape, strides, offset))
    }

    /// The extents.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Elements to step for one step along each axis.
    #[inline]
    pub fn strides(&self) -> &Strides {
        &self.strides
    }

    /// Where the first element lies.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of elements. A layout is only made for shapes whose count does not overflow.
    #[inline]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Whether the elements lie row-major without gaps (wherever they begin).
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.is_contiguous
    }

    /// Whether the elements lie row-major from the buffer's start.
    #[inline]
    pub fn is_row_major(&self) -> bool {
        self.is_contiguous && self.offset == 0
    }

    /// Axes in a new order. `axes` must be a permutation of `0..rank`.
    pub fn permute(&self, axes: &[usize]) -> Layout {
        let shape = axes.iter().map(|&a| self.shape[a]).collect();
        let strides = axes.iter().map(|&a| self.strides[a]).collect();
        Layout::new(shape, strides, self.offset)
    }

    /// Broadcast to a larger shape by strides of 0.
    ///
    /// # Errors
    /// Where the shape does not broadcast to `shape`.
    #[inline]
    pub fn expand(&self, shape: &Shape) -> Result<Layout> {
        if self.shape == *shape {
            return Ok(self.clone());
        }
        let fail = || Error::shape(format!("{} does not broadcast to {shape}", self.shape));
        let skip = shape.rank().checked_sub(self.shape.rank()).ok_or_else(fail)?;
        let mut strides = Strides::repeat(0, shape.rank());
        for (i, (&extent, &stride)) in self.shape.iter().zip(self.strides.iter()).enumerate() {
            let wanted = shape[skip + i];
            if extent == wanted {
                strides.as_mut_slice()[skip + i] = stride;
            } else if extent != 1 {
                return Err(fail());
            }
        }
        Ok(Layout::new(shape.clone(), strides, self.offset))
    }

    /// Along one axis: begin at `start`, step by `step` (negative steps walk backwards), `len` elements.
    ///
    /// # Errors
    /// Where an element would lie outside the axis.
    pub fn slice(&self, axis: usize, start: usize, step: isize, len: usize) -> Result<Layout> {
        let extent = *self.shape.get(axis).ok_or_else(|| Error::shape(format!("no axis {axis} in {}", self.shape)))?;
        if len > 0 {
            let last = (len as i128 - 1) * step as i128 + start as i128;
            if start >= extent || last < 0 || last >= extent as i128 {
                return Err(Error::index(format!(
                    "slice from {start} with step {step} and length {len} leaves axis {axis} of extent {extent}"
                )));
            }
        }
        let stride = self.strides[axis];
        // Of nothing the extents, and with them the strides, can be larger than any memory.
        let empty = len == 0 || self.shape.contains(&0);
        let offset = if empty { self.offset } else { (self.offset as isize + start as isize * stride) as usize };
        let stride = if empty || len == 1 { stride } else { stride * step };
        Ok(Layout::new(self.shape.with(axis, len), self.strides.with(axis, stride), offset))
    }

    /// The same elements under another shape, where strides can express it; `None` where a copy is needed.
    pub fn reshape(&self, shape: &Shape) -> Option<Layout> {
        if self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape.clone()) });
        }
        let old: Vec<(usize, isize)> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|(extent, _)| *extent != 1).collect();
        let mut strides = Strides::repeat(1, shape.rank());
        let (mut i, mut j) = (0, 0);
        // Both shapes in groups of equal element count: inside a group the old axes must lie as one.
        while i < old.len() && j < shape.rank() {
            let (mut i_end, mut j_end) = (i + 1, j + 1);
            let (mut old_count, mut new_count) = (old[i].0, shape[j]);
            while old_count != new_count {
                if new_count < old_count {
                    new_count *= shape.get(j_end)?;
                    j_end += 1;
                } else {
                    old_count *= old.get(i_end)?.0;
                    i_end += 1;
                }
            }
            if old[i..i_end].windows(2).any(|w| w[0].1 != w[1].1 * w[1].0 as isize) {
                return None;
            }
            let mut stride = old[i_end - 1].1;
            for axis in (j..j_end).rev() {
                strides.as_mut_slice()[axis] = stride;
                stride *= shape[axis] as isize;
            }
            (i, j) = (i_end, j_end);
        }
        Some(Layout::new(shape.clone(), strides, self.offset))
    }

    /// Sliding windows over one axis: that axis becomes the number of windows, and a last axis of `size` is added.
    ///
    /// # Errors
    /// Where `size` or `step` is 0 or a window does not fit.
    pub fn unfold(&self, axis: usize, size: usize, step: usize) -> Result<Layout> {
        let extent = *self.shape.get(axis).ok_or_else(|| Error::shape(format!("no axis {axis} in {}", self.shape)))?;
        if size == 0 || step == 0 || size > extent {
            return Err(Error::shape(format!(
                "windows of {size} with step {step} do not fit axis {axis} of extent {extent}"
            )));
        }
        let windows = (extent - size) / step + 1;
        let stride = self.strides[axis];
        let shape = self.shape.with(axis, windows).inserted(self.shape.rank(), size);
        let outer = if windows > 1 { stride.wrapping_mul(step as isize) } else { stride };
        let strides = self.strides.with(axis, outer).inserted(self.shape.rank(), stride);
        shape.elements()?;
        Ok(Layout::new(shape, strides, self.offset))
    }

    /// Takes out axes of extent 1 and joins neighbours that lie as one, for kernels that loop over strides.
    /// All layouts must have the same shape; they are collapsed together. Returns the common extents and each layout's strides.
    pub fn collapse<const N: usize>(layouts: [&Layout; N]) -> (Vec<usize>, [Vec<isize>; N]) {
        let mut extents: Vec<usize> = Vec::new();
        let mut strides: [Vec<isize>; N] = std::array::from_fn(|_| Vec::new());
        let rank = layouts.first().map_or(0, |l| l.shape.rank());
        for axis in 0..rank {
            let extent = layouts[0].shape[axis];
            if extent == 1 {
                continue;
            }
            let joins = !extents.is_empty()
                && layouts
                    .iter()
                    .zip(&strides)
                    .all(|(l, s)| s.last().is_some_and(|&outer| outer == l.strides[axis] * extent as isize));
            if let (true, Some(last)) = (joins, extents.last_mut()) {
                *last *= extent;
                for (l, s) in layouts.iter().zip(&mut strides) {
                    s.pop();
                    s.push(l.strides[axis]);
                }
            } else {
                extents.push(extent);
                for (l, s) in layouts.iter().zip(&mut strides) {
                    s.push(l.strides[axis]);
                }
            }
        }
        (extents, strides)
    }

    /// Every element's position in the buffer, in row-major order of the shape.
    pub fn positions(&self) -> Positions {
        Positions {
            index: Dims::repeat(0, self.shape.rank()),
            position: self.offset as isize,
            left: self.elements(),
            layout: self.clone(),
        }
    }
}

/// Iterator over buffer positions; see [`Layout::positions`].
#[derive(Clone, Debug)]
pub struct Positions {
    layout: Layout,
    index: Dims<usize>,
    position: isize,
    left: usize,
}

impl Iterator for Positions {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let here = self.position as usize;
        let index = self.index.as_mut_slice();
        for axis in (0..index.len()).rev() {
            let stride = self.layout.strides[axis];
            index[axis] += 1;
            self.position += stride;
            if index[axis] < self.layout.shape[axis] {
                break;
            }
            self.position -= stride * index[axis] as isize;
            index[axis] = 0;
        }
        Some(here)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Positions {}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[usize]) -> Layout {
        Layout::contiguous(Shape::from(shape))
    }

    fn positions(l: &Layout) -> Vec<usize> {
        l.positions().collect()
    }

    #[test]
    fn slices_and_flips_without_copies() {
        let l = layout(&[3, 4]);
        let flipped = l.slice(1, 3, -1, 4).unwrap();
        assert_eq!(positions(&flipped), [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]);
        let stepped = flipped.slice(1, 0, 2, 2).unwrap().slice(0, 2, -2, 2).unwrap();
        assert_eq!(positions(&stepped), [11, 9, 3, 1]);
        assert!(l.slice(0, 2, 1, 2).is_err());
        assert!(l.slice(0, 0, -1, 2).is_err());
        assert!(l.slice(2, 0, 1, 1).is_err());
        assert_eq!(l.slice(0, 7, 1, 0).unwrap().elements(), 0);
    }

    #[test]
    fn reshapes_strided_layouts_where_possible() {
        let t = layout(&[2, 3, 4]).permute(&[1, 0, 2]);
        assert!(t.reshape(&Shape::from([6, 4])).is_none());
        let split = t.reshape(&Shape::from([3, 1, 2, 2, 2])).unwrap();
        assert_eq!(positions(&split), positions(&t));
        let row = layout(&[4, 6]).slice(1, 0, 1, 4).unwrap();
        assert!(row.reshape(&Shape::from([16])).is_none());
        assert_eq!(positions(&row.reshape(&Shape::from([2, 2, 4])).unwrap()), positions(&row));
        let flipped = layout(&[6]).slice(0, 5, -1, 6).unwrap();
        assert_eq!(positions(&flipped.reshape(&Shape::from([2, 3])).unwrap()), [5, 4, 3, 2, 1, 0]);
        let broad = layout(&[1]).expand(&Shape::from([4])).unwrap();
        assert_eq!(positions(&broad.reshape(&Shape::from([2, 2])).unwrap()), [0, 0, 0, 0]);
    }

    #[test]
    fn collapses_what_lies_together() {
        let a = layout(&[2, 3, 4]);
        assert_eq!(Layout::collapse([&a]).0, [24]);
        let b = layout(&[4]).expand(&Shape::from([2, 3, 4])).unwrap();
        let (extents, strides) = Layout::collapse([&a, &b]);
        assert_eq!(extents, [6, 4]);
        assert_eq!(strides, [vec![4, 1], vec![0, 1]]);
    }

    #[test]
    fn rejects_layouts_that_leave_the_buffer() {
        let s = |v: &[isize]| Strides::from_slice(v);
        assert!(Layout::strided(Shape::from([2, 2]), s(&[2, 1]), 0, 4).is_ok());
        assert!(Layout::strided(Shape::from([2, 2]), s(&[2, 1]), 1, 4).is_err());
        assert!(Layout::strided(Shape::from([2]), s(&[-1]), 0, 4).is_err());
        assert!(Layout::strided(Shape::from([2]), s(&[isize::MAX]), 0, 4).is_err());
        assert!(Layout::strided(Shape::from([2]), s(&[1, 1]), 0, 4).is_err());
    }

    #[test]
    fn extents_beside_an_empty_axis_may_be_huge() {
        let huge = layout(&[1 << 40, 0, 1 << 40]);
        let turned = huge.permute(&[0, 2, 1]);
        assert_eq!((turned.elements(), turned.is_contiguous()), (0, true));
        assert_eq!(huge.unfold(0, 1 << 39, 1 << 30).unwrap().elements(), 0);
    }

    #[test]
    fn unfold_makes_windows() {
        let w = layout(&[5]).unfold(0, 3, 2).unwrap();
        assert_eq!(positions(&w), [0, 1, 2, 2, 3, 4]);
        assert!(layout(&[2]).unfold(0, 3, 1).is_err());
    }
}
