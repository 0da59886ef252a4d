//! Images and signals sampled at another number of points.

use crate::error::{Error, Result};
use crate::op::conv::per_axis;
use crate::op::lanes::accumulator;
use crate::op::require_float;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// What stands between elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resize {
    /// The element at ⌊i·input/output⌋.
    Nearest,
    /// A mixture of the two neighbours along each axis: linear, bilinear, trilinear.
    Linear,
    /// A cubic through the four neighbours along each axis, of the parameter -3/4: bicubic for images.
    Cubic,
}

/// How the elements of an axis are mixed: for each output as many places and weights.
type Taps = Vec<(usize, f64)>;

impl Resize {
    fn taps(self, i: usize, input: usize, output: usize, align_corners: bool) -> Taps {
        let last = input.saturating_sub(1);
        let at = if align_corners {
            if output > 1 { i as f64 * last as f64 / (output - 1) as f64 } else { 0.0 }
        } else {
            (i as f64 + 0.5) * (input as f64 / output as f64) - 0.5
        };
        match self {
            // Exact also where i·input leaves 64 bits.
            Resize::Nearest => vec![((i as u128 * input as u128 / output as u128) as usize, 1.0)],
            Resize::Linear => {
                let at = at.clamp(0.0, last as f64);
                let low = at.floor();
                vec![(low as usize, 1.0 - (at - low)), ((low as usize + 1).min(last), at - low)]
            }
            Resize::Cubic => {
                let low = at.floor();
                let place = |tap: f64| (low + tap).clamp(0.0, last as f64) as usize;
                [-1.0, 0.0, 1.0, 2.0].map(|tap| (place(tap), cubic(low + tap - at))).to_vec()
            }
        }
    }
}

/// The weight of an element at a distance (Keys: "Cubic convolution interpolation for digital image processing", 1981).
fn cubic(distance: f64) -> f64 {
    const A: f64 = -0.75;
    let d = distance.abs();
    if d <= 1.0 { ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0 } else { ((d - 5.0) * d + 8.0) * d * A - 4.0 * A }
}

impl Tensor {
    /// This tensor `[N, C, ..]` sampled at `size` points along its spatial axes (one extent for each axis after the first
    /// two, or one for all), axis by axis: 1-d, 2-d and 3-d alike. With `align_corners` the first and the last points lie on
    /// the first and last elements; without, all points and elements stand in the middle of cells that share their outer
    /// borders, and beyond the outermost elements those are repeated. [`Resize::Nearest`] takes any dtype and ignores
    /// `align_corners`; the others take floating point, and compute in at least f32.
    ///
    /// # Errors
    /// Where the rank is below 3, the number of extents does not fit, an axis is empty, the size overflows, or the dtype is
    /// not one that the mode takes.
    pub fn interpolate(&self, size: impl Into<Shape>, mode: Resize, align_corners: bool) -> Result<Tensor> {
        resize(self, &size.into(), mode, align_corners).map_err(|e| e.with_op("interpolate", &[self.spec()]))
    }
}

fn resize(x: &Tensor, size: &[usize], mode: Resize, align_corners: bool) -> Result<Tensor> {
    let axes = x.rank().saturating_sub(2);
    if axes == 0 {
        return Err(Error::shape("has no spatial axis: needs [batch, channels, ..]"));
    }
    let size = per_axis("the size", size, axes, 1)?;
    x.shape()[..2].iter().chain(&size).copied().collect::<Shape>().bytes(x.dtype())?;
    if let Some(axis) = (2..x.rank()).find(|&axis| x.shape()[axis] == 0 && size[axis - 2] > 0) {
        return Err(Error::shape(format!("axis {axis} has no elements to sample")));
    }
    let mut out = x.clone();
    if mode != Resize::Nearest {
        require_float(&x.spec())?;
        out = out.cast(accumulator(x.dtype()))?;
    }
    for (i, &output) in size.iter().enumerate() {
        // As many points as elements are the elements, in every mode.
        if x.shape()[i + 2] != output {
            out = resize_axis(&out, i + 2, output, |i, input| mode.taps(i, input, output, align_corners))?;
        }
    }
    out.cast(x.dtype())
}

fn resize_axis(x: &Tensor, axis: usize, output: usize, taps: impl Fn(usize, usize) -> Taps) -> Result<Tensor> {
    let input = x.shape()[axis];
    let of_axis = Shape::repeat(1, x.rank()).with(axis, output);
    let count = if output == 0 { 1 } else { taps(0, input).len() };
    let tap = |which: usize| -> Result<Tensor> {
        let (mut places, mut weights) = (reserved(output)?, reserved(output)?);
        for (place, weight) in (0..output).filter_map(|i| taps(i, input).get(which).copied()) {
            places.push(place as i64);
            weights.push(weight);
        }
        let taken = x.index_select(axis as isize, &Tensor::from_vec(places, [output], x.device())?)?;
        if count == 1 {
            return Ok(taken);
        }
        let weights: Tensor = Tensor::from_vec(weights, &of_axis, x.device())?.cast(x.dtype())?;
        (taken * weights).tensor()
    };
    (1..count).try_fold(tap(0)?, |sum, which| (sum + tap(which)?).tensor())
}

/// Room for a list, whose length the user chose.
fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|e| Error::out_of_memory(format!("a list of {count} points: {e}")))?;
    Ok(list)
}
