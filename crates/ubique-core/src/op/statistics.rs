//! Variance, standard deviation and p-norms over axes.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::widened;
use crate::op::reduce::{check_axes, groups, reduced_shape};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands, require_float};
use crate::shape::{Dims, TensorSpec, normalize_axes};
use crate::tensor::Tensor;

/// The variance over axes, which the result lacks, or its root.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Variance {
    /// Over which axes: sorted, without repeats.
    pub axes: Dims<usize>,
    /// What the count is lessened by: 0 for the population, 1 for the unbiased estimate from a sample (Bessel).
    pub ddof: f64,
    /// Whether to give the root: the standard deviation.
    pub root: bool,
}

/// Axes as methods take them.
fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&axis| axis as isize).collect()
}

/// A reduction over the axes, which stay with extent 1; none at all means none here.
fn sum_over(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if axes.is_empty() { Ok(x.clone()) } else { x.sum_keepdim(&signed(axes)) }
}

impl Variance {
    /// What the sum of squares is divided by.
    fn divisor(&self, x: &TensorSpec) -> f64 {
        let count: usize = self.axes.iter().map(|&axis| x.shape[axis]).product();
        (count as f64 - self.ddof).max(0.0)
    }

    /// The operand without its mean.
    fn centred(&self, x: &Tensor) -> Result<Tensor> {
        let count: usize = self.axes.iter().map(|&axis| x.shape()[axis]).product();
        (x - sum_over(x, &self.axes)? * (1.0 / count as f64)).tensor()
    }
}

const AXES: [(&[usize], &[usize]); 8] = [
    (&[2, 3, 5], &[0]),
    (&[2, 3, 5], &[2]),
    (&[2, 3, 5], &[0, 2]),
    (&[4, 3], &[0, 1]),
    (&[7], &[0]),
    (&[0, 3], &[1]),
    (&[2, 1031], &[1]),
    (&[40, 33], &[0]),
];

impl Rule for Variance {
    fn name(&self) -> &'static str {
        if self.root { "std" } else { "var" }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_float(x)?;
        check_axes(&x.shape, &self.axes)?;
        if !self.ddof.is_finite() {
            return Err(Error::value(format!("ddof is {}", self.ddof)));
        }
        let shape = reduced_shape(&x.shape, &self.axes, false);
        shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(if self.root { Saves::BOTH } else { Saves::INPUTS })
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (x, spec) = (call.input(0)?, call.spec(0)?);
        let kept = reduced_shape(&spec.shape, &self.axes, true);
        let mut g = call.grad(0)?.reshape(&kept)?;
        if self.root {
            // Where nothing deviates the root has no slope; 0 is the one of its subgradients that is no direction.
            let y = call.output(0)?.reshape(&kept)?;
            g = (g / (&y * 2.0)).tensor()?.masked_fill(&y.eq(0)?, 0)?;
        }
        let scale = (g * (2.0 / self.divisor(spec))).tensor()?;
        Ok(Cotangents::one((self.centred(x)? * scale).tensor()?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let x = &inputs[0];
            let squares = sum_over(&self.centred(x)?.square()?, &self.axes)?;
            let variance =
                (squares.reshape(reduced_shape(x.shape(), &self.axes, false))? / self.divisor(&x.spec())).tensor()?;
            Ok(vec![if self.root { variance.sqrt()? } else { variance }])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, divisor) = (inputs[0].floats(), self.divisor(&inputs[0].spec));
        let variance = |positions: Vec<usize>| {
            let mean = positions.iter().map(|&p| x[p]).sum::<f64>() / positions.len() as f64;
            let variance = positions.iter().map(|&p| (x[p] - mean) * (x[p] - mean)).sum::<f64>() / divisor;
            if self.root { variance.sqrt() } else { variance }
        };
        let values = groups(inputs[0].shape(), &self.axes).map(variance).collect();
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for root in [false, true] {
                let case = |axes: &[usize], ddof| Case::new(Variance { axes: axes.into(), ddof, root });
                for (shape, axes) in AXES {
                    for ddof in [0.0, 1.0] {
                        cases.push(case(axes, ddof).input(shape, dtype));
                    }
                }
                // More taken away than there is; nothing at all; NaN; far from 0.
                cases.push(case(&[0], 3.0).input([2], dtype).not_smooth());
                cases.push(case(&[0], 0.0).input([0, 3], dtype).not_smooth());
                cases.push(case(&[1], 1.0).input_with([2, 13], dtype, Fill::Special));
                cases.push(case(&[0], 1.0).input_with([50], dtype, Fill::Uniform(100.0, 101.0)).not_smooth());
            }
        }
        cases
    }
}

