//! Quantised tensors. ONNX's unsigned integers are the signed ones of ubique's scheme with 128 added, and so are their zero
//! points; scales of an axis or of blocks of any axis are those of blocks of the last one.

use ubique_core::op::quantized::Scheme;
use ubique_core::{DType, QTensor, Result, Tensor, TensorSpec};

use super::windows::conv;
use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("DequantizeLinear", |n| {
        let grain = Grain::new(n, n.x(0)?)?;
        one(grain.back(&grain.quantized(n.x(0)?, n.x(1)?, n.maybe(2)?)?.dequantize()?))
    }),
    ("DynamicQuantizeLinear", |n| {
        let q = n.x(0)?.quantize(Scheme::q8().affine())?;
        let Some(zero_points) = q.zero_points() else { return unmapped("no zero points") };
        Ok(vec![offset(q.values(), DType::U8)?, q.scales().clone(), offset(zero_points, DType::U8)?])
    }),
    ("QLinearConv", |n| {
        let bias = match n.maybe(8)? {
            Some(bias) => Some((bias.cast(DType::F32)? * whole(n, 1)?.mul(&whole(n, 4)?)?).tensor()?),
            None => None,
        };
        let product = conv(n, &floats(n, 0)?, &floats(n, 3)?, bias.as_ref())?;
        requantized(n, &product[0], 6)
    }),
    ("QLinearMatMul", |n| {
        let (a, b) = (Grain::WHOLE.parts(n, 0)?, Grain::WHOLE.parts(n, 3)?);
        requantized(n, &a.matmul(&b)?, 6)
    }),
    ("QuantizeLinear", quantize),
];

/// What shares a scale: all, or blocks along an axis, which moves to the end.
struct Grain {
    axis: isize,
    block: Option<usize>,
    /// Whether each element of the scales is that of a whole slice along the axis.
    slices: bool,
}

impl Grain {
    const WHOLE: Grain = Grain { axis: -1, block: None, slices: false };

    fn new(n: &Node<'_>, x: &Tensor) -> Outcome<Grain> {
        let axis = n.int("axis", 1)?;
        n.ignore("saturate");
        Ok(match (n.x(1)?.elements(), n.int("block_size", 0)?) {
            (1, _) => Grain::WHOLE,
            (_, 0) => Grain { axis, block: x.shape().last().copied(), slices: true },
            (_, size) => Grain { axis, block: Some(size.unsigned_abs()), slices: false },
        })
    }

    fn scheme(&self) -> Scheme {
        let scheme = Scheme::q8().affine();
        self.block.map_or(scheme, |block| scheme.blocks(block))
    }

    /// With the axis at the end.
    fn moved(&self, x: &Tensor) -> Result<Tensor> {
        if self.slices || self.block.is_none() { Ok(x.clone()) } else { x.movedim(self.axis, -1) }
    }

    fn back(&self, x: &Tensor) -> Result<Tensor> {
        if self.slices || self.block.is_none() { Ok(x.clone()) } else { x.movedim(-1, self.axis) }
    }

    /// Scales or zero points for a tensor of this shape, as the scheme has them.
    fn of(&self, x: &Tensor, scales: &Tensor) -> Result<Tensor> {
        if self.block.is_none() {
            return scales.reshape([]);
        }
        if !self.slices {
            return self.moved(scales);
        }
        let axis = x.shape().axis(self.axis)?;
        let shape = (0..x.rank()).map(|a| if a == axis { scales.elements() } else { 1 }).collect::<Vec<_>>();
        scales.reshape(shape)?.expand(x.shape().with(x.rank() - 1, 1))
    }

    fn zero_points(&self, x: &Tensor, scales: &Tensor, zero_points: Option<&Tensor>, of: DType) -> Outcome<Tensor> {
        let zero_points = match zero_points {
            Some(zero_points) => zero_points.clone(),
            None => Tensor::zeros(scales.shape(), of, scales.device())?,
        };
        Ok(self.of(x, &signed(&zero_points)?)?)
    }

    fn quantized(&self, x: &Tensor, scales: &Tensor, zero_points: Option<&Tensor>) -> Outcome<QTensor> {
        let zero_points = self.zero_points(x, scales, zero_points, x.dtype())?;
        let scales = self.of(x, &scales.cast(DType::F32)?)?;
        let values = self.moved(&signed(x)?)?;
        let spec = TensorSpec::new(values.shape(), DType::F32);
        Ok(QTensor::from_parts(values, scales, Some(zero_points), self.scheme(), spec)?)
    }

    /// A quantised operand from a position on: integers, scale and zero point.
    fn parts(&self, n: &Node<'_>, at: usize) -> Outcome<QTensor> {
        self.quantized(n.x(at)?, n.x(at + 1)?, n.maybe(at + 2)?)
    }
}

/// The integers of the scheme for those of ONNX.
fn signed(x: &Tensor) -> Outcome<Tensor> {
    match x.dtype() {
        DType::I8 => Ok(x.clone()),
        DType::U8 => Ok((x.cast(DType::I16)? - 128).tensor()?.cast(DType::I8)?),
        other => unmapped(format!("quantised values of {other}; ubique's are of 8 or 4 bits")),
    }
}

/// The other way.
fn offset(x: &Tensor, to: DType) -> Result<Tensor> {
    if to == DType::U8 { (x.cast(DType::I16)? + 128).tensor()?.cast(to) } else { x.cast(to) }
}

fn quantize(n: &Node<'_>) -> Outcome {
    let (x, scales, zero_points) = (n.x(0)?, n.x(1)?, n.maybe(2)?);
    let to = n.dtype("output_dtype", zero_points.map_or(DType::U8, Tensor::dtype))?;
    if ![DType::I8, DType::U8].contains(&to) {
        return unmapped(format!("quantised values of {to}; ubique's are of 8 or 4 bits"));
    }
    let grain = Grain::new(n, x)?;
    let zero_points = grain.zero_points(x, scales, zero_points, to)?;
    let q = grain.moved(x)?.quantize_with(grain.scheme(), &grain.of(x, scales)?, Some(&zero_points))?;
    one(grain.back(&offset(q.values(), to)?))
}

/// A scale of one element.
fn whole(n: &Node<'_>, at: usize) -> Outcome<Tensor> {
    Ok(n.x(at)?.reshape([])?)
}

fn floats(n: &Node<'_>, at: usize) -> Outcome<Tensor> {
    Ok(Grain::WHOLE.parts(n, at)?.dequantize()?)
}

/// Floats as integers with the scale and the zero point at a position.
fn requantized(n: &Node<'_>, x: &Tensor, at: usize) -> Outcome {
    let to = n.x(at + 1)?.dtype();
    let zero_points = Grain::WHOLE.zero_points(x, n.x(at)?, n.maybe(at + 1)?, to)?;
    let scales = whole(n, at)?.cast(DType::F32)?;
    one(offset(x.quantize_with(Grain::WHOLE.scheme(), &scales, Some(&zero_points))?.values(), to))
}
