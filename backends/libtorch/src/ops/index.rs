//! Elements taken from and put to places that an index names. Places are checked first: LibTorch counts negative ones from
//! the end, and on a GPU one that is outside ends the whole program's use of the device.

use tch::{Kind, Tensor};
use ubique_core::DType;
use ubique_core::op::index::{Combine, Gather, IndexAdd, IndexSelect, Scatter, check_index};

use super::{Call, cast, is_held};
use crate::dtype::{is_own, is_unsigned_bits};
use crate::error::Made;

/// Whether LibTorch has the combination for a dtype.
pub fn scatters(op: &Scatter, dtype: DType) -> bool {
    match op.combine {
        Combine::Set => true,
        Combine::Add | Combine::Mul => is_held(dtype) && dtype != DType::Bool,
        Combine::Min | Combine::Max => is_own(dtype) && dtype != DType::Bool,
    }
}

/// The least and the largest of integers, if there are any.
pub fn extremes(x: &Tensor) -> Made<Option<[i64; 2]>> {
    if x.numel() == 0 {
        return Ok(None);
    }
    Ok(Some([x.f_min()?.f_int64_value(&[])?, x.f_max()?.f_int64_value(&[])?]))
}

/// An index as LibTorch takes it, with all places inside an axis.
fn places(call: &Call<'_>, at: usize, axis: usize) -> Made {
    let extent = call.x[0].size()[axis];
    let index = &call.x[at];
    let index = match index.f_kind()? {
        Kind::Int64 => index.shallow_clone(),
        _ if is_unsigned_bits(index.dtype) => cast::widen(index, index.dtype)?,
        _ => index.f_to_kind(Kind::Int64)?,
    };
    if let Some([least, most]) = extremes(&index)? {
        let outside = if least < 0 { least } else { most };
        check_index(outside.into(), extent as usize)?;
    }
    Ok(index)
}

pub fn gather(op: &Gather, call: &Call<'_>) -> Made {
    let index = places(call, 1, op.axis)?;
    Ok(call.x[0].f_gather(op.axis as i64, &index, false)?)
}

pub fn index_select(op: &IndexSelect, call: &Call<'_>) -> Made {
    let index = places(call, 1, op.axis)?;
    Ok(call.x[0].f_index_select(op.axis as i64, &index)?)
}

pub fn index_add(op: &IndexAdd, call: &Call<'_>) -> Made {
    let index = places(call, 1, op.axis)?;
    Ok(call.x[0].f_index_add(op.axis as i64, &index, &call.x[2])?)
}

pub fn scatter(op: &Scatter, call: &Call<'_>) -> Made {
    let (axis, index) = (op.axis as i64, places(call, 1, op.axis)?);
    let (x, source) = (&call.x[0], &call.x[2]);
    if index.numel() == 0 {
        return Ok(x.shallow_clone());
    }
    let reduced = |how: &str| x.f_internal_scatter_reduce(axis, &index, source, how, true);
    Ok(match op.combine {
        Combine::Set => x.f_scatter(axis, &index, source)?,
        Combine::Add => x.f_scatter_add(axis, &index, source)?,
        Combine::Mul => reduced("prod")?,
        Combine::Min => reduced("amin")?,
        Combine::Max => reduced("amax")?,
    })
}
