//! Discrete Fourier transforms. Complex values are pairs of real tensors of one shape, the real and the imaginary parts:
//! every function here takes and gives such pairs.
//!
//! ```
//! # use ubique_core::{Result, Tensor};
//! use ubique_core::op::fft::{self, FftNorm};
//!
//! /// A circular convolution of two signals along the last axis.
//! fn convolve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
//!     let (ar, ai) = fft::rfft(a, None, -1, FftNorm::Backward)?;
//!     let (br, bi) = fft::rfft(b, None, -1, FftNorm::Backward)?;
//!     let (re, im) = ((&ar * &br - &ai * &bi).tensor()?, (ar * bi + ai * br).tensor()?);
//!     fft::irfft(&re, &im, a.shape().last().copied(), -1, FftNorm::Backward)
//! }
//! ```

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::{Device, run};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::require_axis;
use crate::op::lanes::{Lanes, widened};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, require_float, require_same_dtype};
use crate::shape::{Shape, TensorSpec, normalize_axes, normalize_axis};
use crate::tensor::Tensor;

/// By what a transform of `n` elements is scaled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FftNorm {
    /// The inverse transform by 1/n, the forward one not at all.
    #[default]
    Backward,
    /// Both by 1/√n, so that they keep lengths.
    Ortho,
    /// The forward transform by 1/n, the inverse one not at all.
    Forward,
}

impl FftNorm {
    /// Every way.
    pub const ALL: [FftNorm; 3] = [FftNorm::Backward, FftNorm::Ortho, FftNorm::Forward];

    /// The norm under which the transform in the other direction has the same scale.
    fn reversed(self) -> FftNorm {
        match self {
            FftNorm::Backward => FftNorm::Forward,
            FftNorm::Ortho => FftNorm::Ortho,
            FftNorm::Forward => FftNorm::Backward,
        }
    }
}

/// The transform along an axis of `n` elements: `y[k] = s · Σⱼ x[j] · exp(∓2πi·jk/n)`, with the minus sign forward and the
/// plus sign inverse. Operands are real and imaginary parts, or the real parts alone; results are real and imaginary parts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fft {
    /// The axis.
    pub axis: usize,
    /// Whether it is the inverse transform.
    pub inverse: bool,
    /// What the scale `s` is.
    pub norm: FftNorm,
}

/// Up to this length a transform is one matrix product, where it is composed.
const DIRECT: usize = 64;
/// Lengths with a larger prime factor are not composed: the matrix of that factor would be slower than the host.
const LARGEST_PRIME: usize = 512;

