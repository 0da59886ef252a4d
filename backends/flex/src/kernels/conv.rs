//! Convolution, transposed convolution and the gradient of the weight, over up to three spatial axes.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::conv::{Conv, ConvTranspose, Window};
use ubique_core::{Error, Result, TensorSpec};

use super::dtype::for_float;
use crate::executor::Context;
use crate::kernels::correlate::{Extent, Plan, Source};
use crate::kernels::float::{Float, Wide};
use crate::kernels::product::{Block, Tile, pack, tile, write_run};
use crate::memory::elements;

/// Multiplications below which a piece of work stays on one thread.
pub const GRAIN: usize = 1 << 18;
/// Elements of results that are held back before they are written out.
const HELD: usize = 16 * 1024;

/// Whether there is a kernel for this many spatial axes and this dtype.
pub fn supports(windows: &[Window], inputs: &[TensorSpec]) -> bool {
    windows.len() <= 3 && inputs.first().is_some_and(|x| x.dtype.is_float())
}

/// A convolution.
pub fn conv(context: &Context, op: &Conv, operands: &[&View], out: &TensorSpec) -> Result<Buffer> {
    let [x, weight, bias @ ..] = operands else { return Err(Error::backend("conv takes 2 or 3 operands")) };
    let extents = extents(&op.windows, &x.shape()[2..], &weight.shape()[2..], &out.shape[2..]);
    let plans = vec![Plan::new(extents.map(|e| e.forward()))];
    let [rows, channels] = [weight.shape()[0] / op.groups, weight.shape()[1]];
    let job = Job { plans, groups: op.groups, rows, channels, row_axis: 0, plane: extents.map(|e| e.output) };
    job.run_dtype(context, x, weight, bias.first().copied(), out)
}

/// A transposed convolution.
pub fn conv_transpose(context: &Context, op: &ConvTranspose, operands: &[&View], out: &TensorSpec) -> Result<Buffer> {
    let [x, weight, bias @ ..] = operands else { return Err(Error::backend("conv_transpose takes 2 or 3 operands")) };
    let extents = extents(&op.windows, &out.shape[2..], &weight.shape()[2..], &x.shape()[2..]);
    let [a, b, c] = extents.map(|e| e.transposed());
    let mut plans = Vec::new();
    for a in &a {
        for b in &b {
            plans.extend(c.iter().map(|c| Plan::new([a.clone(), b.clone(), c.clone()])));
        }
    }
    let [rows, channels] = [weight.shape()[1], weight.shape()[0] / op.groups];
    let job = Job { plans, groups: op.groups, rows, channels, row_axis: 1, plane: extents.map(|e| e.input) };
    job.run_dtype(context, x, weight, bias.first().copied(), out)
}

/// The last axes' extents, with axes that do nothing before them.
pub fn extents(windows: &[Window], input: &[usize], kernel: &[usize], output: &[usize]) -> [Extent; 3] {
    let skip = 3 - windows.len();
    std::array::from_fn(|axis| match axis.checked_sub(skip) {
        None => Extent::UNIT,
        Some(i) => {
            let Window { stride, padding, dilation } = windows[i];
            Extent { input: input[i], output: output[i], kernel: kernel[i], stride, padding, dilation }
        }
    })
}

/// The last three strides, 0 for axes that are not there.
fn spatial_strides(view: &View) -> [isize; 3] {
    let strides = &view.layout.strides()[2..];
    let skip = 3 - strides.len();
    std::array::from_fn(|axis| axis.checked_sub(skip).map_or(0, |i| strides[i]))
}

/// One operand's images, channels and spatial axes in memory: where they begin, and the distances of each.
#[derive(Clone, Copy)]
pub struct Images<'a, S> {
    data: &'a [S],
    offset: isize,
    image: isize,
    channel: isize,
    strides: [isize; 3],
}

impl<'a, S: Float> Images<'a, S> {
    pub fn new(view: &'a View) -> Result<Images<'a, S>> {
        let strides = view.layout.strides();
        let offset = view.layout.offset() as isize;
        let (image, channel) = (strides[0], strides[1]);
        Ok(Images { data: elements(view)?, offset, image, channel, strides: spatial_strides(view) })
    }

    /// An image from a channel on.
    pub fn source(&self, image: usize, channel: usize) -> Source<'a, S> {
        let offset = self.offset + image as isize * self.image + channel as isize * self.channel;
        Source { data: self.data, offset, channel: self.channel, strides: self.strides }
    }

