//! Softmax, its gradient, and log-sum-exp: over rows, or for another axis over columns side by side, without a copy.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::softmax::{LogSumExp, Softmax, SoftmaxBackward};
use ubique_core::{Result, TensorSpec};

use super::fused::floats;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::simd::math::{exp, ln};
use crate::simd::{Isa, Kernel, reduce, rows, vectorize};

/// The most columns worked on side by side: their maxima and sums stay in the first-level cache.
const COLUMNS: usize = 2048;
/// The fewest, where more threads could work than there are blocks.
const FEWEST: usize = 256;

/// A tensor as lanes along an axis: how many elements each has, and how far apart they lie.
fn lanes(shape: &[usize], axis: usize) -> (usize, usize) {
    (shape[axis], shape[axis + 1..].iter().product())
}

/// Rows that one thread takes at least.
fn grain(row: usize) -> usize {
    // An exponential costs as much as several moves.
    (GRAIN / 4 / row.max(1)).max(1)
}

/// Log-sum-exp has a kernel for the innermost axis.
pub fn supports_logsumexp(op: &LogSumExp, x: &TensorSpec) -> bool {
    lanes(&x.shape, op.axis).1 == 1
}

/// Softmax or its logarithm.
pub fn softmax(context: &Context, op: &Softmax, x: &View) -> Result<Buffer> {
    let data = floats(x)?;
    let (len, inner) = lanes(x.shape(), op.axis);
    let mut out = UninitBuffer::<f32>::new(&context.pool, data.len())?;
    if inner == 1 {
        context.threads.rows(out.as_mut_slice(), len, grain(len), &|first, part| {
            for (source, target) in data[first * len..].chunks(len).zip(part.chunks_mut(len)) {
                if op.log { rows::log_softmax_row(source, target) } else { rows::softmax_row(source, target) }
            }
        });
    } else {
        columns(context, [data], out.as_mut_slice(), len, inner, |[x], target| {
            vectorize(SoftmaxColumns { x, target, inner, log: op.log })
        });
    }
    // SAFETY: the kernels initialise every row, or every column.
    Ok(unsafe { out.assume_init() })
}

/// The gradient of softmax from its result and that one's gradient.
pub fn backward(context: &Context, op: &SoftmaxBackward, y: &View, g: &View) -> Result<Buffer> {
    let (ys, gs) = (floats(y)?, floats(g)?);
    let (len, inner) = lanes(y.shape(), op.axis);
    let mut out = UninitBuffer::<f32>::new(&context.pool, ys.len())?;
    if inner == 1 {
        context.threads.rows(out.as_mut_slice(), len, grain(len), &|first, part| {
            let start = first * len;
            for ((y, g), target) in ys[start..].chunks(len).zip(gs[start..].chunks(len)).zip(part.chunks_mut(len)) {
                let sum = if op.log { reduce::sum(g) } else { reduce::dot(y, g) };
                vectorize(BackwardRow { y, g, sum: sum as f32, target, log: op.log });
            }
        });
    } else {
        columns(context, [ys, gs], out.as_mut_slice(), len, inner, |[y, g], target| {
            vectorize(BackwardColumns { y, g, target, inner, log: op.log });
        });
    }
    // SAFETY: the kernels initialise every row, or every column.
    Ok(unsafe { out.assume_init() })
}

/// log Σ eˣ of each row.
pub fn logsumexp(context: &Context, x: &View, out: &TensorSpec) -> Result<Buffer> {
    let data = floats(x)?;
    let count = out.shape.elements()?;
    let len = data.len().checked_div(count).unwrap_or(0);
    let mut result = UninitBuffer::<f32>::new(&context.pool, count)?;
    context.threads.rows(result.as_mut_slice(), 1, grain(len), &|first, part| {
        for (i, slot) in part.iter_mut().enumerate() {
            let row = &data[(first + i) * len..][..len];
            let max = reduce::max(row);
            let value = if max.is_infinite() { max as f64 } else { reduce::max_sum_exp(row).1.ln() + max as f64 };
            slot.write(value as f32);
        }
    });
    // SAFETY: each slot is written.
    Ok(unsafe { result.assume_init() })
}

/// The columns of one block: `len` rows, `inner` apart.
#[derive(Clone, Copy)]
struct Columns<'a> {
    data: &'a [f32],
    start: usize,
}

impl<'a> Columns<'a> {
    #[inline(always)]
    fn row(self, number: usize, inner: usize, width: usize) -> &'a [f32] {
        &self.data[self.start + number * inner..][..width]
    }
}

