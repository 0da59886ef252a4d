//! `ubique doctor`: a small computation on every device, its answer checked and timed, and what to do about those that fail.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;
use ubique::backend::deadline;
use ubique::dispatch::{Probed, State};
use ubique::{DType, Device, Dispatch, Tensor};

use crate::output::{Outcome, Output, Table};

/// How long a device may take for the computation, the compilation of its kernels included.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was found out about a device.
#[derive(Serialize)]
struct Diagnosis {
    device: String,
    /// `well`, `wrong` (a wrong answer, an error or none at all), `unavailable` or `disabled`.
    health: &'static str,
    /// Milliseconds of the first computation, with all that has to be prepared once, and of one after it.
    first_ms: Option<f64>,
    next_ms: Option<f64>,
    /// What is wrong, and what to do about it.
    why: Option<String>,
}

#[derive(Serialize)]
struct Record {
    auto: Option<String>,
    devices: Vec<Diagnosis>,
}

/// Examines every device.
pub fn run(output: &mut Output) -> Result<Outcome> {
    let devices: Vec<Diagnosis> = Dispatch::probe().into_iter().flat_map(examine_backend).collect();
    let auto = Device::auto();
    let record = Record { auto: auto.as_ref().ok().map(|device| device.name().to_owned()), devices };
    output.result(&record, || text(&record))?;
    let wrong: Vec<&str> = record.devices.iter().filter(|d| d.health == "wrong").map(|d| d.device.as_str()).collect();
    if !wrong.is_empty() {
        bail!("{} computes wrongly or not at all; see above", wrong.join(", "));
    }
    auto?;
    Ok(Outcome::Done)
}

fn examine_backend(Probed { backend, state }: Probed) -> Vec<Diagnosis> {
    let none = |health, why: String| vec![Diagnosis::without(backend.clone(), health, why)];
    match state {
        State::Disabled(why) => none("disabled", format!("{why}; take it out of that list to use it")),
        State::Unavailable(why) => none("unavailable", why.to_string()),
        State::Ready(infos) => {
            let names = infos.into_iter().enumerate().map(|(i, info)| (format!("{backend}:{i}"), info.unavailable));
            names
                .map(|(name, unavailable)| match unavailable {
                    Some(why) => Diagnosis::without(name, "unavailable", why.to_string()),
                    None => examine(name),
                })
                .collect()
        }
    }
}

fn examine(name: String) -> Diagnosis {
    let device = name.clone();
    let answer = deadline::start(PATIENCE, move || compute_twice(&device)).finish();
    match answer.map_err(|why| format!("it {why}")).and_then(|result| result.map_err(|e| e.to_string())) {
        Ok([first, next]) => Diagnosis {
            device: name,
            health: "well",
            first_ms: Some(first.as_secs_f64() * 1e3),
            next_ms: Some(next.as_secs_f64() * 1e3),
            why: None,
        },
        Err(why) => Diagnosis::without(name, "wrong", why),
    }
}

fn compute_twice(name: &str) -> ubique::Result<[Duration; 2]> {
    let device = Device::new(name)?;
    let mut times = [Duration::ZERO; 2];
    for time in &mut times {
        let start = Instant::now();
        compute(&device)?;
        *time = start.elapsed();
    }
    Ok(times)
}

/// A product, a function and a reduction, whose results are whole numbers and so exact on every device.
fn compute(device: &Device) -> ubique::Result<()> {
    const N: usize = 64;
    let dtype = if device.supports_dtype(DType::F32) { DType::F32 } else { device.info().default_float };
    let host = |f: fn(usize) -> f64| {
        let values = (0..N * N).map(f).map(Into::into);
        Tensor::from_host(ubique::HostTensor::from_scalars(values, dtype, [N, N])?, device)
    };
    let (a, b) = (host(|i| (i % 5) as f64 - 2.0)?, host(|i| (i % 3) as f64 - 1.0)?);
    let product = a.matmul(&b)?;
    let rows = product.abs()?.sum(&[1])?.to_host()?.to_f64();
    let right = |row: usize| -> f64 {
        let entry = |column: usize| -> f64 {
            (0..N).map(|k| (((row * N + k) % 5) as f64 - 2.0) * (((k * N + column) % 3) as f64 - 1.0)).sum()
        };
        (0..N).map(|column| entry(column).abs()).sum()
    };
    match rows.iter().enumerate().find(|&(row, &value)| value != right(row)) {
        None => Ok(()),
        Some((row, value)) => Err(ubique::Error::backend(format!(
            "it computes wrongly: row {row} of a {dtype} product sums to {value} instead of {}; `ubique verify --device {device}` \
             shows which ops are at fault",
            right(row)
        ))),
    }
}

impl Diagnosis {
    fn without(device: String, health: &'static str, why: String) -> Diagnosis {
        Diagnosis { device, health, first_ms: None, next_ms: None, why: Some(why) }
    }
}

fn text(record: &Record) -> String {
    let mut table = Table::new(&["device", "health", "first ms", "next ms", "why"]);
    table.align_right(2);
    table.align_right(3);
    for Diagnosis { device, health, first_ms, next_ms, why } in &record.devices {
        let ms = |time: &Option<f64>| time.map(|ms| format!("{ms:.3}")).unwrap_or_default();
        let why = why.clone().unwrap_or_default();
        table.row([device.clone(), (*health).to_owned(), ms(first_ms), ms(next_ms), why]);
    }
    let auto = record.auto.as_ref().map(|name| format!("\n\nauto is {name}")).unwrap_or_default();
    format!("{table}{auto}")
}
