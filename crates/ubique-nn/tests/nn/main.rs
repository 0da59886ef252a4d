//! Modules, losses, optimisers, loaders and checkpoints on the eager CPU backend.

mod checkpoint;
mod data;
mod layers;
mod loss;
mod module;
mod norms;
mod optim;
mod recurrent;
mod training;

use ubique_core::{DType, Device, Tensor, grad};
use ubique_flex as _;

/// The CPU, with gradients.
fn device() -> Device {
    Device::new("flex").unwrap().autodiff()
}

/// A tensor of f64 values.
fn f64s(values: &[f64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &device()).unwrap()
}

/// Numbers that look random and never change, between -1 and 1.
fn wild(count: usize, salt: f64) -> Vec<f64> {
    (0..count).map(|i| ((i as f64 + 1.0) * 12.9898 + salt * 78.233).sin() * 43758.547 % 1.0).collect()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_host().unwrap().to_f64()
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let near = (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(near || a == b || a.is_nan() && b.is_nan(), "at {i}: {a}, expected {b}\n{found:?}\n{expected:?}");
    }
}

/// Compares the gradient of a scalar function with central differences.
#[track_caller]
fn assert_gradient(x: &Tensor, f: impl Fn(&Tensor) -> Tensor) {
    let leaf = x.require_grad().unwrap();
    let y = f(&leaf);
    let found = grad(&[&y], &[&y.detach().ones_like().unwrap()], &[&leaf], false).unwrap().remove(0);
    let (start, h) = (values(x), 1e-6);
    let at = |i: usize, d: f64| {
        let mut moved = start.clone();
        moved[i] += d;
        f(&f64s(&moved, x.shape())).item_scalar().unwrap().as_f64()
    };
    let expected: Vec<f64> = (0..start.len()).map(|i| (at(i, h) - at(i, -h)) / (2.0 * h)).collect();
    assert_close(&values(&found), &expected, 1e-6);
}

#[test]
fn wild_numbers_are_spread() {
    let numbers = wild(100, 1.0);
    assert!(numbers.iter().all(|x| x.abs() < 1.0) && numbers.iter().any(|x| *x > 0.5));
    assert_eq!(f64s(&numbers, &[100]).dtype(), DType::F64);
}
