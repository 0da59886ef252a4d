//! Batch norm and its gradients, where each channel's elements lie in runs.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::batch_norm::{BatchNorm, BatchNormBackward};
use ubique_core::{Result, TensorSpec};

use super::fused::floats;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::simd::{Isa, Kernel, reduce, vectorize};

/// Runs below this length are not worth a call each.
const SHORT: usize = 8;

/// Whether each channel's elements lie in runs long enough.
pub fn supports(x: &TensorSpec) -> bool {
    x.shape.get(2..).is_some_and(|space| space.iter().product::<usize>() >= SHORT)
}

/// How `[N, C, …]` lies in memory: runs of `len` elements, of each channel in turn.
#[derive(Clone, Copy)]
struct Runs {
    channels: usize,
    len: usize,
    count: usize,
}

impl Runs {
    fn new(x: &View) -> Runs {
        let shape = x.shape();
        let len: usize = shape[2..].iter().product();
        Runs { channels: shape[1], len, count: shape[0] * shape[1] }
    }

    /// The runs of a channel.
    fn of(self, data: &[f32], channel: usize) -> impl Iterator<Item = &[f32]> {
        (channel..self.count).step_by(self.channels).map(move |run| &data[run * self.len..][..self.len])
    }

    /// Elements of a channel.
    fn elements(self) -> f64 {
        (self.count / self.channels.max(1) * self.len) as f64
    }

    /// One value a channel, the channels in parallel.
    fn each_channel<T: Send + Clone + Default>(
        self,
        context: &Context,
        f: impl Fn(usize) -> T + Sync + Send,
    ) -> Vec<T> {
        let mut values = vec![T::default(); self.channels];
        let grain = (GRAIN / (self.elements() as usize).max(1)).max(1);
        context.threads.rows(&mut values, 1, grain, &|first, part| {
            part.iter_mut().enumerate().for_each(|(i, value)| *value = f(first + i));
        });
        values
    }

    /// Every run of the target with its number and channel, in parallel.
    fn each_run(
        self,
        context: &Context,
        target: &mut [MaybeUninit<f32>],
        f: impl Fn(usize, usize, &mut [MaybeUninit<f32>]) + Sync + Send,
    ) {
        context.threads.rows(target, self.len, (GRAIN / self.len).max(1), &|first, part| {
            for (i, run) in part.chunks_mut(self.len).enumerate() {
                f(first + i, (first + i) % self.channels, run);
            }
        });
    }
}

/// Mean and variance of a channel, from those of its runs (Chan et al. 1979).
fn moments(runs: Runs, data: &[f32], channel: usize) -> (f64, f64) {
    let parts: Vec<(f64, f64)> = runs.of(data, channel).map(reduce::mean_variance).collect();
    let count = parts.len() as f64;
    let mean = parts.iter().map(|(mean, _)| mean).sum::<f64>() / count;
    let variance = parts.iter().map(|(m, v)| v + (m - mean) * (m - mean)).sum::<f64>() / count;
    (mean, variance)
}

/// A buffer of one value a channel.
fn buffer(context: &Context, values: impl ExactSizeIterator<Item = f64>) -> Result<Buffer> {
    let mut out = UninitBuffer::<f32>::new(&context.pool, values.len())?;
    for (slot, value) in out.as_mut_slice().iter_mut().zip(values) {
        slot.write(value as f32);
    }
    // SAFETY: each slot is written.
    Ok(unsafe { out.assume_init() })
}

/// `(x - mean) · scale + shift` of a run.
struct Normalize<'a> {
    x: &'a [f32],
    mean: f32,
    scale: f32,
    shift: f32,
    target: &'a mut [MaybeUninit<f32>],
}

impl Kernel for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        for (t, &x) in self.target.iter_mut().zip(self.x) {
            t.write(S::fma(x - self.mean, self.scale, self.shift));
        }
    }
}

