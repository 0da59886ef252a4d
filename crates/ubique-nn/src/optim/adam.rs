//! Adam and AdamW.

use ubique_core::op::optimizer::AdamStep;
use ubique_core::{Result, Tensor};

use super::{Algorithm, State, require_below};

/// Adam (Kingma and Ba 2015), or AdamW (Loshchilov and Hutter 2019) where the weight decay is decoupled:
/// `m ← β₁m + (1 - β₁)g`, `v ← β₂v + (1 - β₂)g²`, `p ← p - rate · m̂ / (√v̂ + eps)` with `m̂ = m / (1 - β₁ᵗ)`, `v̂ = v / (1 - β₂ᵗ)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adam {
    /// β₁: how much of the running mean of gradients stays.
    pub beta1: f64,
    /// β₂: how much of the running mean of squares stays.
    pub beta2: f64,
    /// What is added to the root of the mean of squares.
    pub eps: f64,
    /// How strongly parameters are drawn to 0.
    pub weight_decay: f64,
    /// Whether the decay acts on the parameter itself (`p ← p - rate · decay · p`) and not through the gradient.
    pub decoupled: bool,
}

impl Default for Adam {
    /// The constants of the paper, without decay.
    fn default() -> Adam {
        Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, decoupled: false }
    }
}

impl Adam {
    /// AdamW with a decay (0.01 is usual).
    pub fn decoupled(weight_decay: f64) -> Adam {
        Adam { weight_decay, decoupled: true, ..Adam::default() }
    }
}

impl Algorithm for Adam {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn state(&self) -> &'static [&'static str] {
        &["mean", "square"]
    }

    fn check(&self) -> Result<()> {
        require_below("beta1", self.beta1, 1.0)?;
        require_below("beta2", self.beta2, 1.0)?;
        require_below("eps", self.eps, f64::INFINITY)?;
        require_below("the weight decay", self.weight_decay, f64::INFINITY)
    }

    fn update(&self, value: Tensor, gradient: Tensor, state: &mut State, learning_rate: f64) -> Result<Tensor> {
        let Adam { beta1, beta2, eps, weight_decay, decoupled } = *self;
        let step = AdamStep { learning_rate, beta1, beta2, eps, weight_decay, decoupled, step: state.step };
        let (mean, square) = match (state.tensors.pop(), state.tensors.pop()) {
            (Some(square), Some(mean)) => (mean, square),
            _ => (value.zeros_like()?, value.zeros_like()?),
        };
        let [value, mean, square] = value.adam_step(gradient, mean, square, step)?;
        state.tensors.extend([mean, square]);
        Ok(value)
    }
}
