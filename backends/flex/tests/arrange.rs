//! Tensor methods that are composed of ops: roll, repeat, tile, embedding, one-hot, and those whose result's size depends
//! on the data; and what random draws promise.

use ubique_core::op::pad::PadMode;
use ubique_core::{DType, Device, Result, Tensor};
use ubique_flex as _;

fn device() -> Device {
    Device::new("flex").expect("flex opens on every machine")
}

fn ints(values: &[i64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &device()).expect("values fit the shape")
}

fn list(tensor: Result<Tensor>) -> (Vec<usize>, Vec<i64>) {
    let tensor = tensor.expect("the call is valid");
    (tensor.shape().to_vec(), tensor.to_vec().expect("i64"))
}

#[test]
fn roll_repeat_and_tile() {
    let x = ints(&[1, 2, 3, 4, 5, 6], &[2, 3]);
    assert_eq!(list(x.roll(&[1], &[1])), (vec![2, 3], vec![3, 1, 2, 6, 4, 5]));
    assert_eq!(list(x.roll(&[-4, 3], &[-1, 0])), (vec![2, 3], vec![5, 6, 4, 2, 3, 1]));
    assert_eq!(list(ints(&[], &[0, 2]).roll(&[1, isize::MIN], &[0, 1])), (vec![0, 2], vec![]));
    assert!(x.roll(&[1], &[]).is_err());
    assert_eq!(list(x.repeat(2, 1)), (vec![2, 6], vec![1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]));
    assert_eq!(list(x.repeat(0, 0)), (vec![0, 3], vec![]));
    assert!(x.repeat(usize::MAX, 0).is_err());
    assert_eq!(list(ints(&[1, 2], &[2]).tile(&[2, 2])), (vec![2, 4], vec![1, 2, 1, 2, 1, 2, 1, 2]));
    assert_eq!(list(x.tile(&[2])), (vec![2, 6], vec![1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]));
    assert_eq!(list(ints(&[7], &[]).tile(&[])), (vec![], vec![7]));
    assert!(x.tile(&[usize::MAX, 2]).is_err());
    assert_eq!(list(x.pad(&[(0, 0), (1, 0)], PadMode::Circular)), (vec![2, 4], vec![3, 1, 2, 3, 6, 4, 5, 6]));
}

#[test]
fn matrices_larger_than_a_tile() {
    let (height, width) = (71, 1043);
    let values: Vec<i64> = (0..height * width).collect();
    let x = ints(&values, &[height as usize, width as usize]);
    let turned = (0..width).flat_map(|column| (0..height).map(move |row| row * width + column)).collect();
    let transposed = x.t().and_then(|t| t.contiguous());
    assert_eq!(list(transposed), (vec![width as usize, height as usize], turned));
    let back = x.t().and_then(|t| t.contiguous()).and_then(|t| t.t()?.contiguous());
    assert_eq!(list(back).1, values);
    let sums = (0..width).map(|column| (0..height).map(|row| row * width + column).sum()).collect();
    assert_eq!(list(x.sum(&[0])), (vec![width as usize], sums));
}

#[test]
fn one_hot_and_embedding() {
    assert_eq!(list(ints(&[2, 0], &[2]).one_hot(3, DType::I64)), (vec![2, 3], vec![0, 0, 1, 1, 0, 0]));
    assert_eq!(list(ints(&[1], &[]).one_hot(2, DType::I64)), (vec![2], vec![0, 1]));
    assert!(ints(&[3], &[1]).one_hot(3, DType::F32).is_err());
    let device = device().autodiff();
    let table = Tensor::from_vec(vec![1f32, 2., 3., 4., 5., 6.], [3, 2], &device).unwrap().require_grad().unwrap();
    let index = Tensor::from_vec(vec![2i64, 0, 2, 2], [2, 2], &device).unwrap();
    let rows = table.embedding(&index).unwrap();
    assert_eq!(*rows.shape(), [2, 2, 2]);
    assert_eq!(rows.detach().to_vec::<f32>().unwrap(), [5., 6., 1., 2., 5., 6., 5., 6.]);
    let gradients = rows.sum_all().unwrap().backward().unwrap();
    assert_eq!(gradients.get(&table).unwrap().to_vec::<f32>().unwrap(), [1., 1., 0., 0., 3., 3.]);
    assert!(table.embedding(&Tensor::scalar(3i64, &device).unwrap()).is_err());
}

