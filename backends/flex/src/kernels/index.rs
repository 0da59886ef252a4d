//! Elements taken from and put to places that an index names.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::host::{WithElement, with_element};
use ubique_core::op::binary::Binary;
use ubique_core::op::index::{Combine, Gather, IndexAdd, IndexSelect, Scatter, check_index};
use ubique_core::{DType, Element, Error, Layout, Result, Scalar, TensorSpec};

use super::copy::{WithBits, copy, to_contiguous, with_bits};
use crate::executor::Context;
use crate::memory::{bits, elements};

/// The index's values, checked against the extent that they point into.
fn indices(index: &View, extent: usize) -> Result<Vec<usize>> {
    fn read<T: Element + Into<i128>>(index: &View, extent: usize) -> Result<Vec<usize>> {
        let data = elements::<T>(index)?;
        index.layout.positions().map(|p| check_index(data[p].into(), extent)).collect()
    }
    match index.dtype {
        DType::I64 => read::<i64>(index, extent),
        DType::I32 => read::<i32>(index, extent),
        DType::U32 => read::<u32>(index, extent),
        other => Err(Error::backend(format!("an index of {other}"))),
    }
}

/// For each element of an index of the given shape, where in a layout it points.
fn targets(axis: usize, layout: &Layout, index: &View) -> Result<Vec<usize>> {
    let values = indices(index, layout.shape()[axis])?;
    if values.is_empty() {
        return Ok(values);
    }
    let stride = layout.strides()[axis];
    // Every element's place if its index were 0: a walk over the index's shape with this layout's other strides.
    let first = layout.slice(axis, 0, 1, 1)?;
    let mut wide = first;
    for (other, &extent) in index.shape().iter().enumerate() {
        if other != axis {
            wide = wide.slice(other, 0, 1, extent)?;
        }
    }
    let wide = wide.expand(&wide.shape().with(axis, index.shape()[axis]))?;
    Ok(wide.positions().zip(values).map(|(start, i)| (start as isize + i as isize * stride) as usize).collect())
}

/// Elements by index.
pub fn gather(context: &Context, op: &Gather, x: &View, index: &View) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a View, Vec<usize>);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Element + bytemuck::Pod>(self) -> Result<Buffer> {
            let Go(context, x, places) = self;
            let data = bits::<B>(x)?;
            let mut out = UninitBuffer::<B>::new(&context.pool, places.len())?;
            for (slot, place) in out.as_mut_slice().iter_mut().zip(places) {
                slot.write(data[place]);
            }
            // SAFETY: there are as many places as elements.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(x.dtype, Go(context, x, targets(op.axis, &x.layout, index)?))
}

/// A fresh copy of `x`, changed by `edit`.
fn edited<T: Element>(context: &Context, x: &View, edit: impl FnOnce(&mut [T])) -> Result<Buffer> {
    let mut out = UninitBuffer::<T>::new(&context.pool, x.layout.elements())?;
    let layout = Layout::contiguous(x.shape().clone());
    copy(&context.threads, elements::<T>(x)?, &x.layout, out.as_mut_slice(), &layout);
    // SAFETY: the copy covers the whole output.
    edit(unsafe { out.as_mut_slice().assume_init_mut() });
    // SAFETY: as above.
    Ok(unsafe { out.assume_init() })
}

/// `x` with the source's elements put to places by index.
pub fn scatter(context: &Context, op: &Scatter, x: &View, index: &View, source: &View) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a Scatter, &'a View, Vec<usize>, &'a View);
    impl WithElement for Go<'_> {
        type Output = Result<Buffer>;
        fn run<T: Element>(self) -> Result<Buffer> {
            let Go(context, op, x, places, source) = self;
            let values = elements::<T>(source)?;
            let pairs = places.into_iter().zip(source.layout.positions().map(|p| values[p]));
            edited::<T>(context, x, |out| {
                pairs.for_each(|(place, value)| out[place] = combine(op.combine, out[place], value))
            })
        }
    }
    let layout = Layout::contiguous(x.shape().clone());
    let places = targets(op.axis, &layout, index)?;
    with_element(x.dtype, Go(context, op, x, places, source))
}

