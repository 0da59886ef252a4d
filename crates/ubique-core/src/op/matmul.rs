//! Matrix products: numpy's `matmul`, and the fully connected layer of a network as one op.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands, require_float, require_same_dtype};
use crate::shape::{Dims, Shape, TensorSpec};
use crate::tensor::Tensor;

/// A product of matrices, of batches of matrices, or of vectors; see [`Tensor::matmul`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Matmul;

/// Extents of a product, with vectors made matrices: a row on the left, a column on the right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extents {
    /// The common leading axes.
    pub batch: Shape,
    /// Rows of the left operand and the result.
    pub m: usize,
    /// The summed extent.
    pub k: usize,
    /// Columns of the right operand and the result.
    pub n: usize,
}

impl Extents {
    /// The extents of a product of operands of these shapes.
    ///
    /// # Errors
    /// Where an operand has no axes, the inner extents differ, or the leading axes do not broadcast.
    #[inline]
    pub fn new(a: &Shape, b: &Shape) -> Result<Extents> {
        let (&[ref left @ .., k], &[.., last]) = (&**a, &**b) else {
            return Err(Error::shape("a scalar has no matrix product; multiply it with *"));
        };
        let (inner, n, right): (usize, usize, &[usize]) = match &**b {
            [right @ .., inner, n] => (*inner, *n, right),
            _ => (last, 1, &[]),
        };
        if k != inner {
            return Err(Error::shape(format!(
                "inner extents differ: the left operand has {k} columns, the right one {inner} rows"
            )));
        }
        let (m, left) = match left {
            [left @ .., m] => (*m, left),
            [] => (1, left),
        };
        let batch = match (left, right) {
            (_, []) => Shape::from(left),
            ([], _) => Shape::from(right),
            _ => Shape::from(left).broadcast(&Shape::from(right))?,
        };
        Ok(Extents { batch, m, k, n })
    }

    /// The result's shape: without the axes that stand for a vector.
    fn result(&self, a: &Shape, b: &Shape) -> Shape {
        let rows = (a.rank() > 1).then_some(self.m);
        let columns = (b.rank() > 1).then_some(self.n);
        self.batch.iter().copied().chain(rows).chain(columns).collect()
    }

    /// The result's shape with all axes.
    fn full(&self) -> Shape {
        self.batch.iter().copied().chain([self.m, self.n]).collect()
    }
}

impl Rule for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    #[inline]
    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [a, b] = operands(inputs)?;
        require_same_dtype(a, b)?;
        if a.dtype == DType::Bool {
            return Err(Error::dtype("bools have no matrix product; cast them to a number first"));
        }
        let shape = Extents::new(&a.shape, &b.shape)?.result(&a.shape, &b.shape);
        shape.bytes(a.dtype)?;
        Ok(TensorSpec { shape, dtype: a.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::INPUTS)
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let (a, b) = (call.input(0)?, call.input(1)?);
        let g = call.grad(0)?.reshape(Extents::new(a.shape(), b.shape())?.full())?;
        let left = if a.rank() == 1 { a.unsqueeze(0)? } else { a.clone() };
        let right = if b.rank() == 1 { b.unsqueeze(1)? } else { b.clone() };
        let mut out = Cotangents::none(2);
        if call.wants(0) {
            out.set(0, g.matmul(&right.t()?)?.sum_to(left.shape())?.reshape(a.shape())?);
        }
        if call.wants(1) {
            // One matrix for the whole batch: its gradient is one long product, not a sum of many.
            let grad = match right.rank() {
                2 => rows(&left)?.t()?.matmul(&rows(&g)?)?,
                _ => left.t()?.matmul(&g)?.sum_to(right.shape())?,
            };
            out.set(1, grad.reshape(b.shape())?);
        }
        Ok(out)
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        Ok(vec![product(&inputs[0], &inputs[1], &outputs[0])?])
    }

    fn cases() -> Vec<Case> {
        const SHAPES: [(&[usize], &[usize]); 11] = [
            (&[2, 3], &[3, 4]),
            (&[3], &[3]),
            (&[3], &[3, 2]),
            (&[2, 3], &[3]),
            (&[3], &[2, 3, 2]),
            (&[2, 1, 3, 4], &[5, 4, 2]),
            (&[0, 3], &[3, 2]),
            (&[2, 0], &[0, 3]),
            (&[2, 2, 3], &[3, 0]),
            (&[0], &[0]),
            (&[1, 1], &[1, 1]),
        ];
        let numbers = DType::FLOATS.into_iter().chain(DType::INTS);
        let mut cases: Vec<Case> =
            numbers.flat_map(|dtype| SHAPES.map(|(a, b)| Case::new(Matmul).input(a, dtype).input(b, dtype))).collect();
        for dtype in DType::FLOATS {
            let special = Fill::Values(vec![1.0, f64::INFINITY, 2.0, 0.0, f64::NAN, 1.0, 0.5, 2.0, -1.0]);
            cases.push(Case::new(Matmul).input([37, 19], dtype).input([19, 41], dtype));
            cases.push(Case::new(Matmul).input_with([3, 3], dtype, special).input([3, 2], dtype).not_smooth());
        }
        for dtype in DType::INTS {
            let large = || Fill::Values(vec![f64::MAX, 3.0, f64::MIN, -7.0, 11.0]);
            cases.push(Case::new(Matmul).input_with([3, 7], dtype, large()).input_with([7, 2], dtype, large()));
            cases.push(Case::new(Matmul).input([37, 19], dtype).input([19, 41], dtype));
        }
        cases
    }
}

