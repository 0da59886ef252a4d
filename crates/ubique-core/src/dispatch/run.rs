//! The way of an op: check the devices, infer, pass the layers, run (natively, decomposed, or on the host), record the gradient.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::autodiff::node::Recording;
use crate::backend::buffer::Buffer;
use crate::backend::{Few, Operand, Outputs, Several, Support, View};
use crate::dispatch::cpus::cpus;
use crate::dispatch::{Device, Fallback, layer};
use crate::error::{Error, ErrorKind, Result};
use crate::host::HostTensor;
use crate::layout::Layout;
use crate::op::reference::RefTensor;
use crate::op::view::Contiguous;
use crate::op::{Gradient, Op, Rule, Specs, Traits};
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
#[inline(always)]
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
    let run = || perform(&op, device, &mut []);
    let results = match layer::active() {
        true => Several::Many(layer::through(&op, &[], &|_| Ok(run()?.into_vec()))?),
        false => run()?,
    };
    single(&op, results)
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
        return through_layers(op, args);
    }
    let device = common_device(op, args)?;
    perform(op, &device, args)
}

#[cold]
fn through_layers(op: &Op, args: &[Arg<'_>]) -> Result<Several<Tensor>> {
    let run = |inputs: &[Tensor]| {
        let mut args: Vec<Arg<'_>> = inputs.iter().map(Arg::Ref).collect();
        let device = common_device(op, &args)?;
        Ok(perform(op, &device, &mut args)?.into_vec())
    };
    Ok(Several::Many(layer::through(op, &tensors(args), &run)?))
}

fn tensors(args: &[Arg<'_>]) -> Vec<Tensor> {
    args.iter().map(|arg| arg.tensor().clone()).collect()
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
            return Err(apart(op, args, device, other));
        }
        if other.is_autodiff() && !device.is_autodiff() {
            device = other;
        }
    }
    Ok(device.clone())
}

