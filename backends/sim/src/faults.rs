//! What goes wrong, and when. Counters count down from the call that sets them; 0 means never.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The switchboard of a device's faults. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<(Mutex<Switches>, Condvar)>);

#[derive(Debug, Default)]
struct Switches {
    /// How many allocations until the first that fails, and how many fail then.
    allocation: (u64, u64),
    op: u64,
    loss: u64,
    lost: bool,
    delay: Duration,
    paused: bool,
    ops_so_far: u64,
    allocations_so_far: u64,
}

impl Faults {
    fn switches(&self) -> MutexGuard<'_, Switches> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The `n`-th allocation from now (1 is the next) finds no memory, nor do those after it, `times` in all: dispatch tries
    /// again once.
    pub fn fail_allocation(&self, n: u64, times: u64) {
        self.switches().allocation = (n, times);
    }

    /// The kernel of the `n`-th op from now fails, long after the op was accepted.
    pub fn fail_op(&self, n: u64) {
        self.switches().op = n;
    }

    /// The device is lost when it comes to the `n`-th op from now.
    pub fn lose_at_op(&self, n: u64) {
        self.switches().loss = n;
    }

    /// Every transfer takes this much longer.
    pub fn slow_transfers(&self, by: Duration) {
        self.switches().delay = by;
    }

    /// Holds the queue back, so that other devices overtake this one; `false` lets it go on.
    pub fn pause(&self, paused: bool) {
        self.switches().paused = paused;
        self.0.1.notify_all();
    }

    /// Everything works again, a lost device too. What was spoilt stays spoilt.
    pub fn clear(&self) {
        let mut switches = self.switches();
        let Switches { ops_so_far, allocations_so_far, .. } = *switches;
        *switches = Switches { ops_so_far, allocations_so_far, ..Switches::default() };
        self.0.1.notify_all();
    }

    /// How many ops the device has come to.
    pub fn ops(&self) -> u64 {
        self.switches().ops_so_far
    }

    /// How many allocations were asked for.
    pub fn allocations(&self) -> u64 {
        self.switches().allocations_so_far
    }

    pub(crate) fn allocation_fails(&self) -> bool {
        let mut switches = self.switches();
        switches.allocations_so_far += 1;
        let (until, times) = switches.allocation;
        switches.allocation = match (until, times) {
            // The next one is due too, until all in a row have failed.
            (1, 1..) => (1, times - 1),
            _ => (until.saturating_sub(1), times),
        };
        until == 1 && times > 0
    }

    pub(crate) fn op_fails(&self) -> bool {
        let mut switches = self.switches();
        switches.ops_so_far += 1;
        let due = (switches.op == 1, switches.loss == 1);
        switches.op = switches.op.saturating_sub(1);
        switches.loss = switches.loss.saturating_sub(1);
        switches.lost |= due.1;
        due.0
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.switches().lost
    }

    pub(crate) fn delay_transfer(&self) {
        let delay = self.switches().delay;
        std::thread::sleep(delay);
    }

    pub(crate) fn wait_while_paused(&self) {
        let paused = |switches: &mut Switches| switches.paused;
        drop(self.0.1.wait_while(self.switches(), paused).unwrap_or_else(PoisonError::into_inner));
    }
}
