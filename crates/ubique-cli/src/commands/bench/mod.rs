//! `ubique bench`: standard work, measured in the form that other libraries' harnesses print.

mod choose;
pub mod work;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use ubique::Device;

use super::OnDevice;
use crate::output::{Outcome, Output, Table};

/// Measure standard work.
#[derive(Args, Debug)]
pub struct Bench {
    #[command(flatten)]
    on: OnDevice,
    /// Only these works; --list names them.
    #[arg(long, num_args = 1.., value_name = "NAME", hide_possible_values = true, value_parser = names())]
    work: Vec<String>,
    /// Name the works and measure nothing.
    #[arg(long)]
    list: bool,
    /// Measure every device that is ready, and offer to make the fastest the meaning of auto.
    #[arg(long, conflicts_with_all = ["device", "threads", "work", "list"])]
    choose: bool,
    /// With --choose: write the fastest device into the user's ubique.toml without asking.
    #[arg(long, requires = "choose")]
    write: bool,
    /// How long to repeat each work, at least.
    #[arg(long, default_value_t = 0.6, value_name = "SECONDS", value_parser = positive)]
    seconds: f64,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(work::ALL.iter().map(|(name, _)| *name))
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 3600.0 => Ok(seconds),
        _ => Err("not a number of seconds above 0 and up to 3600".to_owned()),
    }
}

#[derive(Serialize)]
struct Measured {
    peer: &'static str,
    work: &'static str,
    /// Median milliseconds of one run.
    ms: f64,
    /// How many runs were measured.
    n: usize,
    device: String,
}

impl Bench {
    /// Measures and prints.
    pub fn run(self, output: &mut Output) -> Result<Outcome> {
        if self.list {
            let known: Vec<&str> = work::ALL.iter().map(|(name, _)| *name).collect();
            output.result(&serde_json::json!({ "works": known }), || known.join("\n"))?;
            return Ok(Outcome::Done);
        }
        if self.choose {
            return choose::run(output, self.seconds, self.write);
        }
        let device = self.on.open()?;
        let mut rows = Vec::new();
        for (name, prepare) in work::ALL {
            if !self.work.is_empty() && !self.work.iter().any(|wanted| wanted == name) {
                continue;
            }
            let (ms, n) = measure(&device, self.seconds, prepare(&device)?)?;
            let row = Measured { peer: "ubique", work: name, ms, n, device: device.name().to_owned() };
            if output.is_json() {
                output.result(&row, String::new)?;
            } else {
                eprintln!("{name}: {ms:.4} ms");
                rows.push(row);
            }
        }
        if !output.is_json() {
            output.result(&serde_json::json!({}), || table(&rows).to_string())?;
        }
        Ok(Outcome::Done)
    }
}

/// The median of the times of repeated runs after two that are not counted, in milliseconds, and their number. A run ends
/// when the device has done all of it.
fn measure(device: &Device, seconds: f64, mut work: work::Run) -> Result<(f64, usize)> {
    let mut run = || -> Result<()> {
        work()?;
        Ok(device.sync()?)
    };
    run()?;
    run()?;
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while times.len() < 5 || Instant::now() < end {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[times.len() / 2], times.len()))
}

fn table(rows: &[Measured]) -> Table {
    let mut table = Table::new(&["work", "ms", "runs", "device"]);
    table.align_right(1);
    table.align_right(2);
    for row in rows {
        table.row([row.work.to_owned(), format!("{:.4}", row.ms), row.n.to_string(), row.device.clone()]);
    }
    table
}
