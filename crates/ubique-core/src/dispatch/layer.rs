//! Interceptors around every op that a program dispatches: profiling, tracing, checking, casting, fault injection.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::op::Op;
use crate::tensor::Tensor;

/// The rest of the way of an op: the layers further in, then the device.
pub type Next<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// An interceptor. It may look at or change operands and results, refuse the op, or run it several times.
/// Ops that it dispatches itself pass no layer.
pub trait Layer: Send + Sync {
    /// Runs around one op; `next(inputs)` goes on.
    ///
    /// # Errors
    /// Those of `next`, or the layer's own.
    fn around(&self, op: &Op, inputs: &[Tensor], next: Next<'_>) -> Result<Vec<Tensor>>;
}

type Stack = Vec<(u64, Arc<dyn Layer>)>;
static ACTIVE: AtomicBool = AtomicBool::new(false);
static STACK: LazyLock<RwLock<Arc<Stack>>> = LazyLock::new(RwLock::default);

thread_local! {
    /// Set while this thread is inside a layered op, whose inner ops pass no layer.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Keeps a layer in place until dropped.
#[must_use = "the layer is taken away again when the guard is dropped"]
pub struct LayerGuard(u64);

impl fmt::Debug for LayerGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayerGuard({})", self.0)
    }
}

/// Puts a layer around all those in place, for every thread.
pub fn push(layer: Arc<dyn Layer>) -> LayerGuard {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    change(|stack| stack.push((id, layer)));
    LayerGuard(id)
}

impl Drop for LayerGuard {
    fn drop(&mut self) {
        change(|stack| stack.retain(|(id, _)| *id != self.0));
    }
}

fn change(edit: impl FnOnce(&mut Stack)) {
    let mut stack = STACK.write().unwrap_or_else(PoisonError::into_inner);
    let mut new = (**stack).clone();
    edit(&mut new);
    ACTIVE.store(!new.is_empty(), Ordering::Release);
    *stack = Arc::new(new);
}

/// Whether the next op of this thread has to pass layers.
#[inline]
pub(crate) fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed) && !INSIDE.get()
}

/// Passes an op through the layers, outermost (last pushed) first.
pub(crate) fn through(op: &Op, inputs: &[Tensor], run: Next<'_>) -> Result<Vec<Tensor>> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
    fn step(stack: &[(u64, Arc<dyn Layer>)], op: &Op, inputs: &[Tensor], run: Next<'_>) -> Result<Vec<Tensor>> {
        match stack.split_last() {
            Some(((_, layer), rest)) => layer.around(op, inputs, &|inputs| step(rest, op, inputs, run)),
            None => run(inputs),
        }
    }
    let stack = STACK.read().unwrap_or_else(PoisonError::into_inner).clone();
    INSIDE.set(true);
    let _leave = Leave;
    step(&stack, op, inputs, run)
}

/// Counts and times ops by name. Each op is waited for, so that the time is that of its work.
#[derive(Debug, Default)]
pub struct Profile(Mutex<BTreeMap<&'static str, (u64, Duration)>>);

impl Profile {
    /// Calls and total time of each op so far.
    pub fn report(&self) -> Vec<(&'static str, u64, Duration)> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().map(|(name, (calls, time))| (*name, *calls, *time)).collect()
    }
}

impl Layer for Profile {
    fn around(&self, op: &Op, inputs: &[Tensor], next: Next<'_>) -> Result<Vec<Tensor>> {
        let start = Instant::now();
        let outputs = next(inputs)?;
        if let Some(output) = outputs.first() {
            output.device().sync()?;
        }
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.entry(op.name()).or_default();
        row.0 += 1;
        row.1 += start.elapsed();
        Ok(outputs)
    }
}

/// Gives an error at the first op that makes a NaN out of operands that have none.
#[derive(Debug, Default)]
pub struct CheckNan;

impl Layer for CheckNan {
    fn around(&self, op: &Op, inputs: &[Tensor], next: Next<'_>) -> Result<Vec<Tensor>> {
        let has_nan = |tensors: &[Tensor]| -> Result<bool> {
            for tensor in tensors.iter().filter(|t| t.dtype().is_float()) {
                if tensor.detach().to_host()?.to_f64().iter().any(|v| v.is_nan()) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let outputs = next(inputs)?;
        if has_nan(&outputs)? && !has_nan(inputs)? {
            let specs: Vec<_> = inputs.iter().map(Tensor::spec).collect();
            return Err(Error::value("made a NaN out of operands without one").with_op(op.name(), &specs));
        }
        Ok(outputs)
    }
}
