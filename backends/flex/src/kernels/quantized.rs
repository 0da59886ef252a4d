//! Quantised tensors: rows of floats to integers and back, and products that read the integers.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::quantized::dequantize::Dequantize;
use ubique_core::op::quantized::linear::QuantizedLinear;
use ubique_core::op::quantized::quantize::Quantize;
use ubique_core::op::quantized::{Scheme, Width};
use ubique_core::{DType, Error, Op, Result, Shape, TensorSpec};

use super::copy::to_contiguous;
use super::fused::floats;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::{Shared, contiguous};
use crate::simd::{Isa, Kernel, vectorize};

/// Rows of the operand up to which a product reads the weight's integers for each; beyond, it makes floats of them once.
const FEW: usize = 6;
/// Rows of the weight that are floats at a time.
const PANEL: usize = 64;
/// Partial sums of a product: enough that their additions need not wait for each other.
const LANES: usize = 32;

/// There are kernels for what is computed in f32 and comes as f32.
pub fn supports(op: &Op, inputs: &[TensorSpec]) -> bool {
    match op {
        Op::Dequantize(op) => op.spec.dtype == DType::F32,
        _ => inputs.first().is_some_and(|x| x.dtype == DType::F32),
    }
}

/// Where the scales of rows are.
#[derive(Clone, Copy)]
struct Scales<'a> {
    scales: &'a [f32],
    zero_points: Option<&'a [i8]>,
    /// Elements that share a scale.
    block: usize,
    /// Scales of a row; none where one serves all rows.
    blocks: usize,
}

impl<'a> Scales<'a> {
    fn new(scheme: Scheme, columns: usize, views: &'a [View]) -> Result<Scales<'a>> {
        let [scales, zero_points @ ..] = views else { return Err(Error::backend("there are no scales")) };
        let zero_points = match zero_points {
            [zero_points] => Some(contiguous::<i8>(zero_points)?.unwrap_or(&[])),
            _ => None,
        };
        let (block, blocks) = match scheme.block {
            Some(block) => (block, columns.div_ceil(block)),
            None => (columns.max(1), 0),
        };
        Ok(Scales { scales: floats(scales)?, zero_points, block, blocks })
    }

    /// The scales and zero points of a row's blocks.
    fn row(self, row: usize) -> (&'a [f32], Option<&'a [i8]>) {
        let first = row * self.blocks;
        let own = first..first + self.blocks.max(1);
        (&self.scales[own.clone()], self.zero_points.map(|zero_points| &zero_points[own]))
    }

    /// The scale and zero point of each of a row's blocks.
    fn pairs(self, row: usize) -> impl Iterator<Item = (f32, f32)> {
        let (scales, zero_points) = self.row(row);
        scales.iter().enumerate().map(move |(at, &scale)| (scale, zero_points.map_or(0.0, |zeros| zeros[at].into())))
    }
}

/// Rows of integers.
#[derive(Clone, Copy)]
enum Integers<'a> {
    Q8(&'a [i8]),
    Q4(&'a [u8]),
}

impl<'a> Integers<'a> {
    fn new(scheme: Scheme, view: &'a View) -> Result<Integers<'a>> {
        Ok(match scheme.width {
            Width::Q8 => Integers::Q8(contiguous::<i8>(view)?.unwrap_or(&[])),
            Width::Q4 => Integers::Q4(contiguous::<u8>(view)?.unwrap_or(&[])),
        })
    }

    /// A row's integers, in `space` where they are packed.
    fn row<'b>(self, row: usize, columns: usize, space: &'b mut Vec<i8>) -> &'b [i8]
    where
        'a: 'b,
    {
        match self {
            Integers::Q8(all) => &all[row * columns..][..columns],
            Integers::Q4(all) => {
                let bytes = columns.div_ceil(2);
                space.resize(bytes * 2, 0);
                vectorize(Unpack { packed: &all[row * bytes..][..bytes], target: space });
                &space[..columns]
            }
        }
    }
}

/// Pairs of 4-bit integers to integers.
struct Unpack<'a> {
    packed: &'a [u8],
    target: &'a mut [i8],
}

impl Kernel for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        for (&byte, pair) in self.packed.iter().zip(self.target.as_chunks_mut::<2>().0) {
            let byte = u16::from(byte);
            // Both halves in a byte each, then their signs brought up: 8 and above are negative.
            *pair = ((byte | byte << 4) & 0x0f0f).to_le_bytes().map(|half| (half ^ 8).wrapping_sub(8) as i8);
        }
    }
}

