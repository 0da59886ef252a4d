//! Elementwise ops of one operand: a table with a row for each function, and the change of dtype.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::scalar::Scalar;
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// Which dtypes a function takes, and what it gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Domain {
    /// Floats only.
    Float,
    /// Floats and integers.
    Number,
    /// Integers and bools.
    Bits,
    /// Bools.
    Bool,
    /// Floats in, bools out.
    Test,
}

/// The derivative times the gradient: from operand, result and gradient.
type Derivative = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// A row of the table: everything there is to know of one function.
struct Row {
    name: &'static str,
    domain: Domain,
    /// The function in f64.
    float: fn(f64) -> f64,
    /// The function on exact integers, for those that have it.
    int: fn(i128) -> i128,
    vjp: Option<Derivative>,
    saves: Saves,
    /// Where the function is smooth, to sample tests from.
    sample: (f64, f64),
    /// Activations come from simpler functions where a device has no kernel.
    decompose: Option<fn(&Tensor) -> Result<Tensor>>,
}

const ROW: Row = Row {
    name: "",
    domain: Domain::Float,
    float: |x| x,
    int: |x| x,
    vjp: None,
    saves: Saves::INPUTS,
    sample: (-2.0, 2.0),
    decompose: None,
};

/// The list of functions: variant, documentation and row. The macro makes of it the enum, the table and the methods, which
/// no function could.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident, $method:ident => $row:expr;)*) => {
        /// An elementwise function of one operand.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Unary {$($(#[$doc])* $name,)*}

        impl Unary {
            /// Every function.
            pub const ALL: &'static [Unary] = &[$(Unary::$name,)*];

            fn row(self) -> &'static Row {
                match self {$(Unary::$name => { const ROW_: Row = $row; &ROW_ })*}
            }
        }

        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Elementwise; shape and device stay.
            ///
            /// # Errors
            /// Where the dtype is not one that the function takes.
            pub fn $method(&self) -> Result<Tensor> {
                run::call(Op::Unary(Unary::$name), [self.into()])
            }
        )*}
    };
}

const FRAC_2_SQRT_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI;
const LN_2: f64 = std::f64::consts::LN_2;
const LN_10: f64 = std::f64::consts::LN_10;
/// √(2/π), of the tanh form of GELU (Hendrycks and Gimpel 2016).
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
/// SELU's constants (Klambauer et al. 2017).
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;

