//! Reductions over axes, one axis at a time. Floats accumulate in f64.

use bytemuck::Pod;
use ndarray::{ArrayViewD, Axis};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::reduce::{Reduce, Reduction};
use ubique_core::{DType, Error, Layout, Result, Shape, TensorSpec};

use super::copy::contiguous;
use super::dtype::{Int, Real, WithInt, with_int};
use super::walk::{BLOCK, Room, SHORT, Target, each, map};
use crate::view::{array, elements, strided};

/// How elements of `T` become partial results of `W`.
pub struct Fold<T, W> {
    /// The result of no elements.
    pub start: W,
    /// The result of some elements.
    pub lane: fn(&[T]) -> W,
    /// Two results together.
    pub join: fn(W, W) -> W,
    /// Elements that each meet a partial result.
    pub row: fn(&mut [W], &[T]),
}

/// Runs a reduction.
pub fn reduce(pool: &HostPool, op: &Reduce, x: &View, out: &TensorSpec) -> Result<Buffer> {
    struct OnInts<'a>(Call<'a>);
    impl WithInt for OnInts<'_> {
        type Output = Result<Buffer>;
        fn run<T: Int>(self) -> Result<Buffer> {
            let op = self.0.op;
            self.0.run(int::<T>(op), int::<T>(op))
        }
    }
    let count: usize = op.axes.iter().map(|&axis| x.shape()[axis]).product();
    let call = Call { pool, op: op.op, axes: &op.axes, x, elements: out.shape.elements()? };
    let mean = op.op == Reduction::Mean;
    match x.dtype {
        // Of one element nothing is made, whatever the reduction.
        _ if count == 1 => contiguous(pool, x),
        DType::F64 => {
            let result = call.run(real::<f64>(op.op), real::<f64>(op.op))?;
            narrow::<f64>(pool, result, out, move |sum| if mean { sum / count as f64 } else { sum })
        }
        DType::F32 => {
            let result = call.run(real::<f32>(op.op), real::<f64>(op.op))?;
            narrow::<f32>(pool, result, out, move |sum| (if mean { sum / count as f64 } else { sum }) as f32)
        }
        dtype => with_int(dtype, OnInts(call)),
    }
}

/// Partial results as the result's elements.
fn narrow<T: Pod>(pool: &HostPool, wide: Buffer, out: &TensorSpec, f: impl Fn(f64) -> T) -> Result<Buffer> {
    let wide = View::new(wide, Layout::contiguous(out.shape.clone()), DType::F64);
    map(pool, &wide, &|x: &[f64], target: Target<'_, T>| each(x, target, &f))
}

/// A reduction and its operand.
struct Call<'a> {
    pool: &'a HostPool,
    op: Reduction,
    axes: &'a [usize],
    x: &'a View,
    /// How many results there are.
    elements: usize,
}

impl Call<'_> {
    /// The partial results, row-major.
    fn run<T: Pod, W: Pod>(self, first: Fold<T, W>, then: Fold<W, W>) -> Result<Buffer> {
        let Call { pool, axes, x, elements: count, .. } = self;
        if count == 0 || x.layout.elements() == 0 {
            let mut out = UninitBuffer::<W>::new(pool, count)?;
            out.fill(first.start);
            // SAFETY: `fill` writes every element.
            return Ok(unsafe { out.assume_init() });
        }
        let kept: Vec<usize> = (0..x.shape().rank()).filter(|axis| !axes.contains(axis)).collect();
        // Neighbours that lie as one are one axis, those that stay first.
        let (mut extents, [mut strides]) = Layout::collapse([&x.layout.permute(&kept)]);
        let (gone, [steps]) = Layout::collapse([&x.layout.permute(axes)]);
        let rank = extents.len();
        extents.extend(&gone);
        strides.extend(&steps);
        let data = strided(elements::<T>(x)?, &extents, &strides, x.layout.offset())?;
        // The axis with the nearest neighbours first, which reads the operand in order.
        let nearest = (rank..extents.len()).min_by_key(|&axis| strides[axis].unsigned_abs());
        let nearest = nearest.ok_or_else(|| Error::backend("a reduction over no axes"))?;
        let mut result = axis(pool, data, Axis(nearest), &first)?;
        extents.remove(nearest);
        while extents.len() > rank {
            let last = extents.len() - 1;
            // Partial results are row-major; `W` is as wide as this dtype says, which is all that a view needs of it.
            let dtype = match size_of::<W>() {
                8 => DType::U64,
                4 => DType::U32,
                2 => DType::U16,
                _ => DType::U8,
            };
            let partial = View::new(result, Layout::contiguous(Shape::from(&*extents)), dtype);
            result = axis(pool, array::<W>(&partial)?, Axis(last), &then)?;
            extents.truncate(last);
        }
        Ok(result)
    }
}

