//! Fused kernels on one row: softmax, normalisation, and accumulation of rows into columns.
//!
//! As in [`elementwise`](super::elementwise), lengths must agree, and targets are initialised entirely.

use super::elementwise::Map2;
use super::math::exp;
use super::reduce::{max_lanes, moments, sum_exp, sum_terms};
use super::uninit::BLOCK;
use super::{Isa, Kernel, prefetch, vectorize};
use std::mem::MaybeUninit;

/// e^x / Σ e^x over the row. A row with +∞, NaN or nothing but −∞ gives NaN.
pub fn softmax_row(source: &[f32], target: &mut [MaybeUninit<f32>]) {
    assert_eq!(source.len(), target.len(), "source and target differ in length");
    vectorize(Softmax { source, target });
}

struct Softmax<'a> {
    source: &'a [f32],
    target: &'a mut [MaybeUninit<f32>],
}

impl Kernel for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let max = max_lanes(self.source);
        let mut total = 0.0;
        for (source, target) in self.source.chunks(BLOCK).zip(self.target.chunks_mut(BLOCK)) {
            for (t, &x) in target.iter_mut().zip(source) {
                t.write(exp::<S>(x - max));
            }
            // SAFETY: all were written above.
            total += sum_terms(unsafe { target.assume_init_mut() }, |sum, x| sum + x);
        }
        let scale = (1.0 / total) as f32;
        // SAFETY: the blocks covered all of the target, which is as long as the source.
        for t in unsafe { self.target.assume_init_mut() } {
            *t *= scale;
        }
    }
}

/// x − ln Σ e^x over the row. A row with +∞, NaN or nothing but −∞ gives NaN.
pub fn log_softmax_row(source: &[f32], target: &mut [MaybeUninit<f32>]) {
    assert_eq!(source.len(), target.len(), "source and target differ in length");
    vectorize(LogSoftmax { source, target });
}

struct LogSoftmax<'a> {
    source: &'a [f32],
    target: &'a mut [MaybeUninit<f32>],
}

impl Kernel for LogSoftmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let max = max_lanes(self.source);
        let log = sum_exp::<S>(self.source, max).ln() as f32;
        for (t, &x) in self.target.iter_mut().zip(self.source) {
            t.write((x - max) - log);
        }
    }
}

/// (x − mean) / √(variance + epsilon) for each row of `len` elements, times `scale` and plus `shift` where given.
pub fn layer_norm_rows(
    source: &[f32],
    len: usize,
    scale: Option<&[f32]>,
    shift: Option<&[f32]>,
    epsilon: f32,
    target: &mut [MaybeUninit<f32>],
) {
    check(source, len, [scale, shift], target);
    vectorize(Norm { source, len, scale, shift, epsilon, target, center: true });
}

/// x / √(mean of x² + epsilon) for each row of `len` elements, times `scale` where given.
pub fn rms_norm_rows(source: &[f32], len: usize, scale: Option<&[f32]>, epsilon: f32, target: &mut [MaybeUninit<f32>]) {
    check(source, len, [scale, None], target);
    vectorize(Norm { source, len, scale, shift: None, epsilon, target, center: false });
}

fn check(source: &[f32], len: usize, factors: [Option<&[f32]>; 2], target: &[MaybeUninit<f32>]) {
    assert_eq!(source.len(), target.len(), "source and target differ in length");
    assert!(source.is_empty() || source.len().is_multiple_of(len), "not whole rows");
    for factor in factors.into_iter().flatten() {
        assert_eq!(factor.len(), len, "scale or shift differs from the row in length");
    }
}

struct Norm<'a> {
    source: &'a [f32],
    len: usize,
    scale: Option<&'a [f32]>,
    shift: Option<&'a [f32]>,
    epsilon: f32,
    target: &'a mut [MaybeUninit<f32>],
    center: bool,
}

impl Kernel for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Norm { source, len, scale, shift, epsilon, target, center } = self;
        let mut next = source;
        for target in target.chunks_mut(len.max(1)) {
            let (row, after) = next.split_at(len);
            next = after;
            let (exact, variance) = match center {
                true => moments::<S>(row),
                false => (0.0, sum_terms(row, |sum, x| S::fma(x, x, sum)) / len as f64),
            };
            let factor = (1.0 / (variance + epsilon as f64).sqrt()) as f32;
            // The mean in two parts: rounding it to f32 would show where values are large and lie close together.
            let mean = exact as f32;
            let rest = (exact - mean as f64) as f32;
            let normal = |x: f32| ((x - mean) - rest) * factor;
            // In pieces, to fetch the next row while this one, which is cached, is worked on.
            for (piece, target) in target.chunks_mut(PIECE).enumerate() {
                let at = piece * PIECE;
                let range = at..at + target.len();
                prefetch(next.get(range.clone()).unwrap_or_default());
                let (scale, shift) = (scale.map(|a| &a[range.clone()]), shift.map(|b| &b[range.clone()]));
                let row = &row[range];
                let pairs = target.iter_mut().zip(row);
                match (scale, shift) {
                    (None, None) => pairs.for_each(|(t, &x)| {
                        t.write(normal(x));
                    }),
                    (Some(scale), None) => pairs.zip(scale).for_each(|((t, &x), &a)| {
                        t.write(normal(x) * a);
                    }),
                    (None, Some(shift)) => pairs.zip(shift).for_each(|((t, &x), &b)| {
                        t.write(normal(x) + b);
                    }),
                    (Some(scale), Some(shift)) => pairs.zip(scale).zip(shift).for_each(|(((t, &x), &a), &b)| {
                        t.write(S::fma(normal(x), a, b));
                    }),
                }
            }
        }
    }
}

/// Elements between two looks ahead.
const PIECE: usize = 64;

