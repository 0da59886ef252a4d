//! Normalisation of each channel over batch and space (Ioffe and Szegedy 2015): with the batch's own statistics in
//! training, with given ones in inference.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::{Lanes, accumulator};
use crate::op::layer_norm::{channels, per_channel, require_count, require_parameter, with_parameters};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, require_float};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// `(x - mean) / √(variance + eps) · weight + bias` for each channel of `[N, C, …]`.
///
/// Operands: x; in inference the mean and the variance `[C]`; then the weight and the bias `[C]` where there are any.
/// Outputs: the result; in training also the batch's mean and (population) variance. Statistics are f32 where x is
/// half-precision, and of its dtype otherwise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BatchNorm {
    /// Whether the statistics are those of the batch.
    pub training: bool,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// What is added to the variance.
    pub eps: f64,
}

/// Every axis but that of the channels.
fn batch_axes(rank: usize) -> Vec<isize> {
    (0..rank as isize).filter(|&axis| axis != 1).collect()
}

/// The spec of a channel's statistics.
fn statistic(x: &TensorSpec) -> Result<TensorSpec> {
    let spec = TensorSpec::new(channels(x)?, accumulator(x.dtype));
    spec.shape.bytes(spec.dtype)?;
    Ok(spec)
}

/// The tensor in the dtype of its statistics.
fn wide(x: &Tensor) -> Result<Tensor> {
    x.cast(accumulator(x.dtype()))
}

/// How many elements each channel has.
fn per_channel_count(shape: &Shape) -> usize {
    shape.iter().enumerate().filter(|(axis, _)| *axis != 1).map(|(_, extent)| extent).product()
}

/// Refuses weight and bias that do not fit the channels.
fn check_parameters(x: &TensorSpec, parameters: &[TensorSpec], weight: bool) -> Result<()> {
    let shape = Shape::from(channels(x)?);
    for (parameter, name) in parameters.iter().zip(if weight { ["weight", "bias"] } else { ["bias", ""] }) {
        require_parameter(parameter, name, &shape, x.dtype)?;
    }
    Ok(())
}

impl BatchNorm {
    /// Where the weight and the bias begin among the operands.
    fn first_parameter(&self) -> usize {
        if self.training { 1 } else { 3 }
    }

    /// The result from the tensor and its statistics.
    fn apply(&self, x: &Tensor, mean: &Tensor, variance: &Tensor, parameters: &[Tensor]) -> Result<Tensor> {
        let rank = x.rank();
        let mut scale = (variance + self.eps).tensor()?.rsqrt()?;
        if self.weight {
            scale = (scale * wide(&parameters[0])?).tensor()?;
        }
        let mut y = ((wide(x)? - per_channel(mean, rank)?) * per_channel(&scale, rank)).tensor()?;
        if self.bias {
            y = (y + per_channel(&wide(&parameters[self.weight as usize])?, rank)?).tensor()?;
        }
        y.cast(x.dtype())
    }

    /// Mean and variance of each channel of reference values.
    fn moments(x: &RefTensor) -> Result<(Vec<f64>, Vec<f64>)> {
        let (values, lanes) = (x.floats(), Lanes::new(x.shape(), 1));
        let count = (lanes.outer * lanes.inner) as f64;
        let (mut means, mut variances) = (vec![0.0; lanes.len], vec![0.0; lanes.len]);
        let channel = |i: usize| i / lanes.inner % lanes.len;
        for (i, x) in values.iter().enumerate() {
            means[channel(i)] += x;
        }
        means.iter_mut().for_each(|m| *m /= count);
        for (i, x) in values.iter().enumerate() {
            variances[channel(i)] += (x - means[channel(i)]).powi(2);
        }
        variances.iter_mut().for_each(|v| *v /= count);
        Ok((means, variances))
    }
}

const SHAPES: [&[usize]; 5] = [&[4, 3], &[2, 3, 5], &[3, 2, 4, 3], &[0, 2], &[2, 2, 1031]];

fn positive() -> Fill {
    Fill::Uniform(0.3, 2.0)
}

