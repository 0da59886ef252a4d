//! Shape rules on operands of any number, rank, size and dtype.
#![no_main]

use std::sync::LazyLock;

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use ubique_core::op::case::Case;
use ubique_core::{DType, Op, Shape, TensorSpec};

static CASES: LazyLock<Vec<Case>> = LazyLock::new(Op::cases);

fn spec(data: &mut Unstructured<'_>) -> arbitrary::Result<TensorSpec> {
    let rank = data.int_in_range(0..=8usize)?;
    let extent = |data: &mut Unstructured<'_>| match data.int_in_range(0..=9u8)? {
        0 => data.arbitrary::<usize>(),
        small => Ok(usize::from(small - 1)),
    };
    let shape = (0..rank).map(|_| extent(data)).collect::<arbitrary::Result<Shape>>()?;
    Ok(TensorSpec::new(shape, *data.choose(&DType::ALL)?))
}

fuzz_target!(|bytes: &[u8]| {
    let mut data = Unstructured::new(bytes);
    let mut run = || -> arbitrary::Result<()> {
        let case = data.choose(&CASES)?;
        // Most operands as the op likes them, some changed, so that rules are passed beyond their first check.
        let mut specs = case.specs();
        for slot in &mut specs {
            if data.ratio(1u8, 2u8)? {
                *slot = spec(&mut data)?;
            }
        }
        if data.ratio(1u8, 8u8)? {
            specs.push(spec(&mut data)?);
        }
        let addressable = |spec: &TensorSpec| spec.shape.bytes(spec.dtype).is_ok();
        let outputs = case.op.infer(&specs).unwrap_or_default();
        // Of operands that can exist a rule makes nothing that cannot.
        if specs.iter().all(addressable) {
            let wrong = outputs.iter().find(|output| !addressable(output));
            assert!(wrong.is_none(), "{:?} on {specs:?} gives {wrong:?}", case.op);
        }
        Ok(())
    };
    // Too little data is not a fault.
    let _ = run();
});
