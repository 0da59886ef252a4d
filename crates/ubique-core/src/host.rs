//! Tensors on the host: what goes into a device and what comes out, without copies where memory allows it.

use std::fmt;
use std::mem::MaybeUninit;

use half::{bf16, f16};

use crate::backend::buffer::{Buffer, Storage};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::float8::{F8E4M3, F8E5M2};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorSpec};

/// Contiguous, row-major elements in host memory.
#[derive(Clone)]
pub struct HostTensor {
    buffer: Buffer,
    spec: TensorSpec,
}

/// A `Vec` that lives on as a buffer.
struct VecStorage<T>(Vec<T>);

impl<T: Element> Storage for VecStorage<T> {
    fn byte_len(&self) -> usize {
        size_of_val(self.0.as_slice())
    }
    fn host_bytes(&self) -> Option<&[u8]> {
        Some(bytemuck::cast_slice(&self.0))
    }
    fn host_bytes_mut(&mut self) -> Option<&mut [MaybeUninit<u8>]> {
        let len = self.byte_len();
        // SAFETY: the vector's elements are `len` initialised bytes, uniquely borrowed; writers keep to valid elements.
        Some(unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) })
    }
}

/// Somebody else's bytes, kept alive and read only.
struct SharedBytes<B>(B);

impl<B: AsRef<[u8]> + Send + Sync + 'static> Storage for SharedBytes<B> {
    fn byte_len(&self) -> usize {
        self.0.as_ref().len()
    }
    fn host_bytes(&self) -> Option<&[u8]> {
        Some(self.0.as_ref())
    }
}

impl HostTensor {
    /// Takes a vector over without copying.
    ///
    /// # Errors
    /// Where the length is not the shape's element count.
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl Into<Shape>) -> Result<HostTensor> {
        let spec = TensorSpec::new(shape, T::DTYPE);
        let wanted = spec.shape.elements()?;
        if data.len() != wanted {
            return Err(Error::shape(format!("{} values for shape {}, which has {wanted}", data.len(), spec.shape)));
        }
        Ok(HostTensor { buffer: Buffer::new(VecStorage(data)), spec })
    }

    /// Takes over native-endian bytes (a `Vec<u8>`, a memory map, `bytes::Bytes`, …). Copies only where they are not
    /// aligned for the dtype.
    ///
    /// # Errors
    /// Where the byte count does not fit shape and dtype, or a bool byte is neither 0 nor 1.
    pub fn from_bytes<B>(bytes: B, dtype: DType, shape: impl Into<Shape>) -> Result<HostTensor>
    where
        B: AsRef<[u8]> + Send + Sync + 'static,
    {
        let spec = TensorSpec::new(shape, dtype);
        let view = bytes.as_ref();
        let wanted = spec.shape.bytes(dtype)?;
        if view.len() != wanted {
            return Err(Error::shape(format!("{} bytes for {spec}, which has {wanted}", view.len())));
        }
        if dtype == DType::Bool
            && let Some(at) = view.iter().position(|&b| b > 1)
        {
            return Err(Error::format(format!("byte {at} of a bool tensor is {}, not 0 or 1", view[at])));
        }
        let aligned = (view.as_ptr() as usize).is_multiple_of(dtype.size());
        let buffer = if aligned {
            Buffer::new(SharedBytes(bytes))
        } else {
            let mut copy = vec![0u64; wanted.div_ceil(8)];
            bytemuck::cast_slice_mut::<u64, u8>(&mut copy)[..wanted].copy_from_slice(view);
            Buffer::new(VecStorage(copy))
        };
        Ok(HostTensor { buffer, spec })
    }

    /// Wraps a host-readable buffer whose first `spec` bytes are the elements.
    ///
    /// # Errors
    /// Where the buffer is not readable on the host, or too short.
    pub fn from_buffer(buffer: Buffer, spec: TensorSpec) -> Result<HostTensor> {
        let wanted = spec.shape.bytes(spec.dtype)?;
        match buffer.host_bytes() {
            Some(bytes) if bytes.len() >= wanted => Ok(HostTensor { buffer, spec }),
            Some(bytes) => Err(Error::shape(format!("a buffer of {} bytes is too short for {spec}", bytes.len()))),
            None => Err(Error::backend("the buffer cannot be read on the host")),
        }
    }

    /// Copies scalars into a tensor of `dtype`, each cast as [`Scalar::cast`] does.
    ///
    /// # Errors
    /// Where the count does not fit the shape.
    pub fn from_scalars(
        values: impl IntoIterator<Item = Scalar>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> Result<HostTensor> {
        struct Collect<I>(I, Shape);
        impl<I: Iterator<Item = Scalar>> WithElement for Collect<I> {
            type Output = Result<HostTensor>;
            fn run<T: Element>(self) -> Self::Output {
                HostTensor::from_vec(self.0.map(T::from_scalar).collect::<Vec<T>>(), self.1)
            }
        }
        with_element(dtype, Collect(values.into_iter(), shape.into()))
    }

    /// Shape and dtype.
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        &self.spec.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// The buffer, to hand to a device that shares host memory.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// The elements' native-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        let len = self.spec.shape.bytes(self.spec.dtype).unwrap_or(0);
        self.buffer.host_bytes().and_then(|b| b.get(..len)).unwrap_or(&[])
    }

    /// The elements.
    ///
    /// # Errors
    /// Where `T` is not the tensor's dtype.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        if T::DTYPE != self.spec.dtype {
            return Err(Error::dtype(format!("asked for {} of a tensor of {}", T::DTYPE, self.spec.dtype)));
        }
        bytemuck::checked::try_cast_slice(self.bytes()).map_err(|e| Error::format(format!("{}: {e}", self.spec)))
    }

    /// The elements as a vector; without a copy where this is the only holder of a vector of the same type.
    ///
    /// # Errors
    /// Where `T` is not the tensor's dtype.
    pub fn into_vec<T: Element>(self) -> Result<Vec<T>> {
        let count = self.as_slice::<T>()?.len();
        match self.buffer.try_take::<VecStorage<T>>() {
            Ok(storage) if storage.0.len() == count => Ok(storage.0),
            Ok(storage) => Ok(storage.0[..count].to_vec()),
            Err(buffer) => HostTensor { buffer, spec: self.spec }.as_slice().map(<[T]>::to_vec),
        }
    }

    /// The elements as scalars, in order.
    pub fn scalars(&self) -> Vec<Scalar> {
        struct Collect<'a>(&'a HostTensor);
        impl WithElement for Collect<'_> {
            type Output = Vec<Scalar>;
            fn run<T: Element>(self) -> Vec<Scalar> {
                self.0.as_slice::<T>().map(|s| s.iter().map(|v| v.to_scalar()).collect()).unwrap_or_default()
            }
        }
        with_element(self.spec.dtype, Collect(self))
    }

    /// The elements as f64; integers beyond 2⁵³ are rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        self.scalars().into_iter().map(Scalar::as_f64).collect()
    }
}

