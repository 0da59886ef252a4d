//! Normalisation of each row to mean 0 and variance 1 (layer norm), to mean square 1 (RMS norm), or of groups of channels.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::lanes::widened;
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, require_float, require_same_dtype};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// `(x - mean) / √(variance + eps) · weight + bias` over the last axes (Ba et al. 2016), or without `center`
/// `x / √(mean of x² + eps) · weight + bias` (Zhang and Sennrich 2019).
///
/// Operands: x, then the weight and the bias where there are any, both of the shape of the normalised axes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LayerNorm {
    /// How many axes, from the last, are normalised together.
    pub axes: usize,
    /// Whether the mean is taken away first.
    pub center: bool,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// What is added to the variance.
    pub eps: f64,
}

/// Refuses another number of operands than `count`.
pub(crate) fn require_count(inputs: &[TensorSpec], count: usize) -> Result<()> {
    if inputs.len() == count {
        return Ok(());
    }
    Err(Error::value(format!("takes {count} operands with these parameters, got {}", inputs.len())))
}

/// Refuses a parameter (weight, bias, statistics) of another dtype or shape than the normalised tensor asks for.
pub(crate) fn require_parameter(parameter: &TensorSpec, name: &str, shape: &Shape, dtype: DType) -> Result<()> {
    require_same_dtype(parameter, &TensorSpec { shape: shape.clone(), dtype })?;
    if parameter.shape == *shape {
        return Ok(());
    }
    Err(Error::shape(format!("{name} has shape {}, but must have {shape}", parameter.shape)))
}

impl LayerNorm {
    /// The shape of the normalised axes.
    fn row_shape(&self, x: &TensorSpec) -> Result<Shape> {
        let rank = x.shape.rank();
        match rank.checked_sub(self.axes) {
            Some(first) if self.axes > 0 => Ok(Shape::from(&x.shape[first..])),
            _ => Err(Error::shape(format!("cannot normalise the last {} axes of a rank-{rank} tensor", self.axes))),
        }
    }

    /// Checks the tensor and the parameters; gives the shape of a row.
    fn check(&self, x: &TensorSpec, parameters: &[TensorSpec]) -> Result<Shape> {
        require_float(x)?;
        let row = self.row_shape(x)?;
        for (parameter, name) in parameters.iter().zip(if self.weight { ["weight", "bias"] } else { ["bias", ""] }) {
            require_parameter(parameter, name, &row, x.dtype)?;
        }
        Ok(row)
    }

    /// The normalised axes, counted from the end.
    fn last_axes(&self) -> Vec<isize> {
        (1..=self.axes as isize).map(|axis| -axis).collect()
    }

    /// `x` without its mean where it is taken away, and the reciprocal of its root mean square.
    fn statistics(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let axes = self.last_axes();
        let without_mean = |x: &Tensor| (x - x.mean_keepdim(&axes)?).tensor();
        // Twice, because the mean is rounded, which shows where the elements lie close together.
        let centred = if self.center { without_mean(&without_mean(x)?)? } else { x.clone() };
        let scale = (centred.square()?.mean_keepdim(&axes)? + self.eps).tensor()?.rsqrt()?;
        Ok((centred, scale))
    }

    /// Normalises a row of reference values, and gives the reciprocal root that they were multiplied by.
    fn normalize(&self, row: &mut [f64]) -> f64 {
        let n = row.len() as f64;
        // As in `statistics`.
        for _ in 0..if self.center { 2 } else { 0 } {
            let mean = row.iter().sum::<f64>() / n;
            row.iter_mut().for_each(|x| *x -= mean);
        }
        let scale = 1.0 / (row.iter().map(|x| x * x).sum::<f64>() / n + self.eps).sqrt();
        row.iter_mut().for_each(|x| *x *= scale);
        scale
    }
}

/// Small, broad, with empty axes, and with several normalised axes.
const SHAPES: [(&[usize], usize); 7] =
    [(&[3, 5], 1), (&[2, 3, 4], 2), (&[7], 1), (&[0, 3], 1), (&[3, 0], 1), (&[2, 1031], 1), (&[37, 33], 1)];