/// The p-norm `(Σ |x|ᵖ)^(1/p)` over axes, which the result lacks: for p = ∞ the largest magnitude, for -∞ the
/// smallest, for 0 the number of elements that are not 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Norm {
    /// Over which axes: sorted, without repeats.
    pub axes: Dims<usize>,
    /// The order of the norm.
    #[serde(with = "crate::scalar::real")]
    pub p: f64,
}

impl Norm {
    fn eval(&self, values: impl Iterator<Item = f64>) -> f64 {
        let magnitudes = values.map(f64::abs);
        match self.p {
            f64::INFINITY => magnitudes.reduce(|a, b| if a.is_nan() || a > b { a } else { b }).unwrap_or(0.0),
            f64::NEG_INFINITY => magnitudes.reduce(|a, b| if a.is_nan() || a < b { a } else { b }).unwrap_or(0.0),
            0.0 => magnitudes.filter(|&v| v != 0.0).count() as f64,
            p => magnitudes.map(|v| v.powf(p)).sum::<f64>().powf(1.0 / p),
        }
    }
}

impl Rule for Norm {
    fn name(&self) -> &'static str {
        "norm"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_float(x)?;
        check_axes(&x.shape, &self.axes)?;
        if self.p.is_nan() {
            return Err(Error::value("the order p is NaN"));
        }
        let shape = reduced_shape(&x.shape, &self.axes, false);
        let nothing = self.axes.iter().any(|&axis| x.shape[axis] == 0) && shape.elements()? > 0;
        if nothing && self.p < 0.0 {
            return Err(Error::shape(format!("the norm of order {} of no elements is undefined", self.p)));
        }
        shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::BOTH)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let x = call.input(0)?;
        let kept = reduced_shape(x.shape(), &self.axes, true);
        let (y, g) = (call.output(0)?.reshape(&kept)?, call.grad(0)?.reshape(&kept)?);
        // At 0 a norm has no slope; 0 is the subgradient taken there.
        let at_zero = y.eq(0)?;
        Ok(Cotangents::one(match self.p {
            0.0 => x.zeros_like()?,
            1.0 => (x.sign()? * g).tensor()?,
            2.0 => (x * (g / y).tensor()?.masked_fill(&at_zero, 0)?).tensor()?,
            p if p.is_infinite() => {
                let hit = x.abs()?.eq(&y)?.cast(x.dtype())?;
                let count = sum_over(&hit, &self.axes)?.maximum(1)?;
                (x.sign()? * hit * (g / count)).tensor()?
            }
            p => {
                let share =
                    (x.abs()? / &y).tensor()?.masked_fill(&x.eq(0)?, 0)?.pow(p - 1.0)?.masked_fill(&x.eq(0)?, 0)?;
                (x.sign()? * share * g).tensor()?
            }
        }))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let x = &inputs[0];
            let shape = reduced_shape(x.shape(), &self.axes, false);
            if x.elements() == 0 {
                return Ok(vec![Tensor::zeros(&shape, x.dtype(), x.device())?]);
            }
            let norm = match self.p {
                _ if self.axes.is_empty() && self.p != 0.0 => x.abs()?,
                f64::INFINITY => x.abs()?.max_keepdim(&signed(&self.axes))?,
                f64::NEG_INFINITY => x.abs()?.min_keepdim(&signed(&self.axes))?,
                0.0 => sum_over(&x.ne(0)?.cast(x.dtype())?, &self.axes)?,
                1.0 => sum_over(&x.abs()?, &self.axes)?,
                2.0 => sum_over(&x.square()?, &self.axes)?.sqrt()?,
                p => sum_over(&x.abs()?.pow(p)?, &self.axes)?.pow(1.0 / p)?,
            };
            Ok(vec![norm.reshape(shape)?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let x = inputs[0].floats();
        let values =
            groups(inputs[0].shape(), &self.axes).map(|positions| self.eval(positions.iter().map(|&p| x[p]))).collect();
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for p in [0.0, 1.0, 2.0, 3.0, 0.5, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
                for (shape, axes) in AXES {
                    let case = Case::new(Norm { axes: axes.into(), p });
                    // High and low powers of many elements leave what half precision holds.
                    let many = shape.iter().product::<usize>() > 1000 && p == 0.5;
                    cases.push(case.input_with(shape, dtype, Fill::Distinct(0.3, if many { 0.31 } else { 2.0 })));
                }
                let zeros = Case::new(Norm { axes: [1].into(), p });
                cases.push(zeros.input_with([2, 2], dtype, Fill::Values(vec![0.0, 0.0, f64::NAN, 2.0])).not_smooth());
            }
            cases.push(Case::new(Norm { axes: [0].into(), p: 2.0 }).input([0, 3], dtype).not_smooth());
        }
        cases
    }
}

