//! Every case of every op on flex: values in several layouts, gradients, second derivatives.
//!
//! `UBIQUE_OP=softmax cargo test -p ubique-flex --test cases` checks one op.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ubique_conformance::{Failure, LayoutKind, decomposition, forward, gradient, gradient_cases, second_order};
use ubique_core::op::case::Case;
use ubique_core::{Device, Op};
use ubique_flex as _;

fn device() -> Device {
    Device::new("flex").expect("flex opens on every machine")
}

fn wanted(case: &Case) -> bool {
    std::env::var("UBIQUE_OP").map_or(true, |name| name == case.op.name())
}

/// Runs a check on cases; reports the first failure of each op and how many cases ran.
fn check(what: &str, cases: Vec<Case>, run: impl Fn(&Case) -> Result<(), Failure>) {
    let (mut passed, mut failures) = (0, BTreeMap::<&str, (usize, String)>::new());
    for case in cases.iter().filter(|c| wanted(c)) {
        let result = catch_unwind(AssertUnwindSafe(|| run(case).map_err(|failure| failure.to_string())));
        match result.unwrap_or_else(|_| Err("it panicked".to_owned())) {
            Ok(()) => passed += 1,
            Err(failure) => {
                let text = || format!("{:?} on {:?}: {failure}", case.op, case.specs());
                failures.entry(case.op.name()).or_insert_with(|| (0, text())).0 += 1;
            }
        }
    }
    println!("{what}: {passed} cases passed");
    let list: Vec<String> =
        failures.iter().map(|(op, (count, first))| format!("{op}: {count} failed, first {first}")).collect();
    assert!(list.is_empty(), "{what}: {} ops failed\n{}", list.len(), list.join("\n"));
    assert!(passed > 0 || std::env::var("UBIQUE_OP").is_ok(), "{what}: no case ran");
}

#[test]
fn values() {
    let device = device();
    for layout in LayoutKind::ALL {
        check(&format!("values, {layout:?}"), Op::cases(), |case| forward(&device, case, layout));
    }
}

#[test]
fn decompositions() {
    let device = device();
    check("decompositions", Op::cases(), |case| decomposition(&device, case));
}

#[test]
fn gradients() {
    let device = device().autodiff();
    check("gradients", gradient_cases(), |case| gradient(&device, case));
}

#[test]
fn second_derivatives() {
    let device = device().autodiff();
    check("second derivatives", gradient_cases(), |case| second_order(&device, case));
}
