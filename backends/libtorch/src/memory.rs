//! LibTorch's memory as buffers, and operands as LibTorch's tensors.

use std::ffi::{c_int, c_void};
use std::ops::Deref;

use tch::{Device, Kind, Tensor};
use ubique_core::backend::View;
use ubique_core::backend::buffer::{Buffer, INLINE_BYTES, Storage};
use ubique_core::{DType, Error, HostTensor, Layout, TensorSpec};

use crate::dtype::{ints, kind, kind_number};
use crate::error::Made;

/// A tensor of LibTorch, row-major.
struct Memory {
    tensor: Tensor,
    dtype: DType,
    bytes: usize,
    on_host: bool,
}

// SAFETY: the tensor is never written after it was made, and LibTorch's counts of references are atomic.
unsafe impl Sync for Memory {}

impl Storage for Memory {
    fn byte_len(&self) -> usize {
        self.bytes
    }

    fn host_bytes(&self) -> Option<&[u8]> {
        if !self.on_host {
            return None;
        }
        if self.bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: a row-major tensor on the CPU has all of its elements from here on, and lives as long as this.
        Some(unsafe { std::slice::from_raw_parts(self.tensor.data_ptr().cast(), self.bytes) })
    }
}

/// An operand as a tensor.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    tensor: &'a Tensor,
    /// What the elements are, also where LibTorch holds them as others of the same width.
    pub dtype: DType,
}

impl<'a> Operand<'a> {
    pub fn new(tensor: &'a Tensor, dtype: DType) -> Operand<'a> {
        Operand { tensor, dtype }
    }
}

impl Deref for Operand<'_> {
    type Target = Tensor;
    #[inline]
    fn deref(&self) -> &Tensor {
        self.tensor
    }
}

/// A result of a kernel as a buffer, row-major and in the dtype that it has to have.
pub fn store(tensor: Tensor, spec: &TensorSpec, device: Device) -> Made<Buffer> {
    let (dtype, on_host) = (spec.dtype, device == Device::Cpu);
    match row_major_bytes(&tensor, dtype, &spec.shape) {
        Some(bytes) => Ok(Buffer::new(Memory { tensor, dtype, bytes, on_host })),
        None => arrange(tensor, spec).map(|(tensor, bytes)| Buffer::new(Memory { tensor, dtype, bytes, on_host })),
    }
}

/// The same elements as they have to be.
#[inline(never)]
fn arrange(tensor: Tensor, spec: &TensorSpec) -> Made<(Tensor, usize)> {
    let tensor = tensor.f_to_kind(kind(spec.dtype))?.f_contiguous()?;
    match row_major_bytes(&tensor, spec.dtype, &spec.shape) {
        Some(bytes) => Ok((tensor, bytes)),
        None => {
            let (given, wanted) = (tensor.size(), &spec.shape);
            Err(Error::backend(format!("LibTorch gave a result of {given:?} instead of {wanted}")).into())
        }
    }
}

/// How many bytes a tensor has that holds elements of a dtype in a shape, row-major; `None` for another.
#[inline]
fn row_major_bytes(tensor: &Tensor, dtype: DType, shape: &[usize]) -> Option<usize> {
    let kind = kind_number(kind(dtype));
    // SAFETY: a live tensor, of which the function only reads what it is, and a list of that length.
    let bytes = unsafe { ubique_row_major_bytes(tensor.as_ptr().cast(), kind, shape.as_ptr(), shape.len()) };
    usize::try_from(bytes).ok()
}

#[inline]
fn has_shape(tensor: &Tensor, shape: &[usize]) -> bool {
    // SAFETY: as above.
    unsafe { ubique_has_shape(tensor.as_ptr().cast(), shape.as_ptr(), shape.len()) }
}

unsafe extern "C" {
    /// In `shim.cpp`.
    fn ubique_has_shape(tensor: *const c_void, shape: *const usize, rank: usize) -> bool;

    /// In `shim.cpp`: -1 for a tensor of another kind, shape or layout.
    fn ubique_row_major_bytes(tensor: *const c_void, kind: c_int, shape: *const usize, rank: usize) -> i64;

    /// In `shim.cpp`: null where LibTorch refuses.
    fn ubique_wrap(
        data: *mut c_void,
        sizes: *const i64,
        rank: usize,
        kind: c_int,
        context: *mut c_void,
        release: unsafe extern "C" fn(*mut c_void),
    ) -> *mut c_void;
}

