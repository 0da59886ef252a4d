//! Images sampled at other points.

use ubique_core::op::grid_sample::{GridSample, Outside, Sampling};
use ubique_core::op::resize::Resize;
use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("AffineGrid", affine_grid),
    ("GridSample", grid_sample),
    ("Resize", resize),
    ("Upsample", |n| upsample(n, n.x(0)?, &n.floats(1)?.unwrap_or_default())),
];

/// Points of a grid in -1..=1 moved by an affine map for each image; the size is `[N, C, (D,) H, W]`.
fn affine_grid(n: &Node<'_>) -> Outcome {
    let (theta, size, corners) = (n.x(0)?, n.extents(1)?, n.flag("align_corners", false)?);
    let spatial = &size[2..];
    let points = |extent: usize| -> Result<Tensor> {
        let end = if corners { 1.0 } else { 1.0 - 1.0 / extent as f64 };
        Tensor::linspace(-end, end, extent, theta.dtype(), n.device())
    };
    let axes = spatial.iter().map(|&extent| points(extent)).collect::<Result<Vec<_>>>()?;
    let axes: Vec<&Tensor> = axes.iter().collect();
    let mut columns = Tensor::meshgrid(&axes, ubique_core::op::meshgrid::Indexing::Ij)?;
    // x comes first in a point, and last among the axes.
    columns.reverse();
    columns.push(columns[0].ones_like()?);
    let grid = Tensor::stack(&columns.iter().collect::<Vec<_>>(), -1)?;
    let rows = spatial.iter().product::<usize>();
    let moved = grid.reshape([rows, spatial.len() + 1])?.matmul(&theta.t()?)?;
    one(moved.reshape([vec![size[0]], spatial.to_vec(), vec![spatial.len()]].concat()))
}

fn grid_sample(n: &Node<'_>) -> Outcome {
    let (image, grid) = (n.x(0)?, n.x(1)?);
    if image.rank() != 4 {
        return unmapped("other images than flat ones");
    }
    let sampling = match n.text("mode", "linear")? {
        "linear" | "bilinear" => Sampling::Bilinear,
        "nearest" => Sampling::Nearest,
        mode => return unmapped(format!("mode {mode}")),
    };
    let outside = match n.text("padding_mode", "zeros")? {
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        _ => Outside::Zeros,
    };
    one(image.grid_sample(
        grid,
        GridSample { sampling, outside, align_corners: n.flag("align_corners", false)?, pixels: false },
    ))
}

fn upsample(n: &Node<'_>, x: &Tensor, scales: &[f64]) -> Outcome {
    if n.text("mode", "nearest")? != "nearest" {
        return unmapped("another mode");
    }
    let size: Vec<usize> =
        x.shape().iter().zip(scales).map(|(&extent, scale)| (extent as f64 * scale) as usize).collect();
    one(x.interpolate(&size[2..], Resize::Nearest, false))
}

/// The new extents of all axes, if both factors and sizes say the same of where points lie.
fn extents(n: &Node<'_>, x: &Tensor) -> Outcome<Vec<usize>> {
    let named = n.ints("axes")?.iter().map(|&axis| x.shape().axis(axis)).collect::<Result<Vec<_>>>()?;
    let named = if named.is_empty() { (0..x.rank()).collect() } else { named };
    let mut out = x.shape().to_vec();
    let sizes = n.extents(3)?;
    if n.text("keep_aspect_ratio_policy", "stretch")? != "stretch" {
        return unmapped("a size that keeps the aspect");
    }
    for (i, &axis) in named.iter().enumerate() {
        match n.floats(2)? {
            Some(scales) if !scales.is_empty() => {
                let exact = x.shape()[axis] as f64 * scales[i];
                if exact.fract() != 0.0 {
                    return unmapped("a factor that is not that of the extents");
                }
                out[axis] = exact as usize;
            }
            _ => out[axis] = sizes[i],
        }
    }
    Ok(out)
}

/// Of the many rules for where points lie, those that `interpolate` has.
fn resize(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    if n.maybe(1)?.is_some() || n.flag("antialias", false)? || n.flag("exclude_outside", false)? {
        return unmapped("a region, or weights of other points than the neighbours");
    }
    let size = extents(n, x)?;
    if x.rank() < 3 || size[..2] != x.shape()[..2] {
        return unmapped("axes of batch and channels resized");
    }
    let (mode, rule) = (n.text("mode", "nearest")?, n.text("coordinate_transformation_mode", "half_pixel")?);
    let nearest = n.text("nearest_mode", "round_prefer_floor")?;
    let coefficient = n.float("cubic_coeff_a", -0.75)?;
    let (mode, corners) = match (mode, rule, nearest) {
        ("nearest", "asymmetric", "floor") => (Resize::Nearest, false),
        ("linear", "half_pixel", _) => (Resize::Linear, false),
        ("linear", "align_corners", _) => (Resize::Linear, true),
        ("cubic", "half_pixel", _) if coefficient == -0.75 => (Resize::Cubic, false),
        ("cubic", "align_corners", _) if coefficient == -0.75 => (Resize::Cubic, true),
        _ => return unmapped(format!("{mode} with {rule} and {nearest}")),
    };
    let out = x.cast(if mode == Resize::Nearest { x.dtype() } else { DType::F32 })?;
    one(out.interpolate(&size[2..], mode, corners)?.cast(x.dtype()))
}
