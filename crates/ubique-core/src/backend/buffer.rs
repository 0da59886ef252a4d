//! A backend's memory, type-erased and reference-counted.

use std::any::Any;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::error::Result;

/// Memory that a backend or the host owns.
pub trait Storage: Any + Send + Sync {
    /// Size in bytes.
    fn byte_len(&self) -> usize;

    /// The bytes, where the host can read them and nothing is still writing them. Every byte is initialised.
    fn host_bytes(&self) -> Option<&[u8]> {
        None
    }

    /// The bytes, where the host may write them.
    fn host_bytes_mut(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        None
    }

    /// The error that spoilt this memory, where an asynchronous operation failed to fill it.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A shared handle to a [`Storage`].
#[derive(Clone)]
pub struct Buffer(Arc<dyn Storage>);

impl Buffer {
    /// Wraps a storage.
    #[inline]
    pub fn new(storage: impl Storage) -> Buffer {
        Buffer(Arc::new(storage))
    }

    /// Size in bytes.
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.0.byte_len()
    }

    /// The bytes, where the host can read them.
    #[inline]
    pub fn host_bytes(&self) -> Option<&[u8]> {
        self.0.host_bytes()
    }

    /// The bytes for writing, where the host may and nobody else holds the buffer.
    #[inline]
    pub fn host_bytes_mut(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        Arc::get_mut(&mut self.0)?.host_bytes_mut()
    }

    /// Whether nobody else holds this buffer.
    #[inline]
    pub fn is_unique(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }

    /// The error that spoilt this memory, if any.
    pub fn check(&self) -> Result<()> {
        self.0.check()
    }

    /// The backend's own storage type.
    #[inline]
    pub fn downcast<T: Storage>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }

    /// Takes the storage out, where this is the only handle and the type fits.
    ///
    /// # Errors
    /// The buffer itself comes back otherwise.
    pub fn try_take<T: Storage>(self) -> std::result::Result<T, Buffer> {
        if self.downcast::<T>().is_none() {
            return Err(self);
        }
        let any: Arc<dyn Any + Send + Sync> = self.0;
        match any.downcast::<T>() {
            Ok(typed) => Arc::try_unwrap(typed).map_err(|shared| Buffer(shared)),
            // Not reached: the type was checked above.
            Err(_) => unreachable!("the storage's type does not change"),
        }
    }

    /// Whether two handles are of the same memory.
    pub fn same(&self, other: &Buffer) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.byte_len())
    }
}
