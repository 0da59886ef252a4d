//! Runs recorded calls on the reference device and on flex, and counts what became of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Once;

use ubique_core::{Device, Dispatch};
use ubique_flex as _;

use crate::call::{Failure, Outcome};
use crate::record::{self, Record};
use crate::reference::ReferenceBackend;

/// A recorded set of calls and how they are judged.
pub struct Truth {
    /// Its folder in `tests/data`.
    pub folder: &'static str,
    /// Makes a call on a device and compares what it gives.
    pub check: fn(&Record, &Device) -> Outcome<Result<(), String>>,
    /// Whether a difference of a call is known and has a reason.
    pub is_known: fn(&Record, &str) -> bool,
    /// Calls that ran and agreed when the set was made.
    pub agreed: usize,
}

/// What became of the calls.
#[derive(Default)]
struct Tally {
    agreed: usize,
    /// Calls with gradients among those.
    differentiated: usize,
    known: usize,
    unmapped: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

impl Truth {
    /// Checks every call, or those of the operators that `UBIQUE_OP` names, and prints the counts.
    ///
    /// # Panics
    /// Where a call is wrong, or fewer than ever agree.
    pub fn check_all(&self) {
        static REGISTER: Once = Once::new();
        REGISTER.call_once(|| {
            Dispatch::register(Box::new(ReferenceBackend)).expect("no other backend is called so");
        });
        let records = record::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(self.folder));
        let only = std::env::var("UBIQUE_OP").ok();
        for name in ["reference", "flex"] {
            let device = Device::new(name).expect("both are always there").autodiff();
            let mut tally = Tally::default();
            for record in records.iter().filter(|r| only.as_ref().is_none_or(|only| r.op.contains(only))) {
                let result = (self.check)(record, &device);
                self.add(&mut tally, record, result);
            }
            tally.print(self.folder, name);
            assert!(
                tally.wrong.is_empty(),
                "{name}: {} calls are wrong:\n{}",
                tally.wrong.len(),
                tally.wrong.join("\n")
            );
            assert!(only.is_some() || tally.agreed >= self.agreed, "{name}: only {} calls agree", tally.agreed);
        }
    }

    fn add(&self, tally: &mut Tally, record: &Record, result: Outcome<Result<(), String>>) {
        let why = match result {
            Ok(Ok(())) => {
                tally.agreed += 1;
                tally.differentiated += record.grads.iter().any(Option::is_some) as usize;
                return;
            }
            Err(Failure::Unmapped(why)) => {
                *tally.unmapped.entry(format!("{}: {why}", record.op)).or_default() += 1;
                return;
            }
            Ok(Err(why)) => why,
            Err(Failure::Failed(error)) => error.to_string(),
        };
        match (self.is_known)(record, &why) {
            true => tally.known += 1,
            false => tally.wrong.push(format!("{} {}: {why}", record.op, record.describe())),
        }
    }
}

impl Tally {
    fn print(&self, folder: &str, device: &str) {
        println!(
            "{folder} on {device}: {} calls agree, {} of them in their gradients; {} differ as known; not mapped:",
            self.agreed, self.differentiated, self.known
        );
        for (why, count) in &self.unmapped {
            println!("  {count:4} {why}");
        }
    }
}
