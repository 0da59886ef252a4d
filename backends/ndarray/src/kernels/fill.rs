//! Creation from parameters: one value everywhere, evenly spaced values, and random draws.

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::fill::{Arange, Fill};
use ubique_core::op::random::{Distribution, Random, largest_below};
use ubique_core::random::bernoulli_threshold;
use ubique_core::{DType, Result};

use super::cast::{floats, integers};
use super::dtype::{Bits, WithBits, with_bits};

/// One value everywhere.
pub fn fill(pool: &HostPool, fill: &Fill) -> Result<Buffer> {
    struct Go<'a>(&'a HostPool, &'a Fill);
    impl WithBits for Go<'_> {
        type Output = Result<Buffer>;
        fn run<B: Bits>(self) -> Result<Buffer> {
            let Go(pool, Fill { spec, value }) = self;
            let mut out = UninitBuffer::<B>::new(pool, spec.shape.elements()?)?;
            out.fill(value.to_bits(spec.dtype)?);
            // SAFETY: `fill` writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
    with_bits(fill.spec.dtype, Go(pool, fill))
}

/// Evenly spaced values.
pub fn arange(pool: &HostPool, arange: &Arange) -> Result<Buffer> {
    let Arange { start, step, len, dtype } = *arange;
    if dtype.is_float() {
        let (start, step) = (start.as_f64(), step.as_f64());
        return floats(pool, dtype, len, |first, block| {
            block.iter_mut().enumerate().for_each(|(i, slot)| *slot = start + (first + i) as f64 * step);
            Ok(())
        });
    }
    let (start, step) = (start.as_i128() as i64, step.as_i128() as i64);
    integers(pool, dtype, len, |first, block| {
        for (i, slot) in block.iter_mut().enumerate() {
            *slot = start.wrapping_add(((first + i) as i64).wrapping_mul(step));
        }
        Ok(())
    })
}

/// A draw.
pub fn random(pool: &HostPool, random: &Random) -> Result<Buffer> {
    let (source, dtype, count) = (random.source, random.spec.dtype, random.spec.shape.elements()?);
    let double = dtype == DType::F64;
    // Words of the width that the draw is made of, block by block, and what becomes of each. Products and sums are rounded
    // one by one, as everywhere, so that the same seed gives the same bits.
    let mut singles = Vec::new();
    let mut from_singles = |draw: &dyn Fn(u64, &mut [f32]), first: usize, block: &mut [f64], f: &dyn Fn(f32) -> f64| {
        singles.resize(block.len(), 0.0);
        draw(first as u64, &mut singles);
        block.iter_mut().zip(&singles).for_each(|(slot, &x)| *slot = f(x));
        Ok(())
    };
    match random.distribution {
        Distribution::Uniform { low, high } if double => {
            let (scale, top) = (high - low, largest_below(high, dtype));
            floats(pool, dtype, count, |first, block| {
                source.fill_uniform_f64(first as u64, block);
                block.iter_mut().for_each(|u| *u = (*u * scale + low).min(top));
                Ok(())
            })
        }
        Distribution::Uniform { low, high } => {
            let (scale, low, top) = ((high - low) as f32, low as f32, largest_below(high, dtype));
            let below = |u: f32| dtype.round((u * scale + low).into()).min(top);
            floats(pool, dtype, count, |first, block| {
                from_singles(&|at, words| source.fill_uniform_f32(at, words), first, block, &below)
            })
        }
        Distribution::Normal { mean, std } if double => floats(pool, dtype, count, |first, block| {
            source.fill_normal_f64(first as u64, block);
            block.iter_mut().for_each(|z| *z = *z * std + mean);
            Ok(())
        }),
        Distribution::Normal { mean, std } => {
            let (mean, std) = (mean as f32, std as f32);
            floats(pool, dtype, count, |first, block| {
                from_singles(&|at, words| source.fill_normal_f32(at, words), first, block, &|z| (z * std + mean).into())
            })
        }
        Distribution::Bernoulli { probability } => {
            let threshold = bernoulli_threshold(probability)?;
            integers(pool, dtype, count, |first, block| {
                source.fill_from_u32(first as u64, block, |word| (u64::from(word) < threshold).into());
                Ok(())
            })
        }
        Distribution::Integers { low, high } => {
            integers(pool, dtype, count, |first, block| Ok(source.fill_integers(first as u64, block, low, high)?))
        }
        Distribution::Permutation => {
            let mut out = UninitBuffer::<i64>::new(pool, count)?;
            source.fill_permutation(out.fill(0))?;
            // SAFETY: `fill` writes every element.
            Ok(unsafe { out.assume_init() })
        }
    }
}
