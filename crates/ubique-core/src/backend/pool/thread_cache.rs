//! Free small blocks that a thread keeps for itself, so that reusing them needs neither lock nor atomic update.

use super::raw::{Life, Raw};
use super::shared::{Counts, Shared, ThreadCounts};
use super::size::{SMALL, SMALL_CLASSES, small_capacity, small_class};
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// Room for blocks of a class.
const DEPTH: usize = 32;
/// A thread keeps about this many bytes of a class, and at least four blocks.
const CLASS_BYTES: usize = 256 << 10;
/// A thread's counts move to the pool's when they differ by more than this.
const FOLD_BYTES: u64 = 256 << 10;

/// How many blocks of each class a thread keeps.
const DEPTHS: [usize; SMALL_CLASSES] = {
    let mut depths = [DEPTH; SMALL_CLASSES];
    let mut class = 0;
    while class < SMALL_CLASSES {
        let fitting = CLASS_BYTES / small_capacity(class);
        depths[class] = if fitting < 4 {
            4
        } else if fitting > DEPTH {
            DEPTH
        } else {
            fitting
        };
        class += 1;
    }
    depths
};

thread_local! {
    /// One for each pool that this thread has used, the last used first.
    static CACHES: RefCell<Vec<Box<ThreadCache>>> = const { RefCell::new(Vec::new()) };
    /// The first of `CACHES`, or null. Needs no destructor, so reading it costs one instruction.
    static FIRST: Cell<*mut ThreadCache> = const { Cell::new(ptr::null_mut()) };
}

pub(super) struct ThreadCache {
    shared: &'static Shared,
    epoch: u64,
    /// Nested persistent scopes of this thread.
    pub persistent_scopes: u32,
    counts: Arc<ThreadCounts>,
    free: [[NonNull<u8>; DEPTH]; SMALL_CLASSES],
}

/// Calls `body` with this thread's cache of the pool; `None`, without calling it, in a thread that is ending.
/// `body` must not call any function of this module but methods of its argument.
#[inline]
pub(super) fn with<R>(shared: &'static Shared, body: impl FnOnce(&mut ThreadCache) -> R) -> Option<R> {
    let mut first = FIRST.get();
    // SAFETY: `FIRST` is null or points to a box in `CACHES` (see `change`), and nothing else borrows from it: `body`
    // and `change` return before this thread comes here again.
    if !unsafe { first.as_ref() }.is_some_and(|cache| ptr::eq(cache.shared, shared)) {
        change(|caches| bring_to_front(caches, shared))?;
        first = FIRST.get();
    }
    // SAFETY: as above.
    unsafe { first.as_mut() }.map(body)
}

/// Ends this thread's cache of a pool.
pub(super) fn forget(shared: &'static Shared) {
    change(|caches| caches.retain(|cache| !ptr::eq(cache.shared, shared)));
}

/// Changes the list of caches; `None`, without doing so, in a thread that is ending.
#[cold]
fn change(edit: impl FnOnce(&mut Vec<Box<ThreadCache>>)) -> Option<()> {
    let run = |caches: &RefCell<Vec<Box<ThreadCache>>>| {
        let mut caches = caches.try_borrow_mut().ok()?;
        FIRST.set(ptr::null_mut());
        edit(&mut caches);
        FIRST.set(caches.first_mut().map_or(ptr::null_mut(), |cache| &raw mut **cache));
        Some(())
    };
    CACHES.try_with(run).ok().flatten()
}

fn bring_to_front(caches: &mut Vec<Box<ThreadCache>>, shared: &'static Shared) {
    caches.retain(|cache| ptr::eq(cache.shared, shared) || !cache.shared.closed.load(Relaxed));
    match caches.iter().position(|cache| ptr::eq(cache.shared, shared)) {
        Some(index) => caches.swap(0, index),
        None => caches.insert(0, Box::new(ThreadCache::new(shared))),
    }
}

impl ThreadCache {
    fn new(shared: &'static Shared) -> Self {
        let counts = Arc::default();
        shared.join_thread(&counts);
        let free = [[NonNull::dangling(); DEPTH]; SMALL_CLASSES];
        Self { shared, epoch: shared.even_epoch(), persistent_scopes: 0, counts, free }
    }

    /// What this thread allocates now.
    pub fn life(&self) -> Life {
        if self.persistent_scopes > 0 { Life::Persistent } else { Life::Reusable }
    }

    /// A cached block for `bytes` in `1..=SMALL`, counted as in use.
    #[inline]
    pub fn take_small(&mut self, bytes: usize) -> Option<Raw> {
        if self.persistent_scopes > 0 || !self.shared.is_epoch(self.epoch) {
            return None;
        }
        let class = small_class(bytes);
        let raw = self.pop(class)?;
        self.count_in(raw.capacity, bytes);
        Some(raw)
    }

