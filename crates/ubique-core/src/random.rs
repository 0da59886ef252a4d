//! Counter-based random numbers: Philox 4×32-10, the same bits on every backend.
//!
//! Philox (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011) is a function from a
//! 128-bit counter and a 64-bit key to four 32-bit words. It has no state to carry along, so any element of a draw can
//! be computed on its own, by any thread or device.
//!
//! # Layout
//!
//! | Philox input | value |
//! |---|---|
//! | key word 0, 1 | `seed` low, high half |
//! | counter word 0, 1 | block index low, high half |
//! | counter word 2, 3 | `stream` low, high half |
//!
//! Element `i` of a draw has the *position* `p = offset + i` (modulo 2⁶⁴). The four words of a block, `w0..w3`, give:
//!
//! | kind | block | element |
//! |---|---|---|
//! | 32-bit | `p / 4` | word `p % 4` |
//! | 64-bit | `p / 2` | `w0 + 2³²·w1` for even `p`, `w2 + 2³²·w3` for odd `p` |
//! | f32 uniform | as 32-bit | top 24 bits · 2⁻²⁴ |
//! | f64 uniform | as 64-bit | top 53 bits · 2⁻⁵³ |
//! | bernoulli(q) | as 32-bit | `word < round(q·2³²)` |
//! | integer in `[lo, hi)` | as 64-bit | `lo + floor(word·(hi − lo) / 2⁶⁴)` |
//! | f32 normal | `p / 4` | pair from `(w0, w1)` for `p % 4` = 0, 1; from `(w2, w3)` for 2, 3 |
//! | f64 normal | `p / 2` | pair from the two 64-bit words of the block |
//!
//! A pair of normals is Box–Muller: `r·cos(2πt)` (even position), `r·sin(2πt)` (odd), `r = √(−2 ln u)`, with `u` from
//! the first word of the pair and `t` from the second:
//! - f32: `u = (w + ½)·2⁻³²` truncated to 24 significant bits; `t = (top 24 bits + ½)·2⁻²⁴`.
//! - f64: `u = (top 52 bits + ½)·2⁻⁵²`; `t` likewise.
//!
//! `u` and `t` are exact in the element type and never 0 or 1, so a device with only f32 arithmetic can reproduce the
//! result to within 2 ulp: the angle reduces to an octant exactly, and `1 − u` is exact where `ln u` is small.
//!
//! 32-bit and 64-bit kinds number the words of one stream differently, so two draws are independent if their streams
//! differ, or if they are of the same width and their positions do not overlap.

mod engine;
mod normal;

use std::fmt;

use serde::{Deserialize, Serialize};

use engine::{Draw, LANES, Words, fill};

/// A seed, a stream and a starting offset: all that a draw depends on. See the [module](self) for the exact layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Philox {
    /// What the user seeds with: the Philox key.
    pub seed: u64,
    /// Which of 2⁶⁴ independent sequences of that seed: the high half of the counter.
    pub stream: u64,
    /// Position of the draw's element 0, in elements.
    pub offset: u64,
}

/// Parameters that no distribution has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RandomError {
    /// The probability is not in `[0, 1]`.
    Probability(f64),
    /// There is no integer in `[low, high)`.
    EmptyRange {
        /// Lower bound, inclusive.
        low: i64,
        /// Upper bound, exclusive.
        high: i64,
    },
    /// No memory for the sort keys of a permutation of this many elements.
    OutOfMemory(usize),
}

impl fmt::Display for RandomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probability(p) => write!(f, "probability {p} is not between 0 and 1"),
            Self::EmptyRange { low, high } => {
                write!(f, "there is no integer in [{low}, {high}): the upper bound is exclusive and must be larger")
            }
            Self::OutOfMemory(n) => write!(f, "no memory to permute {n} elements"),
        }
    }
}

impl std::error::Error for RandomError {}

/// All methods named `fill_*` write elements `start..start + out.len()` of the draw to `out`: filling a slice in
/// pieces, in any order and on any number of threads, gives the same values as filling it at once.
impl Philox {
    /// Stream 0 of `seed`, from its beginning.
    pub fn new(seed: u64) -> Self {
        Self { seed, stream: 0, offset: 0 }
    }

    /// The same seed and offset on another stream.
    pub fn with_stream(self, stream: u64) -> Self {
        Self { stream, ..self }
    }

    /// The same sequence, `elements` further on.
    pub fn advanced(self, elements: u64) -> Self {
        Self { offset: self.offset.wrapping_add(elements), ..self }
    }

    /// The four words of block `index`; ignores `offset`.
    pub fn block(&self, index: u64) -> [u32; 4] {
        engine::block(self.seed, self.stream, index)
    }

    /// Raw 32-bit words.
    pub fn fill_u32(&self, start: u64, out: &mut [u32]) {
        self.fill_from_u32(start, out, |word| word);
    }

    /// Raw 64-bit words.
    pub fn fill_u64(&self, start: u64, out: &mut [u64]) {
        self.fill_from_u64(start, out, |word| word);
    }

    /// Any function of one 32-bit word for each element.
    pub fn fill_from_u32<T: Copy + Default>(&self, start: u64, out: &mut [T], map: impl Fn(u32) -> T) {
        fill(self, start, out, From32(map));
    }

