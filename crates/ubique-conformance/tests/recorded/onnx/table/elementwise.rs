//! Functions of each element alone: of one operand, of several, comparisons, logic and changes of dtype.

use ubique_core::{DType, Result, Scalar, Tensor};

use super::{Row, one};
use crate::call::{Outcome, unmapped};
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("Abs", |n| unary(n, Tensor::abs)),
    ("Acos", |n| unary(n, Tensor::acos)),
    ("Acosh", |n| unary(n, Tensor::acosh)),
    ("Asin", |n| unary(n, Tensor::asin)),
    ("Asinh", |n| unary(n, Tensor::asinh)),
    ("Atan", |n| unary(n, Tensor::atan)),
    ("Atanh", |n| unary(n, Tensor::atanh)),
    ("BitwiseNot", |n| unary(n, Tensor::bit_not)),
    ("Ceil", |n| unary(n, Tensor::ceil)),
    ("Cos", |n| unary(n, Tensor::cos)),
    ("Cosh", |n| unary(n, Tensor::cosh)),
    ("Erf", |n| unary(n, Tensor::erf)),
    ("Exp", |n| unary(n, Tensor::exp)),
    ("Floor", |n| unary(n, Tensor::floor)),
    ("HardSwish", |n| unary(n, |x| (x * x.hard_sigmoid()).tensor())),
    ("Identity", |n| unary(n, |x| Ok(x.clone()))),
    ("IsNaN", |n| unary(n, Tensor::is_nan)),
    ("Log", |n| unary(n, Tensor::log)),
    ("Mish", |n| unary(n, Tensor::mish)),
    ("Neg", |n| unary(n, Tensor::neg)),
    ("Not", |n| unary(n, Tensor::not)),
    ("Reciprocal", |n| unary(n, Tensor::recip)),
    ("Relu", |n| unary(n, Tensor::relu)),
    ("Round", |n| unary(n, Tensor::round)),
    ("Sigmoid", |n| unary(n, Tensor::sigmoid)),
    ("Sign", |n| unary(n, Tensor::sign)),
    ("Sin", |n| unary(n, Tensor::sin)),
    ("Sinh", |n| unary(n, Tensor::sinh)),
    ("Softplus", |n| unary(n, Tensor::softplus)),
    ("Softsign", |n| unary(n, |x| (x / (x.abs()? + 1.0)).tensor())),
    ("Sqrt", |n| unary(n, Tensor::sqrt)),
    ("Tan", |n| unary(n, Tensor::tan)),
    ("Tanh", |n| unary(n, Tensor::tanh)),
    ("Celu", |n| one(n.x(0)?.celu(n.float("alpha", 1.0)?))),
    ("Elu", |n| one(n.x(0)?.elu(n.float("alpha", 1.0)?))),
    ("Gelu", gelu),
    ("HardSigmoid", hard_sigmoid),
    ("IsInf", is_inf),
    ("LeakyRelu", |n| one(n.x(0)?.leaky_relu(n.float("alpha", 0.01)?))),
    ("Selu", selu),
    ("Shrink", shrink),
    ("Swish", swish),
    ("ThresholdedRelu", thresholded_relu),
    ("Add", |n| binary(n, |a, b| a.add(b))),
    ("Sub", |n| binary(n, |a, b| a.sub(b))),
    ("Mul", |n| binary(n, |a, b| a.mul(b))),
    ("Div", |n| binary(n, |a, b| a.div(b))),
    ("Mod", modulo),
    ("Pow", pow),
    ("PRelu", |n| binary(n, |x, slope| x.select(&x.ge(0)?, &x.mul(slope)?))),
    ("BitShift", bit_shift),
    ("BitwiseAnd", |n| binary(n, |a, b| a.bit_and(b))),
    ("BitwiseOr", |n| binary(n, |a, b| a.bit_or(b))),
    ("BitwiseXor", |n| binary(n, |a, b| a.bit_xor(b))),
    ("And", |n| binary(n, |a, b| a.bit_and(b))),
    ("Or", |n| binary(n, |a, b| a.bit_or(b))),
    ("Xor", |n| binary(n, |a, b| a.bit_xor(b))),
    ("Equal", |n| binary(n, |a, b| a.eq(b))),
    ("Greater", |n| binary(n, |a, b| a.gt(b))),
    ("GreaterOrEqual", |n| binary(n, |a, b| a.ge(b))),
    ("Less", |n| binary(n, |a, b| a.lt(b))),
    ("LessOrEqual", |n| binary(n, |a, b| a.le(b))),
    ("Max", |n| folded(n, |a, b| a.maximum(b))),
    ("Mean", |n| one(folded(n, |a, b| a.add(b))?[0].div(n.count()))),
    ("Min", |n| folded(n, |a, b| a.minimum(b))),
    ("Sum", |n| folded(n, |a, b| a.add(b))),
    ("Clip", clip),
    ("Where", |n| one(n.x(1)?.select(n.x(0)?, n.x(2)?))),
    ("Cast", cast),
    ("BitCast", |n| one(n.x(0)?.bitcast(n.dtype("to", DType::F32)?))),
    ("CastLike", |n| one(n.x(0)?.cast(n.x(1)?.dtype()))),
    ("Dropout", dropout),
];