/// Floats to integers.
pub fn quantize(context: &Context, op: &Quantize, operands: &[&View], out: &TensorSpec) -> Result<Buffer> {
    let views = rows_of(context, operands)?;
    let x = floats(&views[0])?;
    let columns = columns(views[0].shape());
    let scales = Scales::new(op.scheme, columns, &views[1..])?;
    let (low, high) = op.scheme.range();
    let grain = (GRAIN / columns.max(1)).max(1);
    let integers = |row: usize, target: &mut [MaybeUninit<i8>]| {
        let parts = x[row * columns..][..columns].chunks(scales.block).zip(target.chunks_mut(scales.block));
        for ((x, target), (scale, zero)) in parts.zip(scales.pairs(row)) {
            vectorize(ToIntegers { x, target, scale, zero, low: low.into(), high: high.into() });
        }
    };
    match op.scheme.width {
        Width::Q8 => {
            let mut result = UninitBuffer::<i8>::new(&context.pool, x.len())?;
            context.threads.rows(result.as_mut_slice(), columns, grain, &|first, part: &mut [MaybeUninit<i8>]| {
                part.chunks_mut(columns).enumerate().for_each(|(i, target)| integers(first + i, target));
            });
            // SAFETY: each row was written.
            Ok(unsafe { result.assume_init() })
        }
        Width::Q4 => {
            let bytes = columns.div_ceil(2);
            let mut result = UninitBuffer::<u8>::new(&context.pool, out.shape.elements()?)?;
            context.threads.rows(result.as_mut_slice(), bytes, grain, &|first, part: &mut [MaybeUninit<u8>]| {
                // An odd last integer lies beside 0.
                let mut space = vec![MaybeUninit::new(0); bytes * 2];
                for (i, target) in part.chunks_mut(bytes).enumerate() {
                    integers(first + i, &mut space[..columns]);
                    for (slot, pair) in target.iter_mut().zip(space.as_chunks::<2>().0) {
                        // SAFETY: the whole space was initialised when it was made.
                        let [low, high] = pair.map(|half| unsafe { half.assume_init() });
                        slot.write((low & 15 | high << 4) as u8);
                    }
                }
            });
            // SAFETY: each row was written.
            Ok(unsafe { result.assume_init() })
        }
    }
}

/// A block of floats to integers.
struct ToIntegers<'a> {
    x: &'a [f32],
    target: &'a mut [MaybeUninit<i8>],
    scale: f32,
    zero: f32,
    low: f32,
    high: f32,
}

impl Kernel for ToIntegers<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        /// Adding it leaves no bits behind the point: rounds to the nearest, halves to the even neighbour.
        const ROUND: f32 = 12_582_912.0;
        for (&x, slot) in self.x.iter().zip(self.target) {
            let steps = x / self.scale;
            let steps = if steps.is_nan() { 0.0 } else { steps };
            // Held where rounding works; zero points are small.
            let steps = steps.max(-1024.0).min(1024.0);
            let rounded = (steps + ROUND) - ROUND + self.zero;
            let held = rounded.max(self.low).min(self.high);
            slot.write(((held + ROUND).to_bits() as i32 - ROUND.to_bits() as i32) as i8);
        }
    }
}

