//! Pooling over up to three spatial axes: largest elements of windows, means of windows, and their gradients.

use std::mem::MaybeUninit;
use std::ops::Range;

use half::{bf16, f16};
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Outputs, View};
use ubique_core::op::pool::{AvgPool, AvgPoolBackward, MaxPool, MaxPoolBackward, Means, Pooling, Span};
use ubique_core::{Element, Error, Layout, Result, Shape, TensorSpec};

use super::dtype::{for_float, for_number};
use crate::executor::Context;
use crate::kernels::copy;
use crate::kernels::float::{Float, Wide};
use crate::kernels::unary::each;
use crate::memory::contiguous;
use crate::simd::{Isa, Kernel, vectorize};

/// Elements below which planes stay on one thread.
const GRAIN: usize = 1 << 14;

/// Whether there are kernels for operands of this rank: up to three spatial axes.
pub fn supports(inputs: &[TensorSpec]) -> bool {
    inputs.iter().all(|x| x.shape.rank() <= 5)
}

/// The elements of an operand in row-major order, through a copy where they are not.
fn dense<'a, T: Element>(context: &Context, view: &'a View, copied: &'a mut Option<View>) -> Result<&'a [T]> {
    if let Some(elements) = contiguous(view)? {
        return Ok(elements);
    }
    let layout = Layout::contiguous(view.shape().clone());
    let copy = copied.insert(View::new(copy::contiguous(context, view)?, layout, view.dtype));
    contiguous(copy)?.ok_or_else(|| Error::backend("a copy is not contiguous"))
}

/// The last three extents, 1 for axes that are not there.
fn plane(shape: &[usize]) -> [usize; 3] {
    let spatial = &shape[2..];
    std::array::from_fn(|axis| (axis + spatial.len()).checked_sub(3).map_or(1, |i| spatial[i]))
}

fn count(extents: [usize; 3]) -> usize {
    extents.iter().product()
}

/// An element with an order.
trait Ordered: Element + PartialOrd {
    /// Nothing is below it.
    const LOWEST: Self;
    /// What gradients are added in.
    type Sum: Copy + Default + Send + Sync;
    /// The sum with one more.
    fn add(sum: Self::Sum, x: Self) -> Self::Sum;
    /// The sum as an element.
    fn sum(sum: Self::Sum) -> Self;
}

macro_rules! ordered {
    ($($ty:ty, $sum:ty: $lowest:expr, |$total:ident, $x:ident| $add:expr, $narrow:expr;)*) => {$(
        impl Ordered for $ty {
            const LOWEST: $ty = $lowest;
            type Sum = $sum;
            #[inline(always)]
            fn add($total: $sum, $x: $ty) -> $sum { $add }
            #[inline(always)]
            fn sum($total: $sum) -> $ty { $narrow }
        }
    )*};
}

ordered! {
    f64, f64: f64::NEG_INFINITY, |s, x| s + x, s;
    f32, f32: f32::NEG_INFINITY, |s, x| s + x, s;
    f16, f32: f16::NEG_INFINITY, |s, x| s + x.to_f32(), f16::from_f32(s);
    bf16, f32: bf16::NEG_INFINITY, |s, x| s + x.to_f32(), bf16::from_f32(s);
    i64, i64: i64::MIN, |s, x| s.wrapping_add(x), s;
    i32, i32: i32::MIN, |s, x| s.wrapping_add(x), s;
    i16, i16: i16::MIN, |s, x| s.wrapping_add(x), s;
    i8, i8: i8::MIN, |s, x| s.wrapping_add(x), s;
    u64, u64: 0, |s, x| s.wrapping_add(x), s;
    u32, u32: 0, |s, x| s.wrapping_add(x), s;
    u16, u16: 0, |s, x| s.wrapping_add(x), s;
    u8, u8: 0, |s, x| s.wrapping_add(x), s;
}

#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself, and this vectorises")]
fn is_nan<T: PartialEq + Copy>(x: T) -> bool {
    x != x
}

/// Whether `x` is the one to take after `best`: it is larger, or the first NaN.
#[inline(always)]
fn beats<T: PartialOrd + Copy>(x: T, best: T) -> bool {
    (x > best) | (is_nan(x) & !is_nan(best))
}

/// The larger of two; NaN if there is one.
#[inline(always)]
fn larger<T: PartialOrd + Copy>(x: T, best: T) -> T {
    if (x > best) | is_nan(x) { x } else { best }
}

