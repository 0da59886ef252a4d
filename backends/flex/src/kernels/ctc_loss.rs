//! Connectionist temporal classification and its gradient: the forward-backward algorithm on logarithms, one example a
//! thread.
//!
//! Each row of logarithms is kept relative to its largest, whose sum over time is f64: long sequences lose no digits.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::ctc_loss::{CtcLoss, check_length};
use ubique_core::op::index::check_index;
use ubique_core::{DType, Error, Result};

use super::fused::{converted, floats};
use crate::executor::Context;
use crate::memory::{self, Shared};
use crate::simd::math::{exp, ln};
use crate::simd::{Isa, Kernel, vectorize};

/// States beyond either end of a row, which nothing reaches.
const MARGIN: usize = 2;

/// The operands, checked.
struct Batch<'a> {
    log_p: &'a [f32],
    steps: usize,
    classes: usize,
    examples: Vec<Example>,
    /// States of the longest example, with the margin.
    width: usize,
}

/// One sequence of labels to align.
struct Example {
    /// Its place in the batch.
    number: usize,
    /// How many times count.
    steps: usize,
    /// The class of each state: blanks and labels in turn.
    labels: Vec<usize>,
    /// For each state 0 where it can be reached over the blank before it, else -∞; then the margin.
    skip: Vec<f32>,
}

impl<'a> Batch<'a> {
    fn new(context: &Context, op: &CtcLoss, views: &'a [View]) -> Result<Batch<'a>> {
        let (shape, longest) = (views[0].shape(), views[1].shape()[1]);
        let (steps, batch, classes) = (shape[0], shape[1], shape[2]);
        let wide = [1, 2, 3].map(|i| converted(context, &views[i], DType::I64));
        let [targets, input_lengths, target_lengths] = &wide;
        let read = |view: &'_ Result<View>| -> Result<Vec<i64>> {
            let view = view.as_ref().map_err(Clone::clone)?;
            let values = memory::contiguous::<i64>(view)?;
            Ok(values.ok_or_else(|| Error::backend("a strided operand"))?.to_vec())
        };
        let (targets, lengths) = (read(targets)?, read(input_lengths)?.into_iter().zip(read(target_lengths)?));
        let example = |(number, (input, target)): (usize, (i64, i64))| {
            let target = check_length("target", target.into(), longest)?;
            let mut labels = vec![op.blank];
            for &class in &targets[number * longest..][..target] {
                labels.extend([check_index(class.into(), classes)?, op.blank]);
            }
            let reached = |state: usize| state >= 2 && labels[state] != labels[state - 2];
            let skip = (0..labels.len() + MARGIN)
                .map(|s| if s < labels.len() && reached(s) { 0.0 } else { f32::NEG_INFINITY });
            Ok(Example { number, steps: check_length("input", input.into(), steps)?, skip: skip.collect(), labels })
        };
        let examples = lengths.enumerate().map(example).collect::<Result<Vec<_>>>()?;
        debug_assert_eq!(examples.len(), batch);
        let width = examples.iter().map(|e| e.labels.len()).max().unwrap_or(0) + MARGIN;
        Ok(Batch { log_p: floats(&views[0])?, steps, classes, examples, width })
    }

    /// The log probabilities of an example at a time.
    fn row(&self, time: usize, number: usize) -> &'a [f32] {
        &self.log_p[(time * self.examples.len() + number) * self.classes..][..self.classes]
    }

    /// Calls `f` with each example and room for `rows` rows of states, several examples at once.
    fn each(&self, context: &Context, rows: usize, f: &(dyn Fn(&Example, &mut [f32]) + Sync)) -> Result<()> {
        let slots = context.threads.count().min(self.examples.len());
        if slots == 0 {
            return Ok(());
        }
        let size = self.width.checked_mul(rows);
        let size = size.ok_or_else(|| Error::out_of_memory("the alignments are too many to count"))?;
        let mut room = UninitBuffer::<f32>::new(&context.pool, size.saturating_mul(slots))?;
        let mut rooms: Vec<&mut [f32]> = room.fill(f32::NEG_INFINITY).chunks_mut(size).collect();
        context.threads.rows(&mut rooms, 1, 1, &|first, rooms| {
            for (i, room) in rooms.iter_mut().enumerate() {
                self.examples.iter().skip(first + i).step_by(slots).for_each(|example| f(example, room));
            }
        });
        Ok(())
    }
}

