//! Sorting along an axis, line by line. Equal elements keep their order, and NaN comes last either way.

use std::mem::MaybeUninit;

use ndarray::{ArrayView1, ArrayViewMut1, Axis};
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Outputs, View};
use ubique_core::op::sort::{Sort, TopK};
use ubique_core::{Error, Result, Scalar, TensorSpec};

use super::dtype::{Number, WithNumber, with_number};
use super::walk::target;
use crate::view::array;

/// Which elements of a line are wanted, in which order.
#[derive(Clone, Copy)]
struct Wanted {
    axis: usize,
    descending: bool,
    count: usize,
}

/// The elements of each line in order, and where they stood.
pub fn sort(pool: &HostPool, op: &Sort, x: &View, outputs: &[TensorSpec]) -> Result<Outputs> {
    let wanted = Wanted { axis: op.axis, descending: op.descending, count: x.shape()[op.axis] };
    with_number(x.dtype, Call { pool, wanted, x, outputs })
}

/// The first few of each line in order, and where they stood.
pub fn topk(pool: &HostPool, op: &TopK, x: &View, outputs: &[TensorSpec]) -> Result<Outputs> {
    let wanted = Wanted { axis: op.axis, descending: op.largest, count: op.k };
    with_number(x.dtype, Call { pool, wanted, x, outputs })
}

struct Call<'a> {
    pool: &'a HostPool,
    wanted: Wanted,
    x: &'a View,
    outputs: &'a [TensorSpec],
}

impl WithNumber for Call<'_> {
    type Output = Result<Outputs>;
    fn run<T: Number>(self) -> Result<Outputs> {
        let Call { pool, wanted, x, outputs } = self;
        let shape = &outputs[0].shape;
        let total = shape.elements()?;
        let mut values = UninitBuffer::<T>::new(pool, total)?;
        let mut places = UninitBuffer::<i64>::new(pool, total)?;
        if total > 0 {
            let (len, axis) = (x.shape()[wanted.axis], Axis(wanted.axis));
            let mut room: Vec<(u64, usize)> = Vec::new();
            room.try_reserve_exact(len)
                .map_err(|e| Error::out_of_memory(format!("room to sort {len} elements: {e}")))?;
            let (mut to, mut at) = (target(values.as_mut_slice(), shape)?, target(places.as_mut_slice(), shape)?);
            let x = array::<T>(x)?;
            let lanes = x.lanes(axis).into_iter().zip(to.lanes_mut(axis)).zip(at.lanes_mut(axis));
            lanes.for_each(|((x, to), at)| line(wanted, x, to, at, &mut room));
        }
        // SAFETY: every line is written, and is as long as the number of elements wanted.
        Ok(unsafe { Outputs::Many(vec![values.assume_init(), places.assume_init()]) })
    }
}

/// Sorts one line, in room for its elements.
fn line<T: Number>(
    wanted: Wanted,
    x: ArrayView1<'_, T>,
    to: ArrayViewMut1<'_, MaybeUninit<T>>,
    at: ArrayViewMut1<'_, MaybeUninit<i64>>,
    room: &mut Vec<(u64, usize)>,
) {
    room.clear();
    room.extend(x.iter().map(|x| key(x.to_scalar(), wanted.descending)).zip(0..));
    order(room, wanted.count);
    for ((to, at), &(_, place)) in to.into_iter().zip(at).zip(&*room) {
        to.write(x[place]);
        at.write(place as i64);
    }
}

/// Brings the `count` smallest keys to the front, in order. Places are distinct, so that an unstable sort is a stable one.
fn order(room: &mut Vec<(u64, usize)>, count: usize) {
    if count < room.len() {
        room.select_nth_unstable(count);
        room.truncate(count);
    }
    room.sort_unstable();
}

/// A number that is ordered as the elements are: one sort serves all dtypes.
fn key(x: Scalar, descending: bool) -> u64 {
    const SIGN: u64 = 1 << 63;
    let ascending = match x {
        Scalar::Float(x) if x.is_nan() => return u64::MAX,
        // Both zeros are equal. Of negative floats the larger bits are the smaller number.
        Scalar::Float(x) => match (x + 0.0).to_bits() {
            bits if bits & SIGN == 0 => bits | SIGN,
            bits => !bits,
        },
        Scalar::Int(x) => x as u64 ^ SIGN,
        Scalar::UInt(x) => x,
        Scalar::Bool(x) => x.into(),
    };
    if descending { !ascending } else { ascending }
}
