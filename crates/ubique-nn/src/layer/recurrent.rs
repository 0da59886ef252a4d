//! Recurrent layers: LSTM and GRU, which differ in the cell alone.

use std::fmt::Debug;
use std::marker::PhantomData;

use ubique_core::{Error, Result, Tensor};

use super::optional;
use crate::init::{Init, Place};
use crate::module::{Module, Visitor};
use crate::param::{Mode, Param};

/// One step of a recurrent layer, for a batch of N sequences and a hidden width of H.
pub trait Cell: Debug + Send + Sync {
    /// How many gates there are; weights and biases hold them one after the other.
    const GATES: usize;
    /// How many tensors `[N, H]` go from step to step; the first is the output.
    const STATES: usize;

    /// The next state from the gates' shares of the input and of the hidden state, both `[N, GATES · H]`.
    ///
    /// # Errors
    /// Where the device fails.
    fn step(input: &Tensor, hidden: &Tensor, state: &[Tensor]) -> Result<Vec<Tensor>>;
}

/// The cell of Hochreiter and Schmidhuber (1997) with a forget gate; gates i, f, g, o and states h, c:
/// `c' = σ(f)·c + σ(i)·tanh(g)`, `h' = σ(o)·tanh(c')`.
#[derive(Clone, Copy, Debug)]
pub struct LstmCell;

impl Cell for LstmCell {
    const GATES: usize = 4;
    const STATES: usize = 2;

    fn step(input: &Tensor, hidden: &Tensor, state: &[Tensor]) -> Result<Vec<Tensor>> {
        let gates = (input + hidden).tensor()?.chunk(4, 1)?;
        let ([i, f, g, o], [_, c]) = (&gates[..], state) else { return Err(wrong_count::<Self>()) };
        let c = (f.sigmoid()? * c + i.sigmoid()? * g.tanh()?).tensor()?;
        Ok(vec![(o.sigmoid()? * c.tanh()?).tensor()?, c])
    }
}

/// The cell of Cho et al. (2014), with the reset gate after the product; gates r, z, n and state h:
/// `n' = tanh(xₙ + σ(r)·hₙ)`, `h' = (1 - σ(z))·n' + σ(z)·h`.
#[derive(Clone, Copy, Debug)]
pub struct GruCell;

impl Cell for GruCell {
    const GATES: usize = 3;
    const STATES: usize = 1;

    fn step(input: &Tensor, hidden: &Tensor, state: &[Tensor]) -> Result<Vec<Tensor>> {
        let (input, hidden) = (input.chunk(3, 1)?, hidden.chunk(3, 1)?);
        let ([xr, xz, xn], [hr, hz, hn], [h]) = (&input[..], &hidden[..], state) else {
            return Err(wrong_count::<Self>());
        };
        let r = (xr + hr).tensor()?.sigmoid()?;
        let z = (xz + hz).tensor()?.sigmoid()?;
        let n = (xn + r * hn).tensor()?.tanh()?;
        // (1 - z)·n + z·h
        Ok(vec![(&n + z * (h - &n)).tensor()?])
    }
}

fn wrong_count<C: Cell>() -> Error {
    Error::shape(format!("a step of {} gates and {} states got others", C::GATES, C::STATES))
}

/// What a recurrent layer has beside its widths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecurrentConfig {
    /// How many layers stand on each other.
    pub layers: usize,
    /// Whether each layer also reads backwards; its results are put beside those of reading forwards.
    pub bidirectional: bool,
    /// Whether there are biases.
    pub bias: bool,
    /// The probability of dropout between layers, in training.
    pub dropout: f64,
}

impl Default for RecurrentConfig {
    /// One layer that reads forwards, with biases.
    fn default() -> RecurrentConfig {
        RecurrentConfig { layers: 1, bidirectional: false, bias: true, dropout: 0.0 }
    }
}

/// What a recurrent layer gives.
#[derive(Clone, Debug)]
pub struct Recurred {
    /// The last layer's result at each step: `[N, T, H]`, or `[N, T, 2·H]` where it reads both ways.
    pub output: Tensor,
    /// The states after the last step, each `[layers · directions, N, H]`: h, and for LSTM c.
    pub state: Vec<Tensor>,
}