/// Replaces `columns[i]` by `map(columns[i], row[i])`: a step of a reduction over rows, for any element type.
pub fn zip_assign<A: Copy, B: Copy, M: Map2<A, B, A>>(map: M, columns: &mut [A], row: &[B]) {
    struct ZipAssign<'a, A, B, M>(M, &'a mut [A], &'a [B]);
    impl<A: Copy, B: Copy, M: Map2<A, B, A>> Kernel for ZipAssign<'_, A, B, M> {
        type Output = ();
        #[inline(always)]
        fn run<S: Isa>(self) {
            for (c, &r) in self.1.iter_mut().zip(self.2) {
                *c = self.0.apply::<S>(*c, r);
            }
        }
    }
    assert_eq!(columns.len(), row.len(), "columns and row differ in length");
    vectorize(ZipAssign(map, columns, row));
}

/// Adds a row to the sums of columns.
pub fn add_assign(columns: &mut [f32], row: &[f32]) {
    zip_assign(|sum: f32, x: f32| sum + x, columns, row);
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row<'a> = dyn Fn(&[f32], &mut [MaybeUninit<f32>]) + 'a;

    fn run(f: &Row<'_>, source: &[f32]) -> Vec<f32> {
        let mut target = vec![MaybeUninit::uninit(); source.len()];
        f(source, &mut target);
        // SAFETY: row kernels initialise their target.
        target.into_iter().map(|x| unsafe { x.assume_init() }).collect()
    }

    fn row(len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7919) % 1009) as f32 / 40.0 - 12.0).collect()
    }

    fn assert_close(actual: &[f32], exact: impl Iterator<Item = f64>, tolerance: f64) {
        for (i, (&a, e)) in actual.iter().zip(exact).enumerate() {
            assert!((a as f64 - e).abs() <= tolerance * e.abs().max(1e-30), "element {i} of {}: {a} {e}", actual.len());
        }
    }

    const LENGTHS: [usize; 8] = [0, 1, 2, 31, 33, 128, 1000, 5000];

    #[test]
    fn softmax_agrees_with_f64() {
        for x in LENGTHS.map(row) {
            let total: f64 = x.iter().map(|&x| (x as f64).exp()).sum();
            // Rounding x − max, up to 26, costs 1e-6 of its exponential.
            assert_close(&run(&softmax_row, &x), x.iter().map(|&x| (x as f64).exp() / total), 1.5e-6);
            for (&a, &x) in run(&log_softmax_row, &x).iter().zip(&x) {
                let exact = x as f64 - total.ln();
                assert!((a as f64 - exact).abs() <= 2e-7 * (1.0 + exact.abs()), "{a} {exact}");
            }
        }
    }

    #[test]
    fn softmax_of_extremes() {
        let inf = f32::INFINITY;
        assert_eq!(run(&softmax_row, &[-inf, 3.0]), [0.0, 1.0]);
        assert_eq!(run(&softmax_row, &[f32::MAX, -f32::MAX]), [1.0, 0.0]);
        assert_eq!(run(&log_softmax_row, &[-inf, 3.0]), [-inf, 0.0]);
        for x in [[-inf, -inf], [inf, 0.0], [f32::NAN, 0.0]] {
            assert!(run(&softmax_row, &x).iter().any(|x| x.is_nan()), "{x:?}");
        }
    }

    #[test]
    fn norms_agree_with_f64() {
        for x in LENGTHS.map(row) {
            let (count, epsilon) = (x.len() as f64, 1e-5f32);
            let scale: Vec<f32> = (0..x.len()).map(|i| 1.0 + i as f32 / 64.0).collect();
            let shift = vec![100.0; x.len()];
            let mean = x.iter().map(|&x| x as f64).sum::<f64>() / count;
            let variance = x.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / count;
            let square = x.iter().map(|&x| (x as f64).powi(2)).sum::<f64>() / count;
            let normal = |x: f32| (x as f64 - mean) / (variance + epsilon as f64).sqrt();

            let norm = |a, b| run(&|s, t| layer_norm_rows(s, s.len(), a, b, epsilon, t), &x);
            let near = |actual: &[f32], exact: Vec<f64>| {
                for ((&a, e), &s) in actual.iter().zip(exact).zip(&scale) {
                    assert!((a as f64 - e).abs() <= 5e-7 * (s as f64 + e.abs()), "{}: {a} {e}", x.len());
                }
            };
            let scaled = || x.iter().zip(&scale).map(|(&x, &a)| normal(x) * a as f64);
            near(&norm(None, None), x.iter().map(|&x| normal(x)).collect());
            near(&norm(Some(&scale), None), scaled().collect());
            near(&norm(None, Some(&shift)), x.iter().map(|&x| normal(x) + 100.0).collect());
            near(&norm(Some(&scale), Some(&shift)), scaled().map(|y| y + 100.0).collect());

            let root = (square + epsilon as f64).sqrt();
            let rms = |a| run(&|s, t| rms_norm_rows(s, s.len(), a, epsilon, t), &x);
            assert_close(&rms(None), x.iter().map(|&x| x as f64 / root), 1e-6);
            assert_close(&rms(Some(&scale)), x.iter().zip(&scale).map(|(&x, &a)| x as f64 / root * a as f64), 1e-6);
        }
    }

    #[test]
    fn columns_accumulate() {
        let mut sums = row(100);
        add_assign(&mut sums, &row(100));
        assert_eq!(sums, row(100).iter().map(|x| x + x).collect::<Vec<f32>>());
        let mut counts = vec![250u8; 40];
        zip_assign(|a: u8, b: u8| a.wrapping_add(b), &mut counts, &[10; 40]);
        assert_eq!(counts, [4; 40]);
    }
}
