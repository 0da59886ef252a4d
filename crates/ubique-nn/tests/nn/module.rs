//! Walks over modules: names, state dicts, sharing, freezing.

use ubique_core::{DType, Result, Tensor};
use ubique_nn::{Buffer, Forward, Linear, Module, Param, Sequential, StateDict, Visitor, no_grad};

use crate::{device, f64s, values};

struct Pair {
    first: Linear,
    rest: Vec<Linear>,
    absent: Option<Linear>,
    count: Buffer,
}

impl Module for Pair {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("first", &self.first)?;
        visitor.part("rest", &self.rest)?;
        visitor.part("absent", &self.absent)?;
        visitor.part("count", &self.count)
    }
}

fn pair() -> Pair {
    let device = device();
    Pair {
        first: Linear::new(3, 2, &device).unwrap(),
        rest: vec![Linear::without_bias(2, 2, &device).unwrap()],
        absent: None,
        count: Buffer::new(Tensor::scalar(5i64, &device).unwrap()),
    }
}

#[test]
fn paths_counts_and_round_trip() {
    let (a, b) = (pair(), pair());
    let names: Vec<String> = a.named_parameters().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["first.weight", "first.bias", "rest.0.weight"]);
    assert_eq!(a.parameter_count().unwrap(), 6 + 2 + 4);
    let dict = a.state_dict().unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["count", "first.bias", "first.weight", "rest.0.weight"]);
    assert!(dict.values().all(|tensor| !tensor.is_tracked()));
    assert_ne!(values(&dict["first.weight"]), values(&b.first.weight.value().unwrap()));
    b.load_state_dict(&dict, true).unwrap();
    assert_eq!(values(&dict["first.weight"]), values(&b.first.weight.value().unwrap()));
    assert!(b.first.weight.value().unwrap().is_tracked());
}

#[test]
fn a_dict_that_does_not_fit_changes_nothing_and_is_explained() {
    let model = pair();
    let before = values(&model.first.weight.value().unwrap());
    let ones = |shape: &[usize], dtype| Tensor::ones(shape, dtype, &device()).unwrap();
    let dict = StateDict::from([
        ("first.weight".to_owned(), ones(&[2, 3], DType::F32)),
        ("first.bias".to_owned(), ones(&[3], DType::F32)),
        ("count".to_owned(), ones(&[], DType::F32)),
        ("stray".to_owned(), ones(&[], DType::F32)),
    ]);
    let error = model.load_state_dict(&dict, true).unwrap_err().to_string();
    for part in
        ["missing: rest.0.weight", "unexpected: stray", "first.bias is f32[3], should be f32[2]", "count is f32"]
    {
        assert!(error.contains(part), "{error}");
    }
    let error = model.load_state_dict(&dict, false).unwrap_err().to_string();
    assert!(error.contains("first.bias") && !error.contains("stray"), "{error}");
    assert_eq!(values(&model.first.weight.value().unwrap()), before);

    let fitting = StateDict::from([
        ("first.weight".to_owned(), ones(&[2, 3], DType::F32)),
        ("stray".to_owned(), ones(&[], DType::F32)),
    ]);
    let difference = model.load_state_dict(&fitting, false).unwrap();
    assert_eq!(difference.missing, ["first.bias", "rest.0.weight", "count"]);
    assert_eq!(difference.unexpected, ["stray"]);
    assert_eq!(values(&model.first.weight.value().unwrap()), [1.0; 6]);
}

struct Twins(Param, Param);

impl Module for Twins {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("a", &self.0)?;
        visitor.part("b", &self.1)
    }
}

#[test]
fn shared_parameters_count_once() {
    let param = Param::new(f64s(&[1.0, 2.0], &[2])).unwrap();
    let twins = Twins(param.clone(), param);
    assert_eq!(twins.parameter_count().unwrap(), 2);
    assert_eq!(twins.state_dict().unwrap().len(), 2);
}

struct Clash(Param);

impl Module for Clash {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        visitor.part("x", &self.0)?;
        visitor.part("x", &self.0)
    }
}

#[test]
fn two_parts_of_one_name_are_refused() {
    let clash = Clash(Param::new(f64s(&[1.0], &[1])).unwrap());
    assert!(clash.state_dict().unwrap_err().to_string().contains("\"x\""));
}

#[test]
fn values_keep_their_spec() {
    let param = Param::new(f64s(&[1.0, 2.0], &[2])).unwrap();
    assert!(param.set(f64s(&[1.0], &[1])).is_err());
    assert!(param.set(Tensor::ones([2], DType::F32, &device()).unwrap()).is_err());
    param.set(f64s(&[3.0, 4.0], &[2])).unwrap();
    assert_eq!(values(&param.value().unwrap()), [3.0, 4.0]);
    assert!(Param::new(Tensor::ones([2], DType::I64, &device()).unwrap()).is_err());
}

#[test]
fn frozen_parameters_and_no_grad_are_not_tracked() {
    let model = Sequential::new().add(Linear::new(2, 2, &device()).unwrap()).add(Linear::new(2, 1, &device()).unwrap());
    let x = Tensor::ones([1, 2], DType::F32, &device()).unwrap();
    let params = model.named_parameters().unwrap();
    params[0].1.set_frozen(true).unwrap();
    assert!(model.forward(&x).unwrap().is_tracked());
    let y = no_grad(&model, || model.forward(&x)).unwrap();
    assert!(!y.is_tracked());
    assert!(params[0].1.is_frozen() && !params[1].1.is_frozen());
    let gradients = model.forward(&x).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(gradients.len(), 3);
}

#[test]
fn moving_to_the_plain_device_ends_tracking() {
    let model = pair();
    model.to_device(&device().inner()).unwrap();
    assert!(!model.first.weight.value().unwrap().is_tracked());
    model.to_device(&device()).unwrap();
    assert!(model.first.weight.value().unwrap().is_tracked());
}
