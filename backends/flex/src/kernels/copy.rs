//! Kernels that only move elements: row-major copies and joining. They work on bit patterns by element size.

use std::mem::MaybeUninit;

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Operand, View};
use ubique_core::op::concat::Concat;
use ubique_core::{DType, Element, Layout, Result, TensorSpec};

use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::{Shared, bits};
use crate::threads::Threads;

/// A computation on bit patterns of one width.
pub trait WithBits {
    /// What it gives.
    type Output;
    /// The computation for one width.
    fn run<B: Element + bytemuck::Pod>(self) -> Self::Output;
}

/// Runs a computation on bit patterns as wide as a dtype's elements.
pub fn with_bits<F: WithBits>(dtype: DType, f: F) -> F::Output {
    match dtype.size() {
        8 => f.run::<u64>(),
        4 => f.run::<u32>(),
        2 => f.run::<u16>(),
        _ => f.run::<u8>(),
    }
}

/// A row-major copy of a view.
pub fn contiguous(context: &Context, view: &View) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a View);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Element + bytemuck::Pod>(self) -> Result<Buffer> {
            let Go(context, view) = self;
            let mut out = UninitBuffer::<B>::new(&context.pool, view.layout.elements())?;
            let target = Layout::contiguous(view.shape().clone());
            copy(&context.threads, bits::<B>(view)?, &view.layout, out.as_mut_slice(), &target);
            // SAFETY: the target layout covers the whole output.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(view.dtype, Go(context, view))
}

/// A view whose elements are row-major: the view itself, or a copy.
pub fn to_contiguous(context: &Context, view: &View) -> Result<View> {
    if view.layout.is_contiguous() {
        return Ok(view.clone());
    }
    let layout = Layout::contiguous(view.shape().clone());
    Ok(View::new(contiguous(context, view)?, layout, view.dtype))
}

/// The same bytes for another dtype: the buffer itself, or a copy of it where the operand is a part of it, is not row-major or
/// does not lie where elements of that dtype may.
pub fn bitcast(context: &Context, to: DType, view: &View) -> Result<Buffer> {
    let len = view.layout.elements() * view.dtype.size();
    let fits = |bytes: &[u8]| bytes.len() == len && (bytes.as_ptr() as usize).is_multiple_of(to.size());
    let whole = view.layout.is_contiguous() && view.layout.offset() == 0;
    match view.buffer.host_bytes() {
        Some(bytes) if whole && fits(bytes) => Ok(view.buffer.clone()),
        // New memory is aligned for every dtype.
        _ => contiguous(context, view),
    }
}

