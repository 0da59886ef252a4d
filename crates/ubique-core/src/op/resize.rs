//! Images and signals sampled at another number of points.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Case;
use crate::op::conv::per_axis;
use crate::op::index::index_tensor;
use crate::op::lanes::{Lanes, accumulator, along_axis, require_axis, widened};
use crate::op::reference::RefTensor;
use crate::op::{Rule, Specs, Traits, operands, require_float};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// What stands between elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resize {
    /// The element at ⌊i·input/output⌋.
    Nearest,
    /// A mixture of the two neighbours along each axis: linear, bilinear, trilinear.
    Linear,
    /// A cubic through the four neighbours along each axis, of the parameter -3/4: bicubic for images.
    Cubic,
}

impl Resize {
    /// How many elements a point sees along each axis.
    pub fn taps(self) -> usize {
        match self {
            Resize::Nearest => 1,
            Resize::Linear => 2,
            Resize::Cubic => 4,
        }
    }
}

/// One axis sampled at another number of points; see [`Tensor::interpolate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resample {
    /// The axis.
    pub axis: usize,
    /// How many points.
    pub output: usize,
    /// What stands between elements.
    pub mode: Resize,
    /// Whether the outermost points lie on the outermost elements, or the outer borders of their cells are shared.
    pub align_corners: bool,
}

/// How the elements of an axis are mixed: for each tap of the mode the places of the elements that the points see, and their
/// weights.
pub type Taps = Vec<(Vec<usize>, Vec<f64>)>;

impl Resample {
    /// The elements that each point sees on an axis of extent `input`, which is not 0 unless there are no points.
    ///
    /// # Errors
    /// Where memory for as many points cannot be had.
    pub fn taps(&self, input: usize) -> Result<Taps> {
        let tap = |tap: usize| {
            let (mut places, mut weights) = (reserved(self.output)?, reserved(self.output)?);
            for point in 0..self.output {
                let (place, weight) = self.tap(tap, point, input);
                places.push(place);
                weights.push(weight);
            }
            Ok((places, weights))
        };
        (0..self.mode.taps()).map(tap).collect()
    }

    fn tap(&self, tap: usize, point: usize, input: usize) -> (usize, f64) {
        let (i, last, output) = (point as f64, input.saturating_sub(1), self.output);
        let at = match self.align_corners {
            true if output > 1 => i * last as f64 / (output - 1) as f64,
            true => 0.0,
            false => (i + 0.5) * (input as f64 / output as f64) - 0.5,
        };
        match self.mode {
            // Exact also where the product leaves 64 bits.
            Resize::Nearest => ((point as u128 * input as u128 / output as u128) as usize, 1.0),
            Resize::Linear => {
                let at = at.clamp(0.0, last as f64);
                let (low, part) = (at.floor() as usize, at.fract());
                if tap == 0 { (low, 1.0 - part) } else { ((low + 1).min(last), part) }
            }
            Resize::Cubic => {
                let place = at.floor() + tap as f64 - 1.0;
                (place.clamp(0.0, last as f64) as usize, cubic(place - at))
            }
        }
    }

    /// Refuses what cannot be sampled, and gives the shape with the axis at the other extent.
    fn check(&self, x: &TensorSpec, input: usize, to: usize) -> Result<Shape> {
        if self.mode != Resize::Nearest {
            require_float(x)?;
        }
        require_axis(x, self.axis)?;
        if input == 0 && self.output > 0 {
            return Err(Error::shape(format!("axis {} has no elements to sample", self.axis)));
        }
        let shape = x.shape.with(self.axis, to);
        shape.bytes(x.dtype)?;
        Ok(shape)
    }
}

/// The weight of an element at a distance (Keys: "Cubic convolution interpolation for digital image processing", 1981).
fn cubic(distance: f64) -> f64 {
    const A: f64 = -0.75;
    let d = distance.abs();
    if d <= 1.0 { ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0 } else { ((d - 5.0) * d + 8.0) * d * A - 4.0 * A }
}