impl fmt::Debug for HostTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTensor({})", self.spec)
    }
}

/// A computation that is generic over the element type; see [`with_element`].
pub trait WithElement {
    /// What the computation gives.
    type Output;
    /// The computation for one element type.
    fn run<T: Element>(self) -> Self::Output;
}

/// Runs a generic computation for the Rust type of a dtype.
pub fn with_element<F: WithElement>(dtype: DType, f: F) -> F::Output {
    match dtype {
        DType::F64 => f.run::<f64>(),
        DType::F32 => f.run::<f32>(),
        DType::F16 => f.run::<f16>(),
        DType::BF16 => f.run::<bf16>(),
        DType::I64 => f.run::<i64>(),
        DType::I32 => f.run::<i32>(),
        DType::I16 => f.run::<i16>(),
        DType::I8 => f.run::<i8>(),
        DType::U64 => f.run::<u64>(),
        DType::U32 => f.run::<u32>(),
        DType::U16 => f.run::<u16>(),
        DType::U8 => f.run::<u8>(),
        DType::Bool => f.run::<bool>(),
        DType::F8E4M3 => f.run::<F8E4M3>(),
        DType::F8E5M2 => f.run::<F8E5M2>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_go_in_and_out_without_a_copy() {
        let data = vec![1.0f32, 2.0, 3.0];
        let at = data.as_ptr();
        let host = HostTensor::from_vec(data, [3]).unwrap();
        let back = host.into_vec::<f32>().unwrap();
        assert_eq!(back.as_ptr(), at);
        assert_eq!(back, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn misaligned_bytes_are_copied_and_bad_ones_refused() {
        let bytes: Vec<u8> = [0u8].into_iter().chain(5i32.to_ne_bytes()).collect();
        struct Tail(Vec<u8>);
        impl AsRef<[u8]> for Tail {
            fn as_ref(&self) -> &[u8] {
                &self.0[1..]
            }
        }
        let host = HostTensor::from_bytes(Tail(bytes), DType::I32, [1]).unwrap();
        assert_eq!(host.as_slice::<i32>().unwrap(), [5]);
        assert!(HostTensor::from_bytes(vec![2u8], DType::Bool, [1]).is_err());
        assert!(HostTensor::from_bytes(vec![0u8; 3], DType::F32, [1]).is_err());
        assert!(HostTensor::from_vec(vec![0u8; 3], [4]).is_err());
        assert!(host.as_slice::<f32>().is_err());
    }
}