impl Fft {
    /// The scale for a length.
    pub fn scale(&self, n: usize) -> f64 {
        match (self.norm, self.inverse) {
            (FftNorm::Backward, false) | (FftNorm::Forward, true) => 1.0,
            (FftNorm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            _ => 1.0 / n as f64,
        }
    }

    /// Real and imaginary part of `exp(∓2πi·jk/n)`.
    fn root(&self, j: usize, k: usize, n: usize) -> (f64, f64) {
        let turn = (j as u128 * k as u128 % n as u128) as f64 / n as f64;
        let (sin, cos) = (turn * std::f64::consts::TAU).sin_cos();
        (cos, if self.inverse { sin } else { -sin })
    }

    /// The same direction along the last axis, unscaled.
    fn unscaled(&self, rank: usize) -> Fft {
        let norm = if self.inverse { FftNorm::Forward } else { FftNorm::Backward };
        Fft { axis: rank - 1, inverse: self.inverse, norm }
    }

    /// The transform of the last axis, `n` elements, in the first step: the whole of it by one matrix, or
    /// (Cooley and Tukey, 1965) a factor of it by a matrix and the rest by a shorter transform.
    fn last_axis(&self, re: &Tensor, im: &Tensor) -> Result<[Tensor; 2]> {
        let n = re.shape()[re.rank() - 1];
        let factor = factor(n);
        if factor == n {
            return self.by_matrix(re, im, self.scale(n));
        }
        // j = j₁·rest + j₂ and k = k₁ + factor·k₂: sums over j₁, a turn by j₂·k₁/n, sums over j₂.
        let rest = n / factor;
        let lead = &re.shape()[..re.rank() - 1];
        let shaped = |x: &Tensor, last: &[usize]| x.reshape(lead.iter().chain(last).copied().collect::<Shape>());
        let columns = |x: &Tensor| shaped(x, &[factor, rest])?.t();
        let [re, im] = self.by_matrix(&columns(re)?, &columns(im)?, self.scale(n))?;
        let turns = (0..rest * factor).map(|at| self.root(at / factor, at % factor, n));
        let [cos, sin] = tables(turns, &[rest, factor], &re)?;
        let (turned_re, turned_im) = ((&re * &cos - &im * &sin).tensor()?, (re * sin + im * cos).tensor()?);
        let rule = self.unscaled(turned_re.rank());
        let parts = run::call_many(Op::Fft(rule), &[&turned_re.t()?, &turned_im.t()?])?;
        let [re, im] = parts.as_slice() else { return Err(Error::backend("a transform has two outputs")) };
        Ok([shaped(&re.t()?, &[n])?, shaped(&im.t()?, &[n])?])
    }

    /// `[re, im] · [[C, S], [-S, C]]`, where C and S are real and imaginary parts of the roots: one real matrix product.
    fn by_matrix(&self, re: &Tensor, im: &Tensor, scale: f64) -> Result<[Tensor; 2]> {
        let n = re.shape()[re.rank() - 1];
        let roots = (0..n * n).map(|at| self.root(at / n, at % n, n)).map(|(c, s)| (c * scale, s * scale));
        let [cos, sin] = tables(roots, &[n, n], re)?;
        let upper = Tensor::concat(&[&cos, &sin], 1)?;
        let lower = Tensor::concat(&[&sin.neg()?, &cos], 1)?;
        let both = Tensor::concat(&[re, im], -1)?.matmul(&Tensor::concat(&[&upper, &lower], 0)?)?;
        Ok([both.narrow(-1, 0, n)?, both.narrow(-1, n as isize, n)?])
    }
}

/// Pairs as two tensors of the dtype and on the device of another.
fn tables(pairs: impl Iterator<Item = (f64, f64)>, shape: &[usize], like: &Tensor) -> Result<[Tensor; 2]> {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let tensor =
        |values| Tensor::from_host(RefTensor::float(shape, like.dtype(), values).to_host()?, &like.device().inner());
    Ok([tensor(first)?, tensor(second)?])
}

/// The prime factors of a number, in ascending order.
fn primes(mut n: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    let mut p = 2;
    while p <= n / p {
        while n.is_multiple_of(p) {
            factors.push(p);
            n /= p;
        }
        p += 1;
    }
    if n > 1 {
        factors.push(n);
    }
    factors
}

/// The largest factor of a length that one matrix is worth it for: the largest up to [`DIRECT`], or its largest prime.
fn factor(n: usize) -> usize {
    let largest = primes(n).last().copied().unwrap_or(1);
    (1..=DIRECT.min(n)).rev().find(|&f| n.is_multiple_of(f) && f > 1).unwrap_or(1).max(largest)
}

impl Rule for Fft {
    fn name(&self) -> &'static str {
        if self.inverse { "ifft" } else { "fft" }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let x = match inputs {
            [re] => re,
            [re, im] => {
                require_same_dtype(re, im)?;
                if re.shape != im.shape {
                    let shapes = format!("real parts are {}, imaginary parts {}", re.shape, im.shape);
                    return Err(Error::shape(shapes));
                }
                re
            }
            _ => return Err(Error::value(format!("takes real and imaginary parts, got {} operands", inputs.len()))),
        };
        require_float(x)?;
        if require_axis(&x.shape, self.axis)? == 0 {
            return Err(Error::shape(format!("axis {} is empty; a transform needs at least one element", self.axis)));
        }
        Ok(Specs::Many(vec![x.clone(), x.clone()]))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE)
    }

    /// The transform's matrix is symmetric, so its conjugate transpose is that of the other direction.
    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let back = Fft { axis: self.axis, inverse: !self.inverse, norm: self.norm.reversed() };
        let parts = run::call_many(Op::Fft(back), &[&call.grad_or_zeros(0)?, &call.grad_or_zeros(1)?])?;
        Ok(parts.into_iter().take(call.operands()).map(Some).collect())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let Some(n) = inputs.first().and_then(|x| x.shape().get(self.axis).copied()) else { return Ok(None) };
        if primes(n).last().is_some_and(|&p| p > LARGEST_PRIME) {
            return Ok(None);
        }
        widened(inputs, |inputs| {
            let re = inputs[0].movedim(self.axis as isize, -1)?;
            let im = match inputs.get(1) {
                Some(im) => im.movedim(self.axis as isize, -1)?,
                None => re.zeros_like()?,
            };
            self.last_axis(&re, &im)?.iter().map(|part| part.movedim(-1, self.axis as isize)?.contiguous()).collect()
        })
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let re = inputs[0].floats();
        let im = inputs.get(1).map_or_else(|| vec![0.0; re.len()], RefTensor::floats);
        let lanes = Lanes::new(inputs[0].shape(), self.axis);
        let (n, scale) = (lanes.len, self.scale(lanes.len));
        let roots: Vec<(f64, f64)> = (0..n).map(|k| self.root(1, k, n)).collect();
        let (mut out_re, mut out_im) = (vec![0.0; re.len()], vec![0.0; re.len()]);
        for start in lanes.starts() {
            let (a, b) = (lanes.lane(&re, start), lanes.lane(&im, start));
            for k in 0..n {
                let (mut sum_re, mut sum_im) = (0.0, 0.0);
                for j in 0..n {
                    let (cos, sin) = roots[(j as u128 * k as u128 % n as u128) as usize];
                    sum_re += a[j] * cos - b[j] * sin;
                    sum_im += a[j] * sin + b[j] * cos;
                }
                out_re[start + k * lanes.inner] = sum_re * scale;
                out_im[start + k * lanes.inner] = sum_im * scale;
            }
        }
        let part = |values, spec: &TensorSpec| RefTensor::float(spec.shape.clone(), spec.dtype, values);
        Ok(vec![part(out_re, &outputs[0]), part(out_im, &outputs[1])])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for inverse in [false, true] {
            let fft = |axis, norm| Case::new(Fft { axis, inverse, norm });
            let pair = |case: Case, shape: &[usize], dtype: DType| case.input(shape, dtype).input(shape, dtype);
            for dtype in DType::FLOATS {
                for norm in FftNorm::ALL {
                    cases.push(pair(fft(1, norm), &[7, 3], dtype));
                    cases.push(pair(fft(1, norm), &[2, 5, 3], dtype));
                    cases.push(fft(0, norm).input([6, 2], dtype));
                }
                for n in [1, 2, 3, 4, 5, 8, 12, 97] {
                    cases.push(pair(fft(0, FftNorm::Backward), &[n], dtype));
                    cases.push(pair(fft(0, FftNorm::Ortho), &[n, 3], dtype));
                    cases.push(fft(1, FftNorm::Backward).input([5, n], dtype));
                }
                cases.push(pair(fft(1, FftNorm::Ortho), &[3, 1000], dtype));
                cases.push(pair(fft(0, FftNorm::Ortho), &[1021, 2], dtype).not_smooth());
                cases.push(pair(fft(1, FftNorm::Backward), &[40, 64, 20], dtype));
                cases.push(fft(0, FftNorm::Backward).input([64, 30, 30], dtype));
            }
            cases.push(pair(fft(1, FftNorm::Backward), &[0, 3], DType::F32));
            cases.push(fft(0, FftNorm::Backward).input([3, 0], DType::F32));
            // Only the constant: exact in every dtype.
            let constant = Fill::Values(vec![1.0]);
            cases.push(fft(0, FftNorm::Forward).input_with([16], DType::F16, constant));
        }
        cases
    }
}

