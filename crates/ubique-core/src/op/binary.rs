//! Elementwise ops of two operands, arithmetic and comparison, between tensors (which broadcast) or a tensor and a scalar.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run::{self, Arg};
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands, require_same_dtype};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// Which dtypes a function takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Domain {
    Float,
    Number,
    Bits,
    Ints,
    Any,
}

impl Domain {
    fn has(self, dtype: DType) -> bool {
        match self {
            Domain::Float => dtype.is_float(),
            Domain::Number => dtype.kind() != Kind::Bool,
            Domain::Bits => !dtype.is_float(),
            Domain::Ints => dtype.is_int(),
            Domain::Any => true,
        }
    }

    fn dtypes(self) -> impl Iterator<Item = DType> {
        DType::COMPUTED.into_iter().filter(move |&d| self.has(d))
    }
}

/// From both operands, result and gradient to an operand's gradient, before it is summed to the operand's shape.
type Partial = fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// A row of the table of functions.
struct Row {
    name: &'static str,
    domain: Domain,
    float: fn(f64, f64) -> f64,
    /// On exact integers; the dtype tells shifts their width.
    int: fn(i128, i128, DType) -> i128,
    vjp: Option<[Partial; 2]>,
    saves: Saves,
    /// Where to sample each operand from, for smooth tests.
    sample: [(f64, f64); 2],
}

const ROW: Row = Row {
    name: "",
    domain: Domain::Number,
    float: |_, _| f64::NAN,
    int: |a, _, _| a,
    vjp: None,
    saves: Saves::INPUTS,
    sample: [(-2.0, 2.0), (-2.0, 2.0)],
};

/// The list of functions: the macro makes the enum, the table and the methods.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident, $method:ident => $row:expr;)*) => {
        /// An elementwise function of two operands of one dtype.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Binary {$($(#[$doc])* $name,)*}

        impl Binary {
            /// Every function.
            pub const ALL: &'static [Binary] = &[$(Binary::$name,)*];

            fn row(self) -> &'static Row {
                match self {$(Binary::$name => { const ROW_: Row = $row; &ROW_ })*}
            }
        }

        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Elementwise; `other` is a tensor of the same dtype and device whose shape broadcasts with this one's, or a
            /// scalar, which takes this tensor's dtype.
            ///
            /// # Errors
            /// Where shapes do not broadcast, dtypes or devices differ, or the dtype is not one that the function takes.
            pub fn $method<'a>(&'a self, other: impl Into<Rhs<'a>>) -> Result<Tensor> {
                binary(Binary::$name, self.into(), other.into())
            }
        )*}
    };
}

/// The right operand of a method: a tensor or a scalar.
#[derive(Debug)]
pub enum Rhs<'a> {
    /// A tensor, borrowed or given.
    Tensor(Arg<'a>),
    /// A value that takes the other operand's dtype.
    Scalar(Scalar),
}

impl<'a> From<&'a Tensor> for Rhs<'a> {
    fn from(tensor: &'a Tensor) -> Rhs<'a> {
        Rhs::Tensor(Arg::Ref(tensor))
    }
}

impl From<Tensor> for Rhs<'_> {
    fn from(tensor: Tensor) -> Self {
        Rhs::Tensor(Arg::Own(tensor))
    }
}

impl<S: Into<Scalar>> From<S> for Rhs<'_> {
    fn from(scalar: S) -> Self {
        Rhs::Scalar(scalar.into())
    }
}

/// Runs a binary op on operands of either kind. Always inlined, so that the operands are put down once, in their list.
#[inline(always)]
pub(crate) fn binary(op: Binary, left: Arg<'_>, right: Rhs<'_>) -> Result<Tensor> {
    match right {
        Rhs::Tensor(right) => run::call(Op::Binary(op), [left, right]),
        Rhs::Scalar(scalar) => run::call(Op::BinaryScalar(BinaryScalar { op, scalar, reversed: false }), [left]),
    }
}

