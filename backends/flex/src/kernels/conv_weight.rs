//! The gradient of a convolution's weight: dot products of the output's gradient with the shifted input.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::conv::ConvBackwardWeight;
use ubique_core::{Result, TensorSpec};

use super::dtype::for_float;
use crate::executor::Context;
use crate::kernels::conv::{GRAIN, Images, extents};
use crate::kernels::correlate::Plan;
use crate::kernels::float::{Float, Wide};
use crate::kernels::product::{Dots, dots_step};

/// Batches are summed in at most this many parts, whatever the number of threads, so that results do not depend on it.
const PARTS: usize = 8;
/// Elements of partial sums that all parts together may have.
const PARTIAL: usize = 1 << 23;
/// Rows of the gradient that make a piece of work, where there are many.
const ROWS: usize = 32;
/// Elements of operands that stay in the second-level cache.
const CACHED: usize = 64 * 1024;

/// The gradient of a convolution's weight.
pub fn conv_backward_weight(
    context: &Context,
    op: &ConvBackwardWeight,
    x: &View,
    g: &View,
    out: &TensorSpec,
) -> Result<Buffer> {
    for_float!(out.dtype, T => run::<T>(context, op, x, g, out))
}

/// What is the same for all pieces of work.
struct Job<'a, S> {
    plan: Plan,
    offsets: Vec<usize>,
    input: Images<'a, S>,
    gradient: Images<'a, S>,
    groups: usize,
    channels: usize,
    /// Rows of the gradient in a group, and in a piece of work.
    rows: usize,
    share: usize,
    /// Images in a part, and in all.
    part: usize,
    images: usize,
    /// Extents of a channel of the gradient.
    plane: [usize; 3],
}

fn run<S: Float>(context: &Context, op: &ConvBackwardWeight, x: &View, g: &View, out: &TensorSpec) -> Result<Buffer> {
    let extents = extents(&op.windows, &x.shape()[2..], &op.kernel, &g.shape()[2..]);
    let plan = Plan::new(extents.map(|e| e.forward()));
    let (cells, taps) = (plan.plane(), plan.taps());
    let (images, channels) = (x.shape()[0], out.shape[1]);
    let rows = out.shape[0] / op.groups;
    let count = out.shape.elements()?;
    let parts = images.min(PARTS).min(PARTIAL / count.max(1)).max(1);
    let share = if rows > ROWS && rows.is_multiple_of(ROWS) { ROWS } else { rows };
    let job = Job {
        offsets: (0..channels).flat_map(|c| taps.iter().map(move |(_, o)| c * cells + o)).collect(),
        plan,
        input: Images::<S>::new(x)?,
        gradient: Images::<S>::new(g)?,
        groups: op.groups,
        channels,
        rows,
        share,
        part: images.div_ceil(parts),
        images,
        plane: extents.map(|e| e.output),
    };
    let mut partial = UninitBuffer::<S::Wide>::new(&context.pool, parts * count)?;
    let partial = partial.fill(S::Wide::default());
    let unit = share * job.offsets.len();
    let work = unit * job.plan.positions() * job.part;
    context.threads.rows(partial, unit, GRAIN.div_ceil(work.max(1)), &|first, sums: &mut [_]| {
        let mut space = Space::new(&job);
        sums.chunks_mut(unit).enumerate().for_each(|(i, sums)| job.piece((first + i) * share, sums, &mut space));
    });
    let (total, others) = partial.split_at_mut(count);
    for other in others.chunks_exact(count.max(1)) {
        total.iter_mut().zip(other).for_each(|(t, &o)| *t += o);
    }
    let mut target = UninitBuffer::<S>::new(&context.pool, count)?;
    S::narrow_slice(total, target.as_mut_slice());
    // SAFETY: `narrow_slice` initialises all of its target.
    Ok(unsafe { target.assume_init() })
}

/// Working memory of a thread.
struct Space<T> {
    grid: Vec<T>,
    gradient: Vec<T>,
    /// Distance of rows of the gradient: its positions, filled up with zeros.
    stride: usize,
}

impl<T: Wide> Space<T> {
    fn new<S: Float<Wide = T>>(job: &Job<'_, S>) -> Space<T> {
        let positions = job.plan.positions();
        let stride = positions.next_multiple_of(dots_step::<T>());
        Space {
            grid: vec![T::default(); job.channels * job.plan.plane() + stride - positions],
            gradient: vec![T::default(); job.share * stride],
            stride,
        }
    }
}

impl<S: Float> Job<'_, S> {
    /// Adds up the sums of some rows over the images of a part; `row` counts through parts, groups and rows.
    fn piece(&self, row: usize, sums: &mut [S::Wide], space: &mut Space<S::Wide>) {
        let (part, row) = (row / (self.groups * self.rows), row % (self.groups * self.rows));
        let group = row / self.rows;
        let step = dots_step::<S::Wide>();
        let block = (CACHED / (self.share + self.channels)).next_multiple_of(step).max(8 * step);
        for image in part * self.part..((part + 1) * self.part).min(self.images) {
            self.plan.fill_channels(&self.input.source(image, group * self.channels), self.channels, &mut space.grid);
            self.lay_out(image, row, space);
            let mut start = 0;
            while start < space.stride {
                let len = block.min(space.stride - start);
                Dots {
                    gradient: &space.gradient[start..],
                    stride: space.stride,
                    rows: self.share,
                    offsets: &self.offsets,
                    grid: &space.grid[start..],
                    sums,
                    len,
                }
                .run();
                start += len;
            }
        }
    }

    /// Puts rows of the gradient where the grid has the positions; zeros stay between them.
    fn lay_out(&self, image: usize, row: usize, space: &mut Space<S::Wide>) {
        let [depth, height, width] = self.plane;
        let [_, rows, columns] = self.plan.cells();
        let source = self.gradient.source(image, row);
        for (channel, target) in space.gradient.chunks_exact_mut(space.stride.max(1)).enumerate() {
            for i in 0..depth {
                for j in 0..height {
                    let at = (i * rows + j) * columns;
                    source.row(channel, [i, j], &mut target[at..at + width]);
                }
            }
        }
    }
}
