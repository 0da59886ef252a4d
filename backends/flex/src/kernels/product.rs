//! The inner loops of convolution: products of packed weights with shifted grids, in registers.

use std::mem::MaybeUninit;

use crate::kernels::float::{Float, Wide};
use crate::simd::{Isa, Kernel, Level, vectorize};

/// Register tiles: rows and columns of results that are accumulated at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows (channels).
    pub rows: usize,
    /// Columns (positions).
    pub columns: usize,
}

/// The tile that suits the CPU for results of this many rows.
pub fn tile<T: Wide>(rows: usize) -> Tile {
    let wide = Level::current() == Level::Avx512;
    match (rows, wide) {
        (1, _) => Tile { rows: 1, columns: 8 * T::LANES },
        (_, false) => Tile { rows: 4, columns: 2 * T::LANES },
        (_, true) => Tile { rows: 8, columns: 4 * T::LANES },
    }
}

/// Taps that are multiplied before results go back to memory: their weights stay in the first-level cache.
const DEPTH: usize = 256;

/// A block of results: some panels of rows at a range of positions.
#[derive(Debug)]
pub struct Block<'a, T> {
    /// The register tile that the weights are packed for.
    pub tile: Tile,
    /// For each panel of `tile.rows` rows, for each tap, the rows' weights.
    pub weights: &'a [T],
    /// For each tap, where its operand begins in the grid.
    pub offsets: &'a [usize],
    /// The source.
    pub grid: &'a [T],
    /// The first position.
    pub start: usize,
    /// How many positions; a multiple of `tile.columns`.
    pub len: usize,
    /// Results: for each panel `tile.rows` rows of `len` elements. Overwritten.
    pub results: &'a mut [T],
}

impl<T: Wide> Block<'_, T> {
    /// Computes the results.
    pub fn run(self) {
        let Tile { rows, columns } = self.tile;
        let panels = self.results.len() / (rows * self.len).max(1);
        assert!(self.len.is_multiple_of(columns), "columns of results");
        assert_eq!(self.weights.len(), panels * rows * self.offsets.len(), "weights of the rows");
        let end = self.offsets.iter().max().map_or(0, |o| o + self.start + self.len);
        assert!(end <= self.grid.len(), "a tap reads beyond the grid");
        // The constants are the tiles' shape in vectors of 32 bytes (64 with AVX-512). Larger ones the compiler would
        // not unroll, and then not keep in registers.
        let wide = Level::current() == Level::Avx512;
        match (rows, T::LANES, wide) {
            (1, 8, false) => vectorize(Run::<T, 1, 8, 8>(self)),
            (1, 8, true) => vectorize(Run::<T, 1, 4, 16>(self)),
            (1, _, false) => vectorize(Run::<T, 1, 8, 4>(self)),
            (1, _, true) => vectorize(Run::<T, 1, 4, 8>(self)),
            (4, 8, _) => vectorize(Run::<T, 4, 2, 8>(self)),
            (4, ..) => vectorize(Run::<T, 4, 2, 4>(self)),
            (_, 8, _) => vectorize(Run::<T, 8, 2, 16>(self)),
            _ => vectorize(Run::<T, 8, 2, 8>(self)),
        }
    }
}

struct Run<'a, T, const R: usize, const V: usize, const L: usize>(Block<'a, T>);

impl<T: Wide, const R: usize, const V: usize, const L: usize> Kernel for Run<'_, T, R, V, L> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Block { weights, offsets, grid, start, len, results, .. } = self.0;
        let taps = offsets.len();
        if taps == 0 {
            results.fill(T::default());
            return;
        }
        for begin in (0..taps).step_by(DEPTH) {
            let depth = DEPTH.min(taps - begin);
            let offsets = &offsets[begin..begin + depth];
            let panels = weights.chunks_exact(R * taps).zip(results.chunks_exact_mut(R * len));
            for (panel, results) in panels {
                let (weights, _) = panel[R * begin..R * (begin + depth)].as_chunks::<R>();
                for column in (0..len).step_by(V * L) {
                    // SAFETY: `Block::run` checked that all taps stay within the grid up to `len` positions from
                    // `start`, and that results have R rows of `len`, of which V·L columns are left at `column`.
                    unsafe {
                        let source = grid.as_ptr().add(start + column);
                        let target = results.as_mut_ptr().add(column);
                        multiply::<S, T, R, V, L>(weights, offsets, source, target, len, begin > 0);
                    }
                }
            }
        }
    }
}

