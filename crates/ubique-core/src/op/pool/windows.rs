//! Windows of pooling: where they lie, and what is in them.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::conv::Window;
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// Windows over all axes after the first two.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pooling {
    /// Extents of a window.
    pub kernel: Vec<usize>,
    /// How it moves along each axis.
    pub windows: Vec<Window>,
    /// Whether a window that begins inside but ends beyond the padded operand counts.
    pub ceil: bool,
}

/// Refuses bools.
pub(super) fn require_numbers(x: &TensorSpec) -> Result<()> {
    match x.dtype {
        DType::Bool => Err(Error::dtype("bools cannot be pooled; cast them to a number first")),
        _ => Ok(()),
    }
}

impl Pooling {
    /// The output's shape, for an operand `[batch, channels, ..]`.
    ///
    /// # Errors
    /// Where rank or extents do not fit, or parameters make no sense.
    pub fn output(&self, x: &Shape) -> Result<Shape> {
        let axes = self.windows.len();
        if axes == 0 || self.kernel.len() != axes || x.rank() != axes + 2 {
            return Err(Error::shape(format!("with {axes} spatial axes the operand has to have rank {}", axes + 2)));
        }
        let mut shape = x.clone();
        for (axis, (window, &kernel)) in self.windows.iter().zip(&self.kernel).enumerate() {
            shape.as_mut_slice()[axis + 2] = self.extent(window, kernel, x[axis + 2])?;
        }
        Ok(shape)
    }

    fn extent(&self, window: &Window, kernel: usize, input: usize) -> Result<usize> {
        if window.padding > kernel / 2 {
            let message = format!("padding {} is more than half of the kernel's {kernel}", window.padding);
            return Err(Error::value(message));
        }
        let count = window.output(input, kernel)?;
        let more = self.ceil && window.left_over(input, kernel)? > 0;
        // The last window has to begin before the padding at the end.
        let begins_inside = count.checked_mul(window.stride).is_some_and(|start| start < input + window.padding);
        Ok(if more && begins_inside { count + 1 } else { count })
    }

    /// Makes sure that no window holds padding only.
    ///
    /// # Errors
    /// Where an extent is 0, or a dilated window misses the operand.
    pub fn require_elements(&self, x: &Shape) -> Result<()> {
        let output = self.output(x)?;
        for (axis, window) in self.windows.iter().enumerate() {
            let input = x[axis + 2];
            if input == 0 {
                return Err(Error::shape(format!("axis {} has no elements to take the largest of", axis + 2)));
            }
            let inside = |o: usize, k: usize| self.at(axis, o, k, input).is_some();
            let empty = |o: usize| !(0..self.kernel[axis]).any(|k| inside(o, k));
            // Only windows that begin in the padding can be empty, and only where a step of the dilation leaps over the
            // whole axis. The kernel has two taps then at most, because it fits, and so there is one such window at most:
            // nothing here takes longer for larger extents.
            let begin_in_padding = window.padding.div_ceil(window.stride).min(output[axis + 2]);
            if input < window.dilation && (0..begin_in_padding).any(empty) {
                return Err(Error::value("a dilated window lies in the padding only; use less padding or dilation"));
            }
        }
        Ok(())
    }

    /// The operand's position along an axis for an output and a tap, unless it is padding.
    fn at(&self, axis: usize, output: usize, tap: usize, input: usize) -> Option<usize> {
        let window = &self.windows[axis];
        (output * window.stride + tap * window.dilation).checked_sub(window.padding).filter(|&i| i < input)
    }

    /// Every position in a window, row-major.
    pub(super) fn taps(&self) -> Vec<Vec<usize>> {
        let count: usize = self.kernel.iter().product();
        (0..count).map(|tap| unravel(tap, &self.kernel)).collect()
    }

    /// For each output of a plane, the place of a tap in the operand's plane, unless it is padding.
    pub(super) fn places(&self, x: &Shape, output: &Shape, tap: &[usize]) -> Vec<Option<usize>> {
        let (input, output) = (&x[2..], &output[2..]);
        let count: usize = output.iter().product();
        let place = |o: usize| {
            let o = unravel(o, output);
            let axes = 0..input.len();
            axes.into_iter().try_fold(0, |place, a| Some(place * input[a] + self.at(a, o[a], tap[a], input[a])?))
        };
        (0..count).map(place).collect()
    }

    /// The operand with `value` around it, so that all windows are whole.
    pub(super) fn padded(&self, x: &Tensor, value: Scalar) -> Result<Tensor> {
        let output = self.output(x.shape())?;
        let mut padded = x.clone();
        for (axis, window) in self.windows.iter().enumerate() {
            let end = (output[axis + 2].saturating_sub(1)) * window.stride + window.reach(self.kernel[axis])? + 1;
            let after = end.saturating_sub(x.shape()[axis + 2] + window.padding);
            if window.padding > 0 || after > 0 {
                padded = padded.pad_axis(axis as isize + 2, window.padding, after, value)?;
            }
        }
        Ok(padded)
    }

