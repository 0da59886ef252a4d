//! Changes of dtype.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::host::{WithElement, with_element};
use ubique_core::{DType, Element, Result};

use super::copy::to_contiguous;
use super::rows::GRAIN;
use super::unary::{Slices, each};
use crate::executor::Context;
use crate::memory::contiguous;
use crate::simd::half::{narrow, widen};

/// A view's elements in another dtype.
pub fn cast(context: &Context, x: &View, to: DType) -> Result<Buffer> {
    // The pairs that training uses have loops of their own; the others go through a scalar.
    match (x.dtype, to) {
        (DType::F16, DType::F32) => run::<f16, f32>(context, x, widen),
        (DType::BF16, DType::F32) => run::<bf16, f32>(context, x, widen),
        (DType::F32, DType::F16) => run::<f32, f16>(context, x, narrow),
        (DType::F32, DType::BF16) => run::<f32, bf16>(context, x, narrow),
        (DType::F32, DType::F64) => run::<f32, f64>(context, x, |s, t| each(s, t, |v| v as f64)),
        (DType::F64, DType::F32) => run::<f64, f32>(context, x, |s, t| each(s, t, |v| v as f32)),
        (DType::Bool, DType::F32) => run::<bool, f32>(context, x, |s, t| each(s, t, |v| v as u8 as f32)),
        (DType::U8, DType::F32) => run::<u8, f32>(context, x, |s, t| each(s, t, |v| v as f32)),
        (DType::I32, DType::F32) => run::<i32, f32>(context, x, |s, t| each(s, t, |v| v as f32)),
        (DType::I64, DType::F32) => run::<i64, f32>(context, x, |s, t| each(s, t, |v| v as f32)),
        (DType::F32, DType::I64) => run::<f32, i64>(context, x, |s, t| each(s, t, |v| v as i64)),
        (DType::U8, DType::I64) => run::<u8, i64>(context, x, |s, t| each(s, t, |v| v as i64)),
        (DType::I32, DType::I64) => run::<i32, i64>(context, x, |s, t| each(s, t, |v| v as i64)),
        _ => with_element(x.dtype, From { context, x, to }),
    }
}

/// Strided views are copied first: a loop over strides for each of 169 pairs would cost more to build than it saves.
fn run<A: Element, B: Element>(context: &Context, x: &View, kernel: Slices<A, B>) -> Result<Buffer> {
    let x = to_contiguous(context, x)?;
    let source = contiguous::<A>(&x)?.unwrap_or(&[]);
    let mut out = UninitBuffer::<B>::new(&context.pool, source.len())?;
    context.threads.rows(out.as_mut_slice(), 1, GRAIN, &|first, part: &mut [MaybeUninit<B>]| {
        kernel(&source[first..first + part.len()], part);
    });
    // SAFETY: the kernel initialises every part of the output.
    Ok(unsafe { out.assume_init() })
}

struct From<'a> {
    context: &'a Context,
    x: &'a View,
    to: DType,
}

impl WithElement for From<'_> {
    type Output = Result<Buffer>;
    fn run<A: Element>(self) -> Result<Buffer> {
        struct To<'a, A>(&'a Context, &'a View, std::marker::PhantomData<A>);
        impl<A: Element> WithElement for To<'_, A> {
            type Output = Result<Buffer>;
            fn run<B: Element>(self) -> Result<Buffer> {
                run::<A, B>(self.0, self.1, |s, t| each(s, t, |v: A| B::from_scalar(v.to_scalar())))
            }
        }
        with_element(self.to, To::<A>(self.context, self.x, std::marker::PhantomData))
    }
}
