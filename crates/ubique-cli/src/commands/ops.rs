//! `ubique ops`: every op as plugins and recordings see it, with an example of its JSON and its operands.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use ubique::Op;
use ubique::op::case::Case;

use super::verify::op_names;
use crate::output::{Outcome, Output, Table};

/// List every op with an example of its JSON, operands and results.
#[derive(Args, Debug)]
pub struct Ops {
    /// Only these ops, with every form of theirs that the conformance kit checks.
    #[arg(long, num_args = 1.., value_name = "NAME", hide_possible_values = true, value_parser = op_names())]
    op: Vec<String>,
}

#[derive(Serialize)]
struct Record {
    ops: Vec<Form>,
}

/// A form of an op: its parameters, and operands that it takes.
#[derive(Serialize)]
struct Form {
    name: &'static str,
    op: Op,
    operands: Vec<String>,
    results: Vec<String>,
}

impl Ops {
    /// Prints one form of each op, or all forms of those that were named.
    pub fn run(self, output: &mut Output) -> Result<Outcome> {
        let mut record = Record { ops: Vec::new() };
        for case in Op::cases() {
            let name = case.op.name();
            let known = |form: &Form| form.op == case.op || self.op.is_empty() && form.name == name;
            let wanted = self.op.is_empty() || self.op.iter().any(|op| op == name);
            if wanted && !record.ops.iter().any(known) {
                record.ops.extend(form(case));
            }
        }
        record.ops.sort_by_key(|form| form.name);
        output.result(&record, || table(&record.ops).to_string())?;
        Ok(Outcome::Done)
    }
}

/// The op of a case with the operands there, unless they are ones to be refused.
fn form(case: Case) -> Option<Form> {
    let specs: Vec<_> = case.inputs.iter().map(|input| input.spec.clone()).collect();
    let results = case.op.rule().infer(&specs).ok()?.as_slice(&specs).iter().map(ToString::to_string).collect();
    Some(Form { name: case.op.name(), operands: specs.iter().map(ToString::to_string).collect(), results, op: case.op })
}

fn table(forms: &[Form]) -> Table {
    let mut table = Table::new(&["op", "operands", "results", "JSON"]);
    for form in forms {
        let json = serde_json::to_string(&form.op).unwrap_or_default();
        table.row([form.name.to_owned(), form.operands.join(" "), form.results.join(" "), json]);
    }
    table
}
