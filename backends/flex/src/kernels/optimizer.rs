//! Optimiser steps: one pass over parameter, gradient and state, in place where the memory was given away.

use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Operand, Outputs, View};
use ubique_core::op::optimizer::{AdamStep, SgdStep};
use ubique_core::{Error, Layout, Result};

use super::rows::GRAIN;
use super::{copy, fused};
use crate::executor::Context;
use crate::memory::reusable;
use crate::simd::{Isa, Kernel, vectorize};

/// An operand that may be written: itself where it was given away and nobody else holds it, else a copy in `space`.
fn own<'a>(context: &Context, operand: &'a mut Operand<'_>, space: &'a mut Option<View>) -> Result<&'a mut View> {
    let fresh = |from: &View| -> Result<View> {
        let layout = Layout::contiguous(from.shape().clone());
        Ok(View::new(copy::contiguous(context, from)?, layout, from.dtype))
    };
    match operand {
        Operand::Ref(view) => Ok(space.insert(fresh(view)?)),
        Operand::Own(view) => match reusable::<f32>(view).is_some() {
            true => Ok(view),
            false => Ok(space.insert(fresh(view)?)),
        },
    }
}

/// The elements of a view that [`own`] gave; none where it is empty.
fn writable(view: &mut View) -> Result<&mut [f32]> {
    match view.layout.elements() {
        0 => Ok(&mut []),
        _ => reusable::<f32>(view).ok_or_else(|| Error::backend("an optimiser's operand cannot be written")),
    }
}

/// One step of Adam.
pub fn adam(context: &Context, step: &AdamStep, inputs: &mut [Operand<'_>]) -> Result<Outputs> {
    let [parameter, grad, mean, square] = inputs else {
        return Err(Error::backend("adam_step takes 4 operands"));
    };
    let [mut p, mut m, mut v] = [None, None, None];
    let (parameter, mean) = (own(context, parameter, &mut p)?, own(context, mean, &mut m)?);
    let square = own(context, square, &mut v)?;
    let grad = copy::to_contiguous(context, grad)?;
    let factors = AdamFactors::new(step);
    let (p, g, m, v) = (writable(parameter)?, fused::floats(&grad)?, writable(mean)?, writable(square)?);
    if p.len() <= GRAIN {
        vectorize(Adam { factors, p, g, m, v });
    } else {
        let mut parts: Vec<_> =
            p.chunks_mut(GRAIN).zip(g.chunks(GRAIN)).zip(m.chunks_mut(GRAIN)).zip(v.chunks_mut(GRAIN)).collect();
        context.threads.rows(&mut parts, 1, 1, &|_, parts| {
            for (((p, g), m), v) in parts {
                vectorize(Adam { factors, p, g, m, v });
            }
        });
    }
    Ok(fused::several(vec![parameter.buffer.clone(), mean.buffer.clone(), square.buffer.clone()]))
}

/// A step's constants, as the inner loop takes them.
#[derive(Clone, Copy)]
struct AdamFactors {
    beta1: f32,
    beta2: f32,
    rest1: f32,
    rest2: f32,
    rate: f32,
    root: f32,
    eps: f32,
    shrink: f32,
    pull: f32,
}

impl AdamFactors {
    fn new(step: &AdamStep) -> AdamFactors {
        let (c1, c2) = step.corrections();
        let decay = |on: bool| if on { step.weight_decay } else { 0.0 };
        AdamFactors {
            beta1: step.beta1 as f32,
            beta2: step.beta2 as f32,
            rest1: (1.0 - step.beta1) as f32,
            rest2: (1.0 - step.beta2) as f32,
            rate: (step.learning_rate / c1) as f32,
            root: (1.0 / c2.sqrt()) as f32,
            eps: step.eps as f32,
            shrink: (1.0 - step.learning_rate * decay(step.decoupled)) as f32,
            pull: decay(!step.decoupled) as f32,
        }
    }
}

struct Adam<'a> {
    factors: AdamFactors,
    p: &'a mut [f32],
    g: &'a [f32],
    m: &'a mut [f32],
    v: &'a mut [f32],
}

