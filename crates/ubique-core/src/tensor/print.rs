//! Printing as numpy does: nested brackets, aligned columns, long tensors summarised.

use std::fmt::{self, Write};

use crate::scalar::Scalar;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Tensors with more elements are summarised.
const THRESHOLD: usize = 1000;
/// How many elements to show at each end of a summarised axis.
const EDGE: usize = 3;

impl fmt::Display for Tensor {
    /// The values, then dtype and device. `{:.3}` sets the digits after the point (4 where not said).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match render(self, f.precision().unwrap_or(4)) {
            Ok(text) => write!(f, "{text}\n{} on {}", self.spec(), self.device()),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tracked = if self.is_tracked() { ", tracked" } else { "" };
        write!(f, "Tensor({} on {}{tracked})", self.spec(), self.device())
    }
}

/// The positions of an axis that are shown.
fn shown(extent: usize, summarise: bool) -> Vec<usize> {
    if summarise && extent > 2 * EDGE {
        (0..EDGE).chain(extent - EDGE..extent).collect()
    } else {
        (0..extent).collect()
    }
}

fn render(tensor: &Tensor, digits: usize) -> crate::Result<String> {
    let summarise = tensor.elements() > THRESHOLD;
    // Only what is shown is brought to the host.
    let mut part = tensor.detach();
    for axis in 0..tensor.rank() {
        let extent = tensor.shape()[axis];
        if summarise && extent > 2 * EDGE {
            let (axis, edge) = (axis as isize, EDGE as isize);
            let (head, tail) = (part.narrow(axis, 0, EDGE)?, part.narrow(axis, -edge, EDGE)?);
            part = Tensor::concat(&[&head, &tail], axis)?;
        }
    }
    let values = part.to_host()?.scalars();
    let texts = texts(&values, digits);
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    block(&mut out, tensor.shape(), 0, &mut texts.iter(), width, summarise);
    Ok(out)
}

/// All values in one style, so that columns line up.
fn texts(values: &[Scalar], digits: usize) -> Vec<String> {
    let finite = || {
        values
            .iter()
            .filter_map(|v| if let Scalar::Float(f) = v { Some(f.abs()) } else { None })
            .filter(|f| f.is_finite())
    };
    let largest = finite().fold(0.0, f64::max);
    let smallest = finite().filter(|f| *f > 0.0).fold(f64::INFINITY, f64::min);
    let whole = finite().all(|f| f.fract() == 0.0);
    let scientific = largest >= 1e8 || smallest < 1e-4 || smallest.is_finite() && largest / smallest > 1e6;
    values
        .iter()
        .map(|value| match *value {
            Scalar::Float(f) if f.is_nan() => "nan".to_owned(),
            Scalar::Float(f) if f.is_infinite() => if f > 0.0 { "inf" } else { "-inf" }.to_owned(),
            Scalar::Float(f) if scientific => format!("{f:.digits$e}"),
            Scalar::Float(f) if whole => format!("{f:.0}."),
            Scalar::Float(f) => format!("{f:.digits$}"),
            other => other.to_string(),
        })
        .collect()
}

fn block(
    out: &mut String,
    shape: &Shape,
    axis: usize,
    texts: &mut std::slice::Iter<'_, String>,
    width: usize,
    summarise: bool,
) {
    let Some(&extent) = shape.get(axis) else {
        out.push_str(texts.next().map_or("", |t| t));
        return;
    };
    let innermost = axis + 1 == shape.rank();
    let positions = shown(extent, summarise);
    let cut = positions.len() < extent;
    let gap = |out: &mut String| {
        if innermost {
            out.push_str(", ");
        } else {
            out.push(',');
            for _ in 0..shape.rank() - axis - 1 {
                out.push('\n');
            }
            let _ = write!(out, "{:1$}", "", axis + 1);
        }
    };
    out.push('[');
    for (i, _) in positions.iter().enumerate() {
        if i > 0 {
            gap(out);
        }
        if cut && i == EDGE {
            out.push_str("...");
            gap(out);
        }
        if innermost {
            let text = texts.next().map_or("", |t| t);
            let _ = write!(out, "{text:>width$}");
        } else {
            block(out, shape, axis + 1, texts, width, summarise);
        }
    }
    out.push(']');
}
