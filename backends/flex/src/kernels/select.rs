//! Choice by a mask, and clamping.

use half::{bf16, f16};
use std::mem::MaybeUninit;
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::select::{Clamp, MaskedFill};
use ubique_core::{DType, Element, Layout, Result, Scalar, TensorSpec};

use super::copy::{WithBits, copy, with_bits};
use super::dtype::for_int;

use super::rows::{self, Source};
use super::unary::{each, run};
use crate::executor::Context;
use crate::memory::{bits, elements};
use crate::simd::elementwise::{Operand as Lane, unary as vector};

/// A lane's element at a position.
#[inline(always)]
fn at<T: Copy>(lane: &Lane<'_, T>, i: usize) -> T {
    match lane {
        Lane::Slice(slice) => slice[i],
        Lane::Scalar(scalar) => *scalar,
    }
}

/// Where the mask is true the first, elsewhere the second operand's element.
pub fn select(context: &Context, mask: &View, a: &View, b: &View, out: &TensorSpec) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a View, &'a View, &'a View, &'a TensorSpec);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Element + bytemuck::Pod>(self) -> Result<Buffer> {
            let Go(context, mask, a, b, spec) = self;
            let mut out = UninitBuffer::<B>::new(&context.pool, spec.shape.elements()?)?;
            let layout = |v: &View| v.layout.expand(&spec.shape);
            let mask_data = elements::<bool>(mask)?;
            // Two walks over pairs: first one operand everywhere, then the other where the mask asks for it.
            copy(
                &context.threads,
                bits::<B>(b)?,
                &layout(b)?,
                out.as_mut_slice(),
                &Layout::contiguous(spec.shape.clone()),
            );
            rows::zip(
                &context.threads,
                Source { data: mask_data, layout: layout(mask)? },
                Source { data: bits::<B>(a)?, layout: layout(a)? },
                out.as_mut_slice(),
                &|mask, a, target: &mut [MaybeUninit<B>]| {
                    for (i, slot) in target.iter_mut().enumerate() {
                        if at(&mask, i) {
                            slot.write(at(&a, i));
                        }
                    }
                },
            );
            // SAFETY: the copy writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(out.dtype, Go(context, mask, a, b, out))
}

/// A value where the mask is true.
pub fn masked_fill(context: &Context, op: &MaskedFill, x: &View, mask: &View) -> Result<Buffer> {
    struct Go<'a>(&'a Context, Scalar, &'a View, &'a View);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Element + bytemuck::Pod>(self) -> Result<Buffer> {
            let Go(context, value, x, mask) = self;
            let value = value.to_bits::<B>(x.dtype)?;
            let mut out = UninitBuffer::<B>::new(&context.pool, x.layout.elements())?;
            let x = Source { data: bits::<B>(x)?, layout: (*x.layout).clone() };
            let mask = Source { data: elements::<bool>(mask)?, layout: mask.layout.expand(x.layout.shape())? };
            rows::zip(&context.threads, x, mask, out.as_mut_slice(), &|x, mask, target| match (x, mask) {
                (Lane::Slice(x), Lane::Slice(mask)) => {
                    target.iter_mut().zip(x).zip(mask).for_each(|((slot, &x), &m)| {
                        slot.write(if m { value } else { x });
                    })
                }
                (x, mask) => target.iter_mut().enumerate().for_each(|(i, slot)| {
                    slot.write(if at(&mask, i) { value } else { at(&x, i) });
                }),
            });
            // SAFETY: the walk writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(x.dtype, Go(context, op.value, x, mask))
}

/// Values held between bounds.
pub fn clamp(context: &Context, op: &Clamp, x: &View) -> Result<Buffer> {
    let floats = (op.min.map_or(f64::NEG_INFINITY, Scalar::as_f64), op.max.map_or(f64::INFINITY, Scalar::as_f64));
    fn ints<T: Element + Ord>(context: &Context, op: &Clamp, x: &View) -> Result<Buffer> {
        let (low, high) = T::DTYPE.int_range().unwrap_or((i128::MIN, i128::MAX));
        let bound = |b: Option<Scalar>, none: i128| {
            let value = b.map_or(none, |b| b.cast(T::DTYPE).as_i128());
            T::from_scalar(if value < 0 { Scalar::Int(value as i64) } else { Scalar::UInt(value as u64) })
        };
        let (min, max) = (bound(op.min, low), bound(op.max, high));
        run::<T, T>(context, x, &move |s, t| each(s, t, |v: T| v.max(min).min(max)))
    }
    fn halves<T: Element>(context: &Context, (min, max): (f64, f64), x: &View) -> Result<Buffer> {
        let bound = |b: f64| T::from_scalar(Scalar::Float(b)).to_scalar().as_f64();
        let (min, max) = (bound(min), bound(max));
        let f = move |v: T| T::from_scalar(Scalar::Float(Clamp::eval(v.to_scalar().as_f64(), min, max)));
        run::<T, T>(context, x, &move |s, t| each(s, t, f))
    }
    match x.dtype {
        DType::F32 => {
            let (min, max) = (floats.0 as f32, floats.1 as f32);
            run::<f32, f32>(context, x, &move |s, t| {
                let f = move |v: f32| {
                    let low = if v < min { min } else { v };
                    if low > max { max } else { low }
                };
                vector(f, s, t)
            })
        }
        DType::F64 => run::<f64, f64>(context, x, &move |s, t| each(s, t, |v| Clamp::eval(v, floats.0, floats.1))),
        DType::F16 => halves::<f16>(context, floats, x),
        DType::BF16 => halves::<bf16>(context, floats, x),
        other => for_int!(other, T => ints::<T>(context, op, x)),
    }
}