/// Runs a binary op with the scalar on the left.
#[inline(always)]
pub(crate) fn binary_reversed(op: Binary, scalar: Scalar, right: Arg<'_>) -> Result<Tensor> {
    run::call(Op::BinaryScalar(BinaryScalar { op, scalar, reversed: true }), [right])
}

/// Gradient to the larger (or smaller) operand; ties go half to each.
fn extremum_share(a: &Tensor, b: &Tensor, y: &Tensor, g: &Tensor) -> Result<Tensor> {
    // 1 where only this operand is the result, 1/2 where both are; NaN results send the gradient to the NaN operand.
    let own = a.eq(y)?.bit_or(&a.ne(a)?)?.cast(g.dtype())?;
    let other = b.eq(y)?.bit_or(&b.ne(b)?)?.cast(g.dtype())?;
    (g * (&own / (&own + other).tensor()?.maximum(1))).into()
}

fn wrapping_pow(base: i128, exponent: i128, dtype: DType) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut base, mut exponent) = (1i128, base, exponent);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = dtype.wrap(result.wrapping_mul(base));
        }
        base = dtype.wrap(base.wrapping_mul(base));
        exponent >>= 1;
    }
    result
}

fn bits(dtype: DType) -> i128 {
    dtype.size() as i128 * 8
}

/// Remainder with the sign of the divisor (numpy's `mod`, Python's `%`).
fn floor_mod(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) {
        r + b
    } else if r == 0.0 {
        0f64.copysign(b)
    } else {
        r
    }
}

fn max_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn min_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

