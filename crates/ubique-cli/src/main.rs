//! The `ubique` command.

use std::process::ExitCode;

use clap::Parser;
use ubique_cli::commands::Cli;
use ubique_cli::output;

fn main() -> ExitCode {
    output::exit(Cli::parse().run())
}
