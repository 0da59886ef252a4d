//! Padding: a constant around the elements, or, axis by axis, elements looked up in the operand.

use ndarray::{Axis, Slice};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::pad::{Pad, PadMode};
use ubique_core::{Error, Layout, Result, TensorSpec};

use super::copy::contiguous;
use super::dtype::{Bits, WithBits, with_bits};
use super::index::take;
use super::walk::target;
use crate::view::array;

/// An operand with elements before and after those of each axis.
pub fn pad(pool: &HostPool, op: &Pad, x: &View, out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, &'a Pad, &'a View, &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Go(pool, op, x, spec) = self;
            match op.mode {
                PadMode::Constant(value) => constant::<B>(pool, op, value.to_bits(spec.dtype)?, x, spec),
                _ => lookup::<B>(pool, op, x, spec),
            }
        }
    }
    with_bits(out.dtype, Go(pool, op, x, out))
}

fn constant<B: Bits>(pool: &HostPool, op: &Pad, value: B, x: &View, spec: &TensorSpec) -> Result<Buffer> {
    let mut out = UninitBuffer::<B>::new(pool, spec.shape.elements()?)?;
    out.fill(value);
    if x.layout.elements() > 0 {
        let mut inside = target(out.as_mut_slice(), &spec.shape)?;
        for (axis, &(before, _)) in op.padding.iter().enumerate() {
            inside.slice_axis_inplace(Axis(axis), Slice::from(before..before + x.shape()[axis]));
        }
        array::<B>(x)?.assign_to(inside);
    }
    // SAFETY: `fill` writes every element.
    Ok(unsafe { out.assume_init() })
}

fn lookup<B: Bits>(pool: &HostPool, op: &Pad, x: &View, spec: &TensorSpec) -> Result<Buffer> {
    if spec.shape.elements()? == 0 {
        // SAFETY: there is no element to write.
        return Ok(unsafe { UninitBuffer::<B>::new(pool, 0)?.assume_init() });
    }
    let mut padded = x.clone();
    // Inner axes first, while the operand is small.
    for (axis, &(before, _)) in op.padding.iter().enumerate().rev().filter(|(_, pad)| **pad != (0, 0)) {
        let (extent, grown) = (x.shape()[axis], spec.shape[axis]);
        let places: Vec<usize> = (0..grown).filter_map(|i| op.mode.source(extent, before, i)).collect();
        if places.len() != grown {
            return Err(Error::backend(format!("axis {axis} of extent {extent} is too short to pad from")));
        }
        let shape = padded.shape().with(axis, grown);
        let mut out = UninitBuffer::<B>::new(pool, shape.elements()?)?;
        take(array::<B>(&padded)?, Axis(axis), &places, target(out.as_mut_slice(), &shape)?);
        // SAFETY: `take` writes every element.
        padded = View::new(unsafe { out.assume_init() }, Layout::contiguous(shape), x.dtype);
    }
    match padded.layout.is_row_major() && !padded.buffer.same(&x.buffer) {
        true => Ok(padded.buffer),
        // No axis grows.
        false => contiguous(pool, &padded),
    }
}
