//! Running sums, products and extrema, and the places of extrema.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::arg_reduce::{ArgReduce, Extremum};
use ubique_core::op::reduce::Reduction;
use ubique_core::op::scan::{Scan, ScanOp};
use ubique_core::{DType, Element, Error, Result, TensorSpec};

use super::copy::to_contiguous;
use super::dtype::for_element;
use super::reduce::Fold;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::contiguous;

/// A row-major operand seen from an axis: its elements in blocks of `len` rows of `inner` elements.
struct Blocks<'a, T> {
    data: &'a [T],
    len: usize,
    inner: usize,
}

fn blocks<T: Element>(x: &View, axis: usize) -> Result<Blocks<'_, T>> {
    let data = contiguous::<T>(x)?.ok_or_else(|| Error::backend("the operand is strided"))?;
    Ok(Blocks { data, len: x.shape()[axis], inner: x.shape()[axis + 1..].iter().product() })
}

/// Each element accumulated with those before it along an axis.
pub fn scan(context: &Context, op: &Scan, x: &View) -> Result<Buffer> {
    let x = &to_contiguous(context, x)?;
    for_element!(x.dtype, T => scan_of::<T>(context, op, x))
}

fn scan_of<T: Fold>(context: &Context, op: &Scan, x: &View) -> Result<Buffer> {
    let Blocks { data, len, inner } = blocks::<T>(x, op.axis)?;
    let op = match op.op {
        ScanOp::Sum => Reduction::Sum,
        ScanOp::Prod => Reduction::Prod,
        ScanOp::Max => Reduction::Max,
        ScanOp::Min => Reduction::Min,
    };
    let mut out = UninitBuffer::<T>::new(&context.pool, data.len())?;
    let block = len * inner;
    context.threads.rows(out.as_mut_slice(), block, (GRAIN / block.max(1)).max(1), &|first, part| {
        let mut wide = vec![T::start(op); inner];
        for (i, target) in part.chunks_mut(block).enumerate() {
            let source = &data[(first + i) * block..][..block];
            if inner == 1 {
                let mut wide = T::start(op);
                for (slot, &x) in target.iter_mut().zip(source) {
                    wide = T::step(op, wide, x);
                    slot.write(T::finish(op, wide, 1));
                }
                continue;
            }
            wide.fill(T::start(op));
            for (row, target) in source.chunks(inner).zip(target.chunks_mut(inner)) {
                T::row(op, &mut wide, row);
                for (slot, &wide) in target.iter_mut().zip(&wide) {
                    slot.write(T::finish(op, wide, 1));
                }
            }
        }
    });
    // SAFETY: the blocks cover the whole output.
    Ok(unsafe { out.assume_init() })
}

/// Whether `x` takes the place of `best`, which comes before it: NaN is the most extreme of all.
#[inline(always)]
#[allow(clippy::eq_op)] // only NaN differs from itself
fn beats<T: Copy + PartialOrd>(op: Extremum, best: T, x: T) -> bool {
    let more = match op {
        Extremum::Max => x > best,
        Extremum::Min => x < best,
    };
    best == best && (more || x != x)
}

/// The place of the most extreme element of a line.
fn place<T: Element + PartialOrd>(op: Extremum, line: &[T]) -> usize {
    let mut best = 0;
    for (i, &x) in line.iter().enumerate() {
        if beats(op, line[best], x) {
            best = i;
        }
    }
    best
}

/// The place of the most extreme element of a long line: first what it is, by vector code, then where.
fn place_f32(op: Extremum, line: &[f32]) -> usize {
    let best = match op {
        Extremum::Max => crate::simd::reduce::max(line),
        Extremum::Min => crate::simd::reduce::min(line),
    };
    let found = |x: f32| (x == best) | (x.is_nan() & best.is_nan());
    const CHUNK: usize = 64;
    for (number, chunk) in line.chunks(CHUNK).enumerate() {
        if chunk.iter().fold(false, |any, &x| any | found(x)) {
            return number * CHUNK + chunk.iter().position(|&x| found(x)).unwrap_or(0);
        }
    }
    0
}

/// The place of the largest or smallest element of each line.
pub fn arg_reduce(context: &Context, op: &ArgReduce, x: &View, out: &TensorSpec) -> Result<Buffer> {
    let total = out.shape.elements()?;
    let x = &to_contiguous(context, x)?;
    for_element!(x.dtype, T => arg_reduce_of::<T>(context, op, x, total))
}

fn arg_reduce_of<T: Element + PartialOrd>(context: &Context, op: &ArgReduce, x: &View, total: usize) -> Result<Buffer> {
    let ArgReduce { op, axis, .. } = op;
    let Blocks { data, len, inner } = blocks::<T>(x, *axis)?;
    let mut out = UninitBuffer::<i64>::new(&context.pool, total)?;
    let block = len * inner;
    context.threads.rows(out.as_mut_slice(), inner, (GRAIN / block.max(1)).max(1), &|first, part| {
        let mut best = vec![T::default(); inner];
        for (i, target) in part.chunks_mut(inner).enumerate() {
            let source = &data[(first + i) * block..][..block];
            if inner == 1 {
                let found = match as_f32(source) {
                    Some(line) => place_f32(*op, line),
                    None => place(*op, source),
                };
                target[0].write(found as i64);
                continue;
            }
            best.copy_from_slice(&source[..inner]);
            target.iter_mut().for_each(|slot| {
                slot.write(0);
            });
            for (row, source) in source.chunks(inner).enumerate().skip(1) {
                for ((slot, best), &x) in target.iter_mut().zip(&mut best).zip(source) {
                    if beats(*op, *best, x) {
                        *best = x;
                        slot.write(row as i64);
                    }
                }
            }
        }
    });
    // SAFETY: every line's place is written.
    Ok(unsafe { out.assume_init() })
}

/// The slice itself where its elements are f32.
fn as_f32<T: Element>(slice: &[T]) -> Option<&[f32]> {
    // SAFETY: `T` is f32: each element type has its own dtype.
    (T::DTYPE == DType::F32).then(|| unsafe { &*(slice as *const [T] as *const [f32]) })
}
