//! Layers against hand-computed values, and gradients that reach every parameter.

use ubique_core::op::quantized::Scheme;
use ubique_core::{DType, Device, Tensor};
use ubique_nn::init::{Fan, fans};
use ubique_nn::{Conv2d, ConvConfig, ConvTranspose1d, Dropout, Embedding, Forward, Init, Linear, Module, Sequential};

use crate::{assert_close, device, f64s, values, wild};

/// Fails unless a gradient that is not 0 reaches every parameter.
#[track_caller]
pub fn assert_all_trained(module: &dyn Module, output: &Tensor) {
    let weights = f64s(&wild(output.elements(), 9.0), output.shape()).cast(output.dtype()).unwrap();
    let gradients = (output * weights).tensor().unwrap().sum_all().unwrap().backward().unwrap();
    for (name, param) in module.named_parameters().unwrap() {
        let gradient = values(gradients.get(&param.value().unwrap()).unwrap_or_else(|e| panic!("{name}: {e}")));
        assert!(gradient.iter().any(|g| *g != 0.0), "{name}");
    }
}

#[test]
fn fully_connected() {
    let linear = Linear::new(3, 2, (&device(), DType::F64)).unwrap();
    linear.weight.set(f64s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])).unwrap();
    linear.bias.as_ref().unwrap().set(f64s(&[0.5, -0.5], &[2])).unwrap();
    let y = linear.forward(&f64s(&[1.0, 0.0, -1.0, 2.0, 2.0, 2.0], &[2, 3])).unwrap();
    assert_eq!(values(&y), [-1.5, -2.5, 12.5, 29.5]);
    assert_all_trained(&linear, &y);
    assert!(linear.forward(&f64s(&[1.0, 2.0], &[1, 2])).is_err());
}

#[test]
fn convolution_over_two_axes() {
    let config = ConvConfig { stride: [2, 1], padding: [1, 0], ..ConvConfig::default() };
    let conv = Conv2d::new(1, 1, [2, 2], config, (&device(), DType::F64)).unwrap();
    conv.weight().set(f64s(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2])).unwrap();
    conv.bias().unwrap().set(f64s(&[10.0], &[1])).unwrap();
    let x = f64s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[1, 1, 3, 3]);
    let y = conv.forward(&x).unwrap();
    assert_eq!(*y.shape(), [1, 1, 2, 2]);
    // Rows (-1, 0) and (1, 2), columns (0, 1) and (1, 2).
    assert_eq!(
        values(&y),
        [3.0 + 8.0, 6.0 + 12.0, 4.0 + 10.0 + 21.0 + 32.0, 5.0 + 12.0 + 24.0 + 36.0].map(|v| v + 10.0)
    );
    assert_all_trained(&conv, &y);
    assert!(conv.forward(&f64s(&[1.0], &[1, 1, 1])).unwrap_err().to_string().contains("rank 4"));
    let odd = ConvConfig { groups: 2, ..ConvConfig::default() };
    assert!(Conv2d::new(3, 4, [1, 1], odd, &device()).is_err());
    let zero = ConvConfig { groups: 0, ..ConvConfig::default() };
    assert!(Conv2d::new(3, 4, [1, 1], zero, &device()).is_err());
    let padded = ConvConfig { output_padding: [1, 0], ..ConvConfig::default() };
    assert!(Conv2d::new(3, 4, [1, 1], padded, &device()).is_err());
}

#[test]
fn transposed_convolution() {
    let config = ConvConfig { stride: [2], groups: 2, output_padding: [1], ..ConvConfig::default() };
    let conv = ConvTranspose1d::new(2, 4, [3], config, (&device(), DType::F64)).unwrap();
    assert_eq!(conv.weight().spec().shape, [2, 2, 3]);
    let y = conv.forward(&f64s(&wild(8, 1.0), &[1, 2, 4])).unwrap();
    assert_eq!(*y.shape(), [1, 4, 10]);
    assert_all_trained(&conv, &y);
}

#[test]
fn table_of_vectors() {
    let table = Embedding::new(5, 3, (&device(), DType::F64)).unwrap();
    let index = Tensor::from_vec(vec![4i64, 0, 4], [3], &device()).unwrap();
    let y = table.forward(&index).unwrap();
    let all = values(&table.weight.value().unwrap());
    assert_eq!(values(&y), [&all[12..], &all[..3], &all[12..]].concat());
    assert_all_trained(&table, &y);
    assert!(table.forward(&Tensor::from_vec(vec![5i64], [1], &device()).unwrap()).is_err());
}

