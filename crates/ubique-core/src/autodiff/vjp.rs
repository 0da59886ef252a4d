//! What a gradient rule sees and gives.

use smallvec::SmallVec;

use crate::dispatch::Device;
use crate::error::{Error, Result};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// Which of an op's operands and outputs its gradient rule looks at, so that only those are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Saves {
    inputs: u32,
    outputs: bool,
}

impl Saves {
    /// Only shapes and dtypes.
    pub const NONE: Saves = Saves { inputs: 0, outputs: false };
    /// Every operand.
    pub const INPUTS: Saves = Saves { inputs: u32::MAX, outputs: false };
    /// Every output.
    pub const OUTPUTS: Saves = Saves { inputs: 0, outputs: true };
    /// Operands and outputs.
    pub const BOTH: Saves = Saves { inputs: u32::MAX, outputs: true };

    /// Only the operands at these positions (below 32).
    pub const fn only(positions: &[u32]) -> Saves {
        let (mut inputs, mut i) = (0, 0);
        while i < positions.len() {
            inputs |= 1 << positions[i];
            i += 1;
        }
        Saves { inputs, outputs: false }
    }

    /// The same operands, and every output.
    pub const fn and_outputs(self) -> Saves {
        Saves { outputs: true, ..self }
    }

    /// Whether any operand is kept.
    pub const fn inputs(self) -> bool {
        self.inputs != 0
    }

    /// Whether the operand at a position is kept; those beyond 31 are as the 31st.
    pub const fn input(self, position: usize) -> bool {
        let bit = if position > 31 { 31 } else { position };
        self.inputs >> bit & 1 == 1
    }

    /// Whether the outputs are kept.
    pub const fn outputs(self) -> bool {
        self.outputs
    }
}

/// One recorded op during a backward pass.
#[derive(Debug)]
pub struct Vjp<'a> {
    pub(crate) inputs: &'a [Option<Tensor>],
    pub(crate) outputs: &'a [Tensor],
    pub(crate) specs: &'a [TensorSpec],
    pub(crate) output_specs: &'a [TensorSpec],
    pub(crate) grads: &'a [Option<Tensor>],
    pub(crate) wants: &'a [bool],
    pub(crate) device: &'a Device,
}

impl<'a> Vjp<'a> {
    /// The operand at a position; only those that the rule declares in `saves` are there.
    ///
    /// # Errors
    /// Where the operand was not saved.
    pub fn input(&self, position: usize) -> Result<&'a Tensor> {
        let input = self.inputs.get(position).and_then(Option::as_ref);
        input.ok_or_else(|| Error::gradient(format!("operand {position} was not saved for the gradient")))
    }

    /// The output at a position, where the rule declares that it saves outputs.
    ///
    /// # Errors
    /// Where outputs were not saved.
    pub fn output(&self, position: usize) -> Result<&'a Tensor> {
        self.outputs
            .get(position)
            .ok_or_else(|| Error::gradient(format!("output {position} was not saved for the gradient")))
    }

    /// Shape and dtype of the operand at a position.
    ///
    /// # Errors
    /// Where there is none.
    pub fn spec(&self, position: usize) -> Result<&'a TensorSpec> {
        self.specs.get(position).ok_or_else(|| Error::gradient(format!("no operand {position}")))
    }

    /// How many operands there were.
    pub fn operands(&self) -> usize {
        self.specs.len()
    }

    /// The gradient of the output at a position.
    ///
    /// # Errors
    /// Where nothing depended on that output (see [`Vjp::grad_or_zeros`]).
    pub fn grad(&self, position: usize) -> Result<&'a Tensor> {
        let grad = self.grads.get(position).and_then(Option::as_ref);
        grad.ok_or_else(|| Error::gradient(format!("no gradient arrived at output {position}")))
    }

    /// The gradient of an output, or zeros where nothing depended on it.
    ///
    /// # Errors
    /// Where there is no such output or memory cannot be had.
    pub fn grad_or_zeros(&self, position: usize) -> Result<Tensor> {
        match (self.grads.get(position), self.output_specs.get(position)) {
            (Some(Some(grad)), _) => Ok(grad.clone()),
            (Some(None), Some(spec)) => Tensor::zeros(&spec.shape, spec.dtype, self.device),
            _ => Err(Error::gradient(format!("no output {position}"))),
        }
    }

    /// Whether the gradient of an operand is wanted; a rule may skip the others.
    pub fn wants(&self, position: usize) -> bool {
        self.wants.get(position).copied().unwrap_or(false)
    }

    /// The device that the operands were on.
    pub fn device(&self) -> &'a Device {
        self.device
    }
}

/// Gradients of an op's operands; `None` where there is none or it is not wanted.
#[derive(Debug)]
pub struct Cotangents(pub(crate) SmallVec<[Option<Tensor>; 3]>);

impl Cotangents {
    /// The gradient of the first operand.
    pub fn one(grad: Tensor) -> Cotangents {
        Cotangents(SmallVec::from_iter([Some(grad)]))
    }

    /// No gradient yet for any of `count` operands.
    pub fn none(count: usize) -> Cotangents {
        Cotangents(std::iter::repeat_with(|| None).take(count).collect())
    }

    /// Sets the gradient of the operand at a position; ignored where there is no such operand.
    pub fn set(&mut self, position: usize, grad: Tensor) {
        if let Some(slot) = self.0.get_mut(position) {
            *slot = Some(grad);
        }
    }
}

impl FromIterator<Option<Tensor>> for Cotangents {
    fn from_iter<I: IntoIterator<Item = Option<Tensor>>>(iter: I) -> Cotangents {
        Cotangents(iter.into_iter().collect())
    }
}