impl Rule for BatchNorm {
    fn name(&self) -> &'static str {
        if self.training { "batch_norm" } else { "batch_norm_inference" }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let first = self.first_parameter();
        require_count(inputs, first + self.weight as usize + self.bias as usize)?;
        let x = &inputs[0];
        require_float(x)?;
        check_parameters(x, &inputs[first..], self.weight)?;
        let statistic = statistic(x)?;
        if self.training {
            return Ok(Specs::Many(vec![x.clone(), statistic.clone(), statistic]));
        }
        require_parameter(&inputs[1], "the mean", &statistic.shape, statistic.dtype)?;
        require_parameter(&inputs[2], "the variance", &statistic.shape, statistic.dtype)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        match (self.training, self.weight) {
            (false, _) => Traits::DECOMPOSED,
            (true, true) => Traits::own(Saves::only(&[0, 1]).and_outputs()),
            (true, false) => Traits::own(Saves::only(&[0]).and_outputs()),
        }
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (x, mean, variance) = (call.input(0)?, call.output(1)?, call.output(2)?);
        let g = call.grad_or_zeros(0)?;
        let weight = if self.weight { Some(call.input(1)?) } else { None };
        let op = BatchNormBackward { weight: self.weight, bias: self.bias, eps: self.eps };
        let operands = with_parameters(&[x, mean, variance], weight, Some(&g));
        let mut grads = run::call_many(Op::BatchNormBackward(op), &operands)?;
        // The statistics are results too: what depends on them adds to the gradient of x.
        let (count, rank) = (per_channel_count(x.shape()) as f64, x.rank());
        if let (Ok(g), Some(grad)) = (call.grad(1), grads.first_mut()) {
            let more = per_channel(&(g / count).tensor()?, rank)?.cast(x.dtype())?;
            *grad = (&*grad + more).tensor()?;
        }
        if let (Ok(g), Some(grad)) = (call.grad(2), grads.first_mut()) {
            let slope = per_channel(&(g * (2.0 / count)).tensor()?, rank)?;
            let more = (slope * (wide(x)? - per_channel(mean, rank)?)).tensor()?.cast(x.dtype())?;
            *grad = (&*grad + more).tensor()?;
        }
        Ok(grads.into_iter().map(Some).collect())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let Some(x) = inputs.first() else { return Ok(None) };
        let parameters = inputs.get(self.first_parameter()..).unwrap_or_default();
        if !self.training {
            return Ok(Some(vec![self.apply(x, &inputs[1], &inputs[2], parameters)?]));
        }
        let axes = batch_axes(x.rank());
        let wide = wide(x)?;
        let mean = wide.mean(&axes)?;
        let variance = (wide - per_channel(&mean, x.rank())?).tensor()?.square()?.mean(&axes)?;
        Ok(Some(vec![self.apply(x, &mean, &variance, parameters)?, mean, variance]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let x = &inputs[0];
        let (mean, variance) = match self.training {
            true => Self::moments(x)?,
            false => (inputs[1].floats(), inputs[2].floats()),
        };
        let first = self.first_parameter();
        let weight = self.weight.then(|| inputs[first].floats());
        let bias = self.bias.then(|| inputs[first + self.weight as usize].floats());
        let lanes = Lanes::new(x.shape(), 1);
        let value = |(i, x): (usize, f64)| {
            let c = i / lanes.inner % lanes.len;
            let scale = weight.as_ref().map_or(1.0, |w| w[c]) / (variance[c] + self.eps).sqrt();
            (x - mean[c]) * scale + bias.as_ref().map_or(0.0, |b| b[c])
        };
        let y: Vec<f64> = x.floats().into_iter().enumerate().map(value).collect();
        let all = [y, mean, variance].into_iter().zip(outputs);
        Ok(all.map(|(values, spec)| RefTensor::float(spec.shape.clone(), spec.dtype, values)).collect())
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for training in [true, false] {
                for shape in SHAPES {
                    for (weight, bias) in [(false, false), (true, true), (true, false), (false, true)] {
                        let mut case = Case::new(BatchNorm { training, weight, bias, eps: 1e-5 }).input(shape, dtype);
                        if !training {
                            let wide = accumulator(dtype);
                            case = case.input(shape[1], wide).input_with(shape[1], wide, positive());
                        }
                        let count = weight as usize + bias as usize;
                        let case = (0..count).fold(case, |case, _| case.input(shape[1], dtype));
                        // The statistics of nothing are NaN.
                        cases.push(if shape[0] == 0 { case.not_smooth() } else { case });
                    }
                }
            }
        }
        cases
    }
}

/// The gradients of [`BatchNorm`] in training: operands x, the batch's mean and variance, the weight where there is one,
/// and the gradient of the result; outputs the gradients of x (through the statistics too), the weight and the bias, as
/// there are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BatchNormBackward {
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// What is added to the variance.
    pub eps: f64,
}

