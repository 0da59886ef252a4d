//! The Philox rounds over a batch of counters, and the loop that turns batches into a slice of elements.

use super::Philox;

/// Counters computed together: one AVX-512 register, or a few narrower ones.
pub(super) const LANES: usize = 16;

/// Word `w` of the block of lane `l` is `words[w][l]`.
pub(super) type Words = [[u32; LANES]; 4];

const MULTIPLIER_0: u32 = 0xD251_1F53;
const MULTIPLIER_1: u32 = 0xCD9E_8D57;
const WEYL_0: u32 = 0x9E37_79B9;
const WEYL_1: u32 = 0xBB67_AE85;
const ROUNDS: usize = 10;

/// One kind of element: how many a block gives, and how a batch of blocks becomes elements.
pub(super) trait Draw {
    /// The element type.
    type Out: Copy + Default;
    /// Elements of a block: 2 or 4.
    const PER_BLOCK: usize;
    /// Writes the `LANES * PER_BLOCK` elements of a batch in order of position.
    fn convert(&self, words: &Words, out: &mut [Self::Out]);
}

/// The 64-bit word with these halves.
#[inline(always)]
pub(super) fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The Philox 4×32-10 words of the block with this index.
#[inline(always)]
pub(super) fn block(seed: u64, stream: u64, index: u64) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = [index as u32, (index >> 32) as u32, stream as u32, (stream >> 32) as u32];
    let (mut k0, mut k1) = (seed as u32, (seed >> 32) as u32);
    for _ in 0..ROUNDS {
        let p0 = u64::from(MULTIPLIER_0) * u64::from(c0);
        let p1 = u64::from(MULTIPLIER_1) * u64::from(c2);
        [c0, c1, c2, c3] = [(p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32];
        k0 = k0.wrapping_add(WEYL_0);
        k1 = k1.wrapping_add(WEYL_1);
    }
    [c0, c1, c2, c3]
}

/// The words of `LANES` blocks from `first` on; indices wrap after `last`, which is one less than a power of two.
// The loop over lanes is outermost, and its body long, so that it becomes vector code instead of being unrolled.
#[inline(always)]
pub(super) fn words(philox: &Philox, first: u64, last: u64) -> Words {
    let [mut a, mut b, mut c, mut d] = [[0; LANES]; 4];
    for lane in 0..LANES {
        let index = first.wrapping_add(lane as u64) & last;
        [a[lane], b[lane], c[lane], d[lane]] = block(philox.seed, philox.stream, index);
    }
    [a, b, c, d]
}

/// Writes elements `start..start + out.len()` of the draw.
pub(super) fn fill<D: Draw>(philox: &Philox, start: u64, out: &mut [D::Out], draw: D) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has the features that the function enables.
            return unsafe { fill_avx512(philox, start, out, &draw) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature that the function enables.
            return unsafe { fill_avx2(philox, start, out, &draw) };
        }
    }
    fill_lanes(philox, start, out, &draw);
}

// The same code for wider registers. Neither version contracts a product and a sum into a fused operation (Rust never
// does so by itself), so all give the same bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn fill_avx512<D: Draw>(philox: &Philox, start: u64, out: &mut [D::Out], draw: &D) {
    fill_lanes(philox, start, out, draw);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2<D: Draw>(philox: &Philox, start: u64, out: &mut [D::Out], draw: &D) {
    fill_lanes(philox, start, out, draw);
}

#[inline(always)]
fn fill_lanes<D: Draw>(philox: &Philox, start: u64, mut out: &mut [D::Out], draw: &D) {
    let per_block = D::PER_BLOCK as u64;
    let batch = LANES * D::PER_BLOCK;
    // Positions wrap at 2⁶⁴, so block indices wrap where that many elements end.
    let last_block = u64::MAX / per_block;
    let position = philox.offset.wrapping_add(start);
    let mut block = position / per_block;
    let mut skip = (position % per_block) as usize;
    while !out.is_empty() {
        let words = words(philox, block, last_block);
        let written = if skip == 0 && out.len() >= batch {
            draw.convert(&words, &mut out[..batch]);
            batch
        } else {
            let mut all = [D::Out::default(); LANES * 4];
            draw.convert(&words, &mut all[..batch]);
            let wanted = &all[skip..batch];
            let count = wanted.len().min(out.len());
            out[..count].copy_from_slice(&wanted[..count]);
            count
        };
        out = &mut out[written..];
        block = block.wrapping_add(LANES as u64);
        skip = 0;
    }
}