binary! {
    /// Sum; integers wrap. On bools the logical or.
    Add, add => Row {
        name: "add", domain: Domain::Any, float: |a, b| a + b, int: |a, b, _| a + b, saves: Saves::NONE,
        vjp: Some([|_, _, _, g| Ok(g.clone()), |_, _, _, g| Ok(g.clone())]), ..ROW
    };
    /// Difference; integers wrap.
    Sub, sub => Row {
        name: "sub", float: |a, b| a - b, int: |a, b, _| a - b, saves: Saves::NONE,
        vjp: Some([|_, _, _, g| Ok(g.clone()), |_, _, _, g| g.neg()]), ..ROW
    };
    /// Product; integers wrap. On bools the logical and.
    Mul, mul => Row {
        name: "mul", domain: Domain::Any, float: |a, b| a * b, int: |a, b, _| a.wrapping_mul(b),
        vjp: Some([|_, b, _, g| (g * b).into(), |a, _, _, g| (g * a).into()]), ..ROW
    };
    /// Quotient. Integers are truncated towards 0, and division by 0 gives 0.
    Div, div => Row {
        name: "div", float: |a, b| a / b, int: |a, b, _| if b == 0 { 0 } else { a / b },
        vjp: Some([|_, b, _, g| (g / b).into(), |a, b, _, g| (g * a / (b * b)).tensor()?.neg()]), sample: [(-2.0, 2.0), (0.5, 2.0)], ..ROW
    };
    /// Remainder with the sign of the divisor, as numpy's `mod`: a - floor(a/b)·b. Integers modulo 0 give 0.
    Rem, rem => Row {
        name: "rem", float: floor_mod, int: |a, b, _| if b == 0 { 0 } else { (a % b + b) % b },
        vjp: Some([|_, _, _, g| Ok(g.clone()), |a, b, _, g| (g * (a / b).tensor()?.floor()).tensor()?.neg()]),
        sample: [(1.1, 1.4), (0.5, 0.9)], ..ROW
    };
    /// Remainder with the sign of the dividend, as C's `fmod`: a - trunc(a/b)·b, exact. Integers modulo 0 give 0.
    Fmod, fmod => Row {
        name: "fmod", float: |a, b| a % b, int: |a, b, _| if b == 0 { 0 } else { a % b },
        vjp: Some([|_, _, _, g| Ok(g.clone()), |a, b, _, g| (g * (a / b).tensor()?.trunc()).tensor()?.neg()]),
        sample: [(-1.4, -1.1), (0.5, 0.9)], ..ROW
    };
    /// Power. Integers wrap; a negative integer exponent gives 0 unless the base is 1 or -1.
    Pow, pow => Row {
        name: "pow", float: f64::powf, int: wrapping_pow,
        vjp: Some([
            |a, b, _, g| {
                let slope = (b * a.pow(&(b - 1.0).tensor()?)).tensor()?;
                (g * slope.masked_fill(&b.eq(0)?, 0)).into()
            },
            |a, _, y, g| (g * y * a.log()?.masked_fill(&a.eq(0)?, 0)).into(),
        ]),
        saves: Saves::BOTH, sample: [(0.2, 2.0), (-2.0, 2.0)], ..ROW
    };
    /// The angle in radians of the point (x = other, y = self), in (-π, π].
    Atan2, atan2 => Row {
        name: "atan2", domain: Domain::Float, float: f64::atan2,
        vjp: Some([
            |a, b, _, g| (g * b / (a * a + b * b)).into(),
            |a, b, _, g| (g * a / (a * a + b * b)).tensor()?.neg(),
        ]),
        sample: [(0.2, 2.0), (0.2, 2.0)], ..ROW
    };
    /// √(a² + b²) without overflow in between.
    Hypot, hypot => Row {
        name: "hypot", domain: Domain::Float, float: f64::hypot,
        vjp: Some([|a, _, y, g| (g * a / y).into(), |_, b, y, g| (g * b / y).into()]),
        saves: Saves::BOTH, sample: [(0.2, 2.0), (0.2, 2.0)], ..ROW
    };
    /// The larger; NaN where either is NaN. On bools the logical or.
    Max, maximum => Row {
        name: "max", domain: Domain::Any, float: max_nan, int: |a, b, _| a.max(b),
        vjp: Some([extremum_share, |a, b, y, g| extremum_share(b, a, y, g)]), saves: Saves::BOTH, ..ROW
    };
    /// The smaller; NaN where either is NaN. On bools the logical and.
    Min, minimum => Row {
        name: "min", domain: Domain::Any, float: min_nan, int: |a, b, _| a.min(b),
        vjp: Some([extremum_share, |a, b, y, g| extremum_share(b, a, y, g)]), saves: Saves::BOTH, ..ROW
    };
    /// Bits set in both; on bools the logical and.
    And, bit_and => Row { name: "and", domain: Domain::Bits, int: |a, b, _| a & b, ..ROW };
    /// Bits set in either; on bools the logical or.
    Or, bit_or => Row { name: "or", domain: Domain::Bits, int: |a, b, _| a | b, ..ROW };
    /// Bits set in one but not both; on bools the exclusive or.
    Xor, bit_xor => Row { name: "xor", domain: Domain::Bits, int: |a, b, _| a ^ b, ..ROW };
    /// Bits moved up; shifts by a negative count or by the width and more give 0.
    Shl, shl => Row {
        name: "shl", domain: Domain::Ints, int: |a, b, d| if (0..bits(d)).contains(&b) { a << b } else { 0 }, ..ROW
    };
    /// Bits moved down, keeping the sign; shifts by a negative count or by the width and more give 0, or -1 for negative values.
    Shr, shr => Row {
        name: "shr", domain: Domain::Ints, int: |a, b, d| if (0..bits(d)).contains(&b) { a >> b } else { a.signum().min(0) }, ..ROW
    };
}

impl Binary {
    /// The function on two reference floats.
    pub fn eval_float(self, a: f64, b: f64) -> f64 {
        (self.row().float)(a, b)
    }

    /// The function on two exact integers of a dtype, before wrapping.
    pub fn eval_int(self, a: i128, b: i128, dtype: DType) -> i128 {
        (self.row().int)(a, b, dtype)
    }

    fn check(self, dtype: DType) -> Result<()> {
        if self.row().domain.has(dtype) {
            return Ok(());
        }
        Err(Error::dtype(format!("does not take {dtype}; cast first")))
    }
}

