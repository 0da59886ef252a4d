//! What dispatch and autodiff promise beyond single ops: layers, checkpointing, long chains, device names and ids.

use std::sync::Arc;

use ubique::dispatch::Requirements;
use ubique::dispatch::layer::{self, CheckNan, Profile};
use ubique::{Checkpointing, DType, Device, ErrorKind, Op, Result, Tensor, TensorSpec};

fn device() -> Device {
    Device::new("flex?threads=1").unwrap()
}

/// A chain of memory-bound ops around a matrix product, longer than what is recomputed in one go.
fn chain(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let mut y = x.clone();
    for _ in 0..50 {
        y = (y.tanh()? * 1.01 + x).tensor()?;
    }
    let mut y = y.matmul(w)?;
    for _ in 0..5 {
        y = (y.sigmoid()? * &y).tensor()?;
    }
    y.sum_all()
}

#[test]
fn checkpointing_changes_memory_but_no_gradient() {
    let run = |checkpointing| {
        let device = device().autodiff_with(checkpointing);
        let values: Vec<f32> = (0..12).map(|i| i as f32 * 0.1 - 0.6).collect();
        let x = Tensor::from_vec(values.clone(), [3, 4], &device)?.require_grad()?;
        let w = Tensor::from_vec(values, [4, 3], &device)?.require_grad()?;
        let gradients = chain(&x, &w)?.backward()?;
        Ok::<_, ubique::Error>((gradients.get(&x)?.to_vec::<f32>()?, gradients.get(&w)?.to_vec::<f32>()?))
    };
    let kept = run(Checkpointing::Disabled).unwrap();
    assert_eq!(run(Checkpointing::Balanced).unwrap(), kept);
    assert!(kept.0.iter().all(|g| g.is_finite() && *g != 0.0));
}

#[test]
fn long_chains_neither_recurse_nor_leak() {
    let device = device().autodiff();
    let x = Tensor::ones([1], DType::F32, &device).unwrap().require_grad().unwrap();
    let mut y = x.clone();
    for _ in 0..200_000 {
        y = (y + 1.0).tensor().unwrap();
    }
    assert_eq!(y.backward().unwrap().get(&x).unwrap().item::<f32>().unwrap(), 1.0);
    drop(y);
}

#[test]
fn layers_see_each_op_once_and_go_when_dropped() {
    let device = device();
    let x = Tensor::from_vec(vec![-1f32, 4.0], [2], &device).unwrap();
    let profile = Arc::new(Profile::default());
    let guard = layer::push(profile.clone());
    x.abs().unwrap().sqrt().unwrap();
    drop(guard);
    x.abs().unwrap();
    let calls = |name| profile.report().iter().find(|row| row.0 == name).map_or(0, |row| row.1);
    assert!(calls("abs") >= 1 && calls("sqrt") >= 1);

    let guard = layer::push(Arc::new(CheckNan));
    let error = x.sqrt().unwrap_err();
    drop(guard);
    assert!(error.to_string().starts_with("sqrt(f32[2])"), "{error}");
    assert!(x.sqrt().is_ok());
}