impl Rule for Resample {
    fn name(&self) -> &'static str {
        "resample"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        let input = x.shape.get(self.axis).copied().unwrap_or(0);
        Ok(TensorSpec { shape: self.check(x, input, self.output)?, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let op = ResampleBackward { resample: *self, input: call.spec(0)?.shape[self.axis] };
        Ok(Cotangents::one(run::call(op.into(), [call.grad(0)?.into()])?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [x] = inputs else { return Err(Error::value("takes 1 operand")) };
            let shape = x.shape().with(self.axis, self.output);
            if shape.contains(&0) {
                return Ok(vec![Tensor::zeros(shape, x.dtype(), x.device())?]);
            }
            let mut sum: Option<Tensor> = None;
            for (places, weights) in self.taps(x.shape()[self.axis])? {
                let mut part = x.index_select(self.axis as isize, &self.index(places, x)?)?;
                if self.mode != Resize::Nearest {
                    part = (part * along_axis(weights, self.axis, x)?).tensor()?;
                }
                sum = Some(match sum {
                    Some(sum) => (sum + part).tensor()?,
                    None => part,
                });
            }
            Ok(sum.into_iter().collect())
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, spec) = (&inputs[0], &outputs[0]);
        let lanes = Lanes::new(x.shape(), self.axis);
        if self.mode == Resize::Nearest {
            let place = |i: usize| {
                let (o, point, inner) = (i / lanes.inner / self.output, i / lanes.inner % self.output, i % lanes.inner);
                (o * lanes.len + self.tap(0, point, lanes.len).0) * lanes.inner + inner
            };
            return Ok(vec![x.gather(spec, (0..spec.shape.elements()?).map(place))]);
        }
        let (values, mut out) = (x.floats(), vec![0.0; spec.shape.elements()?]);
        let targets = Lanes::new(&spec.shape, self.axis);
        if !out.is_empty() {
            let taps = self.taps(lanes.len)?;
            for (from, to) in lanes.starts().zip(targets.starts()) {
                let lane = lanes.lane(&values, from);
                let point = |i: usize| taps.iter().map(|(places, weights)| lane[places[i]] * weights[i]).sum();
                targets.store(&mut out, to, &(0..self.output).map(point).collect::<Vec<f64>>());
            }
        }
        Ok(vec![RefTensor::float(spec.shape.clone(), spec.dtype, out)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::COMPUTED {
            let op = Resample { axis: 1, output: 5, mode: Resize::Nearest, align_corners: false };
            cases.push(Case::new(op).input([2, 3, 2], dtype));
        }
        for (op, input) in samples() {
            for dtype in DType::FLOATS {
                for shape in shapes(op.axis, input) {
                    cases.push(Case::new(op).input(shape, dtype));
                }
            }
        }
        cases
    }
}

/// Parameters, and the extent of the axis.
fn samples() -> Vec<(Resample, usize)> {
    let mut samples = Vec::new();
    for mode in [Resize::Nearest, Resize::Linear, Resize::Cubic] {
        for align_corners in [false, true] {
            for (axis, input, output) in [(2, 5, 8), (2, 7, 3), (1, 4, 9), (2, 1, 4), (1, 3, 1), (0, 3, 0), (2, 0, 0)] {
                samples.push((Resample { axis, output, mode, align_corners }, input));
            }
        }
    }
    samples
}

/// Operands with an axis of this extent; the last is enough for several threads.
fn shapes(axis: usize, extent: usize) -> [Shape; 3] {
    [[2, 3, 4], [0, 2, 3], [33, 34, 31]].map(|shape| Shape::from(shape).with(axis, extent))
}

/// The gradient of [`Resample`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResampleBackward {
    /// The op that it is the gradient of.
    pub resample: Resample,
    /// The extent of that one's operand along the axis.
    pub input: usize,
}

impl Rule for ResampleBackward {
    fn name(&self) -> &'static str {
        "resample_backward"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let ([g], Resample { axis, output, .. }) = (operands(inputs)?, self.resample);
        require_float(g)?;
        let shape = self.resample.check(g, self.input, self.input)?;
        if g.shape[axis] != output {
            return Err(Error::shape(format!("the gradient's axis {axis} has to have extent {output}")));
        }
        Ok(TensorSpec { shape, dtype: g.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        Ok(Cotangents::one(run::call(self.resample.into(), [call.grad(0)?.into()])?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let [g] = inputs else { return Err(Error::value("takes 1 operand")) };
            let axis = self.resample.axis;
            let mut sum = Tensor::zeros(g.shape().with(axis, self.input), g.dtype(), g.device())?;
            if sum.elements() == 0 || g.elements() == 0 {
                return Ok(vec![sum]);
            }
            for (places, weights) in self.resample.taps(self.input)? {
                let part = (g * along_axis(weights, axis, g)?).tensor()?;
                sum = sum.index_add(axis as isize, &self.resample.index(places, g)?, &part)?;
            }
            Ok(vec![sum])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let [lanes, targets] =
            [inputs[0].shape(), &outputs[0].shape].map(|shape| Lanes::new(shape, self.resample.axis));
        let (g, mut out) = (inputs[0].floats(), vec![0.0; outputs[0].shape.elements()?]);
        let taps = if g.is_empty() { Taps::new() } else { self.resample.taps(self.input)? };
        for (places, weights) in &taps {
            for (from, to) in lanes.starts().zip(targets.starts()) {
                for (i, (place, weight)) in places.iter().zip(weights).enumerate() {
                    out[to + place * targets.inner] += weight * g[from + i * lanes.inner];
                }
            }
        }
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, out)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (resample, input) in samples() {
            for dtype in DType::FLOATS {
                for shape in shapes(resample.axis, resample.output) {
                    cases.push(Case::new(ResampleBackward { resample, input }).input(shape, dtype));
                }
            }
        }
        cases
    }
}

impl Resample {
    fn index(&self, places: Vec<usize>, like: &Tensor) -> Result<Tensor> {
        index_tensor(places.into_iter().map(|place| place as i64).collect(), [self.output], like.device())
    }
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
    let mut out = x.clone();
    if mode != Resize::Nearest {
        require_float(&x.spec())?;
        out = out.cast(accumulator(x.dtype()))?;
    }
    for (axis, &output) in (2..).zip(&size) {
        // As many points as elements are the elements, in every mode.
        if x.shape()[axis] != output {
            let op = Resample { axis, output, mode, align_corners };
            out = run::call(op.into(), [(&out).into()])?;
        }
    }
    out.cast(x.dtype())
}

/// Room for a list, whose length the user chose.
fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|e| Error::out_of_memory(format!("a list of {count} points: {e}")))?;
    Ok(list)
}
