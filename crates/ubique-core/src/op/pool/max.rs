//! The largest element of each window, where it is, and the way back of gradients.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::Combine;
use crate::op::pool::windows::{Pooling, require_numbers};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Rule, Specs, Traits, operands, require_same_dtype};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// The largest element of each window, and, where asked for, its place; see [`Tensor::max_pool`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MaxPool {
    /// The windows.
    pub pooling: Pooling,
    /// Whether the places are a second output: i64 positions in the row-major spatial axes.
    pub indices: bool,
}

impl Rule for MaxPool {
    fn name(&self) -> &'static str {
        "max_pool"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_numbers(x)?;
        self.pooling.require_elements(&x.shape)?;
        let values = TensorSpec { shape: self.pooling.output(&x.shape)?, dtype: x.dtype };
        if !self.indices {
            return Ok(values.into());
        }
        values.shape.bytes(DType::I64)?;
        let indices = TensorSpec { shape: values.shape.clone(), dtype: DType::I64 };
        Ok(Specs::Many(vec![values, indices]))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let back = MaxPoolBackward { pooling: self.pooling.clone() };
        let g = call.grad_or_zeros(0)?;
        Ok(Cotangents::one(run::call(back.into(), [call.input(0)?.into(), g.into()])?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let lowest = match x.dtype().int_range() {
            None => Scalar::Float(f64::NEG_INFINITY),
            Some((low, _)) => Scalar::Int(low as i64),
        };
        let output = self.pooling.output(x.shape())?;
        let padded = self.pooling.padded(x, lowest)?;
        let taps = self.pooling.taps();
        let views = taps.iter().map(|tap| self.pooling.tap_view(&padded, tap, &output)).collect::<Result<Vec<_>>>()?;
        let mut views = views.into_iter();
        let mut best = views.next().ok_or_else(|| Error::shape("the kernel is empty"))?;
        if !self.indices {
            return Ok(Some(vec![views.try_fold(best, |best, view| best.maximum(&view))?]));
        }
        let spatial = Shape::from(&output[2..]);
        let places = |tap: &[usize]| self.pooling.places(x.shape(), &output, tap);
        let mut seen: Vec<bool> = places(&taps[0]).iter().map(Option::is_some).collect();
        let start = places(&taps[0]).into_iter().map(|p| p.unwrap_or(0) as i64).collect();
        let mut index = Tensor::from_vec(start, &spatial, x.device())?.expand(&output)?;
        for (tap, view) in taps[1..].iter().zip(views) {
            let places = places(tap);
            let valid = places.iter().map(Option::is_some).collect::<Vec<_>>();
            let first = valid.iter().zip(&seen).map(|(&v, &s)| v && !s).collect::<Vec<_>>();
            seen.iter_mut().zip(&valid).for_each(|(s, &v)| *s |= v);
            let mask = |bits: Vec<bool>| Tensor::from_vec(bits, &spatial, x.device());
            let mut larger = view.gt(&best)?;
            if x.dtype().is_float() {
                larger = (larger | (view.is_nan()? & !best.is_nan()?)).tensor()?;
            }
            let take = (mask(first)? | (mask(valid)? & larger)).tensor()?;
            let here = places.into_iter().map(|p| p.unwrap_or(0) as i64).collect();
            index = Tensor::from_vec(here, &spatial, x.device())?.select(&take, &index)?;
            best = view.select(&take, &best)?;
        }
        Ok(Some(vec![best, index]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, out) = (&inputs[0], &outputs[0]);
        let places = self.pooling.largest(x, &out.shape);
        let best = x.gather(out, places.iter().map(|&(at, _)| at));
        if !self.indices {
            return Ok(vec![best]);
        }
        let index = places.into_iter().map(|(_, place)| place as i128).collect();
        Ok(vec![best, RefTensor::int(&out.shape, DType::I64, index)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for indices in [false, true] {
            for (shape, pooling) in Pooling::samples() {
                let op = || MaxPool { pooling: pooling.clone(), indices };
                for dtype in [DType::F32, DType::F64, DType::I32] {
                    cases.push(Case::new(op()).input_with(shape, dtype, Fill::Distinct(-40.0, 40.0)));
                }
                for dtype in [DType::F16, DType::BF16, DType::U8] {
                    cases.push(Case::new(op()).input(shape, dtype).not_smooth());
                }
                cases.push(Case::new(op()).input_with(shape, DType::F32, Fill::Special));
                let lowest = Fill::Values(vec![f64::NEG_INFINITY]);
                cases.push(Case::new(op()).input_with(shape, DType::F32, lowest).not_smooth());
            }
        }
        cases
    }
}

impl Pooling {
    /// For each output the largest element's position in the whole operand and in its spatial axes. Of equal ones, and
    /// of several NaN, the first.
    fn largest(&self, x: &RefTensor, output: &Shape) -> Vec<(usize, usize)> {
        match &x.values {
            Values::Float(values) => self.first_largest(values, x.shape(), output),
            Values::Int(values) => self.first_largest(values, x.shape(), output),
        }
    }

    fn first_largest<T: PartialOrd + Copy>(&self, x: &[T], shape: &Shape, output: &Shape) -> Vec<(usize, usize)> {
        let plane: usize = shape[2..].iter().product();
        let taps: Vec<_> = self.taps().iter().map(|tap| self.places(shape, output, tap)).collect();
        let outputs: usize = output[2..].iter().product();
        let is_nan = |v: T| v.partial_cmp(&v).is_none();
        let better = |v: T, best: T| v > best || is_nan(v) && !is_nan(best);
        let mut result = Vec::new();
        for start in (0..shape[0] * shape[1]).map(|p| p * plane) {
            for o in 0..outputs {
                let places = taps.iter().filter_map(|tap| tap[o]);
                let best = places.reduce(|best, p| if better(x[start + p], x[start + best]) { p } else { best });
                let best = best.unwrap_or(0);
                result.push((start + best, best));
            }
        }
        result
    }
}

/// The gradient of [`MaxPool`]: from the operand and the gradient of the values. A gradient goes to its window's largest
/// element, the first of equal ones.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MaxPoolBackward {
    /// The windows.
    pub pooling: Pooling,
}

impl MaxPoolBackward {
    /// The place of the largest element of each window of `x`, with the spatial axes joined.
    fn places(&self, x: &Tensor) -> Result<Tensor> {
        let op = MaxPool { pooling: self.pooling.clone(), indices: true };
        let outputs = run::call_many(op.into(), &[&x.detach()])?;
        outputs.get(1).ok_or_else(|| Error::backend("max_pool gave no indices"))?.flatten(2, -1)
    }
}

impl Rule for MaxPoolBackward {
    fn name(&self) -> &'static str {
        "max_pool_backward"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, g] = operands(inputs)?;
        require_numbers(x)?;
        require_same_dtype(x, g)?;
        self.pooling.require_elements(&x.shape)?;
        let output = self.pooling.output(&x.shape)?;
        if g.shape != output {
            return Err(Error::shape(format!("the gradient has to be {output}, got {}", g.shape)));
        }
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[0])).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (x, g) = (call.input(0)?, call.grad(0)?);
        let mut out = Cotangents::none(2);
        if call.wants(0) {
            // Small changes of the operand do not change which elements are the largest.
            out.set(0, x.zeros_like()?);
        }
        if call.wants(1) {
            let picked = g.flatten(2, -1)?.gather(2, &self.places(x)?)?;
            out.set(1, picked.reshape(&call.spec(1)?.shape)?);
        }
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, g] = inputs else { return Ok(None) };
        let flat = Tensor::zeros(x.shape(), x.dtype(), x.device())?.flatten(2, -1)?;
        let sums = flat.scatter(2, &self.places(x)?, &g.flatten(2, -1)?, Combine::Add)?;
        Ok(Some(vec![sums.reshape(x.shape())?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, g) = (&inputs[0], &inputs[1]);
        let places = self.pooling.largest(x, g.shape());
        let values = match &g.values {
            Values::Float(g) => {
                let mut sums = vec![0.0; x.len()];
                places.iter().zip(g).for_each(|(&(at, _), v)| sums[at] += v);
                Values::Float(sums)
            }
            Values::Int(g) => {
                let mut sums = vec![0; x.len()];
                places.iter().zip(g).for_each(|(&(at, _), v)| sums[at] = x.spec.dtype.wrap(sums[at] + v));
                Values::Int(sums)
            }
        };
        Ok(vec![RefTensor { spec: outputs[0].clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (shape, pooling) in Pooling::samples() {
            let output = pooling.output(&Shape::from(shape)).unwrap_or_else(|_| Shape::empty());
            let op = || MaxPoolBackward { pooling: pooling.clone() };
            for dtype in [DType::F32, DType::F64] {
                let distinct = Fill::Distinct(-40.0, 40.0);
                cases.push(Case::new(op()).input_with(shape, dtype, distinct).input(&output, dtype));
            }
            for dtype in [DType::F16, DType::BF16, DType::I32] {
                cases.push(Case::new(op()).input(shape, dtype).input(&output, dtype).not_smooth());
            }
            cases.push(Case::new(op()).input_with(shape, DType::F32, Fill::Special).input(&output, DType::F32));
        }
        cases
    }
}
