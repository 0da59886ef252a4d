//! Linear algebra: the matrices of a batch, on several threads, one after the other by `ubique-flex-linalg`.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::backend::{Operand, Outputs, View};
use ubique_core::op::linalg::{extents, not_converged, not_finite, not_positive_definite, sign, singular};
use ubique_core::op::reference::RefTensor;
use ubique_core::op::{Op, Rule};
use ubique_core::{DType, Element, Error, Result, TensorSpec};
use ubique_flex_linalg::{Failure, Matrix, Real};

use super::copy::to_contiguous;
use super::dtype::no_kernel;
use super::float::Wide;
use super::fused::several;
use super::rows::GRAIN;
use crate::executor::Context;
use crate::memory::{self, Shared};

/// Whether there is a kernel for an op.
pub fn supports(op: &Op) -> bool {
    matches!(
        op,
        Op::Cholesky(_)
            | Op::SolveTriangular(_)
            | Op::Lu(_)
            | Op::Solve(_)
            | Op::Inverse(_)
            | Op::Det(_)
            | Op::Slogdet(_)
            | Op::Qr(_)
            | Op::Eigh(_)
            | Op::Svd(_)
    )
}

/// Runs an op that [`supports`] accepts.
pub fn execute(context: &Context, op: &Op, inputs: &[Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
    match inputs[0].dtype {
        DType::F32 => run::<f32>(context, op, inputs, outputs),
        DType::F64 => run::<f64>(context, op, inputs, outputs),
        other => no_kernel(other),
    }
}

fn run<T: Real + Wide>(context: &Context, op: &Op, inputs: &[Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
    let views = inputs.iter().map(|x| to_contiguous(context, x)).collect::<Result<Vec<View>>>()?;
    let operands = views.iter().map(Batch::new).collect::<Result<Vec<Batch<'_, T>>>>()?;
    let a = &operands[0];
    if let Op::Lu(op) = op {
        return lu(context, op, a, outputs).map(Outputs::Many);
    }
    let signs = |vector: &[f64]| sign(vector.iter().copied());
    let buffers = fill(context, a, outputs, |at, parts| match (op, parts) {
        (Op::Cholesky(_), [l]) => T::cholesky(a.at(at), l),
        (Op::SolveTriangular(op), [x]) => T::solve_triangular(a.at(at), operands[1].at(at), op.upper, x),
        (Op::Solve(_), [x]) => T::solve(a.at(at), operands[1].at(at), x),
        (Op::Inverse(_), [y]) => T::inverse(a.at(at), y),
        (Op::Det(_) | Op::Slogdet(_), parts) => determinant(a.at(at), parts),
        (Op::Qr(op), [q, r]) => T::qr(a.at(at), op.complete, q, r),
        (Op::Eigh(_), [values, vectors]) => T::eigh(a.at(at), &signs, values, vectors),
        (Op::Svd(_), [u, s, vt]) => T::svd(a.at(at), &signs, u, s, vt),
        (op, _) => unreachable!("{} is not supported", op.name()),
    })?;
    Ok(several(buffers))
}

/// The matrices of a row-major operand.
struct Batch<'a, T> {
    data: &'a [T],
    count: usize,
    rows: usize,
    columns: usize,
}

impl<'a, T: Element> Batch<'a, T> {
    fn new(view: &'a View) -> Result<Batch<'a, T>> {
        let spec = view.spec();
        let (lead, rows, columns) = extents(&spec)?;
        let data = memory::contiguous::<T>(view)?.ok_or_else(|| Error::backend("a matrix is strided"))?;
        Ok(Batch { data, count: lead.iter().product(), rows, columns })
    }

    fn at(&self, at: usize) -> Matrix<'a, T> {
        let size = self.rows * self.columns;
        Matrix { data: &self.data[at * size..(at + 1) * size], rows: self.rows, columns: self.columns }
    }

    fn error(&self, at: usize, failure: Failure) -> Error {
        match failure {
            Failure::NotFinite => not_finite(at, self.count),
            Failure::Singular(column) => singular(at, self.count, column),
            Failure::NotPositiveDefinite(row) => not_positive_definite(at, self.count, row),
            Failure::NotConverged => not_converged(at, self.count),
        }
    }
}

/// One matrix's part of each output.
type Parts<'p, T> = [&'p mut [MaybeUninit<T>]];

