//! Reductions over axes, one axis at a time. Floats are added up in their own type for some hundred elements, and what that
//! gives in f64.

use bytemuck::Pod;
use ndarray::{ArrayView2, ArrayViewD, Axis, Ix2, IxDyn};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::reduce::{Reduce, Reduction};
use ubique_core::{DType, Error, Layout, Result, Shape, TensorSpec};

use super::copy::contiguous;
use super::dtype::{Int, Pattern, Real, WithInt, with_int};
use super::walk::{BLOCK, Room, SHORT, Target, each, map, map_bits};
use crate::view::{array, elements, strided};

/// How elements of `T` become results of `W`.
struct Fold<T, A, W> {
    /// The result of no elements.
    start: W,
    /// The result of a slice.
    lane: fn(&[T]) -> W,
    /// Two results together.
    join: fn(W, W) -> W,
    /// What a column of few rows is accumulated in, before there are any.
    column: A,
    /// Elements that each meet their column.
    row: fn(&mut [A], &[T]),
    /// Columns that each meet a result.
    merge: fn(&mut [W], &[A]),
}

/// Columns that are accumulated at a time, and stay in the nearest cache. Rows that long lie on several pages, which the
/// processor reads ahead better than one.
const COLUMNS: usize = 4096;

/// Rows whose columns are accumulated before they meet the results.
const ROWS: usize = 64;

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
    let finish = move |sum: f64| if mean { sum / count as f64 } else { sum };
    match (x.dtype, op.op) {
        // Of one element nothing is made, whatever the reduction.
        _ if count == 1 => contiguous(pool, x),
        (DType::F64, _) => narrow::<f64>(pool, call.run(joins(op.op), joins(op.op))?, out, finish),
        // Products in f64, which a factor of f32 cannot overflow as soon.
        (DType::F32, Reduction::Prod) => {
            narrow::<f32>(pool, call.run(product::<f32>(), joins(op.op))?, out, |product| product as f32)
        }
        (DType::F32, _) => {
            narrow::<f32>(pool, call.run(real::<f32>(op.op), joins(op.op))?, out, move |x| finish(x) as f32)
        }
        (dtype, _) => with_int(dtype, OnInts(call)),
    }
}

/// Partial results as the result's elements.
fn narrow<T: Pattern>(pool: &HostPool, wide: Buffer, out: &TensorSpec, f: impl Fn(f64) -> T) -> Result<Buffer> {
    let wide = View::new(wide, Layout::contiguous(out.shape.clone()), DType::F64);
    map(pool, &wide, &map_bits(|x: &[f64], target: Target<'_, T>| each(x, target, &f)))
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
    fn run<T: Pod, A: Pod, W: Pod>(self, first: Fold<T, A, W>, then: Fold<W, W, W>) -> Result<Buffer> {
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
        let mut result = axis(pool, data, nearest, &first)?;
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
            result = axis(pool, array::<W>(&partial)?, last, &then)?;
            extents.truncate(last);
        }
        Ok(result)
    }
}

/// Reduces one axis of an array that has elements: row-major results of the others.
fn axis<T: Pod, A: Pod, W: Pod>(
    pool: &HostPool,
    x: ArrayViewD<'_, T>,
    axis: usize,
    fold: &Fold<T, A, W>,
) -> Result<Buffer> {
    let mut order: Vec<usize> = (0..x.ndim()).filter(|&other| other != axis).collect();
    let mut out = UninitBuffer::<W>::new(pool, order.iter().map(|&other| x.shape()[other]).product())?;
    // Whether the results of the innermost axis lie closer together than the elements that each is made of.
    let across = order.last().is_some_and(|&inner| {
        let (beside, along) = (x.strides()[inner].unsigned_abs(), x.strides()[axis].unsigned_abs());
        x.shape()[inner] >= SHORT && beside > 0 && beside < along
    });
    order.insert(order.len() - usize::from(across), axis);
    let (x, target, mut room) = (x.permuted_axes(IxDyn(&order)), out.fill(fold.start), Room::new());
    if across {
        let mut columns = vec![fold.column; COLUMNS.min(target.len())];
        matrices(x, target, &mut |x, target| rows(x, target, fold, &mut columns, &mut room));
    } else {
        matrices(x, target, &mut |x, target| lanes(x, target, fold, &mut room));
    }
    // SAFETY: `fill` writes every element.
    Ok(unsafe { out.assume_init() })
}

/// Calls `f` with the last two axes of an array, for each place on the others, and with the results that are theirs.
fn matrices<T, W>(x: ArrayViewD<'_, T>, target: &mut [W], f: &mut dyn FnMut(ArrayView2<'_, T>, &mut [W])) {
    if x.ndim() < 2 {
        return matrices(x.insert_axis(Axis(0)), target, f);
    }
    if x.ndim() > 2 {
        let size = target.len() / x.shape()[0];
        return x.outer_iter().zip(target.chunks_mut(size)).for_each(|(x, target)| matrices(x, target, f));
    }
    if let Ok(x) = x.into_dimensionality::<Ix2>() {
        f(x, target);
    }
}

/// A result for each row.
fn lanes<T: Pod, A, W: Copy>(x: ArrayView2<'_, T>, target: &mut [W], fold: &Fold<T, A, W>, room: &mut Room<T>) {
    for (x, slot) in x.rows().into_iter().zip(target) {
        *slot = match x.as_slice() {
            Some(slice) => (fold.lane)(slice),
            None => {
                let parts = x.axis_chunks_iter(Axis(0), BLOCK);
                parts.fold(fold.start, |sum, part| (fold.join)(sum, (fold.lane)(room.stage(&part))))
            }
        };
    }
}

