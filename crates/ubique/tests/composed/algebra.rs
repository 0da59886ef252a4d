//! Triangles, diagonals, grids, and products of tensors.

use ubique::op::meshgrid::Indexing;
use ubique::{DType, Tensor};

use crate::{assert_gradient, assert_values, counting, error, tensor};

#[test]
fn triangles_are_cut_at_the_offset() {
    let x = counting(&[2, 3], DType::I32);
    assert_values(x.tril(0), &[2, 3], &[0.0, 0.0, 0.0, 3.0, 4.0, 0.0]);
    assert_values(x.tril(1), &[2, 3], &[0.0, 1.0, 0.0, 3.0, 4.0, 5.0]);
    assert_values(x.triu(0), &[2, 3], &[0.0, 1.0, 2.0, 0.0, 4.0, 5.0]);
    assert_values(x.triu(-1), &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    for offset in [isize::MIN, isize::MAX] {
        let (low, high) = if offset > 0 { (x.tril(offset), x.triu(offset)) } else { (x.triu(offset), x.tril(offset)) };
        assert_values(low, &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_values(high, &[2, 3], &[0.0; 6]);
    }
    assert_values(tensor(&[f64::NAN; 4], &[2, 2]).tril(-1), &[2, 2], &[0.0, 0.0, f64::NAN, 0.0]);
    assert_gradient(&[&[2, 3, 3]], |x| x[0].tril(0));
    assert_gradient(&[&[3, 4]], |x| x[0].triu(1));
    assert_eq!(error(counting(&[3], DType::F32).tril(0)), "tril(f32[3]): needs a matrix: at least two axes");
}

#[test]
fn diagonals_are_taken_and_laid() {
    let x = counting(&[3, 4], DType::I64);
    assert_values(x.diag(0), &[3], &[0.0, 5.0, 10.0]);
    assert_values(x.diag(2), &[2], &[2.0, 7.0]);
    assert_values(x.diag(-1), &[2], &[4.0, 9.0]);
    assert_values(x.diag(isize::MAX), &[0], &[]);
    assert_values(x.diag(isize::MIN), &[0], &[]);
    let v = tensor(&[1.0f32, 2.0], &[2]);
    assert_values(v.diag(0), &[2, 2], &[1.0, 0.0, 0.0, 2.0]);
    assert_values(v.diag(1), &[3, 3], &[0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    assert_values(v.diag(-1), &[3, 3], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    let batch = counting(&[2, 3, 2], DType::F64);
    assert_values(batch.diagonal(0, 0, 2), &[3, 2], &[0.0, 7.0, 2.0, 9.0, 4.0, 11.0]);
    assert_values(batch.diagonal(-1, -2, -1), &[2, 2], &[2.0, 5.0, 8.0, 11.0]);
    assert_values(batch.trace(), &[2], &[3.0, 15.0]);
    assert_values(counting(&[0, 3], DType::F32).trace(), &[], &[0.0]);
    assert!(error(v.diag(isize::MAX)).contains("more"));
    // No matrices at all may be of any size.
    let side = 1 + isize::MIN.unsigned_abs();
    assert_values(counting(&[0, 1], DType::F64).diag_embed(isize::MIN), &[0, side, side], &[]);
    assert!(error(x.diagonal(0, 1, -1)).contains("between two axes"));
    assert!(error(batch.diag(0)).contains("rank 3"));
    assert_gradient(&[&[2, 3, 4]], |x| x[0].diagonal(1, 2, 0));
    assert_gradient(&[&[2, 3]], |x| x[0].diag_embed(-2));
    assert_gradient(&[&[2, 3, 3]], |x| x[0].trace());
}

#[test]
fn grids_run_along_their_vectors() {
    let (x, y) = (tensor(&[1i32, 2, 3], &[3]), tensor(&[0.5f32, 1.5], &[2]));
    let ij = Tensor::meshgrid(&[&x, &y], Indexing::Ij).unwrap();
    assert_values(Ok(ij[0].clone()), &[3, 2], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    assert_values(Ok(ij[1].clone()), &[3, 2], &[0.5, 1.5, 0.5, 1.5, 0.5, 1.5]);
    let xy = Tensor::meshgrid(&[&x, &y], Indexing::Xy).unwrap();
    assert_values(Ok(xy[0].clone()), &[2, 3], &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_values(Ok(xy[1].clone()), &[2, 3], &[0.5, 0.5, 0.5, 1.5, 1.5, 1.5]);
    assert!(Tensor::meshgrid(&[], Indexing::Xy).unwrap().is_empty());
    assert!(error(Tensor::meshgrid(&[&x, &ij[0]], Indexing::Ij)).contains("takes vectors, got i32[3, 2]"));
    assert_gradient(&[&[2], &[3], &[]], |v| {
        let grid = Tensor::meshgrid(&[&v[0], &v[1], &v[2]], Indexing::Xy)?;
        (&grid[0] * &grid[1] * &grid[2]).tensor()
    });
}

#[test]
fn kronecker_and_cross_products() {
    let (a, b) = (tensor(&[1i64, 2], &[2]), tensor(&[1i64, 10, 100, 1000], &[2, 2]));
    assert_values(a.kron(&b), &[2, 4], &[1.0, 10.0, 2.0, 20.0, 100.0, 1000.0, 200.0, 2000.0]);
    assert_values(b.kron(&a), &[2, 4], &[1.0, 2.0, 10.0, 20.0, 100.0, 200.0, 1000.0, 2000.0]);
    assert_gradient(&[&[2, 3], &[2]], |x| x[0].kron(&x[1]));

    let (x, y) = (tensor(&[1i32, 2, 3], &[3]), tensor(&[4i32, 5, 6], &[3]));
    assert_values(x.cross(&y, 0), &[3], &[-3.0, 6.0, -3.0]);
    let columns = y.unsqueeze(1).unwrap();
    assert_values(columns.cross(&columns.expand([3, 2]).unwrap(), 0), &[3, 2], &[0.0; 6]);
    assert!(error(a.cross(&a, 0)).contains("axis 0 has extent 2, not 3"));
    assert_gradient(&[&[3, 2], &[3, 1]], |x| x[0].cross(&x[1], -2));
}

#[test]
fn sums_over_pairs_of_axes() {
    let (a, b) = (counting(&[2, 3, 4], DType::F64), counting(&[4, 2, 5], DType::F64));
    let by_hand = |i: usize, j: usize| {
        let pairs = (0..2).flat_map(|p| (0..4).map(move |q| (p, q)));
        pairs.map(|(p, q)| (p * 12 + i * 4 + q) as f64 * (q * 10 + p * 5 + j) as f64).sum::<f64>()
    };
    let expected: Vec<f64> = (0..3).flat_map(|i| (0..5).map(move |j| by_hand(i, j))).collect();
    assert_values(a.tensordot(&b, &[0, 2], &[1, 0]), &[3, 5], &expected);
    assert_values(Tensor::einsum("piq,qpj->ij", &[&a, &b]), &[3, 5], &expected);
    let v = tensor(&[2i32, 3], &[2]);
    assert_values(v.tensordot(&v, &[], &[]), &[2, 2], &[4.0, 6.0, 6.0, 9.0]);
    assert!(error(a.tensordot(&b, &[0], &[0])).contains("[2] on the left, [4] on the right"));
    assert!(error(a.tensordot(&b, &[0, 0], &[1, 1])).contains("named twice"));
    assert!(a.tensordot(&b, &[0, 2], &[1]).is_err());
    assert_gradient(&[&[2, 3, 2], &[2, 2, 3]], |x| x[0].tensordot(&x[1], &[1, -1], &[2, 0]));
}

#[test]
fn einsum_follows_the_notation() {
    let x = counting(&[2, 3], DType::I64);
    let square = counting(&[3, 3], DType::I64);
    let v = tensor(&[1i64, 10, 100], &[3]);
    let sum = |equation: &str, tensors: &[&Tensor]| Tensor::einsum(equation, tensors);
    assert_values(sum("ji", &[&x]), &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_values(sum("ij->", &[&x]), &[], &[15.0]);
    assert_values(sum("ij -> j", &[&x]), &[3], &[3.0, 5.0, 7.0]);
    assert_values(sum("ii", &[&square]), &[], &[12.0]);
    assert_values(sum("ii->i", &[&square]), &[3], &[0.0, 4.0, 8.0]);
    assert_values(sum("ij,j", &[&x, &v]), &[2], &[210.0, 543.0]);
    assert_values(sum("i,i->i", &[&v, &v]), &[3], &[1.0, 100.0, 10000.0]);
    assert_values(sum("ba,b->ab", &[&x, &tensor(&[1i64, 2], &[2])]), &[3, 2], &[0.0, 6.0, 1.0, 8.0, 2.0, 10.0]);
    assert_values(sum("i,j,ij->", &[&tensor(&[1i64, 2], &[2]), &v, &x]), &[], &[210.0 + 2.0 * 543.0]);
    assert_values(sum("ij,kj->", &[&x, &square]), &[], &[3.0 * 9.0 + 5.0 * 12.0 + 7.0 * 15.0]);
    assert_values(sum("...i->...", &[&x]), &[2], &[3.0, 12.0]);
    assert_values(sum("...i->i", &[&x]), &[3], &[3.0, 5.0, 7.0]);
    assert_values(sum("...,...", &[&x, &v]), &[2, 3], &[0.0, 10.0, 200.0, 3.0, 40.0, 500.0]);
    assert_values(sum("...ij,j...->i", &[&x, &v]), &[2], &[210.0, 543.0]);
    // An extent of 1 broadcasts to what it meets.
    assert_values(sum("i,i->", &[&tensor(&[7i64], &[1]), &v]), &[], &[777.0]);
    assert_values(sum("i,i", &[&counting(&[0], DType::F32), &counting(&[0], DType::F32)]), &[], &[0.0]);
}

#[test]
fn einsum_refuses_what_it_cannot_read() {
    let x = counting(&[2, 3], DType::F32);
    for (equation, reason) in [
        ("ij,jk", "names 2 operands, 1 are given"),
        ("ijk", "3 axes are named for an operand of rank 2"),
        ("i", "1 axes are named for an operand of rank 2"),
        ("i1", "is not a letter"),
        ("ij->ii", "named twice or not at all"),
        ("ij->k", "named twice or not at all"),
        ("ii", "share a name, but not their extent: 2, 3"),
        ("i->j->k", "is not a letter"),
        ("......", "is not a letter"),
    ] {
        let text = error(Tensor::einsum(equation, &[&x]));
        assert!(text.contains(reason) && text.starts_with("einsum(f32[2, 3])"), "{equation}: {text}");
    }
    assert!(error(Tensor::einsum("ij,ij", &[&x, &x.t().unwrap()])).contains("axis `i` has extents 2 and 3"));
    assert!(Tensor::einsum("", &[]).is_err());
}

#[test]
fn einsum_has_a_gradient() {
    assert_gradient(&[&[2, 3, 2], &[2, 2, 3]], |x| Tensor::einsum("bij,bjk->bki", &[&x[0], &x[1]]));
    assert_gradient(&[&[3, 3], &[3], &[2]], |x| Tensor::einsum("ii,i,k->ik", &[&x[0], &x[1], &x[2]]));
    assert_gradient(&[&[2, 1, 3], &[3, 2]], |x| Tensor::einsum("...i,ij", &[&x[0], &x[1]]));
}
