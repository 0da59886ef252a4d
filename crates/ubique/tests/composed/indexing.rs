//! Places named by several indices, replaced parts, and extrema with their places.

use ubique::op::index::Combine;
use ubique::{At, DType, IntoAt, Tensor};

use crate::{assert_gradient, assert_values, counting, error, tensor};

#[test]
fn several_indices_name_elements_and_slices() {
    let x = counting(&[2, 3, 2], DType::F32);
    let pairs = tensor(&[1i32, 0, 0, 2], &[2, 2]);
    assert_values(x.gather_nd(&pairs), &[2, 2], &[6.0, 7.0, 4.0, 5.0]);
    assert_values(x.gather_nd(&tensor(&[1u8, 2, 1], &[3])), &[], &[11.0]);
    assert_values(
        x.gather_nd(&tensor::<i64>(&[], &[2, 0])),
        &[2, 2, 3, 2],
        &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.],
    );
    assert_values(x.gather_nd(&tensor::<i64>(&[], &[0, 2])), &[0, 2], &[]);
    // One index out of range must not lead to an element of another row.
    for outside in [[0i64, 3], [1, -1], [i64::MAX, 0], [i64::MIN, 2]] {
        let text = error(x.gather_nd(&tensor(&outside, &[2])));
        assert!(text.starts_with("gather_nd") && text.contains("whose extents are [2, 3]"), "{text}");
    }
    assert!(error(x.gather_nd(&tensor(&[0i64; 4], &[4]))).contains("up to 3 numbers"));
    assert!(error(x.gather_nd(&tensor(&[0f32], &[1]))).contains("integer dtype"));
    assert_gradient(&[&[2, 3, 2]], |x| {
        x[0].gather_nd(&Tensor::from_vec(vec![1i64, 0, 1, 0, 0, 2], [3, 2], x[0].device())?)
    });
}

#[test]
fn several_indices_name_where_to_put() {
    let x = Tensor::ones([2, 3], DType::I64, &crate::device()).unwrap();
    let index = tensor(&[0i64, 1, 1, 2, 0, 1], &[3, 2]);
    let source = tensor(&[5i64, 6, -7], &[3]);
    let put = |combine| x.scatter_nd(&index, &source, combine);
    assert_values(put(Combine::Set), &[2, 3], &[1.0, -7.0, 1.0, 1.0, 1.0, 6.0]);
    assert_values(put(Combine::Add), &[2, 3], &[1.0, -1.0, 1.0, 1.0, 1.0, 7.0]);
    assert_values(put(Combine::Mul), &[2, 3], &[1.0, -35.0, 1.0, 1.0, 1.0, 6.0]);
    assert_values(put(Combine::Min), &[2, 3], &[1.0, -7.0, 1.0, 1.0, 1.0, 1.0]);
    assert_values(put(Combine::Max), &[2, 3], &[1.0, 5.0, 1.0, 1.0, 1.0, 6.0]);
    let rows = x.scatter_nd(&tensor(&[1i64], &[1, 1]), &counting(&[1, 3], DType::I64), Combine::Set);
    assert_values(rows, &[2, 3], &[1.0, 1.0, 1.0, 0.0, 1.0, 2.0]);
    assert!(error(x.scatter_nd(&index, &tensor(&[5i64], &[1]), Combine::Set)).contains("the index names [3]"));
    assert!(
        error(x.scatter_nd(&tensor(&[2i64, 0], &[1, 2]), &tensor(&[5i64], &[1]), Combine::Add)).contains("outside")
    );
    for combine in [Combine::Set, Combine::Add, Combine::Min, Combine::Max] {
        assert_gradient(&[&[3, 2], &[2, 2]], |x| {
            x[0].scatter_nd(&Tensor::from_vec(vec![2i64, 0], [2, 1], x[0].device())?, &x[1], combine)
        });
    }
}

