//! Alignments of sequences, against a sum over every path.

use ubique::op::cross_entropy::LossReduction::{self, Mean, Sum};
use ubique::op::ctc_loss::CtcLoss;
use ubique::{DType, Tensor};

use crate::{assert_gradient, assert_values, error, scattered, tensor};

/// `-log` of the sum over all paths that become the target where repetitions are joined and blanks taken away.
fn by_enumeration(
    probability: impl Fn(usize, usize) -> f64,
    steps: u32,
    classes: usize,
    blank: usize,
    target: &[i64],
) -> f64 {
    let paths =
        (0..classes.pow(steps)).map(|number| (0..steps).map(|time| number / classes.pow(time) % classes).collect());
    let collapsed = |path: &[usize]| -> Vec<i64> {
        let mut path = path.to_vec();
        path.dedup();
        path.into_iter().filter(|&class| class != blank).map(|class| class as i64).collect()
    };
    let fitting = paths.filter(|path: &Vec<usize>| collapsed(path) == target);
    let product =
        |path: Vec<usize>| path.iter().enumerate().map(|(time, &class)| probability(time, class)).product::<f64>();
    -fitting.map(product).sum::<f64>().ln()
}

#[test]
fn alignments_are_all_paths_that_collapse_to_the_target() {
    let (steps, batch, classes) = (5, 5, 4);
    let targets: [&[i64]; 5] = [&[1, 2], &[2, 2], &[], &[1, 1, 1], &[0, 1, 2]];
    let blank = 3;
    let log_p = tensor(&scattered(steps * batch * classes, 1), &[steps, batch, classes]).log_softmax(-1).unwrap();
    let p: Vec<f64> = log_p.exp().unwrap().to_vec().unwrap();
    let lengths = [5i64, 4, 3, 5, 2];
    let loss = |n: usize| {
        by_enumeration(|t, c| p[(t * batch + n) * classes + c], lengths[n] as u32, classes, blank, targets[n])
    };
    let expected: Vec<f64> = (0..batch).map(loss).collect();
    assert_eq!(expected[4], f64::INFINITY, "two times are too few for three labels");

    let counts: Vec<i64> = targets.iter().map(|target| target.len() as i64).collect();
    let (input_lengths, target_lengths) = (tensor(&lengths, &[batch]), tensor(&counts, &[batch]));
    let joined = targets.concat();
    let padded: Vec<i64> = targets.iter().flat_map(|t| (0..3).map(|i| t.get(i).copied().unwrap_or(-7))).collect();
    let (joined, padded) = (tensor(&joined, &[joined.len()]), tensor(&padded, &[batch, 3]));
    let options = CtcLoss { blank, zero_infinity: false };
    for targets in [&joined, &padded] {
        let losses = log_p.ctc_loss(targets, &input_lengths, &target_lengths, LossReduction::None, options);
        assert_values(losses, &[batch], &expected);
    }
    let zeroed = CtcLoss { zero_infinity: true, ..options };
    let finite: Vec<f64> = expected.iter().map(|&loss| if loss.is_finite() { loss } else { 0.0 }).collect();
    let reduced = |reduction| log_p.ctc_loss(&joined, &input_lengths, &target_lengths, reduction, zeroed);
    assert_values(reduced(Sum), &[], &[finite.iter().sum()]);
    let each = finite.iter().zip(&counts).map(|(loss, &count)| loss / count.max(1) as f64);
    assert_values(reduced(Mean), &[], &[each.sum::<f64>() / batch as f64]);
    // One example without a batch.
    let one = log_p.narrow(1, 1, 1).unwrap().squeeze(1).unwrap();
    let (target, four, two) = (tensor(&[2i64, 2], &[2]), tensor(&[4i64], &[]), tensor(&[2i32], &[]));
    assert_values(one.ctc_loss(&target, &four, &two, LossReduction::None, options), &[], &[expected[1]]);
}

