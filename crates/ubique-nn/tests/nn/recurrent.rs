//! LSTM and GRU against plain loops over f64.

use std::collections::BTreeMap;

use ubique_core::{DType, Tensor};
use ubique_nn::{Cell, Gru, Lstm, Module, Recurrent, RecurrentConfig};

use crate::layers::assert_all_trained;
use crate::{assert_close, assert_gradient, device, f64s, values, wild};

const N: usize = 2;
const T: usize = 5;
const INPUTS: usize = 3;
const H: usize = 4;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `W·x + b` for one vector.
fn affine(w: &[f64], b: Option<&Vec<f64>>, x: &[f64]) -> Vec<f64> {
    let row = |(i, w): (usize, &[f64])| w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + b.map_or(0.0, |b| b[i]);
    w.chunks(x.len()).enumerate().map(row).collect()
}

fn lstm_step(x: &[f64], h: &[f64], state: &mut [Vec<f64>]) {
    for j in 0..H {
        let gate = |g: usize| x[g * H + j] + h[g * H + j];
        let c = sigmoid(gate(1)) * state[1][j] + sigmoid(gate(0)) * gate(2).tanh();
        state[1][j] = c;
        state[0][j] = sigmoid(gate(3)) * c.tanh();
    }
}

fn gru_step(x: &[f64], h: &[f64], state: &mut [Vec<f64>]) {
    for j in 0..H {
        let (r, z) = (sigmoid(x[j] + h[j]), sigmoid(x[H + j] + h[H + j]));
        let n = (x[2 * H + j] + r * h[2 * H + j]).tanh();
        state[0][j] = (1.0 - z) * n + z * state[0][j];
    }
}

type Step = fn(&[f64], &[f64], &mut [Vec<f64>]);

/// All layers and directions over one sequence, from the given states (by reader, then kind of state).
fn run(
    dict: &BTreeMap<String, Vec<f64>>,
    config: RecurrentConfig,
    step: Step,
    mut sequence: Vec<Vec<f64>>,
    states: &mut [Vec<Vec<f64>>],
) -> Vec<Vec<f64>> {
    let directions = 1 + config.bidirectional as usize;
    for layer in 0..config.layers {
        let mut next = vec![Vec::new(); sequence.len()];
        for direction in 0..directions {
            let suffix = format!("_l{layer}{}", if direction == 1 { "_reverse" } else { "" });
            let state = &mut states[layer * directions + direction];
            let order: Vec<usize> =
                if direction == 1 { (0..sequence.len()).rev().collect() } else { (0..sequence.len()).collect() };
            for t in order {
                let part = |kind: &str, x: &[f64]| {
                    affine(&dict[&format!("weight_{kind}{suffix}")], dict.get(&format!("bias_{kind}{suffix}")), x)
                };
                let (x, h) = (part("ih", &sequence[t]), part("hh", &state[0]));
                step(&x, &h, state);
                next[t].extend_from_slice(&state[0]);
            }
        }
        sequence = next;
    }
    sequence
}

fn compare<C: Cell>(step: Step) {
    let place = (&device(), DType::F64);
    for (layers, bidirectional, bias, given) in
        [(1, false, true, false), (2, false, false, true), (2, true, true, true)]
    {
        let config = RecurrentConfig { layers, bidirectional, bias, dropout: 0.0 };
        let layer = Recurrent::<C>::new(INPUTS, H, config, place).unwrap();
        let readers = layers * (1 + bidirectional as usize);
        let x = f64s(&wild(N * T * INPUTS, 1.0), &[N, T, INPUTS]);
        let start: Vec<Tensor> =
            (0..C::STATES).map(|i| f64s(&wild(readers * N * H, 2.0 + i as f64), &[readers, N, H])).collect();
        let result = layer.run(&x, given.then_some(&start[..])).unwrap();
        let dict = layer.state_dict().unwrap().into_iter().map(|(name, value)| (name, values(&value))).collect();
        let (input, start) = (values(&x), start.iter().map(values).collect::<Vec<_>>());
        let mut last = vec![vec![0.0; readers * N * H]; C::STATES];
        let mut outputs = Vec::new();
        for n in 0..N {
            let at = |reader: usize| (reader * N + n) * H..(reader * N + n + 1) * H;
            let first =
                |reader| start.iter().map(|s| if given { s[at(reader)].to_vec() } else { vec![0.0; H] }).collect();
            let mut states: Vec<Vec<Vec<f64>>> = (0..readers).map(first).collect();
            let sequence = input[n * T * INPUTS..(n + 1) * T * INPUTS].chunks(INPUTS).map(<[f64]>::to_vec).collect();
            outputs.extend(run(&dict, config, step, sequence, &mut states).concat());
            for (reader, state) in states.iter().enumerate() {
                for (kind, values) in state.iter().enumerate() {
                    last[kind][at(reader)].copy_from_slice(values);
                }
            }
        }
        assert_close(&values(&result.output), &outputs, 1e-12);
        for (found, expected) in result.state.iter().zip(&last) {
            assert_close(&values(found), expected, 1e-12);
        }
        assert_all_trained(&layer, &result.output);
    }
}

#[test]
fn long_short_term_memory() {
    compare::<ubique_nn::LstmCell>(lstm_step);
}

#[test]
fn gated_recurrent_units() {
    compare::<ubique_nn::GruCell>(gru_step);
}

#[test]
fn gradients_of_the_input() {
    let layer = Gru::new(2, 3, RecurrentConfig::default(), (&device(), DType::F64)).unwrap();
    let x = f64s(&wild(12, 4.0), &[2, 3, 2]);
    assert_gradient(&x, |x| layer.run(x, None).unwrap().output.square().unwrap().sum_all().unwrap());
}

#[test]
fn what_does_not_fit() {
    let place = (&device(), DType::F64);
    let config = RecurrentConfig::default();
    assert!(Lstm::new(2, 0, config, place).is_err());
    assert!(Lstm::new(2, 3, RecurrentConfig { layers: 0, ..config }, place).is_err());
    let layer = Lstm::new(2, 3, config, place).unwrap();
    assert!(layer.run(&f64s(&[1.0, 2.0], &[1, 2]), None).is_err());
    assert!(layer.run(&f64s(&[], &[1, 0, 2]), None).is_err());
    let x = f64s(&[1.0, 2.0], &[1, 1, 2]);
    assert!(layer.run(&x, Some(&[])).unwrap_err().to_string().contains("2 states"));
    let dropping = Lstm::new(2, 3, RecurrentConfig { layers: 2, dropout: 0.5, ..config }, place).unwrap();
    dropping.eval().unwrap();
    let run = || values(&dropping.run(&x, None).unwrap().output);
    assert_eq!(run(), run());
}
