//! Running sums, products and extrema along an axis, and the places of extrema.

use std::mem::MaybeUninit;

use bytemuck::Pod;
use ndarray::{ArrayView1, ArrayViewD, ArrayViewMutD, Axis};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::arg_reduce::{ArgReduce, Extremum};
use ubique_core::op::scan::{Scan, ScanOp};
use ubique_core::{DType, Result, TensorSpec};

use super::dtype::{Int, Number, Real, WithInt, WithNumber, with_int, with_number};
use super::reduce::{larger, smaller, wide};
use super::walk::{BLOCK, Room, SHORT, Target, target, write};
use crate::view::array;

/// How elements of `T` are accumulated in `W`.
struct Steps<T, W> {
    start: W,
    /// Elements one after the other, with what came before them.
    lane: fn(&mut W, &[T], Target<'_, T>),
    /// Elements side by side, each with what came before it.
    row: fn(&mut [W], &[T], Target<'_, T>),
}

/// Each element accumulated with those before it along an axis.
pub fn scan(pool: &HostPool, op: &Scan, x: &View) -> Result<Buffer> {
    struct OnInts<'a>(&'a HostPool, &'a Scan, &'a View);
    impl WithInt for OnInts<'_> {
        type Output = Result<Buffer>;
        fn run<T: Int>(self) -> Result<Buffer> {
            run(self.0, self.1.axis, self.2, int::<T>(self.1.op))
        }
    }
    match x.dtype {
        DType::F32 => run(pool, op.axis, x, real::<f32>(op.op)),
        DType::F64 => run(pool, op.axis, x, real::<f64>(op.op)),
        dtype => with_int(dtype, OnInts(pool, op, x)),
    }
}

fn run<T: Pod, W: Pod>(pool: &HostPool, axis: usize, x: &View, steps: Steps<T, W>) -> Result<Buffer> {
    let mut out = UninitBuffer::<T>::new(pool, x.layout.elements())?;
    if x.layout.elements() > 0 {
        let (source, mut target) = (array::<T>(x)?, target(out.as_mut_slice(), x.shape())?);
        let last = x.shape().rank() - 1;
        if axis < last && x.shape()[last] >= SHORT {
            rows(source, target, Axis(axis), Axis(last), &steps);
        } else {
            let (mut room, mut result) = (Room::new(), Room::new());
            for (x, mut target) in source.lanes(Axis(axis)).into_iter().zip(target.lanes_mut(Axis(axis))) {
                let mut sum = steps.start;
                let blocks = x.axis_chunks_iter(Axis(0), BLOCK).zip(target.axis_chunks_iter_mut(Axis(0), BLOCK));
                for (x, target) in blocks {
                    write(&mut result, target, |target| (steps.lane)(&mut sum, room.stage(&x), target));
                }
            }
        }
    }
    // SAFETY: every lane or row of the result is written.
    Ok(unsafe { out.assume_init() })
}

/// Accumulates lanes along the last axis side by side; a lane for each place on the other axes.
fn rows<T: Pod, W: Pod>(
    source: ArrayViewD<'_, T>,
    mut target: ArrayViewMutD<'_, MaybeUninit<T>>,
    axis: Axis,
    last: Axis,
    steps: &Steps<T, W>,
) {
    if axis.index() > 0 {
        let outer = source.outer_iter().zip(target.outer_iter_mut());
        let (axis, last) = (Axis(axis.index() - 1), Axis(last.index() - 1));
        outer.for_each(|(source, target)| rows(source, target, axis, last, steps));
        return;
    }
    let across: usize = source.shape()[1..].iter().product();
    let width = source.shape()[last.index()];
    let last = Axis(last.index() - 1);
    let (mut sums, mut room, mut result) = (vec![steps.start; across], Room::new(), Room::new());
    for (source, mut target) in source.outer_iter().zip(target.outer_iter_mut()) {
        let lanes = source.lanes(last).into_iter().zip(target.lanes_mut(last));
        for ((x, mut target), sums) in lanes.zip(sums.chunks_mut(width)) {
            let blocks = x.axis_chunks_iter(Axis(0), BLOCK).zip(target.axis_chunks_iter_mut(Axis(0), BLOCK));
            for ((x, target), sums) in blocks.zip(sums.chunks_mut(BLOCK)) {
                write(&mut result, target, |target| (steps.row)(sums, room.stage(&x), target));
            }
        }
    }
}

