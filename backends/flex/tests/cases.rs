//! Every case of every op on flex: values in every dtype and layout, gradients, second derivatives, decompositions.
//!
//! `UBIQUE_OP=softmax cargo test -p ubique-flex --test cases` checks one op.

use ubique_conformance::{Options, decomposition, run};
use ubique_core::{Device, Op};
use ubique_flex as _;

fn device() -> Device {
    Device::new("flex").expect("flex opens on every machine")
}

fn only() -> Option<String> {
    std::env::var("UBIQUE_OP").ok()
}

#[test]
fn conformance() {
    let report = run(&device(), &Options { ops: only().into_iter().collect(), ..Options::default() });
    println!("{report}");
    assert!(report.passed(), "{report}");
    assert!(only().is_some() || report.passed_checks() > 59_000, "cases have gone: {report}");
}

#[test]
fn decompositions() {
    let device = device();
    let cases = Op::cases().into_iter().filter(|case| only().is_none_or(|name| name == case.op.name()));
    let failed: Vec<String> = cases
        .filter_map(|case| {
            Some(format!("{:?} on {:?}: {}", case.op, case.specs(), decomposition(&device, &case).err()?))
        })
        .collect();
    assert!(failed.is_empty(), "{} failed, first {}", failed.len(), failed[0]);
}
