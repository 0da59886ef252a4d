//! Elements joined, framed, and looked at as another dtype.

use tch::Tensor;
use ubique_core::op::bitcast::Bitcast;
use ubique_core::op::concat::Concat;
use ubique_core::op::pad::{Pad, PadMode};
use ubique_core::op::select::MaskedFill;

use super::Call;
use crate::dtype::{ints, kind, scalar};
use crate::error::Made;
use crate::memory::Operand;

pub fn bitcast(op: &Bitcast, call: &Call<'_>) -> Made {
    let (x, kind) = (&call.x[0], kind(op.dtype));
    if x.numel() == 0 {
        return Ok(Tensor::f_empty(&*ints(&call.out[0].shape), (kind, call.device))?);
    }
    if x.f_kind()?.elt_size_in_bytes() == kind.elt_size_in_bytes() {
        return Ok(x.f_contiguous()?.f_view_dtype(kind)?);
    }
    // Elements of another size must begin where one of theirs can, as those of fresh memory do.
    let mut whole = Tensor::f_empty(&*x.size(), (x.f_kind()?, x.device()))?;
    whole.f_copy_(x)?;
    Ok(whole.f_view_dtype(kind)?)
}

pub fn concat(op: &Concat, x: &[Operand<'_>]) -> Made {
    let parts: Vec<&Tensor> = x.iter().map(|part| &**part).collect();
    Ok(Tensor::f_cat(&parts, op.axis as i64)?)
}

pub fn masked_fill(op: &MaskedFill, call: &Call<'_>) -> Made {
    Ok(call.x[0].f_masked_fill(&call.x[1], scalar(op.value, call.dtype()))?)
}

/// A constant around the operand, or along each axis in turn the elements that stand in the added places.
pub fn pad(op: &Pad, call: &Call<'_>) -> Made {
    let x = &call.x[0];
    let PadMode::Constant(value) = op.mode else { return borders(op, x) };
    let (dtype, size) = (call.dtype(), ints(&call.out[0].shape));
    let frame = Tensor::f_full(&*size, scalar(value, dtype), (kind(dtype), call.device))?;
    let mut inside = frame.shallow_clone();
    for (axis, (&(before, _), extent)) in op.padding.iter().zip(x.size()).enumerate() {
        inside = inside.f_narrow(axis as i64, before as i64, extent)?;
    }
    inside.f_copy_(x)?;
    Ok(frame)
}

fn borders(op: &Pad, x: &Tensor) -> Made {
    let mut result = x.shallow_clone();
    for (axis, &(before, after)) in op.padding.iter().enumerate().filter(|(_, pad)| **pad != (0, 0)) {
        let extent = x.size()[axis] as usize;
        let places = 0..before + extent + after;
        let sources: Vec<i64> = places.filter_map(|i| op.mode.source(extent, before, i)).map(|i| i as i64).collect();
        let sources = Tensor::f_from_slice(&sources)?.f_to_device(x.device())?;
        result = result.f_index_select(axis as i64, &sources)?;
    }
    Ok(result)
}
