//! The recorded graph: a node for each tracked op, with what its gradient needs.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::autodiff::checkpoints;
use crate::backend::Several;
use crate::dispatch::Device;
use crate::dispatch::run::Arg;
use crate::op::{Op, Traits};
use crate::shape::TensorSpec;
use crate::tensor::Tensor;

/// A tensor's place in the graph: which output of which node.
#[derive(Clone)]
pub(crate) struct Edge {
    pub node: Arc<Node>,
    pub output: usize,
}

impl Edge {
    pub fn leaf(spec: TensorSpec) -> Edge {
        Edge { node: Arc::new(Node { id: next_id(), outputs: Several::One(spec), record: None, depth: 0 }), output: 0 }
    }

    /// What identifies the tensor among gradients.
    pub fn key(&self) -> (u64, usize) {
        (self.node.id, self.output)
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edge({}.{})", self.node.id, self.output)
    }
}

/// One op that ran on tracked operands, or a leaf. Later nodes have larger ids, so ids are a topological order.
pub(crate) struct Node {
    pub id: u64,
    pub outputs: Several<TensorSpec>,
    /// `None` for leaves.
    pub record: Option<Record>,
    /// How many ops have to run again, one after the other, to have this node's outputs again.
    depth: u32,
}

/// Longer chains of recomputation keep a tensor in between, which bounds both work and recursion.
const MAX_DEPTH: u32 = 32;

/// What an op's gradient needs.
pub(crate) struct Record {
    pub op: Op,
    pub device: Device,
    pub inputs: SmallVec<[Input; 2]>,
    /// The outputs, where the rule looks at them. Set once, right after the op ran. They are untracked: an edge would
    /// close a circle of references.
    pub saved_outputs: OnceLock<Several<Tensor>>,
}

/// One operand of a recorded op.
pub(crate) struct Input {
    pub spec: TensorSpec,
    pub saved: Saved,
    pub parent: Option<Edge>,
}

/// How an operand can be had again.
pub(crate) enum Saved {
    /// Not at all: no gradient needs it.
    Nothing,
    /// It was kept, with its edge.
    Value(Tensor),
    /// By running its memory-bound parent again.
    Recompute,
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Node {
    /// Whether the outputs of this node are dropped and computed again (see [`crate::dispatch::Checkpointing`]).
    fn recomputes(&self) -> bool {
        self.depth < MAX_DEPTH
            && self.record.as_ref().is_some_and(|r| checkpoints(&r.device) && r.op.rule().traits().memory_bound)
    }
}

/// A record under way: the operands are saved before the op runs, the outputs after.
pub(crate) struct Recording {
    record: Record,
    saves_outputs: bool,
}

impl Recording {
    pub fn new(op: &Op, traits: Traits, device: &Device, args: &[Arg<'_>]) -> Recording {
        let saves = traits.saves();
        // Whoever recomputes this node's output needs its operands.
        let replayable = checkpoints(device) && traits.memory_bound;
        let inputs = args.iter().enumerate().map(|(i, arg)| {
            let tensor = arg.tensor();
            let saved = match tensor.edge() {
                _ if !(saves.input(i) || replayable) => Saved::Nothing,
                Some(edge) if edge.node.recomputes() => Saved::Recompute,
                _ => Saved::Value(tensor.clone()),
            };
            Input { spec: tensor.spec(), saved, parent: tensor.edge().cloned() }
        });
        let record =
            Record { op: op.clone(), device: device.clone(), inputs: inputs.collect(), saved_outputs: OnceLock::new() };
        Recording { record, saves_outputs: saves.outputs() && !replayable }
    }

    /// Gives the floating-point results their place in the graph.
    pub fn finish(self, results: Several<Tensor>) -> Several<Tensor> {
        let outputs = match &results {
            Several::One(tensor) => Several::One(tensor.spec()),
            Several::Many(list) => Several::Many(list.iter().map(Tensor::spec).collect()),
        };
        if self.saves_outputs {
            // Cannot be set already: the record is not shared yet.
            let _ = self.record.saved_outputs.set(results.clone());
        }
        let depth = self.record.inputs.iter().filter(|i| matches!(i.saved, Saved::Recompute));
        let depth = depth.filter_map(|i| i.parent.as_ref()).map(|edge| edge.node.depth + 1).max().unwrap_or(0);
        let node = Arc::new(Node { id: next_id(), outputs, record: Some(self.record), depth });
        let track = |(output, tensor): (usize, Tensor)| match tensor.dtype().is_float() {
            true => tensor.with_edge(Edge { node: node.clone(), output }),
            false => tensor,
        };
        match results {
            Several::One(tensor) => Several::One(track((0, tensor))),
            Several::Many(list) => Several::Many(list.into_iter().enumerate().map(track).collect()),
        }
    }
}

impl Drop for Node {
    /// Long chains are taken apart in a loop: dropping them recursively would overflow the stack.
    fn drop(&mut self) {
        fn parents(record: Option<Record>) -> impl Iterator<Item = Arc<Node>> {
            record.into_iter().flat_map(|r| r.inputs).filter_map(|input| input.parent).map(|edge| edge.node)
        }
        let mut stack: Vec<Arc<Node>> = parents(self.record.take()).collect();
        while let Some(node) = stack.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                stack.extend(parents(node.record.take()));
            }
        }
    }
}