/// The operand with `n` elements along an axis: cut, or with zeros behind.
fn sized(x: &Tensor, axis: isize, n: usize) -> Result<Tensor> {
    let extent = x.shape()[x.shape().axis(axis)?];
    if n <= extent { x.narrow(axis, 0, n) } else { x.pad_axis(axis, 0, n - extent, 0) }
}

fn extent(x: &Tensor, axis: isize) -> Result<usize> {
    Ok(x.shape()[normalize_axis(axis, x.rank())?])
}

fn pair(parts: Vec<Tensor>) -> Result<(Tensor, Tensor)> {
    let parts = <[Tensor; 2]>::try_from(parts);
    let [re, im] = parts.map_err(|_| Error::backend("a transform has two outputs"))?;
    Ok((re, im))
}

/// A transform of given direction and length.
fn transform(op: Fft, parts: &[&Tensor], n: Option<usize>, axis: isize) -> Result<(Tensor, Tensor)> {
    let rule = || {
        let rank = parts.first().map_or(0, |x| x.rank());
        let op = Fft { axis: normalize_axis(axis, rank)?, ..op.clone() };
        let parts = parts.iter().map(|x| n.map_or_else(|| Ok((*x).clone()), |n| sized(x, axis, n)));
        Ok((op, parts.collect::<Result<Vec<_>>>()?))
    };
    let specs = || parts.iter().map(|x| x.spec()).collect::<Vec<_>>();
    let (op, sized) = rule().map_err(|e: Error| e.with_op(op.name(), &specs()))?;
    pair(run::call_many(Op::Fft(op), &sized.iter().collect::<Vec<_>>())?)
}

