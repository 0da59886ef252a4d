//! Images sampled at points of a grid, and the gradients of that: places and weights of a block of points once, for all
//! channels.

use std::mem::MaybeUninit;
use std::ops::Range;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::grid_sample::{Extents, GridSample, Outside, Places, Sampling};
use ubique_core::{Result, TensorSpec};

use super::fused::floats;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::Shared;
use crate::simd::{Isa, Kernel, vectorize};

/// Points worked on at once: what is known of them stays in the first-level cache.
const BLOCK: usize = 256;

/// Whether the places in an image can be counted in 32 bits.
pub fn supports(image: &TensorSpec) -> bool {
    let plane = image.shape.iter().skip(2).try_fold(1usize, |elements, &extent| elements.checked_mul(extent));
    plane.is_some_and(|elements| elements < i32::MAX as usize)
}

/// An axis as the kernels see it; [`Places`] in f32.
#[derive(Clone, Copy)]
struct Axis {
    scale: f32,
    shift: f32,
    /// The first mirror, and the distance of the second.
    low: f32,
    room: f32,
    last: f32,
    extent: i32,
    outside: Outside,
}

impl Axis {
    fn new(places: Places, extent: usize) -> Axis {
        let Places { scale, shift, mirrors: [low, high], last, outside } = places;
        let [scale, shift, low, room, last] = [scale, shift, low, high - low, last].map(|value| value as f32);
        Axis { scale, shift, low, room, last, extent: extent as i32, outside }
    }

    /// The place of a number, and how it moves with it.
    #[inline(always)]
    fn place(&self, number: f32) -> (f32, f32) {
        let at = number * self.scale + self.shift;
        if self.outside == Outside::Zeros {
            return (at, self.scale);
        }
        let (at, slope) = if self.outside == Outside::Border { (at, self.scale) } else { self.reflect(at) };
        let beyond = at < 0.0 || at > self.last;
        (at.clamp(0.0, self.last), if beyond { 0.0 } else { slope })
    }

    fn reflect(&self, at: f32) -> (f32, f32) {
        if self.room == 0.0 {
            return (0.0, 0.0);
        }
        let there = (at - self.low).rem_euclid(2.0 * self.room);
        match there > self.room {
            true => (2.0 * self.room - there + self.low, -self.scale),
            false => (there + self.low, self.scale),
        }
    }
}

/// What is known of a block of points. A point has four neighbours: two places along each axis.
struct Block {
    /// The first element of each neighbour's row in a plane, and its column; 0 where it lies outside.
    elements: [[u32; BLOCK]; 4],
    /// All bits where the neighbour lies inside, else none.
    inside: [[u32; BLOCK]; 4],
    /// The weight of the upper neighbour along x and y.
    parts: [[f32; BLOCK]; 2],
    /// How the place along x and y moves with the grid's number.
    slopes: [[f32; BLOCK]; 2],
}

impl Block {
    fn new() -> Block {
        Block {
            elements: [[0; BLOCK]; 4],
            inside: [[0; BLOCK]; 4],
            parts: [[0.0; BLOCK]; 2],
            slopes: [[0.0; BLOCK]; 2],
        }
    }

    /// Looks at points `x, y, x, y, ..`, at most [`BLOCK`].
    #[inline(always)]
    fn look(&mut self, [xs, ys]: [Axis; 2], sampling: Sampling, points: &[f32]) {
        for (i, pair) in points.as_chunks::<2>().0.iter().take(BLOCK).enumerate() {
            let ((x, slope_x), (y, slope_y)) = (xs.place(pair[0]), ys.place(pair[1]));
            // Further out, and where it is no number, a point sees nothing of the image.
            let seen = x > -1.0 && x < xs.extent as f32 && y > -1.0 && y < ys.extent as f32;
            let (x, y) = if seen { (x, y) } else { (-2.0, -2.0) };
            let (low_x, low_y) = match sampling {
                Sampling::Bilinear => (x.floor(), y.floor()),
                Sampling::Nearest => (x.round_ties_even(), y.round_ties_even()),
            };
            (self.parts[0][i], self.parts[1][i]) = (x - low_x, y - low_y);
            (self.slopes[0][i], self.slopes[1][i]) = (slope_x, slope_y);
            let (column, row) = (low_x as i32, low_y as i32);
            for (corner, (row, column)) in
                [(row, column), (row, column + 1), (row + 1, column), (row + 1, column + 1)].into_iter().enumerate()
            {
                let inside = (row as u32) < ys.extent as u32 && (column as u32) < xs.extent as u32;
                self.elements[corner][i] = if inside { (row * xs.extent + column) as u32 } else { 0 };
                self.inside[corner][i] = if inside { u32::MAX } else { 0 };
            }
        }
    }

