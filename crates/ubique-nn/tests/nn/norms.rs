//! Normalisation, activations, pooling and attention layers.

use ubique_core::{DType, Tensor};
use ubique_nn::{
    Activation, AdaptiveAvgPool, AvgPool, BatchNorm, Forward, GroupNorm, LayerNorm, MaxPool, Module,
    MultiHeadAttention, PRelu, RmsNorm,
};

use crate::layers::assert_all_trained;
use crate::{assert_close, device, f64s, values, wild};

fn mean_and_variance(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64)
}

#[test]
fn rows_and_groups() {
    let place = (&device(), DType::F64);
    let data = wild(2 * 4 * 3, 1.0);
    let x = f64s(&data, &[2, 4, 3]);
    let normal = |x: &[f64]| {
        let (mean, variance) = mean_and_variance(x);
        x.iter().map(|v| (v - mean) / (variance + 1e-5).sqrt()).collect::<Vec<_>>()
    };
    let layer = LayerNorm::new([4, 3], place).unwrap();
    let y = layer.forward(&x).unwrap();
    assert_close(&values(&y), &data.chunks(12).flat_map(normal).collect::<Vec<_>>(), 1e-12);
    assert_all_trained(&layer, &y);

    let layer = RmsNorm::new(3, place).unwrap();
    let y = layer.forward(&x).unwrap();
    let root = |x: &[f64]| {
        let square = x.iter().map(|v| v * v).sum::<f64>() / 3.0;
        x.iter().map(|v| v / (square + 1e-5).sqrt()).collect::<Vec<_>>()
    };
    assert_close(&values(&y), &data.chunks(3).flat_map(root).collect::<Vec<_>>(), 1e-12);
    assert_all_trained(&layer, &y);

    let layer = GroupNorm::new(2, 4, place).unwrap();
    let y = layer.forward(&x).unwrap();
    assert_close(&values(&y), &data.chunks(6).flat_map(normal).collect::<Vec<_>>(), 1e-12);
    assert_all_trained(&layer, &y);
    assert!(GroupNorm::new(3, 4, place).is_err());
    assert!(GroupNorm::new(0, 4, place).is_err());
}

#[test]
fn batch_norm_keeps_running_statistics() {
    let layer = BatchNorm::new(2, (&device(), DType::F64)).unwrap();
    layer.weight.set(f64s(&[2.0, 3.0], &[2])).unwrap();
    layer.bias.set(f64s(&[0.5, -0.5], &[2])).unwrap();
    let (mut mean, mut variance) = ([0.0; 2], [1.0; 2]);
    for step in 0..3 {
        let data = wild(3 * 2 * 4, step as f64);
        let channel = |c: usize| data.chunks(4).skip(c).step_by(2).flatten().copied().collect::<Vec<f64>>();
        let y = layer.forward(&f64s(&data, &[3, 2, 4])).unwrap();
        let stats = [mean_and_variance(&channel(0)), mean_and_variance(&channel(1))];
        let expected = data.iter().enumerate().map(|(i, v)| {
            let (c, (m, s)) = (i / 4 % 2, stats[i / 4 % 2]);
            (v - m) / (s + 1e-5).sqrt() * [2.0, 3.0][c] + [0.5, -0.5][c]
        });
        assert_close(&values(&y), &expected.collect::<Vec<_>>(), 1e-12);
        for c in 0..2 {
            mean[c] = 0.9 * mean[c] + 0.1 * stats[c].0;
            variance[c] = 0.9 * variance[c] + 0.1 * stats[c].1 * 12.0 / 11.0;
        }
        assert_all_trained(&layer, &y);
    }
    assert_close(&values(&layer.running_mean.value()), &mean, 1e-12);
    assert_close(&values(&layer.running_var.value()), &variance, 1e-12);
    assert!(layer.forward(&f64s(&[1.0, 2.0], &[1, 2])).unwrap_err().to_string().contains("at least 2"));
    layer.eval().unwrap();
    let y = values(&layer.forward(&f64s(&[1.0, 2.0], &[1, 2])).unwrap());
    let expected = |c: usize, x: f64, w: f64, b: f64| (x - mean[c]) / (variance[c] + 1e-5).sqrt() * w + b;
    assert_close(&y, &[expected(0, 1.0, 2.0, 0.5), expected(1, 2.0, 3.0, -0.5)], 1e-12);
    assert_close(&values(&layer.running_mean.value()), &mean, 1e-12);
    let names: Vec<String> = layer.state_dict().unwrap().into_keys().collect();
    assert_eq!(names, ["bias", "running_mean", "running_var", "weight"]);
    // Half-precision layers have f32 statistics.
    let half = BatchNorm::new(2, (&device(), DType::F16)).unwrap();
    half.forward(&Tensor::ones([3, 2], DType::F16, &device()).unwrap()).unwrap();
    assert_close(&values(&half.running_mean.value()), &[0.1; 2], 1e-6);
}

