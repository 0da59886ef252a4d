//! The recorded graph: a node for each tracked op, with what its gradient needs.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::autodiff::checkpoints;
use crate::backend::Several;
use crate::dispatch::Device;
use crate::dispatch::run::Arg;
use crate::dtype::DType;
use crate::layout::Layout;
use crate::op::{Op, Traits};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// A tensor's place in the graph: which output of which node.
#[derive(Clone)]
pub(crate) struct Edge {
    pub node: Arc<Node>,
    pub output: usize,
}

impl Edge {
    pub fn leaf(tensor: &Tensor) -> Edge {
        let outputs = Several::One(Form::of(tensor));
        Edge { node: Arc::new(Node { id: next_id(), outputs, record: None, depth: None }), output: 0 }
    }

    /// What identifies the tensor among gradients.
    pub fn key(&self) -> (u64, usize) {
        (self.node.id, self.output)
    }

    /// Shape and dtype of the tensor.
    pub fn form(&self) -> &Form {
        &self.node.outputs.as_slice()[self.output]
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edge({}.{})", self.node.id, self.output)
    }
}

/// Shape and dtype of a tensor. Shares the tensor's layout, which costs less than a copy of its extents.
pub(crate) struct Form {
    layout: Arc<Layout>,
    pub dtype: DType,
}

impl Form {
    #[inline]
    fn of(tensor: &Tensor) -> Form {
        Form { layout: tensor.view().layout.clone(), dtype: tensor.dtype() }
    }

    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    pub fn spec(&self) -> TensorSpec {
        TensorSpec { shape: self.shape().clone(), dtype: self.dtype }
    }
}

/// One op that ran on tracked operands, or a leaf. Later nodes have larger ids, so ids are a topological order.
pub(crate) struct Node {
    pub id: u64,
    pub outputs: Several<Form>,
    /// `None` for leaves.
    pub record: Option<Record>,
    /// How many ops run again, one after the other, to have this node's outputs again; `None` where they are kept.
    depth: Option<u32>,
}

/// Longer chains of recomputation keep a tensor in between, which bounds both work and recursion.
const MAX_DEPTH: u32 = 32;

/// What an op's gradient needs.
pub(crate) struct Record {
    pub op: Op,
    pub device: Device,
    pub inputs: SmallVec<[Input; 2]>,
    /// The outputs, where the rule looks at them. They are untracked: an edge would close a circle of references.
    pub saved_outputs: Option<Several<Tensor>>,
}

/// One operand of a recorded op.
pub(crate) enum Input {
    /// The rule looks at it: kept, with its edge where it has one.
    Kept(Tensor),
    /// Tracked. Where its value is needed, running its memory-bound op again gives it.
    Tracked(Edge),
    /// Neither tracked nor needed.
    Constant(Form),
}

impl Input {
    /// Keeps of an operand what is needed of it, which includes its value or not.
    #[inline]
    fn new(tensor: &Tensor, needed: bool) -> Input {
        match tensor.edge() {
            Some(edge) if !needed || edge.node.depth.is_some() => Input::Tracked(edge.clone()),
            None if !needed => Input::Constant(Form::of(tensor)),
            _ => Input::Kept(tensor.clone()),
        }
    }

    /// Where the operand comes from, if it is tracked.
    pub fn edge(&self) -> Option<&Edge> {
        match self {
            Input::Kept(tensor) => tensor.edge(),
            Input::Tracked(edge) => Some(edge),
            Input::Constant(_) => None,
        }
    }

    /// Shape and dtype of the operand.
    pub fn spec(&self) -> TensorSpec {
        match self {
            Input::Kept(tensor) => tensor.spec(),
            Input::Tracked(edge) => edge.form().spec(),
            Input::Constant(form) => form.spec(),
        }
    }

    fn into_edge(self) -> Option<Edge> {
        match self {
            Input::Kept(tensor) => tensor.into_edge(),
            Input::Tracked(edge) => Some(edge),
            Input::Constant(_) => None,
        }
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A record under way: the operands are kept before the op runs, which may write to those that nobody keeps.
pub(crate) struct Recording {
    inputs: SmallVec<[Input; 2]>,
    saves_outputs: bool,
    /// Whether the results are dropped and computed again (see [`crate::dispatch::Checkpointing`]).
    replayable: bool,
}

impl Recording {
    pub fn new(traits: Traits, device: &Device, args: &[Arg<'_>]) -> Recording {
        let saves = traits.saves();
        let replayable = traits.memory_bound && checkpoints(device);
        // Whoever recomputes this node's output needs its operands.
        let input = |position, arg: &Arg<'_>| Input::new(arg.tensor(), replayable || saves.input(position));
        // A small vector's loop costs more than the usual numbers of operands.
        let inputs = match args {
            [a, b] => SmallVec::from_buf([input(0, a), input(1, b)]),
            args => args.iter().enumerate().map(|(i, arg)| input(i, arg)).collect(),
        };
        Recording { inputs, saves_outputs: saves.outputs() && !replayable, replayable }
    }

    /// Gives the floating-point results of the op their place in the graph.
    pub fn finish(self, op: &Op, device: &Device, results: Several<Tensor>) -> Several<Tensor> {
        let depth = if self.replayable { depth(&self.inputs) } else { None };
        let outputs = match &results {
            Several::One(tensor) => Several::One(Form::of(tensor)),
            Several::Many(list) => Several::Many(list.iter().map(Form::of).collect()),
        };
        let saved_outputs = self.saves_outputs.then(|| results.clone());
        let record = Record { op: op.clone(), device: device.clone(), inputs: self.inputs, saved_outputs };
        let node = Arc::new(Node { id: next_id(), outputs, record: Some(record), depth });
        match results {
            Several::One(tensor) => Several::One(track(tensor, node, 0)),
            Several::Many(list) => {
                let track = |(output, tensor)| track(tensor, node.clone(), output);
                Several::Many(list.into_iter().enumerate().map(track).collect())
            }
        }
    }
}

/// How deep recomputation goes above operands of which all that are not kept are computed again; `None` where too deep.
fn depth(inputs: &[Input]) -> Option<u32> {
    let deeper = |input: &Input| match input {
        Input::Tracked(edge) => edge.node.depth.map(|depth| depth + 1),
        _ => None,
    };
    Some(inputs.iter().filter_map(deeper).max().unwrap_or(0)).filter(|depth| *depth < MAX_DEPTH)
}

fn track(tensor: Tensor, node: Arc<Node>, output: usize) -> Tensor {
    if tensor.dtype().is_float() { tensor.with_edge(Edge { node, output }) } else { tensor }
}

impl Drop for Node {
    /// Long chains are taken apart in a loop: dropping them recursively would overflow the stack.
    fn drop(&mut self) {
        let mut operands = self.record.as_mut().map(|record| mem::take(&mut record.inputs)).unwrap_or_default();
        while let Some(operand) = operands.pop() {
            let mut last = operand.into_edge().and_then(|edge| Arc::into_inner(edge.node));
            if let Some(record) = last.as_mut().and_then(|node| node.record.as_mut()) {
                operands.append(&mut record.inputs);
            }
        }
    }
}
