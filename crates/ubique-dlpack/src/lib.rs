//! Tensors to and from DLPack, the interchange format of numpy, PyTorch, JAX and others, without copies where memory allows it.
//!
//! A [`Capsule`] owns a `DLManagedTensorVersioned` of DLPack 1.x. What Python calls `__dlpack__` hands the raw pointer out in
//! a `PyCapsule` named `dltensor_versioned`; see <https://dmlc.github.io/dlpack/latest/>.
//!
//! ```
//! # use ubique_flex as _;
//! use ubique_core::{Device, Tensor};
//! use ubique_dlpack::Capsule;
//!
//! # fn main() -> ubique_core::Result<()> {
//! let device = Device::new("flex")?;
//! let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2], &device)?;
//! let raw = Capsule::new(&x.t()?)?.into_raw(); // to another library
//! // SAFETY: made above, and taken over once.
//! let capsule = unsafe { Capsule::from_raw(raw) }?; // from another library
//! assert_eq!(capsule.into_tensor(&device)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

pub mod abi;
mod export;
mod import;

use std::ptr::NonNull;

use ubique_core::{Error, Result};

use abi::ManagedTensor;

/// A tensor in the form of DLPack, released when it is dropped.
#[derive(Debug)]
pub struct Capsule(NonNull<ManagedTensor>);

// SAFETY: by the contract of DLPack, the memory can be read and released from any thread.
unsafe impl Send for Capsule {}
// SAFETY: as above.
unsafe impl Sync for Capsule {}

impl Capsule {
    /// Takes a tensor of another library over.
    ///
    /// # Errors
    /// Where the pointer is null or the major version is not 1. Of another version only the deleter is known to be where it
    /// is, so it is called.
    ///
    /// # Safety
    /// The pointer is null, or one that a DLPack producer gave and nobody else has taken over.
    pub unsafe fn from_raw(raw: *mut ManagedTensor) -> Result<Capsule> {
        let capsule = Capsule(NonNull::new(raw).ok_or_else(|| Error::value("the DLPack pointer is null"))?);
        let version = capsule.managed().version;
        if version.major != abi::MAJOR {
            let (major, minor) = (version.major, version.minor);
            return Err(Error::unsupported(format!("a tensor of DLPack {major}.{minor}; this library reads 1.x")));
        }
        Ok(capsule)
    }

    /// The raw pointer, whose receiver calls its deleter.
    pub fn into_raw(self) -> *mut ManagedTensor {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    /// The struct itself.
    pub fn managed(&self) -> &ManagedTensor {
        // SAFETY: valid as long as the capsule has not released it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Capsule {
    fn drop(&mut self) {
        if let Some(deleter) = self.managed().deleter {
            // SAFETY: called once, with the struct that it belongs to.
            unsafe { deleter(self.0.as_ptr()) };
        }
    }
}
