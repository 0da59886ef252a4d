//! Kernels that only move elements, by bit pattern: row-major copies and joining.

use std::mem::MaybeUninit;

use bytemuck::Pod;
use ndarray::{ArrayViewD, ArrayViewMutD, Axis, Slice};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::concat::Concat;
use ubique_core::{Error, Layout, Result, TensorSpec};

use super::dtype::{Bits, WithBits, with_bits};
use super::walk::target;
use crate::view::{array, contiguous as slice, elements, strided};

/// A row-major copy of a view.
pub fn contiguous(pool: &HostPool, view: &View) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, &'a View);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Go(pool, view) = self;
            let mut out = UninitBuffer::<B>::new(pool, view.layout.elements())?;
            copy(view, out.as_mut_slice())?;
            // SAFETY: the copy writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(view.dtype, Go(pool, view))
}

/// A view whose elements are row-major: the view itself, or a copy.
pub fn to_contiguous(pool: &HostPool, view: &View) -> Result<View> {
    if view.layout.is_contiguous() {
        return Ok(view.clone());
    }
    Ok(View::new(contiguous(pool, view)?, Layout::contiguous(view.shape().clone()), view.dtype))
}

/// Writes an operand's elements in row-major order; initialises all of the target, which has as many.
pub fn copy<B: Pod>(view: &View, out: &mut [MaybeUninit<B>]) -> Result<()> {
    if let Some(source) = slice::<B>(view)? {
        if source.len() != out.len() {
            return Err(Error::backend(format!("a copy of {} elements to {}", source.len(), out.len())));
        }
        out.write_copy_of_slice(source);
        return Ok(());
    }
    let (extents, [strides, _]) = Layout::collapse([&view.layout, &Layout::contiguous(view.shape().clone())]);
    assign(strided(elements::<B>(view)?, &extents, &strides, view.layout.offset())?, target(out, &extents)?);
    Ok(())
}

/// Elements of a tile's edge where axes change places: a few cache lines of each side.
const TILE: usize = 32;

/// Writes an array's elements to a row-major one of the same extents. Where the source's neighbours lie along another
/// axis than the innermost, in tiles, so that each cache line is fetched once.
fn assign<B: Copy>(source: ArrayViewD<'_, B>, mut target: ArrayViewMutD<'_, MaybeUninit<B>>) {
    let (rank, strides) = (source.ndim(), source.strides());
    let fast = (0..rank).find(|&axis| strides[axis].abs() == 1 && source.shape()[axis] >= TILE);
    match fast {
        Some(fast) if fast + 1 < rank && source.shape()[rank - 1] >= TILE => {
            let (fast, last) = (Axis(fast), Axis(rank - 1));
            let bands = source.axis_chunks_iter(fast, TILE).zip(target.axis_chunks_iter_mut(fast, TILE));
            for (source, mut target) in bands {
                let tiles = source.axis_chunks_iter(last, TILE).zip(target.axis_chunks_iter_mut(last, TILE));
                tiles.for_each(|(source, target)| source.assign_to(target));
            }
        }
        _ => source.assign_to(target),
    }
}

/// Operands joined along an axis.
pub fn concat(pool: &HostPool, op: &Concat, inputs: &[&View], out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, &'a Concat, &'a [&'a View], &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Go(pool, op, inputs, spec) = self;
            let mut out = UninitBuffer::<B>::new(pool, spec.shape.elements()?)?;
            if spec.shape.elements()? > 0 {
                let mut whole = target(out.as_mut_slice(), &spec.shape)?;
                let mut start = 0;
                for input in inputs.iter().filter(|input| input.layout.elements() > 0) {
                    let end = start + input.shape()[op.axis];
                    array::<B>(input)?.assign_to(whole.slice_axis_mut(Axis(op.axis), Slice::from(start..end)));
                    start = end;
                }
            }
            // SAFETY: the operands together have the result's elements.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(out.dtype, Go(pool, op, inputs, out))
}
