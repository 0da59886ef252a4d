//! Padding: elements added before and after those of each axis.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Case;
use crate::op::index::index_tensor;
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::scalar::Scalar;
use crate::shape::{Dims, Shape, TensorSpec, normalize_axis};
use crate::tensor::Tensor;

/// What stands in the added places.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PadMode {
    /// This value, cast to the tensor's dtype.
    Constant(Scalar),
    /// The elements mirrored at the first and the last, which are not repeated: `c b [a b c] b a`.
    Reflect,
    /// The first or the last element: `a a [a b c] c c`.
    Replicate,
    /// The elements over again: `b c [a b c] a b`.
    Circular,
}

impl PadMode {
    /// Which element of an axis of `extent` stands at place `i` after padding with `before` elements in front;
    /// `None` where a constant does. For the other modes the axis must not be empty.
    pub fn source(self, extent: usize, before: usize, i: usize) -> Option<usize> {
        // Extents, and so these, are far below the limits of i128; the results lie in 0..extent.
        let (extent, place) = (extent as i128, i as i128 - before as i128);
        let source = match self {
            PadMode::Constant(_) => return usize::try_from(place).ok().filter(|_| place < extent),
            PadMode::Replicate => place.clamp(0, (extent - 1).max(0)),
            PadMode::Circular => place.rem_euclid(extent.max(1)),
            PadMode::Reflect => {
                let period = 2 * (extent - 1);
                let there = place.rem_euclid(period.max(1));
                there.min(period - there)
            }
        };
        usize::try_from(source).ok()
    }

    fn needs(self) -> usize {
        match self {
            PadMode::Constant(_) => 0,
            PadMode::Reflect => 2,
            PadMode::Replicate | PadMode::Circular => 1,
        }
    }
}

/// Elements added before and after those of each axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pad {
    /// How many before and after, for each axis.
    pub padding: Vec<(usize, usize)>,
    /// What stands there.
    pub mode: PadMode,
}

impl Pad {
    /// The axes that grow, with what is added before, and the new extent.
    fn grown(&self, shape: &Shape) -> impl Iterator<Item = (usize, usize, usize)> {
        let extents: Vec<usize> = shape.to_vec();
        let padding = self.padding.iter().zip(extents).enumerate();
        padding
            .filter(|(_, (pad, _))| **pad != (0, 0))
            .map(|(axis, (&(before, after), n))| (axis, before, before + n + after))
    }

    /// For one axis that grows, the element that stands at each place.
    fn sources(&self, extent: usize, before: usize, grown: usize) -> Vec<i64> {
        (0..grown).filter_map(|i| self.mode.source(extent, before, i)).map(|i| i as i64).collect()
    }
}