/// The largest element of each window, and where it is.
pub fn max_pool(context: &Context, op: &MaxPool, x: &View, outputs: &[TensorSpec]) -> Result<Outputs> {
    let out = &outputs[0];
    for_number!(x.dtype, T => max_pool_of::<T>(context, op, x, out))
}

fn max_pool_of<T: Ordered>(context: &Context, op: &MaxPool, x: &View, out: &TensorSpec) -> Result<Outputs> {
    let mut copied = None;
    let data = dense::<T>(context, x, &mut copied)?;
    let windows = Windows::new(&op.pooling, x.shape(), &out.shape);
    let (input, output) = (count(windows.input), count(windows.output));
    let mut values = UninitBuffer::<T>::new(&context.pool, out.shape.elements()?)?;
    if !op.indices {
        context.threads.rows(values.as_mut_slice(), output, GRAIN.div_ceil(input), &|first, part: &mut [_]| {
            let mut row = windows.padded_row::<T>();
            for (i, target) in part.chunks_exact_mut(output).enumerate() {
                vectorize(Largest {
                    windows: &windows,
                    plane: &data[(first + i) * input..][..input],
                    row: &mut row,
                    target,
                });
            }
        });
        // SAFETY: `Largest` writes every element of its plane.
        return Ok(Outputs::One(unsafe { values.assume_init() }));
    }
    let mut indices = UninitBuffer::<i64>::new(&context.pool, out.shape.elements()?)?;
    let pieces = values.as_mut_slice().chunks_mut(output.max(1)).zip(indices.as_mut_slice().chunks_mut(output.max(1)));
    let mut pieces: Vec<_> = pieces.collect();
    context.threads.rows(&mut pieces, 1, GRAIN.div_ceil(input), &|first, pieces: &mut [_]| {
        for (i, (values, indices)) in pieces.iter_mut().enumerate() {
            let plane = &data[(first + i) * input..][..input];
            let width = windows.output[2];
            let rows = values.chunks_exact_mut(width).zip(indices.chunks_exact_mut(width));
            for (number, (best, index)) in rows.enumerate() {
                windows.largest_of_row(plane, number, best, index);
            }
        }
    });
    // SAFETY: `largest_of_row` writes every element of its rows.
    Ok(Outputs::Many(unsafe { vec![values.assume_init(), indices.assume_init()] }))
}

/// The gradient of the operand: each window's gradient where its largest element is.
pub fn max_pool_backward(context: &Context, op: &MaxPoolBackward, x: &View, g: &View) -> Result<Buffer> {
    for_number!(x.dtype, T => max_pool_backward_of::<T>(context, op, x, g))
}

fn max_pool_backward_of<T: Ordered>(context: &Context, op: &MaxPoolBackward, x: &View, g: &View) -> Result<Buffer> {
    let (mut copied, mut copied_gradient) = (None, None);
    let data = dense::<T>(context, x, &mut copied)?;
    let gradient = dense::<T>(context, g, &mut copied_gradient)?;
    let windows = Windows::new(&op.pooling, x.shape(), g.shape());
    let (input, output) = (count(windows.input), count(windows.output));
    let mut target = UninitBuffer::<T>::new(&context.pool, data.len())?;
    context.threads.rows(target.as_mut_slice(), input, GRAIN.div_ceil(input), &|first, part: &mut [_]| {
        let width = windows.output[2];
        let (mut best, mut index) = (vec![MaybeUninit::uninit(); width], vec![MaybeUninit::uninit(); width]);
        let mut sums = vec![T::Sum::default(); input];
        for (i, target) in part.chunks_exact_mut(input).enumerate() {
            let plane = &data[(first + i) * input..][..input];
            let gradient = &gradient[(first + i) * output..][..output];
            if windows.are_pairs() {
                vectorize(Pairs { windows: &windows, plane, gradient, target });
                continue;
            }
            sums.fill(T::Sum::default());
            for (row, gradient) in gradient.chunks_exact(width).enumerate() {
                windows.largest_of_row(plane, row, &mut best, &mut index);
                for (&at, &g) in index.iter().zip(gradient) {
                    // SAFETY: `largest_of_row` wrote all of the row.
                    let at = unsafe { at.assume_init() } as usize;
                    sums[at] = T::add(sums[at], g);
                }
            }
            each(&sums, target, T::sum);
        }
    });
    // SAFETY: both ways write every element of a plane.
    Ok(unsafe { target.assume_init() })
}

