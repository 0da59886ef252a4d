//! The way of an op: check the devices, infer, pass the layers, run (natively, decomposed, or on the host), record the gradient.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use crate::autodiff::node::Recording;
use crate::backend::{Operand, Several, Support, View};
use crate::dispatch::{Device, Fallback, layer};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::op::reference::RefTensor;
use crate::op::view::Contiguous;
use crate::op::{Gradient, Op, Specs};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// An operand of an op: borrowed, or given away so that its memory may be reused.
#[derive(Debug)]
pub enum Arg<'a> {
    /// Still needed by the caller.
    Ref(&'a Tensor),
    /// Given away.
    Own(Tensor),
}

impl<'a> From<&'a Tensor> for Arg<'a> {
    #[inline]
    fn from(tensor: &'a Tensor) -> Arg<'a> {
        Arg::Ref(tensor)
    }
}

impl From<Tensor> for Arg<'_> {
    #[inline]
    fn from(tensor: Tensor) -> Self {
        Arg::Own(tensor)
    }
}

impl Arg<'_> {
    /// The tensor.
    #[inline]
    pub fn tensor(&self) -> &Tensor {
        match self {
            Arg::Ref(tensor) => tensor,
            Arg::Own(tensor) => tensor,
        }
    }

    #[inline]
    fn operand(&mut self) -> Operand<'_> {
        match self {
            Arg::Ref(tensor) => Operand::Ref(tensor.view()),
            Arg::Own(tensor) => Operand::Own(tensor.view_mut()),
        }
    }
}

/// Runs an op that has one output.
///
/// # Errors
/// See [`crate::dispatch::Dispatch::run`].
#[inline]
pub fn call<const N: usize>(op: Op, mut args: [Arg<'_>; N]) -> Result<Tensor> {
    single(&op, dispatch(&op, &mut args)?)
}

/// Runs an op on borrowed operands.
///
/// # Errors
/// See [`crate::dispatch::Dispatch::run`].
pub fn call_many(op: Op, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    Ok(dispatch(&op, &mut borrowed(inputs))?.into_vec())
}

/// Runs an op on borrowed operands that has one output.
///
/// # Errors
/// See [`crate::dispatch::Dispatch::run`].
pub fn call_list(op: Op, inputs: &[&Tensor]) -> Result<Tensor> {
    single(&op, dispatch(&op, &mut borrowed(inputs))?)
}

fn borrowed<'a>(inputs: &[&'a Tensor]) -> Vec<Arg<'a>> {
    inputs.iter().map(|t| Arg::Ref(t)).collect()
}

