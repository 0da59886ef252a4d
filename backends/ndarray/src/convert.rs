//! Arrays to tensors and back, without a copy where their memory allows it.

use std::ops::Range;

use ndarray::{Array, ArrayD, ArrayViewD, Axis, Dimension, IxDyn};
use ubique_core::{Device, Element, Error, HostTensor, Layout, Result, Shape, Tensor};

use crate::view::of_layout;

/// A tensor of an array's elements. Where they lie side by side in memory, in whichever order of the axes, the array's
/// memory becomes the tensor's, and a device that shares the host's memory takes it over as it is; others are copied once.
///
/// ```
/// use ndarray::array;
/// use ubique_core::Device;
///
/// # fn main() -> ubique_core::Result<()> {
/// let device = Device::new("ndarray")?;
/// let x = ubique_ndarray::from_array(array![[1.0f32, 2.0], [3.0, 4.0]], &device)?;
/// assert_eq!(ubique_ndarray::to_array::<f32>(&x.t()?)?, array![[1.0, 3.0], [2.0, 4.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Where the device cannot store the dtype, or has no memory for the elements.
pub fn from_array<T: Element, D: Dimension>(array: Array<T, D>, device: &Device) -> Result<Tensor> {
    let mut array = array.into_dyn();
    let flipped: Vec<isize> =
        (0..array.ndim()).filter(|&axis| array.strides()[axis] < 0).map(|axis| axis as isize).collect();
    flipped.iter().for_each(|&axis| array.invert_axis(Axis(axis as usize)));
    if array.is_standard_layout() {
        return Tensor::from_host(host(array)?, device)?.flip(&flipped);
    }
    // The axes as they lie in memory, outermost first.
    let mut order: Vec<usize> = (0..array.ndim()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(array.strides()[axis]));
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &axis)| back[axis] = place as isize);
    Tensor::from_host(host(array.permuted_axes(IxDyn(&order)))?, device)?.permute(&back)?.flip(&flipped)
}

/// An array in row-major order on the host: its own memory where the elements lie so.
fn host<T: Element>(array: ArrayD<T>) -> Result<HostTensor> {
    let shape = Shape::from(array.shape());
    if !array.is_standard_layout() {
        return HostTensor::from_vec(array.iter().copied().collect(), shape);
    }
    let len = array.len();
    let (data, start) = array.into_raw_vec_and_offset();
    let start = start.unwrap_or(0);
    match data.len() == len {
        true => HostTensor::from_vec(data, shape),
        false => HostTensor::from_bytes(Part { data, range: start..start + len }, T::DTYPE, shape),
    }
}

/// A part of a vector, which keeps all of it.
struct Part<T> {
    data: Vec<T>,
    range: Range<usize>,
}

impl<T: Element> AsRef<[u8]> for Part<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(self.data.get(self.range.clone()).unwrap_or(&[]))
    }
}

/// Calls `f` with an array view of a tensor's elements, with the tensor's own strides, and gives what `f` gives. Nothing is
/// copied where the tensor's device keeps it in the host's memory; otherwise the elements are brought to the host first.
///
/// ```
/// use ubique_core::{DType, Device, Tensor};
///
/// # fn main() -> ubique_core::Result<()> {
/// let x = Tensor::arange(0, 6, 1, DType::F32, &Device::new("ndarray")?)?.reshape([2, 3])?;
/// assert_eq!(ubique_ndarray::with_view(&x, |a: ndarray::ArrayViewD<f32>| a.sum())?, 15.0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Where `T` is not the tensor's dtype, the work that made the tensor failed, or no array can have its extents (which may
/// be where one of them is 0 and the product of the others is too large).
pub fn with_view<T: Element, R>(tensor: &Tensor, f: impl FnOnce(ArrayViewD<'_, T>) -> R) -> Result<R> {
    let fail = |e: Error| e.with_op("with_view", &[tensor.spec()]).with_device(tensor.device().name());
    if tensor.dtype() != T::DTYPE {
        return Err(fail(Error::dtype(format!("asked for {} of a tensor of {}", T::DTYPE, tensor.dtype()))));
    }
    let buffer = &tensor.view().buffer;
    buffer.check().map_err(fail)?;
    if let Some(bytes) = buffer.host_bytes() {
        let whole = bytes.len() / size_of::<T>() * size_of::<T>();
        let data = bytemuck::checked::try_cast_slice::<u8, T>(&bytes[..whole]);
        let data = data.map_err(|e| fail(Error::format(format!("the tensor's memory holds no {}: {e}", T::DTYPE))))?;
        return of_layout(data, tensor.layout()).map(f).map_err(fail);
    }
    let host = tensor.to_host()?;
    of_layout(host.as_slice::<T>()?, &Layout::contiguous(tensor.shape().clone())).map(f).map_err(fail)
}

/// A copy of a tensor's elements as an array in row-major order.
///
/// # Errors
/// As [`with_view`].
pub fn to_array<T: Element>(tensor: &Tensor) -> Result<ArrayD<T>> {
    with_view(tensor, |view: ArrayViewD<'_, T>| view.as_standard_layout().into_owned())
}

/// A tensor's elements as an array in row-major order. Nothing is copied where the tensor is row-major, its memory came from
/// a vector (as that of [`from_array`] does) and nobody else holds it.
///
/// # Errors
/// As [`with_view`].
pub fn into_array<T: Element>(tensor: Tensor) -> Result<ArrayD<T>> {
    let shape = tensor.shape().to_vec();
    let host = tensor.to_host()?;
    drop(tensor);
    let data = host.into_vec::<T>()?;
    ArrayD::from_shape_vec(IxDyn(&shape), data)
        .map_err(|e| Error::shape(format!("no array has the extents {shape:?}: {e}")))
}