/// log(eᵃ + eᵇ + eᶜ).
#[inline(always)]
fn log_sum<S: Isa>(a: f32, b: f32, c: f32) -> f32 {
    let largest = if a > b { a } else { b };
    let largest = if largest > c { largest } else { c };
    // Of nothing but -∞ the differences would be NaN.
    let shift = if largest == f32::NEG_INFINITY { 0.0 } else { largest };
    shift + ln::<S>(exp::<S>(a - shift) + exp::<S>(b - shift) + exp::<S>(c - shift))
}

/// Makes a row relative to its largest value, and gives that one.
#[inline(always)]
fn relative(row: &mut [f32]) -> f64 {
    let largest = row.iter().fold(f32::NEG_INFINITY, |largest, &x| if x > largest { x } else { largest });
    if !largest.is_finite() {
        return 0.0;
    }
    row.iter_mut().for_each(|x| *x -= largest);
    largest as f64
}

/// For each number of steps the logarithms of all ways from the start to each state, behind a margin; and what they are
/// relative to.
struct Forward<'a> {
    batch: &'a Batch<'a>,
    example: &'a Example,
    rows: &'a mut [f32],
    offsets: &'a mut [f64],
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Forward { batch, example, rows, offsets } = self;
        let states = example.labels.len();
        let width = states + MARGIN;
        rows[..width].fill(f32::NEG_INFINITY);
        rows[MARGIN] = 0.0;
        offsets[0] = 0.0;
        for time in 0..example.steps {
            let (before, after) = rows[time * width..].split_at_mut(width);
            let (margin, next) = after[..width].split_at_mut(MARGIN);
            margin.fill(f32::NEG_INFINITY);
            let emitted = batch.row(time, example.number);
            for (slot, &label) in next.iter_mut().zip(&example.labels) {
                *slot = emitted[label];
            }
            let (stay, step, skip) = (&before[2..][..states], &before[1..][..states], &before[..states]);
            let (next, open) = (&mut next[..states], &example.skip[..states]);
            for s in 0..states {
                next[s] += log_sum::<S>(stay[s], step[s], skip[s] + open[s]);
            }
            offsets[time + 1] = offsets[time] + relative(next);
        }
    }
}

/// The log probability of all alignments.
fn total(example: &Example, rows: &[f32], offsets: &[f64]) -> f64 {
    let width = example.labels.len() + MARGIN;
    let last = &rows[example.steps * width..][..width];
    // The last label and the blank after it; of no labels the margin, which is -∞.
    let ends = [last[width - 1], last[width - 2]].map(f64::from);
    let largest = f64::max(ends[0], ends[1]);
    let shift = if largest.is_finite() { largest } else { 0.0 };
    offsets[example.steps] + shift + ends.iter().map(|end| (end - shift).exp()).sum::<f64>().ln()
}

/// The loss of each example.
pub fn forward(context: &Context, op: &CtcLoss, views: &[View]) -> Result<Buffer> {
    let batch = Batch::new(context, op, views)?;
    let mut out = UninitBuffer::<f32>::new(&context.pool, batch.examples.len())?;
    let losses = Shared::new(out.as_mut_slice());
    batch.each(context, batch.steps + 1, &|example, rows| {
        let mut offsets = vec![0.0; example.steps + 1];
        vectorize(Forward { batch: &batch, example, rows, offsets: &mut offsets });
        let total = total(example, rows, &offsets);
        let impossible = if op.zero_infinity { 0.0 } else { f32::INFINITY };
        let loss = if total == f64::NEG_INFINITY { impossible } else { -total as f32 };
        // SAFETY: each example is one thread's.
        unsafe { losses.write(example.number, loss) };
    })?;
    // SAFETY: `each` comes to every example.
    Ok(unsafe { out.assume_init() })
}

