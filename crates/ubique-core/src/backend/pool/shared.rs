//! The part of a pool that all threads see.

use super::AllocError;
use super::raw::{Life, Raw};
use super::shelves::Shelves;
use super::size::{SMALL, SMALL_CLASSES, small_class};
use crate::backend::memory::MemoryUsage;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stands for "no limit" and "choose the cache limit".
pub(super) const UNSET: u64 = u64::MAX;

/// The cache limit never falls below this by itself.
const LEAST_CACHE: u64 = 256 << 20;

/// Counts of blocks in use. Those of a thread are differences to the pool's, so they may be negative.
#[derive(Default)]
pub(super) struct Counts {
    pub bytes: AtomicI64,
    pub requested: AtomicI64,
    pub blocks: AtomicI64,
    pub allocations: AtomicI64,
}

/// What a thread's cache shows to the other threads. Only the owner writes, so it needs no read-modify-write.
pub(super) struct ThreadCounts {
    pub live: Counts,
    /// The largest that `live.bytes` has been since it was last folded into the pool's.
    pub high: AtomicI64,
    /// Free blocks of each small class.
    pub cached: [AtomicU32; SMALL_CLASSES],
}

impl Default for ThreadCounts {
    fn default() -> Self {
        let cached = std::array::from_fn(|_| AtomicU32::new(0));
        Self { live: Counts::default(), high: AtomicI64::new(0), cached }
    }
}

/// A pool's state. Lives for ever (a few hundred bytes), so that blocks need no reference count: two contended atomic
/// operations saved for each block.
#[derive(Default)]
pub(super) struct Shared {
    /// Raised by 2 to ask every thread to give up what it caches. Odd while threads may cache nothing: threads only
    /// remember even epochs, so one comparison answers both questions.
    epoch: AtomicU64,
    /// No handle is left: nothing is cached any more.
    pub closed: AtomicBool,
    limit: AtomicU64,
    cache_limit: AtomicU64,
    /// Bytes held from the system.
    reserved: AtomicU64,
    system_allocations: AtomicU64,
    live: Counts,
    peak: AtomicI64,
    shelves: Mutex<Shelves>,
    threads: Mutex<Vec<Arc<ThreadCounts>>>,
}

