//! Choice between elements by a mask, and clamping.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run::{self, Arg};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::binary::Rhs;
use crate::op::case::{Case, Fill};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands, require_same_dtype};
use crate::scalar::Scalar;
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// Where the mask (bool, first operand) is true the second operand's element, elsewhere the third's. All broadcast.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Select;

impl Rule for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [mask, a, b] = operands(inputs)?;
        if mask.dtype != DType::Bool {
            return Err(Error::dtype(format!("the mask is {}, not bool", mask.dtype)));
        }
        require_same_dtype(a, b)?;
        let shape = mask.shape.broadcast(&a.shape)?.broadcast(&b.shape)?;
        shape.bytes(a.dtype)?;
        Ok(TensorSpec { shape, dtype: a.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[0])).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (mask, g) = (call.input(0)?, call.grad(0)?);
        let mut out = Cotangents::none(3);
        if call.wants(1) {
            out.set(1, g.masked_fill(&mask.not()?, 0)?.sum_to(&call.spec(1)?.shape)?);
        }
        if call.wants(2) {
            out.set(2, g.masked_fill(mask, 0)?.sum_to(&call.spec(2)?.shape)?);
        }
        Ok(out)
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let shape = &outputs[0].shape;
        let (mask, a, b) = (inputs[0].expand(shape)?.ints(), inputs[1].expand(shape)?, inputs[2].expand(shape)?);
        let values = match (a.values, b.values) {
            (Values::Float(a), Values::Float(b)) => Values::Float(choose(&mask, a, b)),
            (Values::Int(a), Values::Int(b)) => Values::Int(choose(&mask, a, b)),
            _ => return Err(Error::dtype("operands of different kinds")),
        };
        Ok(vec![RefTensor { spec: outputs[0].clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let shapes: [[&[usize]; 3]; 5] = [
            [&[2, 3], &[2, 3], &[2, 3]],
            [&[3, 1], &[4], &[]],
            [&[], &[], &[]],
            [&[0, 2], &[2], &[1]],
            [&[1500], &[1500], &[1]],
        ];
        let mask = Fill::Values(vec![1.0, 0.0, 0.0, 1.0, 1.0]);
        let make = |dtype, [m, a, b]: [&[usize]; 3]| {
            Case::new(Select)
                .input_with(m, DType::Bool, mask.clone())
                .input(a, dtype)
                .input_with(b, dtype, Fill::Special)
                .not_smooth()
        };
        let smooth = |s: [&[usize]; 3]| {
            Case::new(Select)
                .input_with(s[0], DType::Bool, mask.clone())
                .input(s[1], DType::F64)
                .input(s[2], DType::F64)
        };
        let all = DType::ALL.into_iter().flat_map(|d| shapes.map(|s| make(d, s)));
        all.chain(shapes.map(smooth)).collect()
    }
}

fn choose<T>(mask: &[i128], a: Vec<T>, b: Vec<T>) -> Vec<T> {
    mask.iter().zip(a.into_iter().zip(b)).map(|(&m, (a, b))| if m != 0 { a } else { b }).collect()
}

/// The elements where the mask (second operand, bool, broadcast to the first) is false, and a value where it is true.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MaskedFill {
    /// The value, cast to the tensor's dtype.
    pub value: Scalar,
}

