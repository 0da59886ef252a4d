//! Random draws and dropout, in parallel: every element can be computed on its own.

use std::mem::MaybeUninit;
use std::ops::Range;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::host::{WithElement, with_element};
use ubique_core::op::random::{Distribution, Dropout, Random, largest_below};
use ubique_core::random::{Philox, bernoulli_threshold};
use ubique_core::{DType, Element, Error, Result, Scalar};

use super::copy::to_contiguous;
use super::radix::{self, Packed};
use crate::executor::Context;
use crate::memory::contiguous;

/// Elements that are drawn at a time before they are converted: they stay in the nearest cache.
const BLOCK: usize = 1024;
/// Elements below which one thread does it all.
const GRAIN: usize = 16 * 1024;

/// Draws blocks with `fill` and writes them with `convert`.
fn by_blocks<W: Copy + Default, T>(
    first: usize,
    out: &mut [MaybeUninit<T>],
    fill: impl Fn(u64, &mut [W]),
    convert: impl Fn(W) -> T,
) {
    let mut block = [W::default(); BLOCK];
    for (i, out) in out.chunks_mut(BLOCK).enumerate() {
        let block = &mut block[..out.len()];
        fill((first + i * BLOCK) as u64, block);
        for (slot, &word) in out.iter_mut().zip(&*block) {
            slot.write(convert(word));
        }
    }
}

/// Draws elements `first..` into `out`.
fn draw<T: Element>(random: &Random, first: usize, out: &mut [MaybeUninit<T>]) {
    let source = random.source;
    let float = |value: f64| T::from_scalar(Scalar::Float(value));
    // Products and sums are rounded one by one, as everywhere, so that the same seed gives the same bits.
    match (random.distribution, T::DTYPE == DType::F64) {
        (Distribution::Uniform { low, high }, true) => {
            let (scale, top) = (high - low, largest_below(high, T::DTYPE));
            by_blocks(first, out, |at, b| source.fill_uniform_f64(at, b), |u| float((u * scale + low).min(top)));
        }
        (Distribution::Uniform { low, high }, false) => {
            let (scale, low, top) = ((high - low) as f32, low as f32, largest_below(high, T::DTYPE));
            let below = |value: f32| float(T::DTYPE.round(value as f64).min(top));
            by_blocks(first, out, |at, b| source.fill_uniform_f32(at, b), |u: f32| below(u * scale + low));
        }
        (Distribution::Normal { mean, std }, true) => {
            by_blocks(first, out, |at, b| source.fill_normal_f64(at, b), |z| float(z * std + mean));
        }
        (Distribution::Normal { mean, std }, false) => {
            let (mean, std) = (mean as f32, std as f32);
            by_blocks(first, out, |at, b| source.fill_normal_f32(at, b), |z: f32| float((z * std + mean) as f64));
        }
        (Distribution::Bernoulli { probability }, _) => {
            // The probability was checked with the parameters; one that is not valid has no threshold.
            let threshold = bernoulli_threshold(probability).unwrap_or(0);
            let [no, yes] = [false, true].map(|b| T::from_scalar(Scalar::Bool(b)));
            let choose = |word: u32| if u64::from(word) < threshold { yes } else { no };
            by_blocks(first, out, |at, b| source.fill_u32(at, b), choose);
        }
        (Distribution::Integers { low, high }, _) => {
            let width = high.wrapping_sub(low) as u64 as u128;
            let within = |word: u64| low.wrapping_add(((word as u128 * width) >> 64) as i64);
            by_blocks(first, out, |at, b| source.fill_u64(at, b), |word| T::from_scalar(Scalar::Int(within(word))));
        }
        // A permutation is not drawn element by element; see `permutation`.
        (Distribution::Permutation, _) => {}
    }
}

/// A draw.
pub fn random(context: &Context, random: &Random) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a Random);
    impl WithElement for Go<'_> {
        type Output = Result<Buffer>;
        fn run<T: Element>(self) -> Result<Buffer> {
            let Go(context, random) = self;
            let mut out = UninitBuffer::<T>::new(&context.pool, random.spec.shape.elements()?)?;
            context.threads.rows(out.as_mut_slice(), 1, GRAIN, &|first, part| draw(random, first, part));
            // SAFETY: `draw` writes every element of what it is given.
            Ok(unsafe { out.assume_init() })
        }
    }
    match random.distribution {
        Distribution::Permutation => permutation(context, &random.source, random.spec.shape.elements()?),
        _ => with_element(random.spec.dtype, Go(context, random)),
    }
}

/// The stable order of as many 64-bit words as elements.
fn permutation(context: &Context, source: &Philox, count: usize) -> Result<Buffer> {
    let mut room = radix::room::<u128>(count, 2)?;
    let (keys, spare) = room.split_at_mut(count);
    context.threads.rows(keys, 1, GRAIN, &|first, part| {
        let mut words = [0u64; BLOCK];
        for (i, part) in part.chunks_mut(BLOCK).enumerate() {
            let (start, words) = (first + i * BLOCK, &mut words[..part.len()]);
            source.fill_u64(start as u64, words);
            part.iter_mut().zip(words).enumerate().for_each(|(j, (key, word))| *key = u128::pack(*word, start + j));
        }
    });
    radix::sort_parallel(&context.threads, keys, spare);
    let mut out = UninitBuffer::<i64>::new(&context.pool, count)?;
    out.as_mut_slice().iter_mut().zip(keys).for_each(|(slot, key)| {
        slot.write(key.place() as i64);
    });
    // SAFETY: there are as many keys as elements.
    Ok(unsafe { out.assume_init() })
}

/// Random elements set to 0, the others scaled.
pub fn dropout(context: &Context, op: &Dropout, x: &View) -> Result<Buffer> {
    struct Go<'a>(&'a Context, &'a Dropout, &'a View);
    impl WithElement for Go<'_> {
        type Output = Result<Buffer>;
        fn run<T: Element>(self) -> Result<Buffer> {
            let Go(context, op, x) = self;
            let data = contiguous::<T>(x)?.ok_or_else(|| Error::backend("the operand is strided"))?;
            let threshold = bernoulli_threshold(op.probability)?;
            let (zero, scale, single) = (T::default(), op.scale(), op.scale() as f32);
            let scaled = |x: T| {
                let value = x.to_scalar().as_f64();
                T::from_scalar(Scalar::Float(match T::DTYPE {
                    DType::F64 => value * scale,
                    _ => (value as f32 * single) as f64,
                }))
            };
            let mut out = UninitBuffer::<T>::new(&context.pool, data.len())?;
            context.threads.rows(out.as_mut_slice(), 1, GRAIN, &|first, part| {
                let mut words = [0u32; BLOCK];
                for (i, part) in part.chunks_mut(BLOCK).enumerate() {
                    let range: Range<usize> = first + i * BLOCK..first + i * BLOCK + part.len();
                    let words = &mut words[..part.len()];
                    op.source.fill_u32(range.start as u64, words);
                    for ((slot, &x), &word) in part.iter_mut().zip(&data[range]).zip(&*words) {
                        slot.write(if u64::from(word) < threshold { zero } else { scaled(x) });
                    }
                }
            });
            // SAFETY: the parts cover the whole output.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_element(x.dtype, Go(context, op, &to_contiguous(context, x)?))
}
