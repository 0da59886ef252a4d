//! Checks a device against the f64 reference: every case of every op in several layouts, gradients by finite differences.
//!
//! A backend's tests call [`run`] and look at the [`Report`]; `ubique verify` prints it.
#![warn(missing_docs)]

mod checks;
mod compare;
mod gradients;
mod layouts;
mod report;
mod run;
mod tolerance;

pub use checks::{Check, Kind, names};
pub use compare::{Mismatch, compare};
pub use gradients::{gradient, gradient_cases, second_order};
pub use layouts::LayoutKind;
pub use report::{Example, OpReport, Report};
pub use run::{Options, run};
pub use tolerance::Tolerance;

use ubique_core::backend::Support;
use ubique_core::op::case::{Case, Fill, Input};
use ubique_core::op::reference::RefTensor;
use ubique_core::{DType, Device, Dispatch, Result, Tensor, TensorSpec};

/// Why a case failed.
#[derive(Debug)]
pub enum Failure {
    /// The device or the reference gave an error.
    Error(ubique_core::Error),
    /// The result has another shape or dtype than inferred.
    Spec(Box<[TensorSpec; 2]>),
    /// There is no result for these operands, for this reason, and the device gave one.
    Accepted(ubique_core::Error),
    /// Values differ beyond the tolerance.
    Values(Mismatch),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Error(error) => write!(f, "{error}"),
            Failure::Spec(specs) => write!(f, "gave {} instead of {}", specs[0], specs[1]),
            Failure::Accepted(why) => write!(f, "gave a result where there is none: {why}"),
            Failure::Values(mismatch) => write!(f, "{mismatch}"),
        }
    }
}

impl From<ubique_core::Error> for Failure {
    fn from(error: ubique_core::Error) -> Failure {
        Failure::Error(error)
    }
}

/// Runs a case on a device, with operands in a layout, and compares every output with the reference.
///
/// # Errors
/// How they differ, or what failed.
pub fn forward(device: &Device, case: &Case, layout: LayoutKind) -> Result<(), Failure> {
    let native = device.executor().supports(&case.op, &case.specs()) == Support::Native;
    check(device, case, layout, |output| Tolerance::of(case, output, native), |tensors| dispatch(case, device, tensors))
}

/// Runs what a case's op decomposes into, whether or not the device has a kernel for the op itself, and compares every
/// output with the reference: whether it means the same, not how it rounds. So half precision is left out, which is
/// rounded after every step, and infinities, which may meet on the way.
///
/// # Errors
/// How they differ, or what failed.
pub fn decomposition(device: &Device, case: &Case) -> Result<(), Failure> {
    let skip = |i: &Input| matches!(i.spec.dtype, DType::F16 | DType::BF16) || matches!(i.values, Fill::Special);
    if case.inputs.iter().any(skip) {
        return Ok(());
    }
    let tolerance = |output: &TensorSpec| match output.dtype.is_float() {
        true => Tolerance { relative: 1e-3, absolute: 1e-5 },
        false => Tolerance::of(case, output, false),
    };
    check(device, case, LayoutKind::Contiguous, tolerance, |tensors| match case.op.rule().decompose(tensors)? {
        Some(outputs) => Ok(outputs),
        None => dispatch(case, device, tensors),
    })
}

fn check(
    device: &Device,
    case: &Case,
    layout: LayoutKind,
    tolerance: impl Fn(&TensorSpec) -> Tolerance,
    run: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(), Failure> {
    let specs = case.op.infer(&case.specs())?;
    let operands: Vec<RefTensor> = case.operands().iter().map(|operand| layout.values(operand)).collect();
    let wanted = match case.op.rule().reference(&operands, specs.as_slice()) {
        Ok(wanted) => wanted,
        Err(why) => return refused(layout, &operands, device, why, run),
    };
    let tensors = operands.iter().map(|o| layout.tensor(o, device)).collect::<Result<Vec<_>>>()?;
    let outputs = run(&tensors)?;
    for ((output, wanted), spec) in outputs.iter().zip(&wanted).zip(specs.as_slice()) {
        if output.spec() != *spec {
            return Err(Failure::Spec(Box::new([output.spec(), spec.clone()])));
        }
        let got = RefTensor::from_host(&output.to_host()?);
        compare(&got, wanted, tolerance(spec)).map_err(Failure::Values)?;
    }
    Ok(())
}

/// Checks that a device, too, refuses operands that have no result, or says so by NaN where it cannot see them in time.
fn refused(
    layout: LayoutKind,
    operands: &[RefTensor],
    device: &Device,
    why: ubique_core::Error,
    run: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(), Failure> {
    let tensors = operands.iter().map(|o| layout.tensor(o, device)).collect::<Result<Vec<_>>>()?;
    let download = |outputs: Vec<Tensor>| outputs.iter().map(Tensor::to_host).collect::<Result<Vec<_>>>();
    match run(&tensors).and_then(download) {
        Ok(results) if !results.iter().any(|r| r.to_f64().iter().any(|v| v.is_nan())) => Err(Failure::Accepted(why)),
        _ => Ok(()),
    }
}

fn dispatch(case: &Case, device: &Device, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    match tensors.is_empty() {
        true => Ok(vec![ubique_core::dispatch::run::create(case.op.clone(), device)?]),
        false => Dispatch::run(case.op.clone(), &tensors.iter().collect::<Vec<_>>()),
    }
}
