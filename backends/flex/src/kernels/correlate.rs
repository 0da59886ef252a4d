//! Correlation as a matrix product whose right matrix is never built.
//!
//! The source of each channel is laid out on a grid: padded, and split by stride so that neighbouring outputs read
//! neighbouring cells. On it, the operand of kernel tap `t` is the whole plane shifted by a constant, so that
//! `out[m][p] = Σ weight[m][c, t] · grid[c][offset(t) + p]` with `p` running over the rows of the grid end to end. The few
//! positions between the rows compute values that nobody reads.

use std::ops::Range;

use crate::kernels::float::Float;

/// How one spatial axis maps outputs to the source.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Source coordinate of cell 0, for each of the interleaved parts of the source that taps read.
    starts: Vec<isize>,
    /// Distance of neighbouring cells in the source.
    step: usize,
    /// Extent of the source.
    source: usize,
    /// Cells of a part.
    cells: usize,
    /// What the outputs read.
    taps: Vec<Tap>,
    /// How many outputs.
    outputs: usize,
    /// Where in the result they begin, and their distance there.
    target: (usize, usize),
}

/// A kernel position, and where its operand for output 0 is.
#[derive(Clone, Copy, Debug)]
struct Tap {
    position: usize,
    part: usize,
    cell: usize,
}

/// Extents and parameters of a convolution along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// The convolution's input.
    pub input: usize,
    /// The convolution's output.
    pub output: usize,
    /// The kernel.
    pub kernel: usize,
    /// Distance of windows.
    pub stride: usize,
    /// Zeros before the input.
    pub padding: usize,
    /// Distance of taps.
    pub dilation: usize,
}

impl Extent {
    /// An axis that does nothing, to fill up to three.
    pub const UNIT: Extent = Extent { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    /// The convolution itself: reads the input, writes the output.
    pub fn forward(&self) -> Axis {
        let mut parts: Vec<usize> = (0..self.kernel).map(|k| k * self.dilation % self.stride).collect();
        parts.sort_unstable();
        parts.dedup();
        let tap = |position: usize| {
            let at = position * self.dilation;
            let part = parts.iter().position(|&p| p == at % self.stride).unwrap_or(0);
            Tap { position, part, cell: at / self.stride }
        };
        let taps: Vec<Tap> = (0..self.kernel).map(tap).collect();
        let reach = taps.iter().map(|t| t.cell).max().unwrap_or(0);
        Axis {
            starts: parts.iter().map(|&p| p as isize - self.padding as isize).collect(),
            step: self.stride,
            source: self.input,
            cells: self.output + reach,
            taps,
            outputs: self.output,
            target: (0, 1),
        }
    }

    /// The transposed convolution: reads the output, writes the input. One axis for each remainder by the stride,
    /// because inputs with different remainders see different taps.
    pub fn transposed(&self) -> Vec<Axis> {
        let (stride, padding) = (self.stride as isize, self.padding as isize);
        let axis = |rest: isize| {
            // Input i = j·stride + rest - padding takes from output o = j - (k·dilation - rest) / stride.
            let first = (padding - rest).max(0).div_euclid(stride) + isize::from((padding - rest).max(0) % stride != 0);
            let begin = first * stride + rest - padding;
            let outputs = (self.input as isize - begin).max(0).unsigned_abs().div_ceil(self.stride);
            let shift = |k: usize| ((k * self.dilation) as isize - rest) / stride;
            let seen: Vec<usize> = (0..self.kernel).filter(|k| (k * self.dilation) as isize % stride == rest).collect();
            let most = seen.iter().map(|&k| shift(k)).max().unwrap_or(0);
            let least = seen.iter().map(|&k| shift(k)).min().unwrap_or(0);
            let tap = |&k: &usize| Tap { position: k, part: 0, cell: (most - shift(k)) as usize };
            Axis {
                starts: vec![first - most],
                step: 1,
                source: self.output,
                cells: outputs + (most - least) as usize,
                taps: seen.iter().map(tap).collect(),
                outputs,
                target: (begin.max(0) as usize, self.stride),
            }
        };
        (0..stride).map(axis).filter(|a| a.outputs > 0).collect()
    }
}

impl Axis {
    /// The cells of a part that lie in the source; the others are padding.
    fn inside(&self, part: usize) -> Range<usize> {
        let (start, step) = (self.starts[part], self.step as isize);
        let at = |limit: isize| (limit - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()).min(self.cells);
        let low = at(0);
        low..at(self.source as isize).max(low)
    }

    /// The source coordinate of a cell inside.
    fn coordinate(&self, part: usize, cell: usize) -> isize {
        self.starts[part] + (cell * self.step) as isize
    }
}

/// Elements of one channel or image of the source: anywhere in memory.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a, S> {
    /// All of the memory.
    pub data: &'a [S],
    /// The first element.
    pub offset: isize,
    /// Distance of channels.
    pub channel: isize,
    /// Distances along the spatial axes.
    pub strides: [isize; 3],
}

/// The axes of a correlation, and what follows from them.
#[derive(Clone, Debug)]
pub struct Plan {
    axes: [Axis; 3],
}

impl Plan {
    /// A plan for three spatial axes.
    pub fn new(axes: [Axis; 3]) -> Plan {
        Plan { axes }
    }