    /// What a point sees of a neighbour in a plane of the image.
    ///
    /// # Safety
    /// The plane has the extents of the axes that the block was looked at with.
    #[inline(always)]
    unsafe fn value(&self, plane: &[f32], corner: usize, i: usize) -> f32 {
        // SAFETY: elements lie inside the plane, as the caller promises.
        let value = unsafe { *plane.get_unchecked(self.elements[corner][i] as usize) };
        // A neighbour outside counts nothing, even where the element that stands in for it is infinite.
        f32::from_bits(value.to_bits() & self.inside[corner][i])
    }

    /// The weights of the four neighbours.
    #[inline(always)]
    fn weights(&self, i: usize) -> [f32; 4] {
        let [x, y] = [self.parts[0][i], self.parts[1][i]];
        [(1.0 - x) * (1.0 - y), x * (1.0 - y), (1.0 - x) * y, x * y]
    }
}

/// The operands.
struct Images<'a> {
    op: GridSample,
    extents: Extents,
    axes: [Axis; 2],
    image: &'a [f32],
    points: &'a [f32],
}

impl<'a> Images<'a> {
    fn new(op: &GridSample, views: &'a [View]) -> Result<Images<'a>> {
        let spec = |view: &View| TensorSpec::new(view.shape(), view.dtype);
        let extents = Extents::new(&spec(&views[0]), &spec(&views[1]))?;
        let axes = [extents.width, extents.height].map(|extent| Axis::new(op.places(extent), extent));
        Ok(Images { op: *op, extents, axes, image: floats(&views[0])?, points: floats(&views[1])? })
    }

    fn plane(&self, number: usize) -> &'a [f32] {
        let size = self.extents.height * self.extents.width;
        &self.image[number * size..][..size]
    }

    /// The points of an image in a range.
    fn points(&self, image: usize, range: Range<usize>) -> &'a [f32] {
        let start = image * self.extents.points;
        &self.points[2 * (start + range.start)..2 * (start + range.end)]
    }

    /// Calls `f` with every image and every range of at most [`BLOCK`] of its points, in parallel.
    fn blocks(&self, context: &Context, f: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let Extents { batch, channels, points, .. } = self.extents;
        let of_image = points.div_ceil(BLOCK);
        let grain = (GRAIN / 4 / BLOCK / channels.max(1)).max(1);
        context.threads.ranges(batch * of_image, grain, &|range| {
            for number in range {
                let (image, block) = (number / of_image, number % of_image);
                f(image, block * BLOCK..((block + 1) * BLOCK).min(points));
            }
        });
    }
}

/// The image at the points.
pub fn forward(context: &Context, op: &GridSample, views: &[View], out: &TensorSpec) -> Result<Buffer> {
    let images = Images::new(op, views)?;
    let mut out = UninitBuffer::<f32>::new(&context.pool, out.shape.elements()?)?;
    let target = Shared::new(out.as_mut_slice());
    images.blocks(context, &|image, range| vectorize(Forward { images: &images, image, range, target }));
    // SAFETY: the blocks are all points, and each is written in every channel.
    Ok(unsafe { out.assume_init() })
}

struct Forward<'a> {
    images: &'a Images<'a>,
    image: usize,
    range: Range<usize>,
    target: Shared<'a, MaybeUninit<f32>>,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Forward { images, image, range, target } = self;
        let Extents { channels, points, .. } = images.extents;
        let mut block = Block::new();
        block.look(images.axes, images.op.sampling, images.points(image, range.clone()));
        let mut weights = [[0f32; BLOCK]; 4];
        (0..range.len()).for_each(|i| {
            let of_point = block.weights(i);
            (0..4).for_each(|corner| weights[corner][i] = of_point[corner]);
        });
        for channel in 0..channels {
            let number = image * channels + channel;
            let plane = images.plane(number);
            let start = number * points;
            // SAFETY: each block of each plane is one thread's.
            let out = unsafe { target.part(start + range.start..start + range.end) };
            for (i, slot) in out.iter_mut().enumerate() {
                // SAFETY: the plane has the image's extents.
                let value = |corner| unsafe { block.value(plane, corner, i) };
                slot.write(match images.op.sampling {
                    Sampling::Nearest => value(0),
                    Sampling::Bilinear => {
                        let sum = S::fma(value(1), weights[1][i], value(0) * weights[0][i]);
                        S::fma(value(3), weights[3][i], S::fma(value(2), weights[2][i], sum))
                    }
                });
            }
        }
    }
}