/// Operands joined along an axis.
pub fn concat(context: &Context, op: &Concat, inputs: &[Operand<'_>], out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a Concat, &'a [Operand<'a>], &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Element + bytemuck::Pod>(self) -> Result<Buffer> {
            let Go(context, op, inputs, spec) = self;
            let mut out = UninitBuffer::<B>::new(&context.pool, spec.shape.elements()?)?;
            let whole = Layout::contiguous(spec.shape.clone());
            let mut start = 0;
            for input in inputs {
                let len = input.shape()[op.axis];
                let part = whole.slice(op.axis, start, 1, len)?;
                copy(&context.threads, bits::<B>(input)?, &input.layout, out.as_mut_slice(), &part);
                start += len;
            }
            // SAFETY: the parts cover the whole output.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(out.dtype, Go(context, op, inputs, out))
}

/// Copies the elements of one layout to the places of another of the same shape.
pub fn copy<B: Copy + Send + Sync>(
    threads: &Threads,
    source: &[B],
    from: &Layout,
    target: &mut [MaybeUninit<B>],
    to: &Layout,
) {
    if from.elements() == 0 {
        return;
    }
    let target = Shared::new(target);
    let (mut extents, [mut sources, mut targets]) = Layout::collapse([from, to]);
    if extents.is_empty() {
        (extents, sources, targets) = (vec![1], vec![1], vec![1]);
    }
    let inner = extents.len() - 1;
    let origin = (from.offset() as isize, to.offset() as isize);
    // A source that is contiguous along another axis than the target's inner one: a transposition, done in tiles.
    let across = (0..inner).find(|&axis| sources[axis] == 1 && extents[axis] >= TILE);
    if let (Some(axis), true) = (across, !matches!(sources[inner], 0 | 1) && targets[inner] == 1) {
        return transpose(threads, source, target, &extents, &sources, &targets, origin, axis);
    }
    let row = extents[inner];
    let outer: usize = extents[..inner].iter().product();
    threads.ranges(outer, (GRAIN / row.max(1)).max(1), &|range| {
        for number in range {
            let (s, t) = place(number, &extents[..inner], &sources, &targets, origin);
            match (sources[inner], targets[inner]) {
                (1, 1) => {
                    // SAFETY: rows lie apart in the target, and each is copied by one thread.
                    let line = unsafe { target.part(t as usize..t as usize + row) };
                    line.write_copy_of_slice(&source[s as usize..][..row]);
                }
                (ss, ts) => (0..row as isize).for_each(|i| {
                    // SAFETY: as above, for the row's elements.
                    unsafe { target.write((t + i * ts) as usize, source[(s + i * ss) as usize]) };
                }),
            }
        }
    });
}

/// Where row `number` of the outer extents begins in source and target.
fn place(
    mut number: usize,
    extents: &[usize],
    sources: &[isize],
    targets: &[isize],
    origin: (isize, isize),
) -> (isize, isize) {
    let (mut s, mut t) = origin;
    for axis in (0..extents.len()).rev() {
        let i = (number % extents[axis]) as isize;
        number /= extents[axis];
        s += i * sources[axis];
        t += i * targets[axis];
    }
    (s, t)
}

/// Elements of a tile's edge: a cache line of the widest elements that matter.
const TILE: usize = 16;
/// Elements of a tile along the source: several cache lines, since each run of them may lie on a page of its own.
const TALL: usize = 4 * TILE;

#[allow(clippy::too_many_arguments)] // one walk with two sides
fn transpose<B: Copy + Send + Sync>(
    threads: &Threads,
    source: &[B],
    target: Shared<'_, MaybeUninit<B>>,
    extents: &[usize],
    sources: &[isize],
    targets: &[isize],
    origin: (isize, isize),
    axis: usize,
) {
    let inner = extents.len() - 1;
    let (height, width) = (extents[axis], extents[inner]);
    let others: Vec<usize> = (0..inner).filter(|&a| a != axis).collect();
    let pick = |of: &[isize]| others.iter().map(|&a| of[a]).collect::<Vec<_>>();
    let outer_extents: Vec<usize> = others.iter().map(|&a| extents[a]).collect();
    let (outer_sources, outer_targets) = (pick(sources), pick(targets));
    let bands = height.div_ceil(TALL);
    let outer: usize = outer_extents.iter().product();
    let grain = (GRAIN / (TALL * width).max(1)).max(1);
    threads.ranges(outer * bands, grain, &|range| {
        for job in range {
            let (s, t) = place(job / bands, &outer_extents, &outer_sources, &outer_targets, origin);
            let top = (job % bands) * TALL;
            let rows = TALL.min(height - top);
            let (s, t) = (s + top as isize, t + top as isize * targets[axis]);
            for left in (0..width).step_by(TILE) {
                let columns = TILE.min(width - left);
                // Read whole lines of the source, then write whole lines of the target, so that each is touched once.
                let mut block = [const { MaybeUninit::<B>::uninit() }; TALL * TILE];
                for column in 0..columns {
                    let start = (s + (left + column) as isize * sources[inner]) as usize;
                    for (row, &value) in source[start..start + rows].iter().enumerate() {
                        block[row * TILE + column].write(value);
                    }
                }
                for row in 0..rows {
                    let line = &block[row * TILE..row * TILE + columns];
                    // SAFETY: these `columns` elements were written above; same layout.
                    let line = unsafe { &*(line as *const [MaybeUninit<B>] as *const [B]) };
                    let at = (t + row as isize * targets[axis]) as usize + left;
                    // SAFETY: tiles lie apart in the target, and each is copied by one thread.
                    unsafe { target.part(at..at + columns) }.write_copy_of_slice(line);
                }
            }
        }
    });
}
