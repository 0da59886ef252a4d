//! Many elements to one.

use tch::Tensor;
use ubique_core::op::arg_reduce::{ArgReduce, Extremum};
use ubique_core::op::reduce::{Reduce, Reduction};
use ubique_core::op::statistics::{Norm, Variance};
use ubique_core::{DType, TensorSpec};

use super::{is_held, numbers};
use crate::dtype::{ints, is_own, kind};
use crate::error::Made;

/// Whether LibTorch has the reduction for a dtype. To reduce no axes means all axes there, and no reduction here.
pub fn supports(op: &Reduce, dtype: DType) -> bool {
    let has = match op.op {
        Reduction::Sum | Reduction::Prod => is_held(dtype),
        _ => is_own(dtype),
    };
    has && !op.axes.is_empty()
}

pub fn reduce(op: &Reduce, x: &Tensor, dtype: DType) -> Made {
    let (axes, keep) = (ints(&op.axes), op.keepdim);
    Ok(match op.op {
        Reduction::Sum => x.f_sum_dim_intlist(&*axes, keep, kind(dtype))?,
        Reduction::Mean => x.f_mean_dim(&*axes, keep, None)?,
        Reduction::Min => x.f_amin(&*axes, keep)?,
        Reduction::Max => x.f_amax(&*axes, keep)?,
        Reduction::Any => x.f_any_dims(&*axes, keep)?,
        Reduction::All => x.f_all_dims(&*axes, keep)?,
        Reduction::Prod => {
            let mut product = x.shallow_clone();
            // From the last, so that the numbers of those before stay.
            for &axis in axes.iter().rev() {
                product = product.f_prod_dim_int(axis, keep, kind(dtype))?;
            }
            product
        }
    })
}

pub fn arg_reduce(op: &ArgReduce, x: &Tensor) -> Made {
    let x = numbers(x)?;
    Ok(match op.op {
        Extremum::Max => x.f_argmax(op.axis as i64, op.keepdim)?,
        Extremum::Min => x.f_argmin(op.axis as i64, op.keepdim)?,
    })
}

pub fn variance(op: &Variance, x: &Tensor) -> Made {
    let axes = ints(&op.axes);
    Ok(match op.root {
        true => x.f_std_correction(&*axes, op.ddof, false)?,
        false => x.f_var_correction(&*axes, op.ddof, false)?,
    })
}

/// Whether LibTorch has the norm: it has none of nothing.
pub fn has_norm(op: &Norm, x: &TensorSpec) -> bool {
    !op.axes.is_empty() && op.axes.iter().all(|&axis| x.shape[axis] > 0)
}

pub fn norm(op: &Norm, x: &Tensor) -> Made {
    Ok(x.f_norm_scalaropt_dim(op.p, &*ints(&op.axes), false)?)
}
