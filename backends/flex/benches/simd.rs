//! Vector kernels over 4 Mi `f32` on one core, next to a copy of as many.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::mem::MaybeUninit;
use ubique_flex::simd::elementwise::{Operand, binary};
use ubique_flex::simd::math::UNARY;
use ubique_flex::simd::{reduce, rows};

const LEN: usize = 4 << 20;

fn elementwise(c: &mut Criterion) {
    let source: Vec<f32> = (0..LEN).map(|i| (i % 8191) as f32 / 1024.0 - 4.0).collect();
    let mut target = vec![MaybeUninit::new(0.0f32); LEN];
    let mut copy = vec![0.0f32; LEN];
    c.bench_function("copy", |b| b.iter(|| copy.copy_from_slice(black_box(&source))));
    c.bench_function("add", |b| {
        let add = |a: f32, b: f32| a + b;
        b.iter(|| binary(add, Operand::Slice(black_box(&source)), Operand::Slice(&copy), &mut target));
    });
    c.bench_function("add_scalar", |b| {
        let add = |a: f32, b: f32| a + b;
        b.iter(|| binary(add, Operand::Slice(black_box(&source)), Operand::Scalar(3.0), &mut target));
    });
    for function in UNARY {
        c.bench_function(function.name, |b| b.iter(|| (function.f32)(black_box(&source), &mut target)));
    }
    let exp = UNARY[0].f32;
    let mut group = c.benchmark_group("exp_of_short_rows");
    for len in [1, 16, 100, 1000] {
        group.bench_function(len.to_string(), |b| {
            b.iter(|| exp(black_box(&source[..len]), &mut target[..len]));
        });
    }
}

fn reductions(c: &mut Criterion) {
    let source: Vec<f32> = (0..LEN).map(|i| (i % 8191) as f32 / 1024.0 - 4.0).collect();
    let ones = vec![1.0f32; LEN];
    let mut target = vec![MaybeUninit::new(0.0f32); LEN];
    c.bench_function("sum", |b| b.iter(|| reduce::sum(black_box(&source))));
    c.bench_function("max", |b| b.iter(|| reduce::max(black_box(&source))));
    c.bench_function("dot", |b| b.iter(|| reduce::dot(black_box(&source), &ones)));
    for width in [128, 1024, LEN] {
        let rows = || source.chunks(width);
        c.bench_function(&format!("softmax_row/{width}"), |b| {
            b.iter(|| rows().zip(target.chunks_mut(width)).for_each(|(s, t)| rows::softmax_row(black_box(s), t)));
        });
        c.bench_function(&format!("layer_norm_rows/{width}"), |b| {
            let (scale, shift) = (Some(&ones[..width]), Some(&ones[..width]));
            b.iter(|| rows::layer_norm_rows(black_box(&source), width, scale, shift, 1e-5, &mut target));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(600));
    targets = elementwise, reductions
}
criterion_main!(benches);
