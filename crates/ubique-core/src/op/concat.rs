//! Tensors joined along an axis.

use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::op::case::Case;
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, require_same_dtype};
use crate::shape::{TensorSpec, normalize_axis};
use crate::tensor::Tensor;

/// One or more tensors joined along an axis; all other extents are equal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

impl Rule for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let first = inputs.first().ok_or_else(|| Error::value("needs at least one tensor"))?;
        if self.axis >= first.shape.rank() {
            return Err(Error::shape(format!("axis {} is out of range for rank {}", self.axis, first.shape.rank())));
        }
        let mut total = 0usize;
        for input in inputs {
            require_same_dtype(first, input)?;
            if input.shape.rank() != first.shape.rank()
                || input.shape.with(self.axis, 0) != first.shape.with(self.axis, 0)
            {
                return Err(Error::shape(format!(
                    "{} and {} differ outside axis {}",
                    first.shape, input.shape, self.axis
                )));
            }
            total =
                total.checked_add(input.shape[self.axis]).ok_or_else(|| Error::shape("the joined extent overflows"))?;
        }
        let spec = TensorSpec { shape: first.shape.with(self.axis, total), dtype: first.dtype };
        spec.shape.bytes(spec.dtype)?;
        Ok(spec.into())
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound().moves()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        let g = call.grad(0)?;
        let mut start = 0;
        let piece = |i: usize| {
            let len = call.spec(i)?.shape[self.axis];
            let piece = if call.wants(i) { Some(g.narrow(self.axis as isize, start, len)?) } else { None };
            start += len as isize;
            Ok(piece)
        };
        Ok((0..call.operands()).map(piece).collect::<Result<Vec<_>>>()?.into_iter().collect())
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let target = Layout::contiguous(outputs[0].shape.clone());
        let mut start = 0;
        let mut ints = vec![0i128; target.elements()];
        let mut floats = vec![0f64; target.elements()];
        for input in inputs {
            let len = input.shape()[self.axis];
            let places = target.slice(self.axis, start, 1, len)?;
            match &input.values {
                Values::Float(v) => places.positions().zip(v).for_each(|(p, &v)| floats[p] = v),
                Values::Int(v) => places.positions().zip(v).for_each(|(p, &v)| ints[p] = v),
            }
            start += len;
        }
        let values = if outputs[0].dtype.int_range().is_none() { Values::Float(floats) } else { Values::Int(ints) };
        Ok(vec![RefTensor { spec: outputs[0].clone(), values }])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for dtype in DType::ALL {
            cases.push(Case::new(Concat { axis: 0 }).input([2, 3], dtype).input([1, 3], dtype).input([0, 3], dtype));
            cases.push(Case::new(Concat { axis: 1 }).input([2, 3, 2], dtype).input([2, 1, 2], dtype));
            cases.push(
                Case::new(Concat { axis: 2 }).input([2, 2, 1], dtype).input([2, 2, 4], dtype).input([2, 2, 2], dtype),
            );
        }
        cases.push(Case::new(Concat { axis: 0 }).input([5], DType::F64));
        cases.push(Case::new(Concat { axis: 1 }).input([700, 2], DType::F32).input([700, 3], DType::F32));
        cases
    }
}

impl Tensor {
    /// Tensors joined along an axis; all other extents must be equal.
    ///
    /// # Errors
    /// Where the list is empty, or shapes, dtypes or devices differ.
    pub fn concat(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let rank = tensors.first().map_or(0, |t| t.rank());
        let fail = |e: Error| e.with_op("concat", &tensors.iter().map(|t| t.spec()).collect::<Vec<_>>());
        if tensors.is_empty() {
            return Err(fail(Error::value("needs at least one tensor")));
        }
        let axis = normalize_axis(axis, rank).map_err(fail)?;
        run::call_list(Op::Concat(Concat { axis }), tensors)
    }

    /// Tensors of one shape joined along a new axis.
    ///
    /// # Errors
    /// Where the list is empty, or shapes, dtypes or devices differ.
    pub fn stack(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let wide = tensors.iter().map(|t| t.unsqueeze(axis)).collect::<Result<Vec<_>>>()?;
        Tensor::concat(&wide.iter().collect::<Vec<_>>(), axis)
    }
}
