//! The largest element and the mean of windows. Lines are pooled as images of height 1.

use tch::Tensor;
use ubique_core::TensorSpec;
use ubique_core::op::pool::{AvgPool, AvgPoolBackward, MaxPool, MaxPoolBackward, Means, Pooling};

use super::conv::lists;
use super::{Call, has_elements};
use crate::dtype::ints;
use crate::error::Made;

/// Whether LibTorch has the largest of windows of such operands.
pub fn has_max(inputs: &[TensorSpec]) -> bool {
    has_mean(inputs) && inputs[0].dtype.is_float()
}

/// Whether LibTorch has means of windows of such operands.
pub fn has_mean(inputs: &[TensorSpec]) -> bool {
    inputs.iter().all(has_elements) && (3..=5).contains(&inputs[0].shape.rank())
}

/// Windows as LibTorch takes them.
struct Lists {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    ceil: bool,
}

impl Lists {
    fn new(pooling: &Pooling) -> Lists {
        let [stride, padding, dilation] = lists(&pooling.windows);
        Lists {
            kernel: flat(1, ints(&pooling.kernel).into_vec()),
            stride: flat(1, stride),
            padding: flat(0, padding),
            dilation: flat(1, dilation),
            ceil: pooling.ceil,
        }
    }
}

/// Numbers of a line's axis, with one for the height of the image in front.
fn flat(height: i64, mut numbers: Vec<i64>) -> Vec<i64> {
    if numbers.len() == 1 {
        numbers.insert(0, height);
    }
    numbers
}

/// A line as an image of height 1.
fn image(x: &Tensor) -> Made {
    Ok(if x.dim() == 3 { x.f_unsqueeze(2)? } else { x.shallow_clone() })
}

/// An image of height 1 as the line that it stands for.
fn line(call: &Call<'_>, x: Tensor) -> Made {
    Ok(if call.out[0].shape.rank() == 3 { x.f_squeeze_dim(2)? } else { x })
}

fn max_with_places(pooling: &Pooling, x: &Tensor) -> Made<(Tensor, Tensor)> {
    let Lists { kernel, stride, padding, dilation, ceil } = Lists::new(pooling);
    Ok(match x.dim() {
        5 => x.f_max_pool3d_with_indices(kernel, stride, padding, dilation, ceil)?,
        _ => x.f_max_pool2d_with_indices(kernel, stride, padding, dilation, ceil)?,
    })
}

/// The places of the largest elements. Of several NaN in a window LibTorch names the last, and we the first.
fn places(pooling: &Pooling, x: &Tensor) -> Made<(Tensor, Tensor)> {
    let (values, places) = max_with_places(pooling, x)?;
    let nan = values.f_isnan()?;
    if nan.f_any()?.f_int64_value(&[])? == 0 {
        return Ok((values, places));
    }
    let (_, first) = max_with_places(pooling, &x.f_isnan()?.f_to_kind(x.f_kind()?)?)?;
    Ok((values, first.f_where_self(&nan, &places)?))
}

pub fn max(op: &MaxPool, call: &Call<'_>) -> Made<Vec<Tensor>> {
    let x = image(&call.x[0])?;
    if !op.indices {
        return Ok(vec![line(call, max_with_places(&op.pooling, &x)?.0)?]);
    }
    let (values, places) = places(&op.pooling, &x)?;
    Ok(vec![line(call, values)?, line(call, places)?])
}

pub fn max_backward(op: &MaxPoolBackward, call: &Call<'_>) -> Made {
    let (x, g) = (image(&call.x[0])?, image(&call.x[1])?);
    let (_, places) = places(&op.pooling, &x)?;
    let Lists { kernel, stride, padding, dilation, ceil } = Lists::new(&op.pooling);
    let y = match x.dim() {
        5 => x.f_max_pool3d_with_indices_backward(&g, kernel, stride, padding, dilation, ceil, &places)?,
        _ => x.f_max_pool2d_with_indices_backward(&g, kernel, stride, padding, dilation, ceil, &places)?,
    };
    line(call, y)
}

/// As many windows as the result has elements, of an image.
fn adaptive(output: &[usize]) -> Vec<i64> {
    flat(1, ints(output).into_vec())
}

pub fn mean(op: &AvgPool, call: &Call<'_>) -> Made {
    let x = image(&call.x[0])?;
    let y = match (&op.means, x.dim()) {
        (Means::Adaptive(output), 5) => x.f_adaptive_avg_pool3d(adaptive(output))?,
        (Means::Adaptive(output), _) => x.f_adaptive_avg_pool2d(adaptive(output))?,
        (Means::Windows { pooling, count_padding }, dim) => {
            let Lists { kernel, stride, padding, ceil, .. } = Lists::new(pooling);
            match dim {
                5 => x.f_avg_pool3d(kernel, stride, padding, ceil, *count_padding, None)?,
                _ => x.f_avg_pool2d(kernel, stride, padding, ceil, *count_padding, None)?,
            }
        }
    };
    line(call, y)
}

pub fn mean_backward(op: &AvgPoolBackward, call: &Call<'_>) -> Made {
    let g = image(&call.x[0])?;
    // Only the operand's shape matters.
    let x = image(&Tensor::f_zeros(&*ints(&call.out[0].shape), (g.f_kind()?, g.device()))?)?;
    let y = match (&op.means, x.dim()) {
        (Means::Adaptive(_), 5) => x.f_internal_adaptive_avg_pool3d_backward(&g)?,
        (Means::Adaptive(_), _) => x.f_internal_adaptive_avg_pool2d_backward(&g)?,
        (Means::Windows { pooling, count_padding }, dim) => {
            let Lists { kernel, stride, padding, ceil, .. } = Lists::new(pooling);
            match dim {
                5 => x.f_avg_pool3d_backward(&g, kernel, stride, padding, ceil, *count_padding, None)?,
                _ => x.f_avg_pool2d_backward(&g, kernel, stride, padding, ceil, *count_padding, None)?,
            }
        }
    };
    line(call, y)
}