    /// Whether each channel lies row-major, one after the other, `plane` being the extents.
    fn is_dense(&self, plane: [usize; 3]) -> bool {
        let [_, height, width] = plane.map(|e| e as isize);
        let steps = [height * width, width, 1];
        let fits = |axis: usize| plane[axis] == 1 || self.strides[axis] == steps[axis];
        (0..3).all(fits) && self.channel == plane.iter().product::<usize>() as isize
    }
}

/// A correlation of all images and groups.
struct Job {
    /// Together they write every output once.
    plans: Vec<Plan>,
    groups: usize,
    /// Result channels of a group.
    rows: usize,
    /// Source channels of a group.
    channels: usize,
    /// The weight's axis of result channels: 0, or 1 for the transposed convolution.
    row_axis: usize,
    /// Extents of a result channel.
    plane: [usize; 3],
}

/// A plan with all that does not depend on the image.
struct Prepared<T> {
    plan: Plan,
    /// For each source channel and tap, where its operand begins.
    offsets: Vec<usize>,
    /// For each group, packed.
    weights: Vec<T>,
    /// Positions to compute at a time: start, length, and where they go.
    chunks: Vec<(usize, usize, Vec<(usize, usize, usize)>)>,
}

impl Job {
    fn run_dtype(
        &self,
        context: &Context,
        x: &View,
        weight: &View,
        bias: Option<&View>,
        out: &TensorSpec,
    ) -> Result<Buffer> {
        for_float!(out.dtype, T => self.run::<T>(context, x, weight, bias, out))
    }

    fn run<S: Float>(
        &self,
        context: &Context,
        x: &View,
        weight: &View,
        bias: Option<&View>,
        out: &TensorSpec,
    ) -> Result<Buffer> {
        let mut target = UninitBuffer::<S>::new(&context.pool, out.shape.elements()?)?;
        let images = Images::<S>::new(x)?;
        let bias = match bias {
            Some(view) => {
                let data = elements::<S>(view)?;
                view.layout.positions().map(|p| data[p].wide()).collect()
            }
            None => vec![S::Wide::default(); self.groups * self.rows],
        };
        let tile = tile::<S::Wide>(self.rows);
        let weights = Images::<S>::new(weight)?;
        let prepared: Vec<_> = self.plans.iter().map(|plan| self.prepare(plan, tile, &weights)).collect();
        let plane: usize = self.plane.iter().product();
        let share = self.share(x.shape()[0], tile, context.threads.count());
        let work = prepared.iter().map(|p| p.offsets.len() * p.plan.positions()).sum::<usize>() * share;
        let grain = GRAIN.div_ceil(work.max(1));
        context.threads.rows(target.as_mut_slice(), share * plane, grain, &|first, part: &mut [_]| {
            let mut space = Space::new(&prepared, self.channels, share, tile);
            for (i, results) in part.chunks_mut(share * plane).enumerate() {
                let row = (first + i) * share;
                let (item, row) = (row / self.rows, row % self.rows);
                let bias = &bias[item % self.groups * self.rows + row..][..share];
                self.image(&prepared, tile, &images, item, row, bias, results, &mut space);
            }
        });
        // SAFETY: the plans' outputs together are all of the result.
        Ok(unsafe { target.assume_init() })
    }

    /// How many result channels make a piece of work: all of a group, or fewer where there are too few groups and
    /// images for the threads.
    fn share(&self, images: usize, tile: Tile, threads: usize) -> usize {
        let items = images * self.groups;
        if items >= 2 * threads || threads == 1 || !self.rows.is_multiple_of(tile.rows) {
            return self.rows;
        }
        let panels = self.rows / tile.rows;
        let pieces = (2 * threads).div_ceil(items.max(1)).min(panels).max(1);
        let pieces = (pieces..=panels).find(|&p| panels.is_multiple_of(p)).unwrap_or(1);
        self.rows / pieces
    }

