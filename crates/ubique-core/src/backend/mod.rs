//! The contract of a backend: how to find its devices, open one, and run operations on it.
//!
//! Object-safe on purpose: one compiled copy of this crate serves every backend, linked in or loaded later.

pub mod buffer;
pub mod deadline;
pub mod memory;
pub mod pending;
pub mod pool;
pub mod registry;
pub mod uninit;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use buffer::Buffer;
use pending::Pending;
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::host::HostTensor;
use crate::layout::Layout;
use crate::op::Op;
use crate::shape::{Shape, TensorSpec};

/// One compute library: how to look for devices and open one.
pub trait Backend: Send + Sync {
    /// The name that users write, such as `"flex"`: lower-case ASCII letters and digits.
    fn name(&self) -> &str;

    /// A number of this backend's own, the high byte of its devices' ids. 128 and above are free for third parties.
    fn id(&self) -> u8;

    /// Which devices are there. Never panics and never takes long.
    ///
    /// # Errors
    /// Why there are none, and what the user can do.
    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable>;

    /// Opens a device by its position in [`Backend::probe`].
    ///
    /// # Errors
    /// Where there is no such device, or it cannot be opened.
    fn open(&self, index: usize, options: &OpenOptions) -> Result<Arc<dyn Executor>>;

    /// Opens a device by its address, such as `wss://host:4000/2`: for backends whose devices cannot be listed.
    ///
    /// # Errors
    /// Where the address is none of this backend's, or nothing answers there.
    fn connect(&self, address: &str, _options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        Err(Error::device(format!("{} has devices by number, not by address such as {address:?}", self.name())))
    }
}

/// One opened device. Operands arrive validated: an executor never checks shapes again.
pub trait Executor: Send + Sync {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// Whether [`Executor::execute`] takes this op on these operands.
    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support;

    /// Brings host data to the device. Takes ownership, so that devices that share host memory need no copy.
    ///
    /// # Errors
    /// Where memory is short or the dtype cannot be stored.
    fn upload(&self, data: HostTensor) -> Result<Buffer>;

    /// Brings a view's elements to the host, row-major.
    ///
    /// # Errors
    /// Where the transfer cannot start, or the buffer was spoilt by an earlier failure.
    fn download(&self, view: &View) -> Result<Pending<HostTensor>>;

    /// Runs one op. Operands may be strided. An owned operand that nobody else holds may be written in place.
    /// The outputs are contiguous and of the given specs.
    ///
    /// # Errors
    /// What the kernel or the device reports.
    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs>;

    /// Runs one op where [`Executor::supports`] it on operands of these specs, and gives `None` where not. Executors that
    /// look the same things up for both questions answer them in one.
    ///
    /// # Errors
    /// As for [`Executor::execute`].
    fn try_execute(
        &self,
        op: &Op,
        inputs: &mut [Operand<'_>],
        specs: &[TensorSpec],
        outputs: &[TensorSpec],
    ) -> Result<Option<Outputs>> {
        match self.supports(op, specs) {
            Support::Native => self.execute(op, inputs, outputs).map(Some),
            Support::No => Ok(None),
        }
    }

    /// Starts everything that is queued.
    ///
    /// # Errors
    /// A failure that the queue has already met.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Waits for everything that is queued.
    ///
    /// # Errors
    /// A failure of the work waited for.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// The device's memory pools, where the backend manages memory itself.
    fn memory(&self) -> Option<&dyn memory::MemoryControl> {
        None
    }
}

/// Elements in a backend's memory: a buffer, where in it they lie, and their type.
#[derive(Clone, Debug)]
pub struct View {
    /// The memory.
    pub buffer: Buffer,
    /// Which of its elements. Shared, because most results lie as their operands do.
    pub layout: Arc<Layout>,
    /// What they are.
    pub dtype: DType,
}

impl View {
    /// A view from its parts.
    #[inline]
    pub fn new(buffer: Buffer, layout: impl Into<Arc<Layout>>, dtype: DType) -> View {
        View { buffer, layout: layout.into(), dtype }
    }

    /// Shape and dtype.
    #[inline]
    pub fn spec(&self) -> TensorSpec {
        TensorSpec { shape: self.layout.shape().clone(), dtype: self.dtype }
    }

