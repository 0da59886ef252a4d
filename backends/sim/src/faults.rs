//! What goes wrong, and when. Counters count down from the call that sets them; 0 means never.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The switchboard of a device's faults. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Switches>);

#[derive(Debug, Default)]
struct Switches {
    allocation: AtomicU64,
    allocations_in_a_row: AtomicU64,
    op: AtomicU64,
    loss: AtomicU64,
    lost: AtomicBool,
    ops: AtomicU64,
    allocations: AtomicU64,
    delay: Mutex<Duration>,
    paused: Mutex<bool>,
    resumed: Condvar,
}

impl Faults {
    /// The `n`-th allocation from now (1 is the next) finds no memory, nor do those after it, `times` in all: dispatch tries
    /// again once.
    pub fn fail_allocation(&self, n: u64, times: u64) {
        self.0.allocations_in_a_row.store(times, Ordering::SeqCst);
        self.0.allocation.store(n, Ordering::SeqCst);
    }

    /// The kernel of the `n`-th op from now fails, long after the op was accepted.
    pub fn fail_op(&self, n: u64) {
        self.0.op.store(n, Ordering::SeqCst);
    }

    /// The device is lost when it comes to the `n`-th op from now.
    pub fn lose_at_op(&self, n: u64) {
        self.0.loss.store(n, Ordering::SeqCst);
    }

    /// Every transfer takes this much longer.
    pub fn slow_transfers(&self, by: Duration) {
        *lock(&self.0.delay) = by;
    }

    /// Holds the queue back, so that other devices overtake this one; `false` lets it go on.
    pub fn pause(&self, paused: bool) {
        *lock(&self.0.paused) = paused;
        self.0.resumed.notify_all();
    }

    /// Everything works again, a lost device too. What was spoilt stays spoilt.
    pub fn clear(&self) {
        self.fail_allocation(0, 0);
        self.fail_op(0);
        self.lose_at_op(0);
        self.0.lost.store(false, Ordering::SeqCst);
        self.slow_transfers(Duration::ZERO);
        self.pause(false);
    }

    /// How many ops the device has come to.
    pub fn ops(&self) -> u64 {
        self.0.ops.load(Ordering::SeqCst)
    }

    /// How many allocations were asked for.
    pub fn allocations(&self) -> u64 {
        self.0.allocations.load(Ordering::SeqCst)
    }

    pub(crate) fn allocation_fails(&self) -> bool {
        self.0.allocations.fetch_add(1, Ordering::SeqCst);
        let left = self.0.allocations_in_a_row.load(Ordering::SeqCst);
        if left == 0 || !comes_due(&self.0.allocation) {
            return false;
        }
        self.0.allocations_in_a_row.store(left - 1, Ordering::SeqCst);
        // Due again at the very next one, until all in a row have failed.
        self.0.allocation.store(1, Ordering::SeqCst);
        true
    }

    pub(crate) fn op_fails(&self) -> bool {
        self.0.ops.fetch_add(1, Ordering::SeqCst);
        if comes_due(&self.0.loss) {
            self.0.lost.store(true, Ordering::SeqCst);
        }
        comes_due(&self.0.op)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::SeqCst)
    }

    pub(crate) fn delay_transfer(&self) {
        let delay = *lock(&self.0.delay);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    pub(crate) fn wait_while_paused(&self) {
        let mut paused = lock(&self.0.paused);
        while *paused {
            paused = self.0.resumed.wait(paused).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Counts down; whether this was the one.
fn comes_due(counter: &AtomicU64) -> bool {
    let before = counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    before == Ok(1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
