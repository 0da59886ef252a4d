//! Half precision: operands become f32, the kernel runs on those, and the result is rounded once.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Operand, Outputs, View};
use ubique_core::op::binary::{BinaryScalar, CompareScalar};
use ubique_core::op::select::Clamp;
use ubique_core::{DType, Error, Layout, Op, Result, TensorSpec};

use super::copy::to_contiguous;
use crate::view::contiguous;

/// Whether a dtype is computed with in f32.
pub fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The half-precision dtype that an op computes with, if any: ops that only move elements do not compute.
pub fn computed(op: &Op, mut dtypes: impl Iterator<Item = DType>) -> Option<DType> {
    let half = dtypes.find(|&dtype| is_half(dtype))?;
    (!op.rule().traits().moves).then_some(half)
}

/// Runs an op on half-precision operands through f32.
pub fn execute(
    pool: &HostPool,
    op: &Op,
    half: DType,
    inputs: &[Operand<'_>],
    outputs: &[TensorSpec],
    run: impl FnOnce(&Op, &mut [Operand<'_>], &[TensorSpec]) -> Result<Outputs>,
) -> Result<Outputs> {
    let wide = |dtype: DType| if dtype == half { DType::F32 } else { dtype };
    let mut views = inputs
        .iter()
        .map(|view| if view.dtype == half { widen(pool, view) } else { Ok((**view).clone()) })
        .collect::<Result<Vec<View>>>()?;
    let specs: Vec<TensorSpec> =
        outputs.iter().map(|spec| TensorSpec { shape: spec.shape.clone(), dtype: wide(spec.dtype) }).collect();
    // Nobody else holds what was widened.
    let mut operands: Vec<Operand<'_>> = views.iter_mut().map(Operand::Own).collect();
    let results = run(&rounded(op, half), &mut operands, &specs)?.into_vec();
    let narrow = |(buffer, spec): (Buffer, &TensorSpec)| match spec.dtype == half {
        true => narrow(pool, &View::new(buffer, Layout::contiguous(spec.shape.clone()), DType::F32), half),
        false => Ok(buffer),
    };
    let mut buffers = results.into_iter().zip(outputs).map(narrow).collect::<Result<Vec<Buffer>>>()?;
    Ok(match buffers.len() {
        1 => Outputs::One(buffers.remove(0)),
        _ => Outputs::Many(buffers),
    })
}

/// The op with its scalars as the half-precision tensor would hold them.
fn rounded(op: &Op, half: DType) -> Op {
    match op {
        Op::BinaryScalar(op) => Op::BinaryScalar(BinaryScalar { scalar: op.scalar.cast(half), ..op.clone() }),
        Op::CompareScalar(op) => Op::CompareScalar(CompareScalar { scalar: op.scalar.cast(half), ..op.clone() }),
        Op::Clamp(op) => Op::Clamp(Clamp { min: op.min.map(|b| b.cast(half)), max: op.max.map(|b| b.cast(half)) }),
        op => op.clone(),
    }
}

/// The elements as f32, row-major.
pub fn widen(pool: &HostPool, view: &View) -> Result<View> {
    let x = to_contiguous(pool, view)?;
    let mut out = UninitBuffer::<f32>::new(pool, x.layout.elements())?;
    // What `half` writes to is a slice of numbers.
    let target = out.fill(0.0);
    match view.dtype {
        DType::F16 => read::<f16>(&x)?.convert_to_f32_slice(target),
        DType::BF16 => read::<bf16>(&x)?.convert_to_f32_slice(target),
        other => return Err(Error::backend(format!("{other} is no half precision"))),
    }
    // SAFETY: `fill` writes every element.
    let buffer = unsafe { out.assume_init() };
    Ok(View::new(buffer, Layout::contiguous(view.shape().clone()), DType::F32))
}

/// The elements of an f32 view, rounded, row-major.
pub fn narrow(pool: &HostPool, view: &View, half: DType) -> Result<Buffer> {
    let x = to_contiguous(pool, view)?;
    let source = read::<f32>(&x)?;
    match half {
        DType::F16 => rounded_slice::<f16>(pool, source, |target| target.convert_from_f32_slice(source)),
        DType::BF16 => rounded_slice::<bf16>(pool, source, |target| target.convert_from_f32_slice(source)),
        other => Err(Error::backend(format!("{other} is no half precision"))),
    }
}

fn read<T: bytemuck::Pod>(view: &View) -> Result<&[T]> {
    contiguous::<T>(view)?.ok_or_else(|| Error::backend("the operand is strided"))
}

fn rounded_slice<T: bytemuck::Pod>(pool: &HostPool, source: &[f32], fill: impl FnOnce(&mut [T])) -> Result<Buffer> {
    let mut out = UninitBuffer::<T>::new(pool, source.len())?;
    fill(out.fill(T::zeroed()));
    // SAFETY: `fill` writes every element.
    Ok(unsafe { out.assume_init() })
}
