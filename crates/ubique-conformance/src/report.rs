//! What came of checking a device.

use std::fmt;

use serde::Serialize;

use crate::checks::Check;
use crate::run::Path;

/// The outcome for a device.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// What it is.
    pub what: String,
    /// Each op, in alphabetical order.
    pub ops: Vec<OpReport>,
    /// How long it took.
    pub seconds: f64,
}

/// The outcome for an op.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OpReport {
    /// The op's name.
    pub name: &'static str,
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
    /// Checks in dtypes that the device does not compute with.
    pub unsupported: usize,
    /// Checks that were left out because the device had stopped answering.
    pub unchecked: usize,
    /// Passed checks that ran natively.
    pub native: usize,
    /// Passed checks that ran as simpler ops.
    pub decomposed: usize,
    /// Passed checks that ran on the host.
    pub host: usize,
    /// The smallest failing input.
    pub example: Option<Example>,
}

/// An input on which a device fails.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// The op with its parameters.
    pub op: String,
    /// Shapes and dtypes of the operands.
    pub operands: Vec<String>,
    /// What was checked, in which layout.
    pub check: String,
    /// What is wrong.
    pub why: String,
    #[serde(skip)]
    pub(crate) elements: usize,
}

impl Report {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.failed_checks() == 0
    }

    /// How many checks passed.
    pub fn passed_checks(&self) -> usize {
        self.ops.iter().map(|op| op.passed).sum()
    }

    /// How many checks failed.
    pub fn failed_checks(&self) -> usize {
        self.ops.iter().map(|op| op.failed).sum()
    }
}

impl OpReport {
    pub(crate) fn new(name: &'static str) -> OpReport {
        OpReport { name, ..OpReport::default() }
    }

    pub(crate) fn pass(&mut self, path: Path) {
        self.passed += 1;
        match path {
            Path::Native => self.native += 1,
            Path::Decomposed => self.decomposed += 1,
            Path::Host => self.host += 1,
        }
    }

    pub(crate) fn fail(&mut self, check: &Check, why: String) {
        self.failed += 1;
        if self.example.as_ref().is_none_or(|example| check.size() < example.elements) {
            self.example = Some(Example::of(check, why));
        }
    }
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on ({}), {}: {}", self.op, self.operands.join(", "), self.check, self.why)
    }
}

/// A line for each op that failed, and the totals.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for op in &self.ops {
            if let Some(example) = &op.example {
                writeln!(
                    f,
                    "{}: {} of {} checks failed; the smallest: {example}",
                    op.name,
                    op.failed,
                    op.failed + op.passed
                )?;
            }
        }
        let (ops, passed, failed) = (self.ops.len(), self.passed_checks(), self.failed_checks());
        write!(f, "{}: {ops} ops, {passed} checks passed, {failed} failed, in {:.1} s", self.device, self.seconds)
    }
}
