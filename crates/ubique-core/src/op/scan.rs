//! Running sums, products and extrema along an axis.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::index::{Combine, require_axis};
use crate::op::reduce::groups;
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::{Shape, TensorSpec, normalize_axis};
use crate::tensor::Tensor;

/// What a scan accumulates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanOp {
    /// Sums; integers wrap.
    Sum,
    /// Products; integers wrap.
    Prod,
    /// The largest so far; NaN from the first NaN on.
    Max,
    /// The smallest so far; NaN from the first NaN on.
    Min,
}

impl ScanOp {
    /// Every accumulation.
    pub const ALL: [ScanOp; 4] = [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min];

    fn float(self, a: f64, b: f64) -> f64 {
        match self {
            ScanOp::Sum => a + b,
            ScanOp::Prod => a * b,
            _ if a.is_nan() || b.is_nan() => f64::NAN,
            ScanOp::Max => a.max(b),
            ScanOp::Min => a.min(b),
        }
    }

    fn int(self, a: i128, b: i128) -> i128 {
        match self {
            ScanOp::Sum => a + b,
            ScanOp::Prod => a.wrapping_mul(b),
            ScanOp::Max => a.max(b),
            ScanOp::Min => a.min(b),
        }
    }
}

/// Each element accumulated with those before it along an axis. Floats accumulate in at least f32.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scan {
    /// What is accumulated.
    pub op: ScanOp,
    /// The axis.
    pub axis: usize,
}

