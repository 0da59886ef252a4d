//! Images sampled at other points.

use ubique_core::op::grid_sample::{GridSample, Outside, Sampling};
use ubique_core::op::resize::Resize;

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("grid_sampler_2d", grid_sampler),
    ("nn.functional.grid_sample", grid_sample),
    ("nn.functional.interpolate/bicubic", |c| interpolate(c, Resize::Cubic)),
    ("nn.functional.interpolate/bilinear", |c| interpolate(c, Resize::Linear)),
    ("nn.functional.interpolate/linear", |c| interpolate(c, Resize::Linear)),
    ("nn.functional.interpolate/nearest", |c| interpolate(c, Resize::Nearest)),
    ("nn.functional.interpolate/trilinear", |c| interpolate(c, Resize::Linear)),
    ("nn.functional.upsample_bilinear", |c| resized(c, Resize::Linear, true)),
    ("nn.functional.upsample_nearest", |c| resized(c, Resize::Nearest, false)),
];

fn interpolate(c: &Call<'_>, mode: Resize) -> Outcome {
    c.text(3, "mode")?;
    let corners = c.flag(4, "align_corners", false)?;
    resized(c, mode, corners)
}

/// To a size, or by a factor that gives the extents, rounded down. Here the points follow from the extents alone; in PyTorch
/// from the factor itself, unless it is asked to compute it again.
fn resized(c: &Call<'_>, mode: Resize, corners: bool) -> Outcome {
    let x = c.input()?;
    let spatial = x.rank().saturating_sub(2);
    if c.get(1, "size").is_some() {
        let size = c.shape(1, "size")?;
        return one(x.interpolate(size, mode, corners));
    }
    let factor = match c.get(2, "scale_factor") {
        Some(Arg::Float(factor)) => *factor,
        Some(Arg::Int(factor)) => *factor as f64,
        _ => return unmapped("a factor for each axis"),
    };
    let again = c.flag(5, "recompute_scale_factor", false)?;
    let sizes: Vec<usize> = x.shape()[2..].iter().map(|&extent| (extent as f64 * factor) as usize).collect();
    let whole = (0..spatial).all(|axis| x.shape()[axis + 2] as f64 * factor == sizes[axis] as f64);
    if !again && !corners && !whole {
        return unmapped("points by a factor that is not the ratio of the extents");
    }
    one(x.interpolate(sizes, mode, corners))
}

fn options(c: &Call<'_>, mode: usize, outside: usize, align_corners: bool) -> Outcome {
    let sampling = match mode {
        0 => Sampling::Bilinear,
        1 => Sampling::Nearest,
        _ => return unmapped("cubics between points of a grid"),
    };
    let outside = match outside {
        0 => Outside::Zeros,
        1 => Outside::Border,
        _ => Outside::Reflection,
    };
    let (x, grid) = (c.input()?, c.tensor(1, "grid")?);
    if x.rank() != 4 {
        return unmapped("a grid of three coordinates");
    }
    one(x.grid_sample(grid, GridSample { sampling, outside, align_corners, pixels: false }))
}

fn grid_sampler(c: &Call<'_>) -> Outcome {
    let (mode, outside) = (c.int(2, "interpolation_mode", 0)?, c.int(3, "padding_mode", 0)?);
    options(c, mode.unsigned_abs(), outside.unsigned_abs(), c.flag(4, "align_corners", false)?)
}

fn grid_sample(c: &Call<'_>) -> Outcome {
    let place = |name: &str, words: [&str; 3]| -> Outcome<usize> {
        let word = c.text(usize::MAX, name)?.unwrap_or(words[0]);
        words.iter().position(|known| *known == word).map_or_else(|| unmapped(format!("{name} {word}")), Ok)
    };
    let mode = place("mode", ["bilinear", "nearest", "bicubic"])?;
    let outside = place("padding_mode", ["zeros", "border", "reflection"])?;
    options(c, mode, outside, c.flag(usize::MAX, "align_corners", false)?)
}
