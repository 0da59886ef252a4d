//! Histograms, quantiles and places in sorted sequences.

use ubique_core::op::quantile::Interpolation;
use ubique_core::op::search::Side;
use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("bincount", |c| one(c.input()?.bincount(c.maybe_tensor(1, "weights")?, c.int(2, "minlength", 0)?.unsigned_abs()))),
    ("bucketize", bucketize),
    ("histc", histc),
    ("histogram", histogram),
    ("median", median),
    ("quantile", quantile),
    ("searchsorted", searchsorted),
];

fn side(right: bool) -> Side {
    if right { Side::Right } else { Side::Left }
}

/// Places as i64, or as PyTorch can be asked for them.
fn places(c: &Call<'_>, position: usize, places: Result<Tensor>) -> Outcome {
    one(if c.flag(position, "out_int32", false)? { places?.cast(DType::I32) } else { places })
}

fn bucketize(c: &Call<'_>) -> Outcome {
    let right = c.flag(usize::MAX, "right", false)?;
    places(c, usize::MAX, c.input()?.bucketize(c.tensor(1, "boundaries")?, side(right)))
}

/// The sequence may come with the order that sorts it.
fn searchsorted(c: &Call<'_>) -> Outcome {
    let mut sorted = c.input()?.clone();
    if let Some(order) = c.maybe_tensor(usize::MAX, "sorter")? {
        sorted = sorted.gather(-1, order)?;
    }
    let right = c.flag(usize::MAX, "right", false)? || c.text(usize::MAX, "side")? == Some("right");
    places(c, usize::MAX, sorted.searchsorted(c.tensor(1, "input")?, side(right)))
}

/// The bounds of the data, around which PyTorch leaves some room where they are one value; 0 and 1 where there is none.
fn bounds(x: &Tensor, room: f64) -> Result<(f64, f64)> {
    if x.elements() == 0 {
        return Ok((0.0, 1.0));
    }
    let (low, high) = (x.min_all()?.item_scalar()?.as_f64(), x.max_all()?.item_scalar()?.as_f64());
    Ok(if low == high { (low - room, high + room) } else { (low, high) })
}

/// Counts in the dtype of what is counted; equal bounds stand for those of the data.
fn histc(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let bins = c.int(1, "bins", 100)?.unsigned_abs();
    let (low, high) = match (c.float(2, "min", 0.0)?, c.float(3, "max", 0.0)?) {
        (low, high) if low == high => bounds(x, 1.0)?,
        given => given,
    };
    one(x.histogram(bins, low, high, None, false)?.0.cast(x.dtype()))
}

/// Counts and edges in the dtype of what is counted.
fn histogram(c: &Call<'_>) -> Outcome {
    let (x, weight, density) = (c.input()?, c.maybe_tensor(2, "weight")?, c.flag(3, "density", false)?);
    let Some(Arg::Int(bins)) = c.get(1, "bins") else { return unmapped("bins of different widths") };
    let (low, high) = match c.get(usize::MAX, "range") {
        None => bounds(x, 0.5)?,
        Some(Arg::List(list)) => match list.as_slice() {
            [Arg::Float(low), Arg::Float(high)] => (*low, *high),
            _ => return unmapped("a range of other than two numbers"),
        },
        Some(_) => return unmapped("a range that is no list"),
    };
    let (counts, edges) = x.histogram(bins.unsigned_abs() as usize, low, high, weight, density)?;
    Ok(vec![counts.cast(x.dtype())?, edges.cast(x.dtype())?])
}

/// PyTorch takes the lower of the middle two. Of integers, which have no quantiles here, it is in the middle of a sort.
fn median(c: &Call<'_>) -> Outcome {
    let (x, axis) = match c.maybe_int(1, "dim")? {
        None => (c.input()?.reshape([c.input()?.elements()])?, 0),
        Some(axis) => (c.input()?.clone(), axis),
    };
    let keep = c.flag(2, "keepdim", false)?;
    if c.dtype.is_float() {
        return one(x.quantile(0.5, axis, Interpolation::Lower, keep));
    }
    let middle = x.shape()[x.shape().axis(axis)?].saturating_sub(1) / 2;
    let kept = x.sort(axis, false)?.0.narrow(axis, middle as isize, 1)?;
    one(if keep { Ok(kept) } else { kept.squeeze(axis) })
}

/// Along an axis, or of all elements, which then keep no axis or all of them.
fn quantile(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let interpolation = match c.text(usize::MAX, "interpolation")? {
        None | Some("linear") => Interpolation::Linear,
        Some("lower") => Interpolation::Lower,
        Some("higher") => Interpolation::Higher,
        Some("nearest") => Interpolation::Nearest,
        Some("midpoint") => Interpolation::Midpoint,
        Some(other) => return unmapped(format!("interpolation {other}")),
    };
    let keep = c.flag(3, "keepdim", false)?;
    let (x, axis) = match c.maybe_int(2, "dim")? {
        Some(axis) => (x.clone(), axis),
        None if keep => return unmapped("all axes kept"),
        None => (x.reshape([x.elements()])?, 0),
    };
    match c.get(1, "q") {
        Some(Arg::Float(q)) => one(x.quantile(*q, axis, interpolation, keep)),
        Some(Arg::Tensor(q)) if q.is_tracked() => unmapped("a quantile with a gradient in q"),
        Some(Arg::Tensor(q)) => {
            let q = q.cast(DType::F64)?.to_vec::<f64>()?;
            one(x.quantiles(&q, axis, interpolation, keep))
        }
        _ => unmapped("no q"),
    }
}