/// All axes but the last joined.
fn rows(x: &Tensor) -> Result<Tensor> {
    let columns = x.shape().last().copied().unwrap_or(1);
    let count = x.shape().iter().rev().skip(1).product::<usize>();
    x.reshape([count, columns])
}

/// The product of reference values.
fn product(a: &RefTensor, b: &RefTensor, out: &TensorSpec) -> Result<RefTensor> {
    let Extents { batch, m, k, n } = Extents::new(a.shape(), b.shape())?;
    let full = |x: &RefTensor, rows: usize, columns: usize| -> Result<RefTensor> {
        let own: Shape =
            x.shape()[..x.shape().rank().saturating_sub(2)].iter().copied().chain([rows, columns]).collect();
        let spec = TensorSpec::new(own, x.spec.dtype);
        let wide: Shape = batch.iter().copied().chain([rows, columns]).collect();
        RefTensor { spec, values: x.values.clone() }.expand(&wide)
    };
    let (a, b) = (full(a, m, k)?, full(b, k, n)?);
    let count = batch.elements()?;
    let index = move |at: usize| {
        let (matrix, row, column) = (at / (m * n), at / n % m, at % n);
        (0..k).map(move |i| ((matrix * m + row) * k + i, (matrix * k + i) * n + column))
    };
    let values = match (&a.values, &b.values) {
        (Values::Float(a), Values::Float(b)) => {
            Values::Float((0..count * m * n).map(|at| index(at).map(|(i, j)| a[i] * b[j]).sum()).collect())
        }
        _ => {
            let (a, b) = (a.ints(), b.ints());
            let sum =
                |at| index(at).fold(0, |sum, (i, j)| out.dtype.wrap(sum + out.dtype.wrap(a[i].wrapping_mul(b[j]))));
            Values::Int((0..count * m * n).map(sum).collect())
        }
    };
    Ok(RefTensor { spec: out.clone(), values })
}

/// A fully connected layer, x·Wᵀ + b; see [`Tensor::linear`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Linear;

impl Rule for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    #[inline]
    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let (x, weight, bias) = match inputs {
            [x, weight] => (x, weight, None),
            [x, weight, bias] => (x, weight, Some(bias)),
            _ => return Err(Error::value(format!("takes 2 or 3 operands, got {}", inputs.len()))),
        };
        require_float(x)?;
        require_same_dtype(x, weight)?;
        let [out, features] = *weight.shape else {
            return Err(Error::shape(format!("the weight has to be [outputs, inputs], got {}", weight.shape)));
        };
        if x.shape.last() != Some(&features) {
            return Err(Error::shape(format!("the last axis of {} is not the weight's {features} inputs", x.shape)));
        }
        if let Some(bias) = bias {
            require_same_dtype(x, bias)?;
            if bias.shape != [out] {
                return Err(Error::shape(format!("the bias has to be [{out}], got {}", bias.shape)));
            }
        }
        let shape = x.shape.with(x.shape.rank() - 1, out);
        shape.bytes(x.dtype)?;
        Ok(TensorSpec { shape, dtype: x.dtype }.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::only(&[0, 1]))
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let g = call.grad(0)?;
        let mut out = Cotangents::none(call.operands());
        if call.wants(0) {
            out.set(0, g.matmul(call.input(1)?)?);
        }
        if call.wants(1) {
            out.set(1, rows(g)?.t()?.matmul(&rows(call.input(0)?)?)?);
        }
        if call.wants(2) {
            out.set(2, g.sum_to(&call.spec(2)?.shape)?);
        }
        Ok(out)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x, weight, bias @ ..] = inputs else { return Ok(None) };
        let product = x.matmul(&weight.t()?)?;
        Ok(Some(vec![match bias {
            [bias] => (product + bias).tensor()?,
            _ => product,
        }]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let [x, weight, bias @ ..] = inputs else { return Err(Error::value("takes 2 or 3 operands")) };
        let &[out, features] = &**weight.shape() else { return Err(Error::shape("the weight has to be a matrix")) };
        let transposed = TensorSpec::new([features, out], weight.spec.dtype);
        let weight = weight.gather(&transposed, (0..features * out).map(|at| at % out * features + at / out));
        let mut values = product(x, &weight, &outputs[0])?.floats();
        if let [bias] = bias {
            let bias = bias.floats();
            values.iter_mut().enumerate().for_each(|(i, v)| *v += bias[i % out]);
        }
        Ok(vec![RefTensor { spec: outputs[0].clone(), values: Values::Float(values) }])
    }

    fn cases() -> Vec<Case> {
        const SHAPES: [(&[usize], usize, usize); 7] =
            [(&[2], 3, 4), (&[], 3, 2), (&[2, 3], 4, 1), (&[0], 3, 2), (&[2], 0, 3), (&[2], 3, 0), (&[33], 17, 35)];
        let case = |dtype: DType, (lead, features, out): (&[usize], usize, usize), bias: bool| {
            let x: Dims<usize> = lead.iter().copied().chain([features]).collect();
            let case = Case::new(Linear).input(x, dtype).input([out, features], dtype);
            if bias { case.input([out], dtype) } else { case }
        };
        DType::FLOATS
            .into_iter()
            .flat_map(|dtype| SHAPES.into_iter().flat_map(move |s| [case(dtype, s, false), case(dtype, s, true)]))
            .collect()
    }
}

