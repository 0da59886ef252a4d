//! Normalisations.

use tch::{Kind, Tensor};
use ubique_core::op::batch_norm::BatchNorm;
use ubique_core::op::layer_norm::{GroupNorm, LayerNorm, LayerNormBackward};

use super::Call;
use super::grad::gradients;
use crate::error::Made;

/// How much of a running average a batch replaces: there is none here.
const NO_MOMENTUM: f64 = 0.0;

/// The weight and the bias where an op has them, from this operand on.
fn parameters<'a>(call: &'a Call<'_>, first: usize, weight: bool, bias: bool) -> [Option<&'a Tensor>; 2] {
    [call.optional(weight, first), call.optional(bias, first + weight as usize)]
}

pub fn layer_norm(op: &LayerNorm, call: &Call<'_>) -> Made {
    let [weight, bias] = parameters(call, 1, op.weight, op.bias);
    normalised(op, &call.x[0], weight, bias)
}

fn normalised(op: &LayerNorm, x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Made {
    let size = x.size();
    let row = &size[size.len() - op.axes..];
    if op.center {
        return Ok(x.f_layer_norm(row, weight, bias, op.eps, true)?);
    }
    let normal = x.f_rms_norm(row, weight, op.eps)?;
    Ok(match bias {
        Some(bias) => normal.f_add(bias)?,
        None => normal,
    })
}

pub fn layer_norm_backward(op: &LayerNormBackward, call: &Call<'_>) -> Made<Vec<Tensor>> {
    let (LayerNormBackward(op), x, g) = (op, &*call.x[0], &*call.x[call.x.len() - 1]);
    let size = x.size();
    let bias = Tensor::f_zeros(&size[size.len() - op.axes..], (x.f_kind()?, x.device()))?;
    let mut operands = vec![x];
    operands.extend(call.optional(op.weight, 1));
    operands.extend(op.bias.then_some(&bias));
    gradients(&operands, g, |leaves| {
        let weight = op.weight.then(|| &leaves[1]);
        let bias = op.bias.then(|| &leaves[1 + op.weight as usize]);
        normalised(op, &leaves[0], weight, bias)
    })
}

pub fn group_norm(op: &GroupNorm, call: &Call<'_>) -> Made {
    let [weight, bias] = parameters(call, 1, op.weight, op.bias);
    Ok(call.x[0].f_group_norm(op.groups as i64, weight, bias, op.eps, true)?)
}

pub fn batch_norm(op: &BatchNorm, call: &Call<'_>) -> Made<Vec<Tensor>> {
    let first = if op.training { 1 } else { 3 };
    // In the dtype of the statistics, which is wider than that of half-precision operands.
    let wide = if call.dtype() == ubique_core::DType::F64 { Kind::Double } else { Kind::Float };
    let x = call.x[0].f_to_kind(wide)?;
    let [weight, bias] =
        parameters(call, first, op.weight, op.bias).map(|parameter| parameter.map(|x| x.f_to_kind(wide)).transpose());
    let (weight, bias) = (weight?, bias?);
    let (mean, variance) = match op.training {
        true => {
            let axes: Vec<i64> = (0..x.dim() as i64).filter(|&axis| axis != 1).collect();
            let (variance, mean) = x.f_var_mean_correction(&*axes, 0, false)?;
            (mean, variance)
        }
        false => (call.x[1].shallow_clone(), call.x[2].shallow_clone()),
    };
    let (w, b) = (weight.as_ref(), bias.as_ref());
    let y = x.f_batch_norm(w, b, Some(&mean), Some(&variance), false, NO_MOMENTUM, op.eps, true)?;
    Ok(if op.training { vec![y, mean, variance] } else { vec![y] })
}