/// `target[r][c] = Σ weights[t][r] · source[offsets[t] + c]`, or adds that to `target`.
///
/// # Safety
/// `V·L` elements are readable at each offset from `source`, and at R rows `stride` apart writable at `target`, and
/// initialised where `add`.
#[inline(always)]
unsafe fn multiply<S: Isa, T: Wide, const R: usize, const V: usize, const L: usize>(
    weights: &[[T; R]],
    offsets: &[usize],
    source: *const T,
    target: *mut T,
    stride: usize,
    add: bool,
) {
    let mut sums = [[[T::default(); L]; V]; R];
    if add {
        for (r, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: by the caller's promise.
                *sum = unsafe { target.add(r * stride + v * L).cast::<[T; L]>().read() };
            }
        }
    }
    for (weights, &offset) in weights.iter().zip(offsets) {
        let mut operand = [[T::default(); L]; V];
        for (v, operand) in operand.iter_mut().enumerate() {
            // SAFETY: by the caller's promise.
            *operand = unsafe { source.add(offset + v * L).cast::<[T; L]>().read() };
        }
        for r in 0..R {
            for v in 0..V {
                for l in 0..L {
                    sums[r][v][l] = S::fma(weights[r], operand[v][l], sums[r][v][l]);
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (v, sum) in sums.iter().enumerate() {
            // SAFETY: by the caller's promise.
            unsafe { target.add(r * stride + v * L).cast::<[T; L]>().write(*sum) };
        }
    }
}

/// Packs weights for [`Block`]: for each panel of rows, for each tap, the rows' weights, filled up with zeros.
/// `rows` are where the rows' weights begin, and `taps` where those of the taps are from there.
pub fn pack<S: Float>(tile: Tile, data: &[S], rows: &[usize], taps: &[isize], packed: &mut Vec<S::Wide>) {
    for panel in rows.chunks(tile.rows) {
        for tap in taps {
            packed.extend(panel.iter().map(|row| data[row.wrapping_add_signed(*tap)].wide()));
            packed.extend(std::iter::repeat_n(S::Wide::default(), tile.rows - panel.len()));
        }
    }
}

/// Results of correlating gradients with a grid: `sums[m][t] += Σ_p gradient[m][p] · grid[offsets[t] + p]`.
#[derive(Debug)]
pub struct Dots<'a, T> {
    /// Rows of `stride` elements.
    pub gradient: &'a [T],
    /// Distance of rows.
    pub stride: usize,
    /// How many rows.
    pub rows: usize,
    /// For each tap, where its operand begins in the grid.
    pub offsets: &'a [usize],
    /// The source.
    pub grid: &'a [T],
    /// Sums, a row of `offsets.len()` for each row of the gradient.
    pub sums: &'a mut [T],
    /// Positions; a multiple of [`dots_step`].
    pub len: usize,
}

/// What [`Dots::len`] must be a multiple of.
pub fn dots_step<T: Wide>() -> usize {
    if Level::current() == Level::Avx512 { 2 * T::LANES } else { T::LANES }
}

impl<T: Wide> Dots<'_, T> {
    /// Adds the products to the sums.
    pub fn run(self) {
        let step = dots_step::<T>();
        assert!(self.len.is_multiple_of(step) && self.len <= self.stride, "positions of a row");
        assert!(self.gradient.len() >= (self.rows.max(1) - 1) * self.stride + self.len, "rows of the gradient");
        assert!(self.sums.len() >= self.rows * self.offsets.len(), "sums");
        assert!(self.offsets.iter().all(|o| o + self.len <= self.grid.len()), "a tap reads beyond the grid");
        match (self.rows, step) {
            (1, 16) => vectorize(RunDots::<T, 1, 5, 16>(self)),
            (1, 8) => vectorize(RunDots::<T, 1, 5, 8>(self)),
            (1, _) => vectorize(RunDots::<T, 1, 5, 4>(self)),
            (_, 16) => vectorize(RunDots::<T, 4, 4, 16>(self)),
            (_, 8) => vectorize(RunDots::<T, 4, 2, 8>(self)),
            _ => vectorize(RunDots::<T, 4, 2, 4>(self)),
        }
    }
}

