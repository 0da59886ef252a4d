//! What the handles point to, and the host's structs as Rust's.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::{DTypeUsage, DeviceInfo, Executor, View};
use ubique_core::layout::Strides;
use ubique_core::{DType, Error, HostTensor, Layout, Op, Result, Shape, TensorSpec};

use crate::abi;
use crate::text;

/// A list of what an op has a few of.
pub type Few<T> = SmallVec<[T; 4]>;

/// Behind a device's handle.
pub struct DeviceHandle {
    pub executor: Arc<dyn Executor>,
}

/// Behind an op's handle.
pub struct OpHandle {
    pub op: Op,
}

/// Behind a buffer's handle.
pub struct BufferHandle(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// Nothing after an op took the buffer over.
    buffer: Option<Buffer>,
    /// The row-major layout that it was last looked at in: most operands are looked at in one only.
    layout: Option<Arc<Layout>>,
}

impl BufferHandle {
    pub fn export(buffer: Buffer) -> *mut abi::Buffer {
        let held = Held { buffer: Some(buffer), layout: None };
        Box::into_raw(Box::new(BufferHandle(Mutex::new(held)))).cast()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another handle of the same memory.
    pub fn buffer(&self) -> Result<Buffer> {
        self.held().buffer.clone().ok_or_else(given_away)
    }

    /// The buffer itself, which is then nobody else's.
    pub fn take(&self) -> Result<Buffer> {
        self.held().buffer.take().ok_or_else(given_away)
    }

    /// Where the host can read the memory, as long as the handle lives; null where it cannot.
    pub fn host_pointer(&self) -> *const u8 {
        self.held().buffer.as_ref().and_then(Buffer::host_bytes).map_or(std::ptr::null(), <[u8]>::as_ptr)
    }

    /// Puts a buffer back that an op did not need after all.
    pub fn restore(&self, buffer: Buffer) {
        self.held().buffer = Some(buffer);
    }

    /// The buffer, given away or not, with the row-major layout of a shape from its start.
    fn row_major(&self, shape: &[usize], dtype: DType, owned: bool) -> Result<(Buffer, Arc<Layout>)> {
        let mut held = self.held();
        let Held { buffer, layout } = &mut *held;
        let layout = match layout {
            Some(layout) if **layout.shape() == *shape => layout.clone(),
            _ => {
                let shape = Shape::from(shape);
                shape.elements()?;
                layout.insert(Arc::new(Layout::contiguous(shape))).clone()
            }
        };
        let memory = buffer.as_ref().ok_or_else(given_away)?;
        if memory.byte_len() / dtype.size() < layout.elements() {
            return Err(Error::backend(format!("{dtype}{} does not fit its buffer", layout.shape())));
        }
        let memory = if owned { buffer.take() } else { Some(memory.clone()) };
        Ok((memory.ok_or_else(given_away)?, layout))
    }
}

#[cold]
fn given_away() -> Error {
    Error::backend("the buffer was given away to an op")
}

/// # Safety
/// A live handle of a device.
pub unsafe fn device<'a>(handle: *mut abi::Device) -> &'a DeviceHandle {
    // SAFETY: as the caller promises.
    unsafe { &*handle.cast() }
}

/// # Safety
/// A live handle of an op.
pub unsafe fn op<'a>(handle: *const abi::Op) -> &'a OpHandle {
    // SAFETY: as the caller promises.
    unsafe { &*handle.cast() }
}

/// # Safety
/// A live handle of a buffer.
pub unsafe fn buffer<'a>(handle: *mut abi::Buffer) -> &'a BufferHandle {
    // SAFETY: as the caller promises.
    unsafe { &*handle.cast() }
}

/// A list of the host.
///
/// # Safety
/// Valid for `len` elements, or `len` is 0.
pub unsafe fn list<'a, T>(start: *const T, len: usize) -> &'a [T] {
    // SAFETY: as the caller promises.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, len) } }
}

fn dtype(number: u32) -> Result<DType> {
    let known = usize::try_from(number).ok().and_then(|n| abi::DTYPES.get(n)).copied();
    known.ok_or_else(|| Error::format(format!("{number} is no dtype")))
}

/// # Safety
/// The shape is valid for `rank` elements.
pub unsafe fn spec(raw: &abi::Spec) -> Result<TensorSpec> {
    // SAFETY: as the caller promises.
    let shape = Shape::from(unsafe { list(raw.shape, raw.rank as usize) });
    Ok(TensorSpec::new(shape, dtype(raw.dtype)?))
}

/// # Safety
/// As for [`spec`], of every element.
pub unsafe fn specs(raw: &[abi::Spec]) -> Result<Few<TensorSpec>> {
    // SAFETY: as the caller promises.
    raw.iter().map(|one| unsafe { spec(one) }).collect()
}

/// A view of a buffer. One that was given away is taken out of its handle, so that it has one holder here too.
///
/// # Safety
/// Shape and strides are valid for `rank` elements.
pub unsafe fn view(raw: &abi::View, handle: &BufferHandle) -> Result<View> {
    let (rank, dtype, owned) = (raw.spec.rank as usize, dtype(raw.spec.dtype)?, raw.owned != 0);
    // SAFETY: as the caller promises.
    let (shape, strides) = unsafe { (list(raw.spec.shape, rank), list(raw.strides, rank)) };
    if raw.contiguous != 0 && raw.offset == 0 {
        let (buffer, layout) = handle.row_major(shape, dtype, owned)?;
        return Ok(View { buffer, layout, dtype });
    }
    let buffer = if owned { handle.take()? } else { handle.buffer()? };
    let elements = buffer.byte_len() / dtype.size();
    let layout = Layout::strided(Shape::from(shape), Strides::from_slice(strides), raw.offset, elements)?;
    Ok(View::new(buffer, layout, dtype))
}

/// Memory that the host has handed over, released with the last use.
pub struct Foreign(abi::Memory);

// SAFETY: by the contract it can be read and released from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    pub fn new(memory: abi::Memory) -> Foreign {
        Foreign(memory)
    }

    pub fn into_tensor(self, spec: TensorSpec) -> Result<HostTensor> {
        HostTensor::from_bytes(self, spec.dtype, spec.shape)
    }
}

