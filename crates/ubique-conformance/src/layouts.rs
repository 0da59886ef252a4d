//! The same values lying differently in memory.

use ubique_core::op::reference::RefTensor;
use ubique_core::{Device, Result, Tensor};

/// How an operand's elements lie in its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutKind {
    /// Row-major from the start.
    Contiguous,
    /// Column-major.
    Transposed,
    /// Every second element, not from the start.
    Stepped,
    /// Every axis backwards.
    Flipped,
}

impl LayoutKind {
    /// Every layout.
    pub const ALL: [LayoutKind; 4] =
        [LayoutKind::Contiguous, LayoutKind::Transposed, LayoutKind::Stepped, LayoutKind::Flipped];

    /// A tensor of these values in this layout.
    ///
    /// # Errors
    /// What the device reports.
    pub fn tensor(self, values: &RefTensor, device: &Device) -> Result<Tensor> {
        let tensor = Tensor::from_host(values.to_host()?, device)?;
        let axes: Vec<isize> = (0..tensor.rank() as isize).rev().collect();
        match self {
            LayoutKind::Contiguous => Ok(tensor),
            LayoutKind::Transposed => tensor.permute(&axes)?.contiguous()?.permute(&axes),
            LayoutKind::Stepped => Tensor::stack(&[&tensor, &tensor], -1)?.narrow(-1, 1, 1)?.squeeze(-1),
            LayoutKind::Flipped => tensor.flip(&axes)?.contiguous()?.flip(&axes),
        }
    }
}