impl Kernel for Adam<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let f = self.factors;
        for (((p, &g), m), v) in self.p.iter_mut().zip(self.g).zip(self.m.iter_mut()).zip(self.v.iter_mut()) {
            let g = S::fma(f.pull, *p, g);
            *m = S::fma(f.rest1, g, f.beta1 * *m);
            *v = S::fma(f.rest2 * g, g, f.beta2 * *v);
            *p = *p * f.shrink - f.rate * *m / S::fma(v.sqrt(), f.root, f.eps);
        }
    }
}

/// Zeros like a view.
fn zeros(context: &Context, like: &View) -> Result<View> {
    let mut out = UninitBuffer::<f32>::new(&context.pool, like.layout.elements())?;
    out.fill(0.0);
    // SAFETY: `fill` writes every element.
    let buffer = unsafe { out.assume_init() };
    Ok(View::new(buffer, Layout::contiguous(like.shape().clone()), like.dtype))
}

/// One step of gradient descent.
pub fn sgd(context: &Context, step: &SgdStep, inputs: &mut [Operand<'_>]) -> Result<Outputs> {
    let [parameter, grad, state @ ..] = inputs else {
        return Err(Error::backend("sgd_step takes 2 or 3 operands"));
    };
    let [mut p, mut b] = [None, None];
    let parameter = own(context, parameter, &mut p)?;
    let source = copy::to_contiguous(context, grad)?;
    if step.momentum == 0.0 {
        descend(context, step, writable(parameter)?, fused::floats(&source)?, None, true);
        return Ok(Outputs::One(parameter.buffer.clone()));
    }
    // A buffer that begins now begins at 0 and takes the whole gradient.
    let first = state.is_empty();
    let buffer = match state.first_mut() {
        Some(buffer) => own(context, buffer, &mut b)?,
        None => b.insert(zeros(context, &source)?),
    };
    descend(context, step, writable(parameter)?, fused::floats(&source)?, Some(writable(buffer)?), first);
    Ok(fused::several(vec![parameter.buffer.clone(), buffer.buffer.clone()]))
}

fn descend(context: &Context, step: &SgdStep, p: &mut [f32], g: &[f32], buffer: Option<&mut [f32]>, first: bool) {
    let (keep, take) = if first { (0.0, 1.0) } else { (step.momentum as f32, (1.0 - step.dampening) as f32) };
    let factors = SgdFactors {
        rate: step.learning_rate as f32,
        pull: step.weight_decay as f32,
        keep,
        take,
        // The direction is a sum of buffer and gradient.
        ahead: if step.nesterov { step.momentum as f32 } else { 1.0 },
        direct: if step.nesterov { 1.0 } else { 0.0 },
    };
    match buffer {
        Some(buffer) => {
            let mut parts: Vec<_> = p.chunks_mut(GRAIN).zip(g.chunks(GRAIN)).zip(buffer.chunks_mut(GRAIN)).collect();
            context.threads.rows(&mut parts, 1, 1, &|_, parts| {
                for ((p, g), b) in parts {
                    vectorize(Momentum { factors, p, g, b });
                }
            });
        }
        None => {
            let mut parts: Vec<_> = p.chunks_mut(GRAIN).zip(g.chunks(GRAIN)).collect();
            context.threads.rows(&mut parts, 1, 1, &|_, parts| {
                for (p, g) in parts {
                    vectorize(Descent { factors, p, g });
                }
            });
        }
    }
}

#[derive(Clone, Copy)]
struct SgdFactors {
    rate: f32,
    pull: f32,
    keep: f32,
    take: f32,
    ahead: f32,
    direct: f32,
}

struct Descent<'a> {
    factors: SgdFactors,
    p: &'a mut [f32],
    g: &'a [f32],
}

impl Kernel for Descent<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let f = self.factors;
        for (p, &g) in self.p.iter_mut().zip(self.g) {
            *p -= f.rate * S::fma(f.pull, *p, g);
        }
    }
}

struct Momentum<'a> {
    factors: SgdFactors,
    p: &'a mut [f32],
    g: &'a [f32],
    b: &'a mut [f32],
}

impl Kernel for Momentum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let f = self.factors;
        for ((p, &g), b) in self.p.iter_mut().zip(self.g).zip(self.b.iter_mut()) {
            let g = S::fma(f.pull, *p, g);
            *b = S::fma(f.take, g, f.keep * *b);
            *p -= f.rate * S::fma(f.ahead, *b, f.direct * g);
        }
    }
}