fn cases(make: impl Fn(LayerNorm, &[usize], DType) -> Case) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::FLOATS {
        for center in [true, false] {
            for (shape, axes) in SHAPES {
                for (weight, bias) in [(false, false), (true, true), (true, false), (false, true)] {
                    cases.push(make(LayerNorm { axes, center, weight, bias, eps: 1e-5 }, shape, dtype));
                }
            }
        }
    }
    cases
}

impl Rule for LayerNorm {
    fn name(&self) -> &'static str {
        if self.center { "layer_norm" } else { "rms_norm" }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 1 + self.weight as usize + self.bias as usize)?;
        self.check(&inputs[0], &inputs[1..])?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(if self.weight { Saves::only(&[0, 1]) } else { Saves::only(&[0]) })
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let mut inputs = vec![call.input(0)?];
        if self.weight {
            inputs.push(call.input(1)?);
        }
        inputs.push(call.grad(0)?);
        let grads = run::call_many(Op::LayerNormBackward(LayerNormBackward(self.clone())), &inputs)?;
        Ok(grads.into_iter().map(Some).collect())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        widened(inputs, |inputs| {
            let (centred, scale) = self.statistics(&inputs[0])?;
            let mut y = (centred * scale).tensor()?;
            if self.weight {
                y = (y * &inputs[1]).tensor()?;
            }
            if self.bias {
                y = (y + &inputs[1 + self.weight as usize]).tensor()?;
            }
            Ok(vec![y])
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let row = self.row_shape(&outputs[0])?.elements()?.max(1);
        let weight = self.weight.then(|| inputs[1].floats());
        let bias = self.bias.then(|| inputs[1 + self.weight as usize].floats());
        let mut values = inputs[0].floats();
        for lane in values.chunks_mut(row) {
            self.normalize(lane);
            for (i, x) in lane.iter_mut().enumerate() {
                *x = *x * weight.as_ref().map_or(1.0, |w| w[i]) + bias.as_ref().map_or(0.0, |b| b[i]);
            }
        }
        Ok(vec![RefTensor::float(outputs[0].shape.clone(), outputs[0].dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let make = |op: LayerNorm, shape: &[usize], dtype| {
            let row = &shape[shape.len() - op.axes..];
            let count = op.weight as usize + op.bias as usize;
            (0..count).fold(Case::new(op).input(shape, dtype), |case, _| case.input(row, dtype))
        };
        let mut cases = cases(make);
        let plain = LayerNorm { axes: 1, center: true, weight: false, bias: false, eps: 1e-5 };
        let infinite = Fill::Values(vec![1.0, f64::INFINITY, 2.0, f64::NAN, 3.0, 4.0, 5.0, 7.0]);
        cases.push(Case::new(plain.clone()).input_with([4, 2], DType::F32, infinite).not_smooth());
        // Far from 0 the variance must not be lost to cancellation.
        cases.push(Case::new(plain).input_with([3, 40], DType::F32, Fill::Uniform(100.0, 101.0)).not_smooth());
        cases
    }
}

/// The gradients of [`LayerNorm`]: operands x, the weight where there is one, and the gradient of the result; outputs
/// the gradients of x, the weight and the bias, as there are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LayerNormBackward(pub LayerNorm);

impl Rule for LayerNormBackward {
    fn name(&self) -> &'static str {
        if self.0.center { "layer_norm_backward" } else { "rms_norm_backward" }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 2 + self.0.weight as usize)?;
        let (x, g) = (&inputs[0], &inputs[inputs.len() - 1]);
        let row = self.0.check(x, &inputs[1..inputs.len() - 1])?;
        require_parameter(g, "the gradient", &x.shape, x.dtype)?;
        let parameter = TensorSpec { shape: row, dtype: x.dtype };
        parameter.shape.bytes(x.dtype)?;
        Ok(match self.0.weight as usize + self.0.bias as usize {
            0 => x.clone().into(),
            n => Specs::Many([x.clone()].into_iter().chain(std::iter::repeat_n(parameter, n)).collect()),
        })
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let op = &self.0;
        let Some(x) = inputs.first() else { return Ok(None) };
        let row = op.row_shape(&x.spec())?;
        widened(inputs, |inputs| {
            let (x, g, axes) = (&inputs[0], &inputs[inputs.len() - 1], op.last_axes());
            let (centred, scale) = op.statistics(x)?;
            let normal = (centred * &scale).tensor()?;
            let inner = if op.weight { (g * &inputs[1]).tensor()? } else { g.clone() };
            let along = (&normal * (&inner * &normal).tensor()?.mean_keepdim(&axes)).tensor()?;
            let rest = if op.center { (&inner - inner.mean_keepdim(&axes)?).tensor()? } else { inner.clone() };
            let mut grads = vec![(scale * (rest - along)).tensor()?];
            if op.weight {
                grads.push((g * normal).tensor()?.sum_to(&row)?);
            }
            if op.bias {
                grads.push(g.sum_to(&row)?);
            }
            Ok(grads)
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let op = &self.0;
        let row = op.row_shape(&outputs[0])?.elements()?;
        let (x, mut gx) = (inputs[0].floats(), inputs[inputs.len() - 1].floats());
        let (mut gw, mut gb) = (vec![0.0; row], vec![0.0; row]);
        for (x, g) in x.chunks(row.max(1)).zip(gx.chunks_mut(row.max(1))) {
            let mut normal = x.to_vec();
            let scale = op.normalize(&mut normal);
            for i in 0..row {
                gw[i] += g[i] * normal[i];
                gb[i] += g[i];
            }
            if op.weight {
                g.iter_mut().zip(inputs[1].floats()).for_each(|(g, w)| *g *= w);
            }
            let average = if op.center { g.iter().sum::<f64>() / row as f64 } else { 0.0 };
            let along = g.iter().zip(&normal).map(|(g, n)| g * n).sum::<f64>() / row as f64;
            g.iter_mut().zip(&normal).for_each(|(g, n)| *g = scale * (*g - average - n * along));
        }
        let grads = [Some(gx), op.weight.then_some(gw), op.bias.then_some(gb)];
        let grads = grads.into_iter().flatten().zip(outputs);
        Ok(grads.map(|(values, spec)| RefTensor::float(spec.shape.clone(), spec.dtype, values)).collect())
    }

    fn cases() -> Vec<Case> {
        cases(|op, shape, dtype| {
            let row = &shape[shape.len() - op.axes..];
            let weight = op.weight;
            let case = Case::new(LayerNormBackward(op)).input(shape, dtype);
            let case = if weight { case.input(row, dtype) } else { case };
            case.input(shape, dtype)
        })
    }
}

/// Layer norm of groups of channels (Wu and He 2018): operands x `[N, C, …]`, then a weight and a bias `[C]` where there are any.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupNorm {
    /// Into how many groups the channels are divided.
    pub groups: usize,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// What is added to the variance.
    pub eps: f64,
}

/// The number of channels of `[N, C, …]`.
pub(crate) fn channels(x: &TensorSpec) -> Result<usize> {
    match x.shape.get(1) {
        Some(&channels) => Ok(channels),
        None => Err(Error::shape(format!("needs a batch and a channel axis, got {}", x.shape))),
    }
}

/// A parameter `[C]` as `[C, 1, …]`, to broadcast with a tensor `[N, C, …]` of the given rank.
pub(crate) fn per_channel(parameter: &Tensor, rank: usize) -> Result<Tensor> {
    let mut shape = Shape::repeat(1, rank.saturating_sub(1));
    if let Some(first) = shape.as_mut_slice().first_mut() {
        *first = parameter.elements();
    }
    parameter.reshape(shape)
}

impl GroupNorm {
    /// The normalisation without weight and bias, of `[N, groups, C / groups · …]`.
    fn core(&self) -> LayerNorm {
        LayerNorm { axes: 1, center: true, weight: false, bias: false, eps: self.eps }
    }
}

impl Rule for GroupNorm {
    fn name(&self) -> &'static str {
        "group_norm"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        require_count(inputs, 1 + self.weight as usize + self.bias as usize)?;
        let x = &inputs[0];
        require_float(x)?;
        let channels = channels(x)?;
        if self.groups == 0 || channels % self.groups != 0 {
            return Err(Error::shape(format!("{channels} channels cannot be divided into {} groups", self.groups)));
        }
        for (parameter, name) in inputs[1..].iter().zip(if self.weight { ["weight", "bias"] } else { ["bias", ""] }) {
            require_parameter(parameter, name, &channels.into(), x.dtype)?;
        }
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::DECOMPOSED
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let Some(x) = inputs.first() else { return Ok(None) };
        let rank = x.rank();
        // Where there are no elements the result is as empty, and still depends on the parameters.
        let mut y = match x.elements() {
            0 => x.clone(),
            n => {
                let batch = x.shape()[0];
                let rows = x.reshape([batch, self.groups, n / batch / self.groups])?;
                run::call(Op::LayerNorm(self.core()), [(&rows).into()])?.reshape(x.shape())?
            }
        };
        if self.weight {
            y = (y * per_channel(&inputs[1], rank)?).tensor()?;
        }
        if self.bias {
            y = (y + per_channel(&inputs[1 + self.weight as usize], rank)?).tensor()?;
        }
        Ok(Some(vec![y]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let spec = &outputs[0];
        let channels = channels(spec)?;
        let weight = self.weight.then(|| inputs[1].floats());
        let bias = self.bias.then(|| inputs[1 + self.weight as usize].floats());
        let mut values = inputs[0].floats();
        let inner = values.len() / (spec.shape[0] * channels).max(1);
        for (group, lane) in values.chunks_mut((inner * channels / self.groups).max(1)).enumerate() {
            self.core().normalize(lane);
            for (i, x) in lane.iter_mut().enumerate() {
                let channel = group % self.groups * (channels / self.groups) + i / inner;
                *x = *x * weight.as_ref().map_or(1.0, |w| w[channel]) + bias.as_ref().map_or(0.0, |b| b[channel]);
            }
        }
        Ok(vec![RefTensor::float(spec.shape.clone(), spec.dtype, values)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for (shape, groups) in
                [(&[2, 6, 3, 2][..], 3), (&[2, 4], 2), (&[1, 4, 5], 1), (&[0, 4, 2], 2), (&[2, 4, 0], 2)]
            {
                for (weight, bias) in [(false, false), (true, true), (true, false), (false, true)] {
                    let count = weight as usize + bias as usize;
                    let case = Case::new(GroupNorm { groups, weight, bias, eps: 1e-5 }).input(shape, dtype);
                    cases.push((0..count).fold(case, |case, _| case.input(shape[1], dtype)));
                }
            }
        }
        cases
    }
}

impl Tensor {
    /// Each row over the last `axes` axes brought to mean 0 and variance 1, then times `weight` and plus `bias`, which
    /// have the shape of those axes: `(x - mean) / √(variance + eps) · weight + bias` (Ba et al. 2016). The variance
    /// is that of the population (divided by the count). Any floating-point dtype.
    ///
    /// # Errors
    /// Where there are not that many axes, or a parameter's shape, dtype or device does not fit.
    pub fn layer_norm(&self, axes: usize, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let op = LayerNorm { axes, center: true, weight: weight.is_some(), bias: bias.is_some(), eps };
        run::call_list(Op::LayerNorm(op), &with_parameters(&[self], weight, bias))
    }

    /// Each row over the last `axes` axes brought to mean square 1, then times `weight`, which has the shape of those
    /// axes: `x / √(mean of x² + eps) · weight` (Zhang and Sennrich 2019). Any floating-point dtype.
    ///
    /// # Errors
    /// As [`Tensor::layer_norm`].
    pub fn rms_norm(&self, axes: usize, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        let op = LayerNorm { axes, center: false, weight: weight.is_some(), bias: false, eps };
        run::call_list(Op::LayerNorm(op), &with_parameters(&[self], weight, None))
    }

    /// `[N, C, …]` with the channels in `groups` groups, each group of each sample brought to mean 0 and variance 1,
    /// then times `weight` and plus `bias`, both `[C]` (Wu and He 2018). With as many groups as channels this is
    /// instance norm. Any floating-point dtype.
    ///
    /// # Errors
    /// Where the channels cannot be divided so, or a parameter's shape, dtype or device does not fit.
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let op = GroupNorm { groups, weight: weight.is_some(), bias: bias.is_some(), eps };
        run::call_list(Op::GroupNorm(op), &with_parameters(&[self], weight, bias))
    }
}

/// The operands, then the parameters that there are.
pub(crate) fn with_parameters<'a>(
    operands: &[&'a Tensor],
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
) -> Vec<&'a Tensor> {
    operands.iter().copied().chain(weight).chain(bias).collect()
}
