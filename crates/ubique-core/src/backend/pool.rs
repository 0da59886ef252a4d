//! A caching allocator for host memory, for every backend whose buffers live there.
//!
//! Fresh pages cost a fault each, so freed blocks are kept and reused. Sizes fall into classes, four to a power of two;
//! above 64 MiB they are multiples of 2 MiB. Each thread keeps a few small blocks (up to 64 KiB) of its own, at most
//! 5 MiB in all; the others wait in lists that all threads share.
//!
//! The shared lists hold at most as many bytes as were ever in use at once, or 256 MiB if that is more, unless
//! [`HostPool::set_cache_limit`] says otherwise. Beyond it the sizes that have been idle longest go back to the system.

mod raw;
mod shared;
mod shelves;
mod size;
mod thread_cache;

use super::memory::{self, MemoryControl, MemoryUsage};
use raw::{Life, Raw};
use shared::{Shared, UNSET};
use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// A pool of host memory. Clones share it. Blocks may outlive all handles; nothing is cached from then on.
#[derive(Clone)]
pub struct HostPool {
    shared: &'static Shared,
    _open: Arc<Open>,
}

/// Closes the pool when the last handle goes.
struct Open(&'static Shared);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
        thread_cache::forget(self.0);
    }
}

/// An allocation that could not be made. The pool had given back all its cached memory before it gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError {
    /// Bytes asked for.
    pub requested: usize,
    /// Bytes in use.
    pub live: u64,
    /// Bytes still cached.
    pub cached: u64,
    /// The pool's limit on live and cached bytes, if it has one.
    pub limit: Option<u64>,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requested, live, cached, limit } = self;
        write!(f, "cannot allocate {requested} bytes of host memory: {live} bytes are in use, {cached} cached")?;
        limit.map_or(Ok(()), |limit| write!(f, ", and the limit is {limit}"))
    }
}

impl std::error::Error for AllocError {}

/// An uninitialised piece of host memory that starts at a multiple of 64 bytes. Goes back to its pool when dropped.
pub struct Block {
    /// Has capacity 0 and owns nothing if no bytes were asked for.
    raw: Raw,
    len: usize,
    shared: &'static Shared,
}

/// Where empty blocks point.
#[repr(align(64))]
struct Aligned;
const _: () = assert!(align_of::<Aligned>() == size::ALIGN);

impl Default for HostPool {
    fn default() -> Self {
        Self::new()
    }
}

impl HostPool {
    /// A pool without a limit.
    pub fn new() -> Self {
        let shared: &'static Shared = Box::leak(Box::new(Shared::new()));
        Self { shared, _open: Arc::new(Open(shared)) }
    }

    /// A pool whose live and cached bytes together never exceed `bytes`. Threads keep no blocks of their own then.
    pub fn with_limit(bytes: u64) -> Self {
        let pool = Self::new();
        pool.set_limit(Some(bytes));
        pool
    }

    /// A block of `bytes` uninitialised bytes. Zero bytes need no memory and always succeed.
    ///
    /// # Errors
    /// [`AllocError`] if the system or the limit does not allow it even after all cached memory is given back.
    #[inline]
    pub fn alloc(&self, bytes: usize) -> Result<Block, AllocError> {
        let shared = self.shared;
        if bytes.wrapping_sub(1) < size::SMALL {
            let small = thread_cache::with(shared, |cache| cache.take_small(bytes));
            if let Some(raw) = small.flatten() {
                return Ok(Block { raw, len: bytes, shared });
            }
        }
        self.alloc_slow(bytes)
    }

    #[cold]
    fn alloc_slow(&self, bytes: usize) -> Result<Block, AllocError> {
        let shared = self.shared;
        if bytes == 0 {
            let raw = Raw { ptr: NonNull::<Aligned>::dangling().cast(), capacity: 0, life: Life::Reusable };
            return Ok(Block { raw, len: 0, shared });
        }
        let life = thread_cache::with(shared, |cache| cache.life()).unwrap_or(Life::Reusable);
        let capacity = match life {
            Life::Reusable => size::capacity(bytes),
            Life::Persistent => size::exact_capacity(bytes),
        };
        let capacity = capacity.ok_or_else(|| shared.error(bytes))?;
        let cached = thread_cache::with(shared, |cache| cache.obtain(capacity, bytes, life));
        let raw = cached.unwrap_or_else(|| obtain_uncached(shared, capacity, bytes));
        Ok(Block { raw: raw.ok_or_else(|| shared.error(bytes))?, len: bytes, shared })
    }