/// Integers to floats.
pub fn dequantize(context: &Context, op: &Dequantize, operands: &[&View], out: &TensorSpec) -> Result<Buffer> {
    let views = rows_of(context, operands)?;
    let columns = columns(&out.shape);
    let weight = Weight::new(op.scheme, columns, &views)?;
    let mut result = UninitBuffer::<f32>::new(&context.pool, out.shape.elements()?)?;
    let grain = (GRAIN / columns.max(1)).max(1);
    context.threads.rows(result.as_mut_slice(), columns, grain, &|first, part: &mut [MaybeUninit<f32>]| {
        let mut space = Vec::new();
        part.chunks_mut(columns).enumerate().for_each(|(i, target)| weight.floats(first + i, target, &mut space));
    });
    // SAFETY: each row was written.
    Ok(unsafe { result.assume_init() })
}

/// A quantised tensor as rows.
#[derive(Clone, Copy)]
struct Weight<'a> {
    integers: Integers<'a>,
    scales: Scales<'a>,
    columns: usize,
}

impl<'a> Weight<'a> {
    fn new(scheme: Scheme, columns: usize, views: &'a [View]) -> Result<Weight<'a>> {
        let [integers, scales @ ..] = views else { return Err(Error::backend("there are no integers")) };
        let integers = Integers::new(scheme, integers)?;
        Ok(Weight { integers, scales: Scales::new(scheme, columns, scales)?, columns })
    }

    /// The floats that a row stands for.
    fn floats(self, row: usize, target: &mut [MaybeUninit<f32>], space: &mut Vec<i8>) {
        let integers = self.integers.row(row, self.columns, space);
        let parts = integers.chunks(self.scales.block).zip(target.chunks_mut(self.scales.block));
        for ((integers, target), (scale, zero)) in parts.zip(self.scales.pairs(row)) {
            vectorize(ToFloats { integers, target, scale, zero });
        }
    }
}

/// A block of integers to floats.
struct ToFloats<'a> {
    integers: &'a [i8],
    target: &'a mut [MaybeUninit<f32>],
    scale: f32,
    zero: f32,
}

impl Kernel for ToFloats<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        for (&q, slot) in self.integers.iter().zip(self.target) {
            slot.write((f32::from(q) - self.zero) * self.scale);
        }
    }
}

/// x·Wᵀ with a quantised W.
pub fn linear(context: &Context, op: &QuantizedLinear, operands: &[&View], out: &TensorSpec) -> Result<Buffer> {
    let views = rows_of(context, operands)?;
    let columns = columns(views[0].shape());
    let mut result = UninitBuffer::<f32>::new(&context.pool, out.shape.elements()?)?;
    if columns == 0 {
        result.fill(0.0);
    }
    let product = Product {
        x: floats(&views[0])?,
        weight: Weight::new(op.scheme, columns, &views[1..])?,
        rows: out.shape.elements()?.checked_div(op.outputs).unwrap_or(0),
        outputs: op.outputs,
    };
    if columns > 0 && product.rows > 0 {
        let target = Shared::new(result.as_mut_slice());
        let grain = (GRAIN / columns).max(1);
        context.threads.ranges(op.outputs, grain, &|range| match product.rows <= FEW {
            true => {
                let mut space = Vec::new();
                range.for_each(|output| product.few(output, target, &mut space));
            }
            false => {
                let ends = range.clone().skip(PANEL).step_by(PANEL).chain([range.end]);
                range.step_by(PANEL).zip(ends).for_each(|(first, end)| product.many(first..end, target));
            }
        });
    }
    // SAFETY: every output of every row was written; where there are no columns, with zeros.
    Ok(unsafe { result.assume_init() })
}

/// A product of rows with a quantised weight.
#[derive(Clone, Copy)]
struct Product<'a> {
    x: &'a [f32],
    weight: Weight<'a>,
    /// Rows of x.
    rows: usize,
    /// Rows of the weight.
    outputs: usize,
}

