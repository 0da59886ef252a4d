//! The tensor: elements on a device, cheap to clone, with a gradient node where tracked.
//! Most methods stand with their op in `op/`.

mod convert;
mod index;
mod operators;
mod print;
mod quantized;

pub use index::{At, Index, IntoAt};
pub use operators::Expr;
pub use quantized::QTensor;

use std::sync::Arc;

use crate::autodiff::node::Edge;
use crate::backend::View;
use crate::backend::buffer::Buffer;
use crate::dispatch::Device;
use crate::dtype::DType;
use crate::layout::Layout;
use crate::shape::{Shape, TensorSpec};

/// A multi-dimensional array on a device. Clones share the elements; no method changes a tensor in place.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

/// All of a tensor but its elements. Behind one pointer, so that handles cost next to nothing to move and clone.
#[derive(Clone)]
struct Inner {
    view: View,
    device: Device,
    edge: Option<Edge>,
}

impl Tensor {
    #[inline]
    pub(crate) fn from_view(view: View, device: Device) -> Tensor {
        Tensor(Arc::new(Inner { view, device, edge: None }))
    }

    /// Wraps a backend's own buffer as a contiguous tensor.
    pub fn from_buffer(buffer: Buffer, spec: TensorSpec, device: &Device) -> Tensor {
        Tensor::from_view(View::new(buffer, Layout::contiguous(spec.shape), spec.dtype), device.clone())
    }

    /// The extents.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.0.view.layout.shape()
    }

    /// The number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// The number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        self.0.view.layout.elements()
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.view.dtype
    }

    /// Shape and dtype.
    #[inline]
    pub fn spec(&self) -> TensorSpec {
        self.0.view.spec()
    }

    /// The device that the elements live on.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// How the elements lie in their buffer.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.0.view.layout
    }

    /// Buffer, layout and dtype, as backends see them.
    #[inline]
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// The view to be changed: this handle's own, copied first where other handles share it.
    #[inline]
    pub(crate) fn view_mut(&mut self) -> &mut View {
        &mut Arc::make_mut(&mut self.0).view
    }

    #[inline]
    pub(crate) fn edge(&self) -> Option<&Edge> {
        self.0.edge.as_ref()
    }

    /// The edge alone; `None` too where other handles share the tensor, and with it the edge.
    pub(crate) fn into_edge(self) -> Option<Edge> {
        Arc::into_inner(self.0)?.edge
    }

    pub(crate) fn with_edge(mut self, edge: Edge) -> Tensor {
        Arc::make_mut(&mut self.0).edge = Some(edge);
        self
    }

    pub(crate) fn on(mut self, device: Device) -> Tensor {
        Arc::make_mut(&mut self.0).device = device;
        self
    }

    #[inline]
    pub(crate) fn into_detached(mut self) -> Tensor {
        if self.0.edge.is_some() {
            Arc::make_mut(&mut self.0).edge = None;
        }
        self
    }
}
