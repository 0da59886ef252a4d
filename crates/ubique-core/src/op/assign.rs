//! Copies of a tensor with a part replaced.

use crate::error::{Error, Result};
use crate::op::index::Combine;
use crate::shape::normalize_axis;
use crate::tensor::{At, Index, Tensor};

impl Tensor {
    /// This tensor with the part that [`Tensor::at`] would take for the same positions and ranges replaced by `source`,
    /// which broadcasts to that part's shape. Any one dtype; the gradient of what is replaced is 0.
    ///
    /// # Errors
    /// Where [`Tensor::at`] refuses the positions, the source does not broadcast, or dtypes or devices differ.
    pub fn slice_assign(&self, index: impl Index, source: &Tensor) -> Result<Tensor> {
        assign(self, index, source).map_err(|e| e.with_op("slice_assign", &[self.spec(), source.spec()]))
    }

    /// This tensor with the slice at one position of an axis (-1 is the last) replaced by `source`, which broadcasts to this
    /// tensor's shape without that axis. Any one dtype.
    ///
    /// # Errors
    /// Where axis or position are out of range, the source does not broadcast, or dtypes or devices differ.
    pub fn select_assign(&self, axis: isize, position: isize, source: &Tensor) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("select_assign", &[self.spec(), source.spec()]);
        let axis = normalize_axis(axis, self.rank()).map_err(fail)?;
        let mut entries = vec![At::Range { start: None, end: None, step: 1 }; axis];
        entries.push(At::Index(position));
        assign(self, &entries[..], source).map_err(fail)
    }

    /// This tensor with the elements of `source` where `mask` is true; all three broadcast. What [`Tensor::select`] gives
    /// with the roles exchanged: `source.select(mask, self)`.
    ///
    /// # Errors
    /// Where shapes do not broadcast, dtypes differ, or the mask is not bool.
    pub fn mask_where(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        source.select(mask, self)
    }
}

/// Looks at the positions of all elements as at the tensor itself, and puts the source where that leads.
fn assign(x: &Tensor, index: impl Index, source: &Tensor) -> Result<Tensor> {
    let count = x.elements();
    let places = Tensor::arange(0, count, 1, x.device().default_int(), x.device())?.reshape(x.shape())?.at(index)?;
    let source = source.expand(places.shape())?.reshape([places.elements()])?;
    let places = places.reshape([places.elements()])?;
    x.reshape([count])?.scatter(0, &places, &source, Combine::Set)?.reshape(x.shape())
}
