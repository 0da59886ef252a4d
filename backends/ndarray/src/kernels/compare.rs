//! Comparisons of two tensors, or of a tensor and a scalar.

use ubique_core::backend::View;
use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pool::HostPool;
use ubique_core::op::binary::{Compare, CompareScalar};
use ubique_core::{Result, Scalar, Shape};

use super::dtype::{Number, WithNumber, with_number};
use super::walk::{self, Lane, Target, both, both_commutative, pair_bits};

/// The second operand.
enum Right<'a> {
    Tensor(&'a View),
    Scalar(Scalar),
}

struct Call<'a> {
    pool: &'a HostPool,
    op: Compare,
    left: &'a View,
    right: Right<'a>,
    shape: &'a Shape,
}

/// Compares two tensors.
pub fn compare(pool: &HostPool, op: Compare, left: &View, right: &View, shape: &Shape) -> Result<Buffer> {
    with_number(left.dtype, Call { pool, op, left, right: Right::Tensor(right), shape })
}

/// Compares a tensor with a scalar.
pub fn compare_scalar(pool: &HostPool, op: &CompareScalar, left: &View, shape: &Shape) -> Result<Buffer> {
    with_number(left.dtype, Call { pool, op: op.op, left, right: Right::Scalar(op.scalar), shape })
}

impl WithNumber for Call<'_> {
    type Output = Result<Buffer>;
    fn run<T: Number>(self) -> Result<Buffer> {
        let Call { pool, op, left, right, shape } = self;
        // What is greater than another is what the other is less than.
        let reversed = matches!(op, Compare::Gt | Compare::Ge);
        let kernel = pair_bits(kernel::<T>(op));
        match right {
            Right::Tensor(right) if reversed => walk::zip(pool, right, left, shape, &kernel),
            Right::Tensor(right) => walk::zip(pool, left, right, shape, &kernel),
            Right::Scalar(scalar) => walk::with_scalar(pool, left, scalar.to_bits(left.dtype)?, reversed, &kernel),
        }
    }
}

/// Anything compared with NaN is false, except that it differs. Results are bools as bytes. What is greater, or equal,
/// comes with its operands the other way round.
fn kernel<T: Number>(op: Compare) -> fn(Lane<'_, T>, Lane<'_, T>, Target<'_, u8>) {
    match op {
        Compare::Eq => |a, b, t| both_commutative(a, b, t, |a: T, b: T| u8::from(a == b)),
        Compare::Ne => |a, b, t| both_commutative(a, b, t, |a: T, b: T| u8::from(a != b)),
        Compare::Lt | Compare::Gt => |a, b, t| both(a, b, t, |a: T, b: T| u8::from(a < b)),
        Compare::Le | Compare::Ge => |a, b, t| both(a, b, t, |a: T, b: T| u8::from(a <= b)),
    }
}
