//! The simulated accelerator computes what the reference does, whichever way an op takes to it.

use ubique_conformance::run;
use ubique_core::{Device, Dispatch};
use ubique_sim::{Profile, Sim};

#[test]
fn every_op_is_right_natively_composed_or_on_the_host() {
    Dispatch::register(Box::new(Sim::new("sim", 200, Profile::default()))).unwrap();
    let report = run(&Device::new("sim").unwrap(), &Default::default());
    println!("{report}");
    assert!(report.passed(), "{report}");
    let total = |count: fn(&ubique_conformance::OpReport) -> usize| report.ops.iter().map(count).sum::<usize>();
    assert!(total(|op| op.native) > 10_000 && total(|op| op.decomposed) > 5_000, "{report}");
    assert!(total(|op| op.host) > 0 && total(|op| op.unsupported) > 0, "{report}");
}
