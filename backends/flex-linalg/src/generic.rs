//! The calls of faer, for any element type of its.

use std::mem::MaybeUninit;

use faer::linalg::solvers::{Llt, PartialPivLu, Qr, SelfAdjointEigen, Solve, Svd};
use faer::linalg::{cholesky::llt::factor::LltError, triangular_solve};
use faer::traits::RealField;
use faer::{Mat, MatMut, MatRef, Par, Side};

use crate::{Failure, Matrix, Sign, Target};

/// What is needed of an element type.
pub trait Element: RealField + Copy + Into<f64> {
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
}

impl Element for f32 {
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
}

impl Element for f64 {
    fn from_f64(value: f64) -> f64 {
        value
    }
}

fn wide<T: Element>(x: T) -> f64 {
    x.into()
}

impl<'a, T: Element> Matrix<'a, T> {
    fn view(self) -> MatRef<'a, T> {
        MatRef::from_row_major_slice(self.data, self.rows, self.columns)
    }

    fn finite(self) -> Result<MatRef<'a, T>, Failure> {
        if self.data.iter().all(|&x| wide(x).is_finite()) { Ok(self.view()) } else { Err(Failure::NotFinite) }
    }

    fn symmetric_part(self) -> Result<Mat<T>, Failure> {
        let (a, half) = (self.finite()?, T::from_f64(0.5));
        Ok(Mat::from_fn(self.rows, self.columns, |i, j| a[(i, j)] * half + a[(j, i)] * half))
    }

    /// The factors of a matrix with a pivot in each column. faer goes on from a missing one with infinities.
    fn eliminated(self) -> Result<PartialPivLu<T>, Failure> {
        let lu = PartialPivLu::new(self.finite()?);
        let pivot = |&i: &usize| wide(lu.U()[(i, i)]);
        let missing = |i: &usize| pivot(i) == 0.0 || !pivot(i).is_finite();
        match (0..self.rows.min(self.columns)).find(missing) {
            Some(column) => Err(Failure::Singular(column)),
            None => Ok(lu),
        }
    }
}

/// Fills a row-major target of so many columns element by element.
fn put<T>(target: Target<'_, T>, columns: usize, f: impl Fn(usize, usize) -> T) {
    for (i, row) in target.chunks_mut(columns.max(1)).enumerate() {
        for (j, slot) in row.iter_mut().enumerate() {
            slot.write(f(i, j));
        }
    }
}

pub fn cholesky<T: Element>(a: Matrix<'_, T>, l: Target<'_, T>) -> Result<(), Failure> {
    let factor = Llt::new(a.symmetric_part()?.as_ref(), Side::Lower);
    let factor = factor.map_err(|LltError::NonPositivePivot { index }| Failure::NotPositiveDefinite(index))?;
    put(l, a.columns, |i, j| factor.L()[(i, j)]);
    Ok(())
}

pub fn solve_triangular<T: Element>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    upper: bool,
    x: Target<'_, T>,
) -> Result<(), Failure> {
    let (t, n, right) = (a.view(), a.rows, b.view());
    let row = |i: usize| if upper { i..n } else { 0..i + 1 };
    if (0..n).any(|i| row(i).any(|j| !wide(t[(i, j)]).is_finite())) {
        return Err(Failure::NotFinite);
    }
    if let Some(column) = (0..n).find(|&i| wide(t[(i, i)]) == 0.0) {
        return Err(Failure::Singular(column));
    }
    put(x, b.columns, |i, j| right[(i, j)]);
    // SAFETY: every element was written just above, and `MaybeUninit` has the layout of what it holds.
    let x = unsafe { &mut *(x as *mut [MaybeUninit<T>] as *mut [T]) };
    let x = MatMut::from_row_major_slice_mut(x, b.rows, b.columns);
    match upper {
        true => triangular_solve::solve_upper_triangular_in_place(t, x, Par::Seq),
        false => triangular_solve::solve_lower_triangular_in_place(t, x, Par::Seq),
    }
    Ok(())
}

pub fn lu<T: Element>(a: Matrix<'_, T>, l: Target<'_, T>, u: Target<'_, T>) -> Result<Vec<usize>, Failure> {
    let factors = a.eliminated()?;
    put(l, a.rows.min(a.columns), |i, j| factors.L()[(i, j)]);
    put(u, a.columns, |i, j| factors.U()[(i, j)]);
    Ok(factors.P().arrays().0.to_vec())
}