/// A recurrent layer over sequences `[N, T, inputs]`.
///
/// Its parameters are called `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, `weight_ih_l0_reverse`, … and have the
/// order of gates that the common frameworks have, so that their checkpoints can be loaded.
///
/// ```
/// # use ubique_core::{DType, Device, Tensor};
/// # use ubique_nn::{Lstm, RecurrentConfig};
/// # use ubique_flex as _;
/// let device = Device::new("flex")?.autodiff();
/// let lstm = Lstm::new(3, 5, RecurrentConfig { layers: 2, ..Default::default() }, &device)?;
/// let result = lstm.run(&Tensor::ones([4, 7, 3], DType::F32, &device)?, None)?;
/// assert_eq!(*result.output.shape(), [4, 7, 5]);
/// assert_eq!(*result.state[0].shape(), [2, 4, 5]);
/// # Ok::<(), ubique_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Recurrent<C> {
    /// For each layer, its directions one after the other.
    readers: Vec<Reader>,
    config: RecurrentConfig,
    hidden: usize,
    mode: Mode,
    cell: PhantomData<C>,
}

/// Long short-term memory.
pub type Lstm = Recurrent<LstmCell>;
/// Gated recurrent units.
pub type Gru = Recurrent<GruCell>;

/// The parameters of one layer in one direction.
#[derive(Debug)]
struct Reader {
    suffix: String,
    backwards: bool,
    /// Weight and bias of the input `[G·H, inputs]`, `[G·H]`, then of the hidden state `[G·H, H]`, `[G·H]`.
    weights: [Param; 2],
    biases: Option<[Param; 2]>,
}

impl<C: Cell> Recurrent<C> {
    /// A layer whose parameters begin uniform in ±1/√hidden.
    ///
    /// # Errors
    /// Where there are no layers or no hidden width, the dtype is not floating point, or memory cannot be had.
    pub fn new(inputs: usize, hidden: usize, config: RecurrentConfig, place: impl Into<Place>) -> Result<Self> {
        if hidden == 0 || config.layers == 0 {
            return Err(Error::value("a recurrent layer needs at least one layer and a hidden width of 1"));
        }
        let (place, init) = (place.into(), Init::Uniform { bound: 1.0 / (hidden as f64).sqrt() });
        let gates = C::GATES * hidden;
        let directions = 1 + config.bidirectional as usize;
        let mut readers = Vec::new();
        for layer in 0..config.layers {
            let width = if layer == 0 { inputs } else { hidden * directions };
            for backwards in [false, true].into_iter().take(directions) {
                let suffix = format!("_l{layer}{}", if backwards { "_reverse" } else { "" });
                let weights = [init.param([gates, width], &place)?, init.param([gates, hidden], &place)?];
                let bias = || init.param([gates], &place);
                let biases = if config.bias { Some([bias()?, bias()?]) } else { None };
                readers.push(Reader { suffix, backwards, weights, biases });
            }
        }
        Ok(Recurrent { readers, config, hidden, mode: Mode::default(), cell: PhantomData })
    }

    /// Reads sequences `[N, T, inputs]`, T at least 1, from the given states (as [`Recurred::state`] has them) or from 0.
    ///
    /// # Errors
    /// Where shapes, dtypes or devices do not fit.
    pub fn run(&self, x: &Tensor, state: Option<&[Tensor]>) -> Result<Recurred> {
        let [batch, length, _] = x.shape()[..] else {
            return Err(Error::shape(format!("a recurrent layer takes [batch, steps, inputs], got {}", x.shape())));
        };
        if length == 0 {
            return Err(Error::shape("a recurrent layer needs at least one step"));
        }
        let start = self.start(x, batch, state)?;
        let mut sequence = Vec::with_capacity(length);
        steps(x, &mut sequence)?;
        let mut last = Vec::new();
        let directions = 1 + self.config.bidirectional as usize;
        for (layer, readers) in self.readers.chunks(directions).enumerate() {
            if layer > 0 && self.mode.is_training() && self.config.dropout != 0.0 {
                sequence = sequence.iter().map(|x| x.dropout(self.config.dropout)).collect::<Result<_>>()?;
            }
            let mut read = Vec::new();
            for reader in readers {
                let (outputs, state) = reader.read::<C>(&sequence, &start[last.len()])?;
                last.push(state);
                read.push(outputs);
            }
            sequence = match &read[..] {
                [forwards, backwards] => {
                    forwards.iter().zip(backwards).map(|(f, b)| Tensor::concat(&[f, b], 1)).collect::<Result<_>>()?
                }
                _ => read.swap_remove(0),
            };
        }
        let output = Tensor::stack(&sequence.iter().collect::<Vec<_>>(), 1)?;
        let joined = (0..C::STATES).map(|i| Tensor::stack(&last.iter().map(|s| &s[i]).collect::<Vec<_>>(), 0));
        Ok(Recurred { output, state: joined.collect::<Result<_>>()? })
    }