impl AsRef<[u8]> for Foreign {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: by the contract, valid for that many bytes until it is released.
        unsafe { list(self.0.data.cast::<u8>(), self.0.bytes) }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            let context: *mut c_void = self.0.context;
            // SAFETY: released once.
            unsafe { release(context) };
        }
    }
}

/// Describes a device to the host.
pub fn write_info(info: &DeviceInfo) -> Result<abi::DeviceInfo> {
    let number = |dtype: DType| {
        let place = abi::DTYPES.iter().position(|&known| known == dtype);
        place.ok_or_else(|| Error::unsupported(format!("{dtype} is not part of the plugin interface")))
    };
    let mut dtypes = [0; 16];
    for &(dtype, DTypeUsage { storage, arithmetic, accelerated }) in &info.dtypes {
        let bit = |has: bool, bit: u8| if has { bit } else { 0 };
        dtypes[number(dtype)?] =
            bit(storage, abi::STORAGE) | bit(arithmetic, abi::ARITHMETIC) | bit(accelerated, abi::ACCELERATED);
    }
    let mut raw = abi::DeviceInfo {
        name: [0; 128],
        driver: [0; 128],
        kind: info.kind as u32,
        device_class: info.class.into(),
        memory: info.memory.unwrap_or(0),
        dtypes,
        default_float: number(info.default_float)? as u32,
        default_int: number(info.default_int)? as u32,
        priority: info.priority,
        unavailable: info.unavailable.is_some().into(),
        why: text::NO_ERROR,
    };
    text::write(&info.name, &mut raw.name);
    text::write(&info.driver, &mut raw.driver);
    if let Some(why) = &info.unavailable {
        text::write(&why.why, &mut raw.why.message);
        text::write(why.hint.as_deref().unwrap_or(""), &mut raw.why.hint);
    }
    Ok(raw)
}
