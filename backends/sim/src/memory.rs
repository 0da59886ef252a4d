//! Device memory: an address space with a first-fit allocator, and the buffers that dispatch holds.
//!
//! Yours calls the driver's allocator, or better a pool in front of it, and keeps the driver's pointer in the buffer.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ubique_core::backend::buffer::Storage;
use ubique_core::backend::memory::{MemoryControl, MemoryUsage};
use ubique_core::{Error, Result};

use crate::faults::Faults;
use crate::queue::Job;

/// Every allocation starts at a multiple of this.
pub const ALIGN: usize = 256;

/// The allocator. The bytes themselves belong to the device's thread: nothing here can read them.
pub struct Memory {
    capacity: usize,
    faults: Faults,
    state: Mutex<State>,
    queue: Sender<Job>,
}

#[derive(Default)]
struct State {
    /// Free ranges: where they start, and how long they are. Neighbours are always joined.
    free: BTreeMap<usize, usize>,
    usage: MemoryUsage,
    limit: Option<u64>,
}

/// A piece of device memory. Freed when the last buffer and the last queued job that use it are gone.
pub struct Region {
    pub start: usize,
    /// Bytes asked for.
    pub len: usize,
    /// Bytes taken: a multiple of [`ALIGN`].
    size: usize,
    /// Why this memory does not hold what it should: set by the job that failed to fill it.
    pub spoilt: OnceLock<Error>,
    memory: Arc<Memory>,
}

/// What a tensor's `Buffer` holds.
pub struct DeviceBuffer(pub Arc<Region>);

impl Storage for DeviceBuffer {
    fn byte_len(&self) -> usize {
        self.0.len
    }

    // No `host_bytes`: the host cannot touch this memory.

    // An asynchronous failure is reported by the buffers that it reached.
    fn check(&self) -> Result<()> {
        self.0.spoilt.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Memory {
    pub fn new(capacity: usize, faults: Faults, queue: Sender<Job>) -> Memory {
        let state = State { free: BTreeMap::from([(0, capacity)]), ..State::default() };
        Memory { capacity, faults, state: Mutex::new(state), queue }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of at least `len` bytes.
    pub fn allocate(self: &Arc<Memory>, len: usize) -> Result<Arc<Region>> {
        let size =
            len.max(1).checked_next_multiple_of(ALIGN).ok_or_else(|| Error::shape("the result's size overflows"))?;
        let mut state = self.state();
        let live = state.usage.live_bytes;
        let within = state.limit.is_none_or(|limit| live + size as u64 <= limit);
        let found = state.free.iter().find(|(_, free)| **free >= size).map(|(&start, &free)| (start, free));
        let (start, free) = match found {
            Some(found) if within && !self.faults.allocation_fails() => found,
            _ => {
                let message = format!("{len} bytes do not fit: {live} of {} are in use", self.capacity);
                return Err(Error::out_of_memory(message));
            }
        };
        state.free.remove(&start);
        if free > size {
            state.free.insert(start + size, free - size);
        }
        let usage = &mut state.usage;
        usage.live_bytes += size as u64;
        usage.requested_bytes += len as u64;
        usage.live_blocks += 1;
        usage.allocations += 1;
        usage.peak_bytes = usage.peak_bytes.max(usage.live_bytes);
        Ok(Arc::new(Region { start, len, size, spoilt: OnceLock::new(), memory: self.clone() }))
    }

    fn free(&self, region: &Region) {
        let mut state = self.state();
        state.usage.live_bytes -= region.size as u64;
        state.usage.requested_bytes -= region.len as u64;
        state.usage.live_blocks -= 1;
        let (mut start, mut end) = (region.start, region.start + region.size);
        if let Some((&before, &len)) = state.free.range(..start).next_back()
            && before + len == start
        {
            state.free.remove(&before);
            start = before;
        }
        if let Some(len) = state.free.remove(&end) {
            end += len;
        }
        state.free.insert(start, end - start);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.memory.free(self);
    }
}

impl MemoryControl for Memory {
    fn usage(&self) -> MemoryUsage {
        let state = self.state();
        let mut usage = state.usage;
        usage.limit = Some(state.limit.map_or(self.capacity as u64, |limit| limit.min(self.capacity as u64)));
        usage
    }

    fn report(&self) -> String {
        let state = self.state();
        let State { free, usage, .. } = &*state;
        format!("{} of {} bytes in use, free memory in {} pieces\n", usage.live_bytes, self.capacity, free.len())
    }

    // Nothing is cached here, but jobs in the queue hold memory that nobody else needs any more.
    fn cleanup(&self) -> u64 {
        let before = self.usage().live_bytes;
        let (done, finished) = std::sync::mpsc::channel();
        if self.queue.send(Job::Mark(done)).is_ok() {
            // The queue has ended where this fails, and then nothing waits in it either.
            let _ = finished.recv();
        }
        before.saturating_sub(self.usage().live_bytes)
    }

    fn set_limit(&self, bytes: Option<u64>) {
        self.state().limit = bytes;
    }
}
