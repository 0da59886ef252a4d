//! The mean of each window, of a given size or as many as are asked for, and the way back of gradients.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Case;
use crate::op::index::index_tensor;
use crate::op::pool::windows::Pooling;
use crate::op::reference::RefTensor;
use crate::op::{Rule, Specs, Traits, operands, require_float};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// Which windows to take the means of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// Windows of a size.
    Windows {
        /// The windows, without dilation.
        pooling: Pooling,
        /// Whether the zeros of the padding count as elements.
        count_padding: bool,
    },
    /// As many windows as the output has elements: the i-th of n covers ⌊i·input/n⌋ to ⌈(i + 1)·input/n⌉.
    Adaptive(Vec<usize>),
}

/// Elements of an axis that a mean is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first.
    pub start: usize,
    /// One beyond the last.
    pub end: usize,
    /// What to divide their sum by.
    pub count: usize,
}

impl Means {
    /// The output's shape, for an operand `[batch, channels, ..]`.
    ///
    /// # Errors
    /// Where rank or extents do not fit, or parameters make no sense.
    pub fn output(&self, x: &Shape) -> Result<Shape> {
        match self {
            Means::Windows { pooling, .. } => {
                let output = pooling.output(x)?;
                if pooling.windows.iter().any(|w| w.dilation != 1) {
                    return Err(Error::value("means are of windows without dilation"));
                }
                pooling.require_elements(x)?;
                Ok(output)
            }
            Means::Adaptive(output) => {
                if output.is_empty() || x.rank() != output.len() + 2 {
                    let axes = output.len();
                    return Err(Error::shape(format!(
                        "with {axes} spatial axes the operand has to have rank {}",
                        axes + 2
                    )));
                }
                if let Some(axis) = (2..x.rank()).find(|&axis| x[axis] == 0 && output[axis - 2] > 0) {
                    return Err(Error::shape(format!("axis {axis} has no elements to take the mean of")));
                }
                let most = output.iter().chain(&x[2..]).all(|&e| e < 1 << (usize::BITS / 2 - 1));
                match most {
                    true => Ok(x[..2].iter().chain(output).copied().collect()),
                    false => Err(Error::shape("an extent is too large")),
                }
            }
        }
    }

    /// For each output along a spatial axis (0 is the first of them), what it is the mean of.
    pub fn spans(&self, axis: usize, input: usize, output: usize) -> Vec<Span> {
        let span = |i: usize| match self {
            Means::Windows { pooling, count_padding } => {
                let (window, kernel) = (pooling.windows[axis], pooling.kernel[axis]);
                // Positions in the padded axis.
                let (start, padded) = (i * window.stride, input + 2 * window.padding);
                let stop = (start + kernel).min(padded);
                let clip = |at: usize| at.saturating_sub(window.padding).min(input);
                let (from, to) = (clip(start), clip(stop));
                Span { start: from, end: to, count: if *count_padding { stop - start } else { to - from } }
            }
            Means::Adaptive(_) => {
                let (start, end) = (i * input / output, ((i + 1) * input).div_ceil(output));
                Span { start, end, count: end - start }
            }
        };
        (0..output).map(span).collect()
    }

    fn all_spans(&self, input: &[usize], output: &[usize]) -> Vec<Vec<Span>> {
        (0..input.len()).map(|axis| self.spans(axis, input[axis], output[axis])).collect()
    }

    /// Windows to test, with operands to test them on.
    fn samples() -> Vec<(&'static [usize], Means)> {
        let mut samples = Vec::new();
        for (shape, pooling) in Pooling::samples() {
            if pooling.windows.iter().all(|w| w.dilation == 1) {
                for count_padding in [false, true] {
                    samples.push((shape, Means::Windows { pooling: pooling.clone(), count_padding }));
                }
            }
        }
        let adaptive: [(&'static [usize], &[usize]); 7] = [
            (&[2, 3, 7], &[3]),
            (&[1, 2, 6, 4], &[1, 1]),
            (&[1, 2, 6, 9], &[3, 3]),
            (&[2, 1, 5, 7], &[3, 4]),
            (&[1, 1, 2, 3], &[5, 3]),
            (&[0, 2, 4, 4], &[2, 2]),
            (&[1, 1, 3, 4, 5], &[2, 4, 3]),
        ];
        samples.extend(adaptive.map(|(shape, output)| (shape, Means::Adaptive(output.to_vec()))));
        samples
    }
}

/// The mean of each window; see [`Tensor::avg_pool`] and [`Tensor::adaptive_avg_pool`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AvgPool {
    /// The windows.
    pub means: Means,
}

