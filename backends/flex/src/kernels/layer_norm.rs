//! Layer and RMS norm of rows, and their gradients.

use std::mem::MaybeUninit;

use ubique_core::Result;
use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::layer_norm::LayerNorm;

use super::fused::floats;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::simd::{Isa, Kernel, reduce, rows, vectorize};

/// Elements of a row: those of the normalised axes.
fn row_len(op: &LayerNorm, x: &View) -> usize {
    x.shape()[x.shape().rank() - op.axes..].iter().product()
}

/// The normalised rows; operands x, weight and bias as there are.
pub fn forward(context: &Context, op: &LayerNorm, views: &[View]) -> Result<Buffer> {
    let (data, len) = (floats(&views[0])?, row_len(op, &views[0]));
    let weight = if op.weight { Some(floats(&views[1])?) } else { None };
    let bias = if op.bias { Some(floats(&views[1 + op.weight as usize])?) } else { None };
    let mut out = UninitBuffer::<f32>::new(&context.pool, data.len())?;
    context.threads.rows(out.as_mut_slice(), len, (GRAIN / len.max(1)).max(1), &|first, part| {
        let source = &data[first * len..][..part.len()];
        if op.center {
            rows::layer_norm_rows(source, len, weight, bias, op.eps as f32, part);
        } else {
            rows::rms_norm_rows(source, len, weight, op.eps as f32, part);
        }
    });
    // SAFETY: every row is initialised.
    Ok(unsafe { out.assume_init() })
}

/// Rows whose contributions to the gradients of weight and bias are added up in one place: a fixed number, so that the
/// sums do not depend on the number of threads.
const BLOCK_ROWS: usize = 64;

/// The gradients of x, weight and bias as there are; operands x, the weight where there is one, and the result's gradient.
pub fn backward(context: &Context, op: &LayerNorm, views: &[View]) -> Result<Vec<Buffer>> {
    let (x, g) = (floats(&views[0])?, floats(&views[views.len() - 1])?);
    let len = row_len(op, &views[0]);
    let weight = if op.weight { Some(floats(&views[1])?) } else { None };
    let mut out = UninitBuffer::<f32>::new(&context.pool, x.len())?;
    let blocks = x.len().checked_div(len * BLOCK_ROWS).unwrap_or(0) + 1;
    let mut sums = vec![0f32; if op.weight || op.bias { blocks * 2 * len } else { 0 }];
    let mut pieces: Vec<(usize, &mut [MaybeUninit<f32>], &mut [f32])> = Vec::with_capacity(blocks);
    if !x.is_empty() {
        let mut sums = sums.chunks_mut((2 * len).max(1));
        for (block, target) in out.as_mut_slice().chunks_mut(len * BLOCK_ROWS).enumerate() {
            pieces.push((block * BLOCK_ROWS * len, target, sums.next().unwrap_or_default()));
        }
    }
    context.threads.rows(&mut pieces, 1, (GRAIN / (len * BLOCK_ROWS).max(1)).max(1), &|_, part| {
        for (start, targets, sums) in part {
            let (grad_weight, grad_bias) = sums.split_at_mut(sums.len() / 2);
            for (number, target) in targets.chunks_mut(len).enumerate() {
                let at = *start + number * len;
                let (x, g) = (&x[at..][..len], &g[at..][..len]);
                let (mean, variance) = match op.center {
                    true => reduce::mean_variance(x),
                    false => (0.0, reduce::sum_of_squares(x) / len as f64),
                };
                let scale = (1.0 / (variance + op.eps).sqrt()) as f32;
                let row = BackwardRow { x, g, weight, mean: mean as f32, scale, center: op.center, target };
                vectorize(row);
                if !grad_weight.is_empty() {
                    vectorize(Accumulate { x, g, mean: mean as f32, scale, grad_weight, grad_bias });
                }
            }
        }
    });
    // SAFETY: every row is initialised.
    let mut grads = vec![unsafe { out.assume_init() }];
    let halves = [(op.weight, 0), (op.bias, len)];
    for (_, offset) in halves.into_iter().filter(|(wanted, _)| *wanted) {
        grads.push(total(context, &sums, offset, len)?);
    }
    Ok(grads)
}

/// The sums of all blocks, in order: `len` elements from `offset` on of every `2 · len`.
fn total(context: &Context, sums: &[f32], offset: usize, len: usize) -> Result<Buffer> {
    let mut wide = vec![0f64; len];
    for block in sums.chunks((2 * len).max(1)) {
        rows::zip_assign(|sum: f64, x: f32| sum + x as f64, &mut wide, &block[offset..][..len]);
    }
    let mut out = UninitBuffer::<f32>::new(&context.pool, len)?;
    for (slot, sum) in out.as_mut_slice().iter_mut().zip(wide) {
        slot.write(sum as f32);
    }
    // SAFETY: each slot is written.
    Ok(unsafe { out.assume_init() })
}

/// Independent sums, to hide the latency of additions.
const LANES: usize = 32;

struct BackwardRow<'a> {
    x: &'a [f32],
    g: &'a [f32],
    weight: Option<&'a [f32]>,
    mean: f32,
    scale: f32,
    center: bool,
    target: &'a mut [MaybeUninit<f32>],
}

impl Kernel for BackwardRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let BackwardRow { x, g, weight, mean, scale, center, target } = self;
        // First the gradient of the normalised row, in the target's place.
        match weight {
            Some(weight) => target.iter_mut().zip(g).zip(weight).for_each(|((t, &g), &w)| {
                t.write(g * w);
            }),
            None => target.iter_mut().zip(g).for_each(|(t, &g)| {
                t.write(g);
            }),
        }
        // SAFETY: every element was written above.
        let target = unsafe { target.assume_init_mut() };
        let (mut sums, mut alongs) = ([0f32; LANES], [0f32; LANES]);
        let (targets, rest) = target.as_chunks::<LANES>();
        let (xs, x_rest) = x.as_chunks::<LANES>();
        for (t, x) in targets.iter().zip(xs) {
            for i in 0..LANES {
                sums[i] += t[i];
                alongs[i] = S::fma(t[i], (x[i] - mean) * scale, alongs[i]);
            }
        }
        for (i, (t, x)) in rest.iter().zip(x_rest).enumerate() {
            sums[i] += t;
            alongs[i] = S::fma(*t, (x - mean) * scale, alongs[i]);
        }
        let (mut sum, mut along) = (0f32, 0f32);
        for i in 0..LANES {
            sum += sums[i];
            along += alongs[i];
        }
        let count = x.len() as f32;
        let (average, along) = (if center { sum / count } else { 0.0 }, along / count);
        for (t, &x) in target.iter_mut().zip(x) {
            *t = scale * (*t - average - (x - mean) * scale * along);
        }
    }
}

struct Accumulate<'a> {
    x: &'a [f32],
    g: &'a [f32],
    mean: f32,
    scale: f32,
    grad_weight: &'a mut [f32],
    grad_bias: &'a mut [f32],
}

impl Kernel for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let (mean, scale) = (self.mean, self.scale);
        let sums = self.grad_weight.iter_mut().zip(self.grad_bias.iter_mut());
        for (((w, b), &x), &g) in sums.zip(self.x).zip(self.g) {
            *w = S::fma(g, (x - mean) * scale, *w);
            *b += g;
        }
    }
}
