//! The loop around elementwise kernels: any strides of the operands, a contiguous result, several threads.
//!
//! The innermost axis is handed to the kernel as slices (stride 1) and scalars (stride 0); other strides, and rows too
//! short to be worth a call, are gathered into blocks first.

use std::mem::MaybeUninit;

use ubique_core::Layout;

use crate::memory::Shared;
use crate::simd::elementwise::Operand;
use crate::threads::Threads;

/// Elements below which one thread does it all.
pub const GRAIN: usize = 32 * 1024;
/// Elements of a gathered block.
const BLOCK: usize = 1024;
/// Rows shorter than this are gathered.
const SHORT: usize = 32;

/// An operand: all elements of its buffer, with a layout of the result's shape.
pub struct Source<'a, T> {
    /// The whole buffer.
    pub data: &'a [T],
    /// Broadcast to the result's shape.
    pub layout: Layout,
}

/// One operand along the walk.
struct Walk<'a, T> {
    data: &'a [T],
    strides: Vec<isize>,
    position: isize,
}

/// Maps the rows of two operands to the target.
pub fn zip<A: Copy + Sync, B: Copy + Sync, C: Send>(
    threads: &Threads,
    a: Source<'_, A>,
    b: Source<'_, B>,
    target: &mut [MaybeUninit<C>],
    kernel: &(dyn Fn(Operand<'_, A>, Operand<'_, B>, &mut [MaybeUninit<C>]) + Sync),
) {
    if target.is_empty() {
        return;
    }
    let (mut extents, [mut sa, mut sb]) = Layout::collapse([&a.layout, &b.layout]);
    if extents.is_empty() {
        extents.push(target.len());
        sa.push(0);
        sb.push(0);
    }
    let (oa, ob) = (a.layout.offset() as isize, b.layout.offset() as isize);
    let count = target.len();
    let target = Shared::new(target);
    threads.ranges(count, GRAIN, &|range| {
        let mut left = range.len();
        let mut at = range.start;
        let mut index = unravel(at, &extents);
        let mut wa = Walk::new(a.data, &sa, oa, &index);
        let mut wb = Walk::new(b.data, &sb, ob, &index);
        let inner = extents.len() - 1;
        let row = extents[inner];
        let mut space_a = [const { MaybeUninit::<A>::uninit() }; BLOCK];
        let mut space_b = [const { MaybeUninit::<B>::uninit() }; BLOCK];
        while left > 0 {
            let whole = row >= SHORT || inner == 0;
            let len = if whole { left.min(row - index[inner]) } else { left.min(BLOCK) };
            let direct = whole && wa.is_direct(inner) && wb.is_direct(inner);
            let len = if direct { len } else { len.min(BLOCK) };
            // SAFETY: threads get disjoint ranges of the target, and this loop disjoint parts of its range.
            let out = unsafe { target.part(at..at + len) };
            if whole {
                let pa = wa.run(inner, len, &mut space_a);
                let pb = wb.run(inner, len, &mut space_b);
                kernel(pa, pb, out);
                advance(&mut index, &extents, inner, len, &mut [&mut wa.cursor(), &mut wb.cursor()]);
            } else {
                let mut walk = index.clone();
                for i in 0..len {
                    space_a[i].write(wa.data[wa.position as usize]);
                    space_b[i].write(wb.data[wb.position as usize]);
                    advance(&mut walk, &extents, inner, 1, &mut [&mut wa.cursor(), &mut wb.cursor()]);
                }
                index = walk;
                // SAFETY: the first `len` elements of both were written above.
                let (pa, pb) = unsafe { (init(&space_a[..len]), init(&space_b[..len])) };
                kernel(Operand::Slice(pa), Operand::Slice(pb), out);
            }
            at += len;
            left -= len;
        }
    });
}

/// # Safety
/// Every element has been written.
unsafe fn init<T>(slice: &[MaybeUninit<T>]) -> &[T] {
    // SAFETY: as the caller promises; the layouts are the same.
    unsafe { &*(slice as *const [MaybeUninit<T>] as *const [T]) }
}

