//! Quantiles, searches in sorted sequences, and counts.

use ubique::op::quantile::Interpolation::{self, Higher, Linear, Lower, Midpoint, Nearest};
use ubique::op::search::Side;
use ubique::{DType, Tensor};

use crate::{assert_gradient, assert_values, counting, error, tensor};

#[test]
fn quantiles_lie_between_elements() {
    let x = tensor(&[30.0, 10.0, 40.0, 20.0], &[4]);
    for (q, interpolation, expected) in [
        (0.0, Linear, 10.0),
        (1.0, Linear, 40.0),
        (0.4, Linear, 22.0),
        (0.4, Lower, 20.0),
        (0.4, Higher, 30.0),
        (0.4, Nearest, 20.0),
        (0.4, Midpoint, 25.0),
        // Both neighbours are equally near: the even place.
        (0.5, Nearest, 30.0),
        (1.0, Higher, 40.0),
        (1.0, Midpoint, 40.0),
    ] {
        assert_values(x.quantile(q, 0, interpolation, false), &[], &[expected]);
    }
    let rows = tensor(&[3.0f32, 1.0, 2.0, 5.0, f32::NAN, 4.0], &[2, 3]);
    assert_values(rows.median(1, true), &[2, 1], &[2.0, f64::NAN]);
    assert_values(rows.quantile(0.0, -2, Lower, false), &[3], &[3.0, f64::NAN, 2.0]);
    let infinite = tensor(&[f64::NEG_INFINITY, 1.0, f64::INFINITY, f64::INFINITY], &[4]);
    assert_values(infinite.median(0, false), &[], &[f64::INFINITY]);
    assert_values(infinite.quantile(0.9, 0, Linear, false), &[], &[f64::INFINITY]);
    assert_values(infinite.quantile(0.1, 0, Linear, false), &[], &[f64::NEG_INFINITY]);
    // Rounding does not move equal elements.
    let same = Tensor::full([5], 0.1, DType::F64, &crate::device()).unwrap();
    assert_eq!(same.quantile(0.33, 0, Linear, false).unwrap().item::<f64>().unwrap(), 0.1);
}

#[test]
fn several_quantiles_come_from_one_sort() {
    let x = tensor(&[4.0, 1.0, 3.0, 2.0, 8.0, f64::INFINITY, 6.0, 7.0], &[2, 4]);
    assert_values(x.quantiles(&[0.5, 0.0, 0.25], 1, Linear, false), &[3, 2], &[2.5, 7.5, 1.0, 6.0, 1.75, 6.75]);
    // A weight of 0 beside others does not see the infinite neighbour.
    assert_values(x.quantiles(&[2.0 / 3.0, 0.1], -1, Linear, true), &[2, 2, 1], &[3.0, 8.0, 1.3, 6.3]);
    assert_values(
        x.quantiles(&[1.0, 0.4], 0, Higher, false),
        &[2, 4],
        &[8.0, f64::INFINITY, 6.0, 7.0, 8.0, f64::INFINITY, 6.0, 7.0],
    );
    assert_values(x.quantiles(&[], 0, Linear, true), &[0, 1, 4], &[]);
    assert_values(tensor(&[f64::NAN, 1.0], &[2]).quantiles(&[0.0, 1.0], 0, Lower, false), &[2], &[f64::NAN; 2]);
    assert!(error(x.quantiles(&[0.5, 1.5], 0, Linear, false)).starts_with("quantiles(f64[2, 4])"));
    for interpolation in [Linear, Midpoint, Nearest] {
        assert_gradient(&[&[3, 4, 2]], |x| x[0].quantiles(&[0.2, 0.9, 0.5], 1, interpolation, false));
    }
}

