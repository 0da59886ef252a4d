//! What gives elements another shape or order, joins, cuts, repeats, pads or makes them.

use ubique_core::op::pad::PadMode;
use ubique_core::{DType, Result, Scalar, Tensor};

use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("CenterCropPad", center_crop_pad),
    ("Concat", |n| one(Tensor::concat(&n.all()?, n.int("axis", 0)?))),
    ("Constant", |n| Ok(n.constant("value")?.into_iter().cloned().collect())),
    ("ConstantOfShape", constant_of_shape),
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("EyeLike", eye_like),
    ("Flatten", flatten),
    ("Pad", pad),
    ("Range", range),
    ("Reshape", reshape),
    ("Shape", shape),
    ("Size", |n| one(Tensor::scalar(n.x(0)?.elements() as i64, n.device()))),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", |n| one(n.x(0)?.tile(&n.extents(1)?))),
    ("Transpose", transpose),
    ("Trilu", trilu),
    ("Unsqueeze", unsqueeze),
];

/// Axes to indices.
fn named(x: &Tensor, axes: &[isize]) -> Result<Vec<usize>> {
    axes.iter().map(|&axis| x.shape().axis(axis)).collect()
}

/// Padded where the numbers are positive, and cut where they are negative.
pub fn pad_or_crop(x: &Tensor, pads: &[(isize, isize)], mode: PadMode) -> Result<Tensor> {
    let mut cut = x.clone();
    for (axis, &(before, after)) in pads.iter().enumerate() {
        let extent = cut.shape()[axis] as isize;
        let (start, end) = ((-before).max(0), extent - (-after).max(0));
        cut = cut.slice(axis as isize, Some(start), Some(end), 1)?;
    }
    let positive = |&(before, after): &(isize, isize)| (before.max(0).unsigned_abs(), after.max(0).unsigned_abs());
    cut.pad(&pads.iter().map(positive).collect::<Vec<_>>(), mode)
}

fn pad(n: &Node<'_>) -> Outcome {
    let (x, pads) = (n.x(0)?, n.values(1)?.unwrap_or_default());
    let axes = n.values(3)?.map_or_else(|| Ok((0..x.rank()).collect()), |axes| named(x, &axes))?;
    let mut pairs = vec![(0, 0); x.rank()];
    for (i, &axis) in axes.iter().enumerate() {
        pairs[axis] = (pads[i], pads[axes.len() + i]);
    }
    let value = n.maybe(2)?.map_or(Ok(0.into()), Tensor::item_scalar)?;
    let mode = match n.text("mode", "constant")? {
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Replicate,
        "wrap" => PadMode::Circular,
        _ => PadMode::Constant(value),
    };
    one(pad_or_crop(x, &pairs, mode))
}

/// Cut or padded at both ends alike; of an odd number the end gets one more.
fn center_crop_pad(n: &Node<'_>) -> Outcome {
    let (x, sizes, axes) = (n.x(0)?, n.values(1)?.unwrap_or_default(), n.ints("axes")?);
    let axes = if axes.is_empty() { (0..x.rank()).collect() } else { named(x, &axes)? };
    let mut pairs = vec![(0, 0); x.rank()];
    for (&axis, &size) in axes.iter().zip(&sizes) {
        let more = size - x.shape()[axis] as isize;
        pairs[axis] = (more / 2, more - more / 2);
    }
    one(pad_or_crop(x, &pairs, PadMode::Constant(0.into())))
}

fn constant_of_shape(n: &Node<'_>) -> Outcome {
    let shape = n.extents(0)?;
    match n.constant("value")? {
        Some(value) => one(value.reshape([])?.expand(shape)),
        None => one(Tensor::zeros(shape, DType::F32, n.device())),
    }
}

/// Blocks of channels spread over space: `[N, C·b², H, W]` to `[N, C, H·b, W·b]`.
fn depth_to_space(n: &Node<'_>) -> Outcome {
    let (x, block) = (n.x(0)?, n.int("blocksize", 1)?.unsigned_abs());
    let &[batch, depth, height, width] = &**x.shape() else { return unmapped("no image") };
    let channels = depth / (block * block);
    let blocks = match n.text("mode", "DCR")? {
        "CRD" => x.reshape([batch, channels, block, block, height, width])?.permute(&[0, 1, 4, 2, 5, 3])?,
        _ => x.reshape([batch, block, block, channels, height, width])?.permute(&[0, 3, 4, 1, 5, 2])?,
    };
    one(blocks.reshape([batch, channels, height * block, width * block]))
}

fn space_to_depth(n: &Node<'_>) -> Outcome {
    let (x, block) = (n.x(0)?, n.int("blocksize", 1)?.unsigned_abs());
    let &[batch, channels, height, width] = &**x.shape() else { return unmapped("no image") };
    let (height, width) = (height / block, width / block);
    let blocks = x.reshape([batch, channels, height, block, width, block])?.permute(&[0, 3, 5, 1, 2, 4])?;
    one(blocks.reshape([batch, channels * block * block, height, width]))
}

/// The shapes broadcast both ways.
fn expand(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    let shape = x.shape().broadcast(&n.extents(1)?.into())?;
    one(x.expand(shape))
}

