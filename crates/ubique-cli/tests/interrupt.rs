//! Ctrl-C against a real process: this test program starts itself as the command that gets interrupted.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ubique_cli::signal::Interrupt;

const ROLE: &str = "UBIQUE_TEST_INTERRUPT";

/// What the interrupted process does: nothing in an ordinary test run.
#[test]
fn interrupted_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let interrupt = Interrupt::install().unwrap();
    eprintln!("ready");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if interrupt.requested() && role == "polite" {
            std::process::exit(7);
        }
        sleep(Duration::from_millis(5));
    }
}

fn start(role: &str) -> (Child, impl Iterator<Item = String>) {
    start_as(Command::new(std::env::current_exe().unwrap()), role)
}

fn start_as(mut command: Command, role: &str) -> (Child, impl Iterator<Item = String>) {
    let mut child = command
        .args(["--exact", "interrupted_process", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    (child, lines)
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn wait(mut child: Child) -> ExitStatus {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("the process did not end");
}

#[test]
fn the_first_signal_asks_the_loop() {
    for signal in ["-INT", "-TERM"] {
        let (child, mut lines) = start("polite");
        assert!(lines.any(|line| line == "ready"));
        send(&child, signal);
        let status = wait(child);
        assert_eq!((status.code(), status.signal()), (Some(7), None), "{signal}");
    }
}

#[test]
fn the_second_signal_ends_the_process() {
    let (child, mut lines) = start("stubborn");
    assert!(lines.any(|line| line == "ready"));
    send(&child, "-INT");
    assert!(lines.any(|line| line.contains("press Ctrl-C again")));
    send(&child, "-INT");
    assert_eq!(wait(child).code(), Some(130));
}

#[test]
fn signals_that_the_parent_ignores_stay_ignored() {
    // As under `nohup`, after which the terminal may close.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    let (child, mut lines) = start_as(command, "stubborn");
    assert!(lines.any(|line| line == "ready"));
    send(&child, "-HUP");
    send(&child, "-TERM");
    assert_eq!(wait(child).signal(), Some(15));
}
