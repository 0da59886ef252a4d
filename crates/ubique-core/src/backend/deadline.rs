//! Calls into drivers and libraries that may panic or never come back, on threads of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long looking for devices or loading a library may take. Drivers of machines with many devices take seconds.
pub const PROBE: Duration = Duration::from_secs(5);

/// Work that was started and may not come back.
pub struct Started<T> {
    result: Receiver<std::thread::Result<T>>,
    due: Instant,
    limit: Duration,
}

/// Starts work that has to be done within a time.
pub fn start<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Started<T> {
    let (sender, result) = channel();
    // Where no thread can be had, the sender is dropped, which is reported like a panic.
    let _ = std::thread::Builder::new().spawn(move || {
        // Nobody listens any more where it took too long.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    });
    Started { result, due: Instant::now() + limit, limit }
}

impl<T> Started<T> {
    /// What the work gave.
    ///
    /// # Errors
    /// Where it panicked or did not come back in time, in words that follow "the backend".
    pub fn finish(self) -> Result<T, String> {
        match self.result.recv_timeout(self.due.saturating_duration_since(Instant::now())) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Err("panicked".to_owned()),
            Err(RecvTimeoutError::Timeout) => Err(format!("gave no answer within {} s", self.limit.as_secs_f64())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_or_hangs_is_reported() {
        let limit = Duration::from_millis(50);
        assert_eq!(start(PROBE, || 7).finish(), Ok(7));
        assert_eq!(
            start(PROBE, || -> i32 { std::panic::resume_unwind(Box::new(())) }).finish(),
            Err("panicked".to_owned())
        );
        let hung = start(limit, || std::thread::sleep(Duration::from_secs(60)));
        assert!(hung.finish().unwrap_err().contains("0.05 s"));
    }
}
