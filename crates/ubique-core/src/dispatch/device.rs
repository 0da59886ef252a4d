//! A handle to an opened device: where tensors live, and how ops on them behave.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::backend::memory::MemoryControl;
use crate::backend::{DTypeUsage, DeviceInfo, Executor};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};

/// A stable number for a device: the backend's id in the high byte of the type, the backend's own class of device in
/// the low byte, and an index. It round-trips through `u32` and through [`Device::from_id`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DeviceId {
    /// `backend << 8 | class`.
    pub type_id: u16,
    /// Which of the backend's devices.
    pub index: u16,
}

impl From<DeviceId> for u32 {
    fn from(id: DeviceId) -> u32 {
        (id.type_id as u32) << 16 | id.index as u32
    }
}

impl From<u32> for DeviceId {
    fn from(number: u32) -> DeviceId {
        DeviceId { type_id: (number >> 16) as u16, index: number as u16 }
    }
}

/// What a device keeps for backward passes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Checkpointing {
    /// Every operand that a gradient needs is kept.
    #[default]
    Disabled,
    /// Results of memory-bound ops are dropped and computed again during backward.
    Balanced,
}

/// What to do with an op that a device has no kernel for and that does not decompose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fallback {
    /// Run it on the host.
    Allow,
    /// Run it on the host, and say so on standard error the first time for each op.
    Warn,
    /// Give an error.
    Forbid,
}

/// How many ops took which way since the device was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Ran as one native operation.
    pub native: u64,
    /// Ran as simpler ops.
    pub decomposed: u64,
    /// Ran on the host.
    pub host: u64,
}

/// An opened device, shared by its handles.
pub(crate) struct Opened {
    pub executor: Arc<dyn Executor>,
    pub id: DeviceId,
    pub name: String,
    pub native: AtomicU64,
    pub decomposed: AtomicU64,
    pub host: AtomicU64,
    fallback: AtomicU8,
    random: Mutex<RandomState>,
}

/// Where the device's stream of random numbers stands.
struct RandomState {
    seed: u64,
    /// The first block of four words that no draw has taken.
    block: u64,
}

impl Opened {
    pub fn new(executor: Arc<dyn Executor>, id: DeviceId, name: String) -> Opened {
        Opened {
            executor,
            id,
            name,
            native: AtomicU64::new(0),
            decomposed: AtomicU64::new(0),
            host: AtomicU64::new(0),
            fallback: AtomicU8::new(Fallback::Allow as u8),
            random: Mutex::new(RandomState { seed: 0, block: 0 }),
        }
    }
}

/// A handle to an opened device. Cheap to clone. Two handles are equal where the hardware is the same, whatever their
/// autodiff setting.
#[derive(Clone)]
pub struct Device {
    /// Lives for ever: a device stays open once it was used, so handles need no reference count.
    pub(crate) opened: &'static Opened,
    /// `None` where tensors of this handle cannot be tracked.
    autodiff: Option<Checkpointing>,
}

impl Device {
    pub(crate) fn from_opened(opened: &'static Opened) -> Device {
        Device { opened, autodiff: None }
    }

    /// The name under which [`Device::new`] opens this device, such as `"flex:0"`.
    pub fn name(&self) -> &str {
        &self.opened.name
    }

    /// The stable number of this device.
    pub fn id(&self) -> DeviceId {
        self.opened.id
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        self.opened.executor.info()
    }

    /// The executor that runs this device's ops.
    pub fn executor(&self) -> &dyn Executor {
        &*self.opened.executor
    }

    /// How the device can use a dtype.
    pub fn dtype_usage(&self, dtype: DType) -> DTypeUsage {
        self.info().usage(dtype)
    }

    /// Whether tensors of a dtype can be stored and computed with, or only stored where the dtype is for nothing else.
    pub fn supports_dtype(&self, dtype: DType) -> bool {
        self.info().supports(dtype)
    }

