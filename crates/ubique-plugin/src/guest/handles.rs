//! What the handles point to, and the host's structs as Rust's.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::{DTypeUsage, DeviceInfo, Executor, Operand, View};
use ubique_core::layout::Strides;
use ubique_core::{DType, Error, HostTensor, Layout, Op, Result, Shape, TensorSpec};

use crate::abi;
use crate::text;

/// Behind a device's handle.
pub struct DeviceHandle {
    pub executor: Arc<dyn Executor>,
}

/// Behind an op's handle.
pub struct OpHandle {
    pub op: Op,
}

/// Behind a buffer's handle.
#[derive(Default)]
pub struct BufferHandle(UnsafeCell<Held>);

#[derive(Default)]
struct Held {
    /// Nothing after an op took the buffer over.
    buffer: Option<Buffer>,
    /// The row-major view that it was first looked at in, which most operands are.
    view: OnceLock<View>,
}

/// How many handles a thread keeps for later.
const KEPT: usize = 64;

thread_local! {
    /// Handles that were given back: every result takes one.
    #[expect(clippy::vec_box, reason = "a handle's address is what the host knows")]
    static SPARE: RefCell<Vec<Box<BufferHandle>>> = const { RefCell::new(Vec::new()) };
}

impl BufferHandle {
    #[inline]
    pub fn export(buffer: Buffer) -> *mut abi::Buffer {
        let mut handle = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default();
        handle.0.get_mut().buffer = Some(buffer);
        Box::into_raw(handle).cast()
    }

    /// # Safety
    /// A handle of [`BufferHandle::export`], given back once.
    #[inline]
    pub unsafe fn free(handle: *mut abi::Buffer) {
        // SAFETY: as the caller promises.
        let mut handle = unsafe { Box::from_raw(handle.cast::<BufferHandle>()) };
        let held = handle.0.get_mut();
        // What is dropped may lead to other handles, so the spare ones are not borrowed meanwhile.
        (held.buffer, held.view) = (None, OnceLock::new());
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                spare.push(handle);
            }
        });
    }

    fn held(&self) -> &Held {
        // SAFETY: only `take` and `restore` change what is held, and while they may be called nobody else uses the handle.
        unsafe { &*self.0.get() }
    }

    /// The memory.
    pub fn buffer(&self) -> Result<&Buffer> {
        self.held().buffer.as_ref().ok_or_else(given_away)
    }

    /// The buffer itself, which is then nobody else's.
    ///
    /// # Safety
    /// The host has given the buffer away: nobody else uses the handle.
    pub unsafe fn take(&self) -> Result<Buffer> {
        // SAFETY: as the caller promises, this is the only use of the handle.
        let held = unsafe { &mut *self.0.get() };
        held.view.take();
        held.buffer.take().ok_or_else(given_away)
    }

    /// Puts a buffer back that an op did not need after all.
    ///
    /// # Safety
    /// As for [`BufferHandle::take`].
    pub unsafe fn restore(&self, buffer: Buffer) {
        // SAFETY: as the caller promises, this is the only use of the handle.
        unsafe { &mut *self.0.get() }.buffer = Some(buffer);
    }

    /// The buffer as row-major elements from its start; `None` where it is too small, or was looked at in another shape.
    #[inline]
    fn row_major(&self, shape: &[usize], dtype: DType) -> Option<&View> {
        let view = self.held().view.get().or_else(|| self.look(shape, dtype))?;
        (view.dtype == dtype && **view.shape() == *shape).then_some(view)
    }

    #[inline(never)]
    fn look(&self, shape: &[usize], dtype: DType) -> Option<&View> {
        let Held { buffer, view } = self.held();
        let (shape, buffer) = (Shape::from(shape), buffer.as_ref()?);
        shape.bytes(dtype).ok().filter(|&bytes| bytes <= buffer.byte_len())?;
        Some(view.get_or_init(|| View::new(buffer.clone(), Layout::contiguous(shape), dtype)))
    }

    /// Where the host can read the memory, as long as the handle lives; null where it cannot.
    pub fn host_pointer(&self) -> *const u8 {
        let bytes = self.held().buffer.as_ref().and_then(Buffer::host_bytes);
        bytes.map_or(std::ptr::null(), <[u8]>::as_ptr)
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

/// A view's elements in a buffer.
///
/// # Safety
/// Shape and strides are valid for `rank` elements.
pub unsafe fn view(raw: &abi::View, buffer: Buffer) -> Result<View> {
    // SAFETY: as the caller promises.
    let (spec, strides) = unsafe { (spec(&raw.spec)?, list(raw.strides, raw.spec.rank as usize)) };
    let elements = buffer.byte_len() / spec.dtype.size();
    let layout = match raw.contiguous != 0 && raw.offset == 0 && spec.shape.elements()? <= elements {
        true => Layout::contiguous(spec.shape),
        false => Layout::strided(spec.shape, Strides::from_slice(strides), raw.offset, elements)?,
    };
    Ok(View::new(buffer, layout, spec.dtype))
}

/// An operand as it lies in its handle.
pub enum Seen<'a> {
    /// All of the buffer, in a view that the handle keeps.
    Whole(&'a View),
    /// Other elements of it.
    Part(View),
    /// Given away by the host, and taken out of the handle, so that it has one holder here too.
    Taken(View, &'a BufferHandle),
}

impl<'a> Seen<'a> {
    /// # Safety
    /// The handle is live, shape and strides are valid for `rank` elements, and nobody else uses the handle of a buffer that
    /// is given away.
    pub unsafe fn new(raw: &abi::View) -> Result<Seen<'a>> {
        // SAFETY: as the caller promises.
        if let Some(view) = unsafe { whole(raw) } {
            return Ok(Seen::Whole(view));
        }
        // SAFETY: as the caller promises.
        let handle = unsafe { buffer(raw.buffer) };
        // SAFETY: as the caller promises.
        let view = unsafe { view(raw, handle.buffer()?.clone()) }?;
        if raw.owned == 0 {
            return Ok(Seen::Part(view));
        }
        // SAFETY: as the caller promises.
        drop(unsafe { handle.take() }?);
        Ok(Seen::Taken(view, handle))
    }

    pub fn operand(&mut self) -> Operand<'_> {
        match self {
            Seen::Whole(view) => Operand::Ref(view),
            Seen::Part(view) => Operand::Ref(view),
            Seen::Taken(view, _) => Operand::Own(view),
        }
    }

    /// Puts a buffer back that an op did not need after all.
    pub fn give_back(&mut self) {
        if let Seen::Taken(view, handle) = self {
            // SAFETY: as promised when it was taken, nobody else uses the handle.
            unsafe { handle.restore(view.buffer.clone()) };
        }
    }
}

/// A view of all of a buffer that is not given away, kept in its handle; `None` for other views.
///
/// # Safety
/// The handle is live, and the shape is valid for `rank` elements.
#[inline(always)]
pub unsafe fn whole<'a>(raw: &abi::View) -> Option<&'a View> {
    if raw.owned != 0 || raw.contiguous == 0 || raw.offset != 0 {
        return None;
    }
    // SAFETY: as the caller promises.
    let (handle, shape) = unsafe { (buffer(raw.buffer), list(raw.spec.shape, raw.spec.rank as usize)) };
    handle.row_major(shape, dtype(raw.spec.dtype).ok()?)
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
