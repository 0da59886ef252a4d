//! Every case of every op on ndarray: values in every dtype and layout, gradients, second derivatives.
//!
//! `UBIQUE_OP=softmax cargo test -p ubique-ndarray --test cases` checks one op.

use ubique_conformance::{Options, run};
use ubique_core::Device;
use ubique_flex as _;
use ubique_ndarray as _;

#[test]
fn conformance() {
    let only = std::env::var("UBIQUE_OP").ok();
    let device = Device::new("ndarray").expect("ndarray opens on every machine");
    let report = run(&device, &Options { ops: only.iter().cloned().collect(), ..Options::default() });
    println!("{report}");
    assert!(report.passed(), "{report}");
    assert!(only.is_some() || report.passed_checks() > 59_000, "cases have gone: {report}");
}
