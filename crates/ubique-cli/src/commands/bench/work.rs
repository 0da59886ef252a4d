//! The works: the same computations on the same shapes, under the same names, as other libraries are measured with.

use std::hint::black_box;

use anyhow::Result;
use ubique::op::conv::ConvOptions;
use ubique::op::cross_entropy::CrossEntropy;
use ubique::op::fft;
use ubique::op::grid_sample::GridSample;
use ubique::op::pool::PoolOptions;
use ubique::op::quantized::Scheme;
use ubique::op::resize::Resize;
use ubique::op::search::Side;
use ubique::{DType, Device, Tensor};
use ubique_nn::loss::{self, CtcLoss, Reduction};
use ubique_nn::{Adam, Conv2d, ConvConfig, Flatten, Forward, Linear, Optimizer, Sequential, Sgd};

/// One run of a prepared work.
pub type Run = Box<dyn FnMut() -> Result<()>>;
type Prepare = fn(&Device) -> Result<Run>;

/// Every work by name.
pub const ALL: &[(&str, Prepare)] = &[
    ("add_scalar_1000ops", add_scalar),
    ("gelu_chain_4M", gelu_chain),
    ("gelu_4M", |d| unary(d, Tensor::gelu)),
    ("add_4M", |d| {
        let (x, y) = (normal([4 << 20], d)?, normal([4 << 20], d)?);
        each(move || x.add(&y))
    }),
    ("exp_4M", |d| unary(d, Tensor::exp)),
    ("softmax_4096x1024", |d| {
        let x = normal([4096, 1024], d)?;
        each(move || x.softmax(-1))
    }),
    ("layer_norm_4096x1024", |d| {
        let x = normal([4096, 1024], d)?;
        let (weight, bias) = (Tensor::ones(1024, DType::F32, d)?, Tensor::zeros(1024, DType::F32, d)?);
        each(move || x.layer_norm(1, Some(&weight), Some(&bias), 1e-5))
    }),
    ("sum_all_16M", |d| square(d, |x| x.sum_all())),
    ("sum_axis0_4096", |d| square(d, |x| x.sum(&[0]))),
    ("sum_axis1_4096", |d| square(d, |x| x.sum(&[1]))),
    ("transpose_copy_4096", |d| square(d, |x| x.t()?.contiguous())),
    ("matmul_64", |d| matmul(d, [64, 64])),
    ("matmul_256", |d| matmul(d, [256, 256])),
    ("matmul_1024", |d| matmul(d, [1024, 1024])),
    ("bmm_64x128", |d| matmul(d, [64, 128, 128])),
    ("linear_1x4096x4096", |d| {
        let (x, weight) = (normal([1, 4096], d)?, normal([4096, 4096], d)?);
        each(move || x.linear(&weight, None))
    }),
    ("linear_q8_1x4096x4096", |d| quantized_linear(d, 1, Scheme::q8().blocks(32))),
    ("linear_q4_1x4096x4096", |d| quantized_linear(d, 1, Scheme::q4().blocks(32))),
    ("linear_q8_128x4096x4096", |d| quantized_linear(d, 128, Scheme::q8().blocks(32))),
    ("quantize_q8_4096", |d| square(d, |x| Ok(x.quantize(Scheme::q8().blocks(32))?.values().clone()))),
    ("conv2d_8x64x56_k3", |d| conv(d, 64, 1)),
    ("dwconv_8x64x56_k3", |d| conv(d, 1, 64)),
    ("maxpool_8x64x56_k2", |d| {
        let x = normal([8, 64, 56, 56], d)?;
        each(move || x.max_pool([2, 2], &PoolOptions::new()))
    }),
    ("attention_2x8x512x64", |d| {
        let [q, k, v] = [normal([2, 8, 512, 64], d)?, normal([2, 8, 512, 64], d)?, normal([2, 8, 512, 64], d)?];
        each(move || q.attention(&k, &v, None, false, None))
    }),
    ("sort_1M", |d| {
        let x = normal([1 << 20], d)?;
        each(move || Ok(x.sort(0, false)?.0))
    }),
    ("index_select_4096x1024", |d| {
        let x = normal([4096, 1024], d)?;
        let index = Tensor::randint([4096], 0, 4096, DType::I64, d)?;
        each(move || x.index_select(0, &index))
    }),
    ("searchsorted_1M", |d| {
        let (sorted, values) = (normal([1 << 20], d)?.sort(0, false)?.0, normal([1 << 20], d)?);
        each(move || sorted.searchsorted(&values, Side::Left))
    }),
    ("grid_sample_8x3x224", |d| {
        let image = normal([8, 3, 224, 224], d)?;
        let grid = Tensor::uniform([8, 224, 224, 2], -1.0, 1.0, DType::F32, d)?;
        each(move || image.grid_sample(&grid, GridSample::default()))
    }),
    ("interpolate_8x3x112_x2", |d| {
        let x = normal([8, 3, 112, 112], d)?;
        each(move || x.interpolate([224, 224], Resize::Linear, false))
    }),
    ("rfft_256x4096", |d| {
        let x = normal([256, 4096], d)?;
        each(move || Ok(fft::rfft(&x, None, -1, fft::FftNorm::default())?.0))
    }),
    ("cholesky_512", |d| {
        let x = positive_definite(512, d)?;
        each(move || x.cholesky(false))
    }),
    ("solve_512", |d| {
        let (a, b) = (positive_definite(512, d)?, normal([512, 8], d)?);
        each(move || a.solve(&b))
    }),
    ("svd_256", |d| {
        let x = normal([256, 256], d)?;
        each(move || Ok(x.svd()?.1))
    }),
    ("ctc_loss_150x32x40", |d| {
        let log_p = normal([150, 32, 40], d)?.log_softmax(-1)?;
        let targets = Tensor::randint([32, 30], 1, 40, DType::I64, d)?;
        let (inputs, labels) = (Tensor::full([32], 150, DType::I64, d)?, Tensor::full([32], 30, DType::I64, d)?);
        each(move || log_p.ctc_loss(&targets, &inputs, &labels, Reduction::Mean, CtcLoss::default()))
    }),
    ("mlp_adam_step_b128", |d| {
        let d = &d.autodiff();
        classify(mlp(&[784, 512, 256, 10], Tensor::relu, d)?, normal([128, 784], d)?, d)
    }),
    ("cnn_adam_step_b64", |d| {
        let d = &d.autodiff();
        classify(cnn(d)?, normal([64, 1, 28, 28], d)?, d)
    }),
    ("tiny_mlp_sgd_step", tiny),
];

