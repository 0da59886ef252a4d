//! `ubique verify`: every op of a device against the f64 reference.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use ubique_conformance::{OpReport, Options, names, run};

use super::OnDevice;
use crate::output::{Outcome, Output, Table};

/// Check every op of a device against the f64 reference.
#[derive(Args, Debug)]
pub struct Verify {
    #[command(flatten)]
    on: OnDevice,
    /// Only these ops.
    #[arg(long, num_args = 1.., value_name = "NAME", hide_possible_values = true, value_parser = op_names())]
    op: Vec<String>,
    /// Leave gradients out.
    #[arg(long)]
    no_gradients: bool,
    /// How long one check may take before it counts as failed.
    #[arg(long, default_value_t = 20, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: u64,
}

/// Names of ops, as the command line takes them.
pub(super) fn op_names() -> PossibleValuesParser {
    PossibleValuesParser::new(names())
}

impl Verify {
    /// Checks and prints; a failure where any check failed.
    pub fn run(self, output: &mut Output) -> Result<Outcome> {
        let device = self.on.open()?;
        let options =
            Options { ops: self.op, gradients: !self.no_gradients, deadline: Duration::from_secs(self.deadline) };
        let report = run(&device, &options);
        output.result(&report, || format!("{}\n\n{report}", table(&report.ops)))?;
        match report.failed_checks() {
            0 => Ok(Outcome::Done),
            failed => bail!("{failed} checks failed on {}", report.device),
        }
    }
}

fn table(ops: &[OpReport]) -> Table {
    let mut table = Table::new(&["op", "passed", "failed", "native", "decomposed", "host", "unsupported", "unchecked"]);
    (1..8).for_each(|column| table.align_right(column));
    for op in ops {
        let counts = [op.passed, op.failed, op.native, op.decomposed, op.host, op.unsupported, op.unchecked];
        table.row(std::iter::once(op.name.to_owned()).chain(counts.map(|count| count.to_string())));
    }
    table
}
