//! Row-major values seen along one axis, for references of ops that work on lanes.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::HostTensor;
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// How often a lane begins before, how long it is, and how far apart its elements lie.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// The product of the extents before the axis.
    pub outer: usize,
    /// The axis's extent.
    pub len: usize,
    /// The product of the extents after the axis.
    pub inner: usize,
}

impl Lanes {
    /// The lanes of an axis; those of a rank-0 tensor are its one element.
    pub fn new(shape: &[usize], axis: usize) -> Lanes {
        let (before, rest) = shape.split_at(axis.min(shape.len()));
        let (len, after) = rest.split_first().map_or((1, rest), |(len, after)| (*len, after));
        Lanes { outer: before.iter().product(), len, inner: after.iter().product() }
    }

    /// Where the elements of the lane begin, lane by lane.
    pub fn starts(self) -> impl Iterator<Item = usize> {
        (0..self.outer).flat_map(move |o| (0..self.inner).map(move |i| o * self.len * self.inner + i))
    }

    /// A lane's values.
    pub fn lane(self, values: &[f64], start: usize) -> Vec<f64> {
        (0..self.len).map(|k| values[start + k * self.inner]).collect()
    }

    /// Puts a lane's values in their places.
    pub fn store(self, values: &mut [f64], start: usize, lane: &[f64]) {
        for (k, value) in lane.iter().enumerate() {
            values[start + k * self.inner] = *value;
        }
    }

    /// Each lane by itself, to a lane of the same length.
    pub fn map(self, values: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let mut out = vec![0.0; values.len()];
        if out.is_empty() {
            return out;
        }
        for start in self.starts() {
            self.store(&mut out, start, &f(&self.lane(values, start)));
        }
        out
    }

    /// Each lane to one value.
    pub fn reduce(self, values: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        self.starts().map(|start| f(&self.lane(values, start))).collect()
    }
}

/// Refuses an axis that a tensor does not have.
///
/// # Errors
/// Where the axis is not below the rank.
pub fn require_axis(spec: &TensorSpec, axis: usize) -> Result<()> {
    if axis < spec.shape.rank() {
        return Ok(());
    }
    Err(Error::shape(format!("axis {axis} is out of range for rank {}", spec.shape.rank())))
}

/// The dtype in which sums of a floating-point dtype are kept: f32 for the half-precision ones.
pub fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Numbers along an axis, which broadcast to a tensor's rank, in its dtype and on its device.
///
/// # Errors
/// What the device reports.
pub fn along_axis(values: Vec<f64>, axis: usize, like: &Tensor) -> Result<Tensor> {
    let shape = Shape::repeat(1, like.rank()).with(axis, values.len());
    let values = values.into_iter().map(Scalar::Float);
    Tensor::from_host(HostTensor::from_scalars(values, like.dtype(), shape)?, like.device())
}

/// Runs a decomposition in f32 where the operands are half-precision, so that what lies between is not rounded to it.
///
/// # Errors
/// What `f` reports.
pub fn widened(inputs: &[Tensor], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Option<Vec<Tensor>>> {
    let half = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    let Some(narrow) = inputs.iter().map(Tensor::dtype).find(|&dtype| half(dtype)) else {
        return Ok(Some(f(inputs)?));
    };
    let wide = inputs
        .iter()
        .map(|t| if half(t.dtype()) { t.cast(DType::F32) } else { Ok(t.clone()) })
        .collect::<Result<Vec<_>>>()?;
    let results = f(&wide)?;
    Ok(Some(
        results
            .iter()
            .map(|t| if t.dtype() == DType::F32 { t.cast(narrow) } else { Ok(t.clone()) })
            .collect::<Result<_>>()?,
    ))
}