    /// Any function of one 64-bit word for each element.
    pub fn fill_from_u64<T: Copy + Default>(&self, start: u64, out: &mut [T], map: impl Fn(u64) -> T) {
        fill(self, start, out, From64(map));
    }

    /// Uniform in `[0, 1)`: multiples of 2⁻²⁴.
    pub fn fill_uniform_f32(&self, start: u64, out: &mut [f32]) {
        // Through i32, which has a vector conversion to f32 everywhere.
        self.fill_from_u32(start, out, |word| (word >> 8) as i32 as f32 * (1.0 / (1u32 << 24) as f32));
    }

    /// Uniform in `[0, 1)`: multiples of 2⁻⁵³.
    pub fn fill_uniform_f64(&self, start: u64, out: &mut [f64]) {
        self.fill_from_u64(start, out, |word| (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64));
    }

    /// Standard normal: mean 0, variance 1. Every value is within 1 ulp of the exact formula.
    pub fn fill_normal_f32(&self, start: u64, out: &mut [f32]) {
        fill(self, start, out, normal::Normal32);
    }

    /// Standard normal: mean 0, variance 1.
    pub fn fill_normal_f64(&self, start: u64, out: &mut [f64]) {
        fill(self, start, out, normal::Normal64);
    }

    /// True with the given probability, which is rounded to a multiple of 2⁻³²; 0 and 1 are exact.
    ///
    /// # Errors
    /// [`RandomError::Probability`] if `probability` is NaN or not in `[0, 1]`.
    pub fn fill_bernoulli(&self, start: u64, out: &mut [bool], probability: f64) -> Result<(), RandomError> {
        // Comparing with the largest true word keeps to 32 bits, where the threshold itself may be 2³².
        match bernoulli_threshold(probability)?.checked_sub(1) {
            Some(largest) => self.fill_from_u32(start, out, |word| word <= largest as u32),
            None => out.fill(false),
        }
        Ok(())
    }

    /// Uniform integers in `[low, high)`. The probability of each is off by at most 2⁻⁶⁴.
    ///
    /// # Errors
    /// [`RandomError::EmptyRange`] if `high <= low`.
    pub fn fill_integers(&self, start: u64, out: &mut [i64], low: i64, high: i64) -> Result<(), RandomError> {
        if high <= low {
            return Err(RandomError::EmptyRange { low, high });
        }
        // The difference of two i64 fits u64 once the wrap is undone.
        let width = u128::from(high.wrapping_sub(low) as u64);
        self.fill_from_u64(start, out, |word| low.wrapping_add(((u128::from(word) * width) >> 64) as i64));
        Ok(())
    }

    /// A random permutation of `0..out.len()`: the stable argsort of the draw's 64-bit words.
    ///
    /// # Errors
    /// [`RandomError::OutOfMemory`] if there is no memory for the keys (16 bytes an element).
    pub fn fill_permutation(&self, out: &mut [i64]) -> Result<(), RandomError> {
        let out_of_memory = |_| RandomError::OutOfMemory(out.len());
        let mut words = Vec::new();
        words.try_reserve_exact(out.len()).map_err(out_of_memory)?;
        let mut keyed = Vec::new();
        keyed.try_reserve_exact(out.len()).map_err(out_of_memory)?;
        words.resize(out.len(), 0);
        self.fill_u64(0, &mut words);
        keyed.extend(words.into_iter().zip(0i64..));
        // Pairs are distinct, so an unstable sort of them is the stable sort of the keys.
        keyed.sort_unstable();
        for (slot, (_, index)) in out.iter_mut().zip(keyed) {
            *slot = index;
        }
        Ok(())
    }
}

/// The `threshold` for which `word < threshold` has the given probability over all 32-bit words: 0 to 2³² inclusive.
///
/// # Errors
/// [`RandomError::Probability`] if `probability` is NaN or not in `[0, 1]`.
pub fn bernoulli_threshold(probability: f64) -> Result<u64, RandomError> {
    if !(0.0..=1.0).contains(&probability) {
        return Err(RandomError::Probability(probability));
    }
    Ok((probability * (1u64 << 32) as f64).round() as u64)
}

/// One 32-bit word an element.
struct From32<F>(F);

impl<T: Copy + Default, F: Fn(u32) -> T> Draw for From32<F> {
    type Out = T;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn convert(&self, words: &Words, out: &mut [T]) {
        for (lane, four) in out.as_chunks_mut::<4>().0.iter_mut().enumerate().take(LANES) {
            *four = [0, 1, 2, 3].map(|word| (self.0)(words[word][lane]));
        }
    }
}

/// Two 32-bit words an element, the low half first.
struct From64<F>(F);

impl<T: Copy + Default, F: Fn(u64) -> T> Draw for From64<F> {
    type Out = T;
    const PER_BLOCK: usize = 2;

    #[inline(always)]
    fn convert(&self, words: &Words, out: &mut [T]) {
        for (lane, two) in out.as_chunks_mut::<2>().0.iter_mut().enumerate().take(LANES) {
            *two = [0, 2].map(|word| (self.0)(engine::join(words[word][lane], words[word + 1][lane])));
        }
    }
}

#[cfg(test)]
mod tests;
