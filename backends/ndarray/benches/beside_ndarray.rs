//! The backend beside plain `ndarray`: the same work on the same values, on one thread.
//!
//! `cargo bench -p ubique-ndarray`

use std::f32::consts::FRAC_1_SQRT_2;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use ndarray::{Array, Array1, Array2, ArrayView1, Axis};
use ubique_core::{Device, Result, Tensor};
use ubique_ndarray as _;

/// Values without a pattern that a branch could learn.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 20_011) as f32 / 10_000.0 - 1.0).collect()
}

fn tensor(data: &[f32], shape: impl Into<ubique_core::Shape>, device: &Device) -> Tensor {
    Tensor::from_slice(data, shape, device).expect("the shape fits")
}

/// A work done by both.
fn beside<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    work: &str,
    plain: impl Fn() -> T,
    ours: impl Fn() -> Result<Tensor>,
) {
    group.bench_function(format!("{work}/ndarray"), |b| b.iter(|| black_box(plain())));
    group.bench_function(format!("{work}/ubique"), |b| b.iter(|| black_box(ours().expect("the work succeeds"))));
}

fn gelu(x: f32) -> f32 {
    0.5 * x * libm::erfcf(-x * FRAC_1_SQRT_2)
}

/// Softmax of rows, as one writes it with `ndarray`.
fn softmax(x: &Array2<f32>) -> Array2<f32> {
    let mut y = x.clone();
    for mut row in y.rows_mut() {
        let largest = row.fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        row.mapv_inplace(|x| (x - largest).exp());
        let sum = row.sum();
        row /= sum;
    }
    y
}

fn elementwise(c: &mut Criterion) {
    let device = Device::new("ndarray").expect("ndarray opens on every machine");
    for (size, count) in [("1M", 1 << 20), ("4M", 1 << 22)] {
        let mut group = c.benchmark_group(size);
        let (left, right) = (values(count, 1), values(count, 2));
        let (a, b) = (Array1::from_vec(left.clone()), Array1::from_vec(right.clone()));
        let (x, y) = (tensor(&left, [count], &device), tensor(&right, [count], &device));
        beside(&mut group, "add", || &a + &b, || (&x + &y).tensor());
        beside(&mut group, "add_scalar", || &a + 1.0, || (&x + 1.0).tensor());
        beside(&mut group, "exp", || a.mapv(f32::exp), || x.exp());
        beside(&mut group, "gelu", || a.mapv(gelu), || x.gelu());
        beside(&mut group, "sqrt", || a.mapv(f32::sqrt), || x.sqrt());
        beside(&mut group, "sum", || a.sum(), || x.sum_all());
        beside(&mut group, "dot", || a.dot(&b), || x.matmul(&y));
        let side = count.isqrt();
        let (m, t) = (
            Array::from_shape_vec((side, side), left.clone()).expect("a square"),
            tensor(&left, [side, side], &device),
        );
        beside(&mut group, "sum_axis0", || m.sum_axis(Axis(0)), || t.sum(&[0]));
        beside(&mut group, "sum_axis1", || m.sum_axis(Axis(1)), || t.sum(&[1]));
        beside(&mut group, "softmax", || softmax(&m), || t.softmax(1));
        let row: ArrayView1<'_, f32> = m.row(0);
        let first = tensor(&left[..side], [side], &device);
        beside(&mut group, "add_row", || &m + &row, || (&t + &first).tensor());
        beside(&mut group, "transposed_copy", || m.t().as_standard_layout().into_owned(), || t.t()?.contiguous());
        group.finish();
    }
}

fn products(c: &mut Criterion) {
    let device = Device::new("ndarray").expect("ndarray opens on every machine");
    let mut group = c.benchmark_group("matmul");
    for side in [64, 256, 1024] {
        let (left, right) = (values(side * side, 1), values(side * side, 2));
        let square = |data: &[f32]| Array2::from_shape_vec((side, side), data.to_vec()).expect("a square");
        let (a, b) = (square(&left), square(&right));
        let (x, y) = (tensor(&left, [side, side], &device), tensor(&right, [side, side], &device));
        beside(&mut group, &side.to_string(), || a.dot(&b), || x.matmul(&y));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = elementwise, products
}
criterion_main!(benches);