impl Rule for Scan {
    fn name(&self) -> &'static str {
        match self.op {
            ScanOp::Sum => "cumsum",
            ScanOp::Prod => "cumprod",
            ScanOp::Max => "cummax",
            ScanOp::Min => "cummin",
        }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_axis(&x.shape, self.axis)?;
        if x.dtype.kind() == Kind::Bool && matches!(self.op, ScanOp::Sum | ScanOp::Prod) {
            return Err(Error::dtype("does not take bool; cast first"));
        }
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(match self.op {
            ScanOp::Sum => Saves::NONE,
            ScanOp::Prod => Saves::INPUTS,
            ScanOp::Max | ScanOp::Min => Saves::BOTH,
        })
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (g, axis) = (call.grad(0)?, self.axis as isize);
        Ok(Cotangents::one(match self.op {
            ScanOp::Sum => g.flip(&[axis])?.cumsum(axis)?.flip(&[axis])?,
            ScanOp::Prod => product_gradient(call.input(0)?, g, axis)?,
            ScanOp::Max | ScanOp::Min => {
                extremum_gradient(&call.input(0)?.detach(), &call.output(0)?.detach(), g, self.axis)?
            }
        }))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, spec) = (&inputs[0], &outputs[0]);
        let mut values = x.values.clone();
        for line in groups(x.shape(), &[self.axis]) {
            for pair in line.windows(2) {
                let (before, here) = (pair[0], pair[1]);
                match &mut values {
                    Values::Float(v) => v[here] = self.op.float(v[before], v[here]),
                    Values::Int(v) => v[here] = spec.dtype.wrap(self.op.int(v[before], v[here])),
                }
            }
        }
        Ok(vec![RefTensor { spec: spec.clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for op in ScanOp::ALL {
            let scan = |axis| Case::new(Scan { op, axis });
            let adds = matches!(op, ScanOp::Sum | ScanOp::Prod);
            for dtype in DType::COMPUTED.into_iter().filter(|&d| !(adds && d == DType::Bool)) {
                let values = if dtype.is_float() { Fill::Distinct(-2.0, 2.0) } else { Fill::Uniform(-9.0, 90.0) };
                cases.push(scan(1).input_with([2, 7, 3], dtype, values.clone()));
                cases.push(scan(1).input_with([5, 6], dtype, values));
                cases.push(scan(0).input_with([13, 2], dtype, Fill::Special));
            }
            cases.push(scan(1).input([2, 0, 3], DType::F32));
            cases.push(scan(0).input([1], DType::F32));
            let near_one = Fill::Distinct(0.99, 1.01);
            cases.push(scan(0).input_with([1027], DType::F32, near_one.clone()));
            cases.push(scan(0).input_with([1027, 3], DType::F16, near_one).not_smooth());
        }
        // The gradient of a product at zeros.
        let zeros = Fill::Values(vec![0.5, 0.0, -1.5, 2.0, 0.0, 1.0, 3.0]);
        cases.push(Case::new(Scan { op: ScanOp::Prod, axis: 0 }).input_with([7], DType::F64, zeros));
        cases
    }
}

/// The gradient of running products, without a division, so that it holds at zeros too, and so do its own gradients.
///
/// The gradient of element `i` is the product of those before it times `h[i] = g[i] + x[i + 1]·h[i + 1]`. That recurrence is
/// solved in log₂(n) steps: after step `s`, `h[i]` covers the terms `i..i + 2s`, and `a[i]` is `x[i + 1]···x[i + 2s]`
/// (Hillis and Steele: "Data parallel algorithms", 1986).
fn product_gradient(x: &Tensor, g: &Tensor, axis: isize) -> Result<Tensor> {
    let n = x.shape()[x.shape().axis(axis)?];
    if n < 2 {
        return Ok(g.clone());
    }
    let from = |t: &Tensor, start: usize, len: usize| t.narrow(axis, start as isize, len);
    let (mut h, mut a, mut step) = (g.clone(), from(x, 1, n - 1)?, 1);
    while step < n {
        let head = (from(&h, 0, n - step)? + &a * from(&h, step, n - step)?).tensor()?;
        h = Tensor::concat(&[&head, &from(&h, n - step, step)?], axis)?;
        let left = n.saturating_sub(2 * step);
        a = (from(&a, 0, left)? * from(&a, n - step - left, left)?).tensor()?;
        step *= 2;
    }
    let before = from(x, 0, n - 1)?.cumprod(axis)?.pad_axis(axis, 1, 0, 1)?;
    (before * h).into()
}

/// The gradient of running extrema goes to the element that each came from; of equal ones to the latest.
fn extremum_gradient(x: &Tensor, y: &Tensor, g: &Tensor, axis: usize) -> Result<Tensor> {
    let source = sources(x, y, axis, x.device().default_int())?;
    g.zeros_like()?.scatter(axis as isize, &source, g, Combine::Add)
}

/// For each running extremum `y` of `x`, the place along the axis that it comes from: an element that equals the extremum
/// so far, or is the NaN that spoils it, is that place until another one is.
pub(super) fn sources(x: &Tensor, y: &Tensor, axis: usize, dtype: DType) -> Result<Tensor> {
    let extent = x.shape()[axis];
    let shape = Shape::repeat(1, x.rank()).with(axis, extent);
    let places = Tensor::arange(0, extent, 1, dtype, x.device())?.reshape(shape)?.expand(x.shape())?;
    let own = x.eq(y)?.bit_or(&x.ne(x)?)?;
    places.masked_fill(&own.not()?, 0)?.cummax(axis as isize)
}

fn scan(op: ScanOp, x: &Tensor, axis: isize) -> Result<Tensor> {
    let at = normalize_axis(axis, x.rank()).map_err(|e| e.with_op(Scan { op, axis: 0 }.name(), &[x.spec()]))?;
    run::call(Op::Scan(Scan { op, axis: at }), [x.into()])
}

impl Tensor {
    /// Sums of each element and those before it along an axis. Integers wrap; floats accumulate in at least f32.
    ///
    /// # Errors
    /// Where the axis is out of range, or for bools.
    pub fn cumsum(&self, axis: isize) -> Result<Tensor> {
        scan(ScanOp::Sum, self, axis)
    }

    /// Products of each element and those before it along an axis. Integers wrap; floats accumulate in at least f32.
    ///
    /// # Errors
    /// Where the axis is out of range, or for bools.
    pub fn cumprod(&self, axis: isize) -> Result<Tensor> {
        scan(ScanOp::Prod, self, axis)
    }

    /// The largest of each element and those before it along an axis; NaN from the first NaN on.
    ///
    /// # Errors
    /// Where the axis is out of range.
    pub fn cummax(&self, axis: isize) -> Result<Tensor> {
        scan(ScanOp::Max, self, axis)
    }

    /// The smallest of each element and those before it along an axis; NaN from the first NaN on.
    ///
    /// # Errors
    /// Where the axis is out of range.
    pub fn cummin(&self, axis: isize) -> Result<Tensor> {
        scan(ScanOp::Min, self, axis)
    }
}