/// A position with its strides, to be moved along the walk.
struct Cursor<'w> {
    position: &'w mut isize,
    strides: &'w [isize],
}

impl<'a, T: Copy> Walk<'a, T> {
    fn new(data: &'a [T], strides: &[isize], offset: isize, index: &[usize]) -> Walk<'a, T> {
        let position = offset + index.iter().zip(strides).map(|(&i, &s)| i as isize * s).sum::<isize>();
        Walk { data, strides: strides.to_vec(), position }
    }

    fn is_direct(&self, inner: usize) -> bool {
        matches!(self.strides[inner], 0 | 1)
    }

    fn cursor(&mut self) -> Cursor<'_> {
        Cursor { position: &mut self.position, strides: &self.strides }
    }

    /// The next `len` elements along the inner axis.
    fn run<'s>(&self, inner: usize, len: usize, space: &'s mut [MaybeUninit<T>; BLOCK]) -> Operand<'s, T>
    where
        'a: 's,
    {
        let start = self.position as usize;
        match self.strides[inner] {
            0 => Operand::Scalar(self.data[start]),
            1 => Operand::Slice(&self.data[start..start + len]),
            stride => {
                for (i, slot) in space[..len].iter_mut().enumerate() {
                    slot.write(self.data[(self.position + i as isize * stride) as usize]);
                }
                // SAFETY: the first `len` elements were written above.
                Operand::Slice(unsafe { init(&space[..len]) })
            }
        }
    }
}

fn unravel(mut at: usize, extents: &[usize]) -> Vec<usize> {
    let mut index = vec![0; extents.len()];
    for (i, &extent) in index.iter_mut().zip(extents).rev() {
        *i = at % extent.max(1);
        at /= extent.max(1);
    }
    index
}

/// Moves an index and the positions that belong to it `by` steps along the inner axis, carrying over at its end.
fn advance(index: &mut [usize], extents: &[usize], inner: usize, by: usize, cursors: &mut [&mut Cursor<'_>]) {
    index[inner] += by;
    for cursor in cursors.iter_mut() {
        *cursor.position += by as isize * cursor.strides[inner];
    }
    let mut axis = inner;
    while index[axis] >= extents[axis] && axis > 0 {
        for cursor in cursors.iter_mut() {
            *cursor.position += cursor.strides[axis - 1] - index[axis] as isize * cursor.strides[axis];
        }
        index[axis] = 0;
        axis -= 1;
        index[axis] += 1;
    }
}

/// Maps the rows of one operand to the target.
pub fn map<A: Copy + Sync, C: Send>(
    threads: &Threads,
    a: Source<'_, A>,
    target: &mut [MaybeUninit<C>],
    kernel: &(dyn Fn(&[A], &mut [MaybeUninit<C>]) + Sync),
) {
    if target.is_empty() {
        return;
    }
    if a.layout.is_contiguous() {
        let data = &a.data[a.layout.offset()..][..target.len()];
        let target = Shared::new(target);
        return threads.ranges(data.len(), GRAIN, &|range| {
            // SAFETY: threads get disjoint ranges of the target.
            let out = unsafe { target.part(range.clone()) };
            kernel(&data[range], out);
        });
    }
    let unit = Source { data: &[()], layout: a.layout.expand_unit() };
    zip(threads, a, unit, target, &|a, _, out| match a {
        Operand::Slice(a) => kernel(a, out),
        Operand::Scalar(a) => {
            let block = [a; BLOCK];
            out.chunks_mut(BLOCK).for_each(|out| kernel(&block[..out.len()], out));
        }
    });
}

/// A layout of the same shape that always points at the first element.
trait ExpandUnit {
    fn expand_unit(&self) -> Layout;
}

impl ExpandUnit for Layout {
    fn expand_unit(&self) -> Layout {
        let one = Layout::contiguous(ubique_core::Shape::empty());
        one.expand(self.shape()).unwrap_or(one)
    }
}
