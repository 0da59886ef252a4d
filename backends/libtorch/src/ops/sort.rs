//! Order along an axis.

use tch::Tensor;
use ubique_core::DType;
use ubique_core::op::search::{SearchSorted, Side};

use super::{Call, numbers};
use crate::error::Made;
use crate::memory::Operand;

/// Values and places in order, or the first few of them. LibTorch's own choice of the first few leaves open which of equal
/// elements it takes.
pub fn sort(axis: usize, descending: bool, x: &Operand<'_>, first: Option<usize>) -> Made<Vec<Tensor>> {
    let axis = axis as i64;
    // NaN comes last either way, where LibTorch has it first in descending order.
    let turned = descending && x.dtype.is_float();
    let keys = if turned { x.f_neg()? } else { numbers(x)? };
    let (_, places) = keys.f_sort_stable(true, axis, descending && !turned)?;
    let places = match first {
        Some(count) => places.f_narrow(axis, 0, count as i64)?,
        None => places,
    };
    Ok(vec![x.f_gather(axis, &places, false)?, places])
}

pub fn search_sorted(op: &SearchSorted, call: &Call<'_>) -> Made {
    let right = op.side == Side::Right;
    let side = if right { "right" } else { "left" };
    let (sorted, values) = (&call.x[0], &call.x[1]);
    Ok(values.f_searchsorted(sorted, op.dtype == DType::I32, right, side, None::<Tensor>)?)
}
