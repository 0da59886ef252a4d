//! Optimisers against plain loops over f64, and what they refuse.

use ubique_core::{DType, Gradients, Tensor};
use ubique_nn::optim::Algorithm;
use ubique_nn::{Adam, Checkpoint, Linear, Module, Optimizer, Param, RmsProp, Sgd};

use crate::{assert_close, device, f64s, values, wild};

const RATE: f64 = 0.05;

/// Gradients that are what a test says: those of Σ x·g.
fn gradients(param: &Param, g: &[f64]) -> Gradients {
    let x = param.value().unwrap();
    (&x * f64s(g, x.shape())).tensor().unwrap().sum_all().unwrap().backward().unwrap()
}

/// Runs an algorithm and a loop that does the same to one number, from zero state.
fn compare(algorithm: impl Algorithm + Copy + 'static, formula: impl Fn(&mut f64, f64, &mut [f64; 3], i32)) {
    let start = wild(6, 5.0);
    let param = Param::new(f64s(&start, &[2, 3])).unwrap();
    let mut optimizer = Optimizer::new(&param, RATE, algorithm).unwrap();
    let (mut expected, mut state) = (start, [[0.0; 3]; 6]);
    for step in 1..=7 {
        let g = wild(6, step as f64);
        // Half way, another optimiser takes over from a checkpoint.
        if step == 4 {
            let checkpoint = optimizer.checkpoint();
            optimizer = Optimizer::new(&param, 1.0, algorithm).unwrap();
            optimizer.restore(&checkpoint).unwrap();
        }
        optimizer.step(&mut gradients(&param, &g)).unwrap();
        for i in 0..6 {
            formula(&mut expected[i], g[i], &mut state[i], step);
        }
        assert_close(&values(&param.value().unwrap()), &expected, 1e-12);
    }
}

#[test]
fn descent() {
    compare(Sgd::default(), |p, g, _, _| *p -= RATE * g);
    compare(Sgd { weight_decay: 0.1, ..Sgd::default() }, |p, g, _, _| *p -= RATE * (g + 0.1 * *p));
    for (dampening, nesterov) in [(0.0, false), (0.3, false), (0.0, true)] {
        let sgd = Sgd { momentum: 0.9, dampening, nesterov, weight_decay: 0.01 };
        compare(sgd, |p, g, s, step| {
            let g = g + 0.01 * *p;
            s[0] = if step == 1 { g } else { 0.9 * s[0] + (1.0 - dampening) * g };
            *p -= RATE * if nesterov { g + 0.9 * s[0] } else { s[0] };
        });
    }
}

#[test]
fn adam_and_adamw() {
    for (weight_decay, decoupled) in [(0.0, false), (0.1, false), (0.1, true)] {
        let adam = Adam { beta1: 0.8, beta2: 0.95, eps: 1e-6, weight_decay, decoupled };
        compare(adam, |p, g, s, step| {
            let g = if decoupled { g } else { g + weight_decay * *p };
            if decoupled {
                *p -= RATE * weight_decay * *p;
            }
            s[0] = 0.8 * s[0] + 0.2 * g;
            s[1] = 0.95 * s[1] + 0.05 * g * g;
            let (m, v) = (s[0] / (1.0 - 0.8f64.powi(step)), s[1] / (1.0 - 0.95f64.powi(step)));
            *p -= RATE * m / (v.sqrt() + 1e-6);
        });
    }
    assert_eq!(Adam::decoupled(0.01), Adam { weight_decay: 0.01, decoupled: true, ..Adam::default() });
}

#[test]
fn rms_propagation() {
    for (centered, momentum, weight_decay) in [(false, 0.0, 0.0), (true, 0.0, 0.1), (false, 0.9, 0.0), (true, 0.9, 0.1)]
    {
        let rms = RmsProp { alpha: 0.9, eps: 1e-4, momentum, centered, weight_decay };
        compare(rms, |p, g, s, _| {
            let g = g + weight_decay * *p;
            s[0] = 0.9 * s[0] + 0.1 * g * g;
            s[1] = 0.9 * s[1] + 0.1 * g;
            let v = if centered { s[0] - s[1] * s[1] } else { s[0] };
            s[2] = momentum * s[2] + g / (v.sqrt() + 1e-4);
            *p -= RATE * s[2];
        });
    }
}

#[test]
fn steps_work_in_place_where_nobody_else_holds_the_value() {
    let param = Param::new(Tensor::ones([5000], DType::F32, &device()).unwrap()).unwrap();
    let mut optimizer = Optimizer::new(&param, 0.05, Adam::default()).unwrap();
    let place = |param: &Param| param.value().unwrap().view().buffer.host_bytes().unwrap().as_ptr() as usize;
    let mut step = || {
        let loss = param.value().unwrap().square().unwrap().sum_all().unwrap();
        let mut gradients = loss.backward().unwrap();
        drop(loss);
        optimizer.step(&mut gradients).unwrap();
    };
    step();
    let before = place(&param);
    step();
    assert_eq!(place(&param), before);
    let held = param.value().unwrap();
    let copy = values(&held);
    step();
    assert_ne!(place(&param), before);
    assert_eq!(values(&held), copy);
}

