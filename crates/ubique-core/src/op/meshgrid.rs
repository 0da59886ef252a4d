//! Coordinates of the points of a grid.

use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Which axis of a grid runs along which vector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Indexing {
    /// The i-th axis along the i-th vector: rows first, as matrices are indexed.
    #[default]
    Ij,
    /// The first two exchanged: columns first, as points in a plane are named.
    Xy,
}

impl Tensor {
    /// For each of n vectors its elements spread over the grid that all of them span, without copying: element
    /// `[i, j, ..]` of the results is `x[i]`, `y[j]`, .. (and `[j, i, ..]` with [`Indexing::Xy`]). Scalars count as vectors
    /// of one element. The dtypes may differ.
    ///
    /// # Errors
    /// Where a tensor has more than one axis or the size overflows.
    pub fn meshgrid(vectors: &[&Tensor], indexing: Indexing) -> Result<Vec<Tensor>> {
        let fail = |e: Error| e.with_op("meshgrid", &vectors.iter().map(|v| v.spec()).collect::<Vec<_>>());
        if let Some(vector) = vectors.iter().find(|v| v.rank() > 1) {
            return Err(fail(Error::shape(format!("takes vectors, got {}", vector.spec()))));
        }
        let mut axes: Vec<usize> = (0..vectors.len()).collect();
        if let ([first, second, ..], Indexing::Xy) = (&mut axes[..], indexing) {
            std::mem::swap(first, second);
        }
        let shape: Shape = axes.iter().map(|&axis| vectors[axis].elements()).collect();
        let spread = |(vector, &axis): (&&Tensor, &usize)| {
            vector.reshape(Shape::repeat(1, vectors.len()).with(axis, vector.elements()))?.expand(&shape)
        };
        vectors.iter().zip(&axes).map(spread).collect::<Result<_>>().map_err(fail)
    }
}