#[test]
fn gradients_that_are_missing_are_errors() {
    let device = device().autodiff();
    let x = Tensor::ones([2], DType::F32, &device).unwrap().require_grad().unwrap();
    let other = Tensor::ones([2], DType::F32, &device).unwrap().require_grad().unwrap();
    let mut gradients = x.square().unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(gradients.get(&x).unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
    assert_eq!(gradients.get(&other).unwrap_err().kind(), ErrorKind::Gradient);
    assert_eq!(gradients.get(&x.detach()).unwrap_err().kind(), ErrorKind::Gradient);
    let new = Tensor::zeros([2], DType::F32, &device).unwrap();
    assert!(gradients.replace(&x, new).unwrap().is_some());
    assert_eq!(gradients.remove(&x).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    assert!(gradients.get(&x).is_err());
    assert!(x.square().unwrap().backward().is_err(), "not one element");
    assert!(x.inner().require_grad().is_err(), "a device without autodiff");
}

#[test]
fn names_and_ids_round_trip() {
    let device = Device::new("flex:0").unwrap();
    assert_eq!(Device::from_id(u32::from(device.id()).into()).unwrap(), device);
    assert_eq!(Device::new(device.name()).unwrap(), device);
    assert_eq!(device, device.autodiff());
    let error = Device::new("warp").unwrap_err();
    assert!(error.to_string().contains("flex"), "{error}");
    assert!(Device::new("flex:9").is_err());
    // The first of a list that opens.
    assert_eq!(Device::new("warp:3,flex:9,flex,cpu").unwrap(), Device::new("flex").unwrap());
    let error = Device::new("warp:3,flex:9").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("warp:3: no backend") && error.to_string().contains("there is no 9"), "{error}");
    let error = Device::new("flex:ws://somewhere/0").unwrap_err();
    assert!(error.to_string().contains("by number"), "{error}");
}

#[test]
fn what_a_program_needs_decides_which_device_it_gets() {
    let matmul = Op::Matmul(ubique::op::matmul::Matmul);
    let matrix = |dtype| TensorSpec::new([2, 2], dtype);
    let needs = |dtypes: &[DType], operand| Requirements {
        dtypes: dtypes.to_vec(),
        memory: 1 << 30,
        ops: vec![(matmul.clone(), vec![matrix(operand); 2])],
    };
    let device = Device::auto_for(&needs(&[DType::F64, DType::F8E4M3], DType::F32)).unwrap();
    assert_eq!(device, Device::auto().unwrap());
    // Operands that no kernel takes: the reason names device, op and operands.
    let mut impossible = needs(&[], DType::F32);
    let softmax = |axis| Op::Softmax(ubique::op::softmax::Softmax { axis, log: false });
    impossible.ops.push((softmax(1), vec![matrix(DType::F64)]));
    let error = Device::auto_for(&impossible).unwrap_err();
    assert!(error.to_string().contains("flex:0: it has no kernel for softmax(f64[2, 2])"), "{error}");
}

#[test]
fn operands_on_two_devices_are_an_error_that_names_both() {
    let (a, b) = (device(), Device::new("flex").unwrap());
    let x = Tensor::ones([2], DType::F32, &a).unwrap();
    let y = Tensor::ones([2], DType::F32, &b).unwrap();
    let error = (&x + &y).tensor().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.to_string().contains(a.name()) && error.to_string().contains(b.name()), "{error}");
    // A transfer carries the gradient back.
    let x = x.to_device(&a.autodiff()).unwrap().require_grad().unwrap();
    let moved = x.to_device(&b.autodiff()).unwrap();
    let gradients = (&moved * &y * 3.0).tensor().unwrap().sum_all().unwrap().backward().unwrap();
    let gradient = gradients.get(&x).unwrap();
    assert_eq!(gradient.to_vec::<f32>().unwrap(), [3.0, 3.0]);
    assert_eq!(*gradient.device(), a);
}

#[test]
fn memory_that_cannot_be_had_is_an_error_and_nothing_is_lost() {
    let device = Device::new("flex?memory=4194304").unwrap();
    let before = device.memory().unwrap().usage().live_bytes;
    let x = Tensor::ones([256, 1024], DType::F32, &device).unwrap();
    let doubled = (&x + &x).tensor().unwrap();
    let error = Tensor::concat(&[&x, &doubled, &x], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("concat") && error.to_string().contains("4194304"), "{error}");
    assert_eq!(doubled.to_vec::<f32>().unwrap(), vec![2.0; 256 * 1024]);
    drop((x, doubled));
    assert_eq!(device.memory().unwrap().usage().live_bytes, before);

    // More than any machine has, and more than an address can count.
    let device = Device::new("flex").unwrap();
    for shape in [vec![1 << 46], vec![1 << 40, 1 << 40]] {
        let error = Tensor::zeros(shape, DType::F64, &device).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::Shape), "{error:?}");
    }
    // Nothing at all, whose sum would be more than can be addressed.
    let nothing = Tensor::zeros([0, 1 << 40, 1 << 40], DType::F64, &device).unwrap();
    assert_eq!(nothing.sum(&[0]).unwrap_err().kind(), ErrorKind::Shape);
}