fn normal<const N: usize>(shape: [usize; N], device: &Device) -> Result<Tensor> {
    Ok(Tensor::normal(shape, 0.0, 1.0, DType::F32, device)?)
}

fn each(mut f: impl FnMut() -> ubique::Result<Tensor> + 'static) -> Result<Run> {
    Ok(Box::new(move || {
        black_box(f()?);
        Ok(())
    }))
}

fn unary(device: &Device, f: fn(&Tensor) -> ubique::Result<Tensor>) -> Result<Run> {
    let x = normal([4 << 20], device)?;
    each(move || f(&x))
}

fn square(device: &Device, f: fn(&Tensor) -> ubique::Result<Tensor>) -> Result<Run> {
    let x = normal([4096, 4096], device)?;
    each(move || f(&x))
}

fn matmul<const N: usize>(device: &Device, shape: [usize; N]) -> Result<Run> {
    let (a, b) = (normal(shape, device)?, normal(shape, device)?);
    each(move || a.matmul(&b))
}

fn positive_definite(n: usize, device: &Device) -> Result<Tensor> {
    let x = normal([n, n], device)?;
    Ok((x.matmul(&x.t()?)? + &(Tensor::eye(n, n, DType::F32, device)? * n as f64).tensor()?).tensor()?)
}

fn conv(device: &Device, channels: usize, groups: usize) -> Result<Run> {
    let (x, weight) = (normal([8, 64, 56, 56], device)?, normal([64, channels, 3, 3], device)?);
    let options = ConvOptions::new().padding([1, 1]).groups(groups);
    each(move || x.conv(&weight, None, &options))
}

fn quantized_linear(device: &Device, rows: usize, scheme: Scheme) -> Result<Run> {
    let (x, weight) = (normal([rows, 4096], device)?, normal([4096, 4096], device)?.quantize(scheme)?);
    each(move || weight.linear(&x, None))
}

fn add_scalar(device: &Device) -> Result<Run> {
    let (a, b) = (normal([1], device)?, normal([1], device)?);
    Ok(Box::new(move || {
        for _ in 0..1000 {
            black_box((&a + &b).tensor()?);
        }
        Ok(())
    }))
}

/// The tanh form of GELU, written out op by op.
fn gelu_chain(device: &Device) -> Result<Run> {
    let x = normal([4 << 20], device)?;
    each(move || {
        let u = (&x + &x * 0.044715 * &x * &x) * 0.7978845608;
        (&x * 0.5 * (u.then(Tensor::tanh) + 1.0)).tensor()
    })
}

fn mlp(widths: &[usize], activation: fn(&Tensor) -> ubique::Result<Tensor>, device: &Device) -> Result<Sequential> {
    let mut model = Sequential::new();
    for (i, pair) in widths.windows(2).enumerate() {
        if i > 0 {
            model = model.apply(activation);
        }
        model = model.add(Linear::new(pair[0], pair[1], device)?);
    }
    Ok(model)
}

fn cnn(device: &Device) -> Result<Sequential> {
    let same = ConvConfig { padding: [1, 1], ..Default::default() };
    let pool = |x: &Tensor| x.relu()?.max_pool([2, 2], &PoolOptions::new());
    Ok(Sequential::new()
        .add(Conv2d::new(1, 16, [3, 3], same, device)?)
        .apply(pool)
        .add(Conv2d::new(16, 32, [3, 3], same, device)?)
        .apply(pool)
        .add(Flatten::default())
        .add(Linear::new(32 * 49, 10, device)?))
}

/// A training step of a classifier by Adam.
fn classify(model: Sequential, x: Tensor, device: &Device) -> Result<Run> {
    let mut optimizer = Optimizer::new(&model, 1e-3, Adam::default())?;
    let y = Tensor::randint([x.shape()[0]], 0, 10, DType::I64, device)?;
    Ok(Box::new(move || {
        let loss = model.forward(&x)?.cross_entropy(&y, None, CrossEntropy::default())?;
        let mut gradients = loss.backward()?;
        drop(loss);
        Ok(optimizer.step(&mut gradients)?)
    }))
}

fn tiny(device: &Device) -> Result<Run> {
    let device = &device.autodiff();
    let model = mlp(&[8, 16, 1], Tensor::tanh, device)?;
    let mut optimizer = Optimizer::new(&model, 1e-2, Sgd::default())?;
    let (x, y) = (normal([4, 8], device)?, normal([4, 1], device)?);
    Ok(Box::new(move || {
        let loss = loss::mse(&model.forward(&x)?, &y, Reduction::Mean)?;
        let mut gradients = loss.backward()?;
        drop(loss);
        Ok(optimizer.step(&mut gradients)?)
    }))
}
