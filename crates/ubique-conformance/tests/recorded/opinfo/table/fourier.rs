//! Fourier transforms. A complex tensor is a list of its real and its imaginary part.

use ubique_core::op::fft::{self, FftNorm};
use ubique_core::{Result, Tensor};

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};
use crate::record::Arg;

pub const ROWS: &[Row] = &[
    ("fft.fft", |c| complex(c, fft::fft)),
    ("fft.ifft", |c| complex(c, fft::ifft)),
    ("fft.fft2", |c| complex_axes(c, fft::fft, &[-2, -1])),
    ("fft.ifft2", |c| complex_axes(c, fft::ifft, &[-2, -1])),
    ("fft.fftn", |c| complex_axes(c, fft::fft, &[])),
    ("fft.ifftn", |c| complex_axes(c, fft::ifft, &[])),
    ("fft.rfft", |c| both(fft::rfft(c.input()?, length(c)?, c.int(2, "dim", -1)?, norm(c)?))),
    ("fft.irfft", |c| {
        let [re, im] = parts(c)?;
        one(fft::irfft(&re, &im, length(c)?, c.int(2, "dim", -1)?, norm(c)?))
    }),
    ("fft.rfft2", |c| real_axes(c, &[-2, -1])),
    ("fft.rfftn", |c| real_axes(c, &[])),
    ("fft.irfft2", |c| inverse_real_axes(c, &[-2, -1])),
    ("fft.irfftn", |c| inverse_real_axes(c, &[])),
    ("fft.fftshift", |c| shifted(c, fft::fftshift)),
    ("fft.ifftshift", |c| shifted(c, fft::ifftshift)),
];

type Along = fn(&Tensor, &Tensor, Option<usize>, isize, FftNorm) -> Result<(Tensor, Tensor)>;

fn both(result: Result<(Tensor, Tensor)>) -> Outcome {
    result.map(|(re, im)| vec![re, im]).map_err(Into::into)
}

/// The parts of the operand; a real one has imaginary parts of 0.
fn parts(c: &Call<'_>) -> Outcome<[Tensor; 2]> {
    if let Some(Arg::Tensor(re)) = c.get(0, "input") {
        return Ok([re.clone(), re.zeros_like()?]);
    }
    match c.tensors(0, "input")?.as_slice() {
        [re, im] => Ok([(*re).clone(), (*im).clone()]),
        _ => unmapped("no complex tensor"),
    }
}

fn norm(c: &Call<'_>) -> Outcome<FftNorm> {
    match c.text(3, "norm")? {
        None | Some("backward") => Ok(FftNorm::Backward),
        Some("ortho") => Ok(FftNorm::Ortho),
        Some("forward") => Ok(FftNorm::Forward),
        Some(other) => unmapped(format!("norm {other}")),
    }
}

fn length(c: &Call<'_>) -> Outcome<Option<usize>> {
    Ok(c.maybe_int(1, "n")?.map(isize::unsigned_abs))
}

fn complex(c: &Call<'_>, f: Along) -> Outcome {
    let [re, im] = parts(c)?;
    both(f(&re, &im, length(c)?, c.int(2, "dim", -1)?, norm(c)?))
}

/// The axes with their lengths: those named, or by default these (all of them where there are none, and as many of the last
/// as there are lengths).
fn axes(c: &Call<'_>, rank: usize, default: &[isize]) -> Outcome<Vec<(isize, Option<usize>)>> {
    let (lengths, named) = (c.ints(1, "s")?, c.ints(2, "dim")?);
    let axes = match (named.is_empty(), default.is_empty()) {
        (false, _) => named,
        (true, false) => default.to_vec(),
        (true, true) if lengths.is_empty() => (0..rank as isize).collect(),
        (true, true) => (-(lengths.len() as isize)..0).collect(),
    };
    let length = |i: usize| lengths.get(i).filter(|&&n| n >= 0).map(|n| n.unsigned_abs());
    Ok(axes.into_iter().enumerate().map(|(i, axis)| (axis, length(i))).collect())
}

fn complex_axes(c: &Call<'_>, f: Along, default: &[isize]) -> Outcome {
    let ([mut re, mut im], norm) = (parts(c)?, norm(c)?);
    for (axis, n) in axes(c, re.rank(), default)? {
        (re, im) = f(&re, &im, n, axis, norm)?;
    }
    Ok(vec![re, im])
}

/// Real along the last of the axes, then complex along the others; where no length is given by one call.
fn real_axes(c: &Call<'_>, default: &[isize]) -> Outcome {
    let (x, norm) = (c.input()?, norm(c)?);
    let axes = axes(c, x.rank(), default)?;
    if axes.iter().all(|(_, n)| n.is_none()) {
        return both(fft::rfftn(x, &axes.iter().map(|(axis, _)| *axis).collect::<Vec<_>>(), norm));
    }
    let Some(((last, n), others)) = axes.split_last() else { return unmapped("no axes") };
    let mut pair = fft::rfft(x, *n, *last, norm)?;
    for (axis, n) in others {
        pair = fft::fft(&pair.0, &pair.1, *n, *axis, norm)?;
    }
    both(Ok(pair))
}

fn inverse_real_axes(c: &Call<'_>, default: &[isize]) -> Outcome {
    let ([mut re, mut im], norm) = (parts(c)?, norm(c)?);
    let axes = axes(c, re.rank(), default)?;
    let Some(((last, n), others)) = axes.split_last() else { return unmapped("no axes") };
    if others.iter().all(|(_, n)| n.is_none()) {
        let axes: Vec<isize> = axes.iter().map(|(axis, _)| *axis).collect();
        return one(fft::irfftn(&re, &im, *n, &axes, norm));
    }
    for (axis, n) in others {
        (re, im) = fft::ifft(&re, &im, *n, *axis, norm)?;
    }
    one(fft::irfft(&re, &im, *n, *last, norm))
}

/// Of a complex tensor both parts are moved.
fn shifted(c: &Call<'_>, f: fn(&Tensor, &[isize]) -> Result<Tensor>) -> Outcome {
    let axes = c.ints(1, "dim")?;
    match c.get(0, "input") {
        Some(Arg::Tensor(x)) => one(f(x, &axes)),
        _ => Ok(c.tensors(0, "input")?.into_iter().map(|x| f(x, &axes)).collect::<Result<_>>()?),
    }
}