/// The windows of a plane.
struct Windows {
    input: [usize; 3],
    output: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
}

impl Windows {
    fn new(pooling: &Pooling, x: &Shape, output: &Shape) -> Windows {
        let skip = 3 - pooling.windows.len();
        let axes = |default: usize, value: &dyn Fn(usize) -> usize| -> [usize; 3] {
            std::array::from_fn(|axis| axis.checked_sub(skip).map_or(default, value))
        };
        Windows {
            input: plane(x),
            output: plane(output),
            kernel: axes(1, &|i| pooling.kernel[i]),
            stride: axes(1, &|i| pooling.windows[i].stride),
            padding: axes(0, &|i| pooling.windows[i].padding),
            dilation: axes(1, &|i| pooling.windows[i].dilation),
        }
    }

    /// The input position along an axis, unless it is padding.
    #[inline(always)]
    fn at(&self, axis: usize, output: usize, tap: usize) -> Option<usize> {
        let padded = output * self.stride[axis] + tap * self.dilation[axis];
        padded.checked_sub(self.padding[axis]).filter(|&i| i < self.input[axis])
    }

    /// The starts of the input rows that an output row sees.
    #[inline(always)]
    fn rows(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        let (z, y) = (row / self.output[1], row % self.output[1]);
        (0..self.kernel[0]).filter_map(move |k| self.at(0, z, k)).flat_map(move |i| {
            (0..self.kernel[1])
                .filter_map(move |k| self.at(1, y, k))
                .map(move |j| (i * self.input[1] + j) * self.input[2])
        })
    }

    /// The outputs of a row for which a tap lies in the input.
    #[inline(always)]
    fn inside(&self, tap: usize) -> Range<usize> {
        let at = tap * self.dilation[2];
        let low = self.padding[2].saturating_sub(at).div_ceil(self.stride[2]);
        let high = (self.input[2] + self.padding[2]).saturating_sub(at).div_ceil(self.stride[2]).min(self.output[2]);
        low..high.max(low)
    }

    /// Whether windows are 2 × 2, side by side, without padding.
    fn are_pairs(&self) -> bool {
        let flat = |axis: usize| (self.kernel[axis], self.stride[axis]) == (1, 1);
        let pair = |axis: usize| {
            (self.kernel[axis], self.stride[axis], self.padding[axis], self.dilation[axis]) == (2, 2, 0, 1)
                && self.output[axis] * 2 <= self.input[axis]
        };
        flat(0) && pair(1) && pair(2)
    }

    /// A row of the padded input, as far as windows reach.
    fn padded_row<T: Ordered>(&self) -> Vec<T> {
        let reach = (self.output[2].max(1) - 1) * self.stride[2] + (self.kernel[2] - 1) * self.dilation[2] + 1;
        vec![T::LOWEST; reach.max(self.padding[2] + self.input[2])]
    }

    /// The largest elements of a row of windows, and their places in the plane.
    fn largest_of_row<T: Ordered>(
        &self,
        plane: &[T],
        row: usize,
        best: &mut [MaybeUninit<T>],
        index: &mut [MaybeUninit<i64>],
    ) {
        best.fill(MaybeUninit::new(T::LOWEST));
        index.fill(MaybeUninit::new(-1));
        // SAFETY: all were written above.
        let (best, index) = unsafe { (best.assume_init_mut(), index.assume_init_mut()) };
        for start in self.rows(row) {
            for tap in 0..self.kernel[2] {
                for o in self.inside(tap) {
                    let at = start + o * self.stride[2] + tap * self.dilation[2] - self.padding[2];
                    let x = plane[at];
                    if beats(x, best[o]) | (index[o] < 0) {
                        (best[o], index[o]) = (x, at as i64);
                    }
                }
            }
        }
    }
}

/// The largest elements of all windows of a plane: rows first, then columns.
struct Largest<'a, T> {
    windows: &'a Windows,
    plane: &'a [T],
    /// Memory for a padded row of the input, its padding in place.
    row: &'a mut [T],
    target: &'a mut [MaybeUninit<T>],
}

