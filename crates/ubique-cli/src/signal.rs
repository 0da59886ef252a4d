//! Ctrl-C: the first asks the running command to stop at the next safe point, the second stops the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// The exit code of a command that was interrupted (128 + SIGINT).
pub const INTERRUPTED: u8 = 130;

/// Whether the user asked to stop. Clones share the answer.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C (and on Unix for SIGTERM and SIGHUP) from now on. Where the parent process had one of them
    /// ignored, as `nohup` does, all stay as they are.
    ///
    /// # Errors
    /// A system that refuses a handler.
    pub fn install() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        let handler = interrupt.clone();
        let installed = ctrlc::try_set_handler(move || {
            if handler.request() {
                std::process::exit(i32::from(INTERRUPTED));
            }
            eprintln!("\nstopping after this step; press Ctrl-C again to stop at once");
        });
        match installed {
            Err(ctrlc::Error::MultipleHandlers) => Ok(interrupt),
            installed => installed.map(|()| interrupt).context("cannot listen for Ctrl-C"),
        }
    }

    /// Whether a stop was asked for: a loop that sees `true` finishes its step, saves and returns.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks for a stop; says whether one had been asked for before.
    pub fn request(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_request() {
        let interrupt = Interrupt::default();
        let clone = interrupt.clone();
        assert!(!clone.requested());
        assert!(!interrupt.request());
        assert!(clone.requested());
        assert!(clone.request());
    }
}
