//! Gradient clipping.

use ubique_core::{DType, Error, Gradients, Result, Tensor};

use crate::optim::Optimizer;

fn require_positive(name: &str, value: f64) -> Result<()> {
    if value > 0.0 {
        return Ok(());
    }
    Err(Error::value(format!("{name} must be above 0, not {value}")))
}

impl Optimizer {
    /// Changes the gradient of each parameter that takes part and has one.
    fn map_gradients(&self, gradients: &mut Gradients, map: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
        for (name, param) in self.active() {
            param.with(|leaf| {
                if let Ok(gradient) = gradients.get(leaf) {
                    let new = map(gradient).map_err(|e| e.context(format!("clipping the gradient of {name}")))?;
                    gradients.replace(leaf, new)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Scales all gradients down together where their 2-norm, as of one long vector, is above `most` (Pascanu et al. 2013),
    /// and gives the norm before (rank 0, at least f32). No value is read back, so the device need not wait. A NaN
    /// makes all gradients NaN; an infinite norm makes infinite gradients NaN and the others 0.
    ///
    /// # Errors
    /// Where `most` is not above 0, or a device fails.
    pub fn clip_norm(&self, gradients: &mut Gradients, most: f64) -> Result<Tensor> {
        require_positive("the largest norm", most)?;
        let mut sum: Option<Tensor> = None;
        for (_, param) in self.active() {
            let square = param.with(|leaf| gradients.get(leaf).map_or(Ok(None), |g| square_sum(g).map(Some)))?;
            sum = match (sum, square) {
                (Some(sum), Some(square)) => {
                    let square = square.to_device(sum.device())?;
                    let dtype = if sum.dtype() == DType::F64 { DType::F64 } else { square.dtype() };
                    Some((sum.cast(dtype)? + square.cast(dtype)).tensor()?)
                }
                (sum, square) => sum.or(square),
            };
        }
        let norm = sum.ok_or_else(|| Error::gradient("no parameter of the optimiser has a gradient"))?.sqrt()?;
        let scale = (most / (&norm + 1e-6)).tensor()?.clamp_max(1.0)?;
        self.map_gradients(gradients, |g| (g * scale.to_device(g.device())?.cast(g.dtype())?).into())?;
        Ok(norm)
    }

    /// Holds each element of all gradients between `-most` and `most`.
    ///
    /// # Errors
    /// Where `most` is not above 0, or a device fails.
    pub fn clip_value(&self, gradients: &mut Gradients, most: f64) -> Result<()> {
        require_positive("the largest value", most)?;
        self.map_gradients(gradients, |g| g.clamp(-most, most))
    }
}

/// Σ g², where half precision could overflow in at least f32.
fn square_sum(gradient: &Tensor) -> Result<Tensor> {
    let wide = if gradient.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    gradient.detach().cast(wide)?.square()?.sum_all()
}