#[inline(always)]
fn along<T: Copy, W: Copy>(
    sum: &mut W,
    x: &[T],
    target: Target<'_, T>,
    step: impl Fn(W, T) -> W,
    finish: impl Fn(W) -> T,
) {
    for (slot, &x) in target.iter_mut().zip(x) {
        *sum = step(*sum, x);
        slot.write(finish(*sum));
    }
}

#[inline(always)]
fn across<T: Copy, W: Copy>(
    sums: &mut [W],
    x: &[T],
    target: Target<'_, T>,
    step: impl Fn(W, T) -> W,
    finish: impl Fn(W) -> T,
) {
    for ((slot, &x), sum) in target.iter_mut().zip(x).zip(sums) {
        *sum = step(*sum, x);
        slot.write(finish(*sum));
    }
}

fn narrow<T: Real>(x: f64) -> T {
    T::from(x).unwrap_or_else(T::nan)
}

fn real<T: Real>(op: ScanOp) -> Steps<T, f64> {
    fn sum<T: Real>(a: f64, x: T) -> f64 {
        a + wide(x)
    }
    fn product<T: Real>(a: f64, x: T) -> f64 {
        a * wide(x)
    }
    fn max<T: Real>(a: f64, x: T) -> f64 {
        larger(a, wide(x))
    }
    fn min<T: Real>(a: f64, x: T) -> f64 {
        smaller(a, wide(x))
    }
    match op {
        ScanOp::Sum => Steps {
            start: 0.0,
            lane: |w, x, t| along(w, x, t, sum::<T>, narrow),
            row: |w, x, t| across(w, x, t, sum::<T>, narrow),
        },
        ScanOp::Prod => Steps {
            start: 1.0,
            lane: |w, x, t| along(w, x, t, product::<T>, narrow),
            row: |w, x, t| across(w, x, t, product::<T>, narrow),
        },
        ScanOp::Max => Steps {
            start: f64::NEG_INFINITY,
            lane: |w, x, t| along(w, x, t, max::<T>, narrow),
            row: |w, x, t| across(w, x, t, max::<T>, narrow),
        },
        ScanOp::Min => Steps {
            start: f64::INFINITY,
            lane: |w, x, t| along(w, x, t, min::<T>, narrow),
            row: |w, x, t| across(w, x, t, min::<T>, narrow),
        },
    }
}

fn int<T: Int>(op: ScanOp) -> Steps<T, T> {
    fn sum<T: Int>(a: T, b: T) -> T {
        a.wrapping_add(&b)
    }
    fn product<T: Int>(a: T, b: T) -> T {
        a.wrapping_mul(&b)
    }
    match op {
        ScanOp::Sum => Steps {
            start: T::zero(),
            lane: |w, x, t| along(w, x, t, sum, |x| x),
            row: |w, x, t| across(w, x, t, sum, |x| x),
        },
        ScanOp::Prod => Steps {
            start: T::one(),
            lane: |w, x, t| along(w, x, t, product, |x| x),
            row: |w, x, t| across(w, x, t, product, |x| x),
        },
        ScanOp::Max => Steps {
            start: T::min_value(),
            lane: |w, x, t| along(w, x, t, T::max, |x| x),
            row: |w, x, t| across(w, x, t, T::max, |x| x),
        },
        ScanOp::Min => Steps {
            start: T::max_value(),
            lane: |w, x, t| along(w, x, t, T::min, |x| x),
            row: |w, x, t| across(w, x, t, T::min, |x| x),
        },
    }
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

/// The place of the largest or smallest element of each line.
pub fn arg_reduce(pool: &HostPool, op: &ArgReduce, x: &View, out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, &'a ArgReduce, &'a View, &'a TensorSpec);
    impl WithNumber for Go<'_> {
        type Output = Result<Buffer>;
        fn run<T: Number>(self) -> Result<Buffer> {
            let Go(pool, op, x, spec) = self;
            let count = spec.shape.elements()?;
            let mut out = UninitBuffer::<i64>::new(pool, count)?;
            if count > 0 {
                for (lane, slot) in array::<T>(x)?.lanes(Axis(op.axis)).into_iter().zip(out.as_mut_slice()) {
                    slot.write(place(op.op, lane) as i64);
                }
            }
            // SAFETY: the place of every line is written.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_number(x.dtype, Go(pool, op, x, out))
}

/// The place of the most extreme element of a line; of equal ones the first.
fn place<T: Number>(op: Extremum, lane: ArrayView1<'_, T>) -> usize {
    let mut elements = lane.iter().copied().enumerate();
    let Some(first) = elements.next() else { return 0 };
    elements.fold(first, |best, x| if beats(op, best.1, x.1) { x } else { best }).0
}
