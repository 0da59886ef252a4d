//! How a kernel moves over an input, and the products that a convolution sums.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::op::reference::{RefTensor, Values};
use crate::shape::{Shape, TensorSpec};

/// How the kernel moves along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Distance of neighbouring windows, at least 1.
    pub stride: usize,
    /// Zeros on both sides of the input.
    pub padding: usize,
    /// Distance of the kernel's taps, at least 1.
    pub dilation: usize,
}

impl Window {
    pub(crate) fn check(&self) -> Result<()> {
        match self.stride == 0 || self.dilation == 0 {
            true => Err(Error::value("stride and dilation have to be at least 1")),
            false => Ok(()),
        }
    }

    /// From the first tap to the last.
    pub(crate) fn reach(&self, kernel: usize) -> Result<usize> {
        let taps = kernel.checked_sub(1).ok_or_else(|| Error::shape("the kernel is empty"))?;
        taps.checked_mul(self.dilation).filter(|&r| r < isize::MAX as usize).ok_or_else(|| overflow("the kernel"))
    }

    /// How far the kernel can move.
    fn room(&self, input: usize, kernel: usize) -> Result<usize> {
        self.check()?;
        let span = self.reach(kernel)? + 1;
        let padded =
            self.padding.checked_mul(2).and_then(|p| p.checked_add(input)).ok_or_else(|| overflow("the input"))?;
        let message = || format!("a kernel that spans {span} does not fit an input of {padded}, padding included");
        padded.checked_sub(span).ok_or_else(|| Error::shape(message()))
    }

    /// The extent of a convolution's output: ⌊(input + 2·padding - dilation·(kernel - 1) - 1) / stride⌋ + 1.
    pub(crate) fn output(&self, input: usize, kernel: usize) -> Result<usize> {
        Ok(self.room(input, kernel)? / self.stride + 1)
    }

    /// Elements at the end of the padded input that no window reaches.
    pub(crate) fn left_over(&self, input: usize, kernel: usize) -> Result<usize> {
        Ok(self.room(input, kernel)? % self.stride)
    }

    /// The extent of a transposed convolution's output:
    /// (input - 1)·stride - 2·padding + dilation·(kernel - 1) + output_padding + 1.
    pub(crate) fn transposed(&self, input: usize, kernel: usize, output_padding: usize) -> Result<usize> {
        self.check()?;
        if output_padding >= self.stride {
            return Err(Error::value(format!(
                "output padding {output_padding} has to be below the stride {}",
                self.stride
            )));
        }
        let steps = input.checked_sub(1).ok_or_else(|| Error::shape("a spatial axis of the input is empty"))?;
        let whole = steps
            .checked_mul(self.stride)
            .and_then(|e| e.checked_add(self.reach(kernel).ok()?))
            .and_then(|e| e.checked_add(output_padding + 1))
            .ok_or_else(|| overflow("the output"))?;
        let cut = self.padding.checked_mul(2).ok_or_else(|| overflow("the padding"))?;
        whole
            .checked_sub(cut)
            .ok_or_else(|| Error::shape(format!("padding {} leaves nothing of the output", self.padding)))
    }
}

pub(crate) fn overflow(what: &str) -> Error {
    Error::shape(format!("{what} is larger than an address can count"))
}

/// The extents of a convolution: input `[batch, groups·in_channels, ..]`, weight `[groups·out_channels, in_channels, ..]`,
/// output `[batch, groups·out_channels, ..]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Examples.
    pub batch: usize,
    /// Groups of channels that do not see each other.
    pub groups: usize,
    /// Input channels of a group.
    pub in_channels: usize,
    /// Output channels of a group.
    pub out_channels: usize,
    /// Spatial extents of the input.
    pub input: Vec<usize>,
    /// Spatial extents of the weight.
    pub kernel: Vec<usize>,
    /// Spatial extents of the output.
    pub output: Vec<usize>,
}

impl Geometry {
    /// From the shapes of a convolution's input, weight and output, which fit each other.
    pub fn new(input: &Shape, weight: &Shape, output: &Shape, groups: usize) -> Geometry {
        Geometry {
            batch: input[0],
            groups,
            in_channels: weight[1],
            out_channels: weight[0] / groups.max(1),
            input: input[2..].to_vec(),
            kernel: weight[2..].to_vec(),
            output: output[2..].to_vec(),
        }
    }