impl<T: Ordered> Kernel for Largest<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Largest { windows, plane, row, target } = self;
        let (width, padding) = (windows.input[2], windows.padding[2]);
        let (kernel, stride, dilation) = (windows.kernel[2], windows.stride[2], windows.dilation[2]);
        for (number, target) in target.chunks_exact_mut(windows.output[2]).enumerate() {
            let space = &mut row[padding..padding + width];
            let mut rows = windows.rows(number).map(|start| &plane[start..start + width]);
            match (rows.next(), rows.next()) {
                (Some(a), Some(b)) => space.iter_mut().zip(a.iter().zip(b)).for_each(|(m, (&a, &b))| *m = larger(b, a)),
                (Some(a), None) => space.copy_from_slice(a),
                _ => space.fill(T::LOWEST),
            }
            for row in rows {
                space.iter_mut().zip(row).for_each(|(m, &x)| *m = larger(x, *m));
            }
            if (kernel, stride, dilation) == (2, 2, 1) {
                let (pairs, _) = row.as_chunks::<2>();
                target.iter_mut().zip(pairs).for_each(|(t, &[a, b])| _ = t.write(larger(b, a)));
                continue;
            }
            for tap in 0..kernel {
                let from = &row[tap * dilation..];
                let step = |t: &mut MaybeUninit<T>, x: T| {
                    // SAFETY: the first tap writes each element, the others come later.
                    t.write(if tap == 0 { x } else { larger(x, unsafe { t.assume_init() }) });
                };
                match stride {
                    1 => target.iter_mut().zip(from).for_each(|(t, &x)| step(t, x)),
                    _ => target.iter_mut().zip(from.iter().step_by(stride)).for_each(|(t, &x)| step(t, x)),
                }
            }
        }
    }
}

/// The gradient for windows of 2 × 2 side by side.
struct Pairs<'a, T> {
    windows: &'a Windows,
    plane: &'a [T],
    gradient: &'a [T],
    target: &'a mut [MaybeUninit<T>],
}

impl<T: Ordered> Kernel for Pairs<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Pairs { windows, plane, gradient, target } = self;
        let ([_, height, width], [_, rows, columns]) = (windows.input, windows.output);
        let zero = T::default();
        let planes = plane.chunks_exact(height * width).zip(gradient.chunks_exact(rows * columns));
        for ((plane, gradient), target) in planes.zip(target.chunks_exact_mut(height * width)) {
            let (whole, rest) = target.split_at_mut(rows * 2 * width);
            rest.fill(MaybeUninit::new(zero));
            let both = whole.chunks_exact_mut(2 * width).zip(plane.chunks_exact(2 * width));
            for ((target, source), gradient) in both.zip(gradient.chunks_exact(columns)) {
                let (upper, lower) = target.split_at_mut(width);
                let (a, b) = source.split_at(width);
                let (upper, upper_rest) = upper.as_chunks_mut::<2>();
                let (lower, lower_rest) = lower.as_chunks_mut::<2>();
                let (a, b) = (a.as_chunks::<2>().0, b.as_chunks::<2>().0);
                let pairs = upper.iter_mut().zip(lower.iter_mut()).zip(a).zip(b);
                for ((((upper, lower), &[x0, x1]), &[x2, x3]), &g) in pairs.zip(gradient) {
                    let first = beats(x1, x0);
                    let top = if first { x1 } else { x0 };
                    let second = beats(x3, x2);
                    let bottom = if second { x3 } else { x2 };
                    let low = beats(bottom, top);
                    let take = |here: bool| MaybeUninit::new(if here { g } else { zero });
                    *upper = [take(!low & !first), take(!low & first)];
                    *lower = [take(low & !second), take(low & second)];
                }
                upper_rest.fill(MaybeUninit::new(zero));
                lower_rest.fill(MaybeUninit::new(zero));
                // Columns that no window sees, where the width is even but the windows are fewer.
                for row in [upper, lower] {
                    row.iter_mut().skip(columns).for_each(|pair| *pair = [MaybeUninit::new(zero); 2]);
                }
            }
        }
    }
}

/// The means of windows.
pub fn avg_pool(context: &Context, op: &AvgPool, x: &View, out: &TensorSpec) -> Result<Buffer> {
    for_float!(out.dtype, T => avg_pool_of::<T>(context, op, x, out))
}

/// What each output along each axis is the mean of.
fn spans(means: &Means, input: &Shape, output: &Shape) -> [Vec<Span>; 3] {
    let skip = 5 - input.rank();
    std::array::from_fn(|axis| match axis.checked_sub(skip) {
        None => vec![Span { start: 0, end: 1, count: 1 }],
        Some(i) => means.spans(i, input[i + 2], output[i + 2]),
    })
}

