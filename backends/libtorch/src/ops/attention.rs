//! Scaled dot-product attention.

use tch::{Kind, Tensor};
use ubique_core::op::attention::Attention;

use super::Call;
use crate::dtype::ints;
use crate::error::Made;

pub fn attention(op: &Attention, call: &Call<'_>) -> Made {
    let [q, k, v] = [&*call.x[0], &*call.x[1], &*call.x[2]];
    let mask = call.optional(op.mask, 3);
    // LibTorch takes a mask or the causal one, not both.
    let both = match mask {
        Some(mask) if op.causal => Some(causal(mask, q, k)?),
        _ => None,
    };
    let mask = both.as_ref().or(mask);
    let is_causal = op.causal && mask.is_none();
    let [q, k, v] = [batched(q)?, batched(k)?, batched(v)?];
    let y = Tensor::f_scaled_dot_product_attention(&q, &k, &v, mask, 0.0, is_causal, op.scale, false)?;
    Ok(y.f_reshape(&*ints(&call.out[0].shape))?)
}

/// With the two leading axes that LibTorch's fast ways ask for.
fn batched(x: &Tensor) -> Made {
    let mut x = x.shallow_clone();
    while x.dim() < 4 {
        x = x.f_unsqueeze(0)?;
    }
    Ok(x)
}

/// A mask that also forbids looking at later keys.
fn causal(mask: &Tensor, q: &Tensor, k: &Tensor) -> Made {
    let (queries, keys) = (q.size()[q.dim() - 2], k.size()[k.dim() - 2]);
    let earlier = Tensor::f_ones([queries, keys], (Kind::Bool, q.device()))?.f_tril(0)?;
    Ok(match mask.f_kind()? {
        Kind::Bool => mask.f_logical_and(&earlier)?,
        _ => mask.f_where_self(&earlier, &forbidden(mask)?)?,
    })
}

fn forbidden(mask: &Tensor) -> Made {
    Ok(Tensor::f_full([], f64::NEG_INFINITY, (mask.f_kind()?, mask.device()))?)
}