    /// The extents.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }
}

/// An operand of [`Executor::execute`]: borrowed, or given away by the caller.
#[derive(Debug)]
pub enum Operand<'a> {
    /// Still needed by the caller.
    Ref(&'a View),
    /// Given away: its memory may be reused if the buffer is unique.
    Own(&'a mut View),
}

impl Deref for Operand<'_> {
    type Target = View;
    #[inline]
    fn deref(&self) -> &View {
        match self {
            Operand::Ref(view) => view,
            Operand::Own(view) => view,
        }
    }
}

/// A list that needs no heap for what most ops have: up to four operands, one result. It is filled by `push`, where it is:
/// one that is collected, or returned, is copied on the way, which takes as long as a small op does.
pub type Few<T> = SmallVec<[T; 4]>;

/// One value in the common case, without a list; several for ops with several outputs.
#[derive(Clone, Debug)]
pub enum Several<T> {
    /// Exactly one.
    One(T),
    /// Any other number.
    Many(Vec<T>),
}

impl<T> Several<T> {
    /// The values as a slice.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Several::One(value) => std::slice::from_ref(value),
            Several::Many(values) => values,
        }
    }

    /// The values as a list.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Several::One(value) => vec![value],
            Several::Many(values) => values,
        }
    }
}

impl<T> From<T> for Several<T> {
    fn from(value: T) -> Several<T> {
        Several::One(value)
    }
}

/// What [`Executor::execute`] gives back: a buffer an output.
pub type Outputs = Several<Buffer>;

/// Whether an executor has a kernel for an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// It runs as one native operation.
    Native,
    /// It has to be decomposed, or run on the host.
    No,
}

/// What class of hardware a device is; `auto` prefers the later ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DeviceKind {
    /// Executes nothing real, or only for tests.
    Virtual,
    /// The host's processor.
    Cpu,
    /// Shares memory with the host.
    IntegratedGpu,
    /// Has memory of its own.
    DiscreteGpu,
}

/// How a device can use a dtype.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct DTypeUsage {
    /// Tensors of it can be stored and moved.
    pub storage: bool,
    /// Ops compute in it.
    pub arithmetic: bool,
    /// The hardware has units for it.
    pub accelerated: bool,
}

/// What a device is and can do.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DeviceInfo {
    /// The hardware's own name, for people.
    pub name: String,
    /// What class of hardware.
    pub kind: DeviceKind,
    /// The backend's own number for this class of device; the low byte of the id's type.
    pub class: u8,
    /// Bytes of memory, where known.
    pub memory: Option<u64>,
    /// Driver or library with its version.
    pub driver: String,
    /// How each dtype can be used; dtypes not named cannot be.
    pub dtypes: Vec<(DType, DTypeUsage)>,
    /// The dtype for floats that the user does not choose.
    pub default_float: DType,
    /// The dtype for indices that the user does not choose.
    pub default_int: DType,
    /// `auto` takes the device of the highest kind, then of the highest priority.
    pub priority: i32,
    /// Why a device that is known cannot be opened, and what to do about it.
    pub unavailable: Option<Unavailable>,
}

impl DeviceInfo {
    /// The host's processor as one device that computes in every dtype but the stored ones, in half precision by way of
    /// f32.
    pub fn cpu(name: String, driver: String) -> DeviceInfo {
        let usage = |dtype: DType| DTypeUsage {
            storage: true,
            arithmetic: !dtype.is_stored(),
            accelerated: !matches!(dtype, DType::F16 | DType::BF16) && !dtype.is_stored(),
        };
        DeviceInfo {
            name,
            kind: DeviceKind::Cpu,
            class: 0,
            memory: None,
            driver,
            dtypes: DType::ALL.map(|dtype| (dtype, usage(dtype))).to_vec(),
            default_float: DType::F32,
            default_int: DType::I64,
            priority: 0,
            unavailable: None,
        }
    }

    /// How the device can use a dtype.
    pub fn usage(&self, dtype: DType) -> DTypeUsage {
        self.dtypes.iter().find(|(d, _)| *d == dtype).map(|(_, usage)| *usage).unwrap_or_default()
    }

    /// Whether tensors of a dtype can be stored and computed with, or only stored where the dtype is for nothing else.
    pub fn supports(&self, dtype: DType) -> bool {
        let usage = self.usage(dtype);
        usage.storage && (usage.arithmetic || dtype.is_stored())
    }
}

/// Why a device cannot be had, or a backend has none, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Unavailable {
    /// The reason, in a sentence.
    pub why: String,
    /// What to install or set, where that is known.
    pub hint: Option<String>,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl From<&Unavailable> for Error {
    fn from(why: &Unavailable) -> Error {
        Error::unavailable(why.to_string())
    }
}

/// Wishes about how to open a device; a backend refuses what it cannot grant.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct OpenOptions {
    /// How many host threads kernels may use.
    pub threads: Option<usize>,
    /// The most bytes of device memory to hold at a time.
    pub memory_limit: Option<u64>,
}
