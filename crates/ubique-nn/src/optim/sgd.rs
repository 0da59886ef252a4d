//! Stochastic gradient descent.

use ubique_core::op::optimizer::SgdStep;
use ubique_core::{Error, Result, Tensor};

use super::{Algorithm, State, require_below};

/// Gradient descent, with momentum where asked for: `b ← momentum · b + (1 - dampening) · g` (at the first step `b ← g`), then
/// `p ← p - rate · b`, or with Nesterov's look ahead `p ← p - rate · (g + momentum · b)` (Sutskever et al. 2013).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sgd {
    /// How much of the direction stays; 0 for none.
    pub momentum: f64,
    /// How much of the gradient is kept out of the direction.
    pub dampening: f64,
    /// Whether to look ahead; needs momentum and no dampening.
    pub nesterov: bool,
    /// How strongly parameters are drawn to 0, through the gradient.
    pub weight_decay: f64,
}

impl Algorithm for Sgd {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn state(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    fn check(&self) -> Result<()> {
        if self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0) {
            return Err(Error::value("Nesterov's look ahead needs momentum and no dampening"));
        }
        require_below("the momentum", self.momentum, f64::INFINITY)?;
        require_below("the dampening", self.dampening, f64::INFINITY)?;
        require_below("the weight decay", self.weight_decay, f64::INFINITY)
    }

    fn update(&self, value: Tensor, gradient: Tensor, state: &mut State, learning_rate: f64) -> Result<Tensor> {
        let Sgd { momentum, dampening, nesterov, weight_decay } = *self;
        let step = SgdStep { learning_rate, momentum, dampening, nesterov, weight_decay };
        let (value, buffer) = value.sgd_step(gradient, state.tensors.pop(), step)?;
        state.tensors.extend(buffer);
        Ok(value)
    }
}
