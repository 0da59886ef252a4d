//! PyTorch's own operator samples, with the results and gradients that PyTorch gives, against the f64 references and
//! the flex backend. The calls are recorded by `tools/make-opinfo-cases.py`.
//!
//! `UBIQUE_OP=softmax cargo test -p ubique-conformance --test opinfo` checks the operators of that name.

mod call;
mod compare;
mod differences;
mod record;
mod reference;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use ubique_core::{Device, Dispatch, Error, HostTensor, Tensor};
use ubique_flex as _;

use call::{Call, Failure, Outcome};
use compare::{Tolerance, compare};
use record::{Record, Stored};

/// Calls that ran and agreed when the data set was made.
const AGREED: usize = 2443;

/// What became of the calls.
#[derive(Default)]
struct Tally {
    agreed: usize,
    /// Calls with gradients among those.
    differentiated: usize,
    known: usize,
    unmapped: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

#[test]
fn results_and_gradients_are_those_of_pytorch() {
    let records = record::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/opinfo"));
    Dispatch::register(Box::new(reference::ReferenceBackend)).expect("no other backend is called so");
    let only = std::env::var("UBIQUE_OP").ok();
    for name in ["reference", "flex"] {
        let device = Device::new(name).expect("both are always there").autodiff();
        let mut tally = Tally::default();
        for record in records.iter().filter(|r| only.as_ref().is_none_or(|only| r.op.contains(only))) {
            tally.add(record, check(record, &device));
        }
        println!(
            "{name}: {} calls agree, {} of them in their gradients; {} differ as known; not mapped:",
            tally.agreed, tally.differentiated, tally.known
        );
        for (why, count) in &tally.unmapped {
            println!("  {count:4} {why}");
        }
        assert!(tally.wrong.is_empty(), "{name}: {} calls are wrong:\n{}", tally.wrong.len(), tally.wrong.join("\n"));
        assert!(only.is_some() || tally.agreed >= AGREED, "{name}: only {} calls agree", tally.agreed);
    }
}

impl Tally {
    fn add(&mut self, record: &Record, result: Outcome<Result<(), String>>) {
        match result {
            Ok(Ok(())) => {
                self.agreed += 1;
                self.differentiated += record.grads.iter().any(Option::is_some) as usize;
            }
            Err(Failure::Unmapped(why)) => *self.unmapped.entry(format!("{}: {why}", record.op)).or_default() += 1,
            Ok(Err(why)) => self.differs(record, why),
            Err(Failure::Failed(error)) => self.differs(record, error.to_string()),
        }
    }

    fn differs(&mut self, record: &Record, why: String) {
        match differences::is_known(&record.op, &why) {
            true => self.known += 1,
            false => self.wrong.push(format!("{} {}: {why}", record.op, record.describe())),
        }
    }
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

fn compare_results(record: &Record, results: &[Tensor]) -> Result<(), String> {
    // Running extrema come without their places here.
    if results.len() != record.results.len() && !record.op.starts_with("cumm") {
        return Err(format!("{} results, wanted {}", results.len(), record.results.len()));
    }
    let tolerance = match record.op.as_str() {
        // PyTorch computes 1 + erf and 1 + tanh, which cancel below 0.
        "nn.functional.gelu" => Tolerance::Largest(16.0, 0.0),
        // The rounding of beta·x in the exponent counts as often as its magnitude says.
        "nn.functional.softplus" => Tolerance::Each(64.0),
        op if table::is_elementwise(op) => Tolerance::Each(4.0),
        _ => Tolerance::Largest(16.0, 0.0),
    };
    for (i, (got, wanted)) in results.iter().zip(&record.results).enumerate() {
        compare(got, wanted, record.dtype, tolerance).map_err(|why| format!("result {i} {why}"))?;
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
        _ => Tolerance::Largest(64.0, 0.0),
    };
    let got = gradients(results, &wanted).map_err(|e| format!("gradient: {e}"))?;
    for (i, (got, (_, wanted))) in got.iter().zip(&wanted).enumerate() {
        compare(got, wanted, record.dtype, tolerance).map_err(|why| format!("gradient {i} {why}"))?;
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
