//! Matrix products and determinants.

use ubique_core::{DType, Result, Tensor};

use super::{Row, one};
use crate::call::Outcome;
use crate::onnx::node::Node;

pub const ROWS: &[Row] = &[
    ("Det", |n| one(n.x(0)?.det())),
    ("MatMul", |n| one(n.x(0)?.matmul(n.x(1)?))),
    ("MatMulInteger", |n| one(centred(n, 0, 2)?.matmul(&centred(n, 1, 3)?))),
    ("Gemm", gemm),
    ("Einsum", |n| one(Tensor::einsum(n.text("equation", "")?, &n.all()?))),
];

/// Small integers less their zero point, wide enough for products.
pub fn centred(n: &Node<'_>, position: usize, zero: usize) -> Outcome<Tensor> {
    let x = n.x(position)?.cast(DType::I32)?;
    Ok(match n.maybe(zero)? {
        Some(zero) => x.sub(&zero.cast(DType::I32)?)?,
        None => x,
    })
}

/// `alpha · a' b' + beta · c`.
fn gemm(n: &Node<'_>) -> Outcome {
    let side = |x: &Tensor, transposed: bool| -> Result<Tensor> { if transposed { x.t() } else { Ok(x.clone()) } };
    let a = side(n.x(0)?, n.flag("transA", false)?)?;
    let b = side(n.x(1)?, n.flag("transB", false)?)?;
    let product = a.matmul(&b)?.mul(n.float("alpha", 1.0)?)?;
    let beta = n.float("beta", 1.0)?;
    match n.maybe(2)? {
        Some(c) => one(product.add(&c.mul(beta)?)),
        None => Ok(vec![product]),
    }
}