    /// The dtype of indices that the user does not choose.
    pub fn default_int(&self) -> DType {
        self.info().default_int
    }

    /// The same device with gradients: its tensors can be tracked.
    pub fn autodiff(&self) -> Device {
        self.autodiff_with(Checkpointing::Disabled)
    }

    /// As [`Device::autodiff`], with a choice of what is kept for the backward pass.
    pub fn autodiff_with(&self, checkpointing: Checkpointing) -> Device {
        Device { opened: self.opened, autodiff: Some(checkpointing) }
    }

    /// The same device without gradients.
    pub fn inner(&self) -> Device {
        Device { opened: self.opened, autodiff: None }
    }

    /// Whether tensors of this handle can be tracked.
    #[inline]
    pub fn is_autodiff(&self) -> bool {
        self.autodiff.is_some()
    }

    /// What is kept for backward passes, where tensors can be tracked.
    pub fn checkpointing(&self) -> Option<Checkpointing> {
        self.autodiff
    }

    /// Starts the device's random numbers anew from a seed. The same seed gives the same numbers on every backend.
    pub fn seed(&self, seed: u64) {
        *self.opened.random.lock().unwrap_or_else(PoisonError::into_inner) = RandomState { seed, block: 0 };
    }

    /// Reserves blocks of the device's random stream: its seed, and the first reserved block. Draws take whole blocks, so
    /// that those of 32-bit and of 64-bit elements, which number a stream's words differently, never overlap.
    pub(crate) fn reserve_random(&self, blocks: u64) -> (u64, u64) {
        let mut state = self.opened.random.lock().unwrap_or_else(PoisonError::into_inner);
        let block = state.block;
        state.block = block.wrapping_add(blocks);
        (state.seed, block)
    }

    /// Waits until everything started on the device is done.
    ///
    /// # Errors
    /// A failure of that work.
    pub fn sync(&self) -> Result<()> {
        self.executor().sync().map_err(|e| e.with_device(self.name()))
    }

    /// Starts everything that the device has queued.
    ///
    /// # Errors
    /// A failure that the queue has already met.
    pub fn flush(&self) -> Result<()> {
        self.executor().flush().map_err(|e| e.with_device(self.name()))
    }

    /// The device's memory pools.
    ///
    /// # Errors
    /// Where the backend does not manage memory.
    pub fn memory(&self) -> Result<&dyn MemoryControl> {
        self.executor()
            .memory()
            .ok_or_else(|| Error::unsupported("this backend does not manage memory itself").with_device(self.name()))
    }

    /// After an error: whether it is worth another try, because memory was short and the device has given back what it
    /// kept for reuse.
    pub(crate) fn reclaim(&self, error: &Error) -> bool {
        let memory = self.executor().memory().filter(|_| error.kind() == ErrorKind::OutOfMemory);
        memory.map(MemoryControl::cleanup).is_some()
    }

    /// How many ops ran natively, as simpler ops, and on the host.
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            native: get(&self.opened.native),
            decomposed: get(&self.opened.decomposed),
            host: get(&self.opened.host),
        }
    }

    /// What happens to ops that the device has no kernel for and that do not decompose.
    pub fn set_fallback(&self, fallback: Fallback) {
        self.opened.fallback.store(fallback as u8, Ordering::Relaxed);
    }

    /// The policy that [`Device::set_fallback`] set; `Allow` at first.
    pub fn fallback(&self) -> Fallback {
        match self.opened.fallback.load(Ordering::Relaxed) {
            0 => Fallback::Allow,
            1 => Fallback::Warn,
            _ => Fallback::Forbid,
        }
    }
}

impl PartialEq for Device {
    #[inline]
    fn eq(&self, other: &Device) -> bool {
        std::ptr::eq(self.opened, other.opened)
    }
}
impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}{})", self.name(), if self.is_autodiff() { ", autodiff" } else { "" })
    }
}