impl Rule for AvgPool {
    fn name(&self) -> &'static str {
        "avg_pool"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_float(x)?;
        let shape = self.means.output(&x.shape)?;
        shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let input = call.spec(0)?.shape[2..].to_vec();
        let back = AvgPoolBackward { means: self.means.clone(), input };
        Ok(Cotangents::one(run::call(back.into(), [call.grad(0)?.into()])?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let output = self.means.output(x.shape())?;
        let mut y = wide(x)?;
        for (i, spans) in self.means.all_spans(&x.shape()[2..], &output[2..]).iter().enumerate() {
            let (outputs, elements) = pairs(spans);
            y = (spread(&y, i + 2, &elements, &outputs, spans.len())? / counts(spans, i + 2, &y)?).tensor()?;
        }
        Ok(Some(vec![y.cast(x.dtype())?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, y) = (&inputs[0], &outputs[0]);
        let values = x.floats();
        let mut sums = vec![0.0; y.shape.elements()?];
        self.means.visit(x.shape(), &y.shape, |from, to, count| sums[to] += values[from] / count);
        Ok(vec![RefTensor::float(&y.shape, y.dtype, sums)])
    }

    fn cases() -> Vec<Case> {
        let case = |(shape, means): (&[usize], Means), dtype| Case::new(AvgPool { means }).input(shape, dtype);
        DType::FLOATS.into_iter().flat_map(|dtype| Means::samples().into_iter().map(move |s| case(s, dtype))).collect()
    }
}

impl Means {
    /// Calls `f` with the flat positions of operand and output, and the divisor, for each element of each window.
    fn visit(&self, x: &Shape, y: &Shape, mut f: impl FnMut(usize, usize, f64)) {
        let spans = self.all_spans(&x[2..], &y[2..]);
        for plane in 0..x[0] * x[1] {
            // Positions so far, from the outermost axis inwards.
            let mut terms = vec![(plane, plane, 1.0)];
            for (axis, spans) in spans.iter().enumerate() {
                let (input, output) = (x[axis + 2], y[axis + 2]);
                let inner = |(from, to, count): (usize, usize, f64)| {
                    spans.iter().enumerate().flat_map(move |(o, span)| {
                        (span.start..span.end)
                            .map(move |i| (from * input + i, to * output + o, count * span.count as f64))
                    })
                };
                terms = terms.into_iter().flat_map(inner).collect();
            }
            terms.into_iter().for_each(|(from, to, count)| f(from, to, count));
        }
    }
}

/// Half precision as f32, to sum in.
fn wide(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F64 => Ok(x.clone()),
        _ => x.cast(DType::F32),
    }
}

/// For each element of each span: the span's number and the element's.
fn pairs(spans: &[Span]) -> (Vec<i64>, Vec<i64>) {
    let of = |(o, span): (usize, &Span)| (span.start..span.end).map(move |i| (o as i64, i as i64)).collect::<Vec<_>>();
    spans.iter().enumerate().flat_map(of).unzip()
}

/// The slices at `from` added to those at `to` of an axis with `extent` elements.
fn spread(x: &Tensor, axis: usize, from: &[i64], to: &[i64], extent: usize) -> Result<Tensor> {
    let index = |of: &[i64]| index_tensor(of.to_vec(), [of.len()], x.device());
    let slices = x.index_select(axis as isize, &index(from)?)?;
    let zeros = Tensor::zeros(x.shape().with(axis, extent), x.dtype(), x.device())?;
    zeros.index_add(axis as isize, &index(to)?, &slices)
}

/// The divisors, to broadcast along an axis.
fn counts(spans: &[Span], axis: usize, like: &Tensor) -> Result<Tensor> {
    let shape: Shape = (0..like.rank()).map(|a| if a == axis { spans.len() } else { 1 }).collect();
    let counts: Vec<f64> = spans.iter().map(|s| s.count as f64).collect();
    match like.dtype() {
        DType::F64 => Tensor::from_vec(counts, shape, like.device()),
        _ => Tensor::from_vec(counts.into_iter().map(|c| c as f32).collect(), shape, like.device()),
    }
}

/// The gradient of [`AvgPool`]: each window's gradient, divided, to all of its elements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AvgPoolBackward {
    /// The windows.
    pub means: Means,
    /// Spatial extents of the operand.
    pub input: Vec<usize>,
}

impl AvgPoolBackward {
    fn operand(&self, g: &Shape) -> Shape {
        g.iter().take(2).chain(&self.input).copied().collect()
    }
}

impl Rule for AvgPoolBackward {
    fn name(&self) -> &'static str {
        "avg_pool_backward"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [g] = operands(inputs)?;
        require_float(g)?;
        let shape = self.operand(&g.shape);
        let output = self.means.output(&shape)?;
        if g.shape != output {
            return Err(Error::shape(format!("the gradient has to be {output}, got {}", g.shape)));
        }
        shape.bytes(g.dtype)?;
        Ok(TensorSpec { shape, dtype: g.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let forward = AvgPool { means: self.means.clone() };
        Ok(Cotangents::one(run::call(forward.into(), [call.grad(0)?.into()])?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [g] = inputs else { return Ok(None) };
        let mut x = wide(g)?;
        for (i, spans) in self.means.all_spans(&self.input, &g.shape()[2..]).iter().enumerate() {
            let (outputs, elements) = pairs(spans);
            let shares = (&x / counts(spans, i + 2, &x)?).tensor()?;
            x = spread(&shares, i + 2, &outputs, &elements, self.input[i])?;
        }
        Ok(Some(vec![x.cast(g.dtype())?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (g, x) = (&inputs[0], &outputs[0]);
        let values = g.floats();
        let mut sums = vec![0.0; x.shape.elements()?];
        self.means.visit(&x.shape, g.shape(), |to, from, count| sums[to] += values[from] / count);
        Ok(vec![RefTensor::float(&x.shape, x.dtype, sums)])
    }

    fn cases() -> Vec<Case> {
        let case = |(shape, means): (&[usize], Means), dtype| {
            let output = means.output(&Shape::from(shape)).unwrap_or_else(|_| Shape::empty());
            Case::new(AvgPoolBackward { means, input: shape[2..].to_vec() }).input(output, dtype)
        };
        DType::FLOATS.into_iter().flat_map(|dtype| Means::samples().into_iter().map(move |s| case(s, dtype))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::conv::Window;

    #[test]
    fn divisors_count_what_they_should() {
        let windows = vec![Window { stride: 2, padding: 1, dilation: 1 }];
        let pooling = Pooling { kernel: vec![3], windows, ceil: true };
        let counts = |count_padding| {
            let means = Means::Windows { pooling: pooling.clone(), count_padding };
            means.spans(0, 6, 4).iter().map(|s| s.count).collect::<Vec<_>>()
        };
        assert_eq!(counts(true), [3, 3, 3, 2]);
        assert_eq!(counts(false), [2, 3, 3, 1]);
    }

    #[test]
    fn adaptive_windows_cover_the_axis() {
        let spans = Means::Adaptive(vec![4]).spans(0, 7, 4);
        let ends: Vec<_> = spans.iter().map(|s| (s.start, s.end)).collect();
        assert_eq!(ends, [(0, 2), (1, 4), (3, 6), (5, 7)]);
        assert!(Means::Adaptive(vec![2]).output(&Shape::from([1, 1, 0])).is_err());
        assert!(Means::Adaptive(vec![2]).output(&Shape::from([1, 1])).is_err());
    }
}