fn unary(n: &Node<'_>, f: fn(&Tensor) -> Result<Tensor>) -> Outcome {
    one(f(n.x(0)?))
}

fn binary(n: &Node<'_>, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Outcome {
    one(f(n.x(0)?, n.x(1)?))
}

/// Any number of operands, two by two.
fn folded(n: &Node<'_>, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Outcome {
    let operands = n.all()?;
    one(operands[1..].iter().try_fold(operands[0].clone(), |sum, x| f(&sum, x)))
}

fn gelu(n: &Node<'_>) -> Outcome {
    one(if n.text("approximate", "none")? == "tanh" { n.x(0)?.gelu_tanh() } else { n.x(0)?.gelu() })
}

fn hard_sigmoid(n: &Node<'_>) -> Outcome {
    let (x, alpha, beta) = (n.x(0)?, n.float("alpha", 0.2)?, n.float("beta", 0.5)?);
    one((x * alpha + beta).tensor()?.clamp(0, 1))
}

fn is_inf(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    one(match (n.flag("detect_negative", true)?, n.flag("detect_positive", true)?) {
        (true, true) => x.is_inf(),
        (true, false) => x.eq(f64::NEG_INFINITY),
        (false, true) => x.eq(f64::INFINITY),
        (false, false) => x.is_inf()?.bit_and(&x.is_nan()?),
    })
}

fn selu(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    if !n.has("alpha") && !n.has("gamma") {
        return one(x.selu());
    }
    let (alpha, gamma) = (n.float("alpha", 1.0)?, n.float("gamma", 1.0)?);
    one(x.elu(alpha)?.mul(gamma))
}

fn shrink(n: &Node<'_>) -> Outcome {
    let (x, bias, lambda) = (n.x(0)?, n.float("bias", 0.0)?, n.float("lambd", 0.5)?);
    let below = x.add(bias)?.select(&x.lt(-lambda)?, &x.zeros_like()?)?;
    one(x.sub(bias)?.select(&x.gt(lambda)?, &below))
}

fn swish(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    match n.float("alpha", 1.0)? {
        1.0 => one(x.silu()),
        alpha => one(x.mul(&x.mul(alpha)?.sigmoid()?)),
    }
}

fn thresholded_relu(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    one(x.masked_fill(&x.le(n.float("alpha", 1.0)?)?, 0))
}

/// The remainder has the sign of the divisor or, with `fmod`, of the dividend.
fn modulo(n: &Node<'_>) -> Outcome {
    let (a, b) = (n.x(0)?, n.x(1)?);
    if !n.flag("fmod", false)? {
        return one(a.rem(b));
    }
    let magnitude = a.abs()?.rem(&b.abs()?)?;
    one(magnitude.neg()?.select(&a.lt(0)?, &magnitude))
}

/// The result has the base's dtype, whatever the exponent's.
fn pow(n: &Node<'_>) -> Outcome {
    let (base, exponent) = (n.x(0)?, n.x(1)?);
    if exponent.dtype().is_float() && !base.dtype().is_float() {
        return one(base.cast(exponent.dtype())?.pow(exponent)?.cast(base.dtype()));
    }
    one(base.pow(&exponent.cast(base.dtype())?))
}

fn bit_shift(n: &Node<'_>) -> Outcome {
    match n.text("direction", "")? {
        "LEFT" => binary(n, |a, b| a.shl(b)),
        _ => binary(n, |a, b| a.shr(b)),
    }
}

fn clip(n: &Node<'_>) -> Outcome {
    let mut x = n.x(0)?.clone();
    if let Some(min) = n.maybe(1)? {
        x = x.maximum(min)?;
    }
    if let Some(max) = n.maybe(2)? {
        x = x.minimum(max)?;
    }
    Ok(vec![x])
}

fn cast(n: &Node<'_>) -> Outcome {
    // Only for 8-bit floats.
    n.ignore("saturate");
    one(n.x(0)?.cast(n.dtype("to", DType::F32)?))
}

/// The operand as it is, and a mask that is true everywhere.
fn dropout(n: &Node<'_>) -> Outcome {
    let x = n.x(0)?;
    n.ignore("seed");
    n.ignore("ratio");
    let ratio = n.floats(1)?.map_or(0.5, |ratio| ratio[0]);
    if n.value(2, 0)? != 0 && ratio != 0.0 {
        return unmapped("random elements");
    }
    let mask = Tensor::full(x.shape(), Scalar::Bool(true), DType::Bool, n.device())?;
    Ok(vec![x.clone(), mask])
}