fn sigmoid64(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

/// `libm`'s function gives numbers for large negative operands too.
fn acosh64(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

fn softplus64(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p() + if x.is_nan() { x } else { 0.0 }
}

fn sign64(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

/// The derivative of softplus-like gates: σ(x).
fn normal_density(x: &Tensor) -> Result<Tensor> {
    ((x * x * -0.5).tensor()?.exp()? * 0.398_942_280_401_432_7).into()
}

unary! {
    /// Absolute value. The smallest signed integer stays itself (it wraps).
    Abs, abs => Row { name: "abs", domain: Domain::Number, float: f64::abs, int: |x| x.abs(), vjp: Some(|x, _, g| (g * x.sign()).into()), ..ROW };
    /// Negation; integers wrap.
    Neg, neg => Row { name: "neg", domain: Domain::Number, float: |x| -x, int: |x| -x, vjp: Some(|_, _, g| g.neg()), saves: Saves::NONE, ..ROW };
    /// -1, 0 or 1 by the sign; NaN stays, and zeros keep their sign.
    Sign, sign => Row { name: "sign", domain: Domain::Number, float: sign64, int: |x| x.signum(), vjp: Some(|_, _, g| g.zeros_like()), saves: Saves::NONE, ..ROW };
    /// eˣ.
    Exp, exp => Row { name: "exp", float: f64::exp, vjp: Some(|_, y, g| (g * y).into()), saves: Saves::OUTPUTS, ..ROW };
    /// 2ˣ.
    Exp2, exp2 => Row { name: "exp2", float: f64::exp2, vjp: Some(|_, y, g| (g * y * LN_2).into()), saves: Saves::OUTPUTS, ..ROW };
    /// eˣ - 1, accurate near 0.
    Expm1, expm1 => Row { name: "expm1", float: f64::exp_m1, vjp: Some(|_, y, g| (g * (y + 1.0)).into()), saves: Saves::OUTPUTS, ..ROW };
    /// Natural logarithm; NaN below 0, -∞ at 0.
    Log, log => Row { name: "log", float: f64::ln, vjp: Some(|x, _, g| (g / x).into()), sample: (0.1, 4.0), ..ROW };
    /// Logarithm to base 2.
    Log2, log2 => Row { name: "log2", float: f64::log2, vjp: Some(|x, _, g| (g / (x * LN_2)).into()), sample: (0.1, 4.0), ..ROW };
    /// Logarithm to base 10.
    Log10, log10 => Row { name: "log10", float: f64::log10, vjp: Some(|x, _, g| (g / (x * LN_10)).into()), sample: (0.1, 4.0), ..ROW };
    /// log(1 + x), accurate near 0.
    Log1p, log1p => Row { name: "log1p", float: f64::ln_1p, vjp: Some(|x, _, g| (g / (x + 1.0)).into()), sample: (-0.9, 4.0), ..ROW };
    /// Square root; NaN below 0.
    Sqrt, sqrt => Row { name: "sqrt", float: f64::sqrt, vjp: Some(|_, y, g| (g * 0.5 / y).into()), saves: Saves::OUTPUTS, sample: (0.1, 4.0), ..ROW };
    /// 1/√x.
    Rsqrt, rsqrt => Row { name: "rsqrt", float: |x| 1.0 / x.sqrt(), vjp: Some(|_, y, g| (g * y * y * y * -0.5).into()), saves: Saves::OUTPUTS, sample: (0.1, 4.0), ..ROW };
    /// Cube root, of negative numbers too.
    Cbrt, cbrt => Row { name: "cbrt", float: libm::cbrt, vjp: Some(|_, y, g| (g / (y * y * 3.0)).into()), saves: Saves::OUTPUTS, sample: (0.2, 3.0), ..ROW };
    /// 1/x.
    Recip, recip => Row { name: "recip", float: |x| 1.0 / x, vjp: Some(|_, y, g| (g * y * y).tensor()?.neg()), saves: Saves::OUTPUTS, sample: (0.2, 3.0), ..ROW };
    /// x².
    Square, square => Row { name: "square", domain: Domain::Number, float: |x| x * x, int: |x| x.wrapping_mul(x), vjp: Some(|x, _, g| (g * x * 2.0).into()), ..ROW };
    /// Sine of an angle in radians.
    Sin, sin => Row { name: "sin", float: f64::sin, vjp: Some(|x, _, g| (g * x.cos()).into()), ..ROW };
    /// Cosine of an angle in radians.
    Cos, cos => Row { name: "cos", float: f64::cos, vjp: Some(|x, _, g| (g * x.sin()).tensor()?.neg()), ..ROW };
    /// Tangent of an angle in radians.
    Tan, tan => Row { name: "tan", float: f64::tan, vjp: Some(|_, y, g| (g * (y * y + 1.0)).into()), saves: Saves::OUTPUTS, sample: (-1.2, 1.2), ..ROW };
    /// Arcsine in radians; NaN outside [-1, 1].
    Asin, asin => Row { name: "asin", float: f64::asin, vjp: Some(|x, _, g| (g * (1.0 - x * x).tensor()?.rsqrt()).into()), sample: (-0.9, 0.9), ..ROW };
    /// Arccosine in radians; NaN outside [-1, 1].
    Acos, acos => Row { name: "acos", float: f64::acos, vjp: Some(|x, _, g| (g * (1.0 - x * x).tensor()?.rsqrt()).tensor()?.neg()), sample: (-0.9, 0.9), ..ROW };
    /// Arctangent in radians.
    Atan, atan => Row { name: "atan", float: f64::atan, vjp: Some(|x, _, g| (g / (x * x + 1.0)).into()), ..ROW };
    /// Hyperbolic sine.
    Sinh, sinh => Row { name: "sinh", float: f64::sinh, vjp: Some(|x, _, g| (g * x.cosh()).into()), ..ROW };
    /// Hyperbolic cosine.
    Cosh, cosh => Row { name: "cosh", float: f64::cosh, vjp: Some(|x, _, g| (g * x.sinh()).into()), ..ROW };
    /// Hyperbolic tangent.
    Tanh, tanh => Row { name: "tanh", float: f64::tanh, vjp: Some(|_, y, g| (g * (1.0 - y * y)).into()), saves: Saves::OUTPUTS, ..ROW };
    /// Inverse hyperbolic sine.
    Asinh, asinh => Row { name: "asinh", float: libm::asinh, vjp: Some(|x, _, g| (g * (x * x + 1.0).tensor()?.rsqrt()).into()), ..ROW };
    /// Inverse hyperbolic cosine; NaN below 1.
    Acosh, acosh => Row { name: "acosh", float: acosh64, vjp: Some(|x, _, g| (g * (x * x - 1.0).tensor()?.rsqrt()).into()), sample: (1.1, 4.0), ..ROW };
    /// Inverse hyperbolic tangent; NaN outside [-1, 1].
    Atanh, atanh => Row { name: "atanh", float: libm::atanh, vjp: Some(|x, _, g| (g / (1.0 - x * x)).into()), sample: (-0.9, 0.9), ..ROW };
    /// Error function, 2/√π ∫₀ˣ e^(-t²) dt.
    Erf, erf => Row { name: "erf", float: libm::erf, vjp: Some(|x, _, g| (g * (x * x).tensor()?.neg()?.exp()? * FRAC_2_SQRT_PI).into()), ..ROW };
    /// Complementary error function, 1 - erf(x), accurate for large x.
    Erfc, erfc => Row { name: "erfc", float: libm::erfc, vjp: Some(|x, _, g| (g * (x * x).tensor()?.neg()?.exp()? * -FRAC_2_SQRT_PI).into()), ..ROW };
    /// Largest integer not above.
    Floor, floor => Row { name: "floor", domain: Domain::Number, float: f64::floor, vjp: Some(|_, _, g| g.zeros_like()), saves: Saves::NONE, sample: (0.1, 0.9), ..ROW };
    /// Smallest integer not below.
    Ceil, ceil => Row { name: "ceil", domain: Domain::Number, float: f64::ceil, vjp: Some(|_, _, g| g.zeros_like()), saves: Saves::NONE, sample: (0.1, 0.9), ..ROW };
    /// Nearest integer, halves to even.
    Round, round => Row { name: "round", domain: Domain::Number, float: f64::round_ties_even, vjp: Some(|_, _, g| g.zeros_like()), saves: Saves::NONE, sample: (0.6, 1.4), ..ROW };
    /// Integer part, towards 0.
    Trunc, trunc => Row { name: "trunc", domain: Domain::Number, float: f64::trunc, vjp: Some(|_, _, g| g.zeros_like()), saves: Saves::NONE, sample: (0.1, 0.9), ..ROW };
    /// What truncation takes away: x - trunc(x).
    Fract, fract => Row { name: "fract", float: |x| x - x.trunc(), vjp: Some(|_, _, g| Ok(g.clone())), saves: Saves::NONE, sample: (0.1, 0.9), ..ROW };
    /// Whether each element is NaN.
    IsNan, is_nan => Row { name: "is_nan", domain: Domain::Test, float: |x| x.is_nan() as u8 as f64, ..ROW };
    /// Whether each element is an infinity.
    IsInf, is_inf => Row { name: "is_inf", domain: Domain::Test, float: |x| x.is_infinite() as u8 as f64, ..ROW };
    /// Whether each element is neither NaN nor an infinity.
    IsFinite, is_finite => Row { name: "is_finite", domain: Domain::Test, float: |x| x.is_finite() as u8 as f64, ..ROW };
    /// Logical negation of bools.
    Not, not => Row { name: "not", domain: Domain::Bool, int: |x| 1 - x, ..ROW };
    /// Every bit flipped; on bools the logical negation.
    BitNot, bit_not => Row { name: "bit_not", domain: Domain::Bits, int: |x| !x, ..ROW };
    /// max(x, 0); NaN stays NaN.
    Relu, relu => Row {
        name: "relu", domain: Domain::Number, float: |x| if x < 0.0 { 0.0 } else { x }, int: |x| x.max(0),
        vjp: Some(|_, y, g| g.masked_fill(&y.le(0)?, 0)), saves: Saves::OUTPUTS, decompose: Some(|x| x.maximum(0)), ..ROW
    };
    /// Logistic function, 1 / (1 + e^-x).
    Sigmoid, sigmoid => Row {
        name: "sigmoid", float: sigmoid64, vjp: Some(|_, y, g| (g * y * (1.0 - y)).into()), saves: Saves::OUTPUTS,
        decompose: Some(|x| (x.minimum(0)?.exp() / (x.abs()?.neg()?.exp()? + 1.0)).into()), ..ROW
    };
    /// log(sigmoid(x)), without overflow.
    LogSigmoid, log_sigmoid => Row {
        name: "log_sigmoid", float: |x| -softplus64(-x), vjp: Some(|x, _, g| (g * x.neg()?.sigmoid()).into()),
        decompose: Some(|x| x.neg()?.softplus()?.neg()), ..ROW
    };
    /// Piecewise linear sigmoid: clamp(x/6 + 1/2, 0, 1).
    HardSigmoid, hard_sigmoid => Row {
        name: "hard_sigmoid", float: |x| if x.is_nan() { x } else { (x / 6.0 + 0.5).clamp(0.0, 1.0) },
        vjp: Some(|x, _, g| (g.masked_fill(&x.abs()?.ge(3)?, 0)? * (1.0 / 6.0)).into()),
        decompose: Some(|x| (x * (1.0 / 6.0) + 0.5).tensor()?.clamp(0.0, 1.0)), ..ROW
    };
    /// log(1 + eˣ), without overflow.
    Softplus, softplus => Row {
        name: "softplus", float: softplus64, vjp: Some(|x, _, g| (g * x.sigmoid()).into()),
        decompose: Some(|x| (x.maximum(0)? + x.abs()?.neg()?.exp()?.log1p()).into()), ..ROW
    };
    /// x·sigmoid(x), also called swish.
    Silu, silu => Row {
        name: "silu", float: |x| if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid64(x) },
        vjp: Some(|x, _, g| { let s = x.sigmoid()?; (g * (&s + x * &s * (1.0 - &s))).into() }),
        decompose: Some(|x| gated(x, x.sigmoid()?)), ..ROW
    };
    /// x·tanh(softplus(x)) (Misra 2019).
    Mish, mish => Row {
        name: "mish", float: |x| if x == f64::NEG_INFINITY { -0.0 } else { x * softplus64(x).tanh() },
        vjp: Some(|x, _, g| { let t = x.softplus()?.tanh()?; (g * (&t + x * x.sigmoid() * (1.0 - &t * &t))).into() }),
        decompose: Some(|x| gated(x, x.softplus()?.tanh()?)), ..ROW
    };
    /// x·Φ(x), Φ the normal distribution function: exact GELU (Hendrycks and Gimpel 2016).
    Gelu, gelu => Row {
        name: "gelu", float: |x| if x == f64::NEG_INFINITY { -0.0 } else { 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) },
        vjp: Some(|x, _, g| {
            let phi = (x * -std::f64::consts::FRAC_1_SQRT_2).tensor()?.erfc()?;
            (g * (phi * 0.5 + x * normal_density(x))).into()
        }),
        decompose: Some(|x| gated(x, ((x * -std::f64::consts::FRAC_1_SQRT_2).tensor()?.erfc()? * 0.5).tensor()?)), ..ROW
    };
    /// GELU's tanh approximation: x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³))).
    GeluTanh, gelu_tanh => Row {
        name: "gelu_tanh",
        float: |x| if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid64(2.0 * SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)) },
        vjp: Some(|x, _, g| {
            let square = x * x;
            let square = square.tensor()?;
            let t = (x * (&square * 0.044715 + 1.0) * SQRT_2_OVER_PI).tensor()?.tanh()?;
            let inner = (&square * (3.0 * 0.044715) + 1.0) * SQRT_2_OVER_PI;
            (g * ((&t + 1.0) * 0.5 + x * 0.5 * (1.0 - &t * &t) * inner)).into()
        }),
        decompose: Some(|x| gated(x, (x * (x * x * 0.044715 + 1.0) * (2.0 * SQRT_2_OVER_PI)).tensor()?.sigmoid()?)), ..ROW
    };
    /// Self-normalising ELU: λx above 0, λα(eˣ - 1) below (Klambauer et al. 2017).
    Selu, selu => Row {
        name: "selu",
        float: |x| if x > 0.0 { SELU_SCALE * x } else { SELU_SCALE * SELU_ALPHA * x.exp_m1() },
        vjp: Some(|x, _, g| (g * (x.minimum(0)?.exp()? * (SELU_SCALE * SELU_ALPHA)).tensor()?.select(&x.le(0)?, &x.full_like(SELU_SCALE)?)).into()),
        decompose: Some(|x| ((x.maximum(0)? * SELU_SCALE) + x.minimum(0)?.expm1()? * (SELU_SCALE * SELU_ALPHA)).into()), ..ROW
    };
}

