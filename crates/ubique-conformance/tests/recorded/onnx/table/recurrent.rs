//! Recurrent layers, step by step.

use ubique_core::{Result, Tensor};

use super::Row;
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[("GRU", gru), ("LSTM", lstm), ("RNN", rnn)];

/// A layer of one direction: operands without the axis of directions, and sequences `[length, batch, features]`.
struct Layer {
    x: Tensor,
    /// Of the operands and of the state: `[gates · hidden, features]`.
    weights: [Tensor; 2],
    /// The same for the bias: `[gates · hidden]`, perhaps zeros.
    biases: [Tensor; 2],
    hidden: usize,
    batch_first: bool,
}

impl Layer {
    fn new(n: &Node<'_>) -> Outcome<Layer> {
        if n.text("direction", "forward")? != "forward" || n.has("activations") || n.has("clip") {
            return unmapped("another direction or activation");
        }
        let batch_first = n.flag("layout", false)?;
        let x = if batch_first { n.x(0)?.transpose(0, 1)? } else { n.x(0)?.clone() };
        let weights = [n.x(1)?.squeeze(0)?, n.x(2)?.squeeze(0)?];
        let width = weights[0].shape()[0];
        let biases = match n.maybe(3)? {
            Some(bias) => [bias.squeeze(0)?.narrow(0, 0, width)?, bias.squeeze(0)?.narrow(0, width as isize, width)?],
            None => [Tensor::zeros([width], x.dtype(), n.device())?, Tensor::zeros([width], x.dtype(), n.device())?],
        };
        let lengths = n.values(4)?.unwrap_or_default();
        if lengths.iter().any(|&length| length != x.shape()[0] as isize) {
            return unmapped("sequences of several lengths");
        }
        Ok(Layer { x, weights, biases, hidden: n.int("hidden_size", 1)?.unsigned_abs(), batch_first })
    }

    /// The state at the beginning.
    fn initial(&self, n: &Node<'_>, position: usize) -> Outcome<Tensor> {
        match n.maybe(position)? {
            Some(state) => Ok(state.squeeze(if self.batch_first { 1 } else { 0 })?),
            None => Ok(Tensor::zeros([self.x.shape()[1], self.hidden], self.x.dtype(), n.device())?),
        }
    }

    /// The rows of a weight or bias that belong to a gate.
    fn gate(&self, parameter: &Tensor, gate: usize) -> Result<Tensor> {
        parameter.narrow(0, (gate * self.hidden) as isize, self.hidden)
    }

    /// What a gate gets from the operands (0) or from the state (1).
    fn part(&self, side: usize, x: &Tensor, gate: usize) -> Result<Tensor> {
        x.linear(&self.gate(&self.weights[side], gate)?, Some(&self.gate(&self.biases[side], gate)?))
    }

    fn sum(&self, x: &Tensor, state: &Tensor, gate: usize) -> Result<Tensor> {
        self.part(0, x, gate)?.add(&self.part(1, state, gate)?)
    }

    /// Every step's state and the last one, with the axis of directions.
    fn run(&self, mut state: Tensor, mut step: impl FnMut(&Tensor, &Tensor) -> Result<Tensor>) -> Outcome {
        let mut states = Vec::new();
        for i in 0..self.x.shape()[0] {
            state = step(&self.x.narrow(0, i as isize, 1)?.squeeze(0)?, &state)?;
            states.push(state.clone());
        }
        let axis = if self.batch_first { 1 } else { 0 };
        let all = Tensor::stack(&states.iter().collect::<Vec<_>>(), axis)?;
        Ok(vec![all.unsqueeze(if self.batch_first { 2 } else { 1 })?, state.unsqueeze(axis)?])
    }
}

fn rnn(n: &Node<'_>) -> Outcome {
    let layer = Layer::new(n)?;
    layer.run(layer.initial(n, 5)?, |x, h| layer.sum(x, h, 0)?.tanh())
}

/// Gates in the order update, reset, new.
fn gru(n: &Node<'_>) -> Outcome {
    let layer = Layer::new(n)?;
    let after = n.flag("linear_before_reset", false)?;
    layer.run(layer.initial(n, 5)?, |x, h| {
        let (update, reset) = (layer.sum(x, h, 0)?.sigmoid()?, layer.sum(x, h, 1)?.sigmoid()?);
        let of_state =
            if after { (&reset * layer.part(1, h, 2)?).tensor()? } else { layer.part(1, &reset.mul(h)?, 2)? };
        let new = (layer.part(0, x, 2)? + of_state).tensor()?.tanh()?;
        ((1.0 - &update) * new + &update * h).tensor()
    })
}

/// Gates in the order input, output, forget, cell; peepholes look at the cell.
fn lstm(n: &Node<'_>) -> Outcome {
    let layer = Layer::new(n)?;
    if n.flag("input_forget", false)? {
        return unmapped("coupled gates");
    }
    let mut cell = layer.initial(n, 6)?;
    let peephole = match n.maybe(7)? {
        Some(p) => p.squeeze(0)?,
        None => Tensor::zeros([3 * layer.hidden], layer.x.dtype(), n.device())?,
    };
    let mut results = layer.run(layer.initial(n, 5)?, |x, h| {
        let gate = |gate: usize, peep: usize, cell: &Tensor| -> Result<Tensor> {
            (layer.sum(x, h, gate)? + layer.gate(&peephole, peep)? * cell).tensor()?.sigmoid()
        };
        let (input, forget) = (gate(0, 0, &cell)?, gate(2, 2, &cell)?);
        cell = (forget * &cell + input * layer.sum(x, h, 3)?.tanh()?).tensor()?;
        gate(1, 1, &cell)?.mul(&cell.tanh()?)
    })?;
    results.push(cell.unsqueeze(if layer.batch_first { 1 } else { 0 })?);
    Ok(results)
}
