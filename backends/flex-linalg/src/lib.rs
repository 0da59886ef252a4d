//! Linear algebra on one row-major matrix, by faer, for the CPU backend.
//!
//! A crate of its own, and without types of ubique, because faer is generic and large: its instances for f32 and f64 are
//! compiled here once, and not with every change of a kernel.
#![warn(missing_docs)]

mod generic;

use std::mem::MaybeUninit;

/// Why a matrix has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// An element is infinite or NaN.
    NotFinite,
    /// Elimination found no pivot in this column.
    Singular(usize),
    /// The leading minor that ends with this row is not positive definite.
    NotPositiveDefinite(usize),
    /// The iteration did not come to an end.
    NotConverged,
}

/// A row-major matrix.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    /// The elements, as many as rows times columns.
    pub data: &'a [T],
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
}

/// Memory for a row-major result, all of which is written unless there is a failure.
pub type Target<'a, T> = &'a mut [MaybeUninit<T>];

/// The element types that there are instances for.
pub trait Real: Copy + Send + Sync + 'static {
    /// The lower triangular L of `L·Lᵀ = (A + Aᵀ)/2`, with a positive diagonal.
    ///
    /// # Errors
    /// Where there is none, or an element is not finite.
    fn cholesky(a: Matrix<'_, Self>, l: Target<'_, Self>) -> Result<(), Failure>;

    /// The X of `T·X = B`, where T is the upper or the lower triangle of `a`.
    ///
    /// # Errors
    /// Where an element of the triangle is not finite, or one on the diagonal is 0.
    fn solve_triangular(
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        upper: bool,
        x: Target<'_, Self>,
    ) -> Result<(), Failure>;

    /// L and U, and which row of `a` each row of their product is.
    ///
    /// # Errors
    /// Where an element is not finite, or a column has no pivot.
    fn lu(a: Matrix<'_, Self>, l: Target<'_, Self>, u: Target<'_, Self>) -> Result<Vec<usize>, Failure>;

    /// The X of `A·X = B`.
    ///
    /// # Errors
    /// Where A has no inverse or an element that is not finite.
    fn solve(a: Matrix<'_, Self>, b: Matrix<'_, Self>, x: Target<'_, Self>) -> Result<(), Failure>;

    /// The inverse.
    ///
    /// # Errors
    /// As [`Real::solve`].
    fn inverse(a: Matrix<'_, Self>, y: Target<'_, Self>) -> Result<(), Failure>;

    /// The pivots of elimination and the sign of the exchange of rows: the determinant is their product.
    ///
    /// # Errors
    /// As [`Real::lu`].
    fn pivots(a: Matrix<'_, Self>) -> Result<(f64, Vec<f64>), Failure>;

    /// Q with as many columns as it has room for (those of `a`, the smaller of rows and columns, or all rows), and R with as
    /// many rows, without negative elements on its diagonal.
    ///
    /// # Errors
    /// Where an element is not finite.
    fn qr(a: Matrix<'_, Self>, complete: bool, q: Target<'_, Self>, r: Target<'_, Self>) -> Result<(), Failure>;

    /// Eigenvalues of `(A + Aᵀ)/2` in ascending order, and eigenvectors as columns, multiplied by what `sign` says of them.
    ///
    /// # Errors
    /// Where an element is not finite.
    fn eigh(
        a: Matrix<'_, Self>,
        sign: Sign<'_>,
        values: Target<'_, Self>,
        vectors: Target<'_, Self>,
    ) -> Result<(), Failure>;

    /// U, the singular values in descending order, and Vᵀ, both multiplied by what `sign` says of the columns of U.
    ///
    /// # Errors
    /// Where an element is not finite.
    fn svd(
        a: Matrix<'_, Self>,
        sign: Sign<'_>,
        u: Target<'_, Self>,
        s: Target<'_, Self>,
        vt: Target<'_, Self>,
    ) -> Result<(), Failure>;
}

/// By which sign a vector is multiplied.
pub type Sign<'a> = &'a dyn Fn(&[f64]) -> f64;

/// A method for each function of `generic`, so that its instances are compiled in this crate.
macro_rules! instances {
    ($($ty:ty)*) => {$(
        impl Real for $ty {
            fn cholesky(a: Matrix<'_, $ty>, l: Target<'_, $ty>) -> Result<(), Failure> {
                generic::cholesky(a, l)
            }

            fn solve_triangular(
                a: Matrix<'_, $ty>,
                b: Matrix<'_, $ty>,
                upper: bool,
                x: Target<'_, $ty>,
            ) -> Result<(), Failure> {
                generic::solve_triangular(a, b, upper, x)
            }

            fn lu(a: Matrix<'_, $ty>, l: Target<'_, $ty>, u: Target<'_, $ty>) -> Result<Vec<usize>, Failure> {
                generic::lu(a, l, u)
            }

            fn solve(a: Matrix<'_, $ty>, b: Matrix<'_, $ty>, x: Target<'_, $ty>) -> Result<(), Failure> {
                generic::solve(a, b, x)
            }

            fn inverse(a: Matrix<'_, $ty>, y: Target<'_, $ty>) -> Result<(), Failure> {
                generic::inverse(a, y)
            }

            fn pivots(a: Matrix<'_, $ty>) -> Result<(f64, Vec<f64>), Failure> {
                generic::pivots(a)
            }

            fn qr(
                a: Matrix<'_, $ty>,
                complete: bool,
                q: Target<'_, $ty>,
                r: Target<'_, $ty>,
            ) -> Result<(), Failure> {
                generic::qr(a, complete, q, r)
            }

            fn eigh(
                a: Matrix<'_, $ty>,
                sign: Sign<'_>,
                values: Target<'_, $ty>,
                vectors: Target<'_, $ty>,
            ) -> Result<(), Failure> {
                generic::eigh(a, sign, values, vectors)
            }

            fn svd(
                a: Matrix<'_, $ty>,
                sign: Sign<'_>,
                u: Target<'_, $ty>,
                s: Target<'_, $ty>,
                vt: Target<'_, $ty>,
            ) -> Result<(), Failure> {
                generic::svd(a, sign, u, s, vt)
            }
        }
    )*};
}
instances!(f32 f64);