    /// The first states of each reader.
    fn start(&self, x: &Tensor, batch: usize, state: Option<&[Tensor]>) -> Result<Vec<Vec<Tensor>>> {
        let count = self.readers.len();
        let Some(state) = state else {
            let zero = Tensor::zeros([batch, self.hidden], x.dtype(), x.device())?;
            return Ok(vec![vec![zero; C::STATES]; count]);
        };
        let shape = [count, batch, self.hidden];
        if state.len() != C::STATES || state.iter().any(|s| *s.shape() != shape) {
            let found: Vec<String> = state.iter().map(|s| s.shape().to_string()).collect();
            let message = format!("needs {} states of shape {shape:?}, got {}", C::STATES, found.join(", "));
            return Err(Error::shape(message));
        }
        (0..count).map(|i| state.iter().map(|s| s.narrow(0, i as isize, 1)?.squeeze(0)).collect()).collect()
    }
}

impl Reader {
    /// The results at each step and the last state.
    fn read<C: Cell>(&self, sequence: &[Tensor], start: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let [input_weight, hidden_weight] = [self.weights[0].value()?, self.weights[1].value()?];
        let bias = |i: usize| optional(&self.biases.as_ref().map(|biases| biases[i].clone()));
        let [input_bias, hidden_bias] = [bias(0)?, bias(1)?];
        let mut state = start.to_vec();
        let mut outputs = Vec::with_capacity(sequence.len());
        let mut step = |x: &Tensor| -> Result<()> {
            let input = x.linear(&input_weight, input_bias.as_ref())?;
            let hidden = state[0].linear(&hidden_weight, hidden_bias.as_ref())?;
            state = C::step(&input, &hidden, &state)?;
            outputs.push(state[0].clone());
            Ok(())
        };
        match self.backwards {
            false => sequence.iter().try_for_each(&mut step)?,
            true => sequence.iter().rev().try_for_each(&mut step)?,
        }
        if self.backwards {
            outputs.reverse();
        }
        Ok((outputs, state))
    }
}

/// The steps of `[N, T, …]`, each `[N, …]`. Halving, because the gradient of a slice is as large as what it was cut from:
/// so all of them together cost T·log T and not T².
fn steps(x: &Tensor, out: &mut Vec<Tensor>) -> Result<()> {
    let length = x.shape()[1];
    if length == 1 {
        out.push(x.squeeze(1)?);
        return Ok(());
    }
    let half = length / 2;
    steps(&x.narrow(1, 0, half)?, out)?;
    steps(&x.narrow(1, half as isize, length - half)?, out)
}

impl<C: Cell> Module for Recurrent<C> {
    fn visit(&self, visitor: &mut Visitor<'_>) -> Result<()> {
        for Reader { suffix, weights, biases, .. } in &self.readers {
            for (param, kind) in weights.iter().zip(["ih", "hh"]) {
                visitor.part(&format!("weight_{kind}{suffix}"), param)?;
            }
            for (param, kind) in biases.iter().flatten().zip(["ih", "hh"]) {
                visitor.part(&format!("bias_{kind}{suffix}"), param)?;
            }
        }
        visitor.part("training", &self.mode)
    }
}