fn forward(norm: FftNorm) -> Fft {
    Fft { axis: 0, inverse: false, norm }
}

fn inverse(norm: FftNorm) -> Fft {
    Fft { axis: 0, inverse: true, norm }
}

/// The transform `y[k] = s · Σⱼ x[j] · exp(-2πi·jk/n)` along an axis. With `n` given, the axis is cut to that length or
/// filled up with zeros first. The results have the operands' shape, with `n` along the axis. Any floating-point dtype;
/// half precision is computed in f32.
///
/// # Errors
/// Where shapes or dtypes of the two parts differ, the axis is out of range or the length is 0, or the dtype is not floating
/// point.
pub fn fft(re: &Tensor, im: &Tensor, n: Option<usize>, axis: isize, norm: FftNorm) -> Result<(Tensor, Tensor)> {
    transform(forward(norm), &[re, im], n, axis)
}

/// The inverse of [`fft`]: `y[k] = s · Σⱼ x[j] · exp(2πi·jk/n)`.
///
/// # Errors
/// As [`fft`].
pub fn ifft(re: &Tensor, im: &Tensor, n: Option<usize>, axis: isize, norm: FftNorm) -> Result<(Tensor, Tensor)> {
    transform(inverse(norm), &[re, im], n, axis)
}

/// The transform of real values: only the `n/2 + 1` first elements along the axis, as the others are their conjugates in
/// reverse.
///
/// # Errors
/// As [`fft`].
pub fn rfft(x: &Tensor, n: Option<usize>, axis: isize, norm: FftNorm) -> Result<(Tensor, Tensor)> {
    let (re, im) = transform(forward(norm), &[x], n, axis)?;
    let half = extent(&re, axis)? / 2 + 1;
    Ok((re.narrow(axis, 0, half)?, im.narrow(axis, 0, half)?))
}

