//! Activations with a parameter: leaky ReLU, ELU, CELU; PReLU and GLU are composed.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::widened;
use crate::op::layer_norm::per_channel;
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands, require_float};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// An elementwise function with a parameter. Above 0 each is x itself.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activation {
    /// Below 0 `slope · x`.
    LeakyRelu {
        /// The slope below 0.
        slope: f64,
    },
    /// Below 0 `alpha · (eˣ - 1)`.
    Elu {
        /// Minus the limit at -∞.
        alpha: f64,
    },
    /// Below 0 `alpha · (e^(x/alpha) - 1)`.
    Celu {
        /// Minus the limit at -∞; not 0.
        alpha: f64,
    },
}

impl Activation {
    /// The function of one value.
    pub fn eval(self, x: f64) -> f64 {
        match self {
            _ if x > 0.0 => x,
            Activation::LeakyRelu { slope } => slope * x,
            Activation::Elu { alpha } => alpha * x.exp_m1(),
            Activation::Celu { alpha } => alpha * (x / alpha).exp_m1(),
        }
    }

    /// The derivative below 0; above it is 1. Operands above 0 are harmless.
    fn slope(self, x: &Tensor) -> Result<Tensor> {
        // What is not chosen must stay finite too: its gradient is 0 times its slope.
        match self {
            Activation::LeakyRelu { slope } => Tensor::full((), slope, x.dtype(), x.device()),
            Activation::Elu { alpha } => (x.minimum(0)?.exp()? * alpha).tensor(),
            Activation::Celu { alpha } => (x.minimum(0)? / alpha).tensor()?.exp(),
        }
    }
}

impl Rule for Activation {
    fn name(&self) -> &'static str {
        match self {
            Activation::LeakyRelu { .. } => "leaky_relu",
            Activation::Elu { .. } => "elu",
            Activation::Celu { .. } => "celu",
        }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_float(x)?;
        match *self {
            Activation::LeakyRelu { slope: parameter }
            | Activation::Elu { alpha: parameter }
            | Activation::Celu { alpha: parameter }
                if !parameter.is_finite() =>
            {
                Err(Error::value(format!("the parameter is {parameter}")))
            }
            Activation::Celu { alpha: 0.0 } => Err(Error::value("alpha is 0, by which CELU divides")),
            _ => Ok(Specs::Like(0)),
        }
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (x, g) = (call.input(0)?, call.grad(0)?);
        Ok(Cotangents::one(g.select(&x.gt(0)?, &(g * self.slope(x)?).tensor()?)?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let x = &inputs[0];
            let below = match *self {
                Activation::LeakyRelu { slope } => (x * slope).tensor()?,
                Activation::Elu { alpha } => (x.minimum(0)?.expm1()? * alpha).tensor()?,
                Activation::Celu { alpha } => ((x.minimum(0)? / alpha).tensor()?.expm1()? * alpha).tensor()?,
            };
            Ok(vec![x.select(&x.gt(0)?, &below)?])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let values = inputs[0].floats().into_iter().map(|x| self.eval(x)).collect();
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        let ops =
            [Activation::LeakyRelu { slope: 0.01 }, Activation::Elu { alpha: 1.3 }, Activation::Celu { alpha: 0.7 }];
        for op in ops {
            for dtype in DType::FLOATS {
                for shape in [&[2, 3, 5][..], &[], &[0, 3], &[1003]] {
                    cases.push(Case::new(op).input(shape, dtype));
                }
                cases.push(Case::new(op).input_with([13], dtype, Fill::Special));
            }
        }
        cases
    }
}

impl Tensor {
    /// x above 0 and `slope · x` below (Maas et al. 2013). Elementwise; any floating-point dtype.
    ///
    /// # Errors
    /// Where the slope is not finite or the dtype not floating point.
    pub fn leaky_relu(&self, slope: f64) -> Result<Tensor> {
        run::call(Op::Activation(Activation::LeakyRelu { slope }), [self.into()])
    }

    /// x above 0 and `alpha · (eˣ - 1)` below (Clevert et al. 2015). Elementwise; any floating-point dtype.
    ///
    /// # Errors
    /// Where alpha is not finite or the dtype not floating point.
    pub fn elu(&self, alpha: f64) -> Result<Tensor> {
        run::call(Op::Activation(Activation::Elu { alpha }), [self.into()])
    }

    /// x above 0 and `alpha · (e^(x/alpha) - 1)` below (Barron 2017). Elementwise; any floating-point dtype.
    ///
    /// # Errors
    /// Where alpha is 0 or not finite, or the dtype not floating point.
    pub fn celu(&self, alpha: f64) -> Result<Tensor> {
        run::call(Op::Activation(Activation::Celu { alpha }), [self.into()])
    }

    /// x above 0 and `weight · x` below (He et al. 2015). The weight has one element, or one for each channel of
    /// `[N, C, …]`; it has a gradient too.
    ///
    /// # Errors
    /// Where the weight has another shape, or dtypes or devices differ.
    pub fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        let fits = weight.elements() == 1 || weight.rank() == 1 && self.shape().get(1) == Some(&weight.elements());
        if !fits {
            let message = format!(
                "the weight {} has neither one element nor one for each channel of {}",
                weight.shape(),
                self.shape()
            );
            return Err(Error::shape(message).with_op("prelu", &[self.spec(), weight.spec()]));
        }
        let weight = if weight.elements() == 1 { weight.reshape(())? } else { per_channel(weight, self.rank())? };
        self.select(&self.gt(0)?, &(self * weight).tensor()?)
    }

    /// The first half along an axis times the sigmoid of the second half (Dauphin et al. 2017).
    ///
    /// # Errors
    /// Where the axis is out of range or its extent odd, or the dtype is not floating point.
    pub fn glu(&self, axis: isize) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("glu", &[self.spec()]);
        let extent = self.shape()[self.shape().axis(axis).map_err(fail)?];
        if !extent.is_multiple_of(2) {
            return Err(fail(Error::shape(format!("axis {axis} has the odd extent {extent} and cannot be halved"))));
        }
        let half = extent / 2;
        let (value, gate) = (self.narrow(axis, 0, half)?, self.narrow(axis, half as isize, half)?);
        (value * gate.sigmoid()).into()
    }
}
