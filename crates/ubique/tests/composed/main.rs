//! Methods composed of several ops, which have no reference of their own: values worked out by hand, gradients by finite
//! differences.

mod algebra;
mod deformable;
mod fourier;
mod images;
mod indexing;
mod linear_algebra;
mod losses;
mod quantized;
mod statistics;

use ubique::{DType, Device, Element, Result, Tensor, TensorSpec};

fn device() -> Device {
    Device::new("flex?threads=1").expect("flex opens on every machine")
}

fn tensor<T: Element>(values: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &device()).unwrap()
}

/// 0, 1, 2, ..
fn counting(shape: &[usize], dtype: DType) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::arange(0, count, 1, DType::I64, &device()).unwrap().reshape(shape).unwrap().cast(dtype).unwrap()
}

/// Refuses another shape, dtype or value; NaN equals NaN.
#[track_caller]
fn assert_values(actual: Result<Tensor>, shape: &[usize], expected: &[f64]) {
    let actual = actual.unwrap();
    assert_eq!(&**actual.shape(), shape);
    let values: Vec<f64> = actual.cast(DType::F64).unwrap().to_vec().unwrap();
    let close = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    assert!(
        values.len() == expected.len() && values.iter().zip(expected).all(|(&a, &b)| close(a, b)),
        "{values:?} instead of {expected:?}"
    );
}

/// Distinct values without a pattern, at least 0.05 apart.
fn scattered(count: usize, seed: usize) -> Vec<f64> {
    let place = |i: usize| (i * 37 + seed * 11) % 97;
    (0..count).map(|i| place(i) as f64 * 0.05 - 2.0 + 0.005 * ((i * i + seed) % 7) as f64).collect()
}

/// A number that weights each element of the result differently.
fn weighted(result: &Tensor) -> Tensor {
    let count = result.elements();
    let weights: Vec<f64> = (0..count).map(|i| 0.3 + ((i * 5) % 7) as f64 * 0.25).collect();
    let weights = Tensor::from_vec(weights, result.shape(), result.device()).unwrap();
    (result * weights).tensor().unwrap().sum_all().unwrap()
}

/// Compares the gradient with finite differences in f64 at operands of these shapes.
#[track_caller]
fn assert_gradient(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let values: Vec<Vec<f64>> =
        shapes.iter().enumerate().map(|(seed, shape)| scattered(shape.iter().product(), seed)).collect();
    let make = |values: &[Vec<f64>], device: &Device| -> Vec<Tensor> {
        values.iter().zip(shapes).map(|(v, &shape)| Tensor::from_slice(v, shape, device).unwrap()).collect()
    };
    let leaves: Vec<Tensor> = make(&values, &device().autodiff()).iter().map(|t| t.require_grad().unwrap()).collect();
    let gradients = weighted(&f(&leaves).unwrap()).backward().unwrap();
    let value = |values: &[Vec<f64>]| weighted(&f(&make(values, &device())).unwrap()).item::<f64>().unwrap();
    for (which, leaf) in leaves.iter().enumerate() {
        let gradient: Vec<f64> = gradients.get(leaf).unwrap().to_vec().unwrap();
        for (place, &slope) in gradient.iter().enumerate() {
            let nudged = |by: f64| {
                let mut values = values.clone();
                values[which][place] += by;
                value(&values)
            };
            let step = 1e-6;
            let difference = (nudged(step) - nudged(-step)) / (2.0 * step);
            assert!(
                (slope - difference).abs() <= 1e-6 * difference.abs().max(1.0),
                "operand {which}, element {place}: gradient {slope}, difference quotient {difference}"
            );
        }
    }
}

/// The text of the error that a call must give.
#[track_caller]
fn error<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn operands_of_checks_are_what_they_say() {
    assert_eq!(counting(&[2, 1], DType::F32).spec(), TensorSpec::new([2, 1], DType::F32));
    let values = scattered(90, 3);
    assert!(values.iter().enumerate().all(|(i, a)| values[..i].iter().all(|b| (a - b).abs() > 0.01)));
}