#[test]
fn a_missing_gradient_is_an_error_before_anything_changes() {
    let model = [Linear::without_bias(2, 1, &device()).unwrap(), Linear::without_bias(2, 1, &device()).unwrap()];
    let mut optimizer = Optimizer::new(&model, RATE, Sgd::default()).unwrap();
    let before: Vec<_> = model.state_dict().unwrap().values().map(values).collect();
    let partial = || {
        let x = model[0].weight.value().unwrap();
        x.square().unwrap().sum_all().unwrap().backward().unwrap()
    };
    let error = optimizer.step(&mut partial()).unwrap_err().to_string();
    assert!(error.contains("parameter 1.weight"), "{error}");
    assert_eq!(before, model.state_dict().unwrap().values().map(values).collect::<Vec<_>>());

    let mut patient = Optimizer::new(&model, RATE, Sgd::default()).unwrap().skip_missing(true);
    patient.step(&mut partial()).unwrap();
    let after: Vec<_> = model.state_dict().unwrap().values().map(values).collect();
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);

    model[1].weight.set_frozen(true).unwrap();
    optimizer.step(&mut partial()).unwrap();
    assert_eq!(after[1], values(&model[1].weight.value().unwrap()));
}

#[test]
fn senseless_constants_are_refused() {
    let param = Param::new(f64s(&[1.0], &[1])).unwrap();
    assert!(Optimizer::new(&param, -1.0, Sgd::default()).is_err());
    assert!(Optimizer::new(&param, f64::NAN, Sgd::default()).is_err());
    assert!(Optimizer::new(&param, 1.0, Adam { beta1: 1.0, ..Adam::default() }).is_err());
    assert!(Optimizer::new(&param, 1.0, Sgd { nesterov: true, ..Sgd::default() }).is_err());
    assert!(Optimizer::new(&param, 1.0, RmsProp { alpha: f64::NAN, ..RmsProp::default() }).is_err());
    let twice = vec![("a".to_owned(), param.clone()), ("b".to_owned(), param.clone())];
    assert!(Optimizer::of(twice, 1.0, Box::new(Sgd::default())).is_err());
    let mut optimizer = Optimizer::new(&param, 1.0, Sgd::default()).unwrap();
    assert!(optimizer.set_learning_rate(f64::INFINITY).is_err());
    assert_eq!(optimizer.learning_rate(), 1.0);
}

#[test]
fn checkpoints_of_something_else_are_refused() {
    let param = Param::new(f64s(&[1.0, 2.0], &[2])).unwrap();
    let mut adam = Optimizer::new(&param, 0.1, Adam::default()).unwrap();
    adam.step(&mut gradients(&param, &[1.0, 1.0])).unwrap();
    let good = adam.checkpoint();
    assert_eq!(good.tensors.keys().collect::<Vec<_>>(), [".mean", ".square"]);
    let mut sgd = Optimizer::new(&param, 0.1, Sgd::default()).unwrap();
    assert!(sgd.restore(&good).unwrap_err().to_string().contains("adam"));
    let broken: [fn(&mut Checkpoint); 5] = [
        |c| drop(c.tensors.remove(".mean")),
        |c| drop(c.tensors.insert("other.mean".to_owned(), f64s(&[0.0], &[1]))),
        |c| drop(c.tensors.insert(".mean".to_owned(), f64s(&[0.0], &[1]))),
        |c| drop(c.metadata.insert(".step".to_owned(), "soon".to_owned())),
        |c| drop(c.metadata.remove("learning_rate")),
    ];
    for break_it in broken {
        let mut bad = good.clone();
        break_it(&mut bad);
        assert!(adam.restore(&bad).is_err());
    }
    adam.restore(&good).unwrap();
}

#[test]
fn clipping() {
    let model = [Param::new(f64s(&[0.0; 2], &[2])).unwrap(), Param::new(f64s(&[0.0], &[1])).unwrap()];
    let optimizer = Optimizer::new(&model, 1.0, Sgd::default()).unwrap();
    let both = || {
        let dot = |i: usize, g: &[f64]| (model[i].value().unwrap() * f64s(g, &[g.len()])).tensor().unwrap().sum_all();
        (dot(0, &[3.0, 0.0]).unwrap() + dot(1, &[-4.0])).tensor().unwrap().backward().unwrap()
    };
    let found = |g: &Gradients| {
        let get = |i: usize| values(g.get(&model[i].value().unwrap()).unwrap());
        [get(0), get(1)].concat()
    };
    let mut gradients = both();
    let norm = optimizer.clip_norm(&mut gradients, 1.0).unwrap();
    assert_close(&values(&norm), &[5.0], 1e-12);
    assert_close(&found(&gradients), &[0.6, 0.0, -0.8], 1e-6);
    let mut gradients = both();
    optimizer.clip_norm(&mut gradients, 9.0).unwrap();
    assert_eq!(found(&gradients), [3.0, 0.0, -4.0]);
    optimizer.clip_value(&mut gradients, 3.5).unwrap();
    assert_eq!(found(&gradients), [3.0, 0.0, -3.5]);
    assert!(optimizer.clip_norm(&mut gradients, 0.0).is_err());
    assert!(optimizer.clip_value(&mut gradients, f64::NAN).is_err());
    assert!(optimizer.clip_norm(&mut Gradients::default(), 1.0).is_err());

    // The squares of half-precision gradients do not overflow.
    let half = Param::new(Tensor::zeros([4], DType::F16, &device()).unwrap()).unwrap();
    let optimizer = Optimizer::new(&half, 1.0, Sgd::default()).unwrap();
    let loss = (half.value().unwrap() * 1000.0).tensor().unwrap().sum_all().unwrap();
    let mut gradients = loss.backward().unwrap();
    assert_close(&values(&optimizer.clip_norm(&mut gradients, 2.0).unwrap()), &[2000.0], 1e-6);
    assert_close(&values(gradients.get(&half.value().unwrap()).unwrap()), &[1.0; 4], 1e-3);
}
