//! Products of tensors beside the matrix product: Kronecker, cross, and sums over chosen axes.

use crate::error::{Error, Result};
use crate::shape::{Shape, normalize_axis};
use crate::tensor::Tensor;

impl Tensor {
    /// The Kronecker product: each element of this tensor times the whole of `other`, in its place. Extents multiply; the
    /// tensor of lower rank gets axes of extent 1 in front. Any one dtype.
    ///
    /// # Errors
    /// Where dtypes differ or the size overflows.
    pub fn kron(&self, other: &Tensor) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("kron", &[self.spec(), other.spec()]);
        let rank = self.rank().max(other.rank());
        let of_rank = |x: &Tensor| -> Vec<usize> {
            std::iter::repeat_n(1, rank - x.rank()).chain(x.shape().iter().copied()).collect()
        };
        let (a, b) = (of_rank(self), of_rank(other));
        let product = |(&a, &b): (&usize, &usize)| {
            a.checked_mul(b).ok_or_else(|| fail(Error::shape(format!("extents {a} and {b} multiplied overflow"))))
        };
        let shape: Vec<usize> = a.iter().zip(&b).map(product).collect::<Result<_>>()?;
        let a = self.reshape(a.iter().flat_map(|&extent| [extent, 1]).collect::<Shape>())?;
        let b = other.reshape(b.iter().flat_map(|&extent| [1, extent]).collect::<Shape>())?;
        (a * b).tensor().map_err(fail)?.reshape(shape)
    }

    /// The cross product of vectors of three elements along `axis`; the shapes broadcast, and the axis is counted in the
    /// shape that they broadcast to. Any one number dtype.
    ///
    /// # Errors
    /// Where shapes do not broadcast, the axis is out of range or its extent is not 3, or dtypes differ or are bool.
    pub fn cross(&self, other: &Tensor, axis: isize) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("cross", &[self.spec(), other.spec()]);
        let shape = self.shape().broadcast(other.shape()).map_err(fail)?;
        let at = normalize_axis(axis, shape.rank()).map_err(fail)?;
        if shape[at] != 3 {
            return Err(fail(Error::shape(format!("axis {axis} has extent {}, not 3", shape[at]))));
        }
        let (a, b, axes) = (self.expand(&shape)?, other.expand(&shape)?, [at as isize]);
        let (next, after) =
            (a.roll(&[-1], &axes)? * b.roll(&[-2], &axes)?, a.roll(&[-2], &axes)? * b.roll(&[-1], &axes)?);
        (next - after).tensor().map_err(fail)
    }

    /// Products summed over pairs of axes, the i-th of `axes` with the i-th of `others`: the result has this tensor's other
    /// axes and then `other`'s, in their order. No axes at all give the outer product. Any one number dtype.
    ///
    /// # Errors
    /// Where the lists differ in length, an axis is out of range or named twice, the extents of a pair differ, dtypes differ
    /// or are bool, or the size overflows.
    pub fn tensordot(&self, other: &Tensor, axes: &[isize], others: &[isize]) -> Result<Tensor> {
        let fail = |e: Error| e.with_op("tensordot", &[self.spec(), other.spec()]);
        let (a, b) = (Sides::new(self, axes).map_err(fail)?, Sides::new(other, others).map_err(fail)?);
        let (inner, right_inner) = (a.extents(&a.summed), b.extents(&b.summed));
        if inner != right_inner {
            return Err(fail(Error::shape(format!(
                "the axes to sum over are {inner} on the left, {right_inner} on the right"
            ))));
        }
        let (rows, columns) = (a.extents(&a.kept), b.extents(&b.kept));
        let product = || {
            let (m, k, n) = (rows.elements()?, inner.elements()?, columns.elements()?);
            let left = a.ordered(&a.kept, &a.summed)?.reshape([m, k])?;
            left.matmul(&b.ordered(&b.summed, &b.kept)?.reshape([k, n])?)?
                .reshape(rows.iter().chain(columns.iter()).copied().collect::<Shape>())
        };
        product().map_err(fail)
    }
}

/// The axes of an operand that are summed over, in the order given, and those that stay.
struct Sides<'a> {
    tensor: &'a Tensor,
    summed: Vec<usize>,
    kept: Vec<usize>,
}

impl<'a> Sides<'a> {
    fn new(tensor: &'a Tensor, axes: &[isize]) -> Result<Sides<'a>> {
        let summed = axes.iter().map(|&axis| normalize_axis(axis, tensor.rank())).collect::<Result<Vec<_>>>()?;
        if let Some((_, axis)) = summed.iter().enumerate().find(|&(i, axis)| summed[..i].contains(axis)) {
            return Err(Error::shape(format!("axis {axis} is named twice in {axes:?}")));
        }
        let kept = (0..tensor.rank()).filter(|axis| !summed.contains(axis)).collect();
        Ok(Sides { tensor, summed, kept })
    }

    fn extents(&self, axes: &[usize]) -> Shape {
        axes.iter().map(|&axis| self.tensor.shape()[axis]).collect()
    }

    fn ordered(&self, first: &[usize], second: &[usize]) -> Result<Tensor> {
        self.tensor.permute(&first.iter().chain(second).map(|&axis| axis as isize).collect::<Vec<_>>())
    }
}