#[cold]
fn apart(op: &Op, args: &[Arg<'_>], device: &Device, other: &Device) -> Error {
    let specs: Vec<_> = args.iter().map(|a| a.tensor().spec()).collect();
    let message = format!("operands are on {device} and {other}; move one with to_device");
    Error::device(message).with_op(op.name(), &specs)
}

// Here and below, what every op does is inlined into few functions, and what few ops do stands in functions of its own.
// Processors remember the last 16 or 32 callers. The functions of a library that runs the op take half of them, and returning to a
// forgotten one takes 25 cycles, as much as all that a small function does.

/// Everything from shape inference to the recorded gradient, on a known device.
#[inline(always)]
fn perform(op: &Op, device: &Device, args: &mut [Arg<'_>]) -> Result<Several<Tensor>> {
    let mut inputs = Few::new();
    for arg in &*args {
        inputs.push(arg.tensor().spec());
    }
    let inputs = &inputs[..];
    let rule = op.rule();
    let specs = rule.possible(inputs).map_err(|e| e.with_op(rule.name(), inputs).with_device(device.name()))?;
    let traits = rule.traits();
    let call = Call { op, rule, is_view: traits.view, device, inputs, specs: &specs };
    if args.iter().any(|a| a.tensor().is_tracked()) { call.recorded(traits, args) } else { call.compute(args) }
}

/// An op with its operands' and outputs' specs, on its way to the device. It records no gradient.
#[derive(Clone, Copy)]
struct Call<'a> {
    op: &'a Op,
    rule: &'a dyn Rule,
    is_view: bool,
    device: &'a Device,
    inputs: &'a [TensorSpec],
    specs: &'a Specs,
}

impl Call<'_> {
    /// The results: of the device's own kernel, of simpler ops, or of the host.
    #[inline(always)]
    fn compute(&self, args: &mut [Arg<'_>]) -> Result<Several<Tensor>> {
        if self.is_view {
            return self.look(args).map(Several::One);
        }
        if let Some(buffers) = self.native(args)? {
            return self.wrap(args, buffers);
        }
        self.composed(args)
    }

    /// The results, with the gradient recorded.
    #[inline(never)]
    fn recorded(&self, traits: Traits, args: &mut [Arg<'_>]) -> Result<Several<Tensor>> {
        let Call { op, rule, device, inputs, .. } = *self;
        match traits.gradient {
            Gradient::None => self.compute(args),
            Gradient::Decomposition => {
                device.opened.decomposed.fetch_add(1, Ordering::Relaxed);
                rule.decompose(&tensors(args))?.map(Several::Many).ok_or_else(|| {
                    Error::gradient("has neither a gradient nor a decomposition").with_op(op.name(), inputs)
                })
            }
            Gradient::Own(_) => {
                let recording = Recording::new(traits, device, args);
                let results = self.compute(args)?;
                Ok(recording.finish(op, device, results))
            }
        }
    }

    /// The results of simpler ops, or of the host.
    #[inline(never)]
    fn composed(&self, args: &[Arg<'_>]) -> Result<Several<Tensor>> {
        // Without their gradient nodes, so that the inner ops are not recorded: the op as a whole is.
        let tensors: Vec<Tensor> = args.iter().map(|arg| arg.tensor().detach()).collect();
        match self.rule.decompose(&tensors) {
            Ok(Some(results)) => {
                self.device.opened.decomposed.fetch_add(1, Ordering::Relaxed);
                return Ok(Several::Many(results));
            }
            Ok(None) => {}
            // On the way there may be a dtype that the device lacks, such as that of indices.
            Err(error) if matches!(error.kind(), ErrorKind::DType | ErrorKind::Unsupported) => {}
            Err(error) => return Err(error),
        }
        on_host(self.op, self.device, &tensors, self.specs.as_slice(self.inputs))
            .map(Several::Many)
            .map_err(|e| self.fail(e))
    }

    #[cold]
    fn fail(&self, error: Error) -> Error {
        error.with_op(self.op.name(), self.inputs).with_device(self.device.name())
    }

    /// The results of the device's own kernel; `None` where it has none. Where memory was short, the device gives back
    /// what it can, and tries once more.
    #[inline(always)]
    fn native(&self, args: &mut [Arg<'_>]) -> Result<Option<Outputs>> {
        let results = match self.try_execute(args) {
            Ok(results) => results,
            Err(error) => self.try_again(args, error)?,
        };
        if results.is_some() {
            self.device.opened.native.fetch_add(1, Ordering::Relaxed);
        }
        Ok(results)
    }

    #[cold]
    fn try_again(&self, args: &mut [Arg<'_>], error: Error) -> Result<Option<Outputs>> {
        if !self.device.reclaim(&error) {
            return Err(self.fail(error));
        }
        self.try_execute(args).map_err(|e| self.fail(e))
    }

    #[inline(always)]
    fn try_execute(&self, args: &mut [Arg<'_>]) -> Result<Option<Outputs>> {
        let mut operands = Few::new();
        for arg in args {
            operands.push(arg.operand());
        }
        let outputs = self.specs.as_slice(self.inputs);
        self.device.executor().try_execute(self.op, &mut operands, self.inputs, outputs)
    }

    #[inline(always)]
    fn wrap(&self, args: &[Arg<'_>], buffers: Outputs) -> Result<Several<Tensor>> {
        let specs = self.specs.as_slice(self.inputs);
        let (buffer, spec) = match (buffers, specs) {
            (Several::One(buffer), [spec]) => (buffer, spec),
            (buffers, specs) => return self.wrap_many(buffers.into_vec(), specs).map(Several::Many),
        };
        let layout = match self.specs {
            Specs::Like(operand) if args[*operand].tensor().layout().is_row_major() => {
                args[*operand].tensor().view().layout.clone()
            }
            _ => Arc::new(Layout::contiguous(spec.shape.clone())),
        };
        let view = View::new(buffer, layout, spec.dtype);
        Ok(Several::One(Tensor::from_view(view, self.device.clone())))
    }

    #[inline(never)]
    fn wrap_many(&self, buffers: Vec<Buffer>, specs: &[TensorSpec]) -> Result<Vec<Tensor>> {
        if buffers.len() != specs.len() {
            let counts = format!("the device gave {} outputs instead of {}", buffers.len(), specs.len());
            return Err(self.fail(Error::backend(counts)));
        }
        let tensor = |(buffer, spec): (Buffer, &TensorSpec)| Tensor::from_buffer(buffer, spec.clone(), self.device);
        Ok(buffers.into_iter().zip(specs).map(tensor).collect())
    }

    /// A view op: the same buffer under another layout, after a copy where strides cannot express it.
    #[inline(never)]
    fn look(&self, args: &[Arg<'_>]) -> Result<Tensor> {
        let Call { op, rule, device, .. } = *self;
        let input = args.first().ok_or_else(|| Error::value("a view needs an operand"))?.tensor();
        let seen = |input: &Tensor, layout: Layout| {
            let view = View::new(input.view().buffer.clone(), layout, input.dtype());
            Tensor::from_view(view, device.clone())
        };
        if let Some(layout) = rule.view(input.layout())? {
            return Ok(seen(input, layout));
        }
        let spec = input.spec();
        let contiguous = Op::Contiguous(Contiguous);
        let call = Call {
            op: &contiguous,
            rule: &Contiguous,
            is_view: false,
            inputs: &[spec],
            specs: &Specs::Like(0),
            ..*self
        };
        let results = call.compute(&mut [Arg::Ref(input)])?;
        let copy = single(op, results)?;
        let layout = rule.view(copy.layout())?;
        let layout = layout.ok_or_else(|| Error::backend(format!("{} of a row-major tensor is no view", op.name())))?;
        Ok(seen(&copy, layout))
    }
}

/// On the host, for ops that a device neither has nor can compose: natively on a CPU device that has the op, otherwise by
/// reference.
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
    let hosts = inputs.iter().map(Tensor::to_host).collect::<Result<Vec<_>>>()?;
    let specs: Vec<TensorSpec> = inputs.iter().map(Tensor::spec).collect();
    let has = |cpu: &Device| cpu != device && cpu.executor().supports(op, &specs) == Support::Native;
    let results = match cpus().iter().find(|cpu| has(cpu)) {
        Some(cpu) => on_cpu(op, cpu, hosts, outputs)?,
        None => {
            let values: Vec<RefTensor> = hosts.iter().map(RefTensor::from_host).collect();
            op.rule().reference(&values, outputs)?.iter().map(RefTensor::to_host).collect::<Result<_>>()?
        }
    };
    results.into_iter().map(|result| Tensor::from_host(result, device)).collect()
}

/// Natively on another device.
fn on_cpu(op: &Op, cpu: &Device, inputs: Vec<HostTensor>, outputs: &[TensorSpec]) -> Result<Vec<HostTensor>> {
    let tensors = inputs.into_iter().map(|host| Tensor::from_host(host, cpu)).collect::<Result<Vec<_>>>()?;
    let mut operands: Vec<Operand<'_>> = tensors.iter().map(|tensor| Operand::Ref(tensor.view())).collect();
    let buffers = cpu.executor().execute(op, &mut operands, outputs)?.into_vec();
    let tensor = |(buffer, spec): (Buffer, &TensorSpec)| Tensor::from_buffer(buffer, spec.clone(), cpu);
    buffers.into_iter().zip(outputs).map(tensor).map(|tensor| tensor.to_host()).collect()
}