/// Runs an op that has several outputs and may reuse the memory of its operands.
///
/// # Errors
/// See [`crate::dispatch::Dispatch::run`].
pub fn call_owned<const N: usize>(op: Op, mut args: [Arg<'_>; N]) -> Result<Vec<Tensor>> {
    Ok(dispatch(&op, &mut args)?.into_vec())
}

/// Runs an op without operands.
///
/// # Errors
/// Where parameters do not fit or memory cannot be had.
pub fn create(op: impl Into<Op>, device: &Device) -> Result<Tensor> {
    let op = op.into();
    if layer::active() {
        let outputs = layer::through(&op, &[], &|_| Ok(perform(&op, device, &mut [])?.into_vec()))?;
        return single(&op, Several::Many(outputs));
    }
    single(&op, perform(&op, device, &mut [])?)
}

#[inline]
fn single(op: &Op, outputs: Several<Tensor>) -> Result<Tensor> {
    match outputs {
        Several::One(tensor) => Ok(tensor),
        Several::Many(mut list) if list.len() == 1 => Ok(list.remove(0)),
        Several::Many(list) => Err(Error::backend(format!("{} gave {} outputs instead of one", op.name(), list.len()))),
    }
}

fn dispatch(op: &Op, args: &mut [Arg<'_>]) -> Result<Several<Tensor>> {
    if layer::active() {
        let run = |inputs: &[Tensor]| {
            let mut args: Vec<Arg<'_>> = inputs.iter().map(Arg::Ref).collect();
            let device = common_device(op, &args)?;
            Ok(perform(op, &device, &mut args)?.into_vec())
        };
        return Ok(Several::Many(layer::through(op, &tensors(args), &run)?));
    }
    let device = common_device(op, args)?;
    perform(op, &device, args)
}

fn tensors(args: &[Arg<'_>]) -> Vec<Tensor> {
    args.iter().map(|arg| arg.tensor().clone()).collect()
}

/// Calls `f` with a list made of one entry for each operand. The usual numbers of operands need no heap, and no small
/// vector either, whose generic loops cost more than the op's own work on small tensors.
#[inline(always)]
fn with_each<'a, A, T, R>(args: &'a mut [A], each: impl Fn(&'a mut A) -> T, f: impl FnOnce(&mut [T]) -> R) -> R {
    match args {
        [] => f(&mut []),
        [a] => f(&mut [each(a)]),
        [a, b] => f(&mut [each(a), each(b)]),
        [a, b, c] => f(&mut [each(a), each(b), each(c)]),
        [a, b, c, d] => f(&mut [each(a), each(b), each(c), each(d)]),
        more => f(&mut more.iter_mut().map(each).collect::<Vec<_>>()),
    }
}

/// The device that all operands share; with gradients where any operand's handle has them.
#[inline]
fn common_device(op: &Op, args: &[Arg<'_>]) -> Result<Device> {
    let Some(first) = args.first() else {
        return Err(Error::value("needs at least one operand").with_op(op.name(), &[]));
    };
    let mut device = first.tensor().device();
    for arg in &args[1..] {
        let other = arg.tensor().device();
        if other != device {
            let specs: Vec<_> = args.iter().map(|a| a.tensor().spec()).collect();
            let message = format!("operands are on {device} and {other}; move one with to_device");
            return Err(Error::device(message).with_op(op.name(), &specs));
        }
        if other.is_autodiff() && !device.is_autodiff() {
            device = other;
        }
    }
    Ok(device.clone())
}

/// Everything from shape inference to the recorded gradient, on a known device.
fn perform(op: &Op, device: &Device, args: &mut [Arg<'_>]) -> Result<Several<Tensor>> {
    let spec = |arg: &Arg<'_>| arg.tensor().spec();
    let run = |args: &mut [Arg<'_>], inputs: &[TensorSpec]| {
        let rule = op.rule();
        let outputs = op.infer(inputs).map_err(|e| e.with_device(device.name()))?;
        if !args.iter().any(|a| a.tensor().is_tracked()) {
            return compute(op, device, args, inputs, outputs);
        }
        match rule.gradient() {
            Gradient::None => compute(op, device, args, inputs, outputs),
            Gradient::Decomposition => {
                device.opened.decomposed.fetch_add(1, Ordering::Relaxed);
                rule.decompose(&tensors(args))?.map(Several::Many).ok_or_else(|| {
                    Error::gradient("has neither a gradient nor a decomposition").with_op(op.name(), inputs)
                })
            }
            Gradient::Own => {
                let recording = Recording::new(op, device, args);
                let results = compute(op, device, args, inputs, outputs)?;
                Ok(recording.finish(results))
            }
        }
    };
    // As in `with_each`.
    match args {
        [] => run(args, &[]),
        [a] => {
            let specs = [spec(a)];
            run(args, &specs)
        }
        [a, b] => {
            let specs = [spec(a), spec(b)];
            run(args, &specs)
        }
        [a, b, c] => {
            let specs = [spec(a), spec(b), spec(c)];
            run(args, &specs)
        }
        more => {
            let specs: Vec<TensorSpec> = more.iter().map(spec).collect();
            run(more, &specs)
        }
    }
}

/// The results, without recording.
#[inline]
fn compute(
    op: &Op,
    device: &Device,
    args: &mut [Arg<'_>],
    inputs: &[TensorSpec],
    outputs: Specs,
) -> Result<Several<Tensor>> {
    let rule = op.rule();
    if rule.is_view() {
        return look(op, device, args).map(Several::One);
    }
    let executor = device.executor();
    let fail = |e: Error| e.with_op(op.name(), inputs).with_device(device.name());
    if executor.supports(op, inputs) == Support::Native {
        device.opened.native.fetch_add(1, Ordering::Relaxed);
        let run = |operands: &mut [Operand<'_>]| executor.execute(op, operands, outputs.as_slice());
        let buffers = with_each(args, Arg::operand, run).map_err(fail)?;
        return wrap(device, buffers, outputs);
    }
    // Without their gradient nodes, so that the inner ops are not recorded: the op as a whole is.
    let tensors: Vec<Tensor> = args.iter().map(|arg| arg.tensor().detach()).collect();
    if let Some(results) = rule.decompose(&tensors)? {
        device.opened.decomposed.fetch_add(1, Ordering::Relaxed);
        return Ok(Several::Many(results));
    }
    on_host(op, device, &tensors, outputs.as_slice()).map(Several::Many).map_err(fail)
}

#[inline]
fn wrap(device: &Device, buffers: Several<crate::backend::buffer::Buffer>, outputs: Specs) -> Result<Several<Tensor>> {
    let tensor = |buffer, spec: TensorSpec| {
        Tensor::from_view(View { buffer, layout: Layout::contiguous(spec.shape), dtype: spec.dtype }, device.clone())
    };
    match (buffers, outputs) {
        (Several::One(buffer), Several::One(spec)) => Ok(Several::One(tensor(buffer, spec))),
        (buffers, specs) => {
            let (buffers, specs) = (buffers.into_vec(), specs.into_vec());
            if buffers.len() != specs.len() {
                return Err(Error::backend(format!(
                    "the device gave {} outputs instead of {}",
                    buffers.len(),
                    specs.len()
                )));
            }
            Ok(Several::Many(buffers.into_iter().zip(specs).map(|(b, s)| tensor(b, s)).collect()))
        }
    }
}

/// A view op: the same buffer under another layout, after a copy where strides cannot express it.
fn look(op: &Op, device: &Device, args: &[Arg<'_>]) -> Result<Tensor> {
    let rule = op.rule();
    let mut input = args.first().ok_or_else(|| Error::value("a view needs an operand"))?.tensor().view().clone();
    let layout = match rule.view(&input.layout)? {
        Some(layout) => layout,
        None => {
            let spec = input.spec();
            let mut copy = [Arg::Own(Tensor::from_view(input, device.clone()))];
            let outputs = spec.clone().into();
            let results = compute(&Op::Contiguous(Contiguous), device, &mut copy, &[spec], outputs)?;
            input = single(op, results)?.into_view();
            rule.view(&input.layout)?
                .ok_or_else(|| Error::backend(format!("{} of a row-major tensor is no view", op.name())))?
        }
    };
    let View { buffer, dtype, .. } = input;
    Ok(Tensor::from_view(View { buffer, layout, dtype }, device.clone()))
}

/// The reference, on the host: for ops that a device neither has nor can compose.
fn on_host(op: &Op, device: &Device, inputs: &[Tensor], outputs: &[TensorSpec]) -> Result<Vec<Tensor>> {
    match device.fallback() {
        Fallback::Forbid => {
            return Err(Error::unsupported("the device has no kernel for this, and running on the host is forbidden"));
        }
        Fallback::Warn => {
            static SAID: Mutex<BTreeSet<(String, &'static str)>> = Mutex::new(BTreeSet::new());
            let mut said = SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if said.insert((device.name().to_owned(), op.name())) {
                eprintln!("ubique: {device} has no kernel for {}; it runs on the host", op.name());
            }
        }
        Fallback::Allow => {}
    }
    device.opened.host.fetch_add(1, Ordering::Relaxed);
    let values = inputs.iter().map(|t| Ok(RefTensor::from_host(&t.to_host()?))).collect::<Result<Vec<_>>>()?;
    op.rule().reference(&values, outputs)?.iter().map(|value| Tensor::from_host(value.to_host()?, device)).collect()
}
