//! Losses against their formulas in f64, and their gradients against differences.

use ubique_core::Tensor;
use ubique_nn::loss::{self, Nll, Reduction};

use crate::{assert_close, assert_gradient, device, f64s, values, wild};

const SHAPE: [usize; 2] = [3, 4];

/// A loss of a prediction and a target, and its formula for one element.
type Row = (&'static str, fn(&Tensor, &Tensor, Reduction) -> Tensor, fn(f64, f64) -> f64);

const ROWS: [Row; 5] = [
    ("mse", |x, y, r| loss::mse(x, y, r).unwrap(), |x, y| (x - y).powi(2)),
    ("l1", |x, y, r| loss::l1(x, y, r).unwrap(), |x, y| (x - y).abs()),
    (
        "huber",
        |x, y, r| loss::huber(x, y, 0.3, r).unwrap(),
        |x, y| {
            let d = (x - y).abs();
            if d <= 0.3 { d * d / 2.0 } else { 0.3 * (d - 0.15) }
        },
    ),
    (
        "smooth_l1",
        |x, y, r| loss::smooth_l1(x, y, 0.5, r).unwrap(),
        |x, y| {
            let d = (x - y).abs();
            if d <= 0.5 { d * d / 1.0 } else { d - 0.25 }
        },
    ),
    (
        "bce_with_logits",
        |x, y, r| loss::bce_with_logits(x, y, None, r).unwrap(),
        |x, y| {
            let p = 1.0 / (1.0 + (-x).exp());
            -(y * p.ln() + (1.0 - y) * (1.0 - p).ln())
        },
    ),
];

#[test]
fn elementwise_losses_match_their_formulas() {
    let y: Vec<f64> = wild(12, 2.0).into_iter().map(f64::abs).collect();
    let (x, target) = (f64s(&wild(12, 1.0), &SHAPE), f64s(&y, &SHAPE));
    for (name, run, formula) in ROWS {
        println!("{name}");
        let expected: Vec<f64> = values(&x).iter().zip(&y).map(|(&x, &y)| formula(x, y)).collect();
        let sum: f64 = expected.iter().sum();
        assert_close(&values(&run(&x, &target, Reduction::None)), &expected, 1e-12);
        assert_close(&values(&run(&x, &target, Reduction::Sum)), &[sum], 1e-12);
        assert_close(&values(&run(&x, &target, Reduction::Mean)), &[sum / 12.0], 1e-12);
        assert_gradient(&x, |x| run(x, &target, Reduction::Mean));
        assert_gradient(&target, |y| run(&x, y, Reduction::Sum));
    }
}

#[test]
fn shapes_that_would_broadcast_are_refused() {
    let (x, y) = (f64s(&wild(12, 1.0), &SHAPE), f64s(&wild(4, 1.0), &[4]));
    let error = loss::mse(&x, &y, Reduction::Mean).unwrap_err().to_string();
    assert!(error.starts_with("mse(f64[3, 4], f64[4])"), "{error}");
    let wide = Tensor::scalar(1f32, &device()).unwrap();
    assert!(loss::l1(&f64s(&[1.0], &[]), &wide, Reduction::Mean).is_err());
    assert!(loss::huber(&x, &x, 0.0, Reduction::Mean).is_err());
    assert!(loss::smooth_l1(&x, &x, f64::NAN, Reduction::Mean).is_err());
    assert_eq!(values(&loss::smooth_l1(&x, &x, 0.0, Reduction::Sum).unwrap()), [0.0]);
}

#[test]
fn binary_cross_entropy_does_not_overflow_and_weighs_positives() {
    let logits = f64s(&[1000.0, -1000.0, 0.0, 2.0], &[2, 2]);
    let targets = f64s(&[1.0, 0.0, 1.0, 1.0], &[2, 2]);
    let weight = f64s(&[3.0, 0.5], &[2]);
    let found = loss::bce_with_logits(&logits, &targets, Some(&weight), Reduction::None).unwrap();
    let expected = [0.0, 0.0, 3.0 * 2f64.ln(), 0.5 * (-2f64).exp().ln_1p()];
    assert_close(&values(&found), &expected, 1e-12);
    let wrong = f64s(&[1.0; 4], &[2, 1, 2]);
    assert!(loss::bce_with_logits(&logits, &targets, Some(&wrong), Reduction::None).is_err());
}

#[test]
fn negative_log_likelihood_weighs_and_ignores() {
    let x = f64s(&wild(12, 3.0), &SHAPE).log_softmax(1).unwrap();
    let targets = Tensor::from_vec(vec![2i64, -1, 0], [3], &device()).unwrap();
    let weight = f64s(&[0.5, 1.0, 2.0, 4.0], &[4]);
    let options = Nll { weight: Some(&weight), ignore_index: Some(-1), reduction: Reduction::None };
    let v = values(&x);
    let losses = [-2.0 * v[2], 0.0, -0.5 * v[8]];
    assert_close(&values(&loss::nll(&x, &targets, options).unwrap()), &losses, 1e-12);
    let mean = loss::nll(&x, &targets, Nll { reduction: Reduction::Mean, ..options }).unwrap();
    assert_close(&values(&mean), &[(losses[0] + losses[2]) / 2.5], 1e-12);
    // On logits it is cross entropy.
    let logits = f64s(&wild(12, 3.0), &SHAPE);
    let both = logits.cross_entropy(
        &targets,
        Some(&weight),
        loss::CrossEntropy { ignore_index: Some(-1), ..Default::default() },
    );
    assert_close(&values(&mean), &values(&both.unwrap()), 1e-12);
    assert_gradient(&logits, |x| {
        loss::nll(&x.log_softmax(1).unwrap(), &targets, Nll { reduction: Reduction::Sum, ..options }).unwrap()
    });
    assert!(loss::nll(&x, &targets, Nll::default()).is_err(), "-1 is no class");
    assert!(loss::nll(&x, &targets.narrow(0, 0, 2).unwrap(), options).is_err());
    // Several positions for each example.
    let x = f64s(&wild(2 * 3 * 2, 4.0), &[2, 3, 2]);
    let targets = Tensor::from_vec(vec![0i64, 1, 2, 0], [2, 2], &device()).unwrap();
    let v = values(&x);
    let found = loss::nll(&x, &targets, Nll { reduction: Reduction::None, ..Nll::default() }).unwrap();
    assert_close(&values(&found), &[-v[0], -v[3], -v[10], -v[7]], 1e-12);
}

#[test]
fn divergence_of_probabilities_with_zeros() {
    let targets = f64s(&[0.5, 0.5, 0.0, 1.0], &[2, 2]);
    let x = f64s(&[0.25f64.ln(), 0.75f64.ln(), f64::NEG_INFINITY, 0.0], &[2, 2]);
    let found = loss::kl_div(&x, &targets, Reduction::Sum).unwrap();
    let expected = 0.5 * 2f64.ln() + 0.5 * (0.5f64 / 0.75).ln();
    assert_close(&values(&found), &[expected], 1e-12);
    let leaf = x.require_grad().unwrap();
    let gradients = loss::kl_div(&leaf, &targets, Reduction::Sum).unwrap().backward().unwrap();
    assert_close(&values(gradients.get(&leaf).unwrap()), &[-0.5, -0.5, 0.0, -1.0], 1e-12);
}
