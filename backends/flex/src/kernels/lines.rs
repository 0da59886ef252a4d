//! Lines along an axis, for kernels that work on one line at a time: where each begins in a strided operand and in a
//! row-major result.

use ubique_core::{Layout, Shape};

/// The lines of a view along an axis, numbered in row-major order of the other axes.
pub struct Lines {
    extents: Vec<usize>,
    strides: Vec<isize>,
    offset: isize,
    /// Elements from one of a line to the next.
    pub stride: isize,
    /// Elements of a line.
    pub len: usize,
    /// How many lines.
    pub count: usize,
}

impl Lines {
    /// The lines of a layout along an axis, which the layout has.
    pub fn new(layout: &Layout, axis: usize) -> Lines {
        let others: Vec<usize> = (0..layout.shape().rank()).filter(|&other| other != axis).collect();
        let (extents, [strides]) = Layout::collapse([&layout.permute(&others)]);
        let (len, count) = (layout.shape()[axis], extents.iter().product());
        Lines { extents, strides, offset: layout.offset() as isize, stride: layout.strides()[axis], len, count }
    }

    /// The lines of a row-major tensor.
    pub fn of_shape(shape: &Shape, axis: usize) -> Lines {
        Lines::new(&Layout::contiguous(shape.clone()), axis)
    }

    /// Where in the buffer a line begins.
    #[inline]
    pub fn start(&self, mut number: usize) -> isize {
        let mut start = self.offset;
        for (&extent, &stride) in self.extents.iter().zip(&self.strides).rev() {
            start += (number % extent) as isize * stride;
            number /= extent;
        }
        start
    }

    /// The elements of a line in a buffer.
    #[inline]
    pub fn line<'a, T: Copy>(&self, data: &'a [T], number: usize) -> impl Iterator<Item = T> + use<'a, T> {
        let (start, stride) = (self.start(number), self.stride);
        (0..self.len as isize).map(move |i| data[(start + i * stride) as usize])
    }
}