/// The same columns of the target, row by row.
type Targets<'a> = Vec<&'a mut [MaybeUninit<f32>]>;

/// Calls a kernel with each block of columns of the operands and of the target.
fn columns<const N: usize>(
    context: &Context,
    operands: [&[f32]; N],
    target: &mut [MaybeUninit<f32>],
    len: usize,
    inner: usize,
    kernel: impl Fn([Columns<'_>; N], &mut Targets<'_>) + Sync + Send,
) {
    if target.is_empty() {
        return;
    }
    // Long runs of a row, one after the other, are what memory is fastest at.
    let share = inner.div_ceil(context.threads.count()).next_multiple_of(16);
    let width = share.clamp(FEWEST, COLUMNS);
    let blocks = inner.div_ceil(width);
    let mut pieces: Vec<(usize, Targets<'_>)> = Vec::new();
    for (outer, slab) in target.chunks_mut(len * inner).enumerate() {
        let first = pieces.len();
        pieces.extend((0..blocks).map(|block| (outer * len * inner + block * width, Vec::with_capacity(len))));
        for row in slab.chunks_mut(inner) {
            for (block, part) in row.chunks_mut(width).enumerate() {
                pieces[first + block].1.push(part);
            }
        }
    }
    context.threads.rows(&mut pieces, 1, grain(len * width.min(inner)), &|_, part| {
        for (start, targets) in part {
            kernel(operands.map(|data| Columns { data, start: *start }), targets);
        }
    });
}

struct SoftmaxColumns<'a, 't> {
    x: Columns<'a>,
    target: &'a mut Targets<'t>,
    inner: usize,
    log: bool,
}

impl Kernel for SoftmaxColumns<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let SoftmaxColumns { x, target, inner, log } = self;
        let width = target.first().map_or(0, |row| row.len());
        let (mut max, mut sum) = ([f32::NEG_INFINITY; COLUMNS], [0f32; COLUMNS]);
        let (max, sum) = (&mut max[..width], &mut sum[..width]);
        for number in 0..target.len() {
            for (max, &x) in max.iter_mut().zip(x.row(number, inner, width)) {
                *max = if (*max > x) | max.is_nan() { *max } else { x };
            }
        }
        for (number, row) in target.iter_mut().enumerate() {
            for (((t, &x), &max), sum) in row.iter_mut().zip(x.row(number, inner, width)).zip(&*max).zip(sum.iter_mut())
            {
                let e = exp::<S>(x - max);
                *sum += e;
                t.write(if log { x - max } else { e });
            }
        }
        for sum in sum.iter_mut() {
            *sum = if log { ln::<S>(*sum) } else { 1.0 / *sum };
        }
        for row in target.iter_mut() {
            for (t, &sum) in row.iter_mut().zip(&*sum) {
                // SAFETY: every element of the row was written above.
                let value = unsafe { t.assume_init_mut() };
                *value = if log { *value - sum } else { *value * sum };
            }
        }
    }
}

struct BackwardRow<'a> {
    y: &'a [f32],
    g: &'a [f32],
    sum: f32,
    target: &'a mut [MaybeUninit<f32>],
    log: bool,
}

impl Kernel for BackwardRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let sum = self.sum;
        let rows = self.target.iter_mut().zip(self.y).zip(self.g);
        match self.log {
            false => rows.for_each(|((t, &y), &g)| {
                t.write(y * (g - sum));
            }),
            true => rows.for_each(|((t, &y), &g)| {
                t.write(g - exp::<S>(y) * sum);
            }),
        }
    }
}

struct BackwardColumns<'a, 't> {
    y: Columns<'a>,
    g: Columns<'a>,
    target: &'a mut Targets<'t>,
    inner: usize,
    log: bool,
}

impl Kernel for BackwardColumns<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let BackwardColumns { y, g, target, inner, log } = self;
        let width = target.first().map_or(0, |row| row.len());
        let mut sum = [0f32; COLUMNS];
        let sum = &mut sum[..width];
        for number in 0..target.len() {
            let rows = y.row(number, inner, width).iter().zip(g.row(number, inner, width));
            for (sum, (&y, &g)) in sum.iter_mut().zip(rows) {
                *sum += if log { g } else { y * g };
            }
        }
        for (number, row) in target.iter_mut().enumerate() {
            let rows = y.row(number, inner, width).iter().zip(g.row(number, inner, width));
            for ((t, (&y, &g)), &sum) in row.iter_mut().zip(rows).zip(&*sum) {
                t.write(if log { g - exp::<S>(y) * sum } else { y * (g - sum) });
            }
        }
    }
}