fn eye_like(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    let &[rows, columns] = &**x.shape() else { return unmapped("no matrix") };
    let (k, dtype) = (n.int("k", 0)?, n.dtype("dtype", x.dtype())?);
    // A diagonal of a larger matrix.
    let size = rows + columns + k.unsigned_abs();
    let eye = Tensor::eye(size, size, dtype, n.device())?;
    let (top, left) = ((-k).max(0).unsigned_abs(), k.max(0).unsigned_abs());
    one(eye.narrow(0, left as isize, rows)?.narrow(1, top as isize, columns))
}

fn flatten(n: &Node<'_>) -> Outcome {
    let (x, axis) = (n.x(0)?, n.int("axis", 1)?);
    let axis = if axis < 0 { axis + x.rank() as isize } else { axis }.unsigned_abs();
    let product = |extents: &[usize]| extents.iter().product::<usize>();
    one(x.reshape([product(&x.shape()[..axis]), product(&x.shape()[axis..])]))
}

fn range(n: &Node<'_>) -> Outcome {
    let number = |i: usize| -> Outcome<Scalar> { Ok(n.x(i)?.item_scalar()?) };
    one(Tensor::arange(number(0)?, number(1)?, number(2)?, n.x(0)?.dtype(), n.device()))
}

/// One extent may be -1, what is left; 0 is the operand's own.
fn reshape(n: &Node<'_>) -> Outcome {
    let (x, sizes) = (n.x(0)?, n.values(1)?.unwrap_or_default());
    let own = !n.flag("allowzero", false)?;
    let known = |(i, &size): (usize, &isize)| match size {
        0 if own => x.shape()[i] as isize,
        size => size,
    };
    let sizes: Vec<isize> = sizes.iter().enumerate().map(known).collect();
    let product: isize = sizes.iter().filter(|size| **size >= 0).product();
    let left = x.elements() / product.unsigned_abs().max(1);
    one(x.reshape(sizes.iter().map(|&size| if size < 0 { left } else { size.unsigned_abs() }).collect::<Vec<_>>()))
}

fn shape(n: &Node<'_>) -> Outcome {
    let extents: Vec<i64> = n.x(0)?.shape().iter().map(|&extent| extent as i64).collect();
    let end = n.int("end", extents.len() as isize)?;
    one(Tensor::from_slice(&extents, [extents.len()], n.device())?.slice(0, Some(n.int("start", 0)?), Some(end), 1))
}

fn slice(n: &Node<'_>) -> Outcome {
    let (x, starts) = (n.x(0)?, n.values(1)?.unwrap_or_default());
    let ends = n.values(2)?.unwrap_or_default();
    let axes = n.values(3)?.unwrap_or_else(|| (0..starts.len() as isize).collect());
    let steps = n.values(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut out = x.clone();
    for (i, &axis) in axes.iter().enumerate() {
        out = out.slice(axis, Some(starts[i]), Some(ends[i]), steps[i])?;
    }
    Ok(vec![out])
}

/// Pieces of given lengths, or equal ones of which the last may be shorter.
fn split(n: &Node<'_>) -> Outcome {
    let (x, axis, given) = (n.x(0)?, n.int("axis", 0)?, n.values(1)?);
    if let Some(lengths) = given {
        return Ok(x.split(&lengths.into_iter().map(isize::unsigned_abs).collect::<Vec<_>>(), axis)?);
    }
    let extent = x.shape()[x.shape().axis(axis)?];
    let count = n.int("num_outputs", n.results as isize)?.unsigned_abs();
    let size = extent.div_ceil(count);
    let lengths: Vec<usize> = (0..count).map(|i| size.min(extent.saturating_sub(i * size))).collect();
    Ok(x.split(&lengths, axis)?)
}

fn squeeze(n: &Node<'_>) -> Outcome {
    let (x, axes) = (n.x(0)?, n.values(1)?);
    let mut axes = match axes {
        Some(axes) => named(x, &axes)?,
        None => (0..x.rank()).filter(|&axis| x.shape()[axis] == 1).collect(),
    };
    axes.sort_unstable();
    one(axes.iter().rev().try_fold(x.clone(), |x, &axis| x.squeeze(axis as isize)))
}

/// The axes are those of the result.
fn unsqueeze(n: &Node<'_>) -> Outcome {
    let (x, axes) = (n.x(0)?, n.values(1)?.unwrap_or_default());
    let rank = (x.rank() + axes.len()) as isize;
    let mut axes: Vec<isize> = axes.iter().map(|&axis| if axis < 0 { axis + rank } else { axis }).collect();
    axes.sort_unstable();
    one(axes.iter().try_fold(x.clone(), |x, &axis| x.unsqueeze(axis)))
}

fn transpose(n: &Node<'_>) -> Outcome {
    let (x, order) = (n.x(0)?, n.ints("perm")?);
    match order.is_empty() {
        true => one(x.permute(&(0..x.rank() as isize).rev().collect::<Vec<_>>())),
        false => one(x.permute(&order)),
    }
}

fn trilu(n: &Node<'_>) -> Outcome {
    let (x, k) = (n.x(0)?, n.value(1, 0)?);
    one(if n.flag("upper", true)? { x.triu(k) } else { x.tril(k) })
}
