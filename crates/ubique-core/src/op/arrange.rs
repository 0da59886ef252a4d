//! Tensor methods that put elements in other places and need no op of their own: roll, repeat, tile, embedding and one-hot,
//! and those whose result's size depends on the data.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::index::Combine;
use crate::shape::{Shape, normalize_axis};
use crate::tensor::Tensor;

impl Tensor {
    /// Elements moved on by `shifts` places along `axes`; those that leave an axis come in at its other end.
    ///
    /// # Errors
    /// Where the lists differ in length or an axis is out of range.
    pub fn roll(&self, shifts: &[isize], axes: &[isize]) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("roll", &[self.spec()]);
        if shifts.len() != axes.len() {
            return Err(fail(Error::value(format!("{} shifts for {} axes", shifts.len(), axes.len()))));
        }
        let mut out = self.clone();
        for (&shift, &axis) in shifts.iter().zip(axes) {
            let extent = self.shape()[normalize_axis(axis, self.rank()).map_err(fail)?];
            let shift = if extent == 0 { 0 } else { shift.rem_euclid(extent as isize) as usize };
            if shift != 0 {
                let tail = out.narrow(axis, (extent - shift) as isize, shift)?;
                out = Tensor::concat(&[&tail, &out.narrow(axis, 0, extent - shift)?], axis)?;
            }
        }
        Ok(out)
    }

    /// Each element `count` times in a row along an axis: `[a, b]` becomes `[a, a, b, b]`.
    ///
    /// # Errors
    /// Where the axis is out of range or the size overflows.
    pub fn repeat(&self, count: usize, axis: isize) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("repeat", &[self.spec()]);
        let axis = normalize_axis(axis, self.rank()).map_err(fail)?;
        let extent =
            self.shape()[axis].checked_mul(count).ok_or_else(|| fail(Error::shape("the repeated extent overflows")))?;
        let wide = self.unsqueeze(axis as isize + 1)?;
        wide.expand(wide.shape().with(axis + 1, count))?.reshape(self.shape().with(axis, extent))
    }

    /// The whole tensor over again, `counts` times along each axis: `[a, b]` becomes `[a, b, a, b]`. Where there are more
    /// counts than axes, axes of extent 1 are put in front; where there are fewer, the first axes stay (as numpy's `tile`).
    ///
    /// # Errors
    /// Where the size overflows.
    pub fn tile(&self, counts: &[usize]) -> Result<Tensor> {
        let rank = self.rank().max(counts.len());
        let extents = std::iter::repeat_n(1, rank - self.rank()).chain(self.shape().iter().copied());
        let counts = std::iter::repeat_n(1, rank - counts.len()).chain(counts.iter().copied());
        let (mut split, mut wide, mut tiled) = (Vec::new(), Vec::new(), Vec::new());
        for (extent, count) in extents.zip(counts) {
            split.extend([1, extent]);
            wide.extend([count, extent]);
            tiled.push(extent.checked_mul(count).ok_or_else(|| {
                Error::shape(format!("an extent of {extent} tiled {count} times overflows"))
                    .with_op("tile", &[self.spec()])
            })?);
        }
        self.reshape(split)?.expand(wide)?.reshape(tiled)
    }

    /// Rows of this table `[entries, features…]` in the order of an index of any shape: `[index shape…, features…]`.
    /// The gradient adds to the rows that were taken.
    ///
    /// # Errors
    /// Where this tensor has rank 0, the index is not i64, i32 or u32 or, on host devices, points outside the table.
    pub fn embedding(&self, index: &Tensor) -> Result<Tensor> {
        if self.rank() == 0 {
            let specs = [self.spec(), index.spec()];
            return Err(Error::shape("a table needs at least one axis").with_op("embedding", &specs));
        }
        let shape: Shape = index.shape().iter().chain(&self.shape()[1..]).copied().collect();
        self.index_select(0, &index.reshape([index.elements()])?)?.reshape(shape)
    }

    /// For each class index (i64, i32 or u32) a vector along a new last axis with 1 at that class and 0 elsewhere.
    ///
    /// # Errors
    /// Where the index has another dtype or, on host devices, a class lies outside `0..classes`.
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Result<Tensor> {
        let index = self.unsqueeze(-1)?;
        let ones = Tensor::ones(index.shape(), dtype, self.device())?;
        let shape = self.shape().inserted(self.rank(), classes);
        Tensor::zeros(shape, dtype, self.device())?.scatter(-1, &index, &ones, Combine::Set)
    }

    /// Where the elements that are not 0 stand (NaN is not 0), in row-major order: `[count, rank]`, i64. Waits for the
    /// device, because the result's size depends on the data.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn nonzero(&self) -> Result<Tensor> {
        let places = self.detach().ne(0)?.true_places(DType::I64)?;
        let mut columns = Vec::new();
        let mut stride = 1;
        for &extent in self.shape().iter().rev() {
            columns.push(places.div(stride.max(1))?.rem(extent.max(1))?.unsqueeze(1)?);
            stride *= extent;
        }
        match columns.is_empty() {
            true => Tensor::zeros([places.elements(), 0], DType::I64, self.device()),
            false => Tensor::concat(&columns.iter().rev().collect::<Vec<_>>(), 1),
        }
    }

    /// The elements where a mask is true, in row-major order: rank 1. Tensor and mask broadcast. Waits for the device,
    /// because the result's size depends on the data.
    ///
    /// # Errors
    /// Where the shapes do not broadcast or the mask is not bool.
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("masked_select", &[self.spec(), mask.spec()]);
        if mask.dtype() != DType::Bool {
            return Err(fail(Error::dtype(format!("the mask is {}; it must be bool", mask.dtype()))));
        }
        let shape = self.shape().broadcast(mask.shape()).map_err(fail)?;
        let places = mask.expand(&shape)?.true_places(self.device().default_int())?;
        let flat = self.expand(&shape)?;
        flat.reshape([flat.elements()])?.index_select(0, &places)
    }

    /// Row-major places of the true elements of a mask, by a running count: each true element goes to the place that
    /// the count gives, and all others to one place behind, which is cut off.
    fn true_places(&self, dtype: DType) -> Result<Tensor> {
        let count = self.elements();
        let flat = self.reshape([count])?;
        let running = flat.cast(dtype)?.cumsum(0)?;
        let total = match count {
            0 => 0,
            _ => usize::try_from(running.narrow(0, -1, 1)?.item_scalar()?.as_i128()).unwrap_or(0),
        };
        let target = (running - 1).tensor()?.select(&flat, &Tensor::full((), total, dtype, self.device())?)?;
        let all = Tensor::arange(0, count, 1, dtype, self.device())?;
        Tensor::zeros([total + 1], dtype, self.device())?.scatter(0, &target, &all, Combine::Set)?.narrow(0, 0, total)
    }
}
