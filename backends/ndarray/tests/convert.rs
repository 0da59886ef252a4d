//! Arrays become tensors and tensors arrays, and neither the way to the device nor that between devices copies them.

use ndarray::{Array, Array2, ArrayViewD, Axis, ShapeBuilder, Slice, array};
use ubique_core::{DType, Device, ErrorKind, Tensor};
use ubique_flex as _;
use ubique_ndarray::{from_array, into_array, to_array, with_view};

fn device() -> Device {
    Device::new("ndarray").expect("ndarray opens on every machine")
}

fn address(tensor: &Tensor) -> *const f32 {
    with_view(tensor, |view: ArrayViewD<'_, f32>| view.as_ptr()).unwrap()
}

fn numbers(shape: (usize, usize)) -> Array2<f32> {
    Array::from_shape_fn(shape, |(i, j)| (i * 100 + j) as f32)
}

#[test]
fn memory_goes_through_both_devices_and_back_as_it_is() {
    let (ndarray, flex) = (device(), Device::new("flex").unwrap());
    let data: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let at = data.as_ptr();
    let there = Tensor::from_vec(data, [64, 64], &ndarray).unwrap();
    assert_eq!(address(&there), at);
    let over = there.to_device(&flex).unwrap();
    assert_eq!(address(&over), at);
    let back = over.to_device(&ndarray).unwrap();
    assert_eq!(address(&back), at);
    let host = over.to_host().unwrap();
    assert_eq!(host.as_slice::<f32>().unwrap().as_ptr(), at);
    drop((there, over, back));
    let vector = host.into_vec::<f32>().unwrap();
    assert_eq!(vector.as_ptr(), at);
    // What a kernel made goes over, too.
    let made = (Tensor::ones([64, 64], DType::F32, &ndarray).unwrap() + 1.0).tensor().unwrap();
    assert_eq!(address(&made), address(&made.to_device(&flex).unwrap()));
}

#[test]
fn arrays_become_tensors_without_a_copy() {
    let device = device();
    let row_major = numbers((3, 4));
    let (at, values) = (row_major.as_ptr(), row_major.clone().into_dyn());
    let tensor = from_array(row_major, &device).unwrap();
    assert_eq!((address(&tensor), tensor.layout().is_row_major()), (at, true));
    let back = into_array::<f32>(tensor).unwrap();
    assert_eq!(back.as_ptr(), at);
    assert_eq!(back, values);

    let mut column_major = Array2::zeros((3, 4).f());
    column_major.assign(&numbers((3, 4)));
    let at = column_major.as_ptr();
    let tensor = from_array(column_major, &device).unwrap();
    assert_eq!((address(&tensor), to_array(&tensor).unwrap()), (at, numbers((3, 4)).into_dyn()));

    let mut turned = numbers((3, 4)).reversed_axes();
    turned.invert_axis(Axis(0));
    let (at, values) = (turned.as_ptr(), turned.clone().into_dyn());
    let tensor = from_array(turned, &device).unwrap();
    assert_eq!((address(&tensor), to_array(&tensor).unwrap()), (at, values));

    let mut rows = numbers((5, 4));
    rows.slice_axis_inplace(Axis(0), Slice::from(2..4));
    let (at, values) = (rows.as_ptr(), rows.clone().into_dyn());
    let tensor = from_array(rows, &device).unwrap();
    assert_eq!((address(&tensor), to_array(&tensor).unwrap()), (at, values));
}

#[test]
fn arrays_with_gaps_are_copied() {
    let mut stepped = numbers((4, 6));
    stepped.slice_axis_inplace(Axis(1), Slice::from(1..).step_by(2));
    stepped.invert_axis(Axis(0));
    let values = stepped.clone().into_dyn();
    assert_eq!(to_array::<f32>(&from_array(stepped, &device()).unwrap()).unwrap(), values);
}

#[test]
fn views_have_the_tensors_own_strides() {
    let x = from_array(numbers((3, 4)), &device()).unwrap();
    let flipped = x.t().unwrap().flip(&[0]).unwrap();
    let strides = with_view(&flipped, |view: ArrayViewD<'_, f32>| view.strides().to_vec()).unwrap();
    assert_eq!(strides, [-1, 4]);
    let wide = x.narrow(0, 0, 1).unwrap().expand([2, 3, 4]).unwrap();
    let (sum, address) = with_view(&wide, |view: ArrayViewD<'_, f32>| (view.sum(), view.as_ptr())).unwrap();
    assert_eq!((sum, address), (36.0, self::address(&x)));
    assert_eq!(into_array::<f32>(wide).unwrap().shape(), [2, 3, 4]);
}

#[test]
fn odd_arrays_and_tensors() {
    let device = device();
    let scalar = from_array(ndarray::arr0(true), &device).unwrap();
    assert_eq!((scalar.dtype(), scalar.rank(), scalar.item::<bool>().unwrap()), (DType::Bool, 0, true));
    let nothing = from_array(Array2::<i8>::zeros((0, 3)), &device).unwrap();
    assert_eq!(to_array::<i8>(&nothing).unwrap(), Array2::<i8>::zeros((0, 3)).into_dyn());
    let halves = from_array(array![half::f16::ONE], &device).unwrap();
    assert_eq!(halves.dtype(), DType::F16);
    let error = to_array::<f64>(&halves).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DType);
    assert!(error.to_string().contains("f64") && error.to_string().contains("ndarray:0"), "{error}");
    // A tensor may have extents that no array can have.
    let huge = Tensor::zeros([1 << 40, 0, 1 << 40], DType::F32, &device).unwrap();
    assert!(to_array::<f32>(&huge).is_err() && into_array::<f32>(huge).is_err());
}
