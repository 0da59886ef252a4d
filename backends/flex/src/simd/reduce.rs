//! Reductions of slices, in an order that depends on the length only: the same result on every CPU of a kind.
//!
//! Many independent lanes keep the arithmetic units busy and the rounding errors small; sums of blocks are added in
//! `f64`.

use super::elementwise::Map2;
use super::math::exp;
use super::uninit::{BLOCK, Block};
use super::{Isa, Kernel, vectorize};

/// Independent accumulators: four vectors of eight `f32`, enough to hide the latency of an addition.
const LANES: usize = 32;

/// Folds `step` over the elements of each lane, then `join` over the lanes.
#[inline(always)]
fn fold_lanes<A: Copy, T: Copy>(xs: &[A], initial: T, step: impl Fn(T, A) -> T, join: impl Fn(T, T) -> T) -> T {
    let mut lanes = [initial; LANES];
    let (chunks, rest) = xs.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, x);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// The sum that `add` makes of the elements, in `f32` lanes and an `f64` total.
#[inline(always)]
pub(super) fn sum_terms(xs: &[f32], add: impl Fn(f32, f32) -> f32) -> f64 {
    let mut total = 0.0;
    for block in xs.chunks(BLOCK) {
        total += fold_lanes(block, 0.0f32, &add, |a, b| a + b) as f64;
    }
    total
}

/// The maximum, NaN if there is one, −∞ of nothing.
#[inline(always)]
pub(super) fn max_lanes(xs: &[f32]) -> f32 {
    fold_lanes(xs, f32::NEG_INFINITY, larger, larger)
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if (a > b) | a.is_nan() { a } else { b }
}

#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if (a < b) | a.is_nan() { a } else { b }
}

/// The sum of e^(x − shift).
#[inline(always)]
pub(super) fn sum_exp<S: Isa>(xs: &[f32], shift: f32) -> f64 {
    let mut space = Block::new();
    let mut total = 0.0;
    for block in xs.chunks(BLOCK) {
        let terms = space.first(block.len());
        for (t, &x) in terms.iter_mut().zip(block) {
            t.write(exp::<S>(x - shift));
        }
        // SAFETY: all were written above.
        total += sum_terms(unsafe { terms.assume_init_mut() }, |sum, x| sum + x);
    }
    total
}

/// The mean, and the mean of the squared deviations from it. NaN of nothing.
///
/// One pass over deviations from a guess, the mean of the first elements; a second one, from the mean itself, where the
/// guess was so far off that the variance would lose digits.
#[inline(always)]
pub(super) fn moments<S: Isa>(xs: &[f32]) -> (f64, f64) {
    let start = &xs[..xs.len().min(LANES)];
    let guess = (sum_terms(start, |sum, x| sum + x) / start.len() as f64) as f32;
    let (mean, variance) = moments_about::<S>(xs, guess);
    let offset = mean - guess as f64;
    if offset * offset <= variance { (mean, variance) } else { moments_about::<S>(xs, mean as f32) }
}

#[inline(always)]
fn moments_about<S: Isa>(xs: &[f32], center: f32) -> (f64, f64) {
    let count = xs.len() as f64;
    let (sum, squares) = deviations::<S>(xs, center);
    // What the center lacks to the mean is the mean of the deviations from it, whose square is part of each squared
    // deviation.
    let offset = sum / count;
    (center as f64 + offset, squares / count - offset * offset)
}

/// The sum of the deviations from `center`, and that of their squares.
#[inline(always)]
fn deviations<S: Isa>(xs: &[f32], center: f32) -> (f64, f64) {
    let (mut sum, mut squares) = (0.0, 0.0);
    for block in xs.chunks(BLOCK) {
        let (mut sums, mut square_sums) = ([0f32; LANES], [0f32; LANES]);
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            for i in 0..LANES {
                let deviation = chunk[i] - center;
                sums[i] += deviation;
                square_sums[i] = S::fma(deviation, deviation, square_sums[i]);
            }
        }
        for (i, x) in rest.iter().enumerate() {
            let deviation = x - center;
            sums[i] += deviation;
            square_sums[i] = S::fma(deviation, deviation, square_sums[i]);
        }
        sum += fold_lanes(&sums, 0.0f32, |a, b| a + b, |a, b| a + b) as f64;
        squares += fold_lanes(&square_sums, 0.0f32, |a, b| a + b, |a, b| a + b) as f64;
    }
    (sum, squares)
}

/// The sum of the elements; round it to `f32`, or go on adding.
pub fn sum(xs: &[f32]) -> f64 {
    struct Sum<'a>(&'a [f32]);
    impl Kernel for Sum<'_> {
        type Output = f64;
        #[inline(always)]
        fn run<S: Isa>(self) -> f64 {
            sum_terms(self.0, |sum, x| sum + x)
        }
    }
    vectorize(Sum(xs))
}

/// The sum of the squares of the elements.
pub fn sum_of_squares(xs: &[f32]) -> f64 {
    struct Squares<'a>(&'a [f32]);
    impl Kernel for Squares<'_> {
        type Output = f64;
        #[inline(always)]
        fn run<S: Isa>(self) -> f64 {
            sum_terms(self.0, |sum, x| S::fma(x, x, sum))
        }
    }
    vectorize(Squares(xs))
}