impl Rule for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        if self.padding.len() != x.shape.rank() {
            let (given, rank) = (self.padding.len(), x.shape.rank());
            return Err(Error::shape(format!("{given} pairs of padding for rank {rank}; give one for each axis")));
        }
        let mut shape = x.shape.clone();
        for (axis, (&(before, after), extent)) in self.padding.iter().zip(shape.as_mut_slice()).enumerate() {
            if *extent < self.mode.needs() && (before, after) != (0, 0) {
                let needed = self.mode.needs();
                return Err(Error::shape(format!(
                    "axis {axis} of extent {extent} is too short to pad from: needs {needed}"
                )));
            }
            *extent = extent.checked_add(before).and_then(|n| n.checked_add(after)).ok_or_else(|| {
                Error::shape(format!("padding axis {axis} of extent {extent} by {before} and {after} overflows"))
            })?;
        }
        shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let x = call.spec(0)?;
        let mut grad = call.grad(0)?.clone();
        for (axis, before, grown) in self.grown(&x.shape) {
            let extent = x.shape[axis];
            grad = match self.mode {
                PadMode::Constant(_) => grad.narrow(axis as isize, before as isize, extent)?,
                _ => {
                    let index = index_tensor(self.sources(extent, before, grown), [grown], grad.device())?;
                    let zeros = Tensor::zeros(grad.shape().with(axis, extent), x.dtype, grad.device())?;
                    zeros.index_add(axis as isize, &index, &grad)?
                }
            };
        }
        Ok(Cotangents::one(grad))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let ([x], false) = (inputs, matches!(self.mode, PadMode::Constant(_))) else { return Ok(None) };
        let mut out = x.clone();
        for (axis, before, grown) in self.grown(x.shape()) {
            let index = index_tensor(self.sources(x.shape()[axis], before, grown), [grown], x.device())?;
            out = out.index_select(axis as isize, &index)?;
        }
        Ok(Some(vec![out]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, spec) = (&inputs[0], &outputs[0]);
        let fill = match self.mode {
            PadMode::Constant(value) => value.cast(spec.dtype),
            _ => Scalar::Int(0),
        };
        let places = (0..spec.shape.elements()?).map(|flat| {
            let (mut rest, mut stride, mut from) = (flat, 1, 0);
            for axis in (0..spec.shape.rank()).rev() {
                let i = rest % spec.shape[axis];
                rest /= spec.shape[axis];
                from += self.mode.source(x.shape()[axis], self.padding[axis].0, i)? * stride;
                stride *= x.shape()[axis];
            }
            Some(from)
        });
        let values = match &x.values {
            Values::Float(v) => Values::Float(places.map(|p| p.map_or(fill.as_f64(), |p| v[p])).collect()),
            Values::Int(v) => Values::Int(places.map(|p| p.map_or(fill.as_i128(), |p| v[p])).collect()),
        };
        Ok(vec![RefTensor { spec: spec.clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let constant = |value: f64| PadMode::Constant(value.into());
        let case = |padding: &[(usize, usize)], mode| Case::new(Pad { padding: padding.to_vec(), mode });
        let mut cases = vec![
            case(&[], constant(1.0)).input((), DType::F32),
            case(&[(2, 1), (0, 0)], constant(f64::NAN)).input([0, 3], DType::F32),
            case(&[(0, 0), (1, 1)], constant(1.0)).input([0, 3], DType::F32),
            case(&[(7, 500)], constant(-0.5)).input([1001], DType::F32),
            case(&[(300, 9)], PadMode::Reflect).input([1001], DType::F32),
        ];
        for mode in [constant(3.7), PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
            for dtype in DType::ALL {
                cases.push(case(&[(1, 2), (0, 0), (3, 1)], mode).input([3, 2, 4], dtype));
            }
            // More than there is to mirror or repeat at once.
            cases.push(case(&[(5, 7), (0, 2)], mode).input([2, 3], DType::F64));
            cases.push(case(&[(0, 0), (0, 0)], mode).input([1, 0], DType::F64));
        }
        for mode in [constant(0.0), PadMode::Replicate, PadMode::Circular] {
            cases.push(case(&[(2, 2), (1, 0)], mode).input([1, 1], DType::F32));
        }
        cases
    }
}

impl Tensor {
    /// Elements added before and after those of each axis: one pair `(before, after)` for each axis.
    ///
    /// # Errors
    /// Where there is not one pair for each axis, the size overflows, or an axis is too short to mirror (2 elements
    /// needed), replicate or repeat (1 needed).
    pub fn pad(&self, padding: &[(usize, usize)], mode: PadMode) -> Result<Tensor> {
        run::call(Op::Pad(Pad { padding: padding.to_vec(), mode }), [self.into()])
    }

    /// One axis padded with a value.
    ///
    /// # Errors
    /// Where the axis is out of range or the size overflows.
    pub fn pad_axis(&self, axis: isize, before: usize, after: usize, value: impl Into<Scalar>) -> Result<Tensor> {
        let axis = normalize_axis(axis, self.rank()).map_err(|e| e.with_op("pad", &[self.spec()]))?;
        if before == 0 && after == 0 {
            return Ok(self.clone());
        }
        let padding = Dims::repeat((0, 0), self.rank()).with(axis, (before, after));
        self.pad(&padding, PadMode::Constant(value.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(mode: PadMode, extent: usize, before: usize, after: usize) -> Vec<Option<usize>> {
        (0..before + extent + after).map(|i| mode.source(extent, before, i)).collect()
    }

    #[test]
    fn modes_look_where_they_say() {
        let some = |list: &[usize]| list.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(sources(PadMode::Reflect, 3, 2, 2), some(&[2, 1, 0, 1, 2, 1, 0]));
        assert_eq!(sources(PadMode::Reflect, 2, 3, 3), some(&[1, 0, 1, 0, 1, 0, 1, 0]));
        assert_eq!(sources(PadMode::Replicate, 3, 2, 1), some(&[0, 0, 0, 1, 2, 2]));
        assert_eq!(sources(PadMode::Circular, 3, 4, 1), some(&[2, 0, 1, 2, 0, 1, 2, 0]));
        assert_eq!(sources(PadMode::Constant(0.into()), 1, 1, 1), [None, Some(0), None]);
    }

    #[test]
    fn refuses_what_cannot_be_padded() {
        let infer = |padding: &[(usize, usize)], mode, shape: &[usize]| {
            let spec = TensorSpec::new(shape, DType::F32);
            Op::Pad(Pad { padding: padding.to_vec(), mode }).infer(&[spec]).map_err(|e| e.to_string())
        };
        let message = infer(&[(1, 0)], PadMode::Reflect, &[1]).unwrap_err();
        assert_eq!(message, "pad(f32[1]): axis 0 of extent 1 is too short to pad from: needs 2");
        assert!(infer(&[(0, 0)], PadMode::Circular, &[0]).is_ok());
        assert!(infer(&[(0, 1)], PadMode::Circular, &[0]).is_err());
        assert!(infer(&[(0, 1)], PadMode::Replicate, &[3, 4]).unwrap_err().contains("one for each axis"));
        assert!(infer(&[(usize::MAX, 1)], PadMode::Constant(0.into()), &[3]).unwrap_err().contains("overflows"));
        assert!(infer(&[(usize::MAX / 8, 1)], PadMode::Constant(0.into()), &[3]).is_err());
    }
}
