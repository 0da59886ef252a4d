//! Functions of each element alone: of one operand, of two, and comparisons.

use ubique_core::op::binary::Rhs;
use ubique_core::{Result, Tensor};

use super::{Row, one};
use crate::call::{Call, Outcome, unmapped};

pub const ROWS: &[Row] = &[
    ("abs", |c| unary(c, Tensor::abs)),
    ("acos", |c| unary(c, Tensor::acos)),
    ("acosh", |c| unary(c, Tensor::acosh)),
    ("asin", |c| unary(c, Tensor::asin)),
    ("asinh", |c| unary(c, Tensor::asinh)),
    ("atan", |c| unary(c, Tensor::atan)),
    ("atanh", |c| unary(c, Tensor::atanh)),
    ("bitwise_not", |c| unary(c, Tensor::bit_not)),
    ("ceil", |c| unary(c, Tensor::ceil)),
    ("cos", |c| unary(c, Tensor::cos)),
    ("cosh", |c| unary(c, Tensor::cosh)),
    ("erf", |c| unary(c, Tensor::erf)),
    ("erfc", |c| unary(c, Tensor::erfc)),
    ("exp", |c| unary(c, Tensor::exp)),
    ("exp2", |c| unary(c, Tensor::exp2)),
    ("expm1", |c| unary(c, Tensor::expm1)),
    ("floor", |c| unary(c, Tensor::floor)),
    ("frac", |c| unary(c, Tensor::fract)),
    ("isfinite", |c| test(c, Tensor::is_finite)),
    ("isinf", |c| test(c, Tensor::is_inf)),
    ("isnan", |c| test(c, Tensor::is_nan)),
    ("log", |c| unary(c, Tensor::log)),
    ("log10", |c| unary(c, Tensor::log10)),
    ("log1p", |c| unary(c, Tensor::log1p)),
    ("log2", |c| unary(c, Tensor::log2)),
    ("logical_not", |c| unary(c, |x| x.eq(0))),
    ("neg", |c| unary(c, Tensor::neg)),
    ("reciprocal", |c| unary(c, Tensor::recip)),
    ("round", |c| unary(c, Tensor::round)),
    ("rsqrt", |c| unary(c, Tensor::rsqrt)),
    ("sigmoid", |c| unary(c, Tensor::sigmoid)),
    ("sign", |c| unary(c, Tensor::sign)),
    ("sin", |c| unary(c, Tensor::sin)),
    ("sinh", |c| unary(c, Tensor::sinh)),
    ("sqrt", |c| unary(c, Tensor::sqrt)),
    ("square", |c| unary(c, Tensor::square)),
    ("tan", |c| unary(c, Tensor::tan)),
    ("tanh", |c| unary(c, Tensor::tanh)),
    ("trunc", |c| unary(c, Tensor::trunc)),
    ("nn.functional.celu", |c| one(c.input()?.celu(c.float(1, "alpha", 1.0)?))),
    ("nn.functional.elu", |c| one(c.input()?.elu(c.float(1, "alpha", 1.0)?))),
    ("nn.functional.gelu", gelu),
    ("nn.functional.glu", |c| one(c.input()?.glu(c.int(1, "dim", -1)?))),
    ("nn.functional.hardsigmoid", |c| unary(c, Tensor::hard_sigmoid)),
    ("nn.functional.hardtanh", hardtanh),
    ("nn.functional.leaky_relu", |c| one(c.input()?.leaky_relu(c.float(1, "negative_slope", 0.01)?))),
    ("nn.functional.logsigmoid", |c| unary(c, Tensor::log_sigmoid)),
    ("nn.functional.mish", |c| unary(c, Tensor::mish)),
    ("nn.functional.prelu", |c| one(c.input()?.prelu(c.tensor(1, "weight")?))),
    ("nn.functional.relu", |c| unary(c, Tensor::relu)),
    ("nn.functional.relu6", |c| unary(c, |x| x.clamp(0, 6))),
    ("nn.functional.selu", |c| unary(c, Tensor::selu)),
    ("nn.functional.silu", |c| unary(c, Tensor::silu)),
    ("nn.functional.softplus", softplus),
    ("add", |c| scaled(c, |a, b| a.add(b))),
    ("sub", |c| scaled(c, |a, b| a.sub(b))),
    ("rsub", rsub),
    ("atan2", |c| binary(c, |a, b| a.atan2(b))),
    ("bitwise_and", |c| binary(c, |a, b| a.bit_and(b))),
    ("bitwise_left_shift", |c| binary(c, |a, b| a.shl(b))),
    ("bitwise_or", |c| binary(c, |a, b| a.bit_or(b))),
    ("bitwise_right_shift", |c| binary(c, |a, b| a.shr(b))),
    ("bitwise_xor", |c| binary(c, |a, b| a.bit_xor(b))),
    ("div/no_rounding_mode", |c| binary(c, |a, b| a.div(b))),
    ("div/trunc_rounding", trunc_div),
    ("fmod", |c| binary(c, |a, b| a.fmod(b))),
    ("hypot", |c| binary(c, |a, b| a.hypot(b))),
    ("max/binary", |c| binary(c, |a, b| a.maximum(b))),
    ("maximum", |c| binary(c, |a, b| a.maximum(b))),
    ("min/binary", |c| binary(c, |a, b| a.minimum(b))),
    ("minimum", |c| binary(c, |a, b| a.minimum(b))),
    ("mul", |c| binary(c, |a, b| a.mul(b))),
    ("pow", |c| binary(c, |a, b| a.pow(b))),
    ("remainder", |c| binary(c, |a, b| a.rem(b))),
    ("true_divide", |c| binary(c, |a, b| a.div(b))),
    ("eq", |c| binary(c, |a, b| a.eq(b))),
    ("ge", |c| binary(c, |a, b| a.ge(b))),
    ("gt", |c| binary(c, |a, b| a.gt(b))),
    ("le", |c| binary(c, |a, b| a.le(b))),
    ("lt", |c| binary(c, |a, b| a.lt(b))),
    ("ne", |c| binary(c, |a, b| a.ne(b))),
    ("logical_and", |c| logical(c, |a, b| a.bit_and(b))),
    ("logical_or", |c| logical(c, |a, b| a.bit_or(b))),
    ("logical_xor", |c| logical(c, |a, b| a.bit_xor(b))),
    ("clamp", clamp),
    ("clamp_max", |c| binary_named(c, "max", |a, b| a.minimum(b))),
    ("clamp_min", |c| binary_named(c, "min", |a, b| a.maximum(b))),
];