/// Host data on a device: on the CPU without a copy, unless it is only a few bytes.
pub fn upload(data: HostTensor, device: Device) -> Made<Buffer> {
    let spec = data.spec().clone();
    let (size, kind, bytes) = (ints(&spec.shape), kind(spec.dtype), data.bytes().len());
    if bytes <= INLINE_BYTES {
        let few = Tensor::f_from_data_size(data.bytes(), &size, kind)?;
        return store(few.f_to_device(device)?, &spec, device);
    }
    store(wrap(data, &size, kind)?.f_to_device(device)?, &spec, device)
}

/// Host data as a tensor over the same memory, which lives as long as any tensor looks at it: results of ops may be such.
fn wrap(data: HostTensor, size: &[i64], kind: Kind) -> Made {
    let start = data.bytes().as_ptr().cast_mut().cast::<c_void>();
    let context = Box::into_raw(Box::new(data)).cast::<c_void>();
    // SAFETY: the memory has as many elements of the kind as the size says; nothing writes to it, and it is released once.
    let tensor = unsafe { ubique_wrap(start, size.as_ptr(), size.len(), kind_number(kind), context, release) };
    if tensor.is_null() {
        return Err(Error::backend(format!("LibTorch makes no tensor of {size:?} over host memory")).into());
    }
    // SAFETY: a tensor of its own, which nobody else frees.
    Ok(unsafe { Tensor::from_ptr(tensor.cast()) })
}

unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: made by `wrap`, and released once.
    drop(unsafe { Box::from_raw(context.cast::<HostTensor>()) });
}

/// The tensor that lies in a view's buffer, where the view means all of it as it lies there.
#[inline(always)]
pub fn whole(view: &View) -> Option<Operand<'_>> {
    let memory: &Memory = view.buffer.downcast()?;
    let layout = &view.layout;
    let whole = layout.is_row_major() && memory.dtype == view.dtype && has_shape(&memory.tensor, layout.shape());
    whole.then_some(Operand { tensor: &memory.tensor, dtype: view.dtype })
}

/// The elements that a view means, as a tensor over the same memory where LibTorch can express that.
pub fn part(view: &View) -> Made {
    let foreign = || Error::backend("an operand lies in another backend's memory");
    let memory: &Memory = view.buffer.downcast().ok_or_else(foreign)?;
    look(&memory.tensor, kind(view.dtype), &view.layout)
}

/// Another look at a tensor's elements. LibTorch has no negative strides: lines that run backwards are turned by a copy.
fn look(tensor: &Tensor, kind: Kind, layout: &Layout) -> Made {
    let size = ints(layout.shape());
    if layout.elements() == 0 {
        return Ok(Tensor::f_empty(&*size, (kind, tensor.device()))?);
    }
    if tensor.device() == Device::Vulkan {
        return Ok(look(&tensor.f_to_device(Device::Cpu)?, kind, layout)?.f_to_device(Device::Vulkan)?);
    }
    let typed = (tensor.f_kind()? != kind).then(|| tensor.f_view_dtype(kind)).transpose()?;
    let tensor = typed.as_ref().unwrap_or(tensor);
    let axes = || layout.shape().iter().zip(layout.strides().iter()).enumerate();
    let backwards = axes().filter(|(_, (_, stride))| **stride < 0);
    let reach = backwards.clone().map(|(_, (&extent, stride))| (extent - 1) * stride.unsigned_abs()).sum::<usize>();
    let strides: Vec<i64> = axes().map(|(_, (_, stride))| stride.unsigned_abs() as i64).collect();
    // LibTorch counts from the beginning of its memory, and not of the tensor.
    let start = tensor.f_storage_offset()? + (layout.offset() - reach) as i64;
    let forwards = tensor.f_as_strided(&*size, &strides, start)?;
    let turned: Vec<i64> = backwards.map(|(axis, _)| axis as i64).collect();
    Ok(if turned.is_empty() { forwards } else { forwards.f_flip(&turned)? })
}

/// A view's elements on the host, row-major: the memory itself where they lie so.
pub fn download(view: &View) -> Made<HostTensor> {
    if view.layout.is_row_major() && view.buffer.host_bytes().is_some() {
        return Ok(HostTensor::from_buffer(view.buffer.clone(), view.spec())?);
    }
    let tensor = match whole(view) {
        Some(whole) => whole.f_to_device(Device::Cpu)?,
        None => part(view)?.f_to_device(Device::Cpu)?,
    };
    Ok(HostTensor::from_buffer(store(tensor, &view.spec(), Device::Cpu)?, view.spec())?)
}