#[test]
fn dropout_only_in_training() {
    let model = Sequential::new().add(Dropout::new(0.5));
    let x = Tensor::ones([1000], DType::F32, &device()).unwrap();
    let dropped = values(&model.forward(&x).unwrap());
    assert!(dropped.iter().all(|v| *v == 0.0 || *v == 2.0) && dropped.contains(&0.0) && dropped.contains(&2.0));
    model.eval().unwrap();
    assert_eq!(values(&model.forward(&x).unwrap()), [1.0; 1000]);
    model.train().unwrap();
    assert_ne!(values(&model.forward(&x).unwrap()), [1.0; 1000]);
    assert!(Dropout::new(1.5).forward(&x).is_err());
}

#[test]
fn layers_one_after_the_other() {
    let device = device();
    let model = Sequential::new()
        .add(Linear::new(2, 3, &device).unwrap())
        .apply(Tensor::tanh)
        .add(Linear::new(3, 1, &device).unwrap());
    let names: Vec<String> = model.state_dict().unwrap().into_keys().collect();
    assert_eq!(names, ["0.bias", "0.weight", "2.bias", "2.weight"]);
    let x = Tensor::ones([4, 2], DType::F32, &device).unwrap();
    assert_all_trained(&model, &model.forward(&x).unwrap());
    assert_eq!(values(&Sequential::new().forward(&x).unwrap()), values(&x));
}

#[test]
fn first_values_have_their_spread_and_follow_the_seed() {
    let place = (&device(), DType::F64);
    assert_eq!(fans(&[8, 3, 5, 5].into()).unwrap(), (75, 200));
    assert!(fans(&[8].into()).is_err());
    // A weight of 200 inputs and 100 outputs; expected standard deviation.
    let rows = [
        (Init::Uniform { bound: 0.3 }, 0.3 / 3f64.sqrt(), Some(0.3)),
        (Init::Normal { std: 0.2 }, 0.2, None),
        (Init::weight(), 1.0 / 600f64.sqrt(), Some(1.0 / 200f64.sqrt())),
        (Init::KaimingUniform { gain: 2f64.sqrt(), fan: Fan::Out }, 0.02f64.sqrt(), Some(0.06f64.sqrt())),
        (Init::KaimingNormal { gain: 2f64.sqrt(), fan: Fan::In }, 0.1, None),
        (Init::XavierUniform { gain: 1.0 }, (2f64 / 300.0).sqrt(), Some(0.02f64.sqrt())),
        (Init::XavierNormal { gain: 1.0 }, (2f64 / 300.0).sqrt(), None),
    ];
    for (init, std, bound) in rows {
        let v = values(&init.tensor([100, 200], place).unwrap());
        let found = (v.iter().map(|x| x * x).sum::<f64>() / v.len() as f64).sqrt();
        assert!((found / std - 1.0).abs() < 0.03, "{init:?}: {found}, expected {std}");
        let largest = v.iter().fold(0f64, |a, b| a.max(b.abs()));
        assert!(bound.is_none_or(|b| largest <= b && largest > 0.99 * b), "{init:?}: {largest}");
    }
    assert_close(&values(&Init::Constant(0.5).tensor([2], place).unwrap()), &[0.5; 2], 0.0);
    assert_eq!(Init::weight().tensor([2, 0], place).unwrap().elements(), 0);
    assert!(Linear::new(0, 3, place).is_ok());
    assert!(Init::weight().tensor([2], place).is_err());
}

#[test]
fn a_quantised_layer_is_close_and_survives_a_checkpoint() {
    let device = Device::new("flex").unwrap();
    let layer = Linear::new(40, 6, &device).unwrap();
    let x = Tensor::from_vec(wild(120, 1.0), [3, 40], &device).unwrap().cast(DType::F32).unwrap();
    let wanted = values(&layer.forward(&x).unwrap());
    for scheme in [Scheme::q8(), Scheme::q8().affine().blocks(16), Scheme::q4().blocks(8)] {
        let small = layer.quantize(scheme).unwrap();
        let got = values(&small.forward(&x).unwrap());
        let step = if scheme.range().1 == 7 { 0.05 } else { 0.003 };
        assert_close(&got, &wanted, step * 6.0);
        assert_ne!(got, wanted);
        let names: Vec<String> = small.state_dict().unwrap().into_keys().collect();
        assert_eq!(names.len(), if scheme.affine { 4 } else { 3 }, "{names:?}");
        let other = Linear::new(40, 6, &device).unwrap().quantize(scheme).unwrap();
        other.load_state_dict(&small.state_dict().unwrap(), true).unwrap();
        assert_eq!(values(&other.forward(&x).unwrap()), got);
    }
}
