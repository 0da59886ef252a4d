//! Places of values in ascending sequences.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::search::{SearchSorted, Side};
use ubique_core::{DType, Element, Error, Result};

use super::copy::to_contiguous;
use super::dtype::for_element;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::contiguous;

/// Values searched for at once: while one waits for memory, the others go on.
const LANES: usize = 16;
/// Values looked at to see whether they are in order, too.
const BLOCK: usize = 1024;

/// For each value how many elements of its sequence stand before it.
pub fn search(context: &Context, op: &SearchSorted, sorted: &View, values: &View) -> Result<Buffer> {
    let (sorted, values) = (&to_contiguous(context, sorted)?, &to_contiguous(context, values)?);
    match op.dtype {
        DType::I32 => {
            for_element!(sorted.dtype, T => run::<T, i32>(context, op.side, sorted, values, |place| place as i32))
        }
        _ => for_element!(sorted.dtype, T => run::<T, i64>(context, op.side, sorted, values, |place| place as i64)),
    }
}

fn run<T: Element + PartialOrd, I: Element>(
    context: &Context,
    side: Side,
    sorted: &View,
    values: &View,
    index: fn(usize) -> I,
) -> Result<Buffer> {
    let dense = |view| contiguous::<T>(view)?.ok_or_else(|| Error::backend("a strided operand"));
    let (sequences, shared) = (dense(sorted)?, sorted.shape().rank() == 1);
    let values_of = dense(values)?;
    let count = sorted.shape().last().copied().unwrap_or(0);
    let each = if shared { values_of.len() } else { values.shape().last().copied().unwrap_or(0) };
    let mut out = UninitBuffer::<I>::new(&context.pool, values_of.len())?;
    context.threads.rows(out.as_mut_slice(), 1, GRAIN / 16, &|first, mut part| {
        let mut at = first;
        while !part.is_empty() {
            // As many as are left of a row of values.
            let len = part.len().min(each - at % each);
            let (now, rest) = std::mem::take(&mut part).split_at_mut(len);
            let line = Line::new(&sequences[at / each * count..][..count]);
            match side {
                Side::Left => line.search(&values_of[at..at + len], now, index, |element, value| element < value),
                Side::Right => line.search(&values_of[at..at + len], now, index, |element, value| element <= value),
            }
            (at, part) = (at + len, rest);
        }
    });
    // SAFETY: each value's place is written.
    Ok(unsafe { out.assume_init() })
}

/// An ascending sequence, with NaN at its end.
struct Line<'a, T> {
    sorted: &'a [T],
    /// The elements before the first NaN.
    numbers: usize,
}

impl<'a, T: Element + PartialOrd> Line<'a, T> {
    fn new(sorted: &'a [T]) -> Line<'a, T> {
        #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
        Line { sorted, numbers: sorted.partition_point(|x| x == x) }
    }

    fn search<I: Copy>(
        &self,
        values: &[T],
        target: &mut [MaybeUninit<I>],
        index: fn(usize) -> I,
        precedes: impl Fn(T, T) -> bool + Copy,
    ) {
        for (values, target) in values.chunks(BLOCK).zip(target.chunks_mut(BLOCK)) {
            if !self.walk(values, target, index, precedes) {
                self.jump(values, target, index, precedes);
            }
        }
    }

    /// Where a value belongs that is not a number; `None` for others.
    fn of_nan(&self, value: T, precedes: impl Fn(T, T) -> bool) -> Option<usize> {
        #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
        let number = value == value;
        // Before or behind the other NaNs, as for any equal elements: on the right side 0 precedes 0.
        let behind = precedes(T::default(), T::default());
        (!number).then_some(if behind { self.sorted.len() } else { self.numbers })
    }

    /// Values in ascending order that lie close together, by a walk along the sequence. Says whether they were.
    fn walk<I: Copy>(
        &self,
        values: &[T],
        target: &mut [MaybeUninit<I>],
        index: fn(usize) -> I,
        precedes: impl Fn(T, T) -> bool + Copy,
    ) -> bool {
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return true };
        let place = |value: T| self.sorted[..self.numbers].partition_point(|&element| precedes(element, value));
        if !values.is_sorted() || place(last) - place(first) > 4 * values.len() {
            return false;
        }
        let mut at = place(first);
        for (slot, &value) in target.iter_mut().zip(values) {
            while at < self.numbers && precedes(self.sorted[at], value) {
                at += 1;
            }
            slot.write(index(at));
        }
        true
    }

    /// Values in any order, by halving the sequence.
    fn jump<I: Copy>(
        &self,
        values: &[T],
        target: &mut [MaybeUninit<I>],
        index: fn(usize) -> I,
        precedes: impl Fn(T, T) -> bool + Copy,
    ) {
        let numbers = &self.sorted[..self.numbers];
        for (values, target) in values.chunks(LANES).zip(target.chunks_mut(LANES)) {
            let mut wanted = [values[0]; LANES];
            wanted[..values.len()].copy_from_slice(values);
            let (mut places, mut len) = ([0usize; LANES], numbers.len());
            while len > 1 {
                let half = len / 2;
                for (place, &value) in places.iter_mut().zip(&wanted) {
                    // SAFETY: `place + len` never exceeds the number of elements, and half is less than len.
                    let element = unsafe { *numbers.get_unchecked(*place + half - 1) };
                    *place += if precedes(element, value) { half } else { 0 };
                }
                len -= half;
            }
            for ((slot, &value), &place) in target.iter_mut().zip(values).zip(&places) {
                let last = numbers.get(place).is_some_and(|&element| precedes(element, value));
                slot.write(index(self.of_nan(value, precedes).unwrap_or(place + last as usize)));
            }
        }
    }
}