    /// The elements at one tap of all windows, from a padded operand.
    pub(super) fn tap_view(&self, padded: &Tensor, tap: &[usize], output: &Shape) -> Result<Tensor> {
        let mut view = padded.clone();
        for (axis, window) in self.windows.iter().enumerate() {
            let start = tap[axis] * window.dilation;
            let end = start + output[axis + 2].saturating_sub(1) * window.stride + 1;
            view = view.slice(axis as isize + 2, Some(start as isize), Some(end as isize), window.stride as isize)?;
        }
        Ok(view)
    }

    /// Windows to test, with operands to test them on.
    pub(super) fn samples() -> Vec<(&'static [usize], Pooling)> {
        let same = |kernel: &[usize], stride, padding, dilation, ceil| Pooling {
            kernel: kernel.to_vec(),
            windows: vec![Window { stride, padding, dilation }; kernel.len()],
            ceil,
        };
        vec![
            (&[2, 3, 9], same(&[3], 2, 1, 1, false)),
            (&[1, 2, 10], same(&[2], 3, 0, 2, true)),
            (&[2, 3, 6, 8], same(&[2, 2], 2, 0, 1, false)),
            (&[1, 2, 7, 5], same(&[2, 2], 2, 0, 1, false)),
            (&[1, 2, 7, 5], same(&[2, 2], 2, 0, 1, true)),
            (&[2, 1, 7, 6], same(&[3, 2], 2, 1, 1, true)),
            (&[1, 1, 6, 6], same(&[3, 3], 1, 1, 1, false)),
            (&[1, 1, 9, 8], same(&[2, 3], 2, 1, 2, false)),
            (&[1, 1, 1, 1], same(&[1, 1], 1, 0, 1, false)),
            (&[0, 2, 4, 4], same(&[2, 2], 2, 0, 1, false)),
            (&[1, 2, 4, 5, 4], same(&[2, 2, 2], 2, 1, 1, false)),
            (&[2, 3, 34, 33], same(&[2, 2], 2, 0, 1, false)),
        ]
    }
}

/// The indices of a flat position.
fn unravel(mut flat: usize, extents: &[usize]) -> Vec<usize> {
    let mut index = vec![0; extents.len()];
    for (slot, &extent) in index.iter_mut().zip(extents).rev() {
        (*slot, flat) = (flat % extent, flat / extent);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(input: usize, kernel: usize, [stride, padding, dilation]: [usize; 3], ceil: bool) -> Result<usize> {
        let pooling = Pooling { kernel: vec![kernel], windows: vec![Window { stride, padding, dilation }], ceil };
        let shape = Shape::from([1, 1, input]);
        pooling.require_elements(&shape)?;
        Ok(pooling.output(&shape)?[2])
    }

    #[test]
    fn windows_are_counted() {
        assert_eq!(extent(5, 2, [2, 0, 1], false).unwrap(), 2);
        assert_eq!(extent(5, 2, [2, 0, 1], true).unwrap(), 3);
        // The third window would begin in the padding.
        assert_eq!(extent(3, 2, [2, 1, 1], true).unwrap(), 2);
        assert_eq!(extent(7, 3, [1, 1, 2], false).unwrap(), 5);
    }

    #[test]
    fn empty_windows_are_found_without_looking_at_all() {
        let pooling = |kernel, stride, padding, dilation, ceil| Pooling {
            kernel: vec![kernel],
            windows: vec![Window { stride, padding, dilation }],
            ceil,
        };
        let (mut empty, mut full) = (0, 0);
        for case in 0..6 * 5 * 4 * 3 * 5 * 2 {
            let mut left = case;
            let mut next = |count: usize| (left % count, left /= count).0;
            let (input, kernel, stride) = (next(6) + 1, next(5) + 1, next(4) + 1);
            let (padding, dilation, ceil) = (next(3), next(5) + 1, next(2) == 1);
            let pooling = pooling(kernel, stride, padding, dilation, ceil);
            let shape = Shape::from([1, 1, input]);
            let Ok(output) = pooling.output(&shape) else { continue };
            let any = |o: usize| (0..kernel).any(|k| pooling.at(0, o, k, input).is_some());
            let wanted = (0..output[2]).all(any);
            assert_eq!(pooling.require_elements(&shape).is_ok(), wanted, "{pooling:?} on {input}");
            *(if wanted { &mut full } else { &mut empty }) += 1;
        }
        assert!(empty > 0 && full > 500, "{empty} {full}");
        // At once, however long the axis.
        pooling(2, 1, 1, 2, false).require_elements(&Shape::from([1, 1, 1 << 60])).unwrap();
    }

    #[test]
    fn windows_that_make_no_sense_are_errors() {
        assert!(extent(5, 2, [2, 2, 1], false).is_err());
        assert!(extent(5, 0, [1, 0, 1], false).is_err());
        assert!(extent(5, 6, [1, 0, 1], false).is_err());
        assert!(extent(0, 2, [1, 1, 1], false).is_err());
        assert!(extent(5, 2, [0, 0, 1], false).is_err());
        assert!(extent(1, 2, [1, 1, 2], false).is_err());
        assert!(extent(usize::MAX, 3, [1, 1, 1], false).is_err());
    }
}
