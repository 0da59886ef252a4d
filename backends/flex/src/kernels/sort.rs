//! Sorting along an axis: each element becomes an integer key whose order is the wanted one, and keys are sorted.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::sort::{Sort, TopK};
use ubique_core::{Element, Error, Result, TensorSpec};

use super::dtype::for_element;
use super::lines::Lines;
use super::radix::{self, Packed};
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::{Shared, elements};
use crate::threads::Threads;

/// An element type that sorts by an integer key.
trait Sortable: Element {
    /// Key and place in one: 32 bits of each, or 64.
    type Packed: Packed;
    /// The key in ascending order: equal for equal elements. That of NaN does not matter.
    fn key(self) -> <Self::Packed as Packed>::Key;
}

/// A row an element type: its packed form, and its key.
macro_rules! sortable {
    ($($ty:ty, $packed:ty: |$x:ident| $key:expr;)*) => {$(
        impl Sortable for $ty {
            type Packed = $packed;
            #[inline(always)]
            fn key(self) -> <$packed as Packed>::Key { let $x = self; $key }
        }
    )*};
}

/// Bits in the order of the floats: negative ones are flipped whole, others get the sign bit. Adding 0 makes -0 into 0.
#[inline(always)]
fn float_key(x: f32) -> u32 {
    let bits = (x + 0.0).to_bits();
    bits ^ ((bits as i32 >> 31) as u32 | 1 << 31)
}

#[inline(always)]
fn double_key(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

sortable! {
    f64, u128: |x| double_key(x);
    f32, u64: |x| float_key(x);
    f16, u64: |x| float_key(x.to_f32());
    bf16, u64: |x| float_key(x.to_f32());
    i64, u128: |x| x as u64 ^ 1 << 63;
    i32, u64: |x| x as u32 ^ 1 << 31;
    i16, u64: |x| x as i32 as u32 ^ 1 << 31;
    i8, u64: |x| x as i32 as u32 ^ 1 << 31;
    u64, u128: |x| x;
    u32, u64: |x| x;
    u16, u64: |x| x as u32;
    u8, u64: |x| x as u32;
    bool, u64: |x| x as u32;
}

/// Which elements of a line are wanted, in which order.
#[derive(Clone, Copy)]
struct Wanted {
    axis: usize,
    descending: bool,
    count: usize,
}

/// The elements of each line in order, and where they stood.
pub fn sort(context: &Context, op: &Sort, x: &View, outputs: &[TensorSpec]) -> Result<Vec<Buffer>> {
    order(context, Wanted { axis: op.axis, descending: op.descending, count: x.shape()[op.axis] }, x, outputs)
}

/// The first few of each line in order, and where they stood.
pub fn topk(context: &Context, op: &TopK, x: &View, outputs: &[TensorSpec]) -> Result<Vec<Buffer>> {
    order(context, Wanted { axis: op.axis, descending: op.largest, count: op.k }, x, outputs)
}

fn order(context: &Context, wanted: Wanted, x: &View, outputs: &[TensorSpec]) -> Result<Vec<Buffer>> {
    for_element!(x.dtype, T => run::<T>(context, wanted, x, outputs))
}

fn run<T: Sortable>(context: &Context, wanted: Wanted, x: &View, outputs: &[TensorSpec]) -> Result<Vec<Buffer>> {
    let from = Lines::new(&x.layout, wanted.axis);
    let total = outputs[0].shape.elements()?;
    let mut values = UninitBuffer::<T>::new(&context.pool, total)?;
    let mut places = UninitBuffer::<i64>::new(&context.pool, total)?;
    if from.len > T::Packed::LONGEST {
        return Err(Error::backend(format!("a line of {} elements is too long to sort", from.len)));
    }
    if total > 0 {
        let to = Lines::of_shape(&outputs[0].shape, wanted.axis);
        let (values, places) = (Shared::new(values.as_mut_slice()), Shared::new(places.as_mut_slice()));
        let job = Job { data: elements::<T>(x)?, from, to, wanted, values, places };
        job.run(&context.threads)?;
    }
    // SAFETY: all lines were written, and a line of the outputs is as long as the number of elements wanted.
    Ok(unsafe { vec![values.assume_init(), places.assume_init()] })
}

/// Lines to sort, and where the results go.
struct Job<'a, T> {
    data: &'a [T],
    from: Lines,
    to: Lines,
    wanted: Wanted,
    values: Shared<'a, MaybeUninit<T>>,
    places: Shared<'a, MaybeUninit<i64>>,
}

impl<T: Sortable> Job<'_, T> {
    fn run(&self, threads: &Threads) -> Result<()> {
        let (count, len) = (self.from.count, self.from.len);
        if count < threads.count() {
            // Several threads on each line.
            let mut room = radix::room(len, 2)?;
            (0..count).for_each(|number| {
                self.line(number, &mut room, |keys, spare| radix::sort_parallel(threads, keys, spare))
            });
            return Ok(());
        }
        // Lines side by side, each thread with room of its own.
        let slots = if count * len < GRAIN { 1 } else { threads.count() };
        let mut room = radix::room(len, 2 * slots)?;
        let mut rooms: Vec<&mut [T::Packed]> = room.chunks_mut(2 * len).collect();
        let share = count.div_ceil(slots);
        threads.rows(&mut rooms, 1, 1, &|first, rooms| {
            for (i, room) in rooms.iter_mut().enumerate() {
                let numbers = (first + i) * share..((first + i + 1) * share).min(count);
                numbers.for_each(|number| self.line(number, room, radix::sort));
            }
        });
        Ok(())
    }

    /// Sorts one line in room for its keys and as many more.
    fn line(&self, number: usize, room: &mut [T::Packed], sort: impl Fn(&mut [T::Packed], &mut [T::Packed])) {
        let (mut keys, spare) = room.split_at_mut(self.from.len);
        for (place, (slot, value)) in keys.iter_mut().zip(self.from.line(self.data, number)).enumerate() {
            let key = if self.wanted.descending { !value.key() } else { value.key() };
            // Only NaN differs from itself.
            #[allow(clippy::eq_op)]
            let last = value != value;
            *slot = T::Packed::pack(if last { T::Packed::LAST } else { key }, place);
        }
        let count = self.wanted.count;
        if count < keys.len() {
            keys.select_nth_unstable(count);
            keys = &mut keys[..count];
        }
        sort(keys, &mut spare[..count]);
        let (source, target) = (self.from.start(number), self.to.start(number));
        for (rank, packed) in keys.iter().enumerate() {
            let (place, at) = (packed.place(), (target + rank as isize * self.to.stride) as usize);
            let value = self.data[(source + place as isize * self.from.stride) as usize];
            // SAFETY: each line of the outputs is written by one thread.
            unsafe {
                self.values.write(at, value);
                self.places.write(at, place as i64);
            }
        }
    }
}
