//! Elements taken from and put to places that an index names.

use std::mem::MaybeUninit;

use bytemuck::Pod;
use ndarray::{ArrayView1, ArrayViewD, ArrayViewMutD, Axis, IxDyn, Slice, Zip};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::index::{Combine, Gather, IndexAdd, IndexSelect, Scatter, check_index};
use ubique_core::{DType, Element, Error, Result, TensorSpec};

use super::copy::copy;
use super::dtype::{Bits, Int, Pattern, Real, WithBits, WithInt, with_bits, with_int};
use super::reduce::{larger, smaller};
use super::walk::{target, untyped};
use crate::view::array;

/// The index's values in row-major order, checked against the extent that they point into.
fn indices(index: &View, extent: usize) -> Result<Vec<usize>> {
    fn read<T: Element + Pod + Into<i128>>(index: &View, extent: usize) -> Result<Vec<usize>> {
        array::<T>(index)?.iter().map(|&i| check_index(i.into(), extent)).collect()
    }
    match index.dtype {
        _ if index.layout.elements() == 0 => Ok(Vec::new()),
        DType::I64 => read::<i64>(index, extent),
        DType::I32 => read::<i32>(index, extent),
        DType::U32 => read::<u32>(index, extent),
        other => Err(Error::backend(format!("an index of {other}"))),
    }
}

fn no_array(why: impl std::fmt::Display) -> Error {
    Error::backend(format!("an operand is no array: {why}"))
}

/// The index as an array of its own shape.
fn places<'a>(places: &'a [usize], index: &View) -> Result<ArrayViewD<'a, usize>> {
    ArrayViewD::from_shape(IxDyn(index.shape()), places).map_err(no_array)
}

/// The part of an array that an index may point into: along the axis all of it, along the others as much as the index has.
fn reach(array: &mut ArrayViewD<'_, impl Copy>, axis: usize, extents: &[usize]) {
    for (other, &extent) in extents.iter().enumerate().filter(|(other, _)| *other != axis) {
        array.slice_axis_inplace(Axis(other), Slice::from(..extent));
    }
}

/// Elements by index.
pub fn gather(pool: &HostPool, op: &Gather, x: &View, index: &View) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, usize, &'a View, &'a View, Vec<usize>);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Go(pool, axis, x, index, values) = self;
            let mut out = UninitBuffer::<B>::new(pool, values.len())?;
            if !values.is_empty() {
                let mut x = array::<B>(x)?;
                reach(&mut x, axis, index.shape());
                let mut target = target(out.as_mut_slice(), index.shape())?;
                let (index, axis) = (places(&values, index)?, Axis(axis));
                let lanes = Zip::from(target.lanes_mut(axis)).and(index.lanes(axis)).and(x.lanes(axis));
                lanes.for_each(|target, index, x| {
                    Zip::from(index).map_assign_into(target, |&place| x[place]);
                });
            }
            // SAFETY: the walk writes every element of the result.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(x.dtype, Go(pool, op.axis, x, index, indices(index, x.shape()[op.axis])?))
}

/// Whole slices by index.
pub fn index_select(pool: &HostPool, op: &IndexSelect, x: &View, index: &View, out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, usize, &'a View, Vec<usize>, &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Go(pool, axis, x, places, spec) = self;
            let mut out = UninitBuffer::<B>::new(pool, spec.shape.elements()?)?;
            if spec.shape.elements()? > 0 {
                take(array::<B>(x)?, Axis(axis), &places, target(out.as_mut_slice(), &spec.shape)?);
            }
            // SAFETY: the slices cover the result.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(x.dtype, Go(pool, op.axis, x, indices(index, x.shape()[op.axis])?, out))
}

/// Slices of an array along an axis, one for each place; initialises all of the target.
pub fn take<B: Copy>(
    x: ArrayViewD<'_, B>,
    axis: Axis,
    places: &[usize],
    mut target: ArrayViewMutD<'_, MaybeUninit<B>>,
) {
    if axis.index() + 1 == x.ndim() {
        // Neighbours in memory are neighbours along the axis.
        let places = ArrayView1::from(places);
        Zip::from(target.lanes_mut(axis)).and(x.lanes(axis)).for_each(|target, x| {
            Zip::from(places).map_assign_into(target, |&place| x[place]);
        });
        return;
    }
    for (target, &place) in target.axis_iter_mut(axis).zip(places) {
        x.index_axis(axis, place).assign_to(target);
    }
}

/// How elements meet.
type Meet<T> = fn(T, T) -> T;