struct RunDots<'a, T, const I: usize, const J: usize, const L: usize>(Dots<'a, T>);

impl<T: Wide, const I: usize, const J: usize, const L: usize> Kernel for RunDots<'_, T, I, J, L> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Dots { gradient, stride, rows, offsets, grid, sums, len } = self.0;
        let taps = offsets.len();
        for tap in (0..taps).step_by(J) {
            // Beyond the last row or tap, the last one is computed again and dropped.
            let mut right = [0; J];
            for (j, right) in right.iter_mut().enumerate() {
                *right = offsets[(tap + j).min(taps - 1)];
            }
            for row in (0..rows).step_by(I) {
                let mut left = [0; I];
                for (i, left) in left.iter_mut().enumerate() {
                    *left = (row + i).min(rows - 1) * stride;
                }
                // SAFETY: `Dots::run` checked that all rows and taps have `len` elements, a multiple of L.
                let dots = unsafe { dots::<S, T, I, J, L>(gradient.as_ptr(), left, grid.as_ptr(), right, len) };
                for (i, dots) in dots.iter().enumerate().take(rows - row) {
                    for (j, dot) in dots.iter().enumerate().take(taps - tap) {
                        sums[(row + i) * taps + tap + j] += *dot;
                    }
                }
            }
        }
    }
}

/// The dot products of I vectors with J vectors of `len` elements.
///
/// # Safety
/// All vectors are readable, and `len` is a multiple of L.
#[inline(always)]
unsafe fn dots<S: Isa, T: Wide, const I: usize, const J: usize, const L: usize>(
    a: *const T,
    left: [usize; I],
    b: *const T,
    right: [usize; J],
    len: usize,
) -> [[T; J]; I] {
    let mut sums = [[[T::default(); L]; J]; I];
    for p in (0..len).step_by(L) {
        let mut x = [[T::default(); L]; J];
        for (x, right) in x.iter_mut().zip(right) {
            // SAFETY: by the caller's promise.
            *x = unsafe { b.add(right + p).cast::<[T; L]>().read() };
        }
        for i in 0..I {
            // SAFETY: by the caller's promise.
            let y = unsafe { a.add(left[i] + p).cast::<[T; L]>().read() };
            for j in 0..J {
                for l in 0..L {
                    sums[i][j][l] = S::fma(y[l], x[j][l], sums[i][j][l]);
                }
            }
        }
    }
    // Loops rather than closures, which might not be inlined and would then keep all sums in memory.
    let mut totals = [[T::default(); J]; I];
    for i in 0..I {
        for j in 0..J {
            totals[i][j] = sum_lanes(sums[i][j]);
        }
    }
    totals
}

/// The sum of a vector, by halves.
#[inline(always)]
fn sum_lanes<T: Wide, const L: usize>(mut lanes: [T; L]) -> T {
    let mut half = L / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Writes a row of results into the output: `target[i·step] = results[i] + bias`.
pub fn write_run<S: Float>(results: &[S::Wide], bias: S::Wide, step: usize, target: &mut [MaybeUninit<S>]) {
    let write = |(t, &r): (&mut MaybeUninit<S>, &S::Wide)| {
        t.write(S::narrow(r + bias));
    };
    match step {
        // A loop of its own, which vectorises.
        1 => target.iter_mut().zip(results).for_each(write),
        _ => target.iter_mut().step_by(step).zip(results).for_each(write),
    }
}