impl Rule for BatchNormBackward {
    fn name(&self) -> &'static str {
        "batch_norm_backward"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 4 + self.weight as usize)?;
        let (x, g) = (&inputs[0], &inputs[inputs.len() - 1]);
        require_float(x)?;
        let spec = statistic(x)?;
        require_parameter(&inputs[1], "the mean", &spec.shape, spec.dtype)?;
        require_parameter(&inputs[2], "the variance", &spec.shape, spec.dtype)?;
        check_parameters(x, &inputs[3..inputs.len() - 1], self.weight)?;
        require_parameter(g, "the gradient", &x.shape, x.dtype)?;
        let parameter = TensorSpec { shape: spec.shape, dtype: x.dtype };
        Ok(match self.weight as usize + self.bias as usize {
            0 => x.clone().into(),
            n => Specs::Many([x.clone()].into_iter().chain(std::iter::repeat_n(parameter, n)).collect()),
        })
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, mean, variance, .., g] = inputs else {
            return Err(Error::value("takes x, mean, variance and the gradient"));
        };
        let (dtype, rank, axes) = (x.dtype(), x.rank(), batch_axes(x.rank()));
        let count = per_channel_count(x.shape()) as f64;
        let g = wide(g)?;
        let root = (variance + self.eps).tensor()?.rsqrt()?;
        let normal = ((wide(x)? - per_channel(mean, rank)?) * per_channel(&root, rank)).tensor()?;
        let grad_bias = g.sum(&axes)?;
        let grad_weight = (&g * &normal).tensor()?.sum(&axes)?;
        let scale = if self.weight { (root * wide(&inputs[3])?).tensor()? } else { root };
        let average = per_channel(&(&grad_bias / count).tensor()?, rank)?;
        let along = per_channel(&(&grad_weight / count).tensor()?, rank)?;
        let grad = (per_channel(&scale, rank)? * (g - average - normal * along)).tensor()?;
        let grads = [Some(grad), self.weight.then_some(grad_weight), self.bias.then_some(grad_bias)];
        Ok(Some(grads.into_iter().flatten().map(|grad| grad.cast(dtype)).collect::<Result<_>>()?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let lanes = Lanes::new(inputs[0].shape(), 1);
        let (x, g) = (inputs[0].floats(), inputs[inputs.len() - 1].floats());
        let (mean, variance) = (inputs[1].floats(), inputs[2].floats());
        let weight = if self.weight { inputs[3].floats() } else { vec![1.0; lanes.len] };
        let channel = |i: usize| i / lanes.inner % lanes.len;
        let root = |c: usize| 1.0 / (variance[c] + self.eps).sqrt();
        let normal = |i: usize| (x[i] - mean[channel(i)]) * root(channel(i));
        let (mut gw, mut gb) = (vec![0.0; lanes.len], vec![0.0; lanes.len]);
        for (i, g) in g.iter().enumerate() {
            gw[channel(i)] += g * normal(i);
            gb[channel(i)] += g;
        }
        let count = (lanes.outer * lanes.inner) as f64;
        let grad = |(i, g): (usize, &f64)| {
            let c = channel(i);
            weight[c] * root(c) * (g - gb[c] / count - normal(i) * gw[c] / count)
        };
        let gx: Vec<f64> = g.iter().enumerate().map(grad).collect();
        let grads = [Some(gx), self.weight.then_some(gw), self.bias.then_some(gb)];
        let grads = grads.into_iter().flatten().zip(outputs);
        Ok(grads.map(|(values, spec)| RefTensor::float(spec.shape.clone(), spec.dtype, values)).collect())
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for shape in SHAPES {
                for (weight, bias) in [(false, false), (true, true), (true, false), (false, true)] {
                    let (c, wide) = (shape[1], accumulator(dtype));
                    let case = Case::new(BatchNormBackward { weight, bias, eps: 1e-5 }).input(shape, dtype);
                    let case = case.input(c, wide).input_with(c, wide, positive());
                    let case = if weight { case.input(c, dtype) } else { case };
                    cases.push(case.input(shape, dtype));
                }
            }
        }
        cases
    }
}

/// What [`Tensor::batch_norm`] gives.
#[derive(Clone, Debug)]
pub struct BatchNormed {
    /// The normalised tensor.
    pub output: Tensor,
    /// Each channel's mean over the batch.
    pub mean: Tensor,
    /// Each channel's variance over the batch, divided by the count (not by the count less one).
    pub variance: Tensor,
}

impl Tensor {
    /// `[N, C, …]` with each channel brought to mean 0 and variance 1 over the batch, then times `weight` and plus
    /// `bias`, both `[C]` (Ioffe and Szegedy 2015): the form for training. The statistics come along, to keep running
    /// averages of; they are f32 where this tensor is half-precision.
    ///
    /// # Errors
    /// Where the rank is below 2, the dtype not floating point, or a parameter's shape, dtype or device does not fit.
    pub fn batch_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<BatchNormed> {
        let op = BatchNorm { training: true, weight: weight.is_some(), bias: bias.is_some(), eps };
        match <[Tensor; 3]>::try_from(run::call_many(Op::BatchNorm(op), &with_parameters(&[self], weight, bias))?) {
            Ok([output, mean, variance]) => Ok(BatchNormed { output, mean, variance }),
            Err(list) => Err(Error::backend(format!("batch_norm gave {} outputs instead of 3", list.len()))),
        }
    }

    /// As [`Tensor::batch_norm`] with given statistics `[C]` (f32 where this tensor is half-precision, else of its
    /// dtype): the form for inference.
    ///
    /// # Errors
    /// As [`Tensor::batch_norm`], or where the statistics do not fit.
    pub fn batch_norm_inference(
        &self,
        mean: &Tensor,
        variance: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let op = BatchNorm { training: false, weight: weight.is_some(), bias: bias.is_some(), eps };
        run::call_list(Op::BatchNorm(op), &with_parameters(&[self, mean, variance], weight, bias))
    }
}
