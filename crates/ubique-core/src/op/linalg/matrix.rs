//! A small dense matrix for references: plain loops over f64.

use std::ops::{Index, IndexMut};

use super::not_finite;
use crate::error::Result;
use crate::op::reference::RefTensor;
use crate::shape::TensorSpec;

/// A row-major matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f64>,
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;
    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.values[row * self.columns + column]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.values[row * self.columns + column]
    }
}

impl Matrix {
    pub fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Matrix {
        let values = (0..rows * columns).map(|at| f(at / columns, at % columns)).collect();
        Matrix { rows, columns, values }
    }

    pub fn identity(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |row, column| (row == column) as u8 as f64)
    }

    pub fn transposed(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |row, column| self[(column, row)])
    }

    /// The mean of the matrix and its transpose.
    pub fn symmetric_part(&self) -> Matrix {
        Matrix::from_fn(self.rows, self.columns, |row, column| 0.5 * (self[(row, column)] + self[(column, row)]))
    }

    pub fn column(&self, column: usize) -> impl Iterator<Item = f64> + Clone + '_ {
        (0..self.rows).map(move |row| self[(row, column)])
    }

    pub fn is_finite(&self) -> bool {
        self.values.iter().all(|v| v.is_finite())
    }

    pub fn swap_rows(&mut self, a: usize, b: usize) {
        (0..self.columns).for_each(|column| self.values.swap(a * self.columns + column, b * self.columns + column));
    }

    /// The columns p and q turned by an angle of which cosine and sine are given.
    pub fn rotate_columns(&mut self, p: usize, q: usize, cos: f64, sin: f64) {
        for row in 0..self.rows {
            let (x, y) = (self[(row, p)], self[(row, q)]);
            (self[(row, p)], self[(row, q)]) = (cos * x - sin * y, sin * x + cos * y);
        }
    }

    /// The rows p and q turned, as [`Matrix::rotate_columns`] does with columns.
    pub fn rotate_rows(&mut self, p: usize, q: usize, cos: f64, sin: f64) {
        for column in 0..self.columns {
            let (x, y) = (self[(p, column)], self[(q, column)]);
            (self[(p, column)], self[(q, column)]) = (cos * x - sin * y, sin * x + cos * y);
        }
    }

    /// The columns in another order.
    pub fn take_columns(&self, order: &[usize]) -> Matrix {
        Matrix::from_fn(self.rows, order.len(), |row, column| self[(row, order[column])])
    }
}

/// The matrices in the last two axes, one after the other.
pub fn matrices(x: &RefTensor) -> Vec<Matrix> {
    let (values, rank) = (x.floats(), x.shape().rank());
    let (rows, columns) = (x.shape()[rank - 2], x.shape()[rank - 1]);
    let count = x.shape()[..rank - 2].iter().product();
    let matrix = |at: usize| values[at * rows * columns..(at + 1) * rows * columns].to_vec();
    (0..count).map(|at| Matrix { rows, columns, values: matrix(at) }).collect()
}

/// As [`matrices`], refused where an element is not finite.
pub fn finite_matrices(x: &RefTensor) -> Result<Vec<Matrix>> {
    let all = matrices(x);
    match all.iter().position(|m| !m.is_finite()) {
        Some(at) => Err(not_finite(at, all.len())),
        None => Ok(all),
    }
}

/// Matrices, or other parts of a batch, one after the other.
pub fn join(spec: &TensorSpec, parts: impl IntoIterator<Item = Vec<f64>>) -> RefTensor {
    RefTensor::float(spec.shape.clone(), spec.dtype, parts.into_iter().flatten().collect())
}