    fn prepare<S: Float>(&self, plan: &Plan, tile: Tile, weight: &Images<'_, S>) -> Prepared<S::Wide> {
        let (taps, cells) = (plan.taps(), plan.plane());
        let offsets = (0..self.channels).flat_map(|c| taps.iter().map(move |(_, o)| c * cells + o)).collect();
        let mut weights =
            Vec::with_capacity(self.groups * self.rows.next_multiple_of(tile.rows) * self.channels * taps.len());
        let position = |at: &[usize; 3]| at.iter().zip(weight.strides).map(|(&p, s)| p as isize * s).sum::<isize>();
        let positions: Vec<isize> = taps.iter().map(|(at, _)| position(at)).collect();
        // Distances of result channels and of source channels.
        let (row, channel) = match self.row_axis {
            0 => (weight.image, weight.channel),
            _ => (weight.channel, weight.image),
        };
        let channels = (0..self.channels as isize).map(|c| c * channel);
        let inner: Vec<isize> = channels.flat_map(|c| positions.iter().map(move |p| c + p)).collect();
        for group in 0..self.groups as isize {
            let axis_0 = if self.row_axis == 0 { self.rows } else { self.channels };
            let start = weight.offset + group * axis_0 as isize * weight.image;
            let rows: Vec<usize> = (0..self.rows as isize).map(|r| (start + r * row) as usize).collect();
            pack(tile, weight.data, &rows, &inner, &mut weights);
        }
        let positions = plan.positions();
        let most = (HELD / self.rows.max(1)).clamp(4 * tile.columns, 512).next_multiple_of(tile.columns);
        let mut chunks = Vec::new();
        let mut done = 0;
        while done < positions {
            // The last chunk ends with the positions and does a few of them again, rather than read beyond them.
            let whole = (positions - done) / tile.columns * tile.columns;
            let len = if whole > 0 { most.min(whole) } else { tile.columns };
            let start = done.min(positions.saturating_sub(len));
            chunks.push((start, len, plan.runs(start..(start + len).min(positions), self.plane)));
            done = start + len;
        }
        Prepared { plan: plan.clone(), offsets, weights, chunks }
    }

    /// Result channels from `row` on of one image and group.
    #[allow(clippy::too_many_arguments, reason = "what is fixed for the op, what for the piece of work, and memory")]
    fn image<S: Float>(
        &self,
        prepared: &[Prepared<S::Wide>],
        tile: Tile,
        images: &Images<'_, S>,
        item: usize,
        row: usize,
        bias: &[S::Wide],
        results: &mut [MaybeUninit<S>],
        space: &mut Space<S::Wide>,
    ) {
        let (image, group) = (item / self.groups, item % self.groups);
        let source = images.source(image, group * self.channels);
        let plane: usize = self.plane.iter().product();
        for (number, part) in prepared.iter().enumerate() {
            let Prepared { plan, offsets, weights, chunks } = part;
            let Space { grid, filled, held } = &mut *space;
            let grid = match self.direct(plan, &source, images, tile) {
                Some(direct) => direct,
                None => {
                    if *filled != Some((item, number)) {
                        plan.fill_channels(&source, self.channels, grid);
                        *filled = Some((item, number));
                    }
                    grid
                }
            };
            let per_row = offsets.len();
            let per_group = self.rows.next_multiple_of(tile.rows) * per_row;
            let rows = bias.len().next_multiple_of(tile.rows);
            let weights = &weights[group * per_group + row * per_row..][..rows * per_row];
            for (start, len, runs) in chunks {
                let held = &mut held[..rows * len];
                Block { tile, weights, offsets, grid, start: *start, len: *len, results: held }.run();
                for ((held, target), &bias) in held.chunks_exact(*len).zip(results.chunks_exact_mut(plane)).zip(bias) {
                    for &(at, to, count) in runs {
                        write_run(&held[at..at + count], bias, plan.target_step(), &mut target[to..]);
                    }
                }
            }
        }
    }

    /// The source itself as the grid, where it lies in memory as the grid would.
    fn direct<'a, S: Float>(
        &self,
        plan: &Plan,
        source: &Source<'a, S>,
        images: &Images<'_, S>,
        tile: Tile,
    ) -> Option<&'a [S::Wide]> {
        if !plan.is_source() || plan.positions() < tile.columns || !images.is_dense(plan.cells()) {
            return None;
        }
        S::as_wide(source.data.get(source.offset as usize..)?.get(..self.channels * plan.plane())?)
    }
}

/// Working memory of a thread.
struct Space<T> {
    grid: Vec<T>,
    /// The item and plan that the grid was filled for.
    filled: Option<(usize, usize)>,
    /// Results before they are written out.
    held: Vec<T>,
}

impl<T: Wide> Space<T> {
    fn new(prepared: &[Prepared<T>], channels: usize, rows: usize, tile: Tile) -> Space<T> {
        let longest = prepared.iter().flat_map(|p| &p.chunks).map(|chunk| chunk.1).max().unwrap_or(0);
        let cells = prepared.iter().map(|p| p.plan.plane()).max().unwrap_or(0);
        Space {
            // Where there are fewer positions than a tile has, it reads beyond them.
            grid: vec![T::default(); channels * cells + tile.columns],
            filled: None,
            held: vec![T::default(); longest * rows.next_multiple_of(tile.rows)],
        }
    }
}
