//! ONNX's own operator cases: nodes with operands and results, each made from ubique's ops. The cases are recorded by
//! `tools/make-onnx-cases.py`.

mod differences;
mod node;
mod table;

use ubique_core::Device;

use crate::call::{Call, Outcome, unmapped};
use crate::compare::{Tolerance, compare};
use crate::record::Record;
use crate::tally::Truth;
use node::Node;

#[test]
fn results_are_those_of_onnx() {
    Truth { folder: "onnx", check, is_known: |record, why| differences::is_known(&record.name, why), agreed: 1006 }
        .check_all();
}

/// Makes a node and compares its results.
fn check(record: &Record, device: &Device) -> Outcome<Result<(), String>> {
    let Some(make) = table::find(&record.op) else {
        let why =
            differences::unmapped(&record.op).unwrap_or_else(|| panic!("{} has neither row nor reason", record.op));
        return unmapped(why);
    };
    let (call, _) = Call::new(record, device, &[])?;
    let results = make(&Node::new(&call, record.results.len()))?;
    call.check_all_used()?;
    if results.len() < record.results.len() {
        return Ok(Err(format!("{} results, wanted {}", results.len(), record.results.len())));
    }
    for (i, (got, wanted)) in results.iter().zip(&record.results).enumerate() {
        let Some(wanted) = wanted else { continue };
        if let Err(why) = compare(got, wanted, wanted.dtype, tolerance(record)) {
            return Ok(Err(format!("result {i} {why}")));
        }
    }
    Ok(Ok(()))
}

/// The recorded results are rounded themselves, after sums in an order that is not said.
fn tolerance(record: &Record) -> Tolerance {
    match record.op.as_str() {
        // The recorded ones come from exp(x) - 1, which cancels.
        "Elu" | "Selu" => Tolerance::Largest(8.0, 0.0),
        // numpy's functions are up to 4 ulp off.
        op if table::is_elementwise(op) => Tolerance::Each(8.0),
        _ => Tolerance::Largest(32.0, 0.0),
    }
}