    /// A block of at least `capacity` for `bytes`, counted as in use. Tries the shelves, then the system, then the
    /// system once more after giving back all that is cached.
    #[cold]
    pub fn obtain(&mut self, capacity: usize, bytes: usize, life: Life) -> Option<Raw> {
        self.obey_epoch();
        let shared = self.shared;
        let mut found = None;
        if life == Life::Reusable && capacity <= SMALL {
            let spares = if shared.is_epoch(self.epoch) { DEPTHS[small_class(capacity)] / 2 } else { 0 };
            shared.reuse_many(capacity, 1 + spares, |raw| {
                if let Some(spare) = found.replace(raw) {
                    self.push(spare)
                }
            });
        } else if life == Life::Reusable {
            found = shared.reuse(capacity);
        }
        let raw = found.or_else(|| shared.fresh(capacity, life)).or_else(|| {
            self.discard_all();
            shared.trim();
            shared.fresh(capacity, life)
        })?;
        self.count_in(raw.capacity, bytes);
        Some(raw)
    }

    /// Takes back a block.
    ///
    /// # Safety
    /// The block is this pool's, and nobody uses it.
    #[inline]
    pub unsafe fn give_back(&mut self, raw: Raw, bytes: usize) {
        self.count(-(raw.capacity as i64), -(bytes as i64), -1);
        if raw.capacity <= SMALL && raw.life == Life::Reusable && self.shared.is_epoch(self.epoch) {
            let class = small_class(raw.capacity);
            if self.len(class) < DEPTHS[class] {
                return self.push(raw);
            }
        }
        // SAFETY: as the caller vouches.
        unsafe { self.give_back_shared(raw) }
    }

    /// Puts a block on the shelf, and with it half of a full stack of its class.
    ///
    /// # Safety
    /// The block is this pool's, and nobody uses it.
    #[cold]
    unsafe fn give_back_shared(&mut self, raw: Raw) {
        self.obey_epoch();
        if raw.capacity <= SMALL && raw.life == Life::Reusable {
            let class = small_class(raw.capacity);
            while self.len(class) > DEPTHS[class] / 2 {
                let Some(spare) = self.pop(class) else { break };
                // SAFETY: a cached block has no user.
                unsafe { self.shared.give_back(spare) };
            }
        }
        // SAFETY: as the caller vouches.
        unsafe { self.shared.give_back(raw) }
    }

    /// Gives all that this thread caches back to the system; returns the bytes.
    pub fn discard_all(&mut self) -> u64 {
        let mut freed = 0;
        for class in 0..SMALL_CLASSES {
            while let Some(raw) = self.pop(class) {
                freed += raw.capacity as u64;
                // SAFETY: a cached block has no user.
                unsafe { self.shared.discard(raw) };
            }
        }
        freed
    }

    fn obey_epoch(&mut self) {
        let epoch = self.shared.even_epoch();
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.discard_all();
        }
    }

    #[inline]
    fn len(&self, class: usize) -> usize {
        self.counts.cached[class].load(Relaxed) as usize
    }

    /// Adds to a stack that is not full; a full one would lose the block.
    #[inline]
    fn push(&mut self, raw: Raw) {
        let class = small_class(raw.capacity);
        let len = self.len(class);
        self.free[class][len] = raw.ptr;
        self.counts.cached[class].store(len as u32 + 1, Relaxed);
    }

    #[inline]
    fn pop(&mut self, class: usize) -> Option<Raw> {
        let len = self.len(class).checked_sub(1)?;
        self.counts.cached[class].store(len as u32, Relaxed);
        Some(Raw { ptr: self.free[class][len], capacity: small_capacity(class), life: Life::Reusable })
    }

    #[inline]
    fn count_in(&mut self, capacity: usize, bytes: usize) {
        self.count(capacity as i64, bytes as i64, 1);
    }

    #[inline]
    fn count(&mut self, capacity: i64, requested: i64, blocks: i64) {
        // Only this thread writes these, so a plain load and store do.
        let add = |counter: &AtomicI64, by: i64| {
            let sum = counter.load(Relaxed) + by;
            counter.store(sum, Relaxed);
            sum
        };
        let Counts { bytes, requested: of_users, blocks: number, allocations } = &self.counts.live;
        let bytes = add(bytes, capacity);
        add(of_users, requested);
        add(number, blocks);
        if blocks > 0 {
            add(allocations, 1);
            if bytes > self.counts.high.load(Relaxed) {
                self.counts.high.store(bytes, Relaxed);
            }
        }
        if bytes.unsigned_abs() > FOLD_BYTES {
            self.shared.fold(&self.counts);
        }
    }
}

impl Drop for ThreadCache {
    fn drop(&mut self) {
        // Where the thread is ending, nobody else clears it.
        if ptr::eq(FIRST.get(), self) {
            FIRST.set(ptr::null_mut());
        }
        for class in 0..SMALL_CLASSES {
            while let Some(raw) = self.pop(class) {
                // SAFETY: a cached block has no user.
                unsafe { self.shared.give_back(raw) };
            }
        }
        self.shared.leave_thread(&self.counts);
    }
}