/// The reference of any function of two operands.
fn zip(
    a: &RefTensor,
    b: &RefTensor,
    out: &TensorSpec,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i128, i128) -> i128,
) -> Result<RefTensor> {
    let (a, b) = (a.expand(&out.shape)?, b.expand(&out.shape)?);
    let values = match (&a.values, &b.values) {
        (Values::Float(a), Values::Float(b)) => Values::Float(a.iter().zip(b).map(|(&a, &b)| float(a, b)).collect()),
        _ => Values::Int(a.ints().into_iter().zip(b.ints()).map(|(a, b)| out.dtype.wrap(int(a, b))).collect()),
    };
    Ok(RefTensor { spec: out.clone(), values })
}

/// A scalar as a reference operand of a dtype.
fn scalar_operand(scalar: Scalar, dtype: DType) -> RefTensor {
    let value = scalar.cast(dtype);
    match dtype.is_float() {
        true => RefTensor::float((), dtype, vec![value.as_f64()]),
        false => RefTensor::int((), dtype, vec![value.as_i128()]),
    }
}

const SHAPES: [(&[usize], &[usize]); 6] =
    [(&[2, 3, 5], &[2, 3, 5]), (&[4, 1], &[3]), (&[], &[2, 2]), (&[0, 3], &[1, 3]), (&[], &[]), (&[1000], &[1000])];

impl Rule for Binary {
    fn name(&self) -> &'static str {
        self.row().name
    }

    #[inline]
    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a, b] = operands(inputs)?;
        require_same_dtype(a, b)?;
        self.check(a.dtype)?;
        if a.shape == b.shape {
            return Ok(Specs::Like(0));
        }
        let shape = a.shape.broadcast(&b.shape)?;
        shape.bytes(a.dtype)?;
        Ok(TensorSpec { shape, dtype: a.dtype }.into())
    }

    fn traits(&self) -> Traits {
        let Row { vjp, saves, .. } = self.row();
        if vjp.is_some() { Traits::own(*saves).memory_bound() } else { Traits::NO_GRADIENT }
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let row = self.row();
        let partials = row.vjp.ok_or_else(|| Error::gradient(format!("{} has no gradient", row.name)))?;
        let g = call.grad(0)?;
        let (a, b) = if row.saves.inputs() { (call.input(0)?, call.input(1)?) } else { (g, g) };
        let y = if row.saves.outputs() { call.output(0)? } else { g };
        let mut out = Cotangents::none(2);
        for (i, partial) in partials.into_iter().enumerate() {
            if call.wants(i) {
                out.set(i, partial(a, b, y, g)?.sum_to(&call.spec(i)?.shape)?);
            }
        }
        Ok(out)
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let row = self.row();
        let dtype = outputs[0].dtype;
        // On bools sum and product are the logical or and and, which wrapping to 0 or 1 gives.
        Ok(vec![zip(&inputs[0], &inputs[1], &outputs[0], row.float, |a, b| (row.int)(a, b, dtype))?])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for &op in Binary::ALL {
            let row = op.row();
            let sample = row.sample.map(|(low, high)| Fill::Uniform(low, high));
            for dtype in row.domain.dtypes() {
                let [left, right] = if dtype.is_float() {
                    sample.clone()
                } else {
                    [Fill::Uniform(-9.0, 90.0), Fill::Uniform(-2.0, 9.0)]
                };
                for (a, b) in SHAPES {
                    cases.push(Case::new(op).input_with(a, dtype, left.clone()).input_with(b, dtype, right.clone()));
                }
                cases.push(Case::new(op).input_with([13, 1], dtype, Fill::Special).input_with(
                    [13],
                    dtype,
                    Fill::Special,
                ));
            }
        }
        cases
    }
}

/// A tensor and a scalar, which takes the tensor's dtype.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BinaryScalar {
    /// The function.
    pub op: Binary,
    /// The other operand.
    pub scalar: Scalar,
    /// Whether the scalar is the left operand.
    pub reversed: bool,
}

