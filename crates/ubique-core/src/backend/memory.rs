//! What any backend that owns memory lets its users see and steer.

/// How much memory a pool holds, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// Bytes of the blocks in use, as rounded up by the pool.
    pub live_bytes: u64,
    /// Bytes that the users of those blocks asked for.
    pub requested_bytes: u64,
    /// Blocks in use.
    pub live_blocks: u64,
    /// Bytes kept for reuse.
    pub cached_bytes: u64,
    /// The largest that `live_bytes` has been.
    pub peak_bytes: u64,
    /// Allocations ever made.
    pub allocations: u64,
    /// Those of them that had to ask the system, because no cached block fitted.
    pub system_allocations: u64,
    /// The most that `live_bytes + cached_bytes` may be, if there is a limit.
    pub limit: Option<u64>,
}

/// The memory of a device. Every method takes effect for all users of that device.
pub trait MemoryControl: Send + Sync {
    /// Current figures. Exact while no other thread allocates or frees.
    fn usage(&self) -> MemoryUsage;

    /// A table for people: the blocks of each size, in use and cached.
    fn report(&self) -> String;

    /// Gives cached memory back to the system; returns how many bytes.
    fn cleanup(&self) -> u64;

    /// Limits live and cached bytes together; `None` lifts the limit. Memory in use already is never taken away.
    fn set_limit(&self, bytes: Option<u64>);

    /// From here on this thread's allocations are sized exactly and go back to the system when freed, which suits
    /// long-lived data such as parameters. Scopes nest; prefer `persistent`. Does nothing where no allocation is rounded
    /// up or cached.
    fn enter_persistent(&self) {}

    /// Ends the innermost persistent scope of this thread; does nothing if there is none.
    fn exit_persistent(&self) {}
}

impl dyn MemoryControl + '_ {
    /// Runs `body` in a persistent scope, which ends even if `body` panics.
    pub fn persistent<R>(&self, body: impl FnOnce() -> R) -> R {
        persistent(self, body)
    }
}

/// Runs `body` in a persistent scope of `memory`, which ends even if `body` panics.
pub(crate) fn persistent<M: MemoryControl + ?Sized, R>(memory: &M, body: impl FnOnce() -> R) -> R {
    struct Exit<'a, M: MemoryControl + ?Sized>(&'a M);
    impl<M: MemoryControl + ?Sized> Drop for Exit<'_, M> {
        fn drop(&mut self) {
            self.0.exit_persistent();
        }
    }
    memory.enter_persistent();
    let _exit = Exit(memory);
    body()
}
