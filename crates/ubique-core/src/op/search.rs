//! Places of values in sorted sequences.

use serde::{Deserialize, Serialize};

use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::{Case, Fill};
use crate::op::reference::{RefTensor, Values};
use crate::op::{Rule, Specs, operands, require_same_dtype};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// On which side of equal elements a value belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Before all of them: `sorted[i - 1] < value <= sorted[i]`.
    #[default]
    Left,
    /// After all of them: `sorted[i - 1] <= value < sorted[i]`.
    Right,
}

impl Side {
    /// Whether an element stands before where a value belongs. As in sorting, NaN is larger than all else.
    fn precedes(self, element: &Tensor, value: &Tensor) -> Result<Tensor> {
        let nan = value.ne(value)?;
        match self {
            Side::Left => element.lt(value)?.bit_or(&nan.bit_and(&element.eq(element)?)?),
            Side::Right => element.le(value)?.bit_or(&nan),
        }
    }

    /// The same of numbers.
    fn precedes_number<T: PartialOrd>(self, element: T, value: T) -> bool {
        #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
        let (element_nan, value_nan) = (element != element, value != value);
        match self {
            Side::Left => element < value || value_nan && !element_nan,
            Side::Right => element <= value || value_nan,
        }
    }
}

/// For each value how many elements of an ascending sequence stand before it; see [`Tensor::searchsorted`].
///
/// Operands: the sequence `[.., n]` and values `[.., m]` with the same leading axes, or of any shape for a sequence `[n]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SearchSorted {
    /// Where a value belongs among equal elements.
    pub side: Side,
    /// The result's dtype, i64 or i32.
    pub dtype: DType,
}

impl Rule for SearchSorted {
    fn name(&self) -> &'static str {
        "searchsorted"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [sorted, values] = operands(inputs)?;
        require_same_dtype(sorted, values)?;
        let Some((&count, lead)) = sorted.shape.split_last() else {
            return Err(Error::shape("the sequence has no axis"));
        };
        let alike = values.shape.rank() == sorted.shape.rank() && values.shape.starts_with(lead);
        if !lead.is_empty() && !alike {
            let message = format!("values {} do not have the leading axes of {}", values.shape, sorted.shape);
            return Err(Error::shape(message));
        }
        let largest = match self.dtype {
            DType::I64 => i64::MAX as usize,
            DType::I32 => i32::MAX as usize,
            other => return Err(Error::dtype(format!("places are i64 or i32, not {other}"))),
        };
        if count > largest {
            return Err(Error::shape(format!(
                "a sequence of {count} elements has places that {} cannot hold",
                self.dtype
            )));
        }
        Ok(TensorSpec { shape: values.shape.clone(), dtype: self.dtype }.into())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [sorted, values] = inputs else { return Ok(None) };
        let count = sorted.shape().last().copied().unwrap_or(0);
        let shape = values.shape();
        let values = if sorted.rank() == 1 { values.reshape([values.elements()])? } else { values.clone() };
        let mut place = Tensor::zeros(values.shape(), self.dtype, values.device())?;
        // The place is found bit by bit, from the highest that `0..=count` can have.
        let mut step = if count == 0 { 0 } else { 1 << count.ilog2() };
        while step > 0 {
            let next = (&place + step as i64).tensor()?;
            let element = sorted.gather(-1, &(&next - 1).tensor()?.minimum(count - 1)?)?;
            let reached = self.side.precedes(&element, &values)?.bit_and(&next.le(count)?)?;
            place = next.select(&reached, &place)?;
            step /= 2;
        }
        Ok(Some(vec![place.reshape(shape)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        fn places<T: PartialOrd + Copy>(
            side: Side,
            sorted: &[T],
            count: usize,
            values: &[T],
            each: usize,
        ) -> Vec<i128> {
            let before = |(i, &value): (usize, &T)| {
                let sequence = &sorted[i / each * count..][..count];
                sequence.iter().filter(|&&element| side.precedes_number(element, value)).count() as i128
            };
            values.iter().enumerate().map(before).collect()
        }
        let [sorted, values] = inputs else { return Err(Error::value("takes 2 operands")) };
        let count = sorted.shape().last().copied().unwrap_or(0);
        let each = if sorted.shape().rank() == 1 { values.len() } else { values.shape().last().copied().unwrap_or(0) };
        let found = match (&sorted.values, &values.values) {
            (Values::Float(sorted), Values::Float(values)) => places(self.side, sorted, count, values, each),
            _ => places(self.side, &sorted.ints(), count, &values.ints(), each),
        };
        Ok(vec![RefTensor::int(&outputs[0].shape, self.dtype, found)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        let with_nan = vec![f64::NEG_INFINITY, -2.5, -1.0, 0.0, 0.0, 1.0, f64::INFINITY, f64::NAN, f64::NAN];
        let long: Vec<f64> = (0..700).map(|i| (i as f64 - 350.0) / 60.0).collect();
        for dtype in DType::COMPUTED {
            let ascending = match dtype.is_float() {
                true => with_nan.clone(),
                false => vec![0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 7.0, 120.0],
            };
            for (side, index) in [(Side::Left, DType::I64), (Side::Right, DType::I64), (Side::Right, DType::I32)] {
                let within = |shape: &[usize], fill: &[f64]| {
                    Case::new(SearchSorted { side, dtype: index }).input_with(shape, dtype, Fill::Values(fill.to_vec()))
                };
                cases.push(within(&[9], &ascending).input_with([2, 13], dtype, Fill::Special));
                cases.push(within(&[9], &ascending).input([], dtype));
                cases.push(within(&[2, 3, 9], &ascending).input([2, 3, 5], dtype));
                cases.push(within(&[3, 1], &ascending[3..4]).input([3, 4], dtype));
                cases.push(within(&[0], &[]).input([4], dtype));
                cases.push(within(&[2, 5], &ascending[..5]).input([2, 0], dtype));
                cases.push(within(&[700], &long).input_with([70, 80], dtype, Fill::Uniform(-8.0, 8.0)));
                // Values in order, too.
                cases.push(within(&[700], &long).input_with([6000], dtype, Fill::Values(long[20..620].to_vec())));
            }
        }
        cases
    }
}

impl Tensor {
    /// Where values belong in this ascending sequence, so that it stays in order: for each value how many elements stand
    /// before it (i64, `0..=n`), in the values' shape. A sequence `[n]` serves values of any shape, one `[.., n]` with
    /// leading axes values `[.., m]` with the same ones. NaN is larger than all else. Any one dtype. Takes log₂(n) steps; a
    /// sequence out of order gives places that mean nothing.
    ///
    /// # Errors
    /// Where the sequence has rank 0, leading axes or dtypes differ.
    pub fn searchsorted(&self, values: &Tensor, side: Side) -> Result<Tensor> {
        run::call(SearchSorted { side, dtype: DType::I64 }.into(), [self.into(), values.into()])
    }

    /// Where these values belong between ascending boundaries `[n]`: as [`Tensor::searchsorted`], seen from the values.
    ///
    /// # Errors
    /// Where the boundaries do not have rank 1 or dtypes differ.
    pub fn bucketize(&self, boundaries: &Tensor, side: Side) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("bucketize", &[self.spec(), boundaries.spec()]);
        if boundaries.rank() != 1 {
            return Err(fail(Error::shape("the boundaries have to be a vector")));
        }
        boundaries.searchsorted(self, side).map_err(fail)
    }
}
