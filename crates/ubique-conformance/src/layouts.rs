//! The same values lying differently in memory.

use ubique_core::op::case::Case;
use ubique_core::op::reference::{RefTensor, Values};
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
    /// Row-major, but not from the start.
    Offset,
    /// The same elements along the first axis, by a stride of 0. This changes the values.
    Broadcast,
}

impl LayoutKind {
    /// Every layout.
    pub const ALL: [LayoutKind; 6] = [
        LayoutKind::Contiguous,
        LayoutKind::Transposed,
        LayoutKind::Stepped,
        LayoutKind::Flipped,
        LayoutKind::Offset,
        LayoutKind::Broadcast,
    ];

    /// Whether a case's operands can lie like this other than row-major.
    pub fn differs(self, case: &Case) -> bool {
        let long = |extents: &[usize]| extents.iter().any(|&extent| extent > 1);
        let mut shapes = case.inputs.iter().map(|input| &input.spec.shape);
        match self {
            LayoutKind::Contiguous => true,
            LayoutKind::Transposed => shapes.any(|shape| shape.iter().filter(|&&extent| extent > 1).count() > 1),
            LayoutKind::Flipped => shapes.any(|shape| long(shape)),
            LayoutKind::Stepped | LayoutKind::Offset => shapes.any(|shape| !shape.contains(&0)),
            LayoutKind::Broadcast => shapes.any(|shape| shape.first().is_some_and(|&n| n > 1)),
        }
    }

    /// The values that an operand has in this layout.
    pub fn values(self, values: &RefTensor) -> RefTensor {
        let count = values.spec.shape.first().copied().unwrap_or(0);
        if self != LayoutKind::Broadcast || count < 2 {
            return values.clone();
        }
        let row = values.len() / count;
        let mut out = values.clone();
        match &mut out.values {
            Values::Float(all) => (row..all.len()).for_each(|i| all[i] = all[i % row]),
            Values::Int(all) => (row..all.len()).for_each(|i| all[i] = all[i % row]),
        }
        out
    }

    /// A tensor of these values (see [`LayoutKind::values`]) in this layout.
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
            LayoutKind::Offset => {
                let flat = tensor.flatten(0, -1)?;
                let before = flat.elements().min(3);
                let longer = Tensor::concat(&[&flat.narrow(0, 0, before)?, &flat], 0)?;
                longer.narrow(0, before as isize, flat.elements())?.reshape(tensor.shape())
            }
            LayoutKind::Broadcast if tensor.shape().first().is_some_and(|&n| n > 1) => {
                tensor.narrow(0, 0, 1)?.contiguous()?.expand(tensor.shape())
            }
            LayoutKind::Broadcast => Ok(tensor),
        }
    }
}
