//! Checkpointing changes what is kept, never a gradient: every op case gives the same first and second derivatives, bit for
//! bit, with memory-bound results kept and recomputed.

use ubique::op::Gradient;
use ubique::op::case::Case;
use ubique::{Checkpointing, DType, Device, Dispatch, Op, Result, Tensor, grad};

fn device() -> Device {
    Device::new("flex?threads=1").expect("flex opens on every machine")
}

/// The bytes of each derivative, or why an operand has none: by rule, which is the same either way.
type Derivatives = Vec<Result<Vec<u8>, String>>;

fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    Ok(tensor.detach().to_host()?.bytes().to_vec())
}

/// One number that depends on every float tensor, by an op that looks at its operand and one that looks at its result.
fn total(tensors: &[Tensor]) -> Result<Option<Tensor>> {
    let mut total: Option<Tensor> = None;
    for tensor in tensors.iter().filter(|t| t.is_tracked()) {
        let sum = tensor.sin()?.sigmoid()?.sum_all()?.cast(DType::F64)?;
        total = Some(match total {
            Some(total) => (total + sum).tensor()?,
            None => sum,
        });
    }
    Ok(total)
}

fn each(root: &Tensor, leaves: &[Tensor], create_graph: bool) -> Result<Vec<Result<Tensor>>> {
    let seed = root.detach().ones_like()?;
    let one = |leaf| grad(&[root], &[&seed], &[leaf], create_graph).map(|mut list| list.remove(0));
    Ok(leaves.iter().map(one).collect())
}

/// First and second derivatives of a case between memory-bound ops, which recompute its operands and look at its outputs.
fn derivatives(case: &Case, checkpointing: Checkpointing) -> Result<Derivatives> {
    let device = device().autodiff_with(checkpointing);
    let mut leaves = Vec::new();
    let mut operands = Vec::new();
    for operand in case.operands() {
        let tensor = Tensor::from_host(operand.to_host()?, &device)?;
        if operand.is_float() {
            let leaf = tensor.require_grad()?;
            operands.push((&leaf * 1.0).tensor()?);
            leaves.push(leaf);
        } else {
            operands.push(tensor);
        }
    }
    let outputs = Dispatch::run(case.op.clone(), &operands.iter().collect::<Vec<_>>())?;
    drop(operands);
    let Some(root) = total(&outputs)? else { return Ok(Vec::new()) };
    let first = each(&root, &leaves, true)?;
    let tracked: Vec<Tensor> = first.iter().flatten().cloned().collect();
    let second = match total(&tracked)? {
        Some(root) => each(&root, &leaves, false)?,
        None => Vec::new(),
    };
    let all = first.into_iter().chain(second);
    Ok(all.map(|g| g.and_then(|g| bytes(&g)).map_err(|error| error.to_string())).collect())
}

/// Whether the reference takes the case's operands: some cases show what has to be refused, such as singular matrices.
fn has_result(case: &Case) -> bool {
    let outputs = case.op.infer(&case.specs()).unwrap();
    case.op.rule().reference(&case.operands(), &outputs).is_ok()
}

#[test]
fn every_case_has_the_same_derivatives_kept_and_recomputed() {
    let cases = Op::cases().into_iter().filter(|case| {
        case.op.rule().gradient() != Gradient::None
            && case.inputs.iter().any(|i| i.spec.dtype.is_float())
            && has_result(case)
    });
    let (mut checked, mut differ) = (0, Vec::new());
    let (mut ran, device) = ([0; 2], device());
    for case in cases {
        let mut run = |position: usize, checkpointing| {
            let before = device.counts().native;
            let derivatives = derivatives(&case, checkpointing).map_err(|error| error.to_string());
            ran[position] += device.counts().native - before;
            derivatives
        };
        let (kept, recomputed) = (run(0, Checkpointing::Disabled), run(1, Checkpointing::Balanced));
        if kept.is_err() || kept != recomputed {
            let outcome = |d: &Result<Derivatives, String>| d.as_ref().err().cloned();
            differ.push(format!(
                "{:?} on {:?}: {:?} {:?}",
                case.op,
                case.specs(),
                outcome(&kept),
                outcome(&recomputed)
            ));
        }
        checked += kept.is_ok_and(|d| d.iter().any(Result::is_ok)) as u64;
    }
    assert!(differ.is_empty(), "{} cases differ:\n{}", differ.len(), differ[..differ.len().min(20)].join("\n"));
    assert!(checked > 500, "only {checked} cases have derivatives");
    assert!(ran[1] > ran[0] + checked, "{} ops ran, {} with recomputation", ran[0], ran[1]);
}
