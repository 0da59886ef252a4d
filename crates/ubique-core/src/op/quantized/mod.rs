//! Quantised tensors: integers of 8 or 4 bits that stand for floats, x ≈ (q − z)·s with a scale s and perhaps a zero point z.
//!
//! This file has the scheme and what the ops share; [`QTensor`](crate::tensor::QTensor) is what users hold.

pub mod dequantize;
pub mod linear;
pub mod quantize;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::accumulator;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// How wide quantised values are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Width {
    /// 8 bits: i8, in the shape of what they stand for.
    Q8,
    /// 4 bits: two along the last axis in each u8, the lower half first, in two's complement.
    Q4,
}

/// How floats become integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Scheme {
    /// How wide the integers are.
    pub width: Width,
    /// Whether there are zero points, so that values far from symmetric around 0 lose less. 0 itself is always exact.
    pub affine: bool,
    /// How many neighbours along the last axis share a scale, the last ones perhaps fewer; `None` for one scale in all.
    pub block: Option<usize>,
}

impl Scheme {
    /// 8 bits, symmetric, one scale.
    pub const fn q8() -> Scheme {
        Scheme { width: Width::Q8, affine: false, block: None }
    }

    /// 4 bits, symmetric, one scale.
    pub const fn q4() -> Scheme {
        Scheme { width: Width::Q4, ..Scheme::q8() }
    }

    /// The same with zero points.
    pub const fn affine(self) -> Scheme {
        Scheme { affine: true, ..self }
    }

    /// The same with a scale for every `block` neighbours along the last axis.
    pub const fn blocks(self, block: usize) -> Scheme {
        Scheme { block: Some(block), ..self }
    }

    /// The smallest and largest integer. Symmetric ones leave the lowest out, so that −x is as exact as x.
    pub const fn range(self) -> (i8, i8) {
        match (self.width, self.affine) {
            (Width::Q8, false) => (-127, 127),
            (Width::Q8, true) => (-128, 127),
            (Width::Q4, false) => (-7, 7),
            (Width::Q4, true) => (-8, 7),
        }
    }

    /// Shape and dtype of the integers for floats of a shape.
    ///
    /// # Errors
    /// For rank 0 with 4 bits, which are packed along an axis.
    pub fn values(self, shape: &Shape) -> Result<TensorSpec> {
        Ok(match self.width {
            Width::Q8 => TensorSpec::new(shape, DType::I8),
            Width::Q4 => {
                let axis = last_axis(shape)?;
                TensorSpec::new(shape.with(axis, shape[axis].div_ceil(2)), DType::U8)
            }
        })
    }

    /// The shape of scales and zero points for floats of a shape: none for one scale in all, else `[.., blocks]`.
    ///
    /// # Errors
    /// For blocks of no elements, and for blocks of rank 0.
    pub fn scales(self, shape: &Shape) -> Result<Shape> {
        match self.block {
            None => Ok(Shape::empty()),
            Some(0) => Err(Error::value("a block has to have elements")),
            Some(block) => {
                let axis = last_axis(shape)?;
                Ok(shape.with(axis, shape[axis].div_ceil(block)))
            }
        }
    }

    /// Refuses scales and zero points that are not those of floats of this shape and dtype.
    fn check_scales(self, shape: &Shape, dtype: DType, given: &[TensorSpec]) -> Result<()> {
        let wanted = TensorSpec::new(self.scales(shape)?, accumulator(dtype));
        let zeros = TensorSpec::new(&wanted.shape, DType::I8);
        match given {
            [scales] if !self.affine && *scales == wanted => Ok(()),
            [scales, zero_points] if self.affine && *scales == wanted && *zero_points == zeros => Ok(()),
            _ if self.affine => Err(Error::shape(format!("needs scales {wanted} and zero points {zeros}"))),
            _ => Err(Error::shape(format!("needs scales {wanted}, and no zero points"))),
        }
    }

    /// For each float of a shape, in order, which scale is its own.
    fn scale_indices(self, shape: &Shape) -> impl Iterator<Item = usize> + use<> {
        let columns = shape.last().copied().unwrap_or(1).max(1);
        let count = shape.iter().product();
        let block = self.block;
        (0..count).map(move |at: usize| match block {
            Some(block) => at / columns * columns.div_ceil(block) + at % columns / block,
            None => 0,
        })
    }

    /// Scales or zero points for each float: broadcastable to the shape.
    fn spread(self, scales: &Tensor, shape: &Shape) -> Result<Tensor> {
        match (self.block, shape.last()) {
            (Some(block), Some(&columns)) => {
                let dtype = scales.device().default_int();
                let column = Tensor::arange(0, columns, 1, dtype, scales.device())?;
                scales.index_select(-1, &(column / block as i64).tensor()?)
            }
            _ => Ok(scales.clone()),
        }
    }
}

fn last_axis(shape: &Shape) -> Result<usize> {
    shape.rank().checked_sub(1).ok_or_else(|| Error::shape("a tensor of rank 0 has no axis for blocks or 4-bit values"))
}

/// Schemes worth testing, with a shape each.
fn samples() -> impl Iterator<Item = (Scheme, Shape)> {
    let shapes: [(Option<usize>, &[usize]); 8] = [
        (None, &[]),
        (None, &[7]),
        (None, &[3, 4]),
        (None, &[0, 3]),
        (Some(4), &[2, 3, 8]),
        (Some(4), &[3, 7]),
        (Some(32), &[5, 100]),
        (Some(1), &[2, 0]),
    ];
    [Scheme::q8(), Scheme::q4(), Scheme::q8().affine(), Scheme::q4().affine()]
        .into_iter()
        .flat_map(move |scheme| shapes.map(|(block, shape)| (Scheme { block, ..scheme }, Shape::from(shape))))
        .filter(|(scheme, shape)| scheme.values(shape).is_ok())
}

/// Adds scales and zero points to a case, as a scheme wants them for floats of a shape and dtype.
fn with_scales(case: Case, scheme: Scheme, shape: &Shape, dtype: DType) -> Case {
    let scales = scheme.scales(shape).unwrap_or_else(|_| Shape::empty());
    let (low, high) = scheme.range();
    let case = case.input_with(&scales, accumulator(dtype), Fill::Uniform(0.02, 0.3));
    match scheme.affine {
        true => case.input_with(scales, DType::I8, Fill::Uniform(low.into(), high.into())),
        false => case,
    }
}
