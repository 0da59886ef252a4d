//! Faults survived: a training step in which every allocation, every kernel and every transfer fails in turn. No panic, no
//! deadlock, no leak; errors name what failed; what the failure did not reach stays readable.

use std::time::{Duration, Instant};

use ubique_conformance::{Options, run};
use ubique_core::{DType, Device, Dispatch, ErrorKind, Result, Tensor};
use ubique_flex as _;
use ubique_nn::{Forward, Linear, Module, Optimizer, Sequential, Sgd};
use ubique_sim::{Faults, Profile, Sim};

/// A device of this test's own: tests run side by side.
fn device(name: &str, id: u8) -> (Device, Faults) {
    let sim = Sim::new(name, id, Profile::default());
    let faults = sim.faults();
    Dispatch::register(Box::new(sim)).unwrap();
    (Device::new(name).unwrap(), faults)
}

fn live_bytes(device: &Device) -> u64 {
    device.memory().unwrap().cleanup();
    device.memory().unwrap().usage().live_bytes
}

/// Two steps of a small network from scratch; the last loss.
fn train(device: &Device) -> Result<f32> {
    let device = &device.autodiff();
    device.seed(7);
    let model = Sequential::new().add(Linear::new(3, 4, device)?).apply(Tensor::tanh).add(Linear::new(4, 1, device)?);
    let mut optimizer = Optimizer::new(&model, 0.1, Sgd::default())?;
    let x = Tensor::from_vec((0..6).map(|i| i as f32 / 3.0).collect(), [2, 3], device)?;
    let mut last = 0.0;
    for _ in 0..2 {
        let loss = model.forward(&x)?.square()?.mean_all()?;
        last = loss.item::<f32>()?;
        let mut gradients = loss.backward()?;
        drop(loss);
        optimizer.step(&mut gradients)?;
    }
    // An update that failed late shows when the parameters are read.
    for (_, value) in model.state_dict()? {
        value.to_vec::<f32>()?;
    }
    Ok(last)
}

#[test]
fn every_allocation_fails_in_turn() {
    let (device, faults) = device("sima", 201);
    let kept = Tensor::from_vec(vec![1f32, 2.0, 3.0], [3], &device).unwrap();
    let before = live_bytes(&device);
    let start = faults.allocations();
    let loss = train(&device).unwrap();
    let count = faults.allocations() - start;
    assert!(count > 30, "{count} allocations");
    for n in 1..=count {
        // Once: dispatch tries again.
        faults.fail_allocation(n, 1);
        assert_eq!(train(&device).unwrap(), loss, "allocation {n}");
        // Twice in a row: there is no memory.
        faults.fail_allocation(n, 2);
        let error = train(&device).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "allocation {n}: {error}");
        assert!(error.op().is_some() && error.to_string().contains("sima:0"), "allocation {n}: {error}");
        faults.clear();
        assert_eq!(live_bytes(&device), before, "allocation {n} left memory behind");
        assert_eq!(kept.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    }
}

#[test]
fn every_kernel_fails_in_turn_and_late() {
    let (device, faults) = device("simk", 202);
    let before = live_bytes(&device);
    let start = faults.ops();
    train(&device).unwrap();
    let count = faults.ops() - start;
    assert!(count > 30, "{count} ops");
    let mut failed = 0;
    for n in 1..=count {
        faults.fail_op(n);
        // A kernel whose result nobody looks at fails unseen.
        if let Err(error) = train(&device) {
            assert!(error.op().is_some() && error.message().contains("the kernel failed"), "op {n}: {error}");
            failed += 1;
        }
        faults.clear();
        assert_eq!(live_bytes(&device), before, "op {n} left memory behind");
    }
    assert!(failed > count / 2, "{failed} of {count} failures were seen");
}

