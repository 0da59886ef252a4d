//! Padding: each row of the result is looked up in the operand, axis by axis.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::pad::{Pad, PadMode};
use ubique_core::{Element, Layout, Result, Scalar, TensorSpec};

use super::copy::{WithBits, copy, with_bits};
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::bits;

/// An operand with elements before and after those of each axis.
pub fn pad(context: &Context, op: &Pad, x: &View, out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a Pad, &'a View, &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Element + bytemuck::Pod>(self) -> Result<Buffer> {
            let Go(context, op, x, spec) = self;
            match op.mode {
                PadMode::Constant(value) => constant::<B>(context, op, value, x, spec),
                _ => lookup::<B>(context, op, x, spec),
            }
        }
    }
    with_bits(out.dtype, Go(context, op, x, out))
}

fn constant<B: Element + bytemuck::Pod>(
    context: &Context,
    op: &Pad,
    value: Scalar,
    x: &View,
    spec: &TensorSpec,
) -> Result<Buffer> {
    let mut out = UninitBuffer::<B>::new(&context.pool, spec.shape.elements()?)?;
    out.fill(value.to_bits(spec.dtype)?);
    let mut inside = Layout::contiguous(spec.shape.clone());
    for (axis, &(before, _)) in op.padding.iter().enumerate() {
        inside = inside.slice(axis, before, 1, x.shape()[axis])?;
    }
    copy(&context.threads, bits::<B>(x)?, &x.layout, out.as_mut_slice(), &inside);
    // SAFETY: `fill` writes every element.
    Ok(unsafe { out.assume_init() })
}

fn lookup<B: Element + bytemuck::Pod>(context: &Context, op: &Pad, x: &View, spec: &TensorSpec) -> Result<Buffer> {
    let (data, total) = (bits::<B>(x)?, spec.shape.elements()?);
    let mut out = UninitBuffer::<B>::new(&context.pool, total)?;
    // For each axis, how far each place's source lies from the operand's first element.
    let table = |axis: usize| -> Vec<isize> {
        let (extent, stride) = (x.shape()[axis], x.layout.strides()[axis]);
        let source = |i| op.mode.source(extent, op.padding[axis].0, i).unwrap_or(0);
        (0..spec.shape[axis]).map(|i| source(i) as isize * stride).collect()
    };
    // An empty result needs no table, and one for a large extent could be huge.
    let mut tables: Vec<Vec<isize>> = if total == 0 { Vec::new() } else { (0..spec.shape.rank()).map(table).collect() };
    let last = tables.pop().unwrap_or_else(|| vec![0]);
    let offset = x.layout.offset() as isize;
    context.threads.rows(out.as_mut_slice(), last.len(), (GRAIN / last.len()).max(1), &|first, part| {
        for (i, row) in part.chunks_mut(last.len()).enumerate() {
            let (mut number, mut start) = (first + i, offset);
            for table in tables.iter().rev() {
                start += table[number % table.len()];
                number /= table.len();
            }
            for (slot, &step) in row.iter_mut().zip(&last) {
                slot.write(data[(start + step) as usize]);
            }
        }
    });
    // SAFETY: the rows cover the whole output.
    Ok(unsafe { out.assume_init() })
}