/// x times a gate that goes to 0 faster than x to -∞.
fn gated(x: &Tensor, gate: Tensor) -> Result<Tensor> {
    (x * gate).tensor()?.masked_fill(&x.eq(f64::NEG_INFINITY)?, -0.0)
}

impl Unary {
    /// The function in f64.
    pub fn float_fn(self) -> fn(f64) -> f64 {
        self.row().float
    }
}

impl Rule for Unary {
    fn name(&self) -> &'static str {
        self.row().name
    }

    #[inline]
    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        let row = self.row();
        let (fits, dtype) = match (row.domain, x.dtype.kind()) {
            (Domain::Float, kind) => (kind == Kind::Float, x.dtype),
            (Domain::Number, kind) => (!matches!(kind, Kind::Bool | Kind::Stored), x.dtype),
            (Domain::Bits, kind) => (!matches!(kind, Kind::Float | Kind::Stored), x.dtype),
            (Domain::Bool, kind) => (kind == Kind::Bool, x.dtype),
            (Domain::Test, kind) => (kind == Kind::Float, DType::Bool),
        };
        if !fits {
            return Err(Error::dtype(format!("does not take {}; cast first", x.dtype)));
        }
        if dtype == x.dtype {
            return Ok(Specs::Like(0));
        }
        Ok(TensorSpec { shape: x.shape.clone(), dtype }.into())
    }

    fn traits(&self) -> Traits {
        let Row { vjp, saves, .. } = self.row();
        if vjp.is_some() { Traits::own(*saves).memory_bound() } else { Traits::NO_GRADIENT }
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let row = self.row();
        let rule = row.vjp.ok_or_else(|| Error::gradient(format!("{} has no gradient", row.name)))?;
        let g = call.grad(0)?;
        // A rule looks only at what it declares in `saves`; the other place is filled with the gradient.
        let x = if row.saves.inputs() { call.input(0)? } else { g };
        let y = if row.saves.outputs() { call.output(0)? } else { g };
        Ok(Cotangents::one(rule(x, y, g)?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        match (self.row().decompose, inputs) {
            (Some(f), [x]) => Ok(Some(vec![f(x)?])),
            _ => Ok(None),
        }
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let row = self.row();
        let spec = &outputs[0];
        Ok(vec![match (&inputs[0].values, spec.dtype.is_float()) {
            (Values::Float(v), true) => {
                RefTensor::float(spec.shape.clone(), spec.dtype, v.iter().map(|&x| (row.float)(x)).collect())
            }
            (Values::Float(v), false) => {
                RefTensor::int(spec.shape.clone(), spec.dtype, v.iter().map(|&x| (row.float)(x) as i128).collect())
            }
            (Values::Int(v), _) if spec.dtype == DType::Bool => {
                RefTensor::int(spec.shape.clone(), spec.dtype, v.iter().map(|&x| (x == 0) as i128).collect())
            }
            (Values::Int(v), _) => {
                RefTensor::int(spec.shape.clone(), spec.dtype, v.iter().map(|&x| (row.int)(x)).collect())
            }
        }])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for &op in Unary::ALL {
            let row = op.row();
            let dtypes: Vec<DType> = match row.domain {
                Domain::Float | Domain::Test => DType::FLOATS.to_vec(),
                Domain::Number => DType::FLOATS.into_iter().chain(DType::INTS).collect(),
                Domain::Bits => DType::INTS.into_iter().chain([DType::Bool]).collect(),
                Domain::Bool => vec![DType::Bool],
            };
            for dtype in dtypes {
                let sample = Fill::Uniform(row.sample.0, row.sample.1);
                cases.push(Case::new(op).input_with([2, 3, 5], dtype, sample.clone()));
                cases.push(Case::new(op).input_with((), dtype, sample.clone()));
                cases.push(Case::new(op).input_with([0, 3], dtype, sample));
                cases.push(Case::new(op).input_with([13], dtype, Fill::Special));
                if dtype.is_float() {
                    cases.push(Case::new(op).input_with([1000], dtype, Fill::Uniform(-100.0, 100.0)).not_smooth());
                }
            }
        }
        cases
    }
}

/// A change of dtype, as Rust's `as`: floats are truncated and saturate into integers (NaN becomes 0), integers wrap
/// into smaller ones, floats round to nearest, and anything that is not zero is `true`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cast {
    /// The new dtype.
    pub dtype: DType,
}