impl Rule for BinaryScalar {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    #[inline]
    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        self.op.check(x.dtype)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        match self.op {
            // The slope is the scalar itself.
            Binary::Mul => Traits::own(Saves::NONE).memory_bound(),
            Binary::Div if !self.reversed => Traits::own(Saves::NONE).memory_bound(),
            op => op.traits(),
        }
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let g = call.grad(0)?;
        let grad = match (self.op, self.reversed) {
            (Binary::Add | Binary::Mul | Binary::Div, false) | (Binary::Sub, _) | (Binary::Add | Binary::Mul, true) => {
                match self.op {
                    Binary::Mul => g.mul(self.scalar)?,
                    Binary::Div => g.div(self.scalar)?,
                    Binary::Sub if self.reversed => g.neg()?,
                    _ => g.clone(),
                }
            }
            (Binary::Pow, false) => {
                let (x, n) = (call.input(0)?, self.scalar.as_f64());
                if n == 0.0 { g.zeros_like()? } else { (g * x.pow(n - 1.0)? * n).tensor()? }
            }
            _ => {
                let row = self.op.row();
                let partials = row.vjp.ok_or_else(|| Error::gradient(format!("{} has no gradient", row.name)))?;
                let x = if row.saves.inputs() { call.input(0)? } else { g };
                let y = if row.saves.outputs() { call.output(0)? } else { g };
                let other = x.full_like(self.scalar)?;
                match self.reversed {
                    false => partials[0](x, &other, y, g)?,
                    true => partials[1](&other, x, y, g)?,
                }
            }
        };
        Ok(Cotangents::one(grad))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let scalar = Tensor::full((), self.scalar, x.dtype(), x.device())?;
        let (a, b) = if self.reversed { (&scalar, x) } else { (x, &scalar) };
        Ok(Some(vec![run::call(Op::Binary(self.op), [a.into(), b.into()])?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let scalar = scalar_operand(self.scalar, outputs[0].dtype);
        let pair = if self.reversed { [scalar, inputs[0].clone()] } else { [inputs[0].clone(), scalar] };
        self.op.reference(&pair, outputs)
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for &op in Binary::ALL {
            let row = op.row();
            for dtype in row.domain.dtypes() {
                for reversed in [false, true] {
                    let (low, high) = row.sample[reversed as usize];
                    let (low, high) = if dtype.is_float() { (low, high) } else { (0.0, 9.0) };
                    let (slow, shigh) = row.sample[1 - reversed as usize];
                    let scalar =
                        if dtype.is_float() { Scalar::Float(0.37 * slow + 0.63 * shigh) } else { Scalar::Int(3) };
                    let case = Case::new(BinaryScalar { op, scalar, reversed });
                    cases.push(case.clone().input_with([3, 7], dtype, Fill::Uniform(low, high)));
                    cases.push(case.clone().input_with((), dtype, Fill::Uniform(low, high)));
                    cases.push(case.clone().input_with([2, 0], dtype, Fill::Uniform(low, high)));
                    cases.push(case.input_with([13], dtype, Fill::Special));
                }
            }
        }
        cases
    }
}

/// A comparison; the result is bool. Anything compared with NaN is false, except `Ne`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are the field's own
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Compare {
    /// Every comparison.
    pub const ALL: [Compare; 6] = [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

    /// The comparison of two values.
    #[inline(always)]
    pub fn eval<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Compare::Eq => a == b,
            Compare::Ne => a != b,
            Compare::Lt => a < b,
            Compare::Le => a <= b,
            Compare::Gt => a > b,
            Compare::Ge => a >= b,
        }
    }
}

fn compare_reference(op: Compare, a: &RefTensor, b: &RefTensor, out: &TensorSpec) -> Result<RefTensor> {
    let (a, b) = (a.expand(&out.shape)?, b.expand(&out.shape)?);
    let values: Vec<i128> = match (&a.values, &b.values) {
        (Values::Int(a), Values::Int(b)) => a.iter().zip(b).map(|(a, b)| op.eval(a, b) as i128).collect(),
        _ => a.floats().into_iter().zip(b.floats()).map(|(a, b)| op.eval(a, b) as i128).collect(),
    };
    Ok(RefTensor::int(out.shape.clone(), DType::Bool, values))
}

impl Rule for Compare {
    fn name(&self) -> &'static str {
        match self {
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a, b] = operands(inputs)?;
        require_same_dtype(a, b)?;
        let shape = a.shape.broadcast(&b.shape)?;
        shape.bytes(DType::Bool)?;
        Ok(TensorSpec { shape, dtype: DType::Bool }.into())
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        Ok(vec![compare_reference(*self, &inputs[0], &inputs[1], &outputs[0])?])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for op in Compare::ALL {
            for dtype in DType::COMPUTED {
                for (a, b) in SHAPES {
                    let small = Fill::Uniform(0.0, 3.0);
                    cases.push(Case::new(op).input_with(a, dtype, small.clone()).input_with(b, dtype, small));
                }
                cases.push(Case::new(op).input_with([13, 1], dtype, Fill::Special).input_with(
                    [13],
                    dtype,
                    Fill::Special,
                ));
            }
        }
        cases
    }
}