/// Reduces one axis of an array that has elements: row-major partial results of the others.
fn axis<T: Pod, W: Pod>(pool: &HostPool, x: ArrayViewD<'_, T>, axis: Axis, fold: &Fold<T, W>) -> Result<Buffer> {
    let extents: Vec<usize> =
        (0..x.ndim()).filter(|&other| other != axis.index()).map(|other| x.shape()[other]).collect();
    let mut out = UninitBuffer::<W>::new(pool, extents.iter().product())?;
    // Whether the results of the innermost axis lie closer together than the elements that each is made of.
    let inner = (0..x.ndim()).rev().find(|&other| other != axis.index()).filter(|&inner| {
        let (beside, along) = (x.strides()[inner].unsigned_abs(), x.strides()[axis.index()].unsigned_abs());
        x.shape()[inner] >= SHORT && beside > 0 && beside < along
    });
    match inner {
        Some(inner) => rows(x, axis, Axis(inner), out.fill(fold.start), fold),
        None => {
            let mut room = Room::new();
            for (lane, slot) in x.lanes(axis).into_iter().zip(out.as_mut_slice()) {
                let parts = lane.axis_chunks_iter(Axis(0), BLOCK);
                slot.write(parts.fold(fold.start, |sum, part| (fold.join)(sum, (fold.lane)(room.stage(&part)))));
            }
        }
    }
    // SAFETY: every element was written: by `fill`, or one for each lane.
    Ok(unsafe { out.assume_init() })
}

/// Adds up rows of results that lie side by side along the axis `inner` of the operand.
fn rows<T: Pod, W>(x: ArrayViewD<'_, T>, axis: Axis, inner: Axis, target: &mut [W], fold: &Fold<T, W>) {
    let (width, place) = (x.shape()[inner.index()], if inner < axis { inner } else { Axis(inner.index() - 1) });
    let mut room = Room::new();
    // A few columns at a time, whose results stay in the nearest cache.
    for (number, x) in x.axis_chunks_iter(inner, BLOCK).enumerate() {
        for x in x.axis_iter(axis) {
            for (x, target) in x.lanes(place).into_iter().zip(target.chunks_mut(width)) {
                (fold.row)(&mut target[number * BLOCK..][..x.len()], room.stage(&x));
            }
        }
    }
}

/// The result of a slice, in several parts, so that elements need not wait for each other.
#[inline(always)]
fn lane<T: Copy, A: Copy>(x: &[T], start: A, step: impl Fn(A, T) -> A, join: impl Fn(A, A) -> A) -> A {
    const PARTS: usize = 16;
    let (chunks, rest) = x.as_chunks::<PARTS>();
    let mut parts = [start; PARTS];
    for chunk in chunks {
        parts.iter_mut().zip(chunk).for_each(|(part, &x)| *part = step(*part, x));
    }
    let all = parts.into_iter().reduce(&join).unwrap_or(start);
    rest.iter().fold(all, |a, &x| step(a, x))
}

/// Elements that each meet a partial result.
#[inline(always)]
fn row<T: Copy, W: Copy>(wide: &mut [W], x: &[T], step: impl Fn(W, T) -> W) {
    wide.iter_mut().zip(x).for_each(|(wide, &x)| *wide = step(*wide, x));
}

/// The larger; NaN where either is.
#[inline(always)]
pub fn larger<T: Real>(a: T, b: T) -> T {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller; NaN where either is.
#[inline(always)]
pub fn smaller<T: Real>(a: T, b: T) -> T {
    if a < b || a.is_nan() { a } else { b }
}

/// A float in the type that floats accumulate in; exact.
#[inline(always)]
pub fn wide<T: Real>(x: T) -> f64 {
    x.to_f64().unwrap_or(f64::NAN)
}

fn real<T: Real>(op: Reduction) -> Fold<T, f64> {
    match op {
        Reduction::Sum | Reduction::Mean => Fold {
            start: 0.0,
            lane: |x| lane(x, 0.0, |w, x: T| w + wide(x), |a, b| a + b),
            join: |a, b| a + b,
            row: |w, x| row(w, x, |w, x: T| w + wide(x)),
        },
        Reduction::Prod => Fold {
            start: 1.0,
            lane: |x| lane(x, 1.0, |w, x: T| w * wide(x), |a, b| a * b),
            join: |a, b| a * b,
            row: |w, x| row(w, x, |w, x: T| w * wide(x)),
        },
        Reduction::Min => Fold {
            start: f64::INFINITY,
            lane: |x| wide(lane(x, T::infinity(), smaller, smaller)),
            join: smaller,
            row: |w, x| row(w, x, |w, x: T| smaller(w, wide(x))),
        },
        _ => Fold {
            start: f64::NEG_INFINITY,
            lane: |x| wide(lane(x, T::neg_infinity(), larger, larger)),
            join: larger,
            row: |w, x| row(w, x, |w, x: T| larger(w, wide(x))),
        },
    }
}

/// Integers, which wrap, and bools as bytes, of which any is the largest and all the smallest.
fn int<T: Int>(op: Reduction) -> Fold<T, T> {
    fn sum<T: Int>(a: T, b: T) -> T {
        a.wrapping_add(&b)
    }
    fn product<T: Int>(a: T, b: T) -> T {
        a.wrapping_mul(&b)
    }
    match op {
        Reduction::Prod => Fold {
            start: T::one(),
            lane: |x| lane(x, T::one(), product, product),
            join: product,
            row: |w, x| row(w, x, product),
        },
        Reduction::Min | Reduction::All => Fold {
            // Of bools the largest is 1, and so is what all of none is.
            start: if op == Reduction::All { T::one() } else { T::max_value() },
            lane: |x| lane(x, T::max_value(), T::min, T::min),
            join: T::min,
            row: |w, x| row(w, x, T::min),
        },
        Reduction::Max | Reduction::Any => Fold {
            start: T::min_value(),
            lane: |x| lane(x, T::min_value(), T::max, T::max),
            join: T::max,
            row: |w, x| row(w, x, T::max),
        },
        _ => Fold { start: T::zero(), lane: |x| lane(x, T::zero(), sum, sum), join: sum, row: |w, x| row(w, x, sum) },
    }
}
