//! `ubique bench --choose`: the standard work on every device that is ready, and the fastest as the meaning of `auto`.

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use ubique::backend::DeviceKind;
use ubique::dispatch::{Probed, State, config};
use ubique::{Device, Dispatch};
use ubique_nn::atomic_file;

use super::{measure, work};
use crate::output::{Outcome, Output, Table};

/// The works that are compared: memory, reductions, products, convolution, and a whole training step.
const WORKS: [&str; 6] =
    ["add_4M", "gelu_4M", "softmax_4096x1024", "matmul_1024", "conv2d_8x64x56_k3", "mlp_adam_step_b128"];

/// A device with the times of its works.
#[derive(Serialize)]
struct Candidate {
    device: String,
    /// Median milliseconds of each work.
    ms: Vec<f64>,
    /// The geometric mean of how many times longer it takes than the fastest device.
    slowness: f64,
}

#[derive(Serialize)]
struct Record {
    works: [&'static str; 6],
    /// The fastest first.
    devices: Vec<Candidate>,
    turned_down: Vec<String>,
    /// The file that the choice was written to.
    written: Option<String>,
}

/// Measures, and writes the choice where `write` or the user says so.
pub fn run(output: &mut Output, seconds: f64, write: bool) -> Result<Outcome> {
    let (names, mut turned_down) = ready();
    let mut devices = Vec::new();
    for device in names {
        match times(&device, seconds) {
            Ok(ms) => devices.push(Candidate { device, ms, slowness: 1.0 }),
            Err(error) => turned_down.push(format!("{device}: {error:#}")),
        }
    }
    rank(&mut devices);
    let Some(best) = devices.first().map(|fastest| fastest.device.clone()) else {
        bail!("no device can do the standard work: {}", turned_down.join("; "));
    };
    let mut record = Record { works: WORKS, devices, turned_down, written: None };
    if !output.is_json() {
        output.result(&record, || text(&record))?;
    }
    let file = config::user_path().context("there is no folder for the user's configuration")?;
    if write || ask(&best, &file)? {
        set_device(&file, &best)?;
        eprintln!("{} now says device = \"{best}\"", file.display());
        record.written = Some(file.display().to_string());
    }
    if output.is_json() {
        output.result(&record, String::new)?;
    }
    Ok(Outcome::Done)
}

/// The devices to measure, and why others are not.
fn ready() -> (Vec<String>, Vec<String>) {
    let (mut names, mut turned_down) = (Vec::new(), Vec::new());
    for Probed { backend, state } in Dispatch::probe() {
        match state {
            State::Ready(infos) => {
                for (index, info) in infos.into_iter().enumerate() {
                    let name = format!("{backend}:{index}");
                    match info.unavailable {
                        Some(why) => turned_down.push(format!("{name}: {why}")),
                        None if info.kind == DeviceKind::Virtual => turned_down.push(format!("{name}: only for tests")),
                        None => names.push(name),
                    }
                }
            }
            State::Unavailable(why) => turned_down.push(format!("{backend}: {why}")),
            State::Disabled(why) => turned_down.push(format!("{backend}: {why}")),
        }
    }
    (names, turned_down)
}

fn times(name: &str, seconds: f64) -> Result<Vec<f64>> {
    let device = Device::new(name)?;
    let mut times = Vec::new();
    for work in WORKS {
        let known = work::ALL.iter().find(|(known, _)| *known == work);
        let (_, prepare) = known.with_context(|| format!("there is no work {work}"))?;
        eprintln!("{name}: {work}");
        let (ms, _) = measure(&device, seconds, prepare(&device)?)?;
        times.push(ms);
    }
    Ok(times)
}

/// Orders devices by how fast they are on the whole.
fn rank(devices: &mut [Candidate]) {
    let fastest: Vec<f64> =
        (0..WORKS.len()).map(|i| devices.iter().map(|device| device.ms[i]).fold(f64::INFINITY, f64::min)).collect();
    for device in devices.iter_mut() {
        let logs = device.ms.iter().zip(&fastest).map(|(ms, best)| (ms / best).ln());
        device.slowness = (logs.sum::<f64>() / WORKS.len() as f64).exp();
    }
    devices.sort_by(|a, b| a.slowness.total_cmp(&b.slowness));
}

fn text(record: &Record) -> String {
    let mut header = vec!["device", "slowness"];
    header.extend(record.works);
    let mut table = Table::new(&header);
    (1..header.len()).for_each(|column| table.align_right(column));
    for Candidate { device, ms, slowness } in &record.devices {
        let times = ms.iter().map(|ms| format!("{ms:.3}"));
        table.row([device.clone(), format!("{slowness:.2}")].into_iter().chain(times));
    }
    let others = record.turned_down.iter().map(|why| format!("\nnot measured: {why}")).collect::<String>();
    format!("{table}\n(milliseconds){others}")
}

/// Asks on the terminal; without one, says how to write the choice.
fn ask(best: &str, file: &Path) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        eprintln!("--write makes {best} the meaning of auto, in {}", file.display());
        return Ok(false);
    }
    eprint!("Make {best} the meaning of auto, in {}? [y/N] ", file.display());
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Sets the key `device` of a config file, and leaves the rest of it as it is.
fn set_device(file: &Path, device: &str) -> Result<()> {
    let context = || format!("cannot write {}", file.display());
    let old = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(context),
    };
    let mut document: toml_edit::DocumentMut =
        old.parse().with_context(|| format!("{} does not parse", file.display()))?;
    document["device"] = toml_edit::value(device);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    Ok(atomic_file::write(file, |out| out.write_all(document.to_string().as_bytes()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(device: &str, ms: [f64; 6]) -> Candidate {
        Candidate { device: device.to_owned(), ms: ms.to_vec(), slowness: 1.0 }
    }

    #[test]
    fn the_fastest_on_the_whole_comes_first() {
        let mut devices =
            [candidate("slow", [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]), candidate("fast", [1.0, 1.0, 1.0, 1.0, 1.0, 4.0])];
        rank(&mut devices);
        assert_eq!(devices[0].device, "fast");
        assert!((devices[0].slowness - 2f64.powf(1.0 / 6.0)).abs() < 1e-12);
        assert!((devices[1].slowness - 2f64.powf(5.0 / 6.0)).abs() < 1e-12);
    }

    #[test]
    fn the_works_are_there() {
        assert!(WORKS.iter().all(|work| work::ALL.iter().any(|(known, _)| known == work)));
    }

    #[test]
    fn the_rest_of_a_config_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ubique").join("ubique.toml");
        set_device(&file, "flex:0").unwrap();
        assert_eq!(config::read(&file).unwrap().device.as_deref(), Some("flex:0"));
        std::fs::write(&file, "# mine\ndisabled = [\"vulkan\"] # broken\ndevice = \"cpu\"\n").unwrap();
        set_device(&file, "cuda:1").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "# mine\ndisabled = [\"vulkan\"] # broken\ndevice = \"cuda:1\"\n");
        std::fs::write(&file, "device = [").unwrap();
        assert!(set_device(&file, "cpu").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "device = [");
    }
}
