//! Walks over operands of any layout, lane by lane, for all element-wise kernels. Kernels see slices: lanes with strides are
//! staged in a block of the nearest cache, so that each kernel is one loop, and the walk is compiled once a type.

use std::mem::MaybeUninit;

use bytemuck::Pod;
use ndarray::{ArrayView1, ArrayViewMut1, ArrayViewMutD, Axis, IxDyn, Zip};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::{Error, Layout, Result, Shape};

use super::dtype::Pattern;
use crate::view::{contiguous, elements, strided};

/// Elements of an operand that a kernel sees at a time.
#[derive(Clone, Copy)]
pub enum Lane<'a, T> {
    /// One after the other.
    Slice(&'a [T]),
    /// The same one all along.
    Scalar(T),
}

/// Elements to be written.
pub type Target<'a, T> = &'a mut [MaybeUninit<T>];

/// Maps a slice; initialises all of the target, which is as long.
pub type Map<'k, A, B> = dyn Fn(&[A], Target<'_, B>) + 'k;

/// Maps two lanes; initialises all of the target, which is as long.
pub type Pair<'k, A, B> = dyn Fn(Lane<'_, A>, Lane<'_, A>, Target<'_, B>) + 'k;

/// A kernel of one operand as one of bit patterns.
pub fn map_bits<A: Pattern, B: Pattern>(
    kernel: impl Fn(&[A], Target<'_, B>),
) -> impl Fn(&[A::Bits], Target<'_, B::Bits>) {
    move |x, target| kernel(bytemuck::cast_slice(x), typed(target))
}

/// A kernel of two operands as one of bit patterns.
pub fn pair_bits<A: Pattern, B: Pattern>(
    kernel: fn(Lane<'_, A>, Lane<'_, A>, Target<'_, B>),
) -> impl Fn(Lane<'_, A::Bits>, Lane<'_, A::Bits>, Target<'_, B::Bits>) {
    fn lane<A: Pattern>(lane: Lane<'_, A::Bits>) -> Lane<'_, A> {
        match lane {
            Lane::Slice(slice) => Lane::Slice(bytemuck::cast_slice(slice)),
            Lane::Scalar(bits) => Lane::Scalar(bytemuck::cast(bits)),
        }
    }
    move |a, b, target| kernel(lane(a), lane(b), typed(target))
}

/// Elements to be written, from the bit patterns that they are.
fn typed<T: Pattern>(target: Target<'_, T::Bits>) -> Target<'_, T> {
    const { assert!(size_of::<T>() == size_of::<T::Bits>() && align_of::<T>() == align_of::<T::Bits>()) };
    // SAFETY: of the same size and alignment, and any bits are a value of either.
    unsafe { &mut *(target as *mut [MaybeUninit<T::Bits>] as *mut [MaybeUninit<T>]) }
}

/// Bit patterns to be written, of elements.
pub fn untyped<T: Pattern>(target: Target<'_, T>) -> Target<'_, T::Bits> {
    const { assert!(size_of::<T>() == size_of::<T::Bits>() && align_of::<T>() == align_of::<T::Bits>()) };
    // SAFETY: as above.
    unsafe { &mut *(target as *mut [MaybeUninit<T>] as *mut [MaybeUninit<T::Bits>]) }
}

/// A kernel that maps elements one by one.
#[inline(always)]
pub fn each<A: Copy, B>(x: &[A], target: Target<'_, B>, f: impl Fn(A) -> B) {
    target.iter_mut().zip(x).for_each(|(slot, &x)| {
        slot.write(f(x));
    });
}

#[inline(always)]
fn pairs<A: Copy, B>(a: &[A], b: &[A], target: Target<'_, B>, f: impl Fn(A, A) -> B) {
    target.iter_mut().zip(a).zip(b).for_each(|((slot, &a), &b)| {
        slot.write(f(a, b));
    });
}

/// A kernel that maps pairs of elements one by one.
#[inline(always)]
pub fn both<A: Copy, B: Copy>(a: Lane<'_, A>, b: Lane<'_, A>, target: Target<'_, B>, f: impl Fn(A, A) -> B) {
    match (a, b) {
        (Lane::Slice(a), Lane::Slice(b)) => pairs(a, b, target, f),
        (Lane::Slice(a), Lane::Scalar(b)) => each(a, target, |a| f(a, b)),
        (Lane::Scalar(a), Lane::Slice(b)) => each(b, target, |b| f(a, b)),
        (Lane::Scalar(a), Lane::Scalar(b)) => target.fill(MaybeUninit::new(f(a, b))),
    }
}

/// As [`both`], for functions whose operands may change places: a loop less to build.
#[inline(always)]
pub fn both_commutative<A: Copy, B: Copy>(
    a: Lane<'_, A>,
    b: Lane<'_, A>,
    target: Target<'_, B>,
    f: impl Fn(A, A) -> B,
) {
    match (a, b) {
        (Lane::Slice(a), Lane::Slice(b)) => pairs(a, b, target, f),
        (Lane::Slice(x), Lane::Scalar(y)) | (Lane::Scalar(y), Lane::Slice(x)) => each(x, target, |x| f(x, y)),
        (Lane::Scalar(a), Lane::Scalar(b)) => target.fill(MaybeUninit::new(f(a, b))),
    }
}

/// As [`both`], for functions so slow that a choice for each element costs nothing: one loop to build instead of three.
#[inline(always)]
pub fn both_slow<A: Copy, B>(a: Lane<'_, A>, b: Lane<'_, A>, target: Target<'_, B>, f: impl Fn(A, A) -> B) {
    let at = |lane: Lane<'_, A>, i: usize| match lane {
        Lane::Slice(slice) => slice[i],
        Lane::Scalar(x) => x,
    };
    target.iter_mut().enumerate().for_each(|(i, slot)| {
        slot.write(f(at(a, i), at(b, i)));
    });
}

/// Elements that are copied aside at a time.
pub const BLOCK: usize = 1024;

/// Lanes shorter than this are not worth their overhead, where another axis has longer ones.
pub const SHORT: usize = 16;

/// Room for a block of elements.
pub struct Room<T>([T; BLOCK]);

impl<T: Pod> Room<T> {
    /// Room with nothing in it yet.
    pub fn new() -> Room<T> {
        Room([T::zeroed(); BLOCK])
    }

    /// A lane of at most [`BLOCK`] elements as a slice: its own, or a copy.
    pub fn stage<'a>(&'a mut self, lane: &'a ArrayView1<'_, T>) -> &'a [T] {
        match lane.as_slice() {
            Some(slice) => slice,
            None => {
                let room = &mut self.0[..lane.len()];
                room.iter_mut().zip(lane).for_each(|(slot, &x)| *slot = x);
                room
            }
        }
    }
}

/// Has a lane of at most [`BLOCK`] elements written as a slice. `fill` initialises all that it is given.
pub fn write<T: Pod>(
    room: &mut Room<T>,
    mut target: ArrayViewMut1<'_, MaybeUninit<T>>,
    fill: impl FnOnce(Target<'_, T>),
) {
    if let Some(slice) = target.as_slice_mut() {
        return fill(slice);
    }
    let room = &mut room.0[..target.len()];
    fill(as_target(room));
    target.iter_mut().zip(room).for_each(|(slot, x)| {
        slot.write(*x);
    });
}

/// The axis to walk along: the innermost, or, where that is short, the longest.
fn lane_axis(extents: &[usize]) -> Axis {
    let last = extents.len().saturating_sub(1);
    match extents.last() {
        Some(&extent) if extent >= SHORT => Axis(last),
        // Of equally long ones the innermost.
        _ => Axis((0..extents.len()).max_by_key(|&axis| extents[axis]).unwrap_or(last)),
    }
}

/// The joined extents of layouts of one shape, of which one is a row-major result's: at least one axis.
pub fn collapse<const N: usize>(layouts: [&Layout; N]) -> (Vec<usize>, [Vec<isize>; N]) {
    let (mut extents, mut strides) = Layout::collapse(layouts);
    if extents.is_empty() {
        extents.push(1);
        strides.iter_mut().for_each(|s| s.push(1));
    }
    (extents, strides)
}

/// A row-major result as an array.
pub fn target<'a, T>(slice: &'a mut [MaybeUninit<T>], extents: &[usize]) -> Result<ArrayViewMutD<'a, MaybeUninit<T>>> {
    ArrayViewMutD::from_shape(IxDyn(extents), slice)
        .map_err(|e| Error::backend(format!("no result has extents {extents:?}: {e}")))
}

/// Maps an operand of any layout to a new buffer.
pub fn map<A: Pod, B: Pod>(pool: &HostPool, x: &View, kernel: &Map<'_, A, B>) -> Result<Buffer> {
    let mut out = UninitBuffer::<B>::new(pool, x.layout.elements())?;
    match contiguous::<A>(x)? {
        Some(slice) => kernel(slice, out.as_mut_slice()),
        None => {
            let (extents, [strides, _]) = collapse([&x.layout, &Layout::contiguous(x.shape().clone())]);
            let x = strided(elements::<A>(x)?, &extents, &strides, x.layout.offset())?;
            let (axis, mut target) = (lane_axis(&extents), target(out.as_mut_slice(), &extents)?);
            let (mut room, mut result) = (Room::new(), Room::new());
            Zip::from(x.lanes(axis)).and(target.lanes_mut(axis)).for_each(|x, mut target| {
                let blocks = x.axis_chunks_iter(Axis(0), BLOCK).zip(target.axis_chunks_iter_mut(Axis(0), BLOCK));
                blocks.for_each(|(x, target)| write(&mut result, target, |target| kernel(room.stage(&x), target)));
            });
        }
    }
    // SAFETY: the kernel is called for every part of the result, and initialises what it is given.
    Ok(unsafe { out.assume_init() })
}

/// Maps two operands, which broadcast to `shape`, to a new buffer.
pub fn zip<A: Pod, B: Pod>(
    pool: &HostPool,
    a: &View,
    b: &View,
    shape: &Shape,
    kernel: &Pair<'_, A, B>,
) -> Result<Buffer> {
    let mut out = UninitBuffer::<B>::new(pool, shape.elements()?)?;
    if a.shape() == b.shape()
        && let (Some(a), Some(b)) = (contiguous::<A>(a)?, contiguous::<A>(b)?)
    {
        kernel(Lane::Slice(a), Lane::Slice(b), out.as_mut_slice());
    } else if shape.elements()? > 0 {
        let layouts = (a.layout.expand(shape)?, b.layout.expand(shape)?);
        let (extents, [left, right, _]) = collapse([&layouts.0, &layouts.1, &Layout::contiguous(shape.clone())]);
        let axis = lane_axis(&extents);
        let same = (left[axis.index()] == 0, right[axis.index()] == 0);
        let a = strided(elements::<A>(a)?, &extents, &left, a.layout.offset())?;
        let b = strided(elements::<A>(b)?, &extents, &right, b.layout.offset())?;
        let mut target = target(out.as_mut_slice(), &extents)?;
        let (mut rooms, mut result) = ((Room::new(), Room::new()), Room::new());
        Zip::from(a.lanes(axis)).and(b.lanes(axis)).and(target.lanes_mut(axis)).for_each(|a, b, mut target| {
            let blocks = a.axis_chunks_iter(Axis(0), BLOCK).zip(b.axis_chunks_iter(Axis(0), BLOCK));
            blocks.zip(target.axis_chunks_iter_mut(Axis(0), BLOCK)).for_each(|((a, b), target)| {
                let (a, b) = (lane(&a, same.0, &mut rooms.0), lane(&b, same.1, &mut rooms.1));
                write(&mut result, target, |target| kernel(a, b, target));
            });
        });
    }
    // SAFETY: the kernel is called for every part of the result, and initialises what it is given.
    Ok(unsafe { out.assume_init() })
}

/// A lane, or its one element where it stays the same.
fn lane<'a, T: Pod>(lane: &'a ArrayView1<'_, T>, same: bool, room: &'a mut Room<T>) -> Lane<'a, T> {
    match lane.first() {
        Some(&first) if same => Lane::Scalar(first),
        _ => Lane::Slice(room.stage(lane)),
    }
}

