//! From a capsule to a tensor.

use ubique_core::{DType, Device, Error, HostTensor, Result, Shape, Tensor};

use crate::{Capsule, abi};

impl Capsule {
    /// A tensor of the capsule's elements. Where they lie side by side in memory, in whichever order of the axes and
    /// directions, a device that works in host memory takes them over without a copy, and gives them back to their producer
    /// with the last tensor that needs them; the producer must not change them as long. Others are copied once.
    ///
    /// # Errors
    /// Where the elements are not in the host's memory, of a type that no dtype has, described by extents that make no sense,
    /// or the device cannot store them.
    pub fn into_tensor(self, device: &Device) -> Result<Tensor> {
        let place = Place::read(&self.managed().tensor)?;
        let elements = place.shape.elements()?;
        if elements == 0 {
            return Tensor::from_host(HostTensor::from_bytes(Vec::new(), place.dtype, place.shape)?, device);
        }
        let order = place.order();
        if !place.is_dense(&order) {
            // SAFETY: the producer promises that what it describes can be read.
            let bytes = unsafe { place.gather(elements) };
            return Tensor::from_host(HostTensor::from_bytes(bytes, place.dtype, place.shape)?, device);
        }
        let size = place.dtype.size();
        let lowest: i64 =
            place.shape.iter().zip(&place.strides).map(|(&extent, &stride)| stride.min(0) * (extent as i64 - 1)).sum();
        let start = place.start.wrapping_offset(lowest as isize * size as isize);
        let stored: Vec<usize> = order.iter().map(|&axis| place.shape[axis]).collect();
        let flipped: Vec<isize> = (0..place.strides.len())
            .filter(|&axis| place.strides[axis] < 0 && place.shape[axis] > 1)
            .map(|axis| axis as isize)
            .collect();
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &axis)| back[axis] = place as isize);
        let memory = Memory { _capsule: self, start, bytes: elements * size };
        let host = HostTensor::from_bytes(memory, place.dtype, stored)?;
        Tensor::from_host(host, device)?.permute(&back)?.flip(&flipped)
    }
}

/// Where elements lie.
struct Place {
    dtype: DType,
    shape: Shape,
    /// In elements.
    strides: Vec<i64>,
    /// The first element.
    start: *const u8,
}

impl Place {
    fn read(tensor: &abi::Tensor) -> Result<Place> {
        let abi::Tensor { device, dtype, ndim, .. } = *tensor;
        if !abi::HOST_MEMORY.contains(&device.device_type) {
            let kind = device.device_type;
            return Err(Error::device(format!(
                "the elements are on a device of DLPack's type {kind}, not in host memory; move them first"
            )));
        }
        let known = abi::DTYPES.iter().find(|&&(code, bits, _)| dtype == abi::DataType { code, bits, lanes: 1 });
        let known = known.ok_or_else(|| {
            let abi::DataType { code, bits, lanes } = dtype;
            Error::dtype(format!("no dtype is DLPack's type {code} of {bits} bits and {lanes} lanes"))
        });
        let rank = usize::try_from(ndim).map_err(|_| Error::shape(format!("{ndim} axes")))?;
        if rank > 0 && tensor.shape.is_null() {
            return Err(Error::shape("the shape is missing"));
        }
        // SAFETY: the producer promises a shape, and strides or null, of as many elements as there are axes.
        let (shape, strides) = unsafe { (list(tensor.shape, rank), list(tensor.strides, rank)) };
        let extent =
            |&extent: &i64| usize::try_from(extent).map_err(|_| Error::shape(format!("an extent of {extent}")));
        let shape: Vec<usize> = shape.iter().map(extent).collect::<Result<_>>()?;
        let &(_, _, dtype) = known?;
        let shape = Shape::from(shape.as_slice());
        shape.bytes(dtype)?;
        let strides = if tensor.strides.is_null() { row_major(&shape) } else { strides.to_vec() };
        let start = tensor.data.cast::<u8>().cast_const().wrapping_add(tensor.byte_offset as usize);
        Ok(Place { dtype, shape, strides, start })
    }

    /// The axes as they lie in memory, outermost first.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.strides.len()).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(self.strides[axis].unsigned_abs()));
        order
    }

    /// Whether the elements fill a piece of memory.
    fn is_dense(&self, order: &[usize]) -> bool {
        let mut step = 1;
        order.iter().rev().all(|&axis| {
            let extent = self.shape[axis];
            let fits = extent == 1 || self.strides[axis].unsigned_abs() == step;
            step *= extent as u64;
            fits
        })
    }

    /// A row-major copy.
    ///
    /// # Safety
    /// Every element can be read.
    unsafe fn gather(&self, elements: usize) -> Vec<u8> {
        let size = self.dtype.size();
        let mut bytes = Vec::with_capacity(elements * size);
        for number in 0..elements {
            let (mut left, mut at) = (number, 0isize);
            for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
                at += (left % extent) as isize * stride as isize;
                left /= extent;
            }
            let element = self.start.wrapping_offset(at * size as isize);
            // SAFETY: an element of the tensor, as the caller promises.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(element, size) });
        }
        bytes
    }
}

fn row_major(shape: &Shape) -> Vec<i64> {
    let mut strides = vec![1; shape.rank()];
    for axis in (1..shape.rank()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as i64;
    }
    strides
}

/// # Safety
/// Null, or valid for `len` elements.
unsafe fn list<'a>(start: *const i64, len: usize) -> &'a [i64] {
    // SAFETY: as the caller promises.
    if start.is_null() || len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, len) } }
}

/// A capsule's memory, which keeps the capsule.
struct Memory {
    _capsule: Capsule,
    start: *const u8,
    bytes: usize,
}

// SAFETY: it only reads memory that the capsule, which is `Send` and `Sync`, keeps alive.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the piece of memory that the elements fill.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}