/// The inverse of [`rfft`]: the real values, `n` along the axis, whose transform begins with the `n/2 + 1` elements given
/// (cut, or filled up with zeros, where there are others). By default `n` is `2·(m - 1)` for `m` elements; odd lengths have
/// to be said. The imaginary parts of the first element and, for an even `n`, of the last do not matter.
///
/// # Errors
/// As [`fft`].
pub fn irfft(re: &Tensor, im: &Tensor, n: Option<usize>, axis: isize, norm: FftNorm) -> Result<Tensor> {
    let fail = |e: Error| e.with_op("irfft", &[re.spec(), im.spec()]);
    let n = match n {
        Some(n) => n,
        None => 2 * extent(re, axis).map_err(fail)?.saturating_sub(1),
    };
    let whole = || {
        if n == 0 {
            return Err(Error::shape("a transform needs at least one element; say n"));
        }
        let (re, im) = (sized(re, axis, n / 2 + 1)?, sized(im, axis, n / 2 + 1)?);
        let mirrored = |x: &Tensor| x.narrow(axis, 1, n.div_ceil(2) - 1)?.flip(&[axis]);
        Ok((Tensor::concat(&[&re, &mirrored(&re)?], axis)?, Tensor::concat(&[&im, &mirrored(&im)?.neg()?], axis)?))
    };
    let (re, im) = whole().map_err(fail)?;
    Ok(ifft(&re, &im, None, axis, norm)?.0)
}

/// [`fft`] along several axes (all of them where the list is empty).
///
/// # Errors
/// As [`fft`]; also where an axis is named twice.
pub fn fftn(re: &Tensor, im: &Tensor, axes: &[isize], norm: FftNorm) -> Result<(Tensor, Tensor)> {
    over(fft, re, im, axes, norm)
}

/// The inverse of [`fftn`].
///
/// # Errors
/// As [`fftn`].
pub fn ifftn(re: &Tensor, im: &Tensor, axes: &[isize], norm: FftNorm) -> Result<(Tensor, Tensor)> {
    over(ifft, re, im, axes, norm)
}

/// The transform of real values along several axes (all of them where the list is empty): [`rfft`] along the last of the
/// list, then [`fft`] along the others.
///
/// # Errors
/// As [`fftn`].
pub fn rfftn(x: &Tensor, axes: &[isize], norm: FftNorm) -> Result<(Tensor, Tensor)> {
    let (last, others) = split(x, axes).map_err(|e| e.with_op("rfftn", &[x.spec()]))?;
    let (re, im) = rfft(x, None, last, norm)?;
    if others.is_empty() { Ok((re, im)) } else { fftn(&re, &im, &others, norm) }
}

/// The inverse of [`rfftn`], with `n` elements along the last axis of the list as in [`irfft`].
///
/// # Errors
/// As [`fftn`].
pub fn irfftn(re: &Tensor, im: &Tensor, n: Option<usize>, axes: &[isize], norm: FftNorm) -> Result<Tensor> {
    let (last, others) = split(re, axes).map_err(|e| e.with_op("irfftn", &[re.spec(), im.spec()]))?;
    if others.is_empty() {
        return irfft(re, im, n, last, norm);
    }
    let (re, im) = ifftn(re, im, &others, norm)?;
    irfft(&re, &im, n, last, norm)
}

type Along = fn(&Tensor, &Tensor, Option<usize>, isize, FftNorm) -> Result<(Tensor, Tensor)>;

fn over(along: Along, re: &Tensor, im: &Tensor, axes: &[isize], norm: FftNorm) -> Result<(Tensor, Tensor)> {
    let axes = normalize_axes(axes, re.rank()).map_err(|e| e.with_op("fftn", &[re.spec(), im.spec()]))?;
    axes.into_iter().try_fold((re.clone(), im.clone()), |(re, im), axis| along(&re, &im, None, axis as isize, norm))
}

/// The last of a list of axes, all of the tensor's where it is empty, and the others.
fn split(x: &Tensor, axes: &[isize]) -> Result<(isize, Vec<isize>)> {
    normalize_axes(axes, x.rank())?;
    let all: Vec<isize> = if axes.is_empty() { (0..x.rank() as isize).collect() } else { axes.to_vec() };
    let (last, others) = all.split_last().ok_or_else(|| Error::shape("a rank-0 tensor has no axis to transform"))?;
    Ok((*last, others.to_vec()))
}

