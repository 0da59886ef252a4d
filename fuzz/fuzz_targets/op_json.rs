//! Ops in their serialised form, as they come from files and other machines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ubique_core::{DType, Op, TensorSpec};

fuzz_target!(|bytes: &[u8]| {
    let Ok(op) = serde_json::from_slice::<Op>(bytes) else { return };
    let text = serde_json::to_string(&op).expect("an op that was read can be written");
    let again: Op = serde_json::from_str(&text).expect("what was written can be read");
    // NaN parameters are equal to nothing, so the texts are compared.
    assert_eq!(serde_json::to_string(&again).ok().as_deref(), Some(text.as_str()));
    let spec = |shape: &[usize], dtype| TensorSpec::new(shape, dtype);
    let operands = [spec(&[2, 3, 8, 8], DType::F32), spec(&[3, 3, 2, 2], DType::F32), spec(&[3], DType::F32)];
    for count in 0..=operands.len() {
        let _ = op.infer(&operands[..count]);
    }
    let _ = (op.name(), op.rule().traits());
});
