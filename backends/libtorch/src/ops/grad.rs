//! Gradients by LibTorch's own differentiation, for functions whose gradients `tch` does not reach directly.

use tch::Tensor;

use crate::autograd;
use crate::error::Made;

/// The gradient of `forward`'s operand, given that of its result.
pub fn gradient(x: &Tensor, g: &Tensor, forward: impl FnOnce(&Tensor) -> Made) -> Made {
    let mut all = gradients(&[x], g, |leaves| forward(&leaves[0]))?;
    Ok(all.remove(0))
}

/// The gradients of `forward`'s operands, given that of its result.
pub fn gradients(operands: &[&Tensor], g: &Tensor, forward: impl FnOnce(&[Tensor]) -> Made) -> Made<Vec<Tensor>> {
    autograd::with(|| {
        let leaves = operands.iter().map(|x| Ok(x.f_detach()?.f_set_requires_grad(true)?)).collect::<Made<Vec<_>>>()?;
        // Differentiation begins at a scalar: the one whose gradient with respect to the result is `g`.
        let scalar = tch::with_grad(|| -> Made { Ok(forward(&leaves)?.f_mul(g)?.f_sum(None)?) })?;
        Ok(Tensor::f_run_backward(&[scalar], &leaves, false, false)?)
    })
}
