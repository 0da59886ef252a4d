//! Attention and the embedding of positions.

use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[("Attention", attention), ("RotaryEmbedding", rotary)];

/// `[batch, length, heads · width]` to `[batch, heads, length, width]`.
fn heads(x: &Tensor, count: usize) -> Result<Tensor> {
    match **x.shape() {
        [batch, length, width] => x.reshape([batch, length, count, width / count.max(1)])?.transpose(1, 2),
        _ => Ok(x.clone()),
    }
}

fn joined(x: &Tensor) -> Result<Tensor> {
    x.transpose(1, 2)?.flatten(2, 3)
}

/// What may look at what, as numbers that are added to the scores.
fn bias(n: &Node<'_>, queries: usize, keys: usize, past: usize, dtype: DType) -> Outcome<Option<Tensor>> {
    let wide = |mask: &Tensor| -> Result<Tensor> {
        let seen = match mask.dtype() {
            DType::Bool => {
                Tensor::zeros(mask.shape(), dtype, n.device())?.masked_fill(&mask.not()?, f64::NEG_INFINITY)?
            }
            _ => mask.clone(),
        };
        // A mask may end before the keys do; none may look at the others.
        let missing = keys - seen.shape()[seen.rank() - 1];
        if missing > 0 { seen.pad_axis(-1, 0, missing, f64::NEG_INFINITY) } else { Ok(seen) }
    };
    let mut bias = n.maybe(3)?.map(wide).transpose()?;
    let mut hide = |hidden: Tensor| -> Result<()> {
        let zero = Tensor::zeros(hidden.shape(), dtype, n.device())?;
        let more = zero.masked_fill(&hidden, f64::NEG_INFINITY)?;
        bias = Some(match &bias {
            Some(bias) => bias.add(&more)?,
            None => more,
        });
        Ok(())
    };
    let places = |count: usize| Tensor::arange(0, count, 1, DType::I64, n.device());
    if let Some(lengths) = n.maybe(6)? {
        hide(places(keys)?.ge(&lengths.reshape([lengths.elements(), 1, 1, 1])?)?)?;
    }
    if n.flag("is_causal", false)? {
        let (last, at) = (places(queries)?.add(past)?.unsqueeze(-1)?, places(keys)?);
        hide(at.gt(&last)?)?;
    }
    Ok(bias)
}

fn attention(n: &Node<'_>) -> Outcome {
    let (q, k, v) = (n.x(0)?, n.x(1)?, n.x(2)?);
    let flat = q.rank() == 3;
    let (query_heads, key_heads) = (n.int("q_num_heads", 0)?.unsigned_abs(), n.int("kv_num_heads", 0)?.unsigned_abs());
    n.dtype("softmax_precision", DType::F32)?;
    let (q, mut k, mut v) = (heads(q, query_heads)?, heads(k, key_heads)?, heads(v, key_heads)?);
    let mut past = 0;
    if let (Some(keys), Some(values)) = (n.maybe(4)?, n.maybe(5)?) {
        past = keys.shape()[2];
        (k, v) = (Tensor::concat(&[keys, &k], 2)?, Tensor::concat(&[values, &v], 2)?);
    }
    let present = [k.clone(), v.clone()];
    // Queries of several heads may share keys.
    let shared = q.shape()[1] / k.shape()[1];
    if shared > 1 {
        (k, v) = (k.repeat(shared, 1)?, v.repeat(shared, 1)?);
    }
    let (queries, keys) = (q.shape()[2], k.shape()[2]);
    let bias = bias(n, queries, keys, past, q.dtype())?;
    let scale = if n.has("scale") { Some(n.float("scale", 1.0)?) } else { None };
    let (cap, mode) = (n.float("softcap", 0.0)?, n.int("qk_matmul_output_mode", 0)?);
    let (y, scores) = match cap == 0.0 && n.results < 4 {
        true => (q.attention(&k, &v, bias.as_ref(), false, scale)?, None),
        false => composed(&q, &k, &v, bias.as_ref(), scale, cap, mode)?,
    };
    let y = if flat { joined(&y)? } else { y };
    Ok([y].into_iter().chain(present).chain(scores).collect())
}

/// With scores that are capped or wanted as a result: before (0) or after the cap (1), after the mask (2) or the softmax (3).
fn composed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    bias: Option<&Tensor>,
    scale: Option<f64>,
    cap: f64,
    mode: isize,
) -> Outcome<(Tensor, Option<Tensor>)> {
    let width = q.shape()[q.rank() - 1] as f64;
    let mut stages = vec![q.mul(scale.unwrap_or(1.0 / width.sqrt()))?.matmul(&k.t()?)?];
    let capped = if cap > 0.0 { stages[0].div(cap)?.tanh()?.mul(cap)? } else { stages[0].clone() };
    let masked = bias.map_or_else(|| Ok(capped.clone()), |bias| capped.add(bias))?;
    let weights = masked.softmax(-1)?;
    let y = weights.matmul(v)?;
    stages.extend([capped, masked, weights]);
    match usize::try_from(mode).ok().and_then(|mode| stages.get(mode)) {
        Some(stage) => Ok((y, Some(stage.clone()))),
        None => unmapped("an unknown stage"),
    }
}

/// Pairs of numbers turned by an angle for each position (Su et al. 2021).
fn rotary(n: &Node<'_>) -> Outcome {
    let (x, cos, sin, positions) = (n.x(0)?, n.x(1)?, n.x(2)?, n.maybe(3)?);
    let (count, interleaved) = (n.int("num_heads", 0)?.unsigned_abs(), n.flag("interleaved", false)?);
    // [batch, heads, length, width]
    let split = heads(x, count)?;
    let width = split.shape()[3];
    let turned = match n.int("rotary_embedding_dim", 0)?.unsigned_abs() {
        0 => width,
        turned => turned,
    };
    let angles = |table: &Tensor| -> Result<Tensor> {
        let rows = match positions {
            Some(p) => {
                let rows = table.index_select(0, &p.reshape([p.elements()])?)?;
                rows.reshape([p.shape().to_vec(), vec![table.shape()[1]]].concat())?
            }
            None => table.clone(),
        };
        rows.unsqueeze(1)
    };
    let (cos, sin) = (angles(cos)?, angles(sin)?);
    let (front, rest) = (split.narrow(-1, 0, turned)?, split.narrow(-1, turned as isize, width - turned)?);
    let (a, b) = match interleaved {
        true => (front.slice(-1, Some(0), None, 2)?, front.slice(-1, Some(1), None, 2)?),
        false => {
            (front.slice(-1, None, Some(turned as isize / 2), 1)?, front.slice(-1, Some(turned as isize / 2), None, 1)?)
        }
    };
    let real = (&cos * &a - &sin * &b).tensor()?;
    let imaginary = (&sin * &a + &cos * &b).tensor()?;
    let pairs = match interleaved {
        true => Tensor::stack(&[&real, &imaginary], -1)?.flatten(-2, -1)?,
        false => Tensor::concat(&[&real, &imaginary], -1)?,
    };
    let out = Tensor::concat(&[&pairs, &rest], -1)?;
    one(if x.rank() == 3 { joined(&out) } else { Ok(out) })
}
