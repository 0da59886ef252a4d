//! Gradients against finite differences of the reference, and second derivatives against finite differences of gradients.

use std::collections::BTreeSet;

use ubique_core::op::Gradient;
use ubique_core::op::case::Case;
use ubique_core::op::reference::{RefTensor, Values};
use ubique_core::{DType, Device, Dispatch, Op, Result, Tensor};

use crate::{Failure, Mismatch};

/// Elements of each operand that are probed.
const PROBES: usize = 12;
/// Step of central differences in f64: errors of order step² and epsilon/step balance near the cube root of epsilon.
const STEP: f64 = 1e-5;

/// The cases whose gradient can be checked: smooth ones, with every float operand in `float` (f64 or f32).
pub fn gradient_cases(float: DType) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let mut cases = Vec::new();
    for mut case in Op::cases() {
        if !case.smooth || case.op.rule().gradient() == Gradient::None {
            continue;
        }
        let floats = case.inputs.iter().filter(|i| i.spec.dtype.is_float());
        if !floats.clone().all(|i| matches!(i.spec.dtype, DType::F32 | DType::F64)) || floats.count() == 0 {
            continue;
        }
        for input in &mut case.inputs {
            if input.spec.dtype.is_float() {
                input.spec.dtype = float;
            }
        }
        let elements: usize = case.inputs.iter().map(|i| i.spec.shape.elements().unwrap_or(0)).sum();
        let outputs = case.op.infer(&case.specs());
        let fits = outputs.is_ok_and(|o| o.as_slice().iter().any(|s| s.dtype == float));
        if fits && elements < 2000 && seen.insert(format!("{:?}{:?}", case.op, case.specs())) {
            cases.push(case);
        }
    }
    cases
}

/// A weight for each output element, so that the checked function is one number.
fn weights(outputs: &[RefTensor]) -> Vec<Vec<f64>> {
    let weight = |output: usize, i: usize| ((i * 37 + output * 11) % 17) as f64 / 8.0 - 0.9;
    outputs.iter().enumerate().map(|(o, t)| (0..t.len()).map(|i| weight(o, i)).collect()).collect()
}

/// The weighted sum of the reference's float outputs.
fn value(op: &Op, operands: &[RefTensor]) -> Result<f64> {
    let specs: Vec<_> = operands.iter().map(|o| o.spec.clone()).collect();
    let outputs = op.rule().reference(operands, &op.infer(&specs)?)?;
    let weights = weights(&outputs);
    let pairs = outputs.iter().zip(&weights).filter(|(o, _)| o.is_float());
    Ok(pairs.map(|(o, w)| o.floats().iter().zip(w).map(|(v, w)| v * w).sum::<f64>()).sum())
}

/// Values in a tensor like another.
fn on_device(values: Vec<f64>, like: &Tensor) -> Result<Tensor> {
    Tensor::from_host(RefTensor::float(like.shape(), like.dtype(), values).to_host()?, like.device())
}

fn nudged(operands: &[RefTensor], which: usize, position: usize, by: f64) -> Vec<RefTensor> {
    let mut out = operands.to_vec();
    if let Values::Float(values) = &mut out[which].values {
        values[position] += by;
    }
    out
}

/// Tracked tensors for the float operands, and the weighted outputs' gradients with respect to them.
fn gradients(device: &Device, op: &Op, operands: &[RefTensor], graph: bool) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let mut tensors = Vec::new();
    for operand in operands {
        let tensor = Tensor::from_host(operand.to_host()?, device)?;
        tensors.push(if operand.is_float() { tensor.require_grad()? } else { tensor });
    }
    let outputs = Dispatch::run(op.clone(), &tensors.iter().collect::<Vec<_>>())?;
    let shapes: Vec<RefTensor> =
        outputs.iter().map(|o| Ok(RefTensor::from_host(&o.detach().to_host()?))).collect::<Result<_>>()?;
    let mut seeds = Vec::new();
    let mut tracked = Vec::new();
    for (output, weights) in outputs.iter().zip(weights(&shapes)) {
        if output.is_tracked() {
            seeds.push(on_device(weights, output)?);
            tracked.push(output);
        }
    }
    let leaves: Vec<Tensor> = tensors.into_iter().filter(Tensor::is_tracked).collect();
    let mut grads = Vec::new();
    for leaf in &leaves {
        // An operand that no gradient reaches has none by rule (an index, say, or a mask); finite differences tell.
        let one = ubique_core::grad(&tracked, &seeds.iter().collect::<Vec<_>>(), &[leaf], graph);
        grads.push(match one {
            Ok(mut list) => list.remove(0),
            Err(_) if leaf.elements() == 0 => leaf.detach().zeros_like()?,
            Err(error) => return Err(error),
        });
    }
    Ok((leaves, grads))
}

