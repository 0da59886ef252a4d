//! Least squares and pseudoinverses, composed of factorisations.

use super::{extents, sides};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// The X that makes the columns of `A·X - B` shortest, where this A is `[.., m, n]` in f32 or f64, of full rank, and B
    /// `[.., m, k]`, or a vector `[m]`; leading axes broadcast. Where there are fewer equations than unknowns, m < n, it is the
    /// shortest of the exact solutions. For a matrix that is not of full rank, multiply B by [`Tensor::pinv`].
    ///
    /// # Errors
    /// Where shapes or dtypes do not fit, or (see [`crate::op::linalg`]) a matrix is not of full rank.
    pub fn lstsq(&self, b: &Tensor) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("lstsq", &[self.spec(), b.spec()]);
        let (_, m, n) = extents(&self.spec()).map_err(fail)?;
        let (a, b, vector) = sides(self, b).map_err(fail)?;
        if b.dtype() != a.dtype() || b.shape()[b.rank() - 2] != m {
            return Err(fail(Error::shape(format!("the right side has to have {m} rows and dtype {}", a.dtype()))));
        }
        let x = if m >= n {
            let (q, r) = a.qr(false)?;
            r.solve_triangular(&q.t()?.matmul(&b)?, true)
        } else {
            let (q, r) = a.t()?.qr(false)?;
            r.t()?.solve_triangular(&b, false).and_then(|y| q.matmul(&y))
        };
        let x = x.map_err(|e| fail(e.context("the matrix is not of full rank")))?;
        if vector { x.squeeze(-1) } else { Ok(x) }
    }

    /// The pseudoinverse (Moore and Penrose) `[.., n, m]` of a matrix `[.., m, n]` in f32 or f64. Singular values up to
    /// `tolerance` times the largest count as 0; by default the tolerance is the larger extent times the dtype's epsilon. Its
    /// gradient is that of [`Tensor::svd`].
    ///
    /// # Errors
    /// As [`Tensor::svd`].
    pub fn pinv(&self, tolerance: Option<f64>) -> Result<Tensor> {
        let (_, m, n) = extents(&self.spec()).map_err(|e| e.with_op("pinv", &[self.spec()]))?;
        if m.min(n) == 0 {
            return self.t();
        }
        let epsilon = if self.dtype() == crate::DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON };
        let (u, s, vt) = self.svd()?;
        let bound = (s.detach().narrow(-1, 0, 1)? * tolerance.unwrap_or(epsilon * m.max(n) as f64)).tensor()?;
        let nothing = s.detach().le(&bound)?;
        let inverses = s.masked_fill(&nothing, 1)?.recip()?.masked_fill(&nothing, 0)?;
        (vt.t()? * inverses.unsqueeze(-2)?).then(|v| v.matmul(&u.t()?)).tensor()
    }
}