    /// Cells of all parts of a channel.
    pub fn plane(&self) -> usize {
        self.axes.iter().map(|a| a.starts.len() * a.cells).product()
    }

    /// From the first position to the last.
    pub fn positions(&self) -> usize {
        let [a, b, c] = &self.axes;
        if self.outputs() == 0 {
            return 0;
        }
        ((a.outputs - 1) * b.cells + b.outputs - 1) * c.cells + c.outputs
    }

    /// How many outputs a channel has.
    pub fn outputs(&self) -> usize {
        self.axes.iter().map(|a| a.outputs).product()
    }

    /// Kernel taps that take part, in row-major order: position in the kernel, and offset in a channel's cells.
    pub fn taps(&self) -> Vec<([usize; 3], usize)> {
        let [a, b, c] = &self.axes;
        let size = a.cells * b.cells * c.cells;
        let mut taps = Vec::with_capacity(a.taps.len() * b.taps.len() * c.taps.len());
        for x in &a.taps {
            for y in &b.taps {
                for z in &c.taps {
                    let position = [x.position, y.position, z.position];
                    let part = (x.part * b.starts.len() + y.part) * c.starts.len() + z.part;
                    taps.push((position, part * size + (x.cell * b.cells + y.cell) * c.cells + z.cell));
                }
            }
        }
        taps
    }

    /// Where the runs of outputs among `positions` are: position relative to its start, place in the result given the
    /// result's extents, length.
    pub fn runs(&self, positions: Range<usize>, extents: [usize; 3]) -> Vec<(usize, usize, usize)> {
        let [a, b, c] = &self.axes;
        let mut runs = Vec::new();
        for row in positions.start / c.cells..positions.end.div_ceil(c.cells) {
            let (i, j) = (row / b.cells, row % b.cells);
            if j >= b.outputs || i >= a.outputs {
                continue;
            }
            let from = positions.start.max(row * c.cells);
            let to = positions.end.min(row * c.cells + c.outputs);
            if from < to {
                let place = |axis: &Axis, at: usize| axis.target.0 + axis.target.1 * at;
                let target = (place(a, i) * extents[1] + place(b, j)) * extents[2] + place(c, from - row * c.cells);
                runs.push((from - positions.start, target, to - from));
            }
        }
        runs
    }

    /// The distance of neighbouring outputs in the result.
    pub fn target_step(&self) -> usize {
        self.axes[2].target.1
    }

    /// Whether the source itself, row-major, is the grid.
    pub fn is_source(&self) -> bool {
        self.axes.iter().all(|a| a.step == 1 && a.starts == [0] && a.cells == a.source)
    }

    /// Extents of a part.
    pub fn cells(&self) -> [usize; 3] {
        [self.axes[0].cells, self.axes[1].cells, self.axes[2].cells]
    }

    /// Lays channels out on the grid, one after the other.
    pub fn fill_channels<S: Float>(&self, source: &Source<'_, S>, channels: usize, grid: &mut [S::Wide]) {
        let plane = self.plane();
        for channel in 0..channels {
            self.fill(source, channel, &mut grid[channel * plane..][..plane]);
        }
    }

    /// Lays a channel out on the grid.
    fn fill<S: Float>(&self, source: &Source<'_, S>, channel: usize, grid: &mut [S::Wide]) {
        let [a, b, c] = &self.axes;
        let base = source.offset + channel as isize * source.channel;
        let zero = S::Wide::default();
        let mut rows = grid.chunks_exact_mut(c.cells.max(1));
        for x in 0..a.starts.len() {
            for y in 0..b.starts.len() {
                for z in 0..c.starts.len() {
                    let (depth, height, width) = (a.inside(x), b.inside(y), c.inside(z));
                    for i in 0..a.cells {
                        for j in 0..b.cells {
                            let Some(row) = rows.next() else { return };
                            if !depth.contains(&i) || !height.contains(&j) || width.is_empty() {
                                row.fill(zero);
                                continue;
                            }
                            let [s, t, u] = source.strides;
                            let start = base
                                + a.coordinate(x, i) * s
                                + b.coordinate(y, j) * t
                                + c.coordinate(z, width.start) * u;
                            row[..width.start].fill(zero);
                            row[width.end..].fill(zero);
                            source.copy(start, u * c.step as isize, &mut row[width.clone()]);
                        }
                    }
                }
            }
        }
    }
}

impl<S: Float> Source<'_, S> {
    /// Copies a row of elements, beginning at the innermost axis' start.
    pub fn row(&self, channel: usize, [i, j]: [usize; 2], row: &mut [S::Wide]) {
        let [s, t, u] = self.strides;
        let start = self.offset + channel as isize * self.channel + i as isize * s + j as isize * t;
        self.copy(start, u, row);
    }

    /// Copies elements `step` apart.
    #[inline]
    fn copy(&self, start: isize, step: isize, row: &mut [S::Wide]) {
        if row.is_empty() {
            return;
        }
        match step {
            1 => S::widen_slice(&self.data[start as usize..][..row.len()], row),
            2.. => {
                let from = self.data[start as usize..].iter().step_by(step as usize);
                row.iter_mut().zip(from).for_each(|(r, s)| *r = s.wide());
            }
            _ => (0..).zip(row).for_each(|(i, r)| *r = self.data[(start + i * step) as usize].wide()),
        }
    }
}
