//! What is checked: the cases of all ops, in more dtypes and sizes than they list, in every layout.

use std::collections::BTreeSet;

use ubique_core::op::case::{Case, Fill};
use ubique_core::{DType, Op, Shape};

use crate::{LayoutKind, gradient_cases};

/// One thing to check.
#[derive(Clone, Debug)]
pub struct Check {
    /// The op and its operands.
    pub case: Case,
    /// What about it.
    pub kind: Kind,
}

/// What about a case is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The results, with operands that lie like this.
    Values(LayoutKind),
    /// The gradient, against finite differences.
    Gradient,
    /// The gradient's gradient, against finite differences.
    SecondOrder,
}

impl Check {
    /// The dtypes of all operands and results.
    pub fn dtypes(&self) -> impl Iterator<Item = DType> {
        let specs = self.case.specs();
        let outputs = self.case.op.infer(&specs).unwrap_or_default();
        specs.into_iter().chain(outputs).map(|spec| spec.dtype)
    }

    /// Whether the reference takes these operands.
    pub fn is_valid(&self) -> bool {
        let Check { case, .. } = self;
        case.op.infer(&case.specs()).is_ok_and(|specs| case.op.rule().reference(&case.operands(), &specs).is_ok())
    }

    /// How many elements the operands have: the smallest failing check is the one to show.
    pub fn size(&self) -> usize {
        self.case.inputs.iter().map(|input| input.spec.shape.elements().unwrap_or(usize::MAX)).sum()
    }
}

/// Every check of the ops that `wanted` accepts by name; gradients in `float`, the most precise dtype of the device.
pub fn checks(wanted: impl Fn(&str) -> bool, float: Option<DType>) -> Vec<Check> {
    let mut out = Vec::new();
    let cases: Vec<Case> = Op::cases().into_iter().filter(|case| wanted(case.op.name())).collect();
    for case in large(&cases) {
        for layout in [LayoutKind::Contiguous, LayoutKind::Transposed] {
            out.push(Check { case: case.clone(), kind: Kind::Values(layout) });
        }
    }
    for case in in_every_dtype(cases) {
        let layouts = LayoutKind::ALL.into_iter().filter(|layout| layout.differs(&case));
        out.extend(layouts.map(|layout| Check { case: case.clone(), kind: Kind::Values(layout) }));
    }
    if let Some(float) = float {
        for case in gradient_cases(float).into_iter().filter(|case| wanted(case.op.name())) {
            out.push(Check { case: case.clone(), kind: Kind::Gradient });
            // Differences of differences need all the digits of f64.
            if float == DType::F64 {
                out.push(Check { case, kind: Kind::SecondOrder });
            }
        }
    }
    // The list is by op from here on, whatever the order of the cases.
    out.sort_by_key(|check| check.case.op.name());
    out
}

/// The names of all ops, in alphabetical order.
pub fn names() -> Vec<&'static str> {
    Op::cases().iter().map(|case| case.op.name()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The cases, and each of them again in the other dtypes of the same kind that its op takes.
fn in_every_dtype(cases: Vec<Case>) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for case in cases {
        let main = case.inputs.first().map(|input| input.spec.dtype);
        let others = DType::ALL.into_iter().filter(|d| main.is_some_and(|m| m != *d && m.kind() == d.kind()));
        let versions = others.filter_map(|dtype| with_dtype(&case, dtype));
        for version in std::iter::once(case.clone()).chain(versions) {
            if seen.insert(format!("{version:?}")) {
                out.push(version);
            }
        }
    }
    out
}

/// A case with another dtype for all operands that share the first one's; `None` where the op refuses it.
fn with_dtype(case: &Case, dtype: DType) -> Option<Case> {
    let mut version = case.clone();
    let old = version.inputs.first()?.spec.dtype;
    for input in version.inputs.iter_mut().filter(|input| input.spec.dtype == old) {
        input.spec.dtype = dtype;
    }
    version.op.infer(&version.specs()).ok()?;
    Some(version)
}

/// Elements beyond which kernels use several threads, with room to spare.
const LARGE: usize = 80_000;

/// One large version of a case for each op and dtype: the longest axis is stretched.
fn large(cases: &[Case]) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for case in cases.iter().filter(|case| case.inputs.iter().all(|i| !matches!(i.values, Fill::Values(_)))) {
        let key = (case.op.name(), case.inputs.first().map(|input| input.spec.dtype));
        if seen.contains(&key) {
            continue;
        }
        if let Some(version) = stretched(case) {
            seen.insert(key);
            out.push(version);
        }
    }
    out
}

fn stretched(case: &Case) -> Option<Case> {
    let first = &case.inputs.first()?.spec.shape;
    let (elements, longest) = (first.elements().ok()?, *first.iter().max()?);
    if elements == 0 || longest < 2 {
        return None;
    }
    let version = with_extent(case, longest, longest * LARGE.div_ceil(elements));
    version
        .op
        .infer(&version.specs())
        .is_ok_and(|outputs| {
            let sizes = outputs.iter().map(|spec| spec.shape.elements().unwrap_or(usize::MAX));
            sizes.sum::<usize>() <= 4 * LARGE
                && version.inputs.iter().all(|i| i.spec.shape.elements().is_ok_and(|n| n <= 4 * LARGE))
        })
        .then_some(version)
}

/// A case with every extent `from`, in all operands, replaced.
pub fn with_extent(case: &Case, from: usize, to: usize) -> Case {
    let mut version = case.clone();
    for input in &mut version.inputs {
        let extents = input.spec.shape.iter().map(|&extent| if extent == from { to } else { extent });
        input.spec.shape = extents.collect::<Shape>();
    }
    version
}