#[test]
fn quantiles_refuse_and_differentiate() {
    let x = counting(&[2, 0], DType::F32);
    assert!(error(x.quantile(0.5, 1, Linear, false)).contains("axis 1 has no elements"));
    assert!(error(x.median(2, false)).starts_with("median(f32[2, 0])"));
    assert!(error(counting(&[3], DType::I32).median(0, false)).contains("floating-point"));
    for q in [-0.1, 1.1, f64::NAN] {
        assert!(error(counting(&[3], DType::F32).quantile(q, 0, Linear, false)).contains("0..=1"));
    }
    assert_values(x.median(0, false), &[0], &[]);
    for interpolation in [Interpolation::default(), Lower, Higher, Nearest, Midpoint] {
        assert_gradient(&[&[3, 4]], |x| x[0].quantile(0.3, 1, interpolation, false));
    }
    assert_gradient(&[&[4, 2]], |x| x[0].median(0, true));
}

#[test]
fn values_find_their_places() {
    let sorted = tensor(&[1i32, 3, 3, 3, 7], &[5]);
    let values = tensor(&[0i32, 1, 2, 3, 7, 8], &[2, 3]);
    assert_values(sorted.searchsorted(&values, Side::Left), &[2, 3], &[0.0, 0.0, 1.0, 1.0, 4.0, 5.0]);
    assert_values(sorted.searchsorted(&values, Side::Right), &[2, 3], &[0.0, 1.0, 1.0, 4.0, 5.0, 5.0]);
    assert_values(values.bucketize(&sorted, Side::Right), &[2, 3], &[0.0, 1.0, 1.0, 4.0, 5.0, 5.0]);
    let nan = tensor(&[1.0, f64::INFINITY, f64::NAN, f64::NAN], &[4]);
    let places = |side| nan.searchsorted(&tensor(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY], &[3]), side);
    assert_values(places(Side::Left), &[3], &[2.0, 1.0, 0.0]);
    assert_values(places(Side::Right), &[3], &[4.0, 2.0, 0.0]);
    let rows = tensor(&[1.0f32, 2.0, 10.0, 20.0], &[2, 2]);
    let each = tensor(&[1.5f32, 3.0, 1.5, 15.0, 20.0, 21.0], &[2, 3]);
    assert_values(rows.searchsorted(&each, Side::Left), &[2, 3], &[1.0, 2.0, 1.0, 1.0, 1.0, 2.0]);
    assert_values(counting(&[0], DType::F32).searchsorted(&each, Side::Left), &[2, 3], &[0.0; 6]);
    for count in [1usize, 2, 3, 4, 7, 8, 9, 31, 32, 33] {
        let sorted = counting(&[count], DType::F64);
        let all: Vec<f64> = (0..count).map(|i| i as f64).collect();
        assert_values(sorted.searchsorted(&sorted, Side::Left), &[count], &all);
    }
    assert!(error(rows.searchsorted(&each.t().unwrap(), Side::Left)).contains("leading axes"));
    assert!(error(each.bucketize(&rows, Side::Left)).contains("a vector"));
    assert!(error(sorted.searchsorted(&each, Side::Left)).contains("i32"));
}

#[test]
fn numbers_are_counted() {
    let x = tensor(&[1u8, 3, 1, 0, 1], &[5]);
    assert_values(x.bincount(None, 0), &[4], &[1.0, 3.0, 0.0, 1.0]);
    assert_values(x.bincount(None, 6), &[6], &[1.0, 3.0, 0.0, 1.0, 0.0, 0.0]);
    let weights = tensor(&[0.5, 1.0, 0.25, 2.0, 0.125], &[5]);
    assert_values(x.bincount(Some(&weights), 0), &[4], &[2.0, 0.875, 0.0, 1.0]);
    assert_values(counting(&[0], DType::I64).bincount(None, 2), &[2], &[0.0, 0.0]);
    assert!(error(tensor(&[2i32, -1], &[2]).bincount(None, 0)).contains("from -1 to 2"));
    assert!(tensor(&[u64::MAX], &[1]).bincount(None, 0).is_err());
    assert!(tensor(&[i64::MAX], &[1]).bincount(None, 0).is_err());
    assert!(error(x.bincount(Some(&counting(&[2], DType::F32)), 0)).contains("[2] weights for [5]"));
    assert!(counting(&[2], DType::F32).bincount(None, 0).is_err());
    assert_gradient(&[&[4]], |w| Tensor::from_vec(vec![2i64, 0, 2, 1], [4], w[0].device())?.bincount(Some(&w[0]), 4));
}