    /// Calls `f` with the flat positions in input, weight and output of each product that the convolution sums.
    fn visit(&self, windows: &[Window], mut f: impl FnMut(usize, usize, usize)) {
        let count = |extents: &[usize]| extents.iter().product::<usize>();
        let (inputs, taps, outputs) = (count(&self.input), count(&self.kernel), count(&self.output));
        // The input position of an output and a tap, unless it is padding.
        let place = |mut output: usize, mut tap: usize| {
            let (mut position, mut step) = (0, 1);
            for axis in (0..windows.len()).rev() {
                let (o, k) = (output % self.output[axis], tap % self.kernel[axis]);
                (output, tap) = (output / self.output[axis], tap / self.kernel[axis]);
                let padded = o * windows[axis].stride + k * windows[axis].dilation;
                let at = padded.checked_sub(windows[axis].padding).filter(|&i| i < self.input[axis])?;
                position += at * step;
                step *= self.input[axis];
            }
            Some(position)
        };
        for output in 0..outputs {
            for tap in 0..taps {
                let Some(input) = place(output, tap) else { continue };
                for n in 0..self.batch {
                    for o in 0..self.groups * self.out_channels {
                        for c in 0..self.in_channels {
                            let channel = o / self.out_channels * self.in_channels + c;
                            let x = (n * self.groups * self.in_channels + channel) * inputs + input;
                            let w = (o * self.in_channels + c) * taps + tap;
                            f(x, w, (n * self.groups * self.out_channels + o) * outputs + output);
                        }
                    }
                }
            }
        }
    }

    /// Sums products of two of input, weight and output into the third.
    pub(crate) fn sum(
        &self,
        windows: &[Window],
        [a, b]: [&RefTensor; 2],
        out: &TensorSpec,
        pick: impl Fn(usize, usize, usize) -> [usize; 3],
    ) -> Result<RefTensor> {
        let count = out.shape.elements()?;
        let values = match (&a.values, &b.values) {
            (Values::Float(a), Values::Float(b)) => {
                let mut sums = vec![0.0; count];
                self.visit(windows, |x, w, y| {
                    let [i, j, to] = pick(x, w, y);
                    sums[to] += a[i] * b[j];
                });
                Values::Float(sums)
            }
            _ => {
                let (a, b, mut sums) = (a.ints(), b.ints(), vec![0i128; count]);
                self.visit(windows, |x, w, y| {
                    let [i, j, to] = pick(x, w, y);
                    sums[to] = out.dtype.wrap(sums[to] + out.dtype.wrap(a[i].wrapping_mul(b[j])));
                });
                Values::Int(sums)
            }
        };
        Ok(RefTensor { spec: out.clone(), values })
    }
}

/// Adds a value for each channel, axis 1.
pub(crate) fn add_bias(result: RefTensor, bias: Option<&RefTensor>) -> RefTensor {
    let Some(bias) = bias else { return result };
    let inner: usize = result.shape()[2..].iter().product();
    let channel = |i: usize| i / inner % bias.len();
    let values = match result.values {
        Values::Float(values) => {
            let bias = bias.floats();
            Values::Float(values.into_iter().enumerate().map(|(i, v)| v + bias[channel(i)]).collect())
        }
        Values::Int(values) => {
            let (bias, dtype) = (bias.ints(), result.spec.dtype);
            Values::Int(values.into_iter().enumerate().map(|(i, v)| dtype.wrap(v + bias[channel(i)])).collect())
        }
    };
    RefTensor { spec: result.spec, values }
}

/// A value for each of `axes` axes: as given, one repeated, or the default.
///
/// # Errors
/// Where another number of values is given.
pub fn per_axis(what: &str, values: &[usize], axes: usize, default: usize) -> Result<Vec<usize>> {
    match values {
        [] => Ok(vec![default; axes]),
        [value] => Ok(vec![*value; axes]),
        _ if values.len() == axes => Ok(values.to_vec()),
        _ => Err(Error::value(format!("{what} has {} values for {axes} spatial axes", values.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_extents_invert_the_others() {
        for (input, kernel, stride, padding, dilation) in [(7, 3, 2, 1, 1), (9, 2, 3, 2, 2), (5, 1, 3, 0, 1)] {
            let window = Window { stride, padding, dilation };
            let output = window.output(input, kernel).unwrap();
            let back = window.transposed(output, kernel, 0).unwrap();
            assert!(back <= input && input - back < stride);
        }
        let window = Window { stride: 1, padding: 3, dilation: 1 };
        assert!(window.transposed(2, 1, 0).is_err());
        assert!(window.transposed(0, 3, 0).is_err());
        assert!(window.transposed(9, 1, 1).is_err());
    }
}
