//! Reductions over axes: sum, mean, product, extremes, any, all.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::op::case::{Case, Fill};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::{Dims, Shape, TensorSpec, normalize_axes};
use crate::tensor::Tensor;

/// What is made of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Sum; integers wrap. Nothing sums to 0.
    Sum,
    /// Arithmetic mean of floats; of nothing NaN.
    Mean,
    /// Product; integers wrap. Nothing multiplies to 1.
    Prod,
    /// Smallest; NaN if any is NaN. Of nothing an error.
    Min,
    /// Largest; NaN if any is NaN. Of nothing an error.
    Max,
    /// Whether any bool is true; of nothing false.
    Any,
    /// Whether all bools are true; of nothing true.
    All,
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Reduction; 7] = [
        Reduction::Sum,
        Reduction::Mean,
        Reduction::Prod,
        Reduction::Min,
        Reduction::Max,
        Reduction::Any,
        Reduction::All,
    ];

    fn has(self, dtype: DType) -> bool {
        match self {
            Reduction::Sum | Reduction::Prod => dtype.kind() != Kind::Bool,
            Reduction::Mean => dtype.is_float(),
            Reduction::Min | Reduction::Max => true,
            Reduction::Any | Reduction::All => dtype == DType::Bool,
        }
    }

    fn floats(self, values: &[f64]) -> f64 {
        match self {
            Reduction::Sum => values.iter().sum::<f64>() + 0.0,
            Reduction::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Reduction::Prod => values.iter().product(),
            Reduction::Min => {
                values.iter().copied().reduce(|a, b| if a.is_nan() || a < b { a } else { b }).unwrap_or(f64::NAN)
            }
            _ => values.iter().copied().reduce(|a, b| if a.is_nan() || a > b { a } else { b }).unwrap_or(f64::NAN),
        }
    }

    fn ints(self, values: &[i128], dtype: DType) -> i128 {
        let fold = |start, f: fn(i128, i128) -> i128| values.iter().fold(start, |a, &b| dtype.wrap(f(a, b)));
        match self {
            Reduction::Sum => fold(0, |a, b| a + b),
            Reduction::Prod => fold(1, i128::wrapping_mul),
            Reduction::Min => values.iter().copied().min().unwrap_or(0),
            Reduction::Max => values.iter().copied().max().unwrap_or(0),
            Reduction::Any => values.iter().any(|&v| v != 0) as i128,
            _ => values.iter().all(|&v| v != 0) as i128,
        }
    }
}

/// A reduction over some axes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reduce {
    /// What is made of the elements.
    pub op: Reduction,
    /// Over which axes: sorted, without repeats.
    pub axes: Dims<usize>,
    /// Whether reduced axes stay, with extent 1.
    pub keepdim: bool,
}

/// The shape that is left after reducing some axes.
pub(crate) fn reduced_shape(shape: &Shape, axes: &[usize], keepdim: bool) -> Shape {
    let kept = shape.iter().enumerate().filter_map(|(axis, &extent)| match axes.contains(&axis) {
        true => keepdim.then_some(1),
        false => Some(extent),
    });
    kept.collect()
}

/// Refuses axes that are out of range, unsorted or repeated.
pub(crate) fn check_axes(shape: &Shape, axes: &[usize]) -> Result<()> {
    if let Some(axis) = axes.iter().find(|&&axis| axis >= shape.rank()) {
        return Err(Error::shape(format!("axis {axis} is out of range for rank {}", shape.rank())));
    }
    if axes.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(Error::shape(format!("axes {axes:?} are not sorted without repeats")));
    }
    Ok(())
}

/// For each output of a reduction, the operand's positions that go into it.
pub(crate) fn groups(shape: &Shape, axes: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let layout = Layout::contiguous(shape.clone());
    let kept: Vec<usize> = (0..shape.rank()).filter(|axis| !axes.contains(axis)).collect();
    let outer = layout.permute(&kept);
    let inner = layout.permute(axes);
    let offsets: Vec<usize> = inner.positions().collect();
    let starts: Vec<usize> = outer.positions().collect();
    starts.into_iter().map(move |start| offsets.iter().map(|offset| start + offset).collect())
}

