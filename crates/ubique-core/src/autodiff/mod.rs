//! Gradients: nodes recorded while ops run, and walks back over them.
//!
//! Rules are tensor code, so gradients run on whatever device the operands are on, cross devices where the forward did,
//! and can be differentiated again.

mod backward;
pub(crate) mod node;
pub mod vjp;

pub use backward::{Gradients, grad};

use crate::dispatch::Device;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use node::Edge;

impl Tensor {
    /// The same values as a tracked leaf: ops on it are recorded, and [`Tensor::backward`] gives its gradient.
    ///
    /// # Errors
    /// Where the device handle is one without autodiff (see [`Device::autodiff`]), or the dtype is not floating point.
    pub fn require_grad(&self) -> Result<Tensor> {
        if !self.dtype().is_float() {
            return Err(Error::gradient(format!("only floating-point tensors have gradients, not {}", self.dtype())));
        }
        if !self.device().is_autodiff() {
            let message = "the device handle does not track gradients; create the tensor on device.autodiff()";
            return Err(Error::gradient(message)
                .with_op("require_grad", &[self.spec()])
                .with_device(self.device().name()));
        }
        Ok(self.detach().with_edge(Edge::leaf(self)))
    }

    /// Whether ops on this tensor are recorded.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        self.edge().is_some()
    }

    /// The same values, untracked.
    pub fn detach(&self) -> Tensor {
        self.clone().into_detached()
    }

    /// The same values, untracked, on the device without autodiff.
    pub fn inner(&self) -> Tensor {
        let device = self.device().inner();
        self.detach().on(device)
    }

    /// The same values on the device with autodiff, untracked: a constant of the computation.
    pub fn from_inner(inner: &Tensor) -> Tensor {
        let device = match inner.device().is_autodiff() {
            true => inner.device().clone(),
            false => inner.device().autodiff(),
        };
        inner.detach().on(device)
    }

    /// Gradients of this one-element tensor with respect to every tracked leaf that it depends on.
    ///
    /// # Errors
    /// Where the tensor is not tracked or has not exactly one element, or a gradient rule fails.
    pub fn backward(&self) -> Result<Gradients> {
        backward::backward(self, false)
    }

    /// As [`Tensor::backward`], and the gradients themselves can be differentiated again.
    ///
    /// # Errors
    /// As [`Tensor::backward`].
    pub fn backward_create_graph(&self) -> Result<Gradients> {
        backward::backward(self, true)
    }
}

/// The device handle with which recorded ops ran.
pub(crate) fn checkpoints(device: &Device) -> bool {
    device.checkpointing() == Some(crate::dispatch::Checkpointing::Balanced)
}