    /// Gives the cached memory of the shared lists and of this thread back to the system; returns how many bytes.
    /// Other threads give back what they keep when they next use the pool, or end.
    pub fn trim(&self) -> u64 {
        let own = thread_cache::with(self.shared, |cache| cache.discard_all()).unwrap_or(0);
        own + self.shared.trim()
    }

    /// Limits the bytes that the shared lists hold; 0 turns caching off; `None` restores the rule of the
    /// [module](self).
    pub fn set_cache_limit(&self, bytes: Option<u64>) {
        self.shared.set_limits(None, Some(bytes.unwrap_or(UNSET)));
    }

    /// Runs `body` so that allocations which this thread makes in it are sized exactly and not cached when freed:
    /// for long-lived data such as parameters.
    pub fn persistent<R>(&self, body: impl FnOnce() -> R) -> R {
        memory::persistent(self, body)
    }
}

/// As [`ThreadCache::obtain`](thread_cache::ThreadCache::obtain), in a thread that is ending.
fn obtain_uncached(shared: &'static Shared, capacity: usize, bytes: usize) -> Option<Raw> {
    let raw = shared.reuse(capacity).or_else(|| shared.fresh(capacity, Life::Reusable)).or_else(|| {
        shared.trim();
        shared.fresh(capacity, Life::Reusable)
    })?;
    shared.count(raw.capacity, bytes, 1);
    Some(raw)
}

impl MemoryControl for HostPool {
    /// `peak_bytes` may miss up to 256 KiB of each thread but one.
    fn usage(&self) -> MemoryUsage {
        self.shared.usage()
    }

    fn report(&self) -> String {
        let usage = self.usage();
        let mut text = format!(
            "{} bytes in {} blocks in use ({} requested), {} cached, {} at peak; {} allocations, {} by the system\n",
            usage.live_bytes,
            usage.live_blocks,
            usage.requested_bytes,
            usage.cached_bytes,
            usage.peak_bytes,
            usage.allocations,
            usage.system_allocations
        );
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:>14} {:>10} {:>10}", "block bytes", "in use", "cached");
        let (blocks, bytes) = self.shared.classes(|capacity, live, cached| {
            let _ = writeln!(text, "{capacity:>14} {live:>10} {cached:>10}");
        });
        let _ = writeln!(text, "{:>14} {blocks:>10} {:>10} ({bytes} bytes)", "persistent", 0);
        text
    }

    fn cleanup(&self) -> u64 {
        self.trim()
    }

    fn set_limit(&self, bytes: Option<u64>) {
        self.shared.set_limits(Some(bytes.unwrap_or(UNSET)), None);
    }

    fn enter_persistent(&self) {
        thread_cache::with(self.shared, |cache| cache.persistent_scopes += 1);
    }

    fn exit_persistent(&self) {
        thread_cache::with(self.shared, |cache| cache.persistent_scopes = cache.persistent_scopes.saturating_sub(1));
    }
}

impl fmt::Debug for HostPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostPool").field(&self.usage()).finish()
    }
}

impl Block {
    /// The first byte; dangling but aligned if the block is empty.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.raw.ptr.as_ptr()
    }

    /// The first byte, to write to.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.raw.ptr.as_ptr()
    }

    /// Bytes asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no bytes were asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes there are, at least `len`.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.raw.capacity
    }

    /// The `len` bytes, which may be uninitialised.
    #[inline]
    pub fn as_uninit(&self) -> &[MaybeUninit<u8>] {
        // SAFETY: the block owns at least `len` bytes from `ptr` on, or `len` is 0 and `ptr` is not null.
        unsafe { std::slice::from_raw_parts(self.raw.ptr.as_ptr().cast(), self.len) }
    }

    /// The `len` bytes to initialise.
    #[inline]
    pub fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: as for `as_uninit`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.raw.ptr.as_ptr().cast(), self.len) }
    }

    /// The `len` bytes.
    ///
    /// # Safety
    /// All of them have been written.
    #[inline]
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: as for `as_uninit`; the caller vouches for the contents.
        unsafe { std::slice::from_raw_parts(self.raw.ptr.as_ptr(), self.len) }
    }

    /// The `len` bytes, to change.
    ///
    /// # Safety
    /// All of them have been written.
    #[inline]
    pub unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.raw.ptr.as_ptr(), self.len) }
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        let Self { raw, len, shared } = *self;
        if raw.capacity == 0 {
            return;
        }
        // SAFETY: the block was the only user.
        let cached = thread_cache::with(shared, |cache| unsafe { cache.give_back(raw, len) });
        if cached.is_none() {
            shared.count(raw.capacity, len, -1);
            // SAFETY: as above; no cache has taken it.
            unsafe { shared.give_back(raw) };
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("ptr", &self.raw.ptr).field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