#[test]
fn histograms_count_what_lies_in_each_bin() {
    let x = tensor(&[0.0, 0.5, 0.99, 1.0, 1.5, 2.0, -0.1, 2.1, f64::NAN, f64::INFINITY], &[2, 5]);
    let (counts, edges) = x.histogram(2, 0.0, 2.0, None, false).unwrap();
    assert_values(Ok(counts), &[2], &[3.0, 3.0]);
    assert_values(Ok(edges), &[3], &[0.0, 1.0, 2.0]);
    let (counts, edges) = counting(&[10], DType::I16).histogram(3, 0.0, 9.0, None, false).unwrap();
    assert_values(Ok(counts), &[3], &[3.0, 3.0, 4.0]);
    assert_eq!(edges.dtype(), DType::F64);
    let (counts, edges) = counting(&[0], DType::F16).histogram(1, -1.0, 1.0, None, false).unwrap();
    assert_values(Ok(counts), &[1], &[0.0]);
    assert_eq!(edges.dtype(), DType::F32);
    // The last edge is the bound itself, however the steps round.
    let tenths = tensor(&[0.7, 0.1, 0.3], &[3]).histogram(7, 0.0, 0.7, None, false).unwrap();
    assert_eq!(tenths.1.to_vec::<f64>().unwrap()[7], 0.7);
    assert_eq!(tenths.0.sum_all().unwrap().item::<i64>().unwrap(), 3);
    for (bins, low, high) in [(0, 0.0, 1.0), (2, 1.0, 1.0), (2, 0.0, f64::NAN), (2, f64::NEG_INFINITY, 0.0)] {
        assert!(error(x.histogram(bins, low, high, None, false)).starts_with("histogram(f64[2, 5])"));
    }
    assert!(error(tensor(&[true], &[1]).histogram(1, 0.0, 1.0, None, false)).contains("bool"));
}

#[test]
fn histograms_weigh_and_are_densities() {
    let x = tensor(&[0.5, 1.5, 1.0, 3.0, 5.0, f64::NAN], &[2, 3]);
    let weights = tensor(&[1.0f32, 2.0, 0.5, 4.5, f32::NAN, f32::NAN], &[2, 3]);
    let (sums, edges) = x.histogram(2, 0.0, 4.0, Some(&weights), false).unwrap();
    assert_eq!((sums.dtype(), edges.dtype()), (DType::F32, DType::F64));
    assert_values(Ok(sums), &[2], &[3.5, 4.5]);
    let (density, edges) = x.histogram(2, 0.0, 4.0, Some(&weights), true).unwrap();
    assert_eq!((density.dtype(), edges.dtype()), (DType::F32, DType::F64));
    assert_values(Ok(density), &[2], &[0.21875, 0.28125]);
    let (density, _) = x.histogram(4, 0.0, 4.0, None, true).unwrap();
    assert_values(Ok(density), &[4], &[0.25, 0.5, 0.0, 0.25]);
    let (density, _) = counting(&[4], DType::F16).histogram(1, -2.0, -1.0, None, true).unwrap();
    assert_values(Ok(density), &[1], &[f64::NAN]);
    let (density, _) =
        counting(&[3], DType::I32).histogram(2, 0.0, 2.0, Some(&counting(&[3], DType::U8)), true).unwrap();
    assert_values(Ok(density), &[2], &[0.0, 1.0]);
    assert!(
        error(x.histogram(2, 0.0, 4.0, Some(&counting(&[6], DType::F64)), false)).contains("[6] weights for [2, 3]")
    );
    assert!(x.histogram(2, 0.0, 4.0, Some(&tensor(&[true; 6], &[2, 3])), false).is_err());
    for density in [false, true] {
        assert_gradient(&[&[4]], |w| {
            let x = Tensor::from_vec(vec![0.1, 0.7, 0.4, 0.9], [4], w[0].device())?;
            Ok(x.histogram(3, 0.0, 1.0, Some(&w[0]), density)?.0)
        });
    }
}
