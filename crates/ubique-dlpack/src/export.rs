//! From a tensor to a capsule.

use std::ffi::c_void;
use std::ptr::NonNull;

use ubique_core::backend::buffer::Buffer;
use ubique_core::{DType, Error, Layout, Result, Tensor};

use crate::Capsule;
use crate::abi::{self, ManagedTensor};

/// All that the raw struct points to.
struct Owner {
    buffer: Buffer,
    shape: Vec<i64>,
    strides: Vec<i64>,
    managed: ManagedTensor,
}

impl Capsule {
    /// A tensor's elements where they are: strides and all, without a copy, where its device works in host memory. From other
    /// devices they are copied to the host. Read only, because tensors are values: others may look at the same memory.
    ///
    /// # Errors
    /// What the download or the work before it failed with.
    pub fn new(tensor: &Tensor) -> Result<Capsule> {
        let view = tensor.view();
        view.buffer.check()?;
        if view.buffer.host_bytes().is_some() {
            return own(view.buffer.clone(), &view.layout, view.dtype, abi::READ_ONLY);
        }
        let host = tensor.to_host()?;
        let layout = Layout::contiguous(host.shape().clone());
        own(host.into_buffer(), &layout, view.dtype, abi::READ_ONLY | abi::IS_COPIED)
    }
}

fn own(buffer: Buffer, layout: &Layout, dtype: DType, flags: u64) -> Result<Capsule> {
    let known = abi::DTYPES.iter().find(|(_, _, known)| *known == dtype);
    let &(code, bits, _) = known.ok_or_else(|| Error::dtype(format!("DLPack has no {dtype}")))?;
    let managed = ManagedTensor {
        version: abi::Version { major: abi::MAJOR, minor: abi::MINOR },
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(delete),
        flags,
        tensor: abi::Tensor {
            data: std::ptr::null_mut(),
            device: abi::Device { device_type: abi::CPU, device_id: 0 },
            ndim: layout.shape().rank() as i32,
            dtype: abi::DataType { code, bits, lanes: 1 },
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: (layout.offset() * dtype.size()) as u64,
        },
    };
    let shape = layout.shape().iter().map(|&extent| extent as i64).collect();
    let strides = layout.strides().iter().map(|&stride| stride as i64).collect();
    // Addresses are taken in the box: few bytes lie in the buffer's handle itself.
    let owner = Box::leak(Box::new(Owner { buffer, shape, strides, managed }));
    let raw: *mut Owner = owner;
    owner.managed.manager_ctx = raw.cast::<c_void>();
    owner.managed.tensor.data = owner.buffer.host_bytes().unwrap_or_default().as_ptr().cast_mut().cast();
    owner.managed.tensor.shape = owner.shape.as_mut_ptr();
    owner.managed.tensor.strides = owner.strides.as_mut_ptr();
    Ok(Capsule(NonNull::from(&mut owner.managed)))
}

unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    // SAFETY: a struct of `own`, whose context is the box that holds it; deleted once, by the contract.
    drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<Owner>()) });
}
