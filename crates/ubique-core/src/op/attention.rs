//! Scaled dot-product attention (Vaswani et al. 2017).

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::widened;
use crate::op::layer_norm::require_count;
use crate::op::reference::RefTensor;
use crate::op::softmax::{SoftmaxBackward, softmax_lane};
use crate::op::{Op, Rule, Specs, Traits, require_float, require_same_dtype};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// `softmax(q kᵀ · scale + mask) v`.
///
/// Operands: queries `[…, L, E]`, keys `[…, S, E]`, values `[…, S, V]` and, where there is one, a mask that broadcasts
/// to `[…, L, S]`: bool (true where a query may look at a key) or of the queries' dtype (added to the scores). Batch
/// axes broadcast. A query that may look at no key gives 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Attention {
    /// Whether query i may only look at keys 0 to i.
    pub causal: bool,
    /// The factor of the scores; 1/√E where not said.
    pub scale: Option<f64>,
    /// Whether there is a mask.
    pub mask: bool,
}

/// The extents of an attention: batch, queries, keys, and the widths of keys and values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extents {
    /// The broadcast batch axes.
    pub batch: Shape,
    /// How many queries (L).
    pub queries: usize,
    /// How many keys and values (S).
    pub keys: usize,
    /// The width of queries and keys (E).
    pub width: usize,
    /// The width of values (V).
    pub value_width: usize,
}

fn matrix(spec: &TensorSpec, name: &str) -> Result<(Shape, usize, usize)> {
    match spec.shape.as_ref() {
        [batch @ .., rows, columns] => Ok((Shape::from(batch), *rows, *columns)),
        _ => Err(Error::shape(format!("the {name} {} need at least 2 axes", spec.shape))),
    }
}

impl Attention {
    /// What the operands' shapes say.
    ///
    /// # Errors
    /// Where they do not fit each other.
    pub fn extents(&self, q: &TensorSpec, k: &TensorSpec, v: &TensorSpec) -> Result<Extents> {
        let ((qb, queries, width), (kb, keys, key_width), (vb, values, value_width)) =
            (matrix(q, "queries")?, matrix(k, "keys")?, matrix(v, "values")?);
        if width != key_width || keys != values {
            return Err(Error::shape(format!(
                "queries {}, keys {} and values {} do not fit",
                q.shape, k.shape, v.shape
            )));
        }
        Ok(Extents { batch: qb.broadcast(&kb)?.broadcast(&vb)?, queries, keys, width, value_width })
    }

    /// The factor of the scores for queries of a width.
    pub fn factor(&self, width: usize) -> f64 {
        self.scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt())
    }

    /// How much each query looks at each key.
    fn weights(&self, q: &Tensor, k: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let [.., queries, width] = *q.shape().as_ref() else { return Err(Error::shape("queries need 2 axes")) };
        let keys = k.shape()[k.rank() - 2];
        let mut scores = (q * self.factor(width)).tensor()?.matmul(&k.t()?)?;
        if let Some(mask) = mask {
            let shape = scores.shape().broadcast(mask.shape())?;
            scores = match mask.dtype() {
                DType::Bool => scores.expand(shape)?.masked_fill(&mask.not()?, f64::NEG_INFINITY)?,
                _ => (scores + mask).tensor()?,
            };
        }
        if self.causal {
            let position = |count: usize| Tensor::arange(0, count as i64, 1, q.device().default_int(), q.device());
            let hidden = position(keys)?.gt(&position(queries)?.unsqueeze(-1)?)?;
            scores = scores.masked_fill(&hidden, f64::NEG_INFINITY)?;
        }
        if scores.elements() == 0 || !self.causal && mask.is_none() {
            return scores.softmax(-1);
        }
        let blind = scores.max_keepdim(&[-1])?.eq(f64::NEG_INFINITY)?;
        scores.softmax(-1)?.masked_fill(&blind, 0)
    }
}

