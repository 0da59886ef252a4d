//! An axis sampled at another number of points, and the gradient of that: rows of weighted rows, or weighted elements in a row.

use std::mem::MaybeUninit;

use ubique_core::Result;
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::resize::{Resample, ResampleBackward};

use super::fused::floats;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::simd::{Isa, Kernel, vectorize};

/// For each point the places that it sees, all of them on the axis, and their weights.
struct Taps<const N: usize> {
    input: usize,
    points: Vec<([u32; N], [f32; N])>,
}

impl<const N: usize> Taps<N> {
    fn new(op: &Resample, input: usize) -> Result<Taps<N>> {
        let taps = op.taps(input)?;
        let point = |i: usize| {
            (
                std::array::from_fn(|tap| taps[tap].0[i].min(input - 1) as u32),
                std::array::from_fn(|tap| taps[tap].1[i] as f32),
            )
        };
        Ok(Taps { input, points: (0..op.output).map(point).collect() })
    }
}

/// Rows before an axis, and elements after it.
fn around(view: &View, axis: usize) -> (usize, usize) {
    (view.shape()[..axis].iter().product(), view.shape()[axis + 1..].iter().product())
}

/// The points of each line.
pub fn forward(context: &Context, op: &Resample, x: &View) -> Result<Buffer> {
    match op.mode.taps() {
        1 => points::<1>(context, op, x),
        2 => points::<2>(context, op, x),
        _ => points::<4>(context, op, x),
    }
}

fn points<const N: usize>(context: &Context, op: &Resample, x: &View) -> Result<Buffer> {
    let (data, (outer, inner)) = (floats(x)?, around(x, op.axis));
    let mut out = UninitBuffer::<f32>::new(&context.pool, outer * op.output * inner)?;
    if outer * op.output * inner == 0 {
        // SAFETY: there is nothing to write.
        return Ok(unsafe { out.assume_init() });
    }
    let taps = &Taps::<N>::new(op, x.shape()[op.axis])?;
    if inner == 1 {
        context.threads.rows(out.as_mut_slice(), op.output, (GRAIN / 4 / op.output).max(1), &|first, part| {
            let lines = data[first * taps.input..].chunks(taps.input);
            for (line, target) in lines.zip(part.chunks_mut(op.output)) {
                vectorize(Line { taps, line, target });
            }
        });
    } else {
        context.threads.rows(out.as_mut_slice(), inner, (GRAIN / inner).max(1), &|first, part| {
            for (i, target) in part.chunks_mut(inner).enumerate() {
                let (line, point) = ((first + i) / op.output, (first + i) % op.output);
                let (places, weights) = taps.points[point];
                let row = |place: u32| &data[(line * taps.input + place as usize) * inner..][..inner];
                vectorize(Rows { rows: places.map(row), weights, target });
            }
        });
    }
    // SAFETY: every line of the output is written.
    Ok(unsafe { out.assume_init() })
}

/// Points of a line of elements.
struct Line<'a, const N: usize> {
    taps: &'a Taps<N>,
    line: &'a [f32],
    target: &'a mut [MaybeUninit<f32>],
}

impl<const N: usize> Kernel for Line<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Line { taps, line, target } = self;
        assert_eq!(line.len(), taps.input, "a line differs from the axis in length");
        for (slot, (places, weights)) in target.iter_mut().zip(&taps.points) {
            let mut sum = 0.0;
            for (&place, &weight) in places.iter().zip(weights) {
                // SAFETY: places are below the axis's extent, which is the line's length.
                sum = S::fma(unsafe { *line.get_unchecked(place as usize) }, weight, sum);
            }
            slot.write(sum);
        }
    }
}

/// The weighted sum of rows.
struct Rows<'a, const N: usize> {
    rows: [&'a [f32]; N],
    weights: [f32; N],
    target: &'a mut [MaybeUninit<f32>],
}

impl<const N: usize> Kernel for Rows<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let len = self.target.len();
        let rows = self.rows.map(|row| &row[..len]);
        for (i, slot) in self.target.iter_mut().enumerate() {
            let taps = rows.iter().zip(self.weights);
            slot.write(taps.fold(0.0, |sum, (row, weight)| S::fma(row[i], weight, sum)));
        }
    }
}

/// The gradient of the operand.
pub fn backward(context: &Context, op: &ResampleBackward, g: &View) -> Result<Buffer> {
    match op.resample.mode.taps() {
        1 => spread::<1>(context, op, g),
        2 => spread::<2>(context, op, g),
        _ => spread::<4>(context, op, g),
    }
}

fn spread<const N: usize>(context: &Context, op: &ResampleBackward, g: &View) -> Result<Buffer> {
    let (data, (outer, inner)) = (floats(g)?, around(g, op.resample.axis));
    let (from, to) = (op.resample.output * inner, op.input * inner);
    let mut out = UninitBuffer::<f32>::new(&context.pool, outer * to)?;
    let target = out.fill(0.0);
    if !target.is_empty() && !data.is_empty() {
        let taps = &Taps::<N>::new(&op.resample, op.input)?;
        context.threads.rows(target, to, (GRAIN / 4 / from).max(1), &|first, part| {
            for (slab, target) in data[first * from..].chunks(from).zip(part.chunks_mut(to)) {
                vectorize(Spread { taps, slab, target, inner });
            }
        });
    }
    // SAFETY: it was filled.
    Ok(unsafe { out.assume_init() })
}

/// Adds each row of points to the rows that it sees.
struct Spread<'a, const N: usize> {
    taps: &'a Taps<N>,
    slab: &'a [f32],
    target: &'a mut [f32],
    inner: usize,
}

impl<const N: usize> Kernel for Spread<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Spread { taps, slab, target, inner } = self;
        for (row, (places, weights)) in slab.chunks(inner).zip(&taps.points) {
            for (&place, &weight) in places.iter().zip(weights) {
                let sums = &mut target[place as usize * inner..][..inner];
                for (sum, &g) in sums.iter_mut().zip(row) {
                    *sum = S::fma(g, weight, *sum);
                }
            }
        }
    }
}