#[test]
fn activations_by_name() {
    let x = f64s(&[-1.0, 0.0, 2.0, 3.0], &[2, 2]);
    let apply = |name: &str| values(&name.parse::<Activation>().unwrap().forward(&x).unwrap());
    assert_eq!(apply("relu"), [0.0, 0.0, 2.0, 3.0]);
    assert_close(&apply("leaky_relu"), &[-0.01, 0.0, 2.0, 3.0], 1e-12);
    assert_close(&apply("elu"), &[(-1f64).exp() - 1.0, 0.0, 2.0, 3.0], 1e-12);
    assert_close(&apply("silu")[2..3], &[2.0 / (1.0 + (-2f64).exp())], 1e-12);
    assert_close(&apply("tanh"), &values(&x).iter().map(|v| v.tanh()).collect::<Vec<_>>(), 1e-12);
    assert_close(&apply("glu"), &[-0.5, 2.0 / (1.0 + (-3f64).exp())], 1e-12);
    for name in ["celu", "selu", "gelu", "gelu_tanh", "mish", "softplus", "sigmoid", "log_sigmoid", "hard_sigmoid"] {
        assert_eq!(apply(name).len(), 4, "{name}");
    }
    assert!("rellu".parse::<Activation>().unwrap_err().to_string().contains("relu, leaky_relu"));
    let softmax = Activation::Softmax { axis: 1 }.forward(&x).unwrap();
    assert_close(&values(&softmax.sum(&[1]).unwrap()), &[1.0, 1.0], 1e-12);
    let prelu = PRelu::new(1, (&device(), DType::F64)).unwrap();
    let y = prelu.forward(&x).unwrap();
    assert_eq!(values(&y), [-0.25, 0.0, 2.0, 3.0]);
    assert_all_trained(&prelu, &y);
}

#[test]
fn pooling() {
    let x = f64s(&(0..16).map(f64::from).collect::<Vec<_>>(), &[1, 1, 4, 4]);
    assert_eq!(values(&MaxPool::new(2).forward(&x).unwrap()), [5.0, 7.0, 13.0, 15.0]);
    assert_eq!(values(&AvgPool::new([2, 4]).forward(&x).unwrap()), [3.5, 11.5]);
    assert_eq!(values(&AdaptiveAvgPool::new(1).forward(&x).unwrap()), [7.5]);
}

#[test]
fn heads_attend() {
    let place = (&device(), DType::F64);
    let layer = MultiHeadAttention::new(4, 2, place).unwrap();
    assert!(MultiHeadAttention::new(4, 3, place).is_err());
    let (q, k) = (f64s(&wild(2 * 3 * 4, 1.0), &[2, 3, 4]), f64s(&wild(2 * 5 * 4, 2.0), &[2, 5, 4]));
    let y = layer.attend(&q, &k, &k, None).unwrap();
    assert_eq!(*y.shape(), [2, 3, 4]);
    // By hand, one head after the other.
    let [pq, pk, pv] =
        [(&layer.query, &q), (&layer.key, &k), (&layer.value, &k)].map(|(l, x)| values(&l.forward(x).unwrap()));
    let mut joined = vec![0.0; 2 * 3 * 4];
    for (n, i, head) in (0..2).flat_map(|n| (0..3).flat_map(move |i| (0..2).map(move |h| (n, i, h)))) {
        let vector = |x: &[f64], length: usize, at: usize| {
            let start = (n * length + at) * 4 + head * 2;
            [x[start], x[start + 1]]
        };
        let a = vector(&pq, 3, i);
        let scores: Vec<f64> =
            (0..5).map(|j| vector(&pk, 5, j)).map(|b| ((a[0] * b[0] + a[1] * b[1]) / 2f64.sqrt()).exp()).collect();
        let total: f64 = scores.iter().sum();
        for (j, score) in scores.iter().enumerate() {
            let v = vector(&pv, 5, j);
            joined[(n * 3 + i) * 4 + head * 2] += score / total * v[0];
            joined[(n * 3 + i) * 4 + head * 2 + 1] += score / total * v[1];
        }
    }
    let expected = layer.output.forward(&f64s(&joined, &[2, 3, 4])).unwrap();
    assert_close(&values(&y), &values(&expected), 1e-12);
    // The bias of keys moves all scores of a query alike, so its gradient is 0.
    let bias = layer.key.bias.as_ref().unwrap();
    bias.set_frozen(true).unwrap();
    let y = layer.attend(&q, &k, &k, None).unwrap();
    let gradients = y.square().unwrap().sum_all().unwrap().backward().unwrap();
    for (name, param) in layer.named_parameters().unwrap().iter().filter(|(_, p)| !p.same(bias)) {
        let gradient = values(gradients.get(&param.value().unwrap()).unwrap());
        assert!(gradient.iter().any(|g| *g != 0.0), "{name}");
    }
    // What a causal layer says of a position does not depend on later ones.
    let causal = MultiHeadAttention { causal: true, ..layer };
    let (all, first) = (causal.forward(&q).unwrap(), causal.forward(&q.narrow(1, 0, 2).unwrap()).unwrap());
    assert_close(&values(&all.narrow(1, 0, 2).unwrap()), &values(&first), 1e-12);
    assert!(causal.forward(&f64s(&[1.0; 4], &[4])).is_err());
}