/// A result for each column, of which a few at a time are accumulated in `columns`.
fn rows<T: Pod, A: Pod, W>(
    x: ArrayView2<'_, T>,
    target: &mut [W],
    fold: &Fold<T, A, W>,
    columns: &mut [A],
    room: &mut Room<T>,
) {
    for (x, target) in x.axis_chunks_iter(Axis(1), COLUMNS).zip(target.chunks_mut(COLUMNS)) {
        let columns = &mut columns[..target.len()];
        for x in x.axis_chunks_iter(Axis(0), ROWS) {
            columns.fill(fold.column);
            for row in x.rows() {
                match row.as_slice() {
                    Some(slice) => (fold.row)(columns, slice),
                    None => {
                        let parts = row.axis_chunks_iter(Axis(0), BLOCK).zip(columns.chunks_mut(BLOCK));
                        parts.for_each(|(part, columns)| (fold.row)(columns, room.stage(&part)));
                    }
                }
            }
            (fold.merge)(target, columns);
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
        row(&mut parts, chunk, &step);
    }
    row(&mut parts, rest, &step);
    let mut width = PARTS / 2;
    while width > 0 {
        let (left, right) = parts.split_at_mut(width);
        left.iter_mut().zip(&*right).for_each(|(a, &b)| *a = join(*a, b));
        width /= 2;
    }
    parts[0]
}

/// Elements that each meet what is there.
#[inline(always)]
fn row<T: Copy, A: Copy>(parts: &mut [A], x: &[T], step: impl Fn(A, T) -> A) {
    parts.iter_mut().zip(x).for_each(|(part, &x)| *part = step(*part, x));
}

/// The sum of a slice: of blocks in their own type, which are added up in f64.
pub fn sum<T: Real>(x: &[T]) -> f64 {
    x.chunks(BLOCK).fold(0.0, |sum, block| sum + wide(lane(block, T::zero(), |a, b| a + b, |a, b| a + b)))
}

/// The largest element of a slice; NaN where there is one.
pub fn largest<T: Real>(x: &[T]) -> T {
    lane(x, T::neg_infinity(), larger, larger)
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

fn product<T: Real>() -> Fold<T, f64, f64> {
    Fold {
        start: 1.0,
        lane: |x| lane(x, 1.0, |w, x: T| w * wide(x), |a, b| a * b),
        join: |a, b| a * b,
        column: 1.0,
        row: |w, x| row(w, x, |w, x: T| w * wide(x)),
        merge: |w, a| row(w, a, |w, a| w * a),
    }
}

/// How results in f64 go on.
fn joins(op: Reduction) -> Fold<f64, f64, f64> {
    if op == Reduction::Prod { product() } else { real(op) }
}

/// Reductions that are exact in the elements' own type, or, as sums are, good enough for a block.
fn real<T: Real>(op: Reduction) -> Fold<T, T, f64> {
    match op {
        Reduction::Sum | Reduction::Mean => Fold {
            start: 0.0,
            lane: sum,
            join: |a, b| a + b,
            column: T::zero(),
            row: |a, x| row(a, x, |a, x| a + x),
            merge: |w, a| row(w, a, |w, a: T| w + wide(a)),
        },
        Reduction::Min => Fold {
            start: f64::INFINITY,
            lane: |x| wide(lane(x, T::infinity(), smaller, smaller)),
            join: smaller,
            column: T::infinity(),
            row: |a, x| row(a, x, smaller),
            merge: |w, a| row(w, a, |w, a: T| smaller(w, wide(a))),
        },
        _ => Fold {
            start: f64::NEG_INFINITY,
            lane: |x| wide(largest(x)),
            join: larger,
            column: T::neg_infinity(),
            row: |a, x| row(a, x, larger),
            merge: |w, a| row(w, a, |w, a: T| larger(w, wide(a))),
        },
    }
}

/// Integers, which wrap, and bools as bytes, of which any is the largest and all the smallest.
fn int<T: Int>(op: Reduction) -> Fold<T, T, T> {
    fn sum<T: Int>(a: T, b: T) -> T {
        a.wrapping_add(&b)
    }
    fn product<T: Int>(a: T, b: T) -> T {
        a.wrapping_mul(&b)
    }
    match op {
        Reduction::Prod => same(T::one(), |x| lane(x, T::one(), product, product), product, |a, x| row(a, x, product)),
        Reduction::Min => {
            same(T::max_value(), |x| lane(x, T::max_value(), T::min, T::min), T::min, |a, x| row(a, x, T::min))
        }
        // Of bools the largest is 1, and so is what all of none is.
        Reduction::All => Fold { start: T::one(), ..int(Reduction::Min) },
        Reduction::Max | Reduction::Any => {
            same(T::min_value(), |x| lane(x, T::min_value(), T::max, T::max), T::max, |a, x| row(a, x, T::max))
        }
        _ => same(T::zero(), |x| lane(x, T::zero(), sum, sum), sum, |a, x| row(a, x, sum)),
    }
}

/// A fold whose results are of the elements' type.
fn same<T: Copy>(start: T, lane: fn(&[T]) -> T, join: fn(T, T) -> T, row: fn(&mut [T], &[T])) -> Fold<T, T, T> {
    Fold { start, lane, join, column: start, row, merge: row }
}
