//! The walk back over recorded ops.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::autodiff::node::{Edge, Form, Input, Node, Record};
use crate::autodiff::vjp::Vjp;
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// Gradients by tensor, as [`Tensor::backward`] gives them.
#[derive(Debug, Default)]
pub struct Gradients(HashMap<(u64, usize), Tensor>);

impl Gradients {
    fn key(tensor: &Tensor) -> Result<(u64, usize)> {
        let edge = tensor
            .edge()
            .ok_or_else(|| Error::gradient(format!("{tensor:?} is not tracked, so it has no gradient")))?;
        Ok(edge.key())
    }

    fn missing(tensor: &Tensor) -> Error {
        Error::gradient(format!("no gradient reached {tensor:?}: the result does not depend on it, or it is no leaf"))
    }

    /// The gradient of a leaf.
    ///
    /// # Errors
    /// Where there is none: a missing gradient is never a silent zero.
    pub fn get(&self, tensor: &Tensor) -> Result<&Tensor> {
        self.0.get(&Self::key(tensor)?).ok_or_else(|| Self::missing(tensor))
    }

    /// Takes the gradient of a leaf out.
    ///
    /// # Errors
    /// As [`Gradients::get`].
    pub fn remove(&mut self, tensor: &Tensor) -> Result<Tensor> {
        self.0.remove(&Self::key(tensor)?).ok_or_else(|| Self::missing(tensor))
    }

    /// Puts another gradient in the place of a leaf's, and gives the old one if there was one.
    ///
    /// # Errors
    /// Where the tensor is not tracked, or the new gradient has another shape or dtype.
    pub fn replace(&mut self, tensor: &Tensor, grad: Tensor) -> Result<Option<Tensor>> {
        if grad.spec() != tensor.spec() {
            return Err(Error::gradient(format!("a gradient of {} cannot belong to {}", grad.spec(), tensor.spec())));
        }
        Ok(self.0.insert(Self::key(tensor)?, grad))
    }

    /// How many gradients there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A node whose consumers have not all been walked yet, with the gradients that have arrived.
struct Waiting {
    node: Arc<Node>,
    grads: SmallVec<[Option<Tensor>; 1]>,
}

/// The walk's state: nodes by id, so that the last one is always one whose consumers are done.
#[derive(Default)]
struct Walk {
    waiting: BTreeMap<u64, Waiting>,
    create_graph: bool,
    /// Results of recomputed nodes, for the duration of the walk.
    recomputed: HashMap<u64, Vec<Tensor>>,
}

pub(crate) fn backward(root: &Tensor, create_graph: bool) -> Result<Gradients> {
    if root.elements() != 1 {
        let message =
            "backward begins at one element; sum the tensor first, or use grad() with a gradient of its shape";
        return Err(Error::gradient(message).with_op("backward", &[root.spec()]));
    }
    let seed = root.detach().ones_like()?;
    let mut gradients = HashMap::new();
    walk(&[(root, seed)], create_graph, |edge, grad, leaf| {
        if leaf {
            gradients.insert(edge, grad.clone());
        }
    })?;
    Ok(Gradients(gradients))
}

/// Gradients of `outputs` with respect to `inputs`, leaves or not. `seeds` are the outputs' own gradients (of their
/// shapes); with `create_graph` the results can be differentiated again.
///
/// # Errors
/// Where a tensor is not tracked, a seed does not fit its output, or an input is not reached: a missing gradient is
/// never a silent zero.
pub fn grad(outputs: &[&Tensor], seeds: &[&Tensor], inputs: &[&Tensor], create_graph: bool) -> Result<Vec<Tensor>> {
    if outputs.len() != seeds.len() {
        return Err(Error::gradient(format!("{} outputs and {} seeds", outputs.len(), seeds.len())));
    }
    if let Some((output, seed)) = outputs.iter().zip(seeds).find(|(o, s)| o.spec() != s.spec()) {
        return Err(Error::gradient(format!(
            "a seed of {} cannot belong to an output of {}",
            seed.spec(),
            output.spec()
        )));
    }
    let roots: Vec<(&Tensor, Tensor)> = outputs.iter().zip(seeds).map(|(o, s)| (*o, (*s).clone())).collect();
    let keys = inputs.iter().map(|t| Gradients::key(t)).collect::<Result<Vec<_>>>()?;
    let mut gradients = HashMap::new();
    walk(&roots, create_graph, |edge, grad, _| {
        if keys.contains(&edge) {
            gradients.insert(edge, grad.clone());
        }
    })?;
    let find = |(key, tensor): (&(u64, usize), &&Tensor)| {
        gradients.get(key).cloned().ok_or_else(|| Gradients::missing(tensor))
    };
    keys.iter().zip(inputs).map(find).collect()
}

/// Walks back from the roots; `visit` sees every finished gradient, and whether it is a leaf's.
fn walk(
    roots: &[(&Tensor, Tensor)],
    create_graph: bool,
    mut visit: impl FnMut((u64, usize), &Tensor, bool),
) -> Result<()> {
    let mut walk = Walk { create_graph, ..Walk::default() };
    for (root, seed) in roots {
        let edge = root.edge().ok_or_else(|| {
            Error::gradient("the tensor is not tracked: nothing it was made from requires a gradient")
                .with_op("backward", &[root.spec()])
        })?;
        walk.arrive(edge, seed.clone())?;
    }
    while let Some((id, Waiting { node, grads })) = walk.waiting.pop_last() {
        for (output, grad) in grads.iter().enumerate() {
            if let Some(grad) = grad {
                visit((id, output), grad, node.record.is_none());
            }
        }
        if let Some(record) = &node.record {
            walk.step(&node, record, &grads)?;
        }
        walk.recomputed.remove(&id);
    }
    Ok(())
}

impl Walk {
    /// Adds a gradient to what has already arrived at a tensor.
    fn arrive(&mut self, edge: &Edge, grad: Tensor) -> Result<()> {
        let expected = edge.form();
        if grad.shape() != expected.shape() || grad.dtype() != expected.dtype {
            let name = edge.node.record.as_ref().map_or("leaf", |r| r.op.name());
            return Err(Error::gradient(format!(
                "a gradient of {} arrived at {name}, whose output is {}",
                grad.spec(),
                expected.spec()
            )));
        }
        let waiting = self.waiting.entry(edge.node.id).or_insert_with(|| Waiting {
            node: edge.node.clone(),
            grads: smallvec![None; edge.node.outputs.as_slice().len()],
        });
        let slot = &mut waiting.grads[edge.output];
        *slot = Some(match slot.take() {
            Some(sum) => (sum + grad).tensor()?,
            None => grad,
        });
        Ok(())
    }