impl Rule for Reduce {
    fn name(&self) -> &'static str {
        match self.op {
            Reduction::Sum => "sum",
            Reduction::Mean => "mean",
            Reduction::Prod => "prod",
            Reduction::Min => "reduce_min",
            Reduction::Max => "reduce_max",
            Reduction::Any => "any",
            Reduction::All => "all",
        }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        if !self.op.has(x.dtype) {
            return Err(Error::dtype(format!("does not take {}; cast first", x.dtype)));
        }
        check_axes(&x.shape, &self.axes)?;
        let shape = reduced_shape(&x.shape, &self.axes, self.keepdim);
        let nothing = self.axes.iter().any(|&axis| x.shape[axis] == 0) && shape.elements()? > 0;
        if nothing && matches!(self.op, Reduction::Min | Reduction::Max) {
            return Err(Error::shape("the smallest or largest of no elements is undefined"));
        }
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        match self.op {
            Reduction::Any | Reduction::All => Traits::NO_GRADIENT,
            Reduction::Sum | Reduction::Mean => Traits::own(Saves::NONE),
            Reduction::Prod => Traits::own(Saves::INPUTS),
            _ => Traits::own(Saves::BOTH),
        }
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let spec = call.spec(0)?;
        let kept = reduced_shape(&spec.shape, &self.axes, true);
        let g = call.grad(0)?.reshape(&kept)?;
        let grad = match self.op {
            Reduction::Sum => g.expand(&spec.shape)?,
            Reduction::Mean => {
                let count: usize = self.axes.iter().map(|&axis| spec.shape[axis]).product();
                (g * (1.0 / count as f64)).tensor()?.expand(&spec.shape)?
            }
            Reduction::Prod => prod_vjp(call.input(0)?, &g, &self.axes)?,
            _ => {
                // Ties share the gradient evenly.
                let (x, y) = (call.input(0)?, call.output(0)?.reshape(&kept)?);
                let hit = x.eq(&y)?.bit_or(&x.ne(x)?)?.cast(spec.dtype)?;
                let axes: Vec<isize> = self.axes.iter().map(|&a| a as isize).collect();
                let count = if axes.is_empty() { hit.clone() } else { hit.sum_keepdim(&axes)? };
                (&hit * (g / count.maximum(1))).tensor()?
            }
        };
        Ok(Cotangents::one(grad))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let ([x], Reduction::Mean) = (inputs, self.op) else { return Ok(None) };
        let count: usize = self.axes.iter().map(|&axis| x.shape()[axis]).product();
        let sum = run::call(Op::Reduce(Reduce { op: Reduction::Sum, ..self.clone() }), [x.into()])?;
        Ok(Some(vec![(sum / count as f64).tensor()?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let spec = &outputs[0];
        let groups = groups(inputs[0].shape(), &self.axes);
        let values = match &inputs[0].values {
            Values::Float(v) => {
                Values::Float(groups.map(|g| self.op.floats(&g.iter().map(|&p| v[p]).collect::<Vec<_>>())).collect())
            }
            Values::Int(v) => Values::Int(
                groups.map(|g| self.op.ints(&g.iter().map(|&p| v[p]).collect::<Vec<_>>(), spec.dtype)).collect(),
            ),
        };
        Ok(vec![RefTensor { spec: spec.clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let shapes: [(&[usize], &[usize]); 9] = [
            (&[2, 3, 5], &[0]),
            (&[2, 3, 5], &[1]),
            (&[2, 3, 5], &[2]),
            (&[2, 3, 5], &[0, 2]),
            (&[4, 3], &[0, 1]),
            (&[], &[]),
            (&[0, 3], &[1]),
            (&[3, 1], &[1]),
            (&[1300], &[0]),
        ];
        let mut cases = Vec::new();
        for op in Reduction::ALL {
            for dtype in DType::COMPUTED.into_iter().filter(|&d| op.has(d)) {
                let fill = match (op, dtype.is_float()) {
                    (Reduction::Prod, true) => Fill::Uniform(0.9, 1.1),
                    (Reduction::Min | Reduction::Max, true) => Fill::Distinct(-2.0, 2.0),
                    (_, true) => Fill::Uniform(-2.0, 2.0),
                    (_, false) => Fill::Uniform(-3.0, 5.0),
                };
                for (shape, axes) in shapes {
                    for keepdim in [false, true] {
                        let case = Case::new(Reduce { op, axes: Dims::from(axes), keepdim });
                        cases.push(case.input_with(shape, dtype, fill.clone()));
                    }
                }
                let special = Case::new(Reduce { op, axes: Dims::from([1]), keepdim: false });
                cases.push(special.input_with([2, 13], dtype, Fill::Special));
                if !matches!(op, Reduction::Min | Reduction::Max) {
                    let empty = Case::new(Reduce { op, axes: Dims::from([0]), keepdim: false });
                    cases.push(empty.input([0, 4], dtype));
                }
            }
        }
        let zeros = Case::new(Reduce { op: Reduction::Prod, axes: Dims::from([1]), keepdim: false });
        cases.push(zeros.input_with(
            [3, 3],
            DType::F64,
            Fill::Values(vec![0.0, 2.0, 3.0, 0.0, 0.0, 5.0, 1.0, 2.0, 4.0]),
        ));
        cases
    }
}

/// The gradient of a product: for each element the product of the others, by products from both ends, so that zeros
/// are no trouble and the result can be differentiated again.
fn prod_vjp(x: &Tensor, g: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if axes.is_empty() {
        return Ok(g.clone());
    }
    let rank = x.rank();
    let kept: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    let order: Vec<isize> = kept.iter().chain(axes).map(|&axis| axis as isize).collect();
    let moved = x.permute(&order)?;
    let count: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let mut flat: Vec<usize> = kept.iter().map(|&axis| x.shape()[axis]).collect();
    flat.push(count);
    let rows = moved.reshape(flat)?;
    if count == 0 {
        return x.zeros_like();
    }
    let before = products_before(&rows)?;
    let after = products_before(&rows.flip(&[-1])?)?.flip(&[-1])?;
    let mut inverse = vec![0isize; rank];
    for (to, &from) in order.iter().enumerate() {
        inverse[from as usize] = to as isize;
    }
    let others = (before * after).tensor()?.reshape(moved.shape())?.permute(&inverse)?;
    (others * g).into()
}

/// For each element of the last axis the product of those before it, by doubling.
fn products_before(rows: &Tensor) -> Result<Tensor> {
    let count = *rows.shape().last().unwrap_or(&1);
    let shifted = |t: &Tensor, by: usize| t.narrow(-1, 0, count - by)?.pad_axis(-1, by, 0, 1);
    let mut products = shifted(rows, 1)?;
    let mut reach = 1;
    while reach < count {
        products = (&products * shifted(&products, reach)?).tensor()?;
        reach *= 2;
    }
    Ok(products)
}

fn reduce(x: &Tensor, op: Reduction, axes: &[isize], keepdim: bool) -> Result<Tensor> {
    let rule = |axes: Vec<usize>| Op::Reduce(Reduce { op, axes: axes.into(), keepdim });
    let axes = normalize_axes(axes, x.rank()).map_err(|e| e.with_op(rule(Vec::new()).name(), &[x.spec()]))?;
    run::call(rule(axes), [x.into()])
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $method:ident, $keep:ident, $all:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// Over the given axes (negative ones count from the end; none given means all), which go away.
            ///
            /// # Errors
            /// Where an axis is out of range or named twice, or the dtype is not one that the reduction takes.
            pub fn $method(&self, axes: &[isize]) -> Result<Tensor> {
                reduce(self, Reduction::$op, axes, false)
            }

            $(#[$doc])*
            ///
            /// The reduced axes stay, with extent 1.
            ///
            /// # Errors
            /// As without `keepdim`.
            pub fn $keep(&self, axes: &[isize]) -> Result<Tensor> {
                reduce(self, Reduction::$op, axes, true)
            }

            $(#[$doc])*
            ///
            /// Over all elements; the result has rank 0.
            ///
            /// # Errors
            /// Where the dtype is not one that the reduction takes.
            pub fn $all(&self) -> Result<Tensor> {
                reduce(self, Reduction::$op, &[], false)
            }
        )*}
    };
}

reductions! {
    /// Sum, accumulated in at least f32; integers wrap. Nothing sums to 0.
    sum, sum_keepdim, sum_all => Sum;
    /// Arithmetic mean of floats; of nothing NaN.
    mean, mean_keepdim, mean_all => Mean;
    /// Product; integers wrap. Nothing multiplies to 1.
    prod, prod_keepdim, prod_all => Prod;
    /// Smallest element; NaN where any is NaN; of nothing an error.
    min, min_keepdim, min_all => Min;
    /// Largest element; NaN where any is NaN; of nothing an error.
    max, max_keepdim, max_all => Max;
    /// Whether any bool is true.
    any, any_keepdim, any_all => Any;
    /// Whether all bools are true.
    all, all_keepdim, all_all => All;
}
