//! Test cases of ops: which parameters, and what operands to make for them.

use crate::dtype::DType;
use crate::op::Op;
use crate::op::reference::RefTensor;
use crate::random::Philox;
use crate::shape::{Shape, TensorSpec};

/// One input worth testing.
#[derive(Clone, Debug)]
pub struct Case {
    /// The op with its parameters.
    pub op: Op,
    /// What its operands are.
    pub inputs: Vec<Input>,
    /// Whether the gradient may be checked by finite differences at these inputs (not at kinks, NaN or infinities).
    pub smooth: bool,
}

/// An operand to make.
#[derive(Clone, Debug)]
pub struct Input {
    /// Shape and dtype.
    pub spec: TensorSpec,
    /// Its values.
    pub values: Fill,
}

/// How to choose an operand's values.
#[derive(Clone, Debug)]
pub enum Fill {
    /// Uniform in a range, deterministic; rounded to integers for integer dtypes.
    Uniform(f64, f64),
    /// Like `Uniform`, but no two values are equal or nearly so: for ops with ties or kinks between elements (sort, max).
    Distinct(f64, f64),
    /// These values, repeated as often as needed.
    Values(Vec<f64>),
    /// NaN, infinities, zeros of both signs, denormals, extremes: for floats; extremes for integers.
    Special,
}

impl Case {
    /// A case without operands yet.
    pub fn new(op: impl Into<Op>) -> Case {
        Case { op: op.into(), inputs: Vec::new(), smooth: true }
    }

    /// Adds an operand with values in [-2, 2) (floats) or [0, 5) (integers and bools).
    pub fn input(self, shape: impl Into<Shape>, dtype: DType) -> Case {
        let integral = dtype.int_range().is_some();
        let fill = if integral { Fill::Uniform(0.0, 5.0) } else { Fill::Uniform(-2.0, 2.0) };
        self.input_with(shape, dtype, fill)
    }

    /// Adds an operand with chosen values.
    pub fn input_with(mut self, shape: impl Into<Shape>, dtype: DType, values: Fill) -> Case {
        self.smooth &= !matches!(values, Fill::Special);
        self.inputs.push(Input { spec: TensorSpec::new(shape, dtype), values });
        self
    }

    /// Marks the gradient as not to be compared with finite differences here.
    pub fn not_smooth(mut self) -> Case {
        self.smooth = false;
        self
    }

    /// The specs of the operands.
    pub fn specs(&self) -> Vec<TensorSpec> {
        self.inputs.iter().map(|i| i.spec.clone()).collect()
    }

    /// The operands' values, the same at every call.
    pub fn operands(&self) -> Vec<RefTensor> {
        self.inputs.iter().enumerate().map(|(i, input)| input.make(i as u64)).collect()
    }
}

impl Input {
    fn make(&self, stream: u64) -> RefTensor {
        let dtype = self.spec.dtype;
        let count = self.spec.shape.elements().unwrap_or(0);
        let values: Vec<f64> = match &self.values {
            Fill::Uniform(low, high) => uniform(stream, count).into_iter().map(|u| low + (high - low) * u).collect(),
            Fill::Distinct(low, high) => {
                let step = (high - low) / count.max(1) as f64;
                let noise = uniform(stream, count);
                shuffled(stream, count)
                    .into_iter()
                    .zip(noise)
                    .map(|(k, u)| low + step * (k as f64 + 0.25 * u))
                    .collect()
            }
            Fill::Values(values) => values.iter().copied().cycle().take(count).collect(),
            Fill::Special => special(dtype).into_iter().cycle().take(count).collect(),
        };
        match dtype.int_range() {
            None => {
                RefTensor::float(self.spec.shape.clone(), dtype, values.into_iter().map(|v| dtype.round(v)).collect())
            }
            Some((low, high)) => {
                let ints = values.into_iter().map(|v| (v.floor() as i128).clamp(low, high)).collect();
                RefTensor::int(self.spec.shape.clone(), dtype, ints)
            }
        }
    }
}

fn uniform(stream: u64, count: usize) -> Vec<f64> {
    let mut out = vec![0.0; count];
    Philox::new(0x5eed).with_stream(stream).fill_uniform_f64(0, &mut out);
    out
}

/// A fixed permutation of `0..count`.
fn shuffled(stream: u64, count: usize) -> Vec<usize> {
    let keys = uniform(stream + 1000, count);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    order
}

fn special(dtype: DType) -> Vec<f64> {
    let (tiny, huge) = match dtype {
        DType::F64 => (5e-324, f64::MAX),
        DType::F32 => (1e-45, f32::MAX as f64),
        DType::F16 => (6e-8, 65504.0),
        DType::BF16 => (1e-40, 3.38e38),
        DType::F8E4M3 => (0.5f64.powi(9), 448.0),
        DType::F8E5M2 => (0.5f64.powi(16), 57344.0),
        _ => (1.0, f64::MAX),
    };
    match dtype.int_range() {
        None => {
            vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, tiny, -tiny, huge, -huge, 0.5, -2.5]
        }
        Some(_) => vec![0.0, 1.0, -1.0, huge, -huge, 2.0, 7.0, -7.0, 63.0],
    }
}
