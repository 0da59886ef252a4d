//! Ops that a device neither has nor can compose: they run on a CPU device that has them, and by reference where none has.

use ubique::op::case::Case;
use ubique::op::linalg::cholesky::Cholesky;
use ubique::op::reference::RefTensor;
use ubique::{Device, Dispatch, ErrorKind, Fallback, Op, Tensor};
use ubique_sim::{Profile, Sim};

/// A device that has no factorisations.
fn accelerator(name: &str, id: u8) -> Device {
    Dispatch::register(Box::new(Sim::new(name, id, Profile::default()))).unwrap();
    Device::new(name).unwrap()
}

#[test]
fn what_a_cpu_device_has_runs_there() {
    let (sim, flex) = (accelerator("sim", 200), Device::new("flex").unwrap());
    let case = Op::cases().into_iter().filter(|case| case.op == Op::Cholesky(Cholesky)).max_by_key(largest).unwrap();
    let operand = RefTensor::float(case.inputs[0].spec.shape.clone(), ubique::DType::F32, case.operands()[0].floats());
    let on = |device: &Device| Tensor::from_host(operand.to_host().unwrap(), device).unwrap();
    let before = sim.counts();
    let factor = on(&sim).cholesky(false).unwrap();
    assert_eq!(factor.device(), &sim);
    assert_eq!(sim.counts().host, before.host + 1);
    let values: Vec<f32> = factor.to_vec().unwrap();
    assert_eq!(values, on(&flex).cholesky(false).unwrap().to_vec::<f32>().unwrap());
    // The reference is computed in f64 and rounded once, so it differs in some last digit.
    let operand = RefTensor::from_host(&operand.to_host().unwrap());
    let reference = case.op.rule().reference(&[operand], &[factor.spec()]).unwrap();
    assert_ne!(values, reference[0].to_host().unwrap().into_vec::<f32>().unwrap());
}

/// Of all cases that of the largest matrix.
fn largest(case: &Case) -> usize {
    case.inputs[0].spec.shape.last().copied().unwrap_or(0)
}

#[test]
fn refusals_name_the_device_that_was_asked() {
    let sim = accelerator("sim2", 201);
    let zeros = Tensor::zeros([2, 2], ubique::DType::F32, &sim).unwrap();
    let error = zeros.inverse().unwrap_err();
    assert_eq!(
        error.to_string(),
        "inverse(f32[2, 2]) on sim2:0: the matrix is singular: there is no pivot in column 0"
    );
    sim.set_fallback(Fallback::Forbid);
    let error = zeros.inverse().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("forbidden"), "{error}");
}
