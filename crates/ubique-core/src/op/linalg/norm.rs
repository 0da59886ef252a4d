//! Norms of matrices.

use super::extents;
use crate::error::Result;
use crate::tensor::Tensor;

/// Which norm of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatrixNorm {
    /// Frobenius': the root of the sum of all squares.
    Frobenius,
    /// The sum of the singular values.
    Nuclear,
    /// The largest singular value.
    Spectral,
    /// The largest sum of magnitudes of a column.
    One,
    /// The largest sum of magnitudes of a row.
    Infinity,
}

impl Tensor {
    /// A norm of a matrix `[.., m, n]` in f32 or f64: `[..]`.
    ///
    /// # Errors
    /// Where there are fewer than two axes or the dtype is another; where the matrix is empty, for norms that are a largest
    /// value; as [`Tensor::svd`], for norms that are made of singular values.
    pub fn matrix_norm(&self, norm: MatrixNorm) -> Result<Tensor> {
        let fail = |e: crate::Error| e.with_op("matrix_norm", &[self.spec()]);
        extents(&self.spec()).map_err(fail)?;
        let value = || match norm {
            MatrixNorm::Frobenius => self.norm(2.0, &[-2, -1]),
            MatrixNorm::Nuclear => self.svd()?.1.sum(&[-1]),
            MatrixNorm::Spectral => self.svd()?.1.max(&[-1]),
            MatrixNorm::One => self.abs()?.sum(&[-2])?.max(&[-1]),
            MatrixNorm::Infinity => self.abs()?.sum(&[-1])?.max(&[-1]),
        };
        value().map_err(fail)
    }
}