    /// One recorded op: its rule, then the gradients on their way to its operands.
    fn step(&mut self, node: &Arc<Node>, record: &Record, grads: &[Option<Tensor>]) -> Result<()> {
        let rule = record.op.rule();
        let saves = rule.traits().saves();
        let wants: SmallVec<[bool; 3]> = record.inputs.iter().map(|i| i.edge().is_some()).collect();
        let specs: SmallVec<[TensorSpec; 3]> = record.inputs.iter().map(Input::spec).collect();
        let fail =
            |e: Error| e.context("in the gradient").with_op(rule.name(), &specs).with_device(record.device.name());
        let mut inputs: SmallVec<[Option<Tensor>; 3]> = SmallVec::new();
        for position in 0..record.inputs.len() {
            inputs.push(if saves.input(position) { Some(self.input(record, position)?) } else { None });
        }
        let outputs = if saves.outputs() { self.outputs(node, record)? } else { Vec::new() };
        let output_specs: SmallVec<[TensorSpec; 1]> = node.outputs.as_slice().iter().map(Form::spec).collect();
        let call = Vjp {
            inputs: &inputs,
            outputs: &outputs,
            specs: &specs,
            output_specs: &output_specs,
            grads,
            wants: &wants,
            device: &record.device,
        };
        let cotangents = rule.vjp(&call).map_err(fail)?;
        for (input, grad) in record.inputs.iter().zip(cotangents.0) {
            if let (Some(parent), Some(grad)) = (input.edge(), grad) {
                let grad = if self.create_graph { grad } else { grad.into_detached() };
                self.arrive(parent, grad).map_err(|e| e.context(format!("from {}", rule.name())))?;
            }
        }
        Ok(())
    }

    /// An operand as the rule shall see it: tracked only where the gradients shall be differentiable.
    fn input(&mut self, record: &Record, position: usize) -> Result<Tensor> {
        let tensor = self.operand(record, position)?;
        Ok(match (record.inputs[position].edge(), self.create_graph) {
            (Some(edge), true) => tensor.with_edge(edge.clone()),
            _ => tensor.into_detached(),
        })
    }

    /// An operand again, tracked or not.
    fn operand(&mut self, record: &Record, position: usize) -> Result<Tensor> {
        match &record.inputs[position] {
            Input::Kept(tensor) => Ok(tensor.clone()),
            Input::Tracked(edge) => {
                let parent = edge.node.record.as_ref().ok_or_else(|| Error::gradient("a leaf cannot be recomputed"))?;
                let outputs = self.recompute(&edge.node, parent)?;
                outputs.get(edge.output).cloned().ok_or_else(|| Error::gradient("a recomputed op lost an output"))
            }
            Input::Constant(_) => {
                Err(Error::gradient(format!("operand {position} of {} was not saved", record.op.name())))
            }
        }
    }

    fn outputs(&mut self, node: &Arc<Node>, record: &Record) -> Result<Vec<Tensor>> {
        let outputs = match &record.saved_outputs {
            Some(outputs) => outputs.as_slice().to_vec(),
            None => self.recompute(node, record)?,
        };
        if !self.create_graph {
            return Ok(outputs);
        }
        let edge = |output| Edge { node: node.clone(), output };
        Ok(outputs.into_iter().enumerate().map(|(output, tensor)| tensor.with_edge(edge(output))).collect())
    }

    /// Runs a memory-bound op again, after those of its operands that were dropped too. The results are untracked.
    fn recompute(&mut self, node: &Arc<Node>, record: &Record) -> Result<Vec<Tensor>> {
        if let Some(outputs) = self.recomputed.get(&node.id) {
            return Ok(outputs.clone());
        }
        let operands = (0..record.inputs.len()).map(|i| Ok(self.operand(record, i)?.into_detached()));
        let operands = operands.collect::<Result<Vec<_>>>()?;
        let outputs = run::call_many(record.op.clone(), &operands.iter().collect::<Vec<_>>())?;
        self.recomputed.insert(node.id, outputs.clone());
        Ok(outputs)
    }
}
