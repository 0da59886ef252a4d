//! Sorting of integer keys packed together with places. Packed keys are all different, so any sort of them is a stable
//! sort of the keys. Long slices are sorted by radix, and in parallel by halves that are merged.

use ubique_core::{Error, Result};

use crate::threads::Threads;

/// A key with a place.
pub trait Packed: Copy + Ord + Default + Send + Sync {
    /// The key alone.
    type Key: Copy + std::ops::Not<Output = Self::Key>;
    /// The largest key.
    const LAST: Self::Key;
    /// The key's bits begin here.
    const SHIFT: u32;
    /// The longest slice whose places fit.
    const LONGEST: usize;
    /// Puts a key and a place together.
    fn pack(key: Self::Key, place: usize) -> Self;
    /// The place.
    fn place(self) -> usize;
    /// Eight bits from `shift` on.
    fn digit(self, shift: u32) -> usize;
}

impl Packed for u64 {
    type Key = u32;
    const LAST: u32 = u32::MAX;
    const SHIFT: u32 = 32;
    const LONGEST: usize = u32::MAX as usize;
    #[inline(always)]
    fn pack(key: u32, place: usize) -> u64 {
        (key as u64) << 32 | place as u64
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u32 as usize
    }
    #[inline(always)]
    fn digit(self, shift: u32) -> usize {
        (self >> shift) as u8 as usize
    }
}

impl Packed for u128 {
    type Key = u64;
    const LAST: u64 = u64::MAX;
    const SHIFT: u32 = 64;
    const LONGEST: usize = usize::MAX;
    #[inline(always)]
    fn pack(key: u64, place: usize) -> u128 {
        (key as u128) << 64 | place as u128
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u64 as usize
    }
    #[inline(always)]
    fn digit(self, shift: u32) -> usize {
        (self >> shift) as u8 as usize
    }
}

/// Slices shorter than this are sorted by comparison.
const SHORT: usize = 512;
/// Slices longer than this are sorted by several threads.
const LONG: usize = 128 * 1024;

/// Sorts on one thread: by radix, least digit first, all digits' counts in one pass. `spare` is as long as `data`.
pub fn sort<P: Packed>(data: &mut [P], spare: &mut [P]) {
    if data.len() < SHORT {
        return data.sort_unstable();
    }
    let digits = (size_of::<P>() * 8 - P::SHIFT as usize) / 8;
    let shift = |digit: usize| P::SHIFT + digit as u32 * 8;
    let mut counts = [[0usize; 256]; 8];
    for &packed in data.iter() {
        for (digit, counts) in counts.iter_mut().enumerate().take(digits) {
            counts[packed.digit(shift(digit))] += 1;
        }
    }
    let (mut from, mut to, mut moved) = (data, spare, false);
    for (digit, counts) in counts.iter().enumerate().take(digits) {
        // A digit that is the same everywhere changes nothing.
        if counts.contains(&from.len()) {
            continue;
        }
        let (mut next, mut sum) = ([0usize; 256], 0);
        for (next, count) in next.iter_mut().zip(counts) {
            *next = sum;
            sum += count;
        }
        for &packed in from.iter() {
            let slot = &mut next[packed.digit(shift(digit))];
            to[*slot] = packed;
            *slot += 1;
        }
        (from, to, moved) = (to, from, !moved);
    }
    if moved {
        to.copy_from_slice(from);
    }
}

/// Sorts on all of the device's threads. `spare` is as long as `data`.
pub fn sort_parallel<P: Packed>(threads: &Threads, data: &mut [P], spare: &mut [P]) {
    match threads.count() {
        1 => sort(data, spare),
        count => threads.install(|| halves(data, spare, count.next_power_of_two())),
    }
}

/// Sorts halves in parallel and merges them.
fn halves<P: Packed>(data: &mut [P], spare: &mut [P], pieces: usize) {
    if pieces <= 1 || data.len() < LONG {
        return sort(data, spare);
    }
    let middle = data.len() / 2;
    let (left, right) = data.split_at_mut(middle);
    let (spare_left, spare_right) = spare.split_at_mut(middle);
    rayon::join(|| halves(left, spare_left, pieces / 2), || halves(right, spare_right, pieces / 2));
    merge(left, right, spare, pieces);
    data.copy_from_slice(spare);
}

/// Merges two sorted slices, in parallel by splitting the longer at its middle.
fn merge<P: Packed>(a: &[P], b: &[P], out: &mut [P], pieces: usize) {
    if a.len() < b.len() {
        return merge(b, a, out, pieces);
    }
    if pieces > 1 && out.len() >= LONG {
        let middle = a.len() / 2;
        let cut = b.partition_point(|x| *x < a[middle]);
        let (low, high) = out.split_at_mut(middle + cut);
        let rest = pieces / 2;
        rayon::join(|| merge(&a[..middle], &b[..cut], low, rest), || merge(&a[middle..], &b[cut..], high, rest));
        return;
    }
    let (mut i, mut j) = (0, 0);
    for slot in out {
        let first = j == b.len() || i < a.len() && a[i] < b[j];
        *slot = if first { a[i] } else { b[j] };
        i += first as usize;
        j += !first as usize;
    }
}

/// Room for keys, all of them the default.
///
/// # Errors
/// Where memory cannot be had.
pub fn room<P: Packed>(len: usize, slots: usize) -> Result<Vec<P>> {
    let count = len.checked_mul(slots).ok_or_else(|| Error::shape("the size of the keys to sort overflows"))?;
    let mut keys = Vec::new();
    keys.try_reserve_exact(count).map_err(|e| Error::out_of_memory(format!("keys to sort: {e}")))?;
    keys.resize(count, P::default());
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(len: usize) -> Vec<u64> {
        let mut state = 1u64;
        let next = |place| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            u64::pack((state >> 40) as u32 % 5000, place)
        };
        (0..len).map(next).collect()
    }

    #[test]
    fn sorts_of_every_size_agree_with_the_standard_sort() {
        let threads = Threads::new(Some(4)).unwrap();
        for len in [0, 1, SHORT - 1, SHORT, 5000, LONG - 1, LONG, 3 * LONG + 7] {
            let (data, mut spare) = (keys(len), vec![0; len]);
            let mut expected = data.clone();
            expected.sort();
            let (mut alone, mut together) = (data.clone(), data.clone());
            sort(&mut alone, &mut spare);
            assert!(alone == expected, "{len}");
            sort_parallel(&threads, &mut together, &mut spare);
            assert!(together == expected, "{len}");
            let mut wide: Vec<u128> = data.iter().map(|&k| u128::pack(k >> 32, k.place())).collect();
            sort(&mut wide, &mut vec![0; len]);
            assert!(wide.iter().map(|k| k.place()).eq(expected.iter().map(|k| k.place())), "{len}");
        }
    }
}
