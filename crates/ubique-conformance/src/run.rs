//! One call: every check of every op on a device, each with a deadline, and a report of what came of it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ubique_core::dispatch::Counts;
use ubique_core::error::panic_message;
use ubique_core::{DType, Device, ErrorKind};

use crate::checks::{Check, Kind, checks, with_extent};
use crate::report::{Example, OpReport, Report};
use crate::{Failure, forward, gradient, second_order};

/// What to check, and how patiently.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only these ops; all where empty.
    pub ops: Vec<String>,
    /// Whether gradients are checked too.
    pub gradients: bool,
    /// How long one check may take.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { ops: Vec::new(), gradients: true, deadline: Duration::from_secs(20) }
    }
}

/// A device that was silent this often is not asked again.
const PATIENCE: usize = 3;

/// Checks a device against the f64 reference. Whatever the device does wrong (a wrong value or shape, an error, a panic,
/// no answer) is a failure in the report, and the run goes on.
///
/// ```no_run
/// # use ubique_core::Device;
/// let report = ubique_conformance::run(&Device::new("mine")?, &Default::default());
/// assert!(report.passed(), "{report}");
/// # Ok::<(), ubique_core::Error>(())
/// ```
pub fn run(device: &Device, options: &Options) -> Report {
    let start = Instant::now();
    let wanted = |name: &str| options.ops.is_empty() || options.ops.iter().any(|op| op == name);
    let float = [DType::F64, DType::F32].into_iter().find(|&d| options.gradients && device.supports_dtype(d));
    let mut ops = BTreeMap::<&'static str, OpReport>::new();
    let mut worker = Worker::start(device);
    let mut silences = 0;
    for check in checks(wanted, float) {
        let report = ops.entry(check.case.op.name()).or_insert_with(|| OpReport::new(check.case.op.name()));
        if !check.dtypes().all(|dtype| device.supports_dtype(dtype)) {
            report.unsupported += 1;
            continue;
        }
        if silences >= PATIENCE {
            report.unchecked += 1;
            continue;
        }
        match worker.ask(&check, options.deadline) {
            Some(Answer { outcome: Ok(()), path, .. }) => report.pass(path),
            Some(Answer { outcome: Err(_), lacks_dtype: true, .. }) => report.unsupported += 1,
            Some(Answer { outcome: Err(why), .. }) => {
                let (check, why) = worker.shrink(check, why, options.deadline);
                report.fail(&check, why);
            }
            None => {
                report.fail(&check, format!("no answer within {} s", options.deadline.as_secs_f64()));
                worker = Worker::start(device);
                silences += 1;
            }
        }
    }
    Report {
        device: device.name().to_owned(),
        what: device.info().name.clone(),
        ops: ops.into_values().collect(),
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// How an op ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// By the device's own kernel.
    Native,
    /// As simpler ops.
    Decomposed,
    /// On the host.
    Host,
}

impl Path {
    fn between(before: Counts, after: Counts) -> Path {
        match () {
            () if after.host > before.host => Path::Host,
            () if after.decomposed > before.decomposed => Path::Decomposed,
            () => Path::Native,
        }
    }
}

struct Answer {
    outcome: Result<(), String>,
    path: Path,
    /// Whether it failed for want of a dtype, such as that of the indices which a gradient needs.
    lacks_dtype: bool,
}

/// A thread that runs checks, and can be left behind if the device hangs.
struct Worker {
    checks: Sender<Check>,
    answers: Receiver<Answer>,
}

impl Worker {
    fn start(device: &Device) -> Worker {
        let (checks, todo) = channel::<Check>();
        let (done, answers) = channel();
        let device = device.clone();
        thread::spawn(move || {
            for check in todo {
                // The receiver is gone where the run has given this thread up.
                if done.send(answer(&device, &check)).is_err() {
                    break;
                }
            }
        });
        Worker { checks, answers }
    }

    /// The answer, or `None` where there is none in time.
    fn ask(&self, check: &Check, deadline: Duration) -> Option<Answer> {
        // Where the thread has ended, receiving says so.
        let _ = self.checks.send(check.clone());
        self.answers.recv_timeout(deadline).ok()
    }

    /// A smaller check that still fails, by making axes shorter.
    fn shrink(&self, mut check: Check, mut why: String, deadline: Duration) -> (Check, String) {
        let mut tried = 0;
        loop {
            let mut extents: Vec<usize> = check.case.inputs.iter().flat_map(|i| i.spec.shape.iter().copied()).collect();
            extents.sort_unstable();
            extents.dedup();
            let shorter = extents.into_iter().rev().filter(|&n| n > 1).flat_map(|n| [(n, 1), (n, n / 2), (n, n - 1)]);
            let mut smaller = None;
            for (from, to) in shorter {
                let candidate = Check { case: with_extent(&check.case, from, to), ..check.clone() };
                tried += 1;
                if tried > 60 || !candidate.is_valid() {
                    continue;
                }
                match self.ask(&candidate, deadline) {
                    Some(Answer { outcome: Err(why), .. }) => {
                        smaller = Some((candidate, why));
                        break;
                    }
                    Some(_) => {}
                    None => return (check, why),
                }
            }
            match smaller {
                Some(found) => (check, why) = found,
                None => return (check, why),
            }
        }
    }
}

fn answer(device: &Device, check: &Check) -> Answer {
    let before = device.counts();
    let run = || match check.kind {
        Kind::Values(layout) => forward(device, &check.case, layout),
        Kind::Gradient => gradient(&device.autodiff(), &check.case),
        Kind::SecondOrder => second_order(&device.autodiff(), &check.case),
    };
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let lacks_dtype = match &outcome {
        Ok(Err(Failure::Error(error))) => error.kind() == ErrorKind::DType && !has_every_dtype(device),
        _ => false,
    };
    let outcome = match outcome {
        Ok(outcome) => outcome.map_err(|failure| failure.to_string()),
        Err(panic) => Err(format!("panicked: {}", panic_message(&*panic).unwrap_or("with no message"))),
    };
    Answer { outcome, path: Path::between(before, device.counts()), lacks_dtype }
}

fn has_every_dtype(device: &Device) -> bool {
    DType::ALL.into_iter().all(|dtype| device.supports_dtype(dtype))
}

impl Example {
    pub(crate) fn of(check: &Check, why: String) -> Example {
        Example {
            op: format!("{:?}", check.case.op),
            operands: check.case.specs().iter().map(ToString::to_string).collect(),
            check: format!("{:?}", check.kind),
            why,
            elements: check.size(),
        }
    }
}