/// Compares the gradient of a case (from [`gradient_cases`]) with central differences of the reference.
///
/// # Errors
/// The worst element, or what failed.
pub fn gradient(device: &Device, case: &Case) -> Result<(), Failure> {
    let operands = case.operands();
    let (_, grads) = gradients(device, &case.op, &operands, false)?;
    let floats: Vec<usize> = (0..operands.len()).filter(|&i| operands[i].is_float()).collect();
    for (&which, grad) in floats.iter().zip(&grads) {
        let grad = grad.to_host()?.to_f64();
        probe(&grad, slack(operands[which].spec.dtype), |position, by| {
            value(&case.op, &nudged(&operands, which, position, by))
        })?;
    }
    Ok(())
}

/// Compares the gradient of a weighted sum of the gradients with central differences of that sum.
///
/// # Errors
/// The worst element, or what failed.
pub fn second_order(device: &Device, case: &Case) -> Result<(), Failure> {
    let operands = case.operands();
    let weight = |i: usize| ((i * 13) % 7) as f64 / 4.0 - 0.6;
    let total = |operands: &[RefTensor]| -> Result<f64> {
        let (_, grads) = gradients(device, &case.op, operands, false)?;
        let sum = |g: &Tensor| -> Result<f64> {
            Ok(g.to_host()?.to_f64().iter().enumerate().map(|(i, v)| v * weight(i)).sum())
        };
        grads.iter().map(sum).sum()
    };
    let (leaves, grads) = gradients(device, &case.op, &operands, true)?;
    let mut seeds = Vec::new();
    let mut tracked = Vec::new();
    for grad in grads.iter().filter(|g| g.is_tracked()) {
        seeds.push(on_device((0..grad.elements()).map(weight).collect(), grad)?);
        tracked.push(grad);
    }
    let floats: Vec<usize> = (0..operands.len()).filter(|&i| operands[i].is_float()).collect();
    for (&which, leaf) in floats.iter().zip(&leaves) {
        let second = ubique_core::grad(&tracked, &seeds.iter().collect::<Vec<_>>(), &[leaf], false);
        // Where the gradient does not depend on the operand the second derivative is zero.
        let second = match second {
            Ok(list) => list[0].to_host()?.to_f64(),
            Err(_) => vec![0.0; leaf.elements()],
        };
        probe(&second, slack(DType::F64), |position, by| total(&nudged(&operands, which, position, by)))?;
    }
    Ok(())
}

/// How far a gradient in a dtype may be from a finite difference: that of the difference itself, and the rounding of a
/// gradient in f32, whose terms may cancel.
fn slack(dtype: DType) -> f64 {
    if dtype == DType::F64 { 2e-5 } else { 2e-3 }
}

/// Compares derivatives with central differences of a function at some positions.
fn probe(derivatives: &[f64], slack: f64, f: impl Fn(usize, f64) -> Result<f64>) -> Result<(), Failure> {
    let step = derivatives.len().div_ceil(PROBES).max(1);
    for position in (0..derivatives.len()).step_by(step) {
        let wanted = (f(position, STEP)? - f(position, -STEP)?) / (2.0 * STEP);
        let got = derivatives[position];
        let error = (got - wanted).abs();
        if error.is_nan() || error > slack * (1.0 + wanted.abs()) {
            return Err(Failure::Values(Mismatch { position, got, wanted, count: (1, derivatives.len()) }));
        }
    }
    Ok(())
}
