//! The move of a tensor between devices: an op, so that gradients move back the same way.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::error::Result;
use crate::op::case::Case;
use crate::op::reference::RefTensor;
use crate::op::{Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;

/// The same values on another device. The device is no part of the op; see [`crate::tensor::Tensor::to_device`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Transfer;

impl Rule for Transfer {
    fn name(&self) -> &'static str {
        "transfer"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [_] = operands(inputs)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        Ok(Cotangents::one(call.grad(0)?.to_device(call.device())?))
    }

    fn reference(&self, inputs: &[RefTensor], _outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        Ok(vec![inputs[0].clone()])
    }

    fn cases() -> Vec<Case> {
        // Not run through `execute`: transfers are tested between pairs of devices.
        Vec::new()
    }
}