/// The rows of [`Forward`] made into the probabilities of the states among all alignments, from the last time to the first,
/// and those handed over as gradients.
struct Backward<'a, F> {
    batch: &'a Batch<'a>,
    example: &'a Example,
    rows: &'a mut [f32],
    /// Room for two rows of states.
    ways: [&'a mut [f32]; 2],
    offsets: &'a [f64],
    total: f64,
    /// Takes the number of a time, and the probability of each state then.
    give: F,
}

impl<F: FnMut(usize, &[f32])> Kernel for Backward<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Backward { batch, example, rows, ways: [ways, next], offsets, total, mut give } = self;
        let states = example.labels.len();
        let width = states + MARGIN;
        let (ways, next) = (&mut ways[..width], &mut next[..width]);
        ways.fill(f32::NEG_INFINITY);
        next.fill(f32::NEG_INFINITY);
        ways[states.saturating_sub(2)..states].fill(0.0);
        let mut offset = 0.0;
        for time in (0..example.steps).rev() {
            let shares = &mut rows[(time + 1) * width + MARGIN..][..states];
            let scale = (offsets[time + 1] + offset - total) as f32;
            for (share, &after) in shares.iter_mut().zip(&*ways) {
                *share = exp::<S>(*share + after + scale);
            }
            give(time, shares);
            let emitted = batch.row(time, example.number);
            for ((next, &way), &label) in next.iter_mut().zip(&*ways).zip(&example.labels) {
                *next = way + emitted[label];
            }
            let (stay, step, skip) = (&next[..states], &next[1..][..states], &next[2..][..states]);
            let (ways, open) = (&mut ways[..states], &example.skip[2..][..states]);
            for s in 0..states {
                ways[s] = log_sum::<S>(stay[s], step[s], skip[s] + open[s]);
            }
            offset += relative(ways);
        }
    }
}

/// The gradient of the log probabilities; the last operand is that of the losses.
pub fn backward(context: &Context, op: &CtcLoss, views: &[View]) -> Result<Buffer> {
    let batch = Batch::new(context, op, views)?;
    let g = floats(&views[4])?;
    let mut out = UninitBuffer::<f32>::new(&context.pool, batch.log_p.len())?;
    let target = Shared::new(out.as_mut_slice());
    batch.each(context, batch.steps + 3, &|example, room| {
        let (room, spare) = room.split_at_mut((batch.steps + 1) * batch.width);
        let (ways, next) = spare.split_at_mut(batch.width);
        let row = |time: usize, fill: f32| -> &mut [f32] {
            let start = (time * batch.examples.len() + example.number) * batch.classes;
            // SAFETY: the rows of each example are one thread's, which holds one at a time.
            filled(unsafe { target.part(start..start + batch.classes) }, fill)
        };
        let mut offsets = vec![0.0; example.steps + 1];
        vectorize(Forward { batch: &batch, example, rows: room, offsets: &mut offsets });
        let total = total(example, room, &offsets);
        let impossible = if op.zero_infinity { 0.0 } else { f32::NAN };
        if total == f64::NEG_INFINITY {
            for time in 0..batch.steps {
                row(time, impossible);
            }
            return;
        }
        for time in example.steps..batch.steps {
            row(time, 0.0);
        }
        let g = g[example.number];
        let give = |time: usize, shares: &[f32]| {
            let row = row(time, 0.0);
            for (&label, share) in example.labels.iter().zip(shares) {
                row[label] -= g * share;
            }
        };
        vectorize(Backward { batch: &batch, example, rows: room, ways: [ways, next], offsets: &offsets, total, give });
    })?;
    // SAFETY: every row of every example is filled.
    Ok(unsafe { out.assume_init() })
}

fn filled(slots: &mut [MaybeUninit<f32>], value: f32) -> &mut [f32] {
    slots.fill(MaybeUninit::new(value));
    // SAFETY: filled above.
    unsafe { slots.assume_init_mut() }
}