#[test]
fn sizes_that_depend_on_the_data() {
    let x = Tensor::from_vec(vec![0f32, f32::NAN, -0.0, 2., 0., 1e-45], [2, 3], &device()).unwrap();
    assert_eq!(list(x.nonzero()), (vec![3, 2], vec![0, 1, 1, 0, 1, 2]));
    assert_eq!(list(ints(&[], &[0, 3]).nonzero()), (vec![0, 2], vec![]));
    assert_eq!(list(ints(&[5], &[]).nonzero()), (vec![1, 0], vec![]));
    let y = ints(&[1, 2, 3, 4, 5, 6], &[2, 3]);
    let even = y.rem(2).unwrap().eq(0).unwrap();
    assert_eq!(list(y.masked_select(&even)), (vec![3], vec![2, 4, 6]));
    let row = ints(&[0, 1, 1], &[3]).cast(DType::Bool).unwrap();
    assert_eq!(list(y.masked_select(&row)), (vec![4], vec![2, 3, 5, 6]));
    let none = ints(&[0], &[]).cast(DType::Bool).unwrap();
    assert_eq!(list(y.masked_select(&none)), (vec![0], vec![]));
    assert!(y.masked_select(&y).is_err());
}

#[test]
fn draws_repeat_by_seed_and_never_overlap() {
    // A device of its own: other tests draw from the random stream of theirs at the same time.
    let device = Device::new("flex?threads=2").unwrap();
    let words = |count| {
        let draw =
            |()| Tensor::randint([count], i64::MIN, i64::MAX, DType::I64, &device).unwrap().to_vec::<i64>().unwrap();
        (draw(()), draw(()))
    };
    device.seed(42);
    let (a, b) = words(3);
    device.seed(42);
    assert_eq!(words(3), (a.clone(), b.clone()));
    assert!(a.iter().all(|word| !b.contains(word)));
    // The top bits of both kinds of word come from disjoint blocks.
    device.seed(42);
    let halves = Tensor::uniform([6], 0.0, 1.0, DType::F32, &device).unwrap().to_vec::<f32>().unwrap();
    let wide = Tensor::uniform([8], 0.0, 1.0, DType::F64, &device).unwrap().to_vec::<f64>().unwrap();
    for half in halves {
        assert!(wide.iter().all(|w| (*w - half as f64).abs() > 1e-7));
    }
    let order = Tensor::randperm(100_000, &device).unwrap().to_vec::<i64>().unwrap();
    let mut sorted = order.clone();
    sorted.sort();
    assert!(sorted.into_iter().eq(0..100_000) && order[..10] != [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // A draw that is refused consumes nothing.
    device.seed(1);
    let next = |device: &Device| Tensor::bernoulli([64], 0.5, DType::U8, device).unwrap().to_vec::<u8>().unwrap();
    let first = next(&device);
    device.seed(1);
    assert!(Tensor::uniform([3], 1.0, 0.0, DType::F32, &device).is_err());
    assert_eq!(next(&device), first);
}

#[test]
fn dropout_drops_the_same_elements_of_the_gradient() {
    let device = device().autodiff();
    let x = Tensor::full([5000], 2.0, DType::F32, &device).unwrap().require_grad().unwrap();
    let y = x.dropout(0.25).unwrap();
    let values = y.detach().to_vec::<f32>().unwrap();
    let kept = values.iter().filter(|&&v| v != 0.0).count();
    assert!((3600..3900).contains(&kept), "{kept}");
    assert!(values.iter().all(|&v| v == 0.0 || (v - 8.0 / 3.0).abs() < 1e-6));
    let gradients = y.sum_all().unwrap().backward().unwrap();
    let gradient = gradients.get(&x).unwrap().to_vec::<f32>().unwrap();
    assert!(gradient.iter().zip(&values).all(|(g, v)| (*g - v / 2.0).abs() < 1e-6));
    let inf = Tensor::full([64], f32::INFINITY, DType::F32, &device).unwrap();
    assert!(inf.dropout(1.0).unwrap().to_vec::<f32>().unwrap().iter().all(|&v| v == 0.0));
    assert!(x.dropout(1.1).is_err() && x.dropout(f64::NAN).is_err());
}