impl Rule for MaskedFill {
    fn name(&self) -> &'static str {
        "masked_fill"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x, mask] = operands(inputs)?;
        if mask.dtype != DType::Bool {
            return Err(Error::dtype(format!("the mask is {}, not bool", mask.dtype)));
        }
        if mask.shape.broadcast(&x.shape)? != x.shape {
            return Err(Error::shape(format!("the mask {} does not broadcast to {}", mask.shape, x.shape)));
        }
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[1])).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        Ok(Cotangents::one(call.grad(0)?.masked_fill(call.input(1)?, 0)?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, mask] = inputs else { return Ok(None) };
        let value = Tensor::full((), self.value, x.dtype(), x.device())?;
        Ok(Some(vec![run::call(Op::Select(Select), [mask.into(), (&value).into(), x.into()])?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let dtype = outputs[0].dtype;
        let value = match self.value.cast(dtype) {
            Scalar::Float(value) => RefTensor::float((), dtype, vec![value]),
            value => RefTensor::int((), dtype, vec![value.as_i128()]),
        };
        Select.reference(&[inputs[1].clone(), value, inputs[0].clone()], outputs)
    }

    fn cases() -> Vec<Case> {
        let mask = Fill::Values(vec![1.0, 0.0, 0.0, 1.0, 1.0]);
        let mut cases = Vec::new();
        for dtype in DType::ALL {
            for (x, m) in [(&[2usize, 3, 5][..], &[3usize, 1][..]), (&[], &[]), (&[0, 3], &[3]), (&[1300], &[1300])] {
                let case = Case::new(MaskedFill { value: 3.into() });
                cases.push(case.input(x, dtype).input_with(m, DType::Bool, mask.clone()));
            }
        }
        cases.push(Case::new(MaskedFill { value: f64::NEG_INFINITY.into() }).input([7], DType::F16).input_with(
            [7],
            DType::Bool,
            mask,
        ));
        cases
    }
}

/// Values held between bounds; NaN stays NaN. Where `min` exceeds `max` the result is `max`, as in numpy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Clamp {
    /// The lower bound, if any.
    pub min: Option<Scalar>,
    /// The upper bound, if any.
    pub max: Option<Scalar>,
}

impl Clamp {
    /// The clamp of one float.
    #[inline(always)]
    pub fn eval(x: f64, min: f64, max: f64) -> f64 {
        let low = if x < min { min } else { x };
        if low > max { max } else { low }
    }
}

impl Rule for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        if x.dtype == DType::Bool {
            return Err(Error::dtype("bools cannot be clamped"));
        }
        let nan = |bound: Option<Scalar>| bound.is_some_and(|b| b.as_f64().is_nan());
        if nan(self.min) || nan(self.max) {
            return Err(Error::value("a bound is NaN"));
        }
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (x, mut g) = (call.input(0)?, call.grad(0)?.clone());
        if let Some(min) = self.min {
            g = g.masked_fill(&x.lt(min)?, 0)?;
        }
        if let Some(max) = self.max {
            g = g.masked_fill(&x.gt(max)?, 0)?;
        }
        Ok(Cotangents::one(g))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let mut out = x.clone();
        if let Some(min) = self.min {
            out = out.maximum(min)?;
        }
        if let Some(max) = self.max {
            out = out.minimum(max)?;
        }
        Ok(Some(vec![out]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let dtype = outputs[0].dtype;
        let bound = |b: Option<Scalar>| b.map(|b| b.cast(dtype));
        let values = match &inputs[0].values {
            Values::Float(v) => {
                let (min, max) = (
                    bound(self.min).map_or(f64::NEG_INFINITY, Scalar::as_f64),
                    bound(self.max).map_or(f64::INFINITY, Scalar::as_f64),
                );
                Values::Float(v.iter().map(|&x| Clamp::eval(x, min, max)).collect())
            }
            Values::Int(v) => {
                let (min, max) = (
                    bound(self.min).map_or(i128::MIN, Scalar::as_i128),
                    bound(self.max).map_or(i128::MAX, Scalar::as_i128),
                );
                Values::Int(v.iter().map(|&x| x.max(min).min(max)).collect())
            }
        };
        Ok(vec![RefTensor { spec: outputs[0].clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let bounds: [(Option<f64>, Option<f64>); 4] =
            [(Some(-1.0), Some(1.5)), (Some(0.5), None), (None, Some(1.0)), (Some(2.0), Some(1.0))];
        let mut cases = Vec::new();
        for dtype in DType::FLOATS.into_iter().chain(DType::INTS) {
            for (min, max) in bounds {
                let clamp = || Case::new(Clamp { min: min.map(Scalar::from), max: max.map(Scalar::from) });
                cases.push(clamp().input([3, 7], dtype));
                cases.push(clamp().input((), dtype));
                cases.push(clamp().input([0], dtype));
                cases.push(clamp().input_with([13], dtype, Fill::Special));
            }
        }
        cases
    }
}

impl Tensor {
    /// Where `mask` is true this tensor's element, elsewhere `other`'s; all three broadcast.
    ///
    /// # Errors
    /// Where shapes do not broadcast, dtypes differ, or the mask is not bool.
    pub fn select<'a>(&'a self, mask: &'a Tensor, other: impl Into<Rhs<'a>>) -> Result<Tensor> {
        let other = match other.into() {
            Rhs::Tensor(arg) => arg,
            Rhs::Scalar(scalar) => Arg::Own(Tensor::full((), scalar, self.dtype(), self.device())?),
        };
        run::call(Op::Select(Select), [mask.into(), self.into(), other])
    }

    /// `value` where `mask` is true. The mask broadcasts to this tensor's shape.
    ///
    /// # Errors
    /// Where the mask does not broadcast to the shape or is not bool.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        run::call(Op::MaskedFill(MaskedFill { value: value.into() }), [self.into(), mask.into()])
    }

    /// Values held between two bounds, both included.
    ///
    /// # Errors
    /// Where a bound is NaN or the dtype is bool.
    pub fn clamp(&self, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Result<Tensor> {
        run::call(Op::Clamp(Clamp { min: Some(min.into()), max: Some(max.into()) }), [self.into()])
    }

    /// Values held above a bound.
    ///
    /// # Errors
    /// Where the bound is NaN or the dtype is bool.
    pub fn clamp_min(&self, min: impl Into<Scalar>) -> Result<Tensor> {
        run::call(Op::Clamp(Clamp { min: Some(min.into()), max: None }), [self.into()])
    }

    /// Values held below a bound.
    ///
    /// # Errors
    /// Where the bound is NaN or the dtype is bool.
    pub fn clamp_max(&self, max: impl Into<Scalar>) -> Result<Tensor> {
        run::call(Op::Clamp(Clamp { min: None, max: Some(max.into()) }), [self.into()])
    }
}
