//! Values for the f64 reference: floats as f64, integers and bools exactly.

use crate::dtype::{DType, Kind};
use crate::error::Result;
use crate::host::HostTensor;
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};

/// A contiguous tensor of reference values.
#[derive(Clone, Debug, PartialEq)]
pub struct RefTensor {
    /// Shape, and the dtype that the values stand for.
    pub spec: TensorSpec,
    /// Row-major values.
    pub values: Values,
}

/// Reference values: wide enough to be exact.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// For floating-point dtypes, also those that are only stored.
    Float(Vec<f64>),
    /// For integers, and bools as 0 and 1.
    Int(Vec<i128>),
}

impl RefTensor {
    /// Float values.
    pub fn float(shape: impl Into<Shape>, dtype: DType, values: Vec<f64>) -> RefTensor {
        RefTensor { spec: TensorSpec::new(shape, dtype), values: Values::Float(values) }
    }

    /// Exact integers; each is wrapped into the dtype's range.
    pub fn int(shape: impl Into<Shape>, dtype: DType, values: Vec<i128>) -> RefTensor {
        let values = values.into_iter().map(|v| dtype.wrap(v)).collect();
        RefTensor { spec: TensorSpec::new(shape, dtype), values: Values::Int(values) }
    }

    /// Values of either kind for a spec, from scalars: how ops that only move elements build their results.
    pub fn gather(&self, spec: &TensorSpec, positions: impl Iterator<Item = usize>) -> RefTensor {
        let values = match &self.values {
            Values::Float(v) => Values::Float(positions.map(|p| v[p]).collect()),
            Values::Int(v) => Values::Int(positions.map(|p| v[p]).collect()),
        };
        RefTensor { spec: spec.clone(), values }
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        &self.spec.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Float(v) => v.len(),
            Values::Int(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values as floats.
    pub fn floats(&self) -> Vec<f64> {
        match &self.values {
            Values::Float(v) => v.clone(),
            Values::Int(v) => v.iter().map(|&v| v as f64).collect(),
        }
    }

    /// The values as integers; floats are truncated.
    pub fn ints(&self) -> Vec<i128> {
        match &self.values {
            Values::Float(v) => v.iter().map(|&v| v as i128).collect(),
            Values::Int(v) => v.clone(),
        }
    }

    /// Whether the values stand for a floating-point dtype that ops compute with.
    pub fn is_float(&self) -> bool {
        self.spec.dtype.is_float()
    }

    /// The values broadcast to a shape.
    ///
    /// # Errors
    /// Where the shapes do not broadcast.
    pub fn expand(&self, shape: &Shape) -> Result<RefTensor> {
        let layout = crate::layout::Layout::contiguous(self.spec.shape.clone()).expand(shape)?;
        Ok(self.gather(&TensorSpec::new(shape, self.spec.dtype), layout.positions()))
    }

    /// Reads host data.
    pub fn from_host(host: &HostTensor) -> RefTensor {
        let values = match host.dtype().kind() {
            Kind::Float | Kind::Stored => Values::Float(host.to_f64()),
            _ => Values::Int(host.scalars().into_iter().map(Scalar::as_i128).collect()),
        };
        RefTensor { spec: host.spec().clone(), values }
    }

    /// Rounds to the dtype.
    ///
    /// # Errors
    /// Where the number of values does not fit the shape.
    pub fn to_host(&self) -> Result<HostTensor> {
        let dtype = self.spec.dtype;
        let scalars: Vec<Scalar> = match &self.values {
            Values::Float(v) => v.iter().map(|&v| Scalar::Float(v)).collect(),
            Values::Int(v) => v
                .iter()
                .map(|&v| match dtype {
                    DType::U64 => Scalar::UInt(v as u64),
                    _ => Scalar::Int(v as i64),
                })
                .collect(),
        };
        HostTensor::from_scalars(scalars, dtype, self.spec.shape.clone())
    }
}