/// The frequencies that the elements of an [`fft`] of length `n` stand for, in cycles per unit of `spacing`, the distance
/// between samples: `[0, 1, …, ⌈n/2⌉ - 1, -⌊n/2⌋, …, -1] / (n · spacing)`.
///
/// # Errors
/// Where the dtype is not floating point or the spacing is 0.
pub fn fftfreq(n: usize, spacing: f64, dtype: DType, device: &Device) -> Result<Tensor> {
    let start = -((n / 2) as f64);
    let span = frequencies("fftfreq", n, spacing, dtype)?;
    let ascending = Tensor::arange(start, start + n as f64, 1.0, dtype, device)?;
    (ifftshift(&ascending, &[0])? / span).tensor()
}

/// The frequencies that the elements of an [`rfft`] of `n` real values stand for: `[0, 1, …, ⌊n/2⌋] / (n · spacing)`.
///
/// # Errors
/// As [`fftfreq`].
pub fn rfftfreq(n: usize, spacing: f64, dtype: DType, device: &Device) -> Result<Tensor> {
    let span = frequencies("rfftfreq", n, spacing, dtype)?;
    (Tensor::arange(0.0, (n / 2) as f64 + 1.0, 1.0, dtype, device)? / span).tensor()
}

/// Over what the samples reach, by which frequencies are divided.
fn frequencies(op: &str, n: usize, spacing: f64, dtype: DType) -> Result<f64> {
    if !dtype.is_float() {
        return Err(Error::dtype(format!("needs a floating-point dtype, got {dtype}")).with_op(op, &[]));
    }
    let span = n as f64 * spacing;
    if n > 0 && span == 0.0 || !span.is_finite() {
        return Err(Error::value(format!("frequencies of samples over a span of {span}")).with_op(op, &[]));
    }
    Ok(if n == 0 { 1.0 } else { span })
}

/// The element of frequency 0 moved to the middle of each of the given axes (all of them where the list is empty).
///
/// # Errors
/// Where an axis is out of range or named twice.
pub fn fftshift(x: &Tensor, axes: &[isize]) -> Result<Tensor> {
    shifted("fftshift", x, axes, |n| (n / 2) as isize)
}

/// The inverse of [`fftshift`].
///
/// # Errors
/// As [`fftshift`].
pub fn ifftshift(x: &Tensor, axes: &[isize]) -> Result<Tensor> {
    shifted("ifftshift", x, axes, |n| -((n / 2) as isize))
}

fn shifted(op: &str, x: &Tensor, axes: &[isize], by: impl Fn(usize) -> isize) -> Result<Tensor> {
    let axes = normalize_axes(axes, x.rank()).map_err(|e| e.with_op(op, &[x.spec()]))?;
    let shifts: Vec<isize> = axes.iter().map(|&axis| by(x.shape()[axis])).collect();
    x.roll(&shifts, &axes.iter().map(|&axis| axis as isize).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_split_into_what_a_matrix_is_worth_it_for() {
        assert_eq!(primes(1), []);
        assert_eq!(primes(360), [2, 2, 2, 3, 3, 5]);
        assert_eq!(primes(997), [997]);
        assert_eq!([1, 12, 97, 128, 1000, 194].map(factor), [1, 12, 97, 64, 50, 97]);
    }

    #[test]
    fn misfits_are_refused() {
        let spec = |shape: &[usize], dtype| TensorSpec::new(shape, dtype);
        let rule = Fft { axis: 1, inverse: false, norm: FftNorm::Ortho };
        let why = |inputs: &[TensorSpec]| rule.infer(inputs).unwrap_err().to_string();
        assert!(why(&[spec(&[2, 0], DType::F32)]).contains("axis 1 is empty"));
        assert!(why(&[spec(&[2, 3], DType::F32), spec(&[2, 4], DType::F32)]).contains("[2, 4]"));
        assert!(why(&[spec(&[2], DType::F32)]).contains("out of range"));
        assert!(why(&[spec(&[2, 3], DType::I32)]).contains("cast first"));
        assert!(rule.infer(&[]).is_err());
    }
}
