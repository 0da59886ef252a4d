//! Attention a block of queries at a time: the scores of a block stay in the cache, and are never stored whole.

use std::mem::MaybeUninit;

use gemm::{Parallelism, gemm};
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Operand, View};
use ubique_core::op::attention::{Attention, Extents};
use ubique_core::{DType, Error, Result, Shape, TensorSpec};

use crate::executor::Context;
use crate::memory::elements;
use crate::simd::rows;

/// How many queries' scores are computed together: many, because keys and values are packed anew for each block, but so
/// few that scores and weights stay in the second-level cache.
fn block_queries(keys: usize) -> usize {
    (65_536 / keys.max(1)).clamp(32, 128)
}

/// Matrices of one operand: where each batch's begins, and the strides within.
struct Matrices<'a, T> {
    data: &'a [T],
    starts: Vec<usize>,
    row: isize,
    column: isize,
}

impl<'a, T: ubique_core::Element> Matrices<'a, T> {
    /// The operand, broadcast to batch axes and to matrices of the given size.
    fn new(view: &'a View, batch: &Shape, rows: usize, columns: usize) -> Result<Matrices<'a, T>> {
        let shape: Shape = batch.iter().copied().chain([rows, columns]).collect();
        let layout = view.layout.expand(&shape)?;
        let axes: Vec<usize> = (0..batch.rank()).collect();
        let strides = layout.strides();
        let starts = layout.permute(&axes).positions().collect();
        let matrices =
            Matrices { data: elements(view)?, starts, row: strides[batch.rank()], column: strides[batch.rank() + 1] };
        matrices.check(rows, columns)?;
        Ok(matrices)
    }

    /// Refuses layouts that leave the buffer, before pointers are made of them.
    fn check(&self, rows: usize, columns: usize) -> Result<()> {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let reach = |stride: isize, count: usize| stride * (count as isize - 1);
        let (down, right) = (reach(self.row, rows), reach(self.column, columns));
        let inside = |&start: &usize| {
            let low = start as isize + down.min(0) + right.min(0);
            let high = start as isize + down.max(0) + right.max(0);
            low >= 0 && (high as usize) < self.data.len()
        };
        if self.starts.iter().all(inside) {
            Ok(())
        } else {
            Err(Error::backend("an operand's layout leaves its buffer"))
        }
    }

    /// The first element of row `row` of a batch's matrix; only to be read within the checked size.
    fn pointer(&self, batch: usize, row: usize) -> *const T {
        self.data.as_ptr().wrapping_add(self.starts[batch]).wrapping_offset(row as isize * self.row)
    }

    fn at(&self, batch: usize, row: usize, column: usize) -> &T {
        &self.data[(self.starts[batch] as isize + row as isize * self.row + column as isize * self.column) as usize]
    }
}

/// What may be looked at.
enum Mask<'a> {
    None,
    Bool(Matrices<'a, bool>),
    Added(Matrices<'a, f32>),
}

/// One attention: its operands and what they say.
struct Job<'a> {
    extents: Extents,
    scale: f32,
    causal: bool,
    q: Matrices<'a, f32>,
    k: Matrices<'a, f32>,
    v: Matrices<'a, f32>,
    mask: Mask<'a>,
}

/// Runs an attention on f32 operands of any strides.
pub fn attention(context: &Context, op: &Attention, inputs: &[Operand<'_>], out: &TensorSpec) -> Result<Buffer> {
    let [q, k, v, mask @ ..] = inputs else {
        return Err(Error::backend("attention takes 3 or 4 operands"));
    };
    let extents = op.extents(&q.spec(), &k.spec(), &v.spec())?;
    let Extents { batch, queries, keys, width, value_width } = &extents;
    let mask = match mask.first() {
        None => Mask::None,
        Some(mask) if mask.dtype == DType::Bool => Mask::Bool(Matrices::new(mask, batch, *queries, *keys)?),
        Some(mask) => Mask::Added(Matrices::new(mask, batch, *queries, *keys)?),
    };
    let job = Job {
        scale: op.factor(*width) as f32,
        causal: op.causal,
        q: Matrices::new(q, batch, *queries, *width)?,
        k: Matrices::new(k, batch, *keys, *width)?,
        v: Matrices::new(v, batch, *keys, *value_width)?,
        mask,
        extents: extents.clone(),
    };
    let mut result = UninitBuffer::<f32>::new(&context.pool, out.shape.elements()?)?;
    let target = result.fill(0.0);
    if !target.is_empty() && *keys > 0 {
        let size = block_queries(*keys);
        let slabs = target.chunks_mut(queries * value_width).enumerate();
        let blocks = slabs.flat_map(|(batch, slab)| {
            let parts = slab.chunks_mut(size * value_width).enumerate();
            parts.map(move |(number, part)| (batch, number * size, part))
        });
        let mut blocks: Vec<_> = blocks.collect();
        let work = size * keys * (width + value_width);
        context.threads.rows(&mut blocks, 1, (1 << 18) / work.max(1) + 1, &|_, blocks| {
            let mut scores = vec![0f32; size * keys];
            let mut weights = vec![MaybeUninit::uninit(); size * keys];
            for (batch, first, part) in blocks {
                job.block(*batch, *first, part, &mut scores, &mut weights);
            }
        });
    }
    // SAFETY: `fill` writes every element.
    Ok(unsafe { result.assume_init() })
}

impl Job<'_> {
    /// The results of a block of queries from `first` on.
    fn block(
        &self,
        batch: usize,
        first: usize,
        part: &mut [f32],
        scores: &mut [f32],
        weights: &mut [MaybeUninit<f32>],
    ) {
        let Extents { keys, width, value_width, .. } = self.extents;
        let count = part.len() / value_width;
        // Nothing in the block looks further than its last query.
        let keys = if self.causal { keys.min(first + count) } else { keys };
        let (scores, weights) = (&mut scores[..count * keys], &mut weights[..count * keys]);
        // SAFETY: scores hold count × keys elements; `Matrices::check` has made sure that queries first to first + count
        // and the first `keys` keys lie in their buffers with these strides.
        unsafe {
            gemm(
                count,
                keys,
                width,
                scores.as_mut_ptr(),
                1,
                keys as isize,
                false,
                self.q.pointer(batch, first),
                self.q.column,
                self.q.row,
                self.k.pointer(batch, 0),
                self.k.row,
                self.k.column,
                0.0,
                self.scale,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
        for (i, (row, weights)) in scores.chunks_mut(keys).zip(weights.chunks_mut(keys)).enumerate() {
            self.weigh(batch, first + i, row, weights);
        }
        // SAFETY: `weigh` has initialised the count × keys weights; the part holds count × value_width elements; the values lie in their buffer.
        unsafe {
            gemm(
                count,
                value_width,
                keys,
                part.as_mut_ptr(),
                1,
                value_width as isize,
                false,
                weights.as_ptr().cast(),
                1,
                keys as isize,
                self.v.pointer(batch, 0),
                self.v.column,
                self.v.row,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }

    /// Makes weights of a query's scores, and initialises all of them.
    fn weigh(&self, batch: usize, query: usize, scores: &mut [f32], weights: &mut [MaybeUninit<f32>]) {
        match &self.mask {
            Mask::None => {}
            Mask::Bool(mask) => scores.iter_mut().enumerate().for_each(|(key, score)| {
                if !mask.at(batch, query, key) {
                    *score = f32::NEG_INFINITY;
                }
            }),
            Mask::Added(mask) => {
                scores.iter_mut().enumerate().for_each(|(key, score)| *score += mask.at(batch, query, key));
            }
        }
        let seen = if self.causal { scores.len().min(query + 1) } else { scores.len() };
        let (weights, hidden) = weights.split_at_mut(seen);
        hidden.fill(MaybeUninit::new(0.0));
        let seen = &scores[..seen];
        if !matches!(self.mask, Mask::None) && seen.iter().all(|&score| score == f32::NEG_INFINITY) {
            return weights.fill(MaybeUninit::new(0.0));
        }
        rows::softmax_row(seen, weights);
    }
}
