//! Changes of dtype, and the results of kernels that make f64 or i64 whatever the dtype: every number goes through one of
//! these two, since a loop for each pair of dtypes would cost more to build than it saves.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::backend::uninit::UninitBuffer;
use ubique_core::dtype::Kind;
use ubique_core::host::{WithElement, with_element};
use ubique_core::{DType, Element, Error, Result, Scalar};

use super::copy::{contiguous, to_contiguous};
use super::half::{is_half, narrow, widen};

/// A view's elements in another dtype.
pub fn cast(pool: &HostPool, x: &View, to: DType) -> Result<Buffer> {
    match (x.dtype, to) {
        (from, to) if from == to => contiguous(pool, x),
        // The pairs that training uses have conversions of their own.
        (from, DType::F32) if is_half(from) => Ok(widen(pool, x)?.buffer),
        (DType::F32, to) if is_half(to) => narrow(pool, x, to),
        (from, to) => {
            let x = to_contiguous(pool, x)?;
            let bytes = bytes(&x)?;
            let exact = !to.is_float() && !to.is_stored() && from.kind() != Kind::Float && !from.is_stored();
            let size = from.size();
            match exact {
                true => integers(pool, to, x.layout.elements(), |first, block| {
                    with_element(from, Read(&bytes[first * size..][..block.len() * size], block))
                }),
                false => floats(pool, to, x.layout.elements(), |first, block| {
                    with_element(from, Read(&bytes[first * size..][..block.len() * size], block))
                }),
            }
        }
    }
}

/// The bytes of a contiguous view.
fn bytes(x: &View) -> Result<&[u8]> {
    let (size, len) = (x.dtype.size(), x.layout.elements());
    if len == 0 {
        return Ok(&[]);
    }
    let bytes = x.buffer.host_bytes().ok_or_else(|| Error::backend("the operand is not in host memory"))?;
    let start = x.layout.offset() * size;
    bytes.get(start..start + len * size).ok_or_else(|| Error::backend("an operand's layout leaves its buffer"))
}

/// Elements that are converted at a time: they stay in the nearest cache.
const BLOCK: usize = 1024;

/// A result of any dtype from f64, which `fill` makes block by block: it is given the first element's number.
pub fn floats(
    pool: &HostPool,
    dtype: DType,
    count: usize,
    mut fill: impl FnMut(usize, &mut [f64]) -> Result<()>,
) -> Result<Buffer> {
    with_element(dtype, Make::<f64> { pool, count, fill: &mut fill })
}

/// A result of any dtype from i64 (of u64 the bits), which wraps into smaller integers; see [`floats`].
pub fn integers(
    pool: &HostPool,
    dtype: DType,
    count: usize,
    mut fill: impl FnMut(usize, &mut [i64]) -> Result<()>,
) -> Result<Buffer> {
    with_element(dtype, Make::<i64> { pool, count, fill: &mut fill })
}

/// What elements of every dtype are read as and written from.
trait Hub: Copy + Default {
    fn read<T: Element>(x: T) -> Self;
    fn write<T: Element>(self) -> T;
}

impl Hub for f64 {
    #[inline(always)]
    fn read<T: Element>(x: T) -> f64 {
        x.to_scalar().as_f64()
    }
    #[inline(always)]
    fn write<T: Element>(self) -> T {
        T::from_scalar(Scalar::Float(self))
    }
}

impl Hub for i64 {
    #[inline(always)]
    fn read<T: Element>(x: T) -> i64 {
        x.to_scalar().as_i128() as i64
    }
    #[inline(always)]
    fn write<T: Element>(self) -> T {
        T::from_scalar(Scalar::Int(self))
    }
}

/// Elements of any dtype to numbers of one type.
struct Read<'a, H>(&'a [u8], &'a mut [H]);

impl<H: Hub> WithElement for Read<'_, H> {
    type Output = Result<()>;
    fn run<T: Element>(self) -> Result<()> {
        let Read(bytes, block) = self;
        let source = bytemuck::checked::try_cast_slice::<u8, T>(bytes);
        let source = source.map_err(|e| Error::backend(format!("an operand holds no {}: {e}", T::DTYPE)))?;
        block.iter_mut().zip(source).for_each(|(slot, &x)| *slot = H::read(x));
        Ok(())
    }
}

/// Numbers of one type to a result of any dtype.
struct Make<'a, H> {
    pool: &'a HostPool,
    count: usize,
    fill: &'a mut dyn FnMut(usize, &mut [H]) -> Result<()>,
}

impl<H: Hub> WithElement for Make<'_, H> {
    type Output = Result<Buffer>;
    fn run<T: Element>(self) -> Result<Buffer> {
        let mut out = UninitBuffer::<T>::new(self.pool, self.count)?;
        let mut block = [H::default(); BLOCK];
        for (number, part) in out.as_mut_slice().chunks_mut(BLOCK).enumerate() {
            let block = &mut block[..part.len()];
            (self.fill)(number * BLOCK, block)?;
            for (slot, &number) in part.iter_mut().zip(&*block) {
                slot.write(number.write());
            }
        }
        // SAFETY: the blocks cover the whole result.
        Ok(unsafe { out.assume_init() })
    }
}