/// Outputs in which `f` fills the part of each matrix of the batch; the error of the first matrix that has none.
fn fill<T: Element>(
    context: &Context,
    batch: &Batch<'_, T>,
    outputs: &[TensorSpec],
    f: impl Fn(usize, &mut Parts<'_, T>) -> Result<(), Failure> + Sync,
) -> Result<Vec<Buffer>> {
    let mut outs = Vec::new();
    for spec in outputs {
        outs.push(UninitBuffer::<T>::new(&context.pool, spec.shape.elements()?)?);
    }
    let targets: Vec<_> = outs.iter_mut().map(|out| Shared::new(out.as_mut_slice())).collect();
    let sizes: Vec<usize> = outputs.iter().map(|s| s.shape.elements().unwrap_or(0) / batch.count.max(1)).collect();
    let failed = Mutex::new(None::<(usize, Failure)>);
    // Work grows with the cube of the extent, and there is always some for a call.
    let work = batch.rows.saturating_mul(batch.columns).saturating_mul(batch.rows.min(batch.columns)).max(64);
    context.threads.ranges(batch.count, (GRAIN / work).max(1), &|range| {
        for at in range {
            let sized = targets.iter().zip(&sizes);
            // SAFETY: each matrix has parts of its own, and one thread.
            let part = |(&target, &size)| unsafe { Shared::part(target, at * size..(at + 1) * size) };
            let mut parts: Vec<_> = sized.map(part).collect();
            if let Err(failure) = f(at, &mut parts) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.is_none_or(|(first, _)| at < first) {
                    *failed = Some((at, failure));
                }
                return;
            }
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((at, failure)) => Err(batch.error(at, failure)),
        // SAFETY: without a failure every matrix has filled its parts.
        None => Ok(outs.into_iter().map(|out| unsafe { out.assume_init() }).collect()),
    }
}

/// The determinant, or its sign and logarithm: products of pivots; without one, 0.
fn determinant<T: Real + Wide>(a: Matrix<'_, T>, parts: &mut Parts<'_, T>) -> Result<(), Failure> {
    let (sign, pivots) = match T::pivots(a) {
        Ok(found) => found,
        Err(Failure::Singular(_)) => (0.0, vec![0.0]),
        Err(failure) => return Err(failure),
    };
    let results = match parts.len() {
        1 => vec![pivots.iter().fold(sign, |det, x| det * x)],
        _ => {
            let sign = pivots.iter().fold(sign, |sign, &x| if x < 0.0 { -sign } else { sign });
            vec![sign, pivots.iter().map(|x| x.abs().ln()).sum()]
        }
    };
    for (part, result) in parts.iter_mut().zip(results) {
        for slot in part.iter_mut() {
            slot.write(T::from_f64(result));
        }
    }
    Ok(())
}

/// Rows' order, L and U. The rare matrix with a column without a pivot is left to the reference.
fn lu<T: Real + Wide>(
    context: &Context,
    op: &impl Rule,
    a: &Batch<'_, T>,
    outputs: &[TensorSpec],
) -> Result<Vec<Buffer>> {
    let mut places = UninitBuffer::<i64>::new(&context.pool, a.count * a.rows)?;
    let target = Shared::new(places.as_mut_slice());
    let mut parts = fill(context, a, &outputs[1..], |at, parts| {
        let [l, u] = parts else { return Ok(()) };
        let rows = match T::lu(a.at(at), l, u) {
            Err(Failure::Singular(column)) => lu_by_reference(op, a.at(at), [l, u]).ok_or(Failure::Singular(column)),
            other => other,
        };
        // SAFETY: each matrix has places of its own, and one thread.
        let target = unsafe { target.part(at * a.rows..(at + 1) * a.rows) };
        for (slot, row) in target.iter_mut().zip(rows?) {
            slot.write(row as i64);
        }
        Ok(())
    })?;
    // SAFETY: every matrix has written its own.
    parts.insert(0, unsafe { places.assume_init() });
    Ok(parts)
}

fn lu_by_reference<T: Wide>(
    op: &impl Rule,
    a: Matrix<'_, T>,
    targets: [&mut [MaybeUninit<T>]; 2],
) -> Option<Vec<usize>> {
    let spec = TensorSpec::new([a.rows, a.columns], T::DTYPE);
    let inputs = std::slice::from_ref(&spec);
    let values = a.data.iter().map(|x| x.to_scalar().as_f64()).collect();
    let operand = RefTensor::float(spec.shape.clone(), T::DTYPE, values);
    let results = op.reference(&[operand], op.infer(inputs).ok()?.as_slice(inputs)).ok()?;
    let [rows, l, u] = results.as_slice() else { return None };
    for (target, values) in targets.into_iter().zip([l.floats(), u.floats()]) {
        for (slot, value) in target.iter_mut().zip(values) {
            slot.write(T::from_f64(value));
        }
    }
    Some(rows.ints().into_iter().map(|row| row as usize).collect())
}