#[test]
fn parts_are_replaced() {
    let x = counting(&[2, 4], DType::I32);
    let part = tensor(&[-1i32, -2], &[2]);
    assert_values(x.slice_assign((.., (..).by(2)), &part), &[2, 4], &[-1.0, 1.0, -2.0, 3.0, -1.0, 5.0, -2.0, 7.0]);
    assert_values(x.slice_assign((1, 1..3), &part), &[2, 4], &[0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 7.0]);
    assert_values(
        x.slice_assign((0, (0..2).by(-1)), &part.narrow(0, 0, 1).unwrap()),
        &[2, 4],
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
    );
    assert_values(x.select_assign(-1, -2, &part), &[2, 4], &[0.0, 1.0, -1.0, 3.0, 4.0, 5.0, -2.0, 7.0]);
    assert_values(x.slice_assign(At::Ellipsis, &tensor(&[9i32], &[])), &[2, 4], &[9.0; 8]);
    assert!(error(x.slice_assign((0, 7), &part)).contains("position 7"));
    assert!(error(x.slice_assign(0, &tensor(&[1i32; 3], &[3]))).contains("[3]"));
    assert!(error(x.slice_assign(0, &tensor(&[1f32], &[1]))).contains("f32"));
    assert!(x.select_assign(2, 0, &part).is_err());
    assert_gradient(&[&[3, 4], &[2]], |x| x[0].slice_assign((0..2, 1), &x[1]));
    assert_gradient(&[&[3, 4], &[3, 1]], |x| x[0].slice_assign((.., 1..), &x[1]));

    let mask = tensor(&[true, false, false, true], &[4]);
    assert_values(x.mask_where(&mask, &tensor(&[-5i32], &[1])), &[2, 4], &[-5.0, 1.0, 2.0, -5.0, -5.0, 5.0, 6.0, -5.0]);
}

#[test]
fn running_extrema_know_where_they_come_from() {
    let x = tensor(&[1.0, 3.0, 3.0, 2.0, f64::NAN, 9.0], &[6]);
    let (values, places) = x.cummax_with_indices(0).unwrap();
    assert_values(Ok(values), &[6], &[1.0, 3.0, 3.0, 3.0, f64::NAN, f64::NAN]);
    assert_values(Ok(places), &[6], &[0.0, 1.0, 2.0, 2.0, 4.0, 4.0]);
    let (values, places) = tensor(&[4i32, 5, 2, 7], &[2, 2]).cummin_with_indices(0).unwrap();
    assert_values(Ok(values), &[2, 2], &[4.0, 5.0, 2.0, 5.0]);
    assert_values(Ok(places), &[2, 2], &[0.0, 0.0, 1.0, 0.0]);
    assert!(error(x.cummin_with_indices(1)).starts_with("cummin_with_indices"));
    assert_gradient(&[&[2, 5]], |x| Ok(x[0].cummax_with_indices(1)?.0));

    assert_values(tensor(&[3i32, 9, 5], &[3]).argtopk(2, 0, true), &[2], &[1.0, 2.0]);
    assert_values(tensor(&[3i32, -9, 5, 0], &[2, 2]).max_abs(&[1]), &[2], &[9.0, 5.0]);
    assert_gradient(&[&[3, 4]], |x| x[0].max_abs(&[0]));
}

#[test]
fn remainders_keep_the_sign_of_either_side() {
    let (a, b) = (tensor(&[7.5, -7.5, 7.5, -7.5, 1.0], &[5]), tensor(&[2.0, 2.0, -2.0, -2.0, 0.0], &[5]));
    assert_values(a.fmod(&b), &[5], &[1.5, -1.5, 1.5, -1.5, f64::NAN]);
    assert_values(a.rem(&b), &[5], &[1.5, 0.5, -0.5, -1.5, f64::NAN]);
    assert_values(
        tensor(&[7i32, -7, i32::MIN, 3], &[4]).fmod(tensor(&[4i32, 4, -1, 0], &[4])),
        &[4],
        &[3.0, -3.0, 0.0, 0.0],
    );
}
