//! Convolutions, pooling, normalisation and attention.

use ubique_core::op::conv::ConvOptions;
use ubique_core::op::pool::PoolOptions;
use ubique_core::{Result, Tensor};

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("nn.functional.conv1d", |c| conv(c, 1)),
    ("nn.functional.conv2d", |c| conv(c, 2)),
    ("nn.functional.conv3d", |c| conv(c, 3)),
    ("nn.functional.conv_transpose1d", |c| conv_transpose(c, 1)),
    ("nn.functional.conv_transpose2d", |c| conv_transpose(c, 2)),
    ("nn.functional.conv_transpose3d", |c| conv_transpose(c, 3)),
    ("nn.functional.max_pool1d", |c| max_pool(c, 1)),
    ("nn.functional.max_pool2d", |c| max_pool(c, 2)),
    ("nn.functional.max_pool3d", |c| max_pool(c, 3)),
    ("nn.functional.avg_pool1d", |c| avg_pool(c, 1)),
    ("nn.functional.avg_pool2d", |c| avg_pool(c, 2)),
    ("nn.functional.avg_pool3d", |c| avg_pool(c, 3)),
    ("nn.functional.adaptive_avg_pool1d", |c| adaptive_avg_pool(c, 1)),
    ("nn.functional.adaptive_avg_pool2d", |c| adaptive_avg_pool(c, 2)),
    ("nn.functional.adaptive_avg_pool3d", |c| adaptive_avg_pool(c, 3)),
    ("nn.functional.batch_norm", batch_norm),
    ("nn.functional.group_norm", group_norm),
    ("nn.functional.layer_norm", layer_norm),
    ("nn.functional.rms_norm", rms_norm),
    ("nn.functional.scaled_dot_product_attention", attention),
    ("nn.functional.adaptive_max_pool1d", |c| adaptive_max_pool(c, 1)),
    ("nn.functional.adaptive_max_pool2d", |c| adaptive_max_pool(c, 2)),
    ("nn.functional.adaptive_max_pool3d", |c| adaptive_max_pool(c, 3)),
    ("nn.functional.instance_norm", instance_norm),
    ("nn.functional.unfold", unfold),
];

/// Runs `f` on `[N, C, …]`; PyTorch takes an example without its batch axis as well.
fn batched(x: &Tensor, axes: usize, f: impl FnOnce(&Tensor) -> Result<Vec<Tensor>>) -> Outcome {
    if x.rank() == axes + 2 {
        return Ok(f(x)?);
    }
    let results = f(&x.unsqueeze(0)?)?;
    Ok(results.iter().map(|result| result.squeeze(0)).collect::<Result<_>>()?)
}

/// What `padding` means for each axis: zeros on both sides. "same" with an odd sum would pad one side more.
fn padding(c: &Call<'_>, axes: usize, weight: &Tensor, dilation: &[usize]) -> Outcome<Vec<usize>> {
    match c.get(4, "padding") {
        Some(Arg::Text(text)) if text == "valid" => Ok(vec![0]),
        Some(Arg::Text(_)) => {
            let total = |axis: usize| {
                let step = dilation.get(axis).or(dilation.first()).copied().unwrap_or(1);
                (weight.shape()[axis + 2] - 1) * step
            };
            let totals: Vec<usize> = (0..axes).map(total).collect();
            match totals.iter().all(|total| total % 2 == 0) {
                true => Ok(totals.iter().map(|total| total / 2).collect()),
                false => unmapped("padding of one side more than of the other"),
            }
        }
        _ => c.extents(4, "padding"),
    }
}

fn conv(c: &Call<'_>, axes: usize) -> Outcome {
    let (x, weight, bias) = (c.input()?, c.tensor(1, "weight")?, c.maybe_tensor(2, "bias")?);
    let dilation = c.extents(5, "dilation")?;
    let options = ConvOptions::new()
        .stride(c.shape(3, "stride")?)
        .padding(padding(c, axes, weight, &dilation)?)
        .dilation(dilation)
        .groups(c.int(6, "groups", 1)?.unsigned_abs());
    batched(x, axes, |x| Ok(vec![x.conv(weight, bias, &options)?]))
}

fn conv_transpose(c: &Call<'_>, axes: usize) -> Outcome {
    let (x, weight, bias) = (c.input()?, c.tensor(1, "weight")?, c.maybe_tensor(2, "bias")?);
    let options = ConvOptions::new()
        .stride(c.shape(3, "stride")?)
        .padding(c.shape(4, "padding")?)
        .output_padding(c.shape(5, "output_padding")?)
        .groups(c.int(6, "groups", 1)?.unsigned_abs())
        .dilation(c.shape(7, "dilation")?);
    batched(x, axes, |x| Ok(vec![x.conv_transpose(weight, bias, &options)?]))
}

fn max_pool(c: &Call<'_>, axes: usize) -> Outcome {
    let (x, kernel) = (c.input()?, c.shape(1, "kernel_size")?);
    let options = PoolOptions::new()
        .stride(c.shape(2, "stride")?)
        .padding(c.shape(3, "padding")?)
        .dilation(c.shape(4, "dilation")?)
        .ceil_mode(c.flag(5, "ceil_mode", false)?);
    let indices = c.flag(6, "return_indices", false)?;
    batched(x, axes, |x| match indices {
        true => x.max_pool_with_indices(kernel, &options).map(|(values, places)| vec![values, places]),
        false => Ok(vec![x.max_pool(kernel, &options)?]),
    })
}