/// For each row of outputs, the rows of the input that it takes part of, and the divisor so far.
fn span_rows(spans: &[Vec<Span>; 3], height: usize) -> Vec<(Vec<usize>, usize)> {
    let [depth, rows, _] = spans;
    let row = |z: &Span, y: &Span| {
        let inner = y.start..y.end;
        let rows = (z.start..z.end).flat_map(|i| inner.clone().map(move |j| i * height + j)).collect();
        (rows, z.count * y.count)
    };
    depth.iter().flat_map(|z| rows.iter().map(move |y| row(z, y))).collect()
}

fn avg_pool_of<S: Float>(context: &Context, op: &AvgPool, x: &View, out: &TensorSpec) -> Result<Buffer> {
    let mut copied = None;
    let data = dense::<S>(context, x, &mut copied)?;
    let spans = spans(&op.means, x.shape(), &out.shape);
    let ([_, height, width], columns) = (plane(x.shape()), spans[2].len());
    let rows = span_rows(&spans, height);
    let (input, output) = (count(plane(x.shape())), rows.len() * columns);
    let mut target = UninitBuffer::<S>::new(&context.pool, out.shape.elements()?)?;
    context.threads.rows(target.as_mut_slice(), output, GRAIN.div_ceil(input.max(1)), &|first, part: &mut [_]| {
        let mut sums = vec![S::Wide::default(); width];
        for (i, target) in part.chunks_exact_mut(output).enumerate() {
            let plane = &data[(first + i) * input..][..input];
            for ((seen, count), target) in rows.iter().zip(target.chunks_exact_mut(columns)) {
                sums.fill(S::Wide::default());
                for row in seen {
                    let row = &plane[row * width..][..width];
                    sums.iter_mut().zip(row).for_each(|(s, x)| *s += x.wide());
                }
                for (slot, span) in target.iter_mut().zip(&spans[2]) {
                    let sum = sums[span.start..span.end].iter().fold(S::Wide::default(), |sum, &x| sum + x);
                    slot.write(S::narrow(sum / S::Wide::from_f64((count * span.count) as f64)));
                }
            }
        }
    });
    // SAFETY: every output of every row was written.
    Ok(unsafe { target.assume_init() })
}

/// The gradient of the operand: each window's gradient shared among its elements.
pub fn avg_pool_backward(context: &Context, op: &AvgPoolBackward, g: &View, out: &TensorSpec) -> Result<Buffer> {
    for_float!(out.dtype, T => avg_pool_backward_of::<T>(context, op, g, out))
}

fn avg_pool_backward_of<S: Float>(
    context: &Context,
    op: &AvgPoolBackward,
    g: &View,
    out: &TensorSpec,
) -> Result<Buffer> {
    let mut copied = None;
    let data = dense::<S>(context, g, &mut copied)?;
    let spans = spans(&op.means, &out.shape, g.shape());
    let ([_, height, width], columns) = (plane(&out.shape), spans[2].len());
    let rows = span_rows(&spans, height);
    let (input, output) = (count(plane(&out.shape)), rows.len() * columns);
    let mut target = UninitBuffer::<S>::new(&context.pool, out.shape.elements()?)?;
    context.threads.rows(target.as_mut_slice(), input, GRAIN.div_ceil(input.max(1)), &|first, part: &mut [_]| {
        let mut shares = vec![S::Wide::default(); width];
        let mut sums = vec![S::Wide::default(); input];
        for (i, target) in part.chunks_exact_mut(input).enumerate() {
            sums.fill(S::Wide::default());
            let gradient = &data[(first + i) * output..][..output];
            for ((seen, count), gradient) in rows.iter().zip(gradient.chunks_exact(columns.max(1))) {
                shares.fill(S::Wide::default());
                for (g, span) in gradient.iter().zip(&spans[2]) {
                    let share = g.wide() / S::Wide::from_f64((count * span.count) as f64);
                    shares[span.start..span.end].iter_mut().for_each(|s| *s += share);
                }
                for row in seen {
                    sums[row * width..][..width].iter_mut().zip(&shares).for_each(|(s, &x)| *s += x);
                }
            }
            S::narrow_slice(&sums, target);
        }
    });
    // SAFETY: every element of every plane was written.
    Ok(unsafe { target.assume_init() })
}