/// How two elements meet.
#[inline]
fn combine<T: Element>(how: Combine, old: T, new: T) -> T {
    let op = match how {
        Combine::Set => return new,
        Combine::Add => Binary::Add,
        Combine::Mul => Binary::Mul,
        Combine::Min => Binary::Min,
        Combine::Max => Binary::Max,
    };
    let (a, b) = (old.to_scalar(), new.to_scalar());
    match T::DTYPE.is_float() {
        true => T::from_scalar(Scalar::Float(op.eval_float(a.as_f64(), b.as_f64()))),
        false => {
            let exact = T::DTYPE.wrap(op.eval_int(a.as_i128(), b.as_i128(), T::DTYPE));
            T::from_scalar(if exact < 0 { Scalar::Int(exact as i64) } else { Scalar::UInt(exact as u64) })
        }
    }
}

/// Outer count and inner length around an axis of a row-major shape.
fn around(shape: &[usize], axis: usize) -> (usize, usize) {
    (shape[..axis].iter().product(), shape[axis + 1..].iter().product())
}

/// Whole slices by index.
pub fn index_select(context: &Context, op: &IndexSelect, x: &View, index: &View, out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a Context, usize, &'a View, Vec<usize>, &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Element + bytemuck::Pod>(self) -> Result<Buffer> {
            let Go(context, axis, x, index, spec) = self;
            let mut out = UninitBuffer::<B>::new(&context.pool, spec.shape.elements()?)?;
            let extent = x.shape()[axis];
            let (_, inner) = around(x.shape(), axis);
            let data = bits::<B>(x)?.get(x.layout.offset()..).unwrap_or(&[]);
            let grain = (super::rows::GRAIN / inner.max(1)).max(1);
            context.threads.rows(out.as_mut_slice(), inner.max(1), grain, &|first, part| {
                for (i, row) in part.chunks_mut(inner.max(1)).enumerate() {
                    let number = first + i;
                    let (outer, which) = (number / index.len(), index[number % index.len()]);
                    let from = &data[(outer * extent + which) * inner..][..inner];
                    for (slot, &value) in row.iter_mut().zip(from) {
                        slot.write(value);
                    }
                }
            });
            // SAFETY: every row of the output is written.
            Ok(unsafe { out.assume_init() })
        }
    }
    let index = indices(index, x.shape()[op.axis])?;
    let x = to_contiguous(context, x)?;
    with_bits(x.dtype, Go(context, op.axis, &x, index, out))
}

/// `x` with the source's slices added by index.
pub fn index_add(context: &Context, op: &IndexAdd, x: &View, index: &View, source: &View) -> Result<Buffer> {
    struct Go<'a>(&'a Context, usize, &'a View, Vec<usize>, &'a View);
    impl WithElement for Go<'_> {
        type Output = Result<Buffer>;
        fn run<T: Element>(self) -> Result<Buffer> {
            let Go(context, axis, x, index, source) = self;
            let values = elements::<T>(source)?;
            let (outer, inner) = around(x.shape(), axis);
            let extent = x.shape()[axis];
            if values.is_empty() || source.layout.elements() == 0 {
                return edited::<T>(context, x, |_| ());
            }
            let start = source.layout.offset();
            edited::<T>(context, x, |out| {
                for o in 0..outer {
                    for (i, &which) in index.iter().enumerate() {
                        let from = &values[start + (o * index.len() + i) * inner..][..inner];
                        let to = &mut out[(o * extent + which) * inner..][..inner];
                        add_rows(to, from);
                    }
                }
            })
        }
    }
    let index = indices(index, x.shape()[op.axis])?;
    let source = to_contiguous(context, source)?;
    with_element(x.dtype, Go(context, op.axis, x, index, &source))
}

/// Adds a row to another; f32, which embeddings train in, by vector code.
fn add_rows<T: Element>(to: &mut [T], from: &[T]) {
    if T::DTYPE == DType::F32 {
        // SAFETY: `T` is f32: each element type has its own dtype.
        let (to, from) = unsafe { (&mut *(to as *mut [T] as *mut [f32]), &*(from as *const [T] as *const [f32])) };
        return crate::simd::rows::add_assign(to, from);
    }
    to.iter_mut().zip(from).for_each(|(a, &b)| *a = combine(Combine::Add, *a, b));
}
