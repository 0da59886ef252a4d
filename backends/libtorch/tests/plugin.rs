//! The library as a program meets it: found, loaded, listed and run through the plugin's interface.

mod loaded;

use loaded::{device, load};
use ubique_core::dispatch::State;
use ubique_core::dispatch::run::call_many;
use ubique_core::op::ctc_loss::CtcLoss;
use ubique_core::{DType, Device, Dispatch, ErrorKind, HostTensor, Tensor};
use ubique_flex as _;

#[test]
fn every_kind_of_device_is_listed_with_what_is_missing() {
    load();
    let probed = Dispatch::probe().into_iter().find(|probed| probed.backend == "libtorch").expect("it is listed");
    let State::Ready(devices) = probed.state else { panic!("libtorch is {:?}", probed.state) };
    let classes: Vec<u8> = devices.iter().map(|info| info.class).collect();
    assert_eq!((classes[0], classes.contains(&1), classes.contains(&2), classes.contains(&3)), (0, true, true, true));
    assert!(devices[0].unavailable.is_none());
    for (index, info) in devices.iter().enumerate().filter(|(_, info)| info.unavailable.is_some()) {
        let error = Device::new(&format!("libtorch:{index}")).expect_err("it is not there");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let why = info.unavailable.as_ref().expect("it was filtered for that");
        assert!(why.hint.is_some() && !why.why.contains("dlopen failed"), "{}: {why}", info.name);
    }
    assert_eq!(Device::new("libtorch:99").expect_err("there are not so many").kind(), ErrorKind::Device);
}

#[test]
fn options_are_granted_or_refused() {
    load();
    Device::new("libtorch?threads=2").expect("LibTorch has threads");
    let error = Device::new("libtorch?threads=4294967296").expect_err("there are not so many");
    assert_eq!(error.kind(), ErrorKind::Value);
}

#[test]
fn memory_goes_there_and_back_as_it_is() {
    let (device, flex) = (device(), Device::new("flex").expect("flex opens everywhere"));
    let at = |tensor: &Tensor| tensor.to_host().expect("a download").bytes().as_ptr();
    let data: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let address = data.as_ptr().cast::<u8>();
    let there = Tensor::from_vec(data, [64, 64], &device).expect("an upload");
    assert_eq!(at(&there), address);
    assert_eq!(at(&there.to_device(&flex).expect("a transfer")), address);
    let made = there.add(1.0).expect("a sum");
    let over = made.to_device(&flex).expect("a transfer");
    assert_eq!(at(&made), at(&over));
    assert_eq!(over.to_vec::<f32>().expect("values")[4095], 4096.0);
}

#[test]
fn what_ops_give_on_outlives_what_was_given() {
    let device = device();
    let values: Vec<i32> = (0..50_000).collect();
    // Of integers this is the operand itself, in memory that LibTorch did not make.
    let same = Tensor::from_vec(values.clone(), [50_000], &device).and_then(|x| x.floor()).expect("an op");
    let bits = Tensor::from_vec(values.clone(), [50_000], &device).and_then(|x| x.bitcast(DType::U32)).expect("an op");
    // Other memory in the place of what would have been freed.
    let others: Vec<Tensor> =
        (0..8).map(|_| Tensor::full([50_000], -1, DType::I32, &device).expect("memory")).collect();
    assert_eq!(same.to_vec::<i32>().expect("values"), values);
    assert_eq!(bits.to_vec::<u32>().expect("values")[49_999], 49_999);
    drop(others);
}

#[test]
fn what_is_wrong_is_an_error_and_the_device_goes_on() {
    let device = device();
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3], &device).expect("an upload");
    let outside = Tensor::from_vec(vec![7i64], [1], &device).expect("an upload");
    assert_eq!(x.index_select(0, &outside).expect_err("there is no element 7").kind(), ErrorKind::Index);
    let host = HostTensor::from_vec(vec![0.0f32; 4], [2, 2]).expect("a matrix");
    let singular = Tensor::from_host(host, &device).expect("an upload");
    assert!(singular.inverse().expect_err("it has no inverse").message().contains("singular"));
    let log_p = Tensor::zeros([4, 1, 3], DType::F32, &device).expect("memory");
    let numbers = |value: i64, shape: &[usize]| Tensor::full(shape, value, DType::I64, &device).expect("memory");
    for (class, steps, length) in [(3, 4, 2), (-1, 4, 2), (1, 5, 2), (1, 4, 3), (1, -1, 2), (1, 4, -1)] {
        let (targets, steps, length) = (numbers(class, &[1, 2]), numbers(steps, &[1]), numbers(length, &[1]));
        let op = CtcLoss { blank: 0, zero_infinity: false };
        let refused = call_many(op.into(), &[&log_p, &targets, &steps, &length]);
        assert_eq!(refused.expect_err("it leads outside").kind(), ErrorKind::Index);
    }
    assert_eq!(x.mul(2.0).and_then(|y| y.to_vec::<f32>()).expect("a product"), [2.0, 4.0, 6.0]);
}