impl Product<'_> {
    /// One output of all rows, from the integers.
    fn few(&self, output: usize, target: Shared<'_, MaybeUninit<f32>>, space: &mut Vec<i8>) {
        let Weight { integers, scales, columns } = self.weight;
        let integers = integers.row(output, columns, space);
        let block = scales.block;
        let is_whole = block.is_multiple_of(LANES) && columns.is_multiple_of(block);
        let (scales, zero_points) = scales.row(output);
        for (row, x) in self.x.chunks(columns).enumerate() {
            let at = row * self.outputs + output;
            // SAFETY: threads have disjoint ranges of outputs.
            let slot = unsafe { target.part(at..at + 1) };
            slot[0].write(match is_whole {
                true => vectorize(Dot::<true> { x, integers, scales, zero_points, block }),
                false => vectorize(Dot::<false> { x, integers, scales, zero_points, block }),
            });
        }
    }

    /// Some outputs of all rows, from floats made of the integers.
    fn many(&self, outputs: std::ops::Range<usize>, target: Shared<'_, MaybeUninit<f32>>) {
        let columns = self.weight.columns;
        let (count, mut space) = (outputs.len(), Vec::new());
        let mut panel = vec![MaybeUninit::uninit(); count * columns];
        for (output, floats) in outputs.clone().zip(panel.chunks_mut(columns)) {
            self.weight.floats(output, floats, &mut space);
        }
        // SAFETY: each row was written above.
        let panel = unsafe { panel.assume_init_mut() };
        let mut product = vec![0.0f32; self.rows * count];
        let (row, column) = (columns as isize, 1);
        // SAFETY: x has `rows` rows and the panel `count`, both of `columns` elements; the product has rows · count, and
        // is only written.
        unsafe {
            gemm::gemm(
                self.rows,
                count,
                columns,
                product.as_mut_ptr(),
                1,
                count as isize,
                false,
                self.x.as_ptr(),
                column,
                row,
                panel.as_ptr(),
                row,
                column,
                0.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
        for (row, product) in product.chunks(count).enumerate() {
            let at = row * self.outputs + outputs.start;
            // SAFETY: threads have disjoint ranges of outputs.
            unsafe { target.part(at..at + count) }.write_copy_of_slice(product);
        }
    }
}

/// The product of a row of floats with a quantised row. `WHOLE` where blocks consist of whole lanes.
struct Dot<'a, const WHOLE: bool> {
    x: &'a [f32],
    integers: &'a [i8],
    scales: &'a [f32],
    zero_points: Option<&'a [i8]>,
    block: usize,
}

impl<const WHOLE: bool> Kernel for Dot<'_, WHOLE> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Isa>(self) -> f32 {
        match self.zero_points {
            Some(zero_points) => self.sum::<S>(|block| zero_points[block].into()),
            None => self.sum::<S>(|_| 0.0),
        }
    }
}

impl<const WHOLE: bool> Dot<'_, WHOLE> {
    #[inline(always)]
    fn sum<S: Isa>(&self, zero: impl Fn(usize) -> f32) -> f32 {
        let blocks = self.x.chunks(self.block).zip(self.integers.chunks(self.block)).zip(self.scales);
        let (mut sums, mut rest) = ([0.0f32; LANES], 0.0);
        for (block, ((x, integers), &scale)) in blocks.enumerate() {
            let zero = zero(block);
            let mut part = [0.0f32; LANES];
            let (xs, x) = x.as_chunks::<LANES>();
            let (qs, q) = integers.as_chunks::<LANES>();
            for (x, q) in xs.iter().zip(qs) {
                for lane in 0..LANES {
                    part[lane] = S::fma(x[lane], f32::from(q[lane]) - zero, part[lane]);
                }
            }
            for lane in 0..LANES {
                sums[lane] = S::fma(part[lane], scale, sums[lane]);
            }
            if !WHOLE {
                let left: f32 = x.iter().zip(q).map(|(&x, &q)| x * (f32::from(q) - zero)).sum();
                rest = S::fma(left, scale, rest);
            }
        }
        sums.iter().sum::<f32>() + rest
    }
}

fn columns(shape: &Shape) -> usize {
    shape.last().copied().unwrap_or(1)
}

fn rows_of(context: &Context, operands: &[&View]) -> Result<Vec<View>> {
    operands.iter().map(|view| to_contiguous(context, view)).collect()
}
