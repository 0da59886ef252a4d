//! Reductions over axes. Floats accumulate in f64; the order of additions does not depend on the number of threads.

use half::{bf16, f16};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::reduce::{Reduce, Reduction};
use ubique_core::{Element, Layout, Result, TensorSpec};

use super::dtype::for_element;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::elements;
use crate::simd;

/// Every reduction has a kernel for every dtype that it takes.
pub fn supports(_op: &Reduce, _inputs: &[TensorSpec]) -> bool {
    true
}

/// How elements of one type are reduced.
pub trait Fold: Element {
    /// What partial results are kept in.
    type Wide: Copy + Send + Sync;
    /// The result of no elements.
    fn start(op: Reduction) -> Self::Wide;
    /// One element more.
    fn step(op: Reduction, wide: Self::Wide, x: Self) -> Self::Wide;
    /// Two partial results together.
    fn join(op: Reduction, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// The result in the tensor's type; `count` elements went in.
    fn finish(op: Reduction, wide: Self::Wide, count: usize) -> Self;

    /// A slice.
    fn slice(op: Reduction, xs: &[Self]) -> Self::Wide {
        xs.iter().fold(Self::start(op), |wide, &x| Self::step(op, wide, x))
    }

    /// A row added to a row of partial results.
    fn row(op: Reduction, wide: &mut [Self::Wide], xs: &[Self]) {
        wide.iter_mut().zip(xs).for_each(|(wide, &x)| *wide = Self::step(op, *wide, x));
    }
}

#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn join_floats(op: Reduction, a: f64, b: f64) -> f64 {
    match op {
        Reduction::Sum | Reduction::Mean => a + b,
        Reduction::Prod => a * b,
        Reduction::Min => smaller(a, b),
        _ => larger(a, b),
    }
}

macro_rules! floats {
    ($($ty:ty: |$x:ident| $wide:expr, $narrow:expr, {$($special:tt)*};)*) => {$(
        impl Fold for $ty {
            type Wide = f64;
            fn start(op: Reduction) -> f64 {
                match op {
                    Reduction::Sum | Reduction::Mean => 0.0,
                    Reduction::Prod => 1.0,
                    Reduction::Min => f64::INFINITY,
                    _ => f64::NEG_INFINITY,
                }
            }
            #[inline(always)]
            fn step(op: Reduction, wide: f64, $x: $ty) -> f64 { join_floats(op, wide, $wide) }
            #[inline(always)]
            fn join(op: Reduction, a: f64, b: f64) -> f64 { join_floats(op, a, b) }
            fn finish(op: Reduction, wide: f64, count: usize) -> $ty {
                let value = if op == Reduction::Mean { wide / count as f64 } else { wide };
                $narrow(value)
            }
            $($special)*
        }
    )*};
}

floats! {
    f64: |x| x, |v| v, {};
    f16: |x| x.to_f64(), f16::from_f64, {};
    bf16: |x| x.to_f64(), bf16::from_f64, {};
    f32: |x| x as f64, |v| v as f32, {
        fn slice(op: Reduction, xs: &[f32]) -> f64 {
            match op {
                Reduction::Sum | Reduction::Mean => simd::reduce::sum(xs),
                Reduction::Prod => xs.iter().map(|&x| x as f64).product(),
                _ if xs.is_empty() => Self::start(op),
                Reduction::Min => simd::reduce::min(xs) as f64,
                _ => simd::reduce::max(xs) as f64,
            }
        }
        fn row(op: Reduction, wide: &mut [f64], xs: &[f32]) {
            use simd::rows::zip_assign;
            match op {
                Reduction::Sum | Reduction::Mean => zip_assign(|w: f64, x: f32| w + x as f64, wide, xs),
                Reduction::Prod => zip_assign(|w: f64, x: f32| w * x as f64, wide, xs),
                Reduction::Min => zip_assign(|w: f64, x: f32| smaller(w, x as f64), wide, xs),
                _ => zip_assign(|w: f64, x: f32| larger(w, x as f64), wide, xs),
            }
        }
    };
}