fn avg_pool(c: &Call<'_>, axes: usize) -> Outcome {
    let (x, kernel) = (c.input()?, c.shape(1, "kernel_size")?);
    let options = PoolOptions::new()
        .stride(c.shape(2, "stride")?)
        .padding(c.shape(3, "padding")?)
        .ceil_mode(c.flag(4, "ceil_mode", false)?)
        .count_include_pad(c.flag(5, "count_include_pad", true)?);
    batched(x, axes, |x| Ok(vec![x.avg_pool(kernel, &options)?]))
}

fn adaptive_avg_pool(c: &Call<'_>, axes: usize) -> Outcome {
    let output = output_size(c, axes)?;
    batched(c.input()?, axes, |x| Ok(vec![x.adaptive_avg_pool(output)?]))
}

/// One extent for all axes or one for each; those that are not given stay as they are.
fn output_size(c: &Call<'_>, axes: usize) -> Outcome<Vec<usize>> {
    let x = c.input()?;
    let extent = |(axis, arg): (usize, &Arg<Tensor>)| match arg {
        Arg::Int(extent) => Ok(extent.unsigned_abs() as usize),
        Arg::None => Ok(x.shape()[x.rank() - axes + axis]),
        _ => unmapped("an extent that is no integer"),
    };
    match c.get(1, "output_size") {
        Some(Arg::List(list)) => list.iter().enumerate().map(extent).collect(),
        Some(arg) => Ok(vec![extent((0, arg))?]),
        None => unmapped("no extents"),
    }
}

fn batch_norm(c: &Call<'_>) -> Outcome {
    let (x, mean, variance) = (c.input()?, c.maybe_tensor(1, "running_mean")?, c.maybe_tensor(2, "running_var")?);
    let (weight, bias) = (c.maybe_tensor(3, "weight")?, c.maybe_tensor(4, "bias")?);
    let training = c.flag(5, "training", false)?;
    // The running averages' share of the new statistics, which are no result here.
    c.float(6, "momentum", 0.1)?;
    let eps = c.float(7, "eps", 1e-5)?;
    match (training, mean, variance) {
        (true, ..) => Ok(vec![x.batch_norm(weight, bias, eps)?.output]),
        (false, Some(mean), Some(variance)) => one(x.batch_norm_inference(mean, variance, weight, bias, eps)),
        _ => unmapped("no statistics"),
    }
}

fn group_norm(c: &Call<'_>) -> Outcome {
    let (x, groups) = (c.input()?, c.int(1, "num_groups", 1)?.unsigned_abs());
    let (weight, bias) = (c.maybe_tensor(2, "weight")?, c.maybe_tensor(3, "bias")?);
    one(x.group_norm(groups, weight, bias, c.float(4, "eps", 1e-5)?))
}

fn layer_norm(c: &Call<'_>) -> Outcome {
    let (x, axes) = (c.input()?, c.extents(1, "normalized_shape")?.len());
    let (weight, bias) = (c.maybe_tensor(2, "weight")?, c.maybe_tensor(3, "bias")?);
    one(x.layer_norm(axes, weight, bias, c.float(4, "eps", 1e-5)?))
}

/// PyTorch's default `eps` is that of the dtype that it computes in: f64 here, whatever the operands are.
fn rms_norm(c: &Call<'_>) -> Outcome {
    let (x, axes) = (c.input()?, c.extents(1, "normalized_shape")?.len());
    let weight = c.maybe_tensor(2, "weight")?;
    one(x.rms_norm(axes, weight, c.float(3, "eps", f64::EPSILON)?))
}

fn attention(c: &Call<'_>) -> Outcome {
    if c.float(4, "dropout_p", 0.0)? != 0.0 || c.flag(7, "enable_gqa", false)? {
        return unmapped("dropout or shared heads");
    }
    let (keys, values, mask) = (c.tensor(1, "key")?, c.tensor(2, "value")?, c.maybe_tensor(3, "attn_mask")?);
    one(c.input()?.attention(keys, values, mask, c.flag(5, "is_causal", false)?, c.maybe_float(6, "scale")?))
}

/// PyTorch can give the places too; ubique has the values alone.
fn adaptive_max_pool(c: &Call<'_>, axes: usize) -> Outcome {
    c.flag(2, "return_indices", false)?;
    let output = output_size(c, axes)?;
    batched(c.input()?, axes, |x| Ok(vec![x.adaptive_max_pool(output)?]))
}

/// Each channel of each example is a group of its own.
fn instance_norm(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let (weight, bias) = (c.maybe_tensor(usize::MAX, "weight")?, c.maybe_tensor(usize::MAX, "bias")?);
    // The running averages' share of the new statistics, which are no result here.
    c.float(usize::MAX, "momentum", 0.1)?;
    if !c.flag(usize::MAX, "use_input_stats", true)? {
        return unmapped("running statistics");
    }
    one(x.group_norm(x.shape()[1], weight, bias, c.float(usize::MAX, "eps", 1e-5)?))
}

fn unfold(c: &Call<'_>) -> Outcome {
    let (x, kernel) = (c.input()?, c.extents(1, "kernel_size")?);
    let both = |sizes: Vec<usize>| if sizes.len() == 1 { vec![sizes[0]; 2] } else { sizes };
    let options = ConvOptions::new()
        .dilation(both(c.extents(2, "dilation")?))
        .padding(both(c.extents(3, "padding")?))
        .stride(both(c.extents(4, "stride")?));
    one(x.im2col(both(kernel), &options))
}
