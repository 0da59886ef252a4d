//! Running sums, products and extrema, and the places of extrema.

use half::{bf16, f16};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::op::arg_reduce::{ArgReduce, Extremum};
use ubique_core::op::reduce::Reduction;
use ubique_core::op::scan::{Scan, ScanOp};
use ubique_core::{DType, Element, Error, Result, TensorSpec};

use super::copy::to_contiguous;
use super::reduce::Fold;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::{Out, contiguous};

/// A kernel that is generic over the types that fold.
trait WithFold {
    fn run<T: Fold + PartialOrd>(self) -> Result<Buffer>;
}

fn with_fold(dtype: DType, f: impl WithFold) -> Result<Buffer> {
    match dtype {
        DType::F64 => f.run::<f64>(),
        DType::F32 => f.run::<f32>(),
        DType::F16 => f.run::<f16>(),
        DType::BF16 => f.run::<bf16>(),
        DType::I64 => f.run::<i64>(),
        DType::I32 => f.run::<i32>(),
        DType::I16 => f.run::<i16>(),
        DType::I8 => f.run::<i8>(),
        DType::U64 => f.run::<u64>(),
        DType::U32 => f.run::<u32>(),
        DType::U16 => f.run::<u16>(),
        DType::U8 => f.run::<u8>(),
        DType::Bool => f.run::<bool>(),
        other => Err(Error::backend(format!("no kernel for {other}"))),
    }
}

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
    struct Go<'a>(&'a Context, &'a Scan, &'a View);
    impl WithFold for Go<'_> {
        fn run<T: Fold + PartialOrd>(self) -> Result<Buffer> {
            let Go(context, op, x) = self;
            let Blocks { data, len, inner } = blocks::<T>(x, op.axis)?;
            let op = match op.op {
                ScanOp::Sum => Reduction::Sum,
                ScanOp::Prod => Reduction::Prod,
                ScanOp::Max => Reduction::Max,
                ScanOp::Min => Reduction::Min,
            };
            let mut out = Out::<T>::new(&context.pool, data.len())?;
            let block = len * inner;
            context.threads.rows(out.uninit(), block, (GRAIN / block.max(1)).max(1), &|first, part| {
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
            Ok(unsafe { out.finish() })
        }
    }
    with_fold(x.dtype, Go(context, op, &to_contiguous(context, x)?))
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
fn place<T: Fold + PartialOrd>(op: Extremum, line: &[T]) -> usize {
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
    struct Go<'a>(&'a Context, &'a ArgReduce, &'a View, usize);
    impl WithFold for Go<'_> {
        fn run<T: Fold + PartialOrd>(self) -> Result<Buffer> {
            let Go(context, ArgReduce { op, axis, .. }, x, total) = self;
            let Blocks { data, len, inner } = blocks::<T>(x, *axis)?;
            let mut out = Out::<i64>::new(&context.pool, total)?;
            let block = len * inner;
            context.threads.rows(out.uninit(), inner, (GRAIN / block.max(1)).max(1), &|first, part| {
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
            Ok(unsafe { out.finish() })
        }
    }
    let total = out.shape.elements()?;
    with_fold(x.dtype, Go(context, op, &to_contiguous(context, x)?, total))
}

/// The slice itself where its elements are f32.
fn as_f32<T: Element>(slice: &[T]) -> Option<&[f32]> {
    // SAFETY: `T` is f32: each element type has its own dtype.
    (T::DTYPE == DType::F32).then(|| unsafe { &*(slice as *const [T] as *const [f32]) })
}