#[test]
fn alignments_are_differentiated_in_f64_and_f32() {
    let lengths = |values: &[i64], like: &Tensor| Tensor::from_slice(values, [values.len()], like.device());
    let loss = |x: &Tensor| {
        let targets = Tensor::from_vec(vec![1i64, 1, 2, 2, 1, 0], [2, 3], x.device())?;
        let log_p = x.log_softmax(-1)?;
        log_p.ctc_loss(&targets, &lengths(&[6, 5], x)?, &lengths(&[3, 2], x)?, LossReduction::None, CtcLoss::default())
    };
    assert_gradient(&[&[6, 2, 4]], |x| loss(&x[0]));
    // The kernel's gradient beside that of the decomposition, which f64 takes.
    let gradient = |dtype: DType| -> Vec<f64> {
        let x = Tensor::from_slice(&scattered(48, 0), [6, 2, 4], &crate::device().autodiff()).unwrap();
        let x = x.cast(dtype).unwrap().require_grad().unwrap();
        let gradients = loss(&x).unwrap().sum_all().unwrap().backward().unwrap();
        gradients.get(&x).unwrap().cast(DType::F64).unwrap().to_vec().unwrap()
    };
    for (single, double) in gradient(DType::F32).iter().zip(gradient(DType::F64)) {
        assert!((single - double).abs() < 1e-6, "{single} {double}");
    }
}

#[test]
fn long_sequences_keep_their_digits() {
    // With equal probabilities only the number of alignments counts, C(T + S, 2S) for S labels of which none is repeated.
    let (steps, classes, count) = (2000usize, 30, 100usize);
    let log_p = Tensor::full([steps, 1, classes], -(classes as f64).ln(), DType::F32, &crate::device()).unwrap();
    let targets: Vec<i64> = (0..count as i64).map(|i| 1 + i % (classes as i64 - 1)).collect();
    let lengths = |n: usize| tensor(&[n as i64], &[1]);
    let loss =
        log_p.ctc_loss(&tensor(&targets, &[1, count]), &lengths(steps), &lengths(count), Sum, CtcLoss::default());
    let ways: f64 = (0..2 * count).map(|i| ((steps + count - i) as f64 / (i + 1) as f64).ln()).sum();
    let expected = steps as f64 * f64::from((classes as f32).ln()) - ways;
    let loss = loss.unwrap().item::<f32>().unwrap() as f64;
    assert!((loss / expected - 1.0).abs() < 1e-6, "{loss} instead of {expected}");
}

#[test]
fn alignments_refuse_what_does_not_fit() {
    let log_p = Tensor::zeros([4, 2, 3], DType::F32, &crate::device()).unwrap();
    let (targets, four, one) = (tensor(&[1i64, 2, 1, 2], &[2, 2]), tensor(&[4i64, 4], &[2]), tensor(&[1i64, 1], &[2]));
    let options = CtcLoss::default();
    let loss = |targets: &Tensor, inputs: &Tensor, lengths: &Tensor, options| {
        error(log_p.ctc_loss(targets, inputs, lengths, Sum, options))
    };
    let text = loss(&targets, &tensor(&[4i64, 5], &[2]), &one, options);
    assert!(text.contains("ctc_loss") && text.contains("input length of 5 is outside 0..=4"), "{text}");
    assert!(loss(&targets, &four, &tensor(&[3i64, 0], &[2]), options).contains("target length of 3"));
    assert!(loss(&targets, &four, &tensor(&[-1i64, 0], &[2]), options).contains("target length of -1"));
    assert!(loss(&tensor(&[3i64, 0, 0, 0], &[2, 2]), &four, &one, options).contains("index 3"));
    assert!(loss(&targets, &four, &one, CtcLoss { blank: 3, ..options }).contains("the blank is class 3 of 3"));
    assert!(loss(&tensor(&[1f32; 4], &[2, 2]), &four, &one, options).contains("i64 or i32"));
    assert!(loss(&targets, &tensor(&[4i64], &[1]), &one, options).contains("lengths"));
    assert!(loss(&tensor(&[1i64, 2, 1], &[3]), &four, &one, options).contains("do not add up to 3"));
    assert!(loss(&tensor(&[1i64, 2], &[2]), &four, &tensor(&[i64::MAX, 3], &[2]), options).contains("target length"));
    assert!(error(log_p.cast(DType::I32).unwrap().ctc_loss(&targets, &four, &one, Sum, options)).contains("floating"));
}
