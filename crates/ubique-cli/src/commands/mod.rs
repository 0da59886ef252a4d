//! The command line: what can be asked for, and where each answer is worked out.

pub mod bench;
mod devices;
mod doctor;
mod ops;
mod predict;
mod train;
mod verify;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use ubique::Device;
use ubique::dispatch::Selection;

use crate::output::{Outcome, Output};

/// Tensors on any device: list devices, train and use a small network, measure speed.
#[derive(Parser, Debug)]
#[command(name = "ubique", version, about)]
pub struct Cli {
    /// Results as JSON on standard output, one object a line; progress stays on standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List every backend and device, usable or not, and why not.
    Devices,
    /// Compute something small on every device, check it, and say what to do about those that fail.
    Doctor,
    /// Train a small convolutional network on Fashion-MNIST.
    Train(train::Train),
    /// Classify PNG images with a trained network.
    Predict(predict::Predict),
    /// Measure this machine's devices on standard work.
    Bench(bench::Bench),
    /// List every op with an example of its JSON, operands and results: what a plugin is given.
    Ops(ops::Ops),
    /// Check every op of a device against the f64 reference.
    Verify(verify::Verify),
}

/// The choice of a device, the same for every command.
#[derive(Args, Debug)]
struct OnDevice {
    /// A device name such as auto, cpu, flex:0 or flex?threads=2, or several in order of preference: cuda,cpu.
    #[arg(long, default_value = "auto")]
    device: Selection,
    /// How many threads a CPU device may use [default: all].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl OnDevice {
    fn open(&self) -> Result<Device> {
        let mut selection = self.device.clone();
        if let Some(threads) = self.threads {
            selection.0.iter_mut().for_each(|choice| choice.options.threads = Some(threads.into()));
        }
        Ok(Device::new(&selection.to_string())?)
    }
}

impl Cli {
    /// Does what was asked for.
    ///
    /// # Errors
    /// Why it could not be done.
    pub fn run(self) -> Result<Outcome> {
        let mut output = Output::stdout(self.json);
        match self.command {
            Command::Devices => devices::run(&mut output),
            Command::Doctor => doctor::run(&mut output),
            Command::Train(train) => train.run(&mut output),
            Command::Predict(predict) => predict.run(&mut output),
            Command::Bench(bench) => bench.run(&mut output),
            Command::Verify(verify) => verify.run(&mut output),
            Command::Ops(ops) => ops.run(&mut output),
        }
    }
}
