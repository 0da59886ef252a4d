//! Every case of every op on LibTorch's CPU: values in every dtype and layout, gradients, second derivatives.
//!
//! `UBIQUE_OP=softmax cargo test --test conformance` checks one op.

use ubique_conformance::{Options, run};
use ubique_core::Device;
use ubique_flex as _;
use ubique_libtorch as _;

#[test]
fn conformance() {
    ubique_core::Dispatch::register(Box::new(ubique_libtorch::LibTorch)).expect("the name is free");
    let only = std::env::var("UBIQUE_OP").ok();
    // Waiting for each other costs threads more than the small cases do.
    let device = Device::new("libtorch?threads=1").expect("LibTorch has a CPU everywhere");
    let report = run(&device, &Options { ops: only.iter().cloned().collect(), ..Options::default() });
    println!("{report}");
    assert!(report.passed(), "{report}");
    assert!(only.is_some() || report.passed_checks() > 59_000, "cases have gone: {report}");
}