/// `x` with the source's elements put to places by index.
pub fn scatter(pool: &HostPool, op: &Scatter, x: &View, index: &View, source: &View) -> Result<Buffer> {
    struct OnBits<'a>(Call<'a>, Combine);
    impl WithBits for OnBits<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let dtype = self.0.x.dtype;
            self.0.scatter::<B>(bits(self.1, dtype)?)
        }
    }
    struct OnInts<'a>(Call<'a>, Combine);
    impl WithInt for OnInts<'_> {
        type Output = Result<Buffer>;
        fn run<T: Int>(self) -> Result<Buffer> {
            self.0.scatter::<T>(if self.1 == Combine::Min { T::min } else { T::max })
        }
    }
    let call = Call { pool, axis: op.axis, x, index, values: indices(index, x.shape()[op.axis])?, source };
    match (x.dtype, op.combine) {
        (_, Combine::Set) => with_bits(x.dtype, OnBits(call, Combine::Set)),
        (DType::F32, how) => call.scatter::<f32>(real(how)),
        (DType::F64, how) => call.scatter::<f64>(real(how)),
        (dtype, how @ (Combine::Min | Combine::Max)) => with_int(dtype, OnInts(call, how)),
        (dtype, how) => with_bits(dtype, OnBits(call, how)),
    }
}

/// `x` with the source's slices added by index.
pub fn index_add(pool: &HostPool, op: &IndexAdd, x: &View, index: &View, source: &View) -> Result<Buffer> {
    struct OnBits<'a>(Call<'a>);
    impl WithBits for OnBits<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let dtype = self.0.x.dtype;
            self.0.add::<B>(bits(Combine::Add, dtype)?)
        }
    }
    let call = Call { pool, axis: op.axis, x, index, values: indices(index, x.shape()[op.axis])?, source };
    match x.dtype {
        DType::F32 => call.add::<f32>(|a, b| a + b),
        DType::F64 => call.add::<f64>(|a, b| a + b),
        dtype => with_bits(dtype, OnBits(call)),
    }
}

/// Functions that are the same for signed and unsigned integers, and, as logic, for bools.
fn bits<B: Bits>(how: Combine, dtype: DType) -> Result<Meet<B>> {
    Ok(match (how, dtype) {
        (Combine::Set, _) => |_, b| b,
        (Combine::Add, DType::Bool) => |a, b| a | b,
        (Combine::Mul, DType::Bool) => |a, b| a & b,
        (Combine::Add, _) => |a, b| a.wrapping_add(&b),
        (Combine::Mul, _) => |a, b| a.wrapping_mul(&b),
        (how, dtype) => return Err(Error::backend(format!("scatter by {how:?} has no kernel for {dtype}"))),
    })
}

fn real<T: Real>(how: Combine) -> Meet<T> {
    match how {
        Combine::Set => |_, b| b,
        Combine::Add => |a, b| a + b,
        Combine::Mul => |a, b| a * b,
        Combine::Min => smaller,
        Combine::Max => larger,
    }
}

/// Elements to be put into a copy of `x`.
struct Call<'a> {
    pool: &'a HostPool,
    axis: usize,
    x: &'a View,
    index: &'a View,
    values: Vec<usize>,
    source: &'a View,
}

impl Call<'_> {
    /// A copy of `x`, changed by `edit`, which is called where there is something to put.
    fn edited<T: Pattern>(&self, edit: impl FnOnce(ArrayViewMutD<'_, T>) -> Result<()>) -> Result<Buffer> {
        let mut out = UninitBuffer::<T>::new(self.pool, self.x.layout.elements())?;
        copy(self.x, untyped(out.as_mut_slice()))?;
        if self.source.layout.elements() > 0 {
            // SAFETY: the copy wrote every element.
            let all = unsafe { out.as_mut_slice().assume_init_mut() };
            edit(ArrayViewMutD::from_shape(IxDyn(self.x.shape()), all).map_err(no_array)?)?;
        }
        // SAFETY: as above.
        Ok(unsafe { out.assume_init() })
    }

    fn scatter<T: Pattern>(self, meet: Meet<T>) -> Result<Buffer> {
        self.edited::<T>(|mut all| {
            for (other, &extent) in self.index.shape().iter().enumerate().filter(|(other, _)| *other != self.axis) {
                all.slice_axis_inplace(Axis(other), Slice::from(..extent));
            }
            let (source, index) = (array::<T>(self.source)?, places(&self.values, self.index)?);
            let axis = Axis(self.axis);
            let lanes = all.lanes_mut(axis).into_iter().zip(index.lanes(axis)).zip(source.lanes(axis));
            for ((mut all, index), source) in lanes {
                index.iter().zip(source).for_each(|(&place, &new)| all[place] = meet(all[place], new));
            }
            Ok(())
        })
    }

    fn add<T: Pattern>(self, meet: impl Fn(T, T) -> T) -> Result<Buffer> {
        self.edited::<T>(|mut all| {
            let (source, axis) = (array::<T>(self.source)?, Axis(self.axis));
            for (&place, source) in self.values.iter().zip(source.axis_iter(axis)) {
                Zip::from(all.index_axis_mut(axis, place)).and(source).for_each(|old, &new| *old = meet(*old, new));
            }
            Ok(())
        })
    }
}
