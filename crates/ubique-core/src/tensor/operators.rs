//! `+ - * / % & | ^ << >>` and unary `-` and `!` on tensors, references, scalars and results.
//!
//! Operators can fail, and Rust's `?` cannot stand inside `a + b * c` without breaking the line at every step. So an
//! operator gives an [`Expr`], which holds the tensor or the first error and goes on being an operand;
//! [`Expr::tensor`] at the end of the chain gives the `Result`:
//!
//! ```ignore
//! let y = ((&x - &mean) * 2.0 / (&variance + 1e-5).then(Tensor::sqrt)).tensor()?;
//! ```
//!
//! Scalars are `f64`, `i64` (so that literals need no suffix), or a [`Scalar`] made of any other number.

use std::ops;

use crate::dispatch::run::Arg;
use crate::error::{Error, Result};
use crate::op::binary::{Binary, Rhs, binary, binary_reversed};
use crate::scalar::Scalar;
use crate::tensor::Tensor;

/// The outcome of an operator: a tensor, or the first error of the chain.
#[derive(Clone, Debug)]
#[must_use = "an expression may hold an error: end it with .tensor()?"]
pub struct Expr(Result<Tensor>);

impl Expr {
    /// The tensor, or the first error of the chain.
    ///
    /// # Errors
    /// The first operator's error.
    #[inline]
    pub fn tensor(self) -> Result<Tensor> {
        self.0
    }

    /// Goes on with a method in the middle of a chain: `(a + b).then(Tensor::exp) * c`.
    pub fn then(self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Expr {
        Expr(self.0.and_then(|t| f(&t)))
    }
}

impl From<Expr> for Result<Tensor> {
    #[inline]
    fn from(expr: Expr) -> Result<Tensor> {
        expr.0
    }
}

/// Anything that can stand beside an operator.
trait Side<'a> {
    fn side(self) -> Result<Rhs<'a>>;
}

impl<'a> Side<'a> for &'a Tensor {
    #[inline]
    fn side(self) -> Result<Rhs<'a>> {
        Ok(Rhs::Tensor(Arg::Ref(self)))
    }
}

impl<'a> Side<'a> for Tensor {
    #[inline]
    fn side(self) -> Result<Rhs<'a>> {
        Ok(Rhs::Tensor(Arg::Own(self)))
    }
}

impl<'a> Side<'a> for Expr {
    #[inline]
    fn side(self) -> Result<Rhs<'a>> {
        self.0?.side()
    }
}

impl<'a> Side<'a> for Result<Tensor> {
    #[inline]
    fn side(self) -> Result<Rhs<'a>> {
        self?.side()
    }
}

struct Value(Scalar);
impl<'a> Side<'a> for Value {
    #[inline]
    fn side(self) -> Result<Rhs<'a>> {
        Ok(Rhs::Scalar(self.0))
    }
}

#[inline(always)]
fn apply<'a>(op: Binary, left: impl Side<'a>, right: impl Side<'a>) -> Expr {
    let run = || match (left.side()?, right.side()?) {
        (Rhs::Tensor(left), right) => binary(op, left, right),
        (Rhs::Scalar(left), Rhs::Tensor(right)) => binary_reversed(op, left, right),
        (Rhs::Scalar(_), Rhs::Scalar(_)) => Err(Error::value("an operator needs a tensor on one side")),
    };
    Expr(run())
}

// The operator traits want one impl for each pair of types; there is no other way to write them than by macro.
macro_rules! pairs {
    ($trait:ident, $method:ident, $op:ident: $(($left:ty, $right:ty))*) => {$(
        impl ops::$trait<$right> for $left {
            type Output = Expr;
            #[inline]
            fn $method(self, right: $right) -> Expr {
                apply(Binary::$op, self, right)
            }
        }
    )*};
}

macro_rules! scalars {
    ($trait:ident, $method:ident, $op:ident: $($scalar:ty)*) => {$(
        scalars!(@left $trait, $method, $op, $scalar: (Tensor) (&Tensor) (Expr));
    )*};
    (@left $trait:ident, $method:ident, $op:ident, $scalar:ty: $(($tensor:ty))*) => {$(
        impl ops::$trait<$scalar> for $tensor {
            type Output = Expr;
            #[inline]
            fn $method(self, right: $scalar) -> Expr {
                apply(Binary::$op, self, Value(right.into()))
            }
        }
        impl ops::$trait<$tensor> for $scalar {
            type Output = Expr;
            #[inline]
            fn $method(self, right: $tensor) -> Expr {
                apply(Binary::$op, Value(self.into()), right)
            }
        }
    )*};
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $op:ident;)*) => {$(
        pairs!($trait, $method, $op:
            (Tensor, Tensor) (Tensor, &Tensor) (Tensor, Expr) (Tensor, Result<Tensor>)
            (&Tensor, Tensor) (&Tensor, &Tensor) (&Tensor, Expr) (&Tensor, Result<Tensor>)
            (Expr, Tensor) (Expr, &Tensor) (Expr, Expr) (Expr, Result<Tensor>)
            (Result<Tensor>, Tensor) (Result<Tensor>, &Tensor) (Result<Tensor>, Expr)
        );
        scalars!($trait, $method, $op: f64 i64 Scalar);
    )*};
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    Rem, rem, Rem;
    BitAnd, bitand, And;
    BitOr, bitor, Or;
    BitXor, bitxor, Xor;
    Shl, shl, Shl;
    Shr, shr, Shr;
}

macro_rules! prefix {
    ($($trait:ident, $method:ident, $call:ident: $(($ty:ty, |$v:ident| $result:expr))*;)*) => {$($(
        impl ops::$trait for $ty {
            type Output = Expr;
            fn $method(self) -> Expr {
                let $v = self;
                Expr($result.and_then(|t| Tensor::$call(&t)))
            }
        }
    )*)*};
}

prefix! {
    Neg, neg, neg: (&Tensor, |t| Ok::<&Tensor, Error>(t)) (Tensor, |t| Ok::<Tensor, Error>(t)) (Expr, |e| e.0);
    Not, not, bit_not: (&Tensor, |t| Ok::<&Tensor, Error>(t)) (Tensor, |t| Ok::<Tensor, Error>(t)) (Expr, |e| e.0);
}