impl Rule for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        x.shape.bytes(self.dtype)?;
        Ok(TensorSpec { shape: x.shape.clone(), dtype: self.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        Ok(Cotangents::one(call.grad(0)?.cast(call.spec(0)?.dtype)?))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (shape, dtype) = (outputs[0].shape.clone(), self.dtype);
        Ok(vec![match (&inputs[0].values, dtype.int_range().is_none()) {
            // Rounded where the dtype has no number for what is too large; elsewhere differences of values would see steps.
            (_, true) if dtype.is_stored() => {
                RefTensor::float(shape, dtype, inputs[0].floats().into_iter().map(|v| dtype.round(v)).collect())
            }
            (_, true) => RefTensor::float(shape, dtype, inputs[0].floats()),
            (Values::Float(v), false) => {
                RefTensor::int(shape, dtype, v.iter().map(|&v| Scalar::Float(v).cast(dtype).as_i128()).collect())
            }
            (Values::Int(v), false) => RefTensor::int(shape, dtype, v.clone()),
        }])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for from in DType::ALL {
            for to in DType::ALL {
                cases.push(Case::new(Cast { dtype: to }).input_with([13], from, Fill::Special));
                cases.push(Case::new(Cast { dtype: to }).input_with([3, 7], from, Fill::Uniform(-3.0, 90.0)));
            }
        }
        cases.push(Case::new(Cast { dtype: DType::F32 }).input([0], DType::F64));
        cases
    }
}

impl Tensor {
    /// The elements in another dtype (see [`Cast`]). The same tensor where the dtype is already that one.
    ///
    /// # Errors
    /// Where the size overflows or memory cannot be had.
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        run::call(Op::Cast(Cast { dtype }), [self.into()])
    }
}
