//! Elements and slices taken from and put to places that several indices at once name.

use crate::error::{Error, ErrorKind, Result};
use crate::op::index::{Combine, index_tensor};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Where the rows of an index `[.., k]` point in a tensor whose first k axes are joined into one.
struct Places {
    /// Row-major positions in the first k axes, one for each row; -1 where an index is out of range.
    flat: Tensor,
    /// The index's shape without its last axis.
    lead: Shape,
    /// How many positions there are.
    reach: usize,
    /// The extents of the axes that are not indexed.
    rest: Shape,
}

impl Places {
    fn new(x: &Tensor, index: &Tensor) -> Result<Places> {
        if !index.dtype().is_int() {
            return Err(Error::dtype(format!("the index is {}; it must be an integer dtype", index.dtype())));
        }
        let Some((&count, lead)) = index.shape().split_last().filter(|&(&count, _)| count <= x.rank()) else {
            let message =
                format!("the last axis of the index {} has to hold up to {} numbers", index.shape(), x.rank());
            return Err(Error::shape(message));
        };
        let (indexed, rest) = x.shape().split_at(count);
        let reach = Shape::from(indexed).elements()?;
        let int = x.device().default_int();
        if int.wrap(reach as i128) != reach as i128 {
            return Err(Error::index(format!("{int}, the device's dtype of indices, cannot count {reach} places")));
        }
        let strides: Vec<i64> = (0..count).map(|axis| indexed[axis + 1..].iter().product::<usize>() as i64).collect();
        let of_axes = |values: Vec<i64>| index_tensor(values, [count], x.device());
        let extents = of_axes(indexed.iter().map(|&extent| extent as i64).collect())?;
        let lead = Shape::from(lead);
        let numbers = index.cast(int)?.reshape([lead.elements()?, count])?;
        let inside = numbers.ge(0)?.bit_and(&numbers.lt(&extents)?)?.all(&[1])?;
        let flat = (numbers * of_axes(strides)?).tensor()?.sum(&[1])?.masked_fill(&inside.not()?, -1)?;
        Ok(Places { flat, lead, reach, rest: Shape::from(rest) })
    }

    /// The shape of the elements that the index names.
    fn shape(&self) -> Shape {
        self.lead.iter().chain(self.rest.iter()).copied().collect()
    }

    /// Says of an index out of range what was given, and not where it led.
    fn explain(&self, error: Error, x: &Tensor) -> Error {
        if error.kind() != ErrorKind::Index {
            return error;
        }
        let indexed = Shape::from(&x.shape()[..x.rank() - self.rest.rank()]);
        Error::index(format!("an index lies outside the first axes, whose extents are {indexed}"))
    }
}

impl Tensor {
    /// Elements or slices at places that the last axis of an index names: an index `[.., k]` of any integer dtype holds
    /// positions along the first k axes, and the result has the index's other axes and then this tensor's other axes. Any
    /// dtype. With k equal to the rank it takes single elements. The gradient adds to the places that were taken.
    ///
    /// # Errors
    /// Where the index has rank 0, more numbers than this tensor has axes or another dtype or, on host devices, points
    /// outside an axis.
    pub fn gather_nd(&self, index: &Tensor) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("gather_nd", &[self.spec(), index.spec()]);
        let places = Places::new(self, index).map_err(fail)?;
        let rows: Shape = [places.reach].into_iter().chain(places.rest.iter().copied()).collect();
        let taken = self.reshape(rows)?.index_select(0, &places.flat);
        taken.map_err(|e| fail(places.explain(e, self)))?.reshape(places.shape())
    }

    /// This tensor with elements or slices of `source` put to the places that [`Tensor::gather_nd`] would take for the same
    /// index; the source has the shape of what that gives. Where a place is named several times, [`Combine::Set`] leaves the
    /// last, and the others combine all; [`Combine::Mul`] has no gradient.
    ///
    /// # Errors
    /// As [`Tensor::gather_nd`], and where the source has another shape or dtype.
    pub fn scatter_nd(&self, index: &Tensor, source: &Tensor, combine: Combine) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("scatter_nd", &[self.spec(), index.spec(), source.spec()]);
        let places = Places::new(self, index).map_err(fail)?;
        if *source.shape() != places.shape() {
            let message = format!("the source is {}, the index names {}", source.shape(), places.shape());
            return Err(fail(Error::shape(message)));
        }
        let put = || {
            let (count, width) = (places.lead.elements()?, places.rest.elements()?);
            let (rows, source) = (self.reshape([places.reach, width])?, source.reshape([count, width])?);
            match combine {
                Combine::Add => rows.index_add(0, &places.flat, &source),
                _ => rows.scatter(0, &places.flat.unsqueeze(1)?.expand([count, width])?, &source, combine),
            }
        };
        put().map_err(|e| fail(places.explain(e, self)))?.reshape(self.shape())
    }
}
