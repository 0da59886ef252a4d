//! The tensor: elements on a device, cheap to clone, with a gradient node where tracked.
//! Most methods stand with their op in `op/`.

mod convert;
mod index;
mod operators;
mod print;

pub use index::{At, IntoAt};
pub use operators::Expr;

use crate::autodiff::node::Edge;
use crate::backend::View;
use crate::backend::buffer::Buffer;
use crate::dispatch::Device;
use crate::dtype::DType;
use crate::layout::Layout;
use crate::shape::{Shape, TensorSpec};

/// A multi-dimensional array on a device. Clones share the elements; no method changes a tensor in place.
#[derive(Clone)]
pub struct Tensor {
    view: View,
    device: Device,
    edge: Option<Edge>,
}

impl Tensor {
    #[inline]
    pub(crate) fn from_view(view: View, device: Device) -> Tensor {
        Tensor { view, device, edge: None }
    }

    /// Wraps a backend's own buffer as a contiguous tensor.
    pub fn from_buffer(buffer: Buffer, spec: TensorSpec, device: &Device) -> Tensor {
        Tensor::from_view(View { buffer, layout: Layout::contiguous(spec.shape), dtype: spec.dtype }, device.clone())
    }

    /// The extents.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.view.layout.shape()
    }

    /// The number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// The number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        self.view.layout.elements()
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// Shape and dtype.
    #[inline]
    pub fn spec(&self) -> TensorSpec {
        self.view.spec()
    }

    /// The device that the elements live on.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How the elements lie in their buffer.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.view.layout
    }

    /// Buffer, layout and dtype, as backends see them.
    #[inline]
    pub fn view(&self) -> &View {
        &self.view
    }

    #[inline]
    pub(crate) fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    #[inline]
    pub(crate) fn into_view(self) -> View {
        self.view
    }

    #[inline]
    pub(crate) fn edge(&self) -> Option<&Edge> {
        self.edge.as_ref()
    }

    pub(crate) fn with_edge(self, edge: Edge) -> Tensor {
        Tensor { edge: Some(edge), ..self }
    }

    pub(crate) fn on(self, device: Device) -> Tensor {
        Tensor { device, ..self }
    }

    #[inline]
    pub(crate) fn into_detached(self) -> Tensor {
        Tensor { edge: None, ..self }
    }
}
