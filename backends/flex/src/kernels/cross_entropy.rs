//! Cross entropy with class numbers, and its gradient, over rows of logits.

use std::mem::MaybeUninit;

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::op::cross_entropy::{CrossEntropy, LossReduction};
use ubique_core::op::index::check_index;
use ubique_core::{DType, Error, Result, TensorSpec};

use super::fused::{converted, floats};
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory;
use crate::simd::{Isa, Kernel, reduce, rows, vectorize};

/// Whether the classes lie in rows.
pub fn supports(logits: &TensorSpec) -> bool {
    logits.shape.rank() <= 2 || logits.shape[2..].iter().product::<usize>() == 1
}

/// The operands, checked and by row.
struct Rows<'a> {
    logits: &'a [f32],
    classes: usize,
    /// The class of each row, `None` where it is ignored.
    targets: Vec<Option<usize>>,
    weight: Option<&'a [f32]>,
}

impl<'a> Rows<'a> {
    fn new(context: &Context, op: &CrossEntropy, views: &'a [View]) -> Result<Rows<'a>> {
        let shape = views[0].shape();
        let classes = shape[(shape.rank() > 1) as usize];
        let wide = converted(context, &views[1], DType::I64)?;
        let targets = memory::contiguous::<i64>(&wide)?.ok_or_else(|| Error::backend("targets are strided"))?;
        let class = |&target: &i64| match op.ignore_index {
            Some(ignored) if ignored == target => Ok(None),
            _ => check_index(target.into(), classes).map(Some),
        };
        let targets = targets.iter().map(class).collect::<Result<Vec<_>>>()?;
        let weight = if op.weight { Some(floats(&views[2])?) } else { None };
        Ok(Rows { logits: floats(&views[0])?, classes, targets, weight })
    }

    fn row(&self, number: usize) -> &'a [f32] {
        &self.logits[number * self.classes..][..self.classes]
    }

    fn weight(&self, class: usize) -> f64 {
        self.weight.map_or(1.0, |w| w[class] as f64)
    }

    /// The sum of the weights of all targets that count.
    fn target_weight(&self) -> f64 {
        self.targets.iter().flatten().map(|&class| self.weight(class)).sum()
    }

    /// The sum of the weights of all classes.
    fn class_weight(&self) -> f64 {
        self.weight.map_or(self.classes as f64, reduce::sum)
    }

    /// Rows that one thread takes at least.
    fn grain(&self) -> usize {
        (GRAIN / 4 / self.classes.max(1)).max(1)
    }
}

/// The losses, or their sum or mean.
pub fn forward(context: &Context, op: &CrossEntropy, views: &[View]) -> Result<Buffer> {
    let rows = Rows::new(context, op, views)?;
    let class_weight = rows.class_weight();
    let loss = |number: usize| -> f64 {
        let Some(class) = rows.targets[number] else { return 0.0 };
        let row = rows.row(number);
        let (max, sum) = reduce::max_sum_exp(row);
        let log = max as f64 + sum.ln();
        let mut loss = (1.0 - op.smoothing) * rows.weight(class) * (log - row[class] as f64);
        if op.smoothing > 0.0 {
            let weighted = rows.weight.map_or_else(|| reduce::sum(row), |weight| reduce::dot(weight, row));
            loss += op.smoothing / rows.classes as f64 * (class_weight * log - weighted);
        }
        loss
    };
    let mut losses = vec![0f64; rows.targets.len()];
    context.threads.rows(&mut losses, 1, rows.grain(), &|first, part| {
        part.iter_mut().enumerate().for_each(|(i, slot)| *slot = loss(first + i));
    });
    let values = match op.reduction {
        LossReduction::Mean => vec![losses.iter().sum::<f64>() / rows.target_weight()],
        LossReduction::Sum => vec![losses.iter().sum()],
        LossReduction::None => losses,
    };
    let mut out = UninitBuffer::<f32>::new(&context.pool, values.len())?;
    for (slot, value) in out.as_mut_slice().iter_mut().zip(values) {
        slot.write(value as f32);
    }
    // SAFETY: each slot is written.
    Ok(unsafe { out.assume_init() })
}

/// `p · scale - shift · weight` in place of probabilities p.
struct Slope<'a> {
    p: &'a mut [f32],
    weight: Option<&'a [f32]>,
    scale: f32,
    shift: f32,
}

impl Kernel for Slope<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Isa>(self) {
        match self.weight {
            Some(weight) => {
                for (p, &w) in self.p.iter_mut().zip(weight) {
                    *p = S::fma(*p, self.scale, -self.shift * w);
                }
            }
            None => {
                for p in self.p.iter_mut() {
                    *p = S::fma(*p, self.scale, -self.shift);
                }
            }
        }
    }
}

/// The gradient of the logits; the last operand is that of the result.
pub fn backward(context: &Context, op: &CrossEntropy, views: &[View]) -> Result<Buffer> {
    let rows = Rows::new(context, op, views)?;
    let g = floats(&views[views.len() - 1])?;
    let (class_weight, target_weight) = (rows.class_weight(), rows.target_weight());
    let share = |number: usize| match op.reduction {
        LossReduction::Mean => g[0] as f64 / target_weight,
        LossReduction::Sum => g[0] as f64,
        LossReduction::None => g[number] as f64,
    };
    let grad = |number: usize, target: &mut [MaybeUninit<f32>]| {
        let Some(class) = rows.targets[number] else {
            target.iter_mut().for_each(|t| {
                t.write(0.0);
            });
            return;
        };
        rows::softmax_row(rows.row(number), target);
        // SAFETY: `softmax_row` initialises its target.
        let p = unsafe { target.assume_init_mut() };
        let hit = share(number) * (1.0 - op.smoothing) * rows.weight(class);
        let spread = share(number) * op.smoothing / rows.classes as f64;
        vectorize(Slope {
            p: &mut *p,
            weight: rows.weight,
            scale: (hit + spread * class_weight) as f32,
            shift: spread as f32,
        });
        p[class] -= hit as f32;
    };
    let mut out = UninitBuffer::<f32>::new(&context.pool, rows.logits.len())?;
    context.threads.rows(out.as_mut_slice(), rows.classes, rows.grain(), &|first, part| {
        part.chunks_mut(rows.classes).enumerate().for_each(|(i, target)| grad(first + i, target));
    });
    // SAFETY: every row is initialised.
    Ok(unsafe { out.assume_init() })
}