macro_rules! ints {
    ($($ty:ty)*) => {$(
        impl Fold for $ty {
            type Wide = $ty;
            fn start(op: Reduction) -> $ty {
                match op {
                    Reduction::Prod => 1,
                    Reduction::Min => <$ty>::MAX,
                    Reduction::Max => <$ty>::MIN,
                    _ => 0,
                }
            }
            #[inline(always)]
            fn step(op: Reduction, wide: $ty, x: $ty) -> $ty { Self::join(op, wide, x) }
            #[inline(always)]
            fn join(op: Reduction, a: $ty, b: $ty) -> $ty {
                match op {
                    Reduction::Prod => a.wrapping_mul(b),
                    Reduction::Min => a.min(b),
                    Reduction::Max => a.max(b),
                    _ => a.wrapping_add(b),
                }
            }
            fn finish(_op: Reduction, wide: $ty, _count: usize) -> $ty { wide }
        }
    )*};
}
ints! { i64 i32 i16 i8 u64 u32 u16 u8 }

impl Fold for bool {
    type Wide = bool;
    fn start(op: Reduction) -> bool {
        matches!(op, Reduction::All | Reduction::Min)
    }
    #[inline(always)]
    fn step(op: Reduction, wide: bool, x: bool) -> bool {
        Self::join(op, wide, x)
    }
    #[inline(always)]
    fn join(op: Reduction, a: bool, b: bool) -> bool {
        match op {
            Reduction::All | Reduction::Min => a & b,
            _ => a | b,
        }
    }
    fn finish(_op: Reduction, wide: bool, _count: usize) -> bool {
        wide
    }
}

/// Runs a reduction.
pub fn reduce(context: &Context, op: &Reduce, x: &View, out: &TensorSpec) -> Result<Buffer> {
    for_element!(x.dtype, T => run::<T>(context, op, x, out))
}

/// Axes of one kind: extents and strides, joined where they lie as one.
struct Axes {
    extents: Vec<usize>,
    strides: Vec<isize>,
}

impl Axes {
    fn new(layout: &Layout, axes: &[usize]) -> Axes {
        let (extents, [strides]) = Layout::collapse([&layout.permute(axes)]);
        Axes { extents, strides }
    }

    fn count(&self) -> usize {
        self.extents.iter().product()
    }

    /// Takes the innermost axis off where its stride is 1.
    fn take_unit(&mut self) -> Option<usize> {
        if self.strides.last() != Some(&1) {
            return None;
        }
        self.strides.pop();
        self.extents.pop()
    }

    /// Offset of the `number`-th combination.
    fn offset(&self, mut number: usize) -> isize {
        let mut offset = 0;
        for (&extent, &stride) in self.extents.iter().zip(&self.strides).rev() {
            offset += (number % extent) as isize * stride;
            number /= extent;
        }
        offset
    }
}

/// Elements that one thread adds up before partial results are joined, in order.
const CHUNK: usize = 64 * 1024;
/// Columns that are reduced side by side.
const COLUMNS: usize = 512;
/// How many rows ahead memory is asked for where rows are read in parts, whose places the hardware does not foresee.
const AHEAD: usize = 4;

fn run<T: Fold>(context: &Context, op: &Reduce, x: &View, out: &TensorSpec) -> Result<Buffer> {
    let data = elements::<T>(x)?;
    let kept: Vec<usize> = (0..x.shape().rank()).filter(|axis| !op.axes.contains(axis)).collect();
    let (mut kept, mut gone) = (Axes::new(&x.layout, &kept), Axes::new(&x.layout, &op.axes));
    let mut result = UninitBuffer::<T>::new(&context.pool, out.shape.elements()?)?;
    let count = gone.count();
    let target = result.fill(T::finish(op.op, T::start(op.op), count));
    let base = x.layout.offset() as isize;
    if count > 0 && !target.is_empty() {
        let row = gone.take_unit();
        match (row, kept.strides.last()) {
            (Some(row), _) if row >= 8 || kept.strides.last() != Some(&1) => {
                along(context, op.op, data, base, &kept, &gone, row, count, target);
            }
            (row, Some(1)) => {
                if let Some(row) = row {
                    gone.extents.push(row);
                    gone.strides.push(1);
                }
                let width = kept.take_unit().unwrap_or(1);
                across(context, op.op, data, base, &kept, &gone, width, count, target);
            }
            (row, _) => {
                if let Some(row) = row {
                    gone.extents.push(row);
                    gone.strides.push(1);
                }
                along(context, op.op, data, base, &kept, &gone, 1, count, target);
            }
        }
    }
    // SAFETY: `fill` writes every element.
    Ok(unsafe { result.assume_init() })
}