/// A panic cannot leave the guarded data half changed: no code of others runs under the locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new() -> Self {
        let new = Self::default();
        new.set_limits(Some(UNSET), Some(UNSET));
        new
    }

    /// Changes the limits that are given. A limit must count every byte, so it turns thread caches off.
    pub fn set_limits(&self, limit: Option<u64>, cache_limit: Option<u64>) {
        for (new, field) in [(limit, &self.limit), (cache_limit, &self.cache_limit)] {
            if let Some(new) = new {
                field.store(new, SeqCst);
            }
        }
        let free = self.limit.load(SeqCst) == UNSET && self.cache_limit.load(SeqCst) != 0;
        self.next_epoch(free);
        self.evict(self.cache_budget());
    }

    /// Stops caching for good and empties the shelves.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        self.next_epoch(false);
        self.evict(0);
    }

    /// Empties the shelves, and asks threads to empty their caches; returns the bytes given back at once.
    pub fn trim(&self) -> u64 {
        self.epoch.fetch_add(2, SeqCst);
        self.evict(0)
    }

    fn next_epoch(&self, thread_caching: bool) {
        let next = |epoch| Some(((epoch | 1) + 1) | u64::from(!thread_caching));
        // The closure never declines.
        let _ = self.epoch.fetch_update(SeqCst, SeqCst, next);
    }

    /// Whether a thread that remembers `epoch` may use its cache.
    #[inline]
    pub fn is_epoch(&self, epoch: u64) -> bool {
        self.epoch.load(Relaxed) == epoch
    }

    /// What a thread remembers of the current epoch.
    pub fn even_epoch(&self) -> u64 {
        self.epoch.load(Relaxed) & !1
    }

    /// A block off the shelf.
    pub fn reuse(&self, capacity: usize) -> Option<Raw> {
        lock(&self.shelves).take(capacity)
    }

    /// Blocks off the shelf, at most `count`, each passed to `each`.
    pub fn reuse_many(&self, capacity: usize, count: usize, each: impl FnMut(Raw)) {
        let mut shelves = lock(&self.shelves);
        std::iter::from_fn(|| shelves.take(capacity)).take(count).for_each(each);
    }

    /// A block from the system; `None` if the limit or the system forbids.
    pub fn fresh(&self, capacity: usize, life: Life) -> Option<Raw> {
        let size = capacity as u64;
        let limit = self.limit.load(Relaxed);
        let grow = |reserved: u64| reserved.checked_add(size).filter(|&grown| grown <= limit);
        self.reserved.fetch_update(Relaxed, Relaxed, grow).ok()?;
        let Some(raw) = Raw::allocate(capacity, life) else {
            self.reserved.fetch_sub(size, Relaxed);
            return None;
        };
        self.system_allocations.fetch_add(1, Relaxed);
        lock(&self.shelves).own(raw);
        Some(raw)
    }

    /// Takes back a block: onto the shelf, or to the system where the cache may not grow.
    ///
    /// # Safety
    /// The block is this pool's, and nobody uses it.
    pub unsafe fn give_back(&self, raw: Raw) {
        let budget = self.cache_budget();
        let mut shelves = lock(&self.shelves);
        let keep = raw.life == Life::Reusable && raw.capacity as u64 <= budget;
        if keep && shelves.put(raw).is_ok() {
            let crowded = shelves.cached_bytes > budget;
            drop(shelves);
            if crowded {
                self.evict(budget);
            }
        } else {
            shelves.disown(raw);
            drop(shelves);
            // SAFETY: as the caller vouches; it is on no shelf.
            unsafe { self.release(raw) };
        }
    }

    /// Gives a block that no shelf owns any more back to the system.
    ///
    /// # Safety
    /// The block is this pool's, and nobody uses it.
    unsafe fn release(&self, raw: Raw) {
        // SAFETY: as the caller vouches.
        unsafe { raw.release() };
        self.reserved.fetch_sub(raw.capacity as u64, Relaxed);
    }

    /// Gives a block from a thread's cache back to the system.
    ///
    /// # Safety
    /// The block is this pool's, and nobody uses it.
    pub unsafe fn discard(&self, raw: Raw) {
        lock(&self.shelves).disown(raw);
        // SAFETY: as the caller vouches.
        unsafe { self.release(raw) };
    }

    /// Gives cached blocks back to the system until `budget` bytes are left; returns the bytes given back.
    fn evict(&self, budget: u64) -> u64 {
        let mut freed = 0;
        loop {
            // Unlocked while the system works: returning a big block takes a while.
            let surplus = lock(&self.shelves).surplus(budget);
            let Some(raw) = surplus else { return freed };
            freed += raw.capacity as u64;
            // SAFETY: it came off a shelf, which had it from its last user.
            unsafe { self.release(raw) };
        }
    }

    fn cache_budget(&self) -> u64 {
        match self.cache_limit.load(Relaxed) {
            _ if self.closed.load(SeqCst) => 0,
            UNSET => LEAST_CACHE.max(self.peak.load(Relaxed).unsigned_abs()),
            limit => limit,
        }
    }

    /// Counts a block in (`sign` 1) or out (−1), for threads that have no cache any more.
    pub fn count(&self, capacity: usize, requested: usize, sign: i64) {
        let bytes = sign * capacity as i64;
        let before = self.live.bytes.fetch_add(bytes, Relaxed);
        self.peak.fetch_max(before + bytes, Relaxed);
        self.live.requested.fetch_add(sign * requested as i64, Relaxed);
        self.live.blocks.fetch_add(sign, Relaxed);
        self.live.allocations.fetch_add(sign.max(0), Relaxed);
    }

    /// Moves a thread's counts to the pool's. Only that thread may call it.
    #[cold]
    pub fn fold(&self, thread: &ThreadCounts) {
        let ours = [&self.live.bytes, &self.live.requested, &self.live.blocks, &self.live.allocations];
        let theirs = [&thread.live.bytes, &thread.live.requested, &thread.live.blocks, &thread.live.allocations];
        self.peak.fetch_max(self.live.bytes.load(Relaxed) + thread.high.load(Relaxed), Relaxed);
        for (our, their) in ours.into_iter().zip(theirs) {
            our.fetch_add(their.load(Relaxed), Relaxed);
            their.store(0, Relaxed);
        }
        thread.high.store(0, Relaxed);
    }

    pub fn join_thread(&self, thread: &Arc<ThreadCounts>) {
        lock(&self.threads).push(thread.clone());
    }

    pub fn leave_thread(&self, thread: &Arc<ThreadCounts>) {
        let mut threads = lock(&self.threads);
        self.fold(thread);
        threads.retain(|other| !Arc::ptr_eq(other, thread));
    }

    pub fn usage(&self) -> MemoryUsage {
        let threads = lock(&self.threads);
        let total = |field: fn(&Counts) -> &AtomicI64| {
            let of_threads: i64 = threads.iter().map(|thread| field(&thread.live).load(Relaxed)).sum();
            field(&self.live).load(Relaxed) + of_threads
        };
        let live = total(|counts| &counts.bytes);
        for thread in threads.iter() {
            let at_high = live - thread.live.bytes.load(Relaxed) + thread.high.load(Relaxed);
            self.peak.fetch_max(at_high, Relaxed);
        }
        let unsigned = |count: i64| count.max(0) as u64;
        MemoryUsage {
            live_bytes: unsigned(live),
            requested_bytes: unsigned(total(|counts| &counts.requested)),
            live_blocks: unsigned(total(|counts| &counts.blocks)),
            cached_bytes: self.reserved.load(Relaxed).saturating_sub(unsigned(live)),
            peak_bytes: unsigned(self.peak.load(Relaxed)),
            allocations: unsigned(total(|counts| &counts.allocations)),
            system_allocations: self.system_allocations.load(Relaxed),
            limit: Some(self.limit.load(Relaxed)).filter(|&limit| limit != UNSET),
        }
    }

    pub fn error(&self, requested: usize) -> AllocError {
        let usage = self.usage();
        AllocError { requested, live: usage.live_bytes, cached: usage.cached_bytes, limit: usage.limit }
    }

    /// Passes size, blocks in use and blocks cached of every class to `row`; returns persistent blocks and their bytes.
    pub fn classes(&self, mut row: impl FnMut(usize, u64, u64)) -> (u64, u64) {
        let threads = lock(&self.threads);
        let shelves = lock(&self.shelves);
        for shelf in shelves.iter() {
            let in_threads = |class: usize| threads.iter().map(|t| u64::from(t.cached[class].load(Relaxed))).sum();
            let small = shelf.capacity <= SMALL;
            let in_threads: u64 = if small { in_threads(small_class(shelf.capacity)) } else { 0 };
            let cached = shelf.free.len() as u64 + in_threads;
            row(shelf.capacity, shelf.owned.saturating_sub(cached), cached);
        }
        (shelves.persistent_blocks, shelves.persistent_bytes)
    }
}
