//! PyTorch's own operator samples, with the results and gradients that PyTorch gives. The calls are recorded by
//! `tools/make-opinfo-cases.py`.

mod differences;
mod table;

use ubique_core::{DType, Device, Error, HostTensor, Tensor};

use crate::call::{self, Call, Outcome};
use crate::compare::{Tolerance, compare};
use crate::record::{Record, Stored};
use crate::tally::Truth;

#[test]
fn results_and_gradients_are_those_of_pytorch() {
    Truth { folder: "opinfo", check, is_known: |record, why| differences::is_known(&record.op, why), agreed: 3954 }
        .check_all();
}

/// Makes a call and compares its results and gradients.
fn check(record: &Record, device: &Device) -> Outcome<Result<(), String>> {
    let Some(make) = table::find(&record.op) else { return call::unmapped("no row in the table") };
    let tracked: Vec<bool> = record.grads.iter().map(Option::is_some).collect();
    let (call, leaves) = Call::new(record, device, &tracked)?;
    let results = make(&call)?;
    call.check_all_used()?;
    Ok(compare_results(record, &results).and_then(|()| compare_gradients(record, &results, &leaves)))
}

/// Floats are recorded in f64, whatever the call's dtype is.
fn dtype(wanted: &Stored, record: &Record) -> DType {
    if wanted.dtype == DType::F64 { record.dtype } else { wanted.dtype }
}

fn compare_results(record: &Record, results: &[Tensor]) -> Result<(), String> {
    // Adaptive pooling comes without the places here.
    let extra = record.op.starts_with("nn.functional.adaptive_max_pool");
    if results.len() != record.results.len() && !extra {
        return Err(format!("{} results, wanted {}", results.len(), record.results.len()));
    }
    let tolerance = match record.op.as_str() {
        // PyTorch computes 1 + erf and 1 + tanh, which cancel below 0.
        "nn.functional.gelu" => Tolerance::Largest(16.0, 0.0),
        // The rounding of beta·x in the exponent counts as often as its magnitude says.
        "nn.functional.softplus" => Tolerance::Each(64.0),
        // Errors of vectors grow as the values that they belong to come near each other.
        "linalg.eigh" | "linalg.svd" => Tolerance::Largest(128.0, 0.0),
        op if table::is_elementwise(op) => Tolerance::Each(4.0),
        _ => Tolerance::Largest(16.0, 0.0),
    };
    for (i, (got, wanted)) in results.iter().zip(&record.results).enumerate() {
        let Some(wanted) = wanted else { continue };
        compare(got, wanted, dtype(wanted, record), tolerance).map_err(|why| format!("result {i} {why}"))?;
    }
    Ok(())
}

fn compare_gradients(record: &Record, results: &[Tensor], leaves: &[Tensor]) -> Result<(), String> {
    let wanted: Vec<(&Tensor, &Stored)> =
        leaves.iter().zip(&record.grads).filter_map(|(leaf, grad)| Some((leaf, grad.as_ref()?))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let tolerance = match record.op.as_str() {
        // PyTorch rounds alpha and 1/6 to f32, also for f64 operands.
        "nn.functional.celu" | "nn.functional.hardsigmoid" => Tolerance::Largest(2f64.powi(30), 0.0),
        // Differences of terms of the order of 1/√eps, with eps 1e-5.
        op if op.ends_with("_norm") => Tolerance::Largest(64.0, 320.0),
        // Of weights of the order of 1, which cancel where an imaginary part does not matter.
        op if op.starts_with("fft.") => Tolerance::Largest(64.0, 1.0),
        _ => Tolerance::Largest(64.0, 0.0),
    };
    let got = gradients(results, &wanted).map_err(|e| format!("gradient: {e}"))?;
    for (i, (got, (_, wanted))) in got.iter().zip(&wanted).enumerate() {
        compare(got, wanted, dtype(wanted, record), tolerance).map_err(|why| format!("gradient {i} {why}"))?;
    }
    Ok(())
}

/// Gradients of the weighted sum of all results.
fn gradients(results: &[Tensor], wanted: &[(&Tensor, &Stored)]) -> Result<Vec<Tensor>, Error> {
    let tracked: Vec<(usize, &Tensor)> = results.iter().enumerate().filter(|(_, r)| r.is_tracked()).collect();
    let seeds = tracked.iter().map(|(i, result)| weights(*i, result)).collect::<Result<Vec<_>, Error>>()?;
    let outputs: Vec<&Tensor> = tracked.iter().map(|(_, result)| *result).collect();
    let inputs: Vec<&Tensor> = wanted.iter().map(|(leaf, _)| *leaf).collect();
    ubique_core::grad(&outputs, &seeds.iter().collect::<Vec<_>>(), &inputs, false)
}

/// The factors that `weight` in `tools/make-opinfo-cases.py` gives.
fn weights(index: usize, result: &Tensor) -> Result<Tensor, Error> {
    let factor = |i: usize| ((i * 7 + index * 3) % 11) as f64 / 4.0 - 1.25;
    let scalars = (0..result.elements()).map(|i| factor(i).into());
    Tensor::from_host(HostTensor::from_scalars(scalars, result.dtype(), result.shape())?, result.device())
}
