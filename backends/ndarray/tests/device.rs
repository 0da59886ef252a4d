//! The device: how it opens, what it refuses, and operands at the edges of what tensors can be.

use ubique_core::op::index::Combine;
use ubique_core::{DType, Device, ErrorKind, Tensor};
use ubique_flex as _;
use ubique_ndarray as _;

fn device() -> Device {
    Device::new("ndarray").expect("ndarray opens on every machine")
}

#[test]
fn names_mean_it_only_where_they_name_it() {
    assert_eq!(Device::new("cpu").unwrap(), Device::new("flex").unwrap());
    assert_eq!(Device::new("cpu:1").unwrap(), device());
    assert_eq!(Device::from_id(device().id()).unwrap(), device());
    let error = Device::new("ndarray:1").unwrap_err();
    assert!(error.to_string().contains("there is no 1"), "{error}");
    let error = Device::new("ndarray?threads=2").unwrap_err();
    assert!(error.to_string().contains("one thread"), "{error}");
    assert!(Device::new("ndarray?threads=1").is_ok());
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let device = Device::new("ndarray?memory=1048576").unwrap();
    let x = Tensor::ones([1 << 17], DType::F32, &device).unwrap();
    let error = Tensor::concat(&[&x, &x, &x], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("1048576"), "{error}");
}

#[test]
fn indices_out_of_range_are_errors_even_where_nothing_is_taken() {
    let device = device();
    let x = Tensor::zeros([3, 0], DType::F32, &device).unwrap();
    for place in [3i64, -1] {
        let index = Tensor::from_vec(vec![place], [1], &device).unwrap();
        assert_eq!(x.index_select(0, &index).unwrap_err().kind(), ErrorKind::Index);
        let rows = Tensor::zeros([3, 1], DType::F32, &device).unwrap();
        let index = index.reshape([1, 1]).unwrap();
        assert_eq!(rows.gather(0, &index).unwrap_err().kind(), ErrorKind::Index);
        let source = Tensor::ones([1, 1], DType::F32, &device).unwrap();
        assert_eq!(rows.scatter(0, &index, &source, Combine::Add).unwrap_err().kind(), ErrorKind::Index);
    }
}

#[test]
fn what_is_given_away_is_written_over_and_what_is_kept_is_not() {
    let device = device();
    let address = |x: &Tensor| ubique_ndarray::with_view(x, |a: ndarray::ArrayViewD<'_, f32>| a.as_ptr()).unwrap();
    let kept = Tensor::ones([100], DType::F32, &device).unwrap();
    let sum = (&kept + 1.0).tensor().unwrap();
    let at = address(&sum);
    let product = (sum * &kept).tensor().unwrap();
    assert_eq!(address(&product), at);
    assert_ne!(address(&kept), at);
    assert_eq!(product.to_vec::<f32>().unwrap(), [2.0; 100]);
    assert_eq!(kept.to_vec::<f32>().unwrap(), [1.0; 100]);
    // The scalar is the left operand.
    let left = (10.0 - product).tensor().unwrap();
    assert_eq!((address(&left), left.to_vec::<f32>().unwrap()), (at, vec![8.0; 100]));
}

#[test]
fn tensors_of_nothing_may_have_extents_that_no_array_has() {
    let device = device();
    let huge = Tensor::zeros([1 << 40, 0, 1 << 40], DType::F32, &device).unwrap();
    assert_eq!(huge.sum_all().unwrap().item::<f32>().unwrap(), 0.0);
    assert_eq!((&huge + 1.0).tensor().unwrap().shape(), huge.shape());
    assert_eq!((&huge + &huge).tensor().unwrap().elements(), 0);
    assert_eq!(huge.permute(&[2, 1, 0]).unwrap().contiguous().unwrap().elements(), 0);
    assert_eq!(Tensor::concat(&[&huge, &huge], 1).unwrap().elements(), 0);
    for result in [huge.cumsum(0), huge.sort(1, false).map(|(values, _)| values), huge.softmax(0), huge.exp()] {
        assert_eq!(result.unwrap().elements(), 0);
    }
    let (row, column) = (huge.reshape([1 << 40, 0]).unwrap(), Tensor::zeros([0, 2], DType::F32, &device).unwrap());
    assert_eq!(row.narrow(0, 0, 3).unwrap().matmul(&column).unwrap().to_vec::<f32>().unwrap(), [0.0; 6]);
}

#[test]
fn ranks_beyond_those_that_need_no_heap() {
    let device = device();
    let x = Tensor::arange(0, 1 << 10, 1, DType::I32, &device).unwrap().reshape([2usize; 10]).unwrap();
    let axes: Vec<isize> = (0..10).rev().collect();
    let turned = (x.permute(&axes).unwrap() + &x).tensor().unwrap();
    let bits = |i: i32| (0..10).fold(0, |r, bit| r | ((i >> bit) & 1) << (9 - bit));
    assert_eq!(turned.to_vec::<i32>().unwrap(), (0..1 << 10).map(|i| i + bits(i)).collect::<Vec<_>>());
    assert_eq!(turned.sum(&[0, 3, 9]).unwrap().rank(), 7);
    assert_eq!(turned.sum_all().unwrap().item::<i32>().unwrap(), 1023 * 1024);
}

#[test]
fn long_sums_of_f32_keep_their_digits() {
    let device = device();
    let count = 1 << 22;
    let tenth = Tensor::full([count], 0.1, DType::F32, &device).unwrap();
    let exact = f64::from(0.1f32) * count as f64;
    let sum = tenth.sum_all().unwrap().item::<f32>().unwrap();
    assert!((f64::from(sum) / exact - 1.0).abs() < 1e-6, "{sum} instead of {exact}");
    let dot = tenth.matmul(&tenth.ones_like().unwrap()).unwrap().item::<f32>().unwrap();
    assert!((f64::from(dot) / exact - 1.0).abs() < 1e-5, "{dot} instead of {exact}");
    let half = tenth.cast(DType::F16).unwrap().mean_all().unwrap().item::<half::f16>().unwrap();
    assert_eq!(half, half::f16::from_f32(0.1));
}