/// Each result from runs of `row` neighbours.
#[allow(clippy::too_many_arguments)] // two kinds of axes and their parts
fn along<T: Fold>(
    context: &Context,
    op: Reduction,
    data: &[T],
    base: isize,
    kept: &Axes,
    gone: &Axes,
    row: usize,
    count: usize,
    target: &mut [T],
) {
    let runs = count / row;
    let fold = |start: isize, first: usize, len: usize| {
        let mut wide = T::start(op);
        for run in first / row..(first + len).div_ceil(row) {
            let from = (start + gone.offset(run)) as usize;
            wide = T::join(op, wide, T::slice(op, &data[from..from + row]));
        }
        wide
    };
    if runs == 1 && count > CHUNK {
        // Long runs: chunks of fixed size, so that the result does not depend on the number of threads.
        for (number, slot) in target.iter_mut().enumerate() {
            let from = (base + kept.offset(number)) as usize;
            let run = &data[from..from + row];
            let mut parts = vec![T::start(op); row.div_ceil(CHUNK)];
            context.threads.rows(&mut parts, 1, 1, &|first, parts| {
                for (i, part) in parts.iter_mut().enumerate() {
                    let at = (first + i) * CHUNK;
                    *part = T::slice(op, &run[at..(at + CHUNK).min(row)]);
                }
            });
            let wide = parts.into_iter().fold(T::start(op), |a, b| T::join(op, a, b));
            *slot = T::finish(op, wide, count);
        }
        return;
    }
    context.threads.rows(target, 1, (GRAIN / count).max(1), &|first, part| {
        for (i, slot) in part.iter_mut().enumerate() {
            *slot = T::finish(op, fold(base + kept.offset(first + i), 0, count), count);
        }
    });
}

/// Neighbouring results side by side, row by row.
#[allow(clippy::too_many_arguments)] // as above
fn across<T: Fold>(
    context: &Context,
    op: Reduction,
    data: &[T],
    base: isize,
    kept: &Axes,
    gone: &Axes,
    width: usize,
    count: usize,
    target: &mut [T],
) {
    let blocks = width.div_ceil(COLUMNS);
    let rows = target.len() / width;
    let pieces: Vec<&mut [T]> = target.chunks_mut(width).flat_map(|row| row.chunks_mut(COLUMNS)).collect();
    let mut pieces: Vec<(usize, &mut [T])> = pieces.into_iter().enumerate().collect();
    debug_assert_eq!(pieces.len(), rows * blocks);
    let grain = (GRAIN / (count * COLUMNS.min(width)).max(1)).max(1);
    context.threads.rows(&mut pieces, 1, grain, &|_, part| {
        for (number, piece) in part.iter_mut() {
            let start = base + kept.offset(*number / blocks) + ((*number % blocks) * COLUMNS) as isize;
            let mut wide = [T::start(op); COLUMNS];
            let wide = &mut wide[..piece.len()];
            let row = |number: usize| &data[(start + gone.offset(number)) as usize..][..piece.len()];
            for number in 0..count {
                if width > COLUMNS && number + AHEAD < count {
                    simd::prefetch(row(number + AHEAD));
                }
                T::row(op, wide, row(number));
            }
            piece.iter_mut().zip(wide).for_each(|(slot, &mut wide)| *slot = T::finish(op, wide, count));
        }
    });
}