/// The scalar product of two slices of the same length; panics if they differ.
pub fn dot(xs: &[f32], ys: &[f32]) -> f64 {
    struct Dot<'a>(&'a [f32], &'a [f32]);
    impl Kernel for Dot<'_> {
        type Output = f64;
        #[inline(always)]
        fn run<S: Isa>(self) -> f64 {
            let mut space = Block::new();
            let mut total = 0.0;
            for (xs, ys) in self.0.chunks(BLOCK).zip(self.1.chunks(BLOCK)) {
                let products = space.first(xs.len());
                for ((p, &x), &y) in products.iter_mut().zip(xs).zip(ys) {
                    p.write(x * y);
                }
                // SAFETY: all were written above.
                total += sum_terms(unsafe { products.assume_init_mut() }, |sum, p| sum + p);
            }
            total
        }
    }
    assert_eq!(xs.len(), ys.len(), "operands differ in length");
    vectorize(Dot(xs, ys))
}

/// The maximum: NaN if there is one, −∞ of nothing.
pub fn max(xs: &[f32]) -> f32 {
    fold(larger, f32::NEG_INFINITY, xs)
}

/// The minimum: NaN if there is one, ∞ of nothing.
pub fn min(xs: &[f32]) -> f32 {
    fold(smaller, f32::INFINITY, xs)
}

/// The maximum m and the sum of e^(x − m): what softmax and log-sum-exp are made of.
pub fn max_sum_exp(xs: &[f32]) -> (f32, f64) {
    struct MaxSumExp<'a>(&'a [f32]);
    impl Kernel for MaxSumExp<'_> {
        type Output = (f32, f64);
        #[inline(always)]
        fn run<S: Isa>(self) -> (f32, f64) {
            let max = max_lanes(self.0);
            (max, sum_exp::<S>(self.0, max))
        }
    }
    vectorize(MaxSumExp(xs))
}

/// The mean and the (population) variance; NaN of nothing.
pub fn mean_variance(xs: &[f32]) -> (f64, f64) {
    struct Moments<'a>(&'a [f32]);
    impl Kernel for Moments<'_> {
        type Output = (f64, f64);
        #[inline(always)]
        fn run<S: Isa>(self) -> (f64, f64) {
            moments::<S>(self.0)
        }
    }
    vectorize(Moments(xs))
}

/// Folds an associative and commutative function over a slice, for any element type; `initial` must be its neutral
/// element, and is the result for nothing.
pub fn fold<T: Copy, M: Map2<T, T, T>>(map: M, initial: T, xs: &[T]) -> T {
    struct Fold<'a, T, M>(M, T, &'a [T]);
    impl<T: Copy, M: Map2<T, T, T>> Kernel for Fold<'_, T, M> {
        type Output = T;
        #[inline(always)]
        fn run<S: Isa>(self) -> T {
            fold_lanes(self.2, self.1, |a, b| self.0.apply::<S>(a, b), |a, b| self.0.apply::<S>(a, b))
        }
    }
    vectorize(Fold(map, initial, xs))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in [−1, 1) that repeat after 2³² only.
    pub(super) fn noise(len: usize) -> Vec<f32> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    const LENGTHS: [usize; 9] = [0, 1, 7, 31, 32, 33, 1000, 4097, 100_003];

    #[test]
    fn sums_are_close_to_exact() {
        for len in LENGTHS {
            let (x, y) = (noise(len), noise(len + 1).split_off(1));
            let wide = |f: &dyn Fn(f64, f64) -> f64| -> (f64, f64) {
                let terms = x.iter().zip(&y).map(|(&x, &y)| f(x as f64, y as f64));
                terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
            };
            for (actual, (exact, size)) in [
                (sum(&x), wide(&|x, _| x)),
                (sum_of_squares(&x), wide(&|x, _| x * x)),
                (dot(&x, &y), wide(&|x, y| x * y)),
            ] {
                assert!((actual - exact).abs() <= 1e-7 * size, "{len}: {actual} {exact}");
            }
        }
    }

    #[test]
    fn extremes_agree_with_a_search_and_propagate_nan() {
        for len in LENGTHS {
            let mut x = noise(len);
            assert_eq!(max(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            assert_eq!(min(&x), x.iter().copied().fold(f32::INFINITY, f32::min));
            for i in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|&i| i < len) {
                let old = std::mem::replace(&mut x[i], f32::NAN);
                assert!(max(&x).is_nan() && min(&x).is_nan(), "{len} {i}");
                x[i] = old;
            }
        }
    }

    #[test]
    fn folds_any_type() {
        let x: Vec<i64> = (1..=1000).collect();
        assert_eq!(fold(|a: i64, b: i64| a.wrapping_add(b), 0, &x), 500_500);
        assert_eq!(fold(|a: i64, b: i64| a.max(b), i64::MIN, &x), 1000);
        assert!(fold(|a: bool, b: bool| a & b, true, &[]));
    }

    #[test]
    fn log_sum_exp_and_moments_agree_with_f64() {
        for len in LENGTHS.into_iter().filter(|&len| len > 0) {
            let x: Vec<f32> = noise(len).iter().map(|x| 50.0 * x + 1000.0).collect();
            let (m, s) = max_sum_exp(&x);
            let exact: f64 = x.iter().map(|&x| (x as f64 - m as f64).exp()).sum();
            assert!((s - exact).abs() <= 3e-7 * exact, "{len}: {s} {exact}");

            let (mean, variance) = mean_variance(&x);
            let exact_mean = x.iter().map(|&x| x as f64).sum::<f64>() / len as f64;
            let exact = x.iter().map(|&x| (x as f64 - exact_mean).powi(2)).sum::<f64>() / len as f64;
            assert!((mean - exact_mean).abs() <= 1e-6 * exact_mean.abs(), "{len}: {mean} {exact_mean}");
            assert!((variance - exact).abs() <= 1e-6 * exact + 1e-9, "{len}: {variance} {exact}");
        }
        let (m, s) = max_sum_exp(&[f32::NEG_INFINITY, 0.0]);
        assert_eq!((m, s), (0.0, 1.0));
    }
}
