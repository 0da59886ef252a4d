//! Tensors from host data and back, and moves between devices.

use crate::autodiff::node::Recording;
use crate::backend::Several;
use crate::dispatch::Device;
use crate::dispatch::run::Arg;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::host::HostTensor;
use crate::op::transfer::Transfer;
use crate::op::{Op, Rule};
use crate::scalar::Scalar;
use crate::shape::Shape;
use crate::tensor::Tensor;

impl Tensor {
    /// Brings host data to a device; without a copy where the device shares host memory.
    ///
    /// # Errors
    /// Where memory cannot be had or the device cannot store the dtype.
    pub fn from_host(data: HostTensor, device: &Device) -> Result<Tensor> {
        let spec = data.spec().clone();
        if !device.dtype_usage(spec.dtype).storage {
            return Err(Error::dtype(format!("the device cannot store {}", spec.dtype)).with_device(device.name()));
        }
        let upload = |data| device.executor().upload(data);
        let buffer = match upload(data.clone()) {
            Err(error) if device.reclaim(&error) => upload(data),
            result => result,
        };
        let buffer = buffer.map_err(|e| e.with_op("upload", std::slice::from_ref(&spec)).with_device(device.name()))?;
        Ok(Tensor::from_buffer(buffer, spec, device))
    }

    /// A tensor from a vector, row-major.
    ///
    /// # Errors
    /// Where the length is not the shape's element count.
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl Into<Shape>, device: &Device) -> Result<Tensor> {
        Tensor::from_host(HostTensor::from_vec(data, shape)?, device)
    }

    /// A tensor from a slice, row-major.
    ///
    /// # Errors
    /// Where the length is not the shape's element count.
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<Shape>, device: &Device) -> Result<Tensor> {
        Tensor::from_vec(data.to_vec(), shape, device)
    }

    /// A rank-0 tensor.
    ///
    /// # Errors
    /// Where memory cannot be had.
    pub fn scalar<T: Element>(value: T, device: &Device) -> Result<Tensor> {
        Tensor::from_vec(vec![value], (), device)
    }

    /// The elements on the host, row-major. Waits for the device.
    ///
    /// # Errors
    /// Where the device failed, now or in the work that made this tensor.
    pub fn to_host(&self) -> Result<HostTensor> {
        let fail = |e: Error| e.with_op("download", &[self.spec()]).with_device(self.device().name());
        self.device().executor().download(self.view()).map_err(fail)?.wait().map_err(fail)
    }

    /// The elements as a vector, row-major.
    ///
    /// # Errors
    /// Where `T` is not the tensor's dtype, or the device failed.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.to_host()?.into_vec()
    }

    /// The one element of a one-element tensor.
    ///
    /// # Errors
    /// Where there is not exactly one element, or `T` is not the dtype.
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.to_vec::<T>()?.as_slice() {
            [value] => Ok(*value),
            list => Err(Error::shape(format!("has {} elements, not one", list.len())).with_op("item", &[self.spec()])),
        }
    }

    /// The one element of a one-element tensor, whatever its dtype.
    ///
    /// # Errors
    /// Where there is not exactly one element.
    pub fn item_scalar(&self) -> Result<Scalar> {
        match self.to_host()?.scalars().as_slice() {
            [value] => Ok(*value),
            list => Err(Error::shape(format!("has {} elements, not one", list.len())).with_op("item", &[self.spec()])),
        }
    }

    /// The same values on another device. Gradients flow back the same way.
    /// Where the device is already this one, only the handle (and its autodiff setting) changes.
    ///
    /// # Errors
    /// Where either device fails, or the target cannot store the dtype.
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        if self.device() == device {
            return Ok(self.clone().on(device.clone()));
        }
        let moved = Tensor::from_host(self.to_host()?, device)?;
        if !self.is_tracked() {
            return Ok(moved);
        }
        let recording = Recording::new(Transfer.traits(), self.device(), &[Arg::Ref(self)]);
        match recording.finish(&Op::Transfer(Transfer), self.device(), Several::One(moved)) {
            Several::One(tensor) => Ok(tensor),
            Several::Many(_) => Err(Error::backend("a transfer has one output")),
        }
    }
}