/// As [`map`], with a scalar as the second operand, or, where `reversed`, as the first.
pub fn with_scalar<A: Pod, B: Pod>(
    pool: &HostPool,
    x: &View,
    scalar: A,
    reversed: bool,
    kernel: &Pair<'_, A, B>,
) -> Result<Buffer> {
    map(pool, x, &|x: &[A], target: Target<'_, B>| match reversed {
        false => kernel(Lane::Slice(x), Lane::Scalar(scalar), target),
        true => kernel(Lane::Scalar(scalar), Lane::Slice(x), target),
    })
}

/// Maps a slice in place.
pub fn map_in_place<T: Pod>(data: &mut [T], kernel: &Map<'_, T, T>) {
    let mut block = [T::zeroed(); BLOCK];
    for piece in data.chunks_mut(BLOCK) {
        let source = &mut block[..piece.len()];
        source.copy_from_slice(piece);
        kernel(source, as_target(piece));
    }
}

/// Maps a slice and another operand in place of the slice; where `reversed`, the slice is the second operand.
pub fn zip_in_place<T: Pod>(data: &mut [T], other: Lane<'_, T>, reversed: bool, kernel: &Pair<'_, T, T>) {
    let mut block = [T::zeroed(); BLOCK];
    for (number, piece) in data.chunks_mut(BLOCK).enumerate() {
        let source = &mut block[..piece.len()];
        source.copy_from_slice(piece);
        let own = Lane::Slice(&*source);
        let other = match other {
            Lane::Slice(slice) => Lane::Slice(&slice[number * BLOCK..][..piece.len()]),
            scalar => scalar,
        };
        let (a, b) = if reversed { (other, own) } else { (own, other) };
        kernel(a, b, as_target(piece));
    }
}

/// A slice as one to be written anew.
fn as_target<T: Pod>(slice: &mut [T]) -> Target<'_, T> {
    // SAFETY: MaybeUninit<T> has the layout of T, and kernels initialise all of their target.
    unsafe { &mut *(slice as *mut [T] as *mut [MaybeUninit<T>]) }
}