impl Tensor {
    /// The matrix product, as numpy's `matmul`: `[.., m, k] · [.., k, n]` gives `[.., m, n]`, leading axes broadcast.
    /// A vector on the left counts as a row, one on the right as a column, and that axis is left out of the result.
    /// Half-precision products are summed in f32; integers wrap. An empty inner extent gives zeros.
    ///
    /// # Errors
    /// Where dtypes or inner extents differ, leading axes do not broadcast, an operand has rank 0, or for bools.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        run::call(Op::Matmul(Matmul), [self.into(), other.into()])
    }

    /// The inner product of two vectors of the same length: Σ xᵢ·yᵢ, of rank 0.
    ///
    /// # Errors
    /// Where an operand is not a vector, or lengths or dtypes differ.
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        self.require_vectors("dot", other)?;
        self.matmul(other)
    }

    /// The outer product of two vectors: element \[i, j\] is xᵢ·yⱼ.
    ///
    /// # Errors
    /// Where an operand is not a vector or dtypes differ.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        self.require_vectors("outer", other)?;
        (self.unsqueeze(1)? * other.unsqueeze(0)?).into()
    }

    fn require_vectors(&self, op: &str, other: &Tensor) -> Result<()> {
        if self.rank() == 1 && other.rank() == 1 {
            return Ok(());
        }
        Err(Error::shape("both operands have to be vectors").with_op(op, &[self.spec(), other.spec()]))
    }

    /// A fully connected layer: x·Wᵀ + b for x `[.., inputs]`, W `[outputs, inputs]` and b `[outputs]`;
    /// gives `[.., outputs]`. Floats only.
    ///
    /// # Errors
    /// Where shapes or dtypes do not fit.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        match bias {
            Some(bias) => run::call(Op::Linear(Linear), [self.into(), weight.into(), bias.into()]),
            None => run::call(Op::Linear(Linear), [self.into(), weight.into()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(a: &[usize], b: &[usize]) -> Result<Shape> {
        let (a, b) = (Shape::from(a), Shape::from(b));
        Ok(Extents::new(&a, &b)?.result(&a, &b))
    }

    #[test]
    fn shapes_follow_numpy() {
        assert_eq!(shape(&[2, 3], &[3, 4]).unwrap(), [2, 4]);
        assert_eq!(shape(&[3], &[3]).unwrap(), []);
        assert_eq!(shape(&[3], &[5, 3, 2]).unwrap(), [5, 2]);
        assert_eq!(shape(&[5, 2, 3], &[3]).unwrap(), [5, 2]);
        assert_eq!(shape(&[2, 1, 3, 4], &[5, 4, 2]).unwrap(), [2, 5, 3, 2]);
    }

    #[test]
    fn misfits_are_explained() {
        let error = shape(&[2, 3], &[4, 2]).unwrap_err();
        assert!(error.message().contains("3 columns"), "{error}");
        assert!(shape(&[], &[2]).is_err());
        assert!(shape(&[2], &[]).is_err());
        assert!(shape(&[2, 3, 3], &[4, 3, 3]).is_err());
        let spec = |shape: &[usize]| TensorSpec::new(shape, DType::F32);
        assert!(Linear.infer(&[spec(&[]), spec(&[2, 3])]).is_err());
        assert!(Linear.infer(&[spec(&[3]), spec(&[2, 3]), spec(&[3])]).is_err());
        assert!(Linear.infer(&[spec(&[3])]).is_err());
    }

    #[test]
    fn huge_results_are_refused() {
        let spec = |shape: &[usize]| TensorSpec::new(shape, DType::F32);
        assert!(Matmul.infer(&[spec(&[1 << 40, 0]), spec(&[0, 1 << 40])]).is_err());
    }
}