impl Rule for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 3 + self.mask as usize)?;
        let [q, k, v] = [&inputs[0], &inputs[1], &inputs[2]];
        require_float(q)?;
        require_same_dtype(q, k)?;
        require_same_dtype(q, v)?;
        if let Some(scale) = self.scale.filter(|scale| !scale.is_finite()) {
            return Err(Error::value(format!("the scale is {scale}")));
        }
        let Extents { batch, queries, keys, value_width, .. } = self.extents(q, k, v)?;
        let scores: Shape = batch.iter().copied().chain([queries, keys]).collect();
        scores.bytes(q.dtype)?;
        if let Some(mask) = inputs.get(3) {
            if mask.dtype != DType::Bool {
                require_same_dtype(q, mask)?;
            }
            if mask.shape.broadcast(&scores)? != scores {
                return Err(Error::shape(format!("the mask {} does not broadcast to the scores {scores}", mask.shape)));
            }
        }
        let shape: Shape = batch.iter().copied().chain([queries, value_width]).collect();
        shape.bytes(q.dtype)?;
        Ok(TensorSpec { shape, dtype: q.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (q, k, v, g) = (call.input(0)?, call.input(1)?, call.input(2)?, call.grad(0)?);
        let mask = if self.mask { Some(call.input(3)?) } else { None };
        // The weights are computed again: they are larger than all operands together.
        let weights = self.weights(q, k, mask)?;
        let mut out = Cotangents::none(call.operands());
        if call.wants(2) {
            out.set(2, weights.t()?.matmul(g)?.sum_to(v.shape())?);
        }
        if !(call.wants(0) || call.wants(1) || call.wants(3)) {
            return Ok(out);
        }
        let inner = g.matmul(&v.t()?)?;
        let weights = weights.expand(inner.shape())?;
        let op = Op::SoftmaxBackward(SoftmaxBackward { axis: weights.rank() - 1, log: false });
        let scores = run::call(op, [(&weights).into(), (&inner).into()])?;
        let scale = self.factor(q.shape()[q.rank() - 1]);
        if call.wants(0) {
            out.set(0, (scores.matmul(k)?.sum_to(q.shape())? * scale).tensor()?);
        }
        if call.wants(1) {
            out.set(1, (scores.t()?.matmul(q)?.sum_to(k.shape())? * scale).tensor()?);
        }
        if let (Some(mask), true) = (mask, call.wants(3)) {
            out.set(3, scores.sum_to(mask.shape())?);
        }
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [q, k, v, mask @ ..] = inputs else { return Err(Error::value("takes 3 or 4 operands")) };
            Ok(vec![self.weights(q, k, mask.first())?.matmul(v)?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let Extents { batch, queries, keys, width, value_width } =
            self.extents(&inputs[0].spec, &inputs[1].spec, &inputs[2].spec)?;
        let full = |i: usize, rows: usize, columns: usize| -> Result<Vec<f64>> {
            Ok(inputs[i].expand(&batch.iter().copied().chain([rows, columns]).collect())?.floats())
        };
        let (q, k, v) = (full(0, queries, width)?, full(1, keys, width)?, full(2, keys, value_width)?);
        let mask = if self.mask { Some(full(3, queries, keys)?) } else { None };
        let truth = self.mask && inputs[3].spec.dtype == DType::Bool;
        let scale = self.factor(width);
        let mut out = Vec::new();
        for b in 0..batch.elements()? {
            for i in 0..queries {
                let row = b * queries + i;
                let score = |j: usize| {
                    let dot = |e: usize| q[row * width + e] * k[(b * keys + j) * width + e];
                    let score = (0..width).map(dot).sum::<f64>() * scale;
                    match &mask {
                        _ if self.causal && j > i => f64::NEG_INFINITY,
                        Some(mask) if truth => {
                            if mask[row * keys + j] == 0.0 {
                                f64::NEG_INFINITY
                            } else {
                                score
                            }
                        }
                        Some(mask) => score + mask[row * keys + j],
                        None => score,
                    }
                };
                let scores: Vec<f64> = (0..keys).map(score).collect();
                let blind = scores.iter().all(|&s| s == f64::NEG_INFINITY);
                let weights = if blind { vec![0.0; keys] } else { softmax_lane(&scores, false) };
                let value = |c: usize| (0..keys).map(|j| weights[j] * v[(b * keys + j) * value_width + c]).sum::<f64>();
                out.extend((0..value_width).map(value));
            }
        }
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, out)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        let shapes: [[&[usize]; 3]; 7] = [
            [&[2, 3, 4], &[2, 5, 4], &[2, 5, 6]],
            [&[4, 2], &[4, 2], &[4, 3]],
            [&[2, 1, 3, 4], &[3, 5, 4], &[1, 5, 2]],
            [&[0, 4], &[3, 4], &[3, 2]],
            [&[2, 4], &[0, 4], &[0, 3]],
            [&[1, 1], &[1, 1], &[1, 1]],
            [&[2, 70, 8], &[2, 67, 8], &[2, 67, 8]],
        ];
        for dtype in DType::FLOATS {
            for [q, k, v] in shapes {
                let (l, s) = (q[q.len() - 2], k[k.len() - 2]);
                for causal in [false, true] {
                    let scale = causal.then_some(0.3);
                    let case = |mask| {
                        Case::new(Attention { causal, scale, mask }).input(q, dtype).input(k, dtype).input(v, dtype)
                    };
                    cases.push(case(false));
                    cases.push(case(true).input([l, s], dtype));
                    // Some rows see nothing at all.
                    let seen = Fill::Values(vec![1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
                    cases.push(case(true).input_with([l, 1], DType::Bool, seen.clone()));
                    cases.push(case(true).input_with([l, s], DType::Bool, seen));
                }
            }
            let far = Fill::Values(vec![0.0, f64::NEG_INFINITY, -3.0]);
            let case = Case::new(Attention { causal: false, scale: None, mask: true });
            let case = case.input([3, 2], dtype).input([3, 2], dtype).input([3, 2], dtype);
            cases.push(case.input_with([3, 1], dtype, far).not_smooth());
        }
        cases
    }
}

impl Tensor {
    /// Attention of these queries `[…, L, E]` to `keys` `[…, S, E]` and `values` `[…, S, V]`: `softmax(q kᵀ · scale + mask) v`,
    /// of shape `[…, L, V]` (Vaswani et al. 2017). Batch axes broadcast. The mask broadcasts to `[…, L, S]`: bool, true where
    /// a query may look at a key, or of this dtype and added to the scores. With `causal` query i looks at keys 0 to i only.
    /// The scale is 1/√E where not given. A query that may look at no key gives 0.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit, or the scale is not finite.
    pub fn attention(
        &self,
        keys: &Tensor,
        values: &Tensor,
        mask: Option<&Tensor>,
        causal: bool,
        scale: Option<f64>,
    ) -> Result<Tensor> {
        let op = Attention { causal, scale, mask: mask.is_some() };
        let inputs: Vec<&Tensor> = [self, keys, values].into_iter().chain(mask).collect();
        run::call_list(Op::Attention(op), &inputs)
    }
}