pub fn solve<T: Element>(a: Matrix<'_, T>, b: Matrix<'_, T>, x: Target<'_, T>) -> Result<(), Failure> {
    let solution = a.eliminated()?.solve(b.view());
    put(x, b.columns, |i, j| solution[(i, j)]);
    Ok(())
}

pub fn inverse<T: Element>(a: Matrix<'_, T>, y: Target<'_, T>) -> Result<(), Failure> {
    let inverse = a.eliminated()?.solve(Mat::<T>::identity(a.rows, a.rows));
    put(y, a.columns, |i, j| inverse[(i, j)]);
    Ok(())
}

pub fn pivots<T: Element>(a: Matrix<'_, T>) -> Result<(f64, Vec<f64>), Failure> {
    let lu = a.eliminated()?;
    Ok((parity(lu.P().arrays().0), (0..a.rows).map(|i| wide(lu.U()[(i, i)])).collect()))
}

/// -1 where a permutation is an odd number of exchanges, otherwise 1: a cycle of length n is n - 1 of them.
fn parity(permutation: &[usize]) -> f64 {
    let (mut seen, mut sign) = (vec![false; permutation.len()], 1.0);
    for start in 0..permutation.len() {
        let mut at = permutation[start];
        while !seen[start] && at != start {
            seen[at] = true;
            at = permutation[at];
            sign = -sign;
        }
    }
    sign
}

pub fn qr<T: Element>(a: Matrix<'_, T>, complete: bool, q: Target<'_, T>, r: Target<'_, T>) -> Result<(), Failure> {
    let factors = Qr::new(a.finite()?);
    let (basis, triangle) = (if complete { factors.compute_Q() } else { factors.compute_thin_Q() }, factors.thin_R());
    let zero = T::from_f64(0.0);
    let turned = |i: usize| i < triangle.nrows() && triangle[(i, i)] < zero;
    put(q, basis.ncols(), |i, j| if turned(j) { zero - basis[(i, j)] } else { basis[(i, j)] });
    put(r, a.columns, |i, j| match () {
        () if i > j || i >= triangle.nrows() => zero,
        () if turned(i) => zero - triangle[(i, j)],
        () => triangle[(i, j)],
    });
    Ok(())
}

/// What the columns are multiplied by.
fn signs<T: Element>(sign: Sign<'_>, vectors: MatRef<'_, T>) -> Vec<T> {
    let column = |j: usize| (0..vectors.nrows()).map(|i| wide(vectors[(i, j)])).collect::<Vec<f64>>();
    (0..vectors.ncols()).map(|j| T::from_f64(sign(&column(j)))).collect()
}

pub fn eigh<T: Element>(
    a: Matrix<'_, T>,
    sign: Sign<'_>,
    values: Target<'_, T>,
    vectors: Target<'_, T>,
) -> Result<(), Failure> {
    if a.data.is_empty() {
        return Ok(());
    }
    let eigen = SelfAdjointEigen::new(a.symmetric_part()?.as_ref(), Side::Lower);
    let eigen = eigen.map_err(|_| Failure::NotConverged)?;
    let (s, u) = (eigen.S().column_vector(), eigen.U());
    let signs = signs(sign, u);
    put(values, 1, |i, _| s[i]);
    put(vectors, a.columns, |i, j| u[(i, j)] * signs[j]);
    Ok(())
}

pub fn svd<T: Element>(
    a: Matrix<'_, T>,
    sign: Sign<'_>,
    u: Target<'_, T>,
    s: Target<'_, T>,
    vt: Target<'_, T>,
) -> Result<(), Failure> {
    let factors = Svd::new_thin(a.finite()?).map_err(|_| Failure::NotConverged)?;
    let (left, values, right) = (factors.U(), factors.S().column_vector(), factors.V());
    let signs = signs(sign, left);
    put(u, left.ncols(), |i, j| left[(i, j)] * signs[j]);
    put(s, 1, |i, _| values[i]);
    put(vt, a.columns, |i, j| right[(j, i)] * signs[i]);
    Ok(())
}
