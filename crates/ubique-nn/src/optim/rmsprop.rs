//! RMSprop.

use ubique_core::{Result, Tensor};

use super::{Algorithm, State, require_below};

/// RMSprop (Tieleman and Hinton 2012): `v ← α·v + (1 - α)·g²`, `p ← p - rate · g / (√v + eps)`. Centred (Graves 2013), `v` is
/// lessened by the square of the running mean of gradients; with momentum, `b ← momentum · b + g / (√v + eps)` and
/// `p ← p - rate · b`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsProp {
    /// α: how much of the running means stays.
    pub alpha: f64,
    /// What is added to the root.
    pub eps: f64,
    /// How much of the direction stays; 0 for none.
    pub momentum: f64,
    /// Whether to divide by the standard deviation of gradients and not by their root mean square.
    pub centered: bool,
    /// How strongly parameters are drawn to 0, through the gradient.
    pub weight_decay: f64,
}

impl Default for RmsProp {
    fn default() -> RmsProp {
        RmsProp { alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false, weight_decay: 0.0 }
    }
}

impl Algorithm for RmsProp {
    fn name(&self) -> &'static str {
        "rmsprop"
    }

    fn state(&self) -> &'static [&'static str] {
        match (self.centered, self.momentum != 0.0) {
            (false, false) => &["square"],
            (true, false) => &["square", "mean"],
            (false, true) => &["square", "momentum"],
            (true, true) => &["square", "mean", "momentum"],
        }
    }

    fn check(&self) -> Result<()> {
        require_below("alpha", self.alpha, 1.0)?;
        require_below("eps", self.eps, f64::INFINITY)?;
        require_below("the momentum", self.momentum, f64::INFINITY)?;
        require_below("the weight decay", self.weight_decay, f64::INFINITY)
    }

    fn update(&self, value: Tensor, gradient: Tensor, state: &mut State, learning_rate: f64) -> Result<Tensor> {
        if state.tensors.is_empty() {
            state.tensors = self.state().iter().map(|_| value.zeros_like()).collect::<Result<_>>()?;
        }
        let g = match self.weight_decay {
            0.0 => gradient,
            decay => (gradient + &value * decay).tensor()?,
        };
        let mut old = std::mem::take(&mut state.tensors).into_iter();
        // As many as there are names, by the engine's promise; zeros stand in for a state that has been tampered with.
        let mut next = || old.next().map_or_else(|| value.zeros_like(), Ok);
        let square = (next()? * self.alpha + g.square()? * (1.0 - self.alpha)).tensor()?;
        let mut kept = vec![square.clone()];
        let mut variance = square;
        if self.centered {
            let mean = (next()? * self.alpha + &g * (1.0 - self.alpha)).tensor()?;
            // Rounding can bring the difference below 0.
            variance = (variance - mean.square()).tensor()?.clamp_min(0.0)?;
            kept.push(mean);
        }
        let mut direction = (g / (variance.sqrt()? + self.eps)).tensor()?;
        if self.momentum != 0.0 {
            direction = (next()? * self.momentum + direction).tensor()?;
            kept.push(direction.clone());
        }
        state.tensors = kept;
        (value - direction * learning_rate).into()
    }
}