#[test]
fn the_conformance_kit_goes_on_after_any_fault() {
    let (device, faults) = device("simc", 208);
    let before = live_bytes(&device);
    let options = Options { ops: vec!["concat".to_owned(), "log_softmax".to_owned()], ..Options::default() };
    let (allocations, ops) = (faults.allocations(), faults.ops());
    let clean = run(&device, &options);
    assert!(clean.passed(), "{clean}");
    let (allocations, ops) = (faults.allocations() - allocations, faults.ops() - ops);
    let checks = clean.passed_checks();
    let with = |what: &str, n: u64, fault: &dyn Fn()| {
        fault();
        let report = run(&device, &options);
        faults.clear();
        assert_eq!(report.passed_checks() + report.failed_checks(), checks, "{what} {n}: {report}");
        assert!(report.failed_checks() <= 1, "{what} {n}: one fault, but {report}");
        assert_eq!(live_bytes(&device), before, "{what} {n} left memory behind");
    };
    for n in (1..allocations).step_by(allocations as usize / 8) {
        with("allocation", n, &|| faults.fail_allocation(n, 2));
    }
    for n in (1..ops).step_by(ops as usize / 8) {
        with("op", n, &|| faults.fail_op(n));
    }
}

#[test]
fn a_late_failure_spoils_what_it_reaches_and_nothing_else() {
    let (device, faults) = device("siml", 203);
    let x = Tensor::from_vec(vec![1f32, 4.0], [2], &device).unwrap();
    faults.fail_op(1);
    let root = x.sqrt().unwrap();
    let (twice, other) = ((&root * 2.0).tensor().unwrap(), (&x * 2.0).tensor().unwrap());
    let error = twice.to_vec::<f32>().unwrap_err();
    assert_eq!(error.op(), Some("sqrt"), "{error}");
    assert!(root.to_vec::<f32>().is_err());
    assert_eq!(other.to_vec::<f32>().unwrap(), [2.0, 8.0]);
    assert_eq!(x.sqrt().unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn a_lost_device_says_so_and_works_again_after_a_reset() {
    let (device, faults) = device("simd", 204);
    let before = live_bytes(&device);
    let start = faults.ops();
    train(&device).unwrap();
    let count = faults.ops() - start;
    for n in 1..=count {
        faults.lose_at_op(n);
        let error = train(&device).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "op {n}: {error}");
        assert!(device.sync().is_err());
        faults.clear();
        assert_eq!(live_bytes(&device), before, "losing the device at op {n} left memory behind");
    }
    train(&device).unwrap();
    device.sync().unwrap();
}

#[test]
fn slow_transfers_and_overtaking_change_no_value() {
    let (slow, faults) = device("sims", 205);
    let (fast, _) = device("simf", 206);
    faults.slow_transfers(Duration::from_millis(20));
    let start = Instant::now();
    let x = Tensor::from_vec(vec![1f32; 4], [4], &slow).unwrap();
    assert!(start.elapsed() < Duration::from_millis(15), "an upload does not wait for the transfer");
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0; 4]);
    assert!(start.elapsed() >= Duration::from_millis(40));
    faults.clear();

    faults.pause(true);
    let y = x.exp().unwrap();
    // The other device finishes while this one stands still.
    let z = Tensor::from_vec(vec![2f32; 4], [4], &fast).unwrap().square().unwrap();
    assert_eq!(z.to_vec::<f32>().unwrap(), [4.0; 4]);
    let waiting = std::thread::spawn(move || y.to_vec::<f32>());
    std::thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished());
    faults.pause(false);
    assert_eq!(waiting.join().unwrap().unwrap(), [1f32.exp(); 4]);
}

#[test]
fn tensors_move_between_devices_with_memory_of_their_own() {
    let (device, _) = device("simm", 207);
    let flex = Device::new("flex").unwrap();
    // Several staging buffers, and a strided source.
    let values: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
    let host = Tensor::from_vec(values, [100, 1000], &flex).unwrap();
    let moved = host.t().unwrap().to_device(&device).unwrap();
    assert_eq!(moved.dtype(), DType::F32);
    let back = moved.flip(&[0]).unwrap().to_device(&flex).unwrap();
    assert_eq!(back.to_vec::<f32>().unwrap(), host.t().unwrap().flip(&[0]).unwrap().to_vec::<f32>().unwrap());
    let refused = Tensor::from_vec(vec![1f64], [1], &flex).unwrap().to_device(&device).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DType, "{refused}");
}