type Binary = for<'a> fn(&'a Tensor, Rhs<'a>) -> Result<Tensor>;

fn unary(c: &Call<'_>, f: fn(&Tensor) -> Result<Tensor>) -> Outcome {
    one(f(c.input()?))
}

/// Tests that only floats have here, and all dtypes there.
fn test(c: &Call<'_>, f: fn(&Tensor) -> Result<Tensor>) -> Outcome {
    if c.dtype.is_float() { unary(c, f) } else { unmapped("a test of floats on integers") }
}

fn binary_named(c: &Call<'_>, name: &str, f: Binary) -> Outcome {
    let x = c.input()?;
    one(f(x, c.right(1, name, x)?))
}

fn binary(c: &Call<'_>, f: Binary) -> Outcome {
    binary_named(c, "other", f)
}

/// Sums and differences of which PyTorch can scale the right operand.
fn scaled(c: &Call<'_>, f: Binary) -> Outcome {
    let Some(alpha) = c.scalar(2, "alpha")? else { return binary(c, f) };
    let (x, other) = (c.input()?, c.tensor(1, "other")?);
    one(f(x, other.mul(alpha)?.into()))
}

/// `other - alpha · x`.
fn rsub(c: &Call<'_>) -> Outcome {
    let x = c.input()?;
    let subtrahend = match c.scalar(2, "alpha")? {
        Some(alpha) => x.mul(alpha)?,
        None => x.clone(),
    };
    one(subtrahend.neg()?.add(c.right(1, "other", x)?))
}

fn logical(c: &Call<'_>, f: Binary) -> Outcome {
    let (a, b) = (c.input()?, c.tensor(1, "other")?);
    one(f(&a.ne(0)?, b.ne(0)?.into()))
}

fn trunc_div(c: &Call<'_>) -> Outcome {
    let mode = c.text(usize::MAX, "rounding_mode")?;
    match (mode, c.dtype.is_float()) {
        (Some("trunc"), true) => binary(c, |a, b| a.div(b)?.trunc()),
        (Some("trunc"), false) => binary(c, |a, b| a.div(b)),
        _ => unmapped("a rounding mode"),
    }
}

fn gelu(c: &Call<'_>) -> Outcome {
    match c.text(usize::MAX, "approximate")? {
        Some("tanh") => unary(c, Tensor::gelu_tanh),
        _ => unary(c, Tensor::gelu),
    }
}

fn hardtanh(c: &Call<'_>) -> Outcome {
    let (x, min, max) = (c.input()?, c.scalar(1, "min_val")?, c.scalar(2, "max_val")?);
    one(x.clamp(min.unwrap_or((-1).into()), max.unwrap_or(1.into())))
}

/// `softplus(beta · x) / beta`, which PyTorch replaces by `x` where `beta · x` exceeds a threshold.
fn softplus(c: &Call<'_>) -> Outcome {
    let (x, beta) = (c.input()?, c.float(1, "beta", 1.0)?);
    let scaled = x.mul(beta)?;
    let soft = scaled.softplus()?.div(beta)?;
    one(x.select(&scaled.gt(c.float(2, "threshold", 20.0)?)?, &soft))
}

fn clamp(c: &Call<'_>) -> Outcome {
    let mut x = c.input()?.clone();
    for (position, name) in [(1, "min"), (2, "max")] {
        if c.get(position, name).is_some() {
            let bound = c.right(position, name, &x)?;
            x = if name == "min" { x.maximum(bound)? } else { x.minimum(bound)? };
        }
    }
    Ok(vec![x])
}
