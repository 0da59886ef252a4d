//! Triangles and diagonals of matrices.

use crate::error::{Error, Result};
use crate::shape::{Shape, normalize_axis};
use crate::tensor::Tensor;

/// The first row and column of the diagonal that lies `offset` places above the main one.
fn origin(offset: isize) -> (usize, usize) {
    match offset {
        0.. => (0, offset.unsigned_abs()),
        _ => (offset.unsigned_abs(), 0),
    }
}

impl Tensor {
    /// The lower triangle of a matrix, or of each matrix in the last two axes: elements more than `offset` places right of
    /// the main diagonal become 0. Any dtype; the result has the same shape.
    ///
    /// # Errors
    /// Where the rank is below 2.
    pub fn tril(&self, offset: isize) -> Result<Tensor> {
        self.masked_fill(&self.right_of("tril", offset)?, 0)
    }

    /// The upper triangle of a matrix, or of each matrix in the last two axes: elements left of the diagonal that lies
    /// `offset` places right of the main one become 0. Any dtype; the result has the same shape.
    ///
    /// # Errors
    /// Where the rank is below 2.
    pub fn triu(&self, offset: isize) -> Result<Tensor> {
        self.masked_fill(&self.right_of("triu", offset.saturating_sub(1))?.not()?, 0)
    }

    /// Which places of the matrices in the last two axes lie more than `offset` places right of the main diagonal.
    fn right_of(&self, op: &str, offset: isize) -> Result<Tensor> {
        let &[.., rows, columns] = &**self.shape() else {
            return Err(Error::shape("needs a matrix: at least two axes").with_op(op, &[self.spec()]));
        };
        // Beyond these all or none of the places do; the bounds keep the sums below from overflowing.
        let offset = offset.clamp(-(rows as isize) - 1, columns as isize) as i64;
        let row = Tensor::arange(0, rows, 1, self.device().default_int(), self.device())?.unsqueeze(1)?;
        Tensor::arange(0, columns, 1, self.device().default_int(), self.device())?.gt((row + offset).tensor()?)
    }

    /// The elements whose position along `second` is that along `first` plus `offset`, as a new last axis in place of the
    /// two: `[.., m, .., n, ..]` gives `[.., .., .., length]`. Empty where the offset leaves the matrix. Any dtype.
    ///
    /// # Errors
    /// Where an axis is out of range or both are the same.
    pub fn diagonal(&self, offset: isize, first: isize, second: isize) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("diagonal", &[self.spec()]);
        let axis = |axis| normalize_axis(axis, self.rank()).map_err(fail);
        let (first, second) = (axis(first)?, axis(second)?);
        if first == second {
            return Err(fail(Error::shape(format!("a diagonal lies between two axes, not along axis {first} alone"))));
        }
        let others = (0..self.rank()).filter(|&axis| axis != first && axis != second);
        let order: Vec<isize> = others.chain([first, second]).map(|axis| axis as isize).collect();
        let (row, column) = origin(offset);
        let length = self.shape()[first].saturating_sub(row).min(self.shape()[second].saturating_sub(column));
        // Where nothing is taken the origin may lie outside the matrix.
        let (row, column) = if length == 0 { (0, 0) } else { (row, column) };
        let lines = self.permute(&order)?.narrow(-2, row as isize, length)?;
        let shape = lines.shape().with(self.rank() - 1, 1);
        lines.gather(-1, &places(column, length, self)?.expand(shape)?)?.squeeze(-1)
    }

    /// Matrices with the elements of this tensor's last axis on the diagonal that lies `offset` places above the main one,
    /// and 0 elsewhere: `[.., n]` gives `[.., n + |offset|, n + |offset|]`. Any dtype.
    ///
    /// # Errors
    /// Where the rank is 0 or the size overflows.
    pub fn diag_embed(&self, offset: isize) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("diag_embed", &[self.spec()]);
        let &[.., length] = &**self.shape() else {
            return Err(fail(Error::shape("a scalar has no axis to lie on a diagonal")));
        };
        let side = length
            .checked_add(offset.unsigned_abs())
            .ok_or_else(|| fail(Error::shape(format!("{length} elements at offset {offset} overflow"))))?;
        let rank = self.rank();
        self.shape().with(rank - 1, side).inserted(rank, side).bytes(self.dtype()).map_err(fail)?;
        let (row, column) = origin(offset);
        let source = self.unsqueeze(-1)?;
        let index = places(column, length, self)?.expand(source.shape())?;
        Tensor::zeros(source.shape().with(rank, side), self.dtype(), self.device())?
            .scatter(-1, &index, &source, crate::op::index::Combine::Set)?
            .pad_axis(-2, row, side - length - row, 0)
    }

    /// Of a vector `[n]` the matrix with it on a diagonal, of a matrix that diagonal, as numpy's `diag`: `offset` counts
    /// places above the main one. See [`Tensor::diag_embed`] and [`Tensor::diagonal`] for batches. Any dtype.
    ///
    /// # Errors
    /// Where this is neither a vector nor a matrix, or the size overflows.
    pub fn diag(&self, offset: isize) -> Result<Tensor> {
        match self.rank() {
            1 => self.diag_embed(offset),
            2 => self.diagonal(offset, 0, 1),
            rank => {
                Err(Error::shape(format!("takes a vector or a matrix, not rank {rank}"))
                    .with_op("diag", &[self.spec()]))
            }
        }
    }

    /// The sum of the main diagonal of a matrix, or of each matrix in the last two axes: `[.., m, n]` gives `[..]`.
    ///
    /// # Errors
    /// Where the rank is below 2, or for bools.
    pub fn trace(&self) -> Result<Tensor> {
        self.diagonal(0, -2, -1).and_then(|d| d.sum(&[-1])).map_err(|e| e.with_op("trace", &[self.spec()]))
    }
}

/// Column numbers of a diagonal of `length` elements: `[length, 1]`.
fn places(column: usize, length: usize, like: &Tensor) -> Result<Tensor> {
    Tensor::arange(column, column + length, 1, like.device().default_int(), like.device())?
        .reshape(Shape::from([length, 1]))
}