/// The gradients of image and grid; the last operand is that of the result.
pub fn backward(context: &Context, op: &GridSample, views: &[View]) -> Result<Vec<Buffer>> {
    let images = Images::new(op, views)?;
    let g = floats(&views[2])?;
    let mut slopes = UninitBuffer::<f32>::new(&context.pool, images.points.len())?;
    let target = Shared::new(slopes.as_mut_slice());
    images.blocks(context, &|image, range| vectorize(Slopes { images: &images, g, image, range, target }));
    let mut pixels = UninitBuffer::<f32>::new(&context.pool, images.image.len())?;
    let size = images.extents.height * images.extents.width;
    let grain = (GRAIN / 4 / images.extents.points.max(1)).max(1);
    context.threads.rows(pixels.fill(0.0), size, grain, &|first, planes| {
        vectorize(Pixels { images: &images, g, first, planes, size });
    });
    // SAFETY: the blocks are all points, and the pixels were filled.
    Ok(unsafe { vec![pixels.assume_init(), slopes.assume_init()] })
}

/// How the weighted result changes with the points of a block.
struct Slopes<'a> {
    images: &'a Images<'a>,
    g: &'a [f32],
    image: usize,
    range: Range<usize>,
    target: Shared<'a, MaybeUninit<f32>>,
}

impl Kernel for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Slopes { images, g, image, range, target } = self;
        let Extents { channels, points, .. } = images.extents;
        let mut block = Block::new();
        block.look(images.axes, images.op.sampling, images.points(image, range.clone()));
        let mut sums = [[0f32; BLOCK]; 2];
        for channel in 0..channels {
            let number = image * channels + channel;
            let plane = images.plane(number);
            let g = &g[number * points..][range.clone()];
            for (i, &g) in g.iter().enumerate() {
                // SAFETY: the plane has the image's extents.
                let [a, b, c, d] = [0, 1, 2, 3].map(|corner| unsafe { block.value(plane, corner, i) });
                let (x, y) = (block.parts[0][i], block.parts[1][i]);
                sums[0][i] = S::fma(g, (b - a) * (1.0 - y) + (d - c) * y, sums[0][i]);
                sums[1][i] = S::fma(g, (c - a) * (1.0 - x) + (d - b) * x, sums[1][i]);
            }
        }
        let start = image * points;
        // SAFETY: each block of points is one thread's.
        let out = unsafe { target.part(2 * (start + range.start)..2 * (start + range.end)) };
        for (i, pair) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            for (axis, slot) in pair.iter_mut().enumerate() {
                slot.write(match images.op.sampling {
                    Sampling::Nearest => 0.0,
                    Sampling::Bilinear => sums[axis][i] * block.slopes[axis][i],
                });
            }
        }
    }
}

/// Adds what the points of whole planes see to the elements that they see it of.
struct Pixels<'a> {
    images: &'a Images<'a>,
    g: &'a [f32],
    first: usize,
    planes: &'a mut [f32],
    size: usize,
}

impl Kernel for Pixels<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        let Pixels { images, g, first, planes, size } = self;
        let Extents { channels, points, .. } = images.extents;
        let mut block = Block::new();
        let count = planes.len() / size;
        let mut number = 0;
        while number < count {
            // The planes of one image see the same points.
            let image = (first + number) / channels;
            let together = (channels - (first + number) % channels).min(count - number);
            for start in (0..points).step_by(BLOCK) {
                let range = start..(start + BLOCK).min(points);
                block.look(images.axes, images.op.sampling, images.points(image, range.clone()));
                for plane in number..number + together {
                    let sums = &mut planes[plane * size..][..size];
                    let g = &g[(first + plane) * points..][range.clone()];
                    for (i, &g) in g.iter().enumerate() {
                        let weights = match images.op.sampling {
                            Sampling::Nearest => [1.0, 0.0, 0.0, 0.0],
                            Sampling::Bilinear => block.weights(i),
                        };
                        let corners = if images.op.sampling == Sampling::Nearest { 1 } else { 4 };
                        for corner in 0..corners {
                            if block.inside[corner][i] != 0 {
                                let sum = &mut sums[block.elements[corner][i] as usize];
                                *sum = S::fma(g, weights[corner], *sum);
                            }
                        }
                    }
                }
            }
            number += together;
        }
    }
}