impl Tensor {
    /// The variance over axes (all of them where the list is empty), which go away: the mean square of the deviations from
    /// the mean, with the count lessened by `ddof` (0 for the population, 1 for the unbiased estimate from a sample). Of no
    /// more than `ddof` elements NaN or ∞. Any floating-point dtype.
    ///
    /// # Errors
    /// Where an axis is out of range or named twice, ddof is not finite, or the dtype is not floating point.
    pub fn var(&self, axes: &[isize], ddof: f64) -> Result<Tensor> {
        variance(self, axes, ddof, false)
    }

    /// As [`Tensor::var`]; the axes stay, with extent 1.
    ///
    /// # Errors
    /// As [`Tensor::var`].
    pub fn var_keepdim(&self, axes: &[isize], ddof: f64) -> Result<Tensor> {
        keep(self, axes, self.var(axes, ddof)?)
    }

    /// The standard deviation: the root of [`Tensor::var`].
    ///
    /// # Errors
    /// As [`Tensor::var`].
    pub fn std(&self, axes: &[isize], ddof: f64) -> Result<Tensor> {
        variance(self, axes, ddof, true)
    }

    /// As [`Tensor::std`]; the axes stay, with extent 1.
    ///
    /// # Errors
    /// As [`Tensor::std`].
    pub fn std_keepdim(&self, axes: &[isize], ddof: f64) -> Result<Tensor> {
        keep(self, axes, self.std(axes, ddof)?)
    }

    /// The p-norm over axes (all of them where the list is empty), which go away: `(Σ |x|ᵖ)^(1/p)`; for p = ∞ the largest
    /// magnitude, for -∞ the smallest, for 0 the number of elements that are not 0. Any floating-point dtype.
    ///
    /// # Errors
    /// Where an axis is out of range or named twice, p is NaN, there are no elements for a negative p, or the dtype is not
    /// floating point.
    pub fn norm(&self, p: f64, axes: &[isize]) -> Result<Tensor> {
        let axes = normalize_axes(axes, self.rank()).map_err(|e| e.with_op("norm", &[self.spec()]))?;
        run::call(Op::Norm(Norm { axes: axes.into(), p }), [self.into()])
    }

    /// As [`Tensor::norm`]; the axes stay, with extent 1.
    ///
    /// # Errors
    /// As [`Tensor::norm`].
    pub fn norm_keepdim(&self, p: f64, axes: &[isize]) -> Result<Tensor> {
        keep(self, axes, self.norm(p, axes)?)
    }
}

fn variance(x: &Tensor, axes: &[isize], ddof: f64, root: bool) -> Result<Tensor> {
    let name = if root { "std" } else { "var" };
    let axes = normalize_axes(axes, x.rank()).map_err(|e| e.with_op(name, &[x.spec()]))?;
    run::call(Op::Variance(Variance { axes: axes.into(), ddof, root }), [x.into()])
}

/// Brings reduced axes back, with extent 1.
fn keep(x: &Tensor, axes: &[isize], result: Tensor) -> Result<Tensor> {
    result.reshape(reduced_shape(x.shape(), &normalize_axes(axes, x.rank())?, true))
}
