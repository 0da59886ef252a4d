//! Fourier transforms by rustfft: lines are gathered a few at a time, transformed side by side, and put in their places.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::fft::Fft;
use ubique_core::{Error, Result, TensorSpec};
use ubique_flex_fft::{Complex, Plan, Planned, Zero};

use super::dtype::for_float;
use super::float::{Float, Wide};
use super::lines::Lines;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::{Shared, elements};
use crate::simd::Level;

/// The transform of real and, where there are any, imaginary parts.
pub fn fft(context: &Context, op: &Fft, parts: &[&View], outputs: &[TensorSpec]) -> Result<Vec<Buffer>> {
    for_float!(parts[0].dtype, T => run::<T>(context, op, parts, outputs))
}

fn run<T: Float<Wide: Planned>>(
    context: &Context,
    op: &Fft,
    parts: &[&View],
    outputs: &[TensorSpec],
) -> Result<Vec<Buffer>> {
    let total = outputs[0].shape.elements()?;
    let (mut re, mut im) =
        (UninitBuffer::<T>::new(&context.pool, total)?, UninitBuffer::<T>::new(&context.pool, total)?);
    if total > 0 {
        let sources = parts.iter().map(|view| Ok((elements::<T>(view)?, Lines::new(&view.layout, op.axis))));
        let to = Lines::of_shape(&outputs[0].shape, op.axis);
        let job = Job {
            sources: sources.collect::<Result<Vec<_>>>()?,
            plan: <T::Wide as Planned>::plan(to.len, op.inverse, Level::current() != Level::Portable),
            scale: <T::Wide as Wide>::from_f64(op.scale(to.len)),
            to,
            targets: [Shared::new(re.as_mut_slice()), Shared::new(im.as_mut_slice())],
        };
        job.run(context)?;
    }
    // SAFETY: all lines of both were written.
    Ok(unsafe { vec![re.assume_init(), im.assume_init()] })
}

/// Lines to transform, and where the results go.
struct Job<'a, T: Float<Wide: Planned>> {
    sources: Vec<(&'a [T], Lines)>,
    to: Lines,
    plan: Plan<T::Wide>,
    scale: T::Wide,
    targets: [Shared<'a, MaybeUninit<T>>; 2],
}

impl<T: Float<Wide: Planned>> Job<'_, T> {
    fn run(&self, context: &Context) -> Result<()> {
        let (count, n) = (self.to.count, self.to.len);
        let slots = if count * n < GRAIN { 1 } else { context.threads.count().min(count) };
        // Enough lines at a time that strided ones share cache lines, and short ones the cost of a call.
        let width = (GRAIN / n).clamp(8, 256).min(count);
        let space = width.checked_mul(n).and_then(|elements| elements.checked_add(self.plan.get_inplace_scratch_len()));
        let space = space.ok_or_else(|| Error::shape("the room for a transform overflows"))?;
        let mut room = room::<T::Wide>(space, slots)?;
        let mut rooms: Vec<&mut [Complex<T::Wide>]> = room.chunks_mut(space).collect();
        let share = count.div_ceil(slots);
        context.threads.rows(&mut rooms, 1, 1, &|first, rooms| {
            for (i, room) in rooms.iter_mut().enumerate() {
                let (values, scratch) = room.split_at_mut(width * n);
                let end = ((first + i + 1) * share).min(count);
                for start in ((first + i) * share..end).step_by(width) {
                    self.block(start, width.min(end - start), values, scratch);
                }
            }
        });
        Ok(())
    }

    /// Transforms `width` lines from `first` on.
    fn block(&self, first: usize, width: usize, values: &mut [Complex<T::Wide>], scratch: &mut [Complex<T::Wide>]) {
        let n = self.to.len;
        let [re, rest @ ..] = self.sources.as_slice() else { return };
        match rest {
            [im, ..] => {
                each(&re.1, first, width, |i, line, at| values[line * n + i].re = re.0[at].wide());
                each(&im.1, first, width, |i, line, at| values[line * n + i].im = im.0[at].wide());
                self.plan.process_with_scratch(&mut values[..width * n], scratch);
                each(&self.to, first, width, |i, line, at| self.put(at, values[line * n + i]));
            }
            // Two real lines are one complex line, whose transform is the sum of a symmetric and an antisymmetric part.
            [] => {
                let pairs = width.div_ceil(2);
                values[(pairs - 1) * n..pairs * n].fill(Complex::zero());
                each(&re.1, first, width, |i, line, at| {
                    let (value, slot) = (re.0[at].wide(), &mut values[line / 2 * n + i]);
                    if line % 2 == 0 { slot.re = value } else { slot.im = value }
                });
                self.plan.process_with_scratch(&mut values[..pairs * n], scratch);
                let half = T::Wide::from_f64(0.5);
                each(&self.to, first, width, |i, line, at| {
                    let pair = &values[line / 2 * n..][..n];
                    let (z, mirror) = (pair[i], pair[if i == 0 { 0 } else { n - i }].conj());
                    let (sum, difference) = (z + mirror, z - mirror);
                    let twice = if line % 2 == 0 { sum } else { Complex::new(difference.im, -difference.re) };
                    self.put(at, twice * half);
                });
            }
        }
    }

    #[inline(always)]
    fn put(&self, at: usize, value: Complex<T::Wide>) {
        let [re, im] = self.targets;
        // SAFETY: each line of the outputs is written by one thread.
        unsafe {
            re.write(at, T::narrow(value.re * self.scale));
            im.write(at, T::narrow(value.im * self.scale));
        }
    }
}

/// Calls `f` with each element of `width` lines: its place in the line, the line's place, and where it lies.
#[inline(always)]
fn each(lines: &Lines, first: usize, width: usize, mut f: impl FnMut(usize, usize, usize)) {
    let at = |start: isize, i: usize| (start + i as isize * lines.stride) as usize;
    if lines.stride.abs() == 1 || width == 1 {
        for line in 0..width {
            let start = lines.start(first + line);
            (0..lines.len).for_each(|i| f(i, line, at(start, i)));
        }
        return;
    }
    // Neighbouring lines usually lie side by side.
    let starts: Vec<isize> = (first..first + width).map(|line| lines.start(line)).collect();
    for i in 0..lines.len {
        starts.iter().enumerate().for_each(|(line, &start)| f(i, line, at(start, i)));
    }
}

/// Room for lines and scratch: `slots` times `len` elements.
fn room<W: Planned>(len: usize, slots: usize) -> Result<Vec<Complex<W>>> {
    let count = len.checked_mul(slots).ok_or_else(|| Error::shape("the room for a transform overflows"))?;
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|e| Error::out_of_memory(format!("room for a transform: {e}")))?;
    room.resize(count, Complex::zero());
    Ok(room)
}
