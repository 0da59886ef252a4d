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

/// Up to this many bytes fit in a [`Buffer`] itself.
pub const INLINE_BYTES: usize = 16;

/// No bytes, aligned for every dtype: a storage without any need not care where they would be.
#[repr(align(8))]
struct Nothing([u8; 0]);
static NOTHING: Nothing = Nothing([]);

/// A handle to memory: shared, or, where there are only a few bytes in host memory, the bytes themselves. A scalar is
/// not worth an allocation.
#[derive(Clone)]
pub struct Buffer(Repr);

#[derive(Clone)]
enum Repr {
    Inline(Inline),
    Shared(Arc<dyn Storage>),
}

/// The first `len` bytes are meant. Aligned for every dtype.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Inline {
    bytes: [u8; INLINE_BYTES],
    len: usize,
}

impl Buffer {
    /// Wraps a storage.
    #[inline]
    pub fn new(storage: impl Storage) -> Buffer {
        Buffer(Repr::Shared(Arc::new(storage)))
    }

    /// A few zero bytes in the handle itself; `None` for more than [`INLINE_BYTES`].
    #[inline]
    pub fn inline(len: usize) -> Option<Buffer> {
        (len <= INLINE_BYTES).then_some(Buffer(Repr::Inline(Inline { bytes: [0; INLINE_BYTES], len })))
    }

    /// Size in bytes.
    #[inline]
    pub fn byte_len(&self) -> usize {
        match &self.0 {
            Repr::Inline(inline) => inline.len,
            Repr::Shared(storage) => storage.byte_len(),
        }
    }

    /// The bytes, where the host can read them. What a storage gives is aligned for its dtype; no bytes are for every one.
    #[inline]
    pub fn host_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Repr::Inline(inline) => Some(&inline.bytes[..inline.len]),
            Repr::Shared(storage) => match storage.host_bytes() {
                Some([]) => Some(&NOTHING.0),
                bytes => bytes,
            },
        }
    }

    /// The bytes for writing, where the host may and nobody else holds the buffer.
    #[inline]
    pub fn host_bytes_mut(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        match &mut self.0 {
            Repr::Inline(inline) => {
                let bytes = &mut inline.bytes[..inline.len];
                // SAFETY: the same bytes; whoever writes to a buffer leaves all of it initialised.
                Some(unsafe { &mut *(bytes as *mut [u8] as *mut [MaybeUninit<u8>]) })
            }
            Repr::Shared(storage) => Arc::get_mut(storage)?.host_bytes_mut(),
        }
    }

    /// Whether nobody else holds this buffer.
    #[inline]
    pub fn is_unique(&mut self) -> bool {
        match &mut self.0 {
            Repr::Inline(_) => true,
            Repr::Shared(storage) => Arc::get_mut(storage).is_some(),
        }
    }

    /// The error that spoilt this memory, if any.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Repr::Inline(_) => Ok(()),
            Repr::Shared(storage) => storage.check(),
        }
    }

    /// The backend's own storage type.
    #[inline]
    pub fn downcast<T: Storage>(&self) -> Option<&T> {
        match &self.0 {
            Repr::Inline(_) => None,
            Repr::Shared(storage) => (&**storage as &dyn Any).downcast_ref(),
        }
    }

    /// Takes the storage out, where this is the only handle and the type fits.
    ///
    /// # Errors
    /// The buffer itself comes back otherwise.
    pub fn try_take<T: Storage>(self) -> std::result::Result<T, Buffer> {
        let Repr::Shared(storage) = self.0 else { return Err(self) };
        if (&*storage as &dyn Any).downcast_ref::<T>().is_none() {
            return Err(Buffer(Repr::Shared(storage)));
        }
        let any: Arc<dyn Any + Send + Sync> = storage;
        match any.downcast::<T>() {
            Ok(typed) => Arc::try_unwrap(typed).map_err(|shared| Buffer(Repr::Shared(shared))),
            // Not reached: the type was checked above.
            Err(_) => unreachable!("the storage's type does not change"),
        }
    }

    /// Whether two handles are of the same memory. Bytes that lie in their handle are shared with no other.
    pub fn same(&self, other: &Buffer) -> bool {
        match (&self.0, &other.0) {
            (Repr::Shared(a), Repr::Shared(b)) => std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)),
            _ => false,
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.byte_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_need_no_storage() {
        let mut buffer = Buffer::inline(3).unwrap();
        let copy = buffer.clone();
        assert_eq!(buffer.byte_len(), 3);
        assert!(buffer.is_unique() && !buffer.same(&copy));
        buffer.host_bytes_mut().unwrap()[0].write(9);
        assert_eq!(buffer.host_bytes(), Some(&[9, 0, 0][..]));
        assert_eq!(copy.host_bytes(), Some(&[0, 0, 0][..]));
        assert!(copy.host_bytes().unwrap().as_ptr().cast::<u64>().is_aligned());
        struct Empty;
        impl Storage for Empty {
            fn byte_len(&self) -> usize {
                0
            }
            fn host_bytes(&self) -> Option<&[u8]> {
                // Points to the odd byte 1.
                Some(&[])
            }
        }
        assert!(Buffer::new(Empty).host_bytes().unwrap().as_ptr().cast::<u64>().is_aligned());
        assert!(Buffer::inline(INLINE_BYTES).is_some());
        assert!(Buffer::inline(INLINE_BYTES + 1).is_none());
    }
}