/// The normalised tensor and, in training, the statistics.
pub fn forward(context: &Context, op: &BatchNorm, views: &[View]) -> Result<Vec<Buffer>> {
    let (data, runs) = (floats(&views[0])?, Runs::new(&views[0]));
    let statistics: Vec<(f64, f64)> = match op.training {
        true => runs.each_channel(context, |channel| moments(runs, data, channel)),
        false => {
            let pairs = floats(&views[1])?.iter().zip(floats(&views[2])?);
            pairs.map(|(&mean, &variance)| (mean as f64, variance as f64)).collect()
        }
    };
    let first = if op.training { 1 } else { 3 };
    let weight = if op.weight { Some(floats(&views[first])?) } else { None };
    let bias = if op.bias { Some(floats(&views[first + op.weight as usize])?) } else { None };
    let mut out = UninitBuffer::<f32>::new(&context.pool, data.len())?;
    runs.each_run(context, out.as_mut_slice(), |run, channel, target| {
        let (mean, variance) = statistics[channel];
        let scale = weight.map_or(1.0, |w| w[channel] as f64) / (variance + op.eps).sqrt();
        let shift = bias.map_or(0.0, |b| b[channel]);
        let x = &data[run * runs.len..][..runs.len];
        vectorize(Normalize { x, mean: mean as f32, scale: scale as f32, shift, target });
    });
    // SAFETY: every run is initialised.
    let mut results = vec![unsafe { out.assume_init() }];
    if op.training {
        results.push(buffer(context, statistics.iter().map(|s| s.0))?);
        results.push(buffer(context, statistics.iter().map(|s| s.1))?);
    }
    Ok(results)
}

/// Σ g · (x - mean) of a run.
struct Along<'a> {
    x: &'a [f32],
    g: &'a [f32],
    mean: f32,
}

impl Kernel for Along<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Isa>(self) -> f64 {
        const LANES: usize = 32;
        let mut total = 0.0;
        for (x, g) in self.x.chunks(4096).zip(self.g.chunks(4096)) {
            let mut lanes = [0f32; LANES];
            let ((xs, x_rest), (gs, g_rest)) = (x.as_chunks::<LANES>(), g.as_chunks::<LANES>());
            for (x, g) in xs.iter().zip(gs) {
                for i in 0..LANES {
                    lanes[i] = S::fma(g[i], x[i] - self.mean, lanes[i]);
                }
            }
            for (i, (x, g)) in x_rest.iter().zip(g_rest).enumerate() {
                lanes[i] = S::fma(*g, x - self.mean, lanes[i]);
            }
            total += lanes.iter().sum::<f32>() as f64;
        }
        total
    }
}

/// `g · scale - (x - mean) · slope - average` of a run.
struct Gradient<'a> {
    x: &'a [f32],
    g: &'a [f32],
    mean: f32,
    scale: f32,
    slope: f32,
    average: f32,
    target: &'a mut [MaybeUninit<f32>],
}

impl Kernel for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        for ((t, &x), &g) in self.target.iter_mut().zip(self.x).zip(self.g) {
            t.write(S::fma(g, self.scale, -S::fma(x - self.mean, self.slope, self.average)));
        }
    }
}

/// The gradients of x, weight and bias as there are.
pub fn backward(context: &Context, op: &BatchNormBackward, views: &[View]) -> Result<Vec<Buffer>> {
    let (x, g, runs) = (floats(&views[0])?, floats(&views[views.len() - 1])?, Runs::new(&views[0]));
    let (means, variances) = (floats(&views[1])?, floats(&views[2])?);
    let weight = if op.weight { Some(floats(&views[3])?) } else { None };
    let root = |channel: usize| 1.0 / (variances[channel] as f64 + op.eps).sqrt();
    // The gradients of weight and bias.
    let sums: Vec<(f64, f64)> = runs.each_channel(context, |channel| {
        let pairs = runs.of(x, channel).zip(runs.of(g, channel));
        let along: f64 = pairs.map(|(x, g)| vectorize(Along { x, g, mean: means[channel] })).sum();
        (along * root(channel), runs.of(g, channel).map(reduce::sum).sum())
    });
    let count = runs.elements();
    let mut out = UninitBuffer::<f32>::new(&context.pool, x.len())?;
    runs.each_run(context, out.as_mut_slice(), |run, channel, target| {
        let scale = root(channel) * weight.map_or(1.0, |w| w[channel] as f64);
        let (along, sum) = sums[channel];
        let part = run * runs.len..(run + 1) * runs.len;
        vectorize(Gradient {
            x: &x[part.clone()],
            g: &g[part],
            mean: means[channel],
            scale: scale as f32,
            slope: (scale * along / count * root(channel)) as f32,
            average: (scale * sum / count) as f32,
            target,
        });
    });
    // SAFETY: every run is initialised.
    let mut grads = vec![unsafe { out.assume_init() }];
    if op.weight {
        grads.push(buffer(context, sums.iter().map(|s| s.0))?);
    }
    if op.bias {
        grads.push(buffer(context, sums.iter().map(|s| s.1))?);
    }
    Ok(grads)
}
