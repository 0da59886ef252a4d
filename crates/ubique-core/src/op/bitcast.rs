//! The same bits read as another dtype.

use serde::{Deserialize, Serialize};

use crate::dispatch::run;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::HostTensor;
use crate::op::case::{Case, Fill};
use crate::op::reference::RefTensor;
use crate::op::{Op, Rule, Specs, Traits, operands};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// The same bits read as another dtype. Where sizes differ, the last axis has as many bytes as before: an element becomes
/// several neighbours, in the order of the machine's memory, or several neighbours one. There is no gradient.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bitcast {
    /// The new dtype.
    pub dtype: DType,
}

impl Rule for Bitcast {
    fn name(&self) -> &'static str {
        "bitcast"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        if self.dtype == DType::Bool && x.dtype != DType::Bool {
            return Err(Error::dtype(format!(
                "not all bits of {} are a bool; compare instead, as in x.ne(0)",
                x.dtype
            )));
        }
        let (from, to) = (x.dtype.size(), self.dtype.size());
        if from == to {
            return Ok(TensorSpec::new(&x.shape, self.dtype).into());
        }
        let Some(&last) = x.shape.last() else {
            let sizes = format!("{from} bytes of {} are not one {}, and a tensor of rank 0", x.dtype, self.dtype);
            return Err(Error::shape(format!("{sizes} has no axis to lengthen or shorten")));
        };
        let bytes = last.checked_mul(from).ok_or_else(|| Error::shape("the size of the last axis overflows"))?;
        if !bytes.is_multiple_of(to) {
            let group = format!("{last} of {from} bytes each in groups of {to} bytes");
            return Err(Error::shape(format!("the last axis does not split: {group} for {}", self.dtype)));
        }
        Ok(TensorSpec::new(x.shape.with(x.shape.rank() - 1, bytes / to), self.dtype).into())
    }

    fn traits(&self) -> Traits {
        Traits::NO_GRADIENT.moves()
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let bytes = inputs[0].to_host()?.bytes().to_vec();
        let host = HostTensor::from_bytes(bytes, outputs[0].dtype, outputs[0].shape.clone())?;
        Ok(vec![RefTensor::from_host(&host)])
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for from in DType::ALL {
            for to in DType::ALL.into_iter().filter(|&to| to != DType::Bool || from == DType::Bool) {
                let case = |shape: &[usize], fill| Case::new(Bitcast { dtype: to }).input_with(shape, from, fill);
                cases.push(case(&[3, 8], Fill::Uniform(-3.0, 90.0)));
                cases.push(case(&[16], Fill::Special));
                cases.push(case(&[3, 0], Fill::Values(vec![0.0])));
                cases.push(case(&[0, 8], Fill::Values(vec![0.0])));
                if from.size() == to.size() {
                    cases.push(case(&[], Fill::Uniform(-3.0, 90.0)));
                    cases.push(case(&[2, 3, 5], Fill::Uniform(-3.0, 90.0)));
                }
            }
        }
        cases
    }
}

impl Tensor {
    /// The same bits read as another dtype, without a copy where the device can do without. With a dtype of another size
    /// the last axis grows or shrinks: f32 `[2, 3]` is u8 `[2, 12]` and back, in the byte order of the machine. The same
    /// tensor where the dtype is already that one. Not differentiable.
    ///
    /// ```
    /// # use ubique_core::{DType, Device, Result, Tensor};
    /// # fn example(device: &Device) -> Result<()> {
    /// let x = Tensor::from_slice(&[1.0f32, -0.0], [2], device)?;
    /// assert_eq!(x.bitcast(DType::U32)?.to_vec::<u32>()?, [0x3f80_0000, 0x8000_0000]);
    /// assert_eq!(x.bitcast(DType::U64)?.shape(), &[1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Where sizes differ and there is no last axis or its bytes are not a multiple of the new size; and from another dtype
    /// to bool, of which most bits are none.
    pub fn bitcast(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        run::call(Op::Bitcast(Bitcast { dtype }), [self.into()])
    }
}