/// Comparison of each element with a scalar, which takes the tensor's dtype.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompareScalar {
    /// The comparison.
    pub op: Compare,
    /// The right operand.
    pub scalar: Scalar,
}

impl Rule for CompareScalar {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        Ok(TensorSpec { shape: x.shape.clone(), dtype: DType::Bool }.into())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let scalar = Tensor::full((), self.scalar, x.dtype(), x.device())?;
        Ok(Some(vec![run::call(Op::Compare(self.op), [x.into(), (&scalar).into()])?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let scalar = scalar_operand(self.scalar, inputs[0].spec.dtype);
        Ok(vec![compare_reference(self.op, &inputs[0], &scalar, &outputs[0])?])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for op in Compare::ALL {
            for dtype in DType::COMPUTED {
                let case = Case::new(CompareScalar { op, scalar: 1.into() });
                cases.push(case.clone().input_with([3, 7], dtype, Fill::Uniform(0.0, 3.0)));
                cases.push(case.input_with([13], dtype, Fill::Special));
            }
        }
        cases
    }
}

/// One method a comparison.
macro_rules! compare_methods {
    ($($(#[$doc:meta])* $method:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Elementwise, with broadcasting; `other` is a tensor of the same dtype or a scalar. The result is bool.
            ///
            /// # Errors
            /// Where shapes do not broadcast, or dtypes or devices differ.
            pub fn $method<'a>(&'a self, other: impl Into<Rhs<'a>>) -> Result<Tensor> {
                match other.into() {
                    Rhs::Tensor(other) => run::call(Op::Compare(Compare::$op), [self.into(), other]),
                    Rhs::Scalar(scalar) => run::call(Op::CompareScalar(CompareScalar { op: Compare::$op, scalar }), [self.into()]),
                }
            }
        )*}
    };
}

compare_methods! {
    /// Whether elements are equal.
    eq => Eq;
    /// Whether elements differ.
    ne => Ne;
    /// Whether elements are less.
    lt => Lt;
    /// Whether elements are less or equal.
    le => Le;
    /// Whether elements are greater.
    gt => Gt;
    /// Whether elements are greater or equal.
    ge => Ge;
}

impl Tensor {
    /// Sums over the axes along which `shape` was broadcast to this tensor's shape: the gradient of broadcasting.
    ///
    /// # Errors
    /// Where `shape` does not broadcast to this tensor's shape.
    pub fn sum_to(&self, shape: &Shape) -> Result<Tensor> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        let skip = self.rank().checked_sub(shape.rank()).ok_or_else(|| {
            Error::shape(format!("{shape} does not broadcast to {}", self.shape())).with_op("sum_to", &[self.spec()])
        })?;
        let axes: Vec<isize> = (0..self.rank())
            .filter(|&axis| axis < skip || shape[axis - skip] == 1 && self.shape()[axis] != 1)
            .map(|axis| axis as isize)
            .collect();
        let summed = if axes.is_empty() { self.clone() } else { self.sum_keepdim(&axes)? };
        summed.reshape(shape)
    }
}
