//! Quantised tensors and 8-bit floats: what is stored, what is left of the values, and what is refused.

use ubique::op::quantized::Scheme;
use ubique::{DType, Device, ErrorKind, F8E4M3, F8E5M2, QTensor, Tensor, TensorSpec};

use super::{assert_values, counting, device, scattered, tensor};

const SCHEMES: [Scheme; 4] = [Scheme::q8(), Scheme::q4(), Scheme::q8().affine(), Scheme::q4().affine()];

fn integers(quantized: &QTensor) -> Vec<i64> {
    quantized.values().cast(DType::I64).unwrap().to_vec().unwrap()
}

#[test]
fn integers_and_scales_are_those_worked_out_by_hand() {
    let x = tensor(&[-2.0f32, 1.2, 0.0, 0.5, 63.5, -127.0], &[2, 3]);
    let q8 = x.quantize(Scheme::q8()).unwrap();
    assert_eq!(integers(&q8), [-2, 1, 0, 0, 64, -127]);
    assert_values(Ok(q8.scales().clone()), &[], &[1.0]);
    // Each row has a scale of its own: 2/7 and 127/7.
    let q4 = x.quantize(Scheme::q4().blocks(3)).unwrap();
    assert_eq!(q4.values().spec(), TensorSpec::new([2, 2], DType::U8));
    let nibbles = |low: i64, high: i64| (low & 15) | (high & 15) << 4;
    assert_eq!(integers(&q4), [nibbles(-7, 4), nibbles(0, 0), nibbles(0, 4), nibbles(-7, 0)]);
    // 0 to 255 in steps of 1: −128 stands for 0.
    let affine = tensor(&[0.0f32, 255.0, 100.0], &[3]).quantize(Scheme::q8().affine()).unwrap();
    assert_eq!(integers(&affine), [-128, 127, -28]);
    assert_values(Ok(affine.zero_points().unwrap().clone()), &[], &[-128.0]);
}

#[test]
fn what_is_left_is_within_half_a_step() {
    for scheme in SCHEMES {
        for scheme in [scheme, scheme.blocks(32), scheme.blocks(5), scheme.blocks(1)] {
            let values: Vec<f64> = scattered(6 * 37, 3).iter().map(|v| v * 1.7 + 0.9).collect();
            let x = tensor(&values, &[2, 3, 37]);
            let quantized = x.quantize(scheme).unwrap();
            let left: Vec<f64> = quantized.dequantize().unwrap().to_vec().unwrap();
            let largest: f64 = quantized.scales().max_all().unwrap().item().unwrap();
            // A zero point is rounded too, by at most another half step.
            let steps = if scheme.affine { 1.0 } else { 0.5 };
            let off = values.iter().zip(&left).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(off <= largest * steps * 1.0001, "{scheme:?}: {off} of steps {largest}");
            assert!(off > 0.0 || scheme.block == Some(1), "{scheme:?}");
        }
    }
}

#[test]
fn zero_stays_zero_and_odd_values_have_a_meaning() {
    for scheme in SCHEMES {
        let left = |values: &[f32]| tensor(values, &[values.len()]).quantize(scheme).unwrap().dequantize();
        assert_eq!(left(&[0.0, 3.0, 2.9]).unwrap().to_vec::<f32>().unwrap()[0], 0.0, "{scheme:?}");
        assert_values(left(&[0.0, 0.0]), &[2], &[0.0, 0.0]);
        assert_values(left(&[]), &[0], &[]);
        assert!(left(&[1.0, f32::NAN]).unwrap().to_vec::<f32>().unwrap().iter().all(|v| v.is_nan()));
        // With scales from elsewhere: too large a value goes to the end, NaN to 0.
        let (scale, zero) = (tensor(&[0.5f32], &[]), tensor(&[3i8], &[]));
        let odd = tensor(&[f32::NAN, f32::INFINITY, -1e30], &[3]);
        let zero_points = scheme.affine.then_some(&zero);
        let (low, high) = scheme.range();
        let ends = [low, high].map(|end| (f64::from(end) - if scheme.affine { 3.0 } else { 0.0 }) * 0.5);
        let left = odd.quantize_with(scheme, &scale, zero_points).unwrap().dequantize();
        assert_values(left, &[3], &[0.0, ends[1], ends[0]]);
    }
}

#[test]
fn products_are_those_of_the_floats_that_are_left() {
    for scheme in SCHEMES {
        for (scheme, inputs) in [(scheme, 70), (scheme.blocks(32), 70), (scheme.blocks(32), 256)] {
            let weight = tensor(&scattered(9 * inputs, 1), &[9, inputs]).cast(DType::F32).unwrap();
            let weight = weight.quantize(scheme).unwrap();
            let bias = counting(&[9], DType::F32);
            for rows in [0, 1, 3, 20] {
                let x = tensor(&scattered(rows * inputs, 2), &[rows, inputs]).cast(DType::F32).unwrap();
                let wanted = x.linear(&weight.dequantize().unwrap(), Some(&bias)).unwrap();
                let got = weight.linear(&x, Some(&bias)).unwrap();
                let off = (got - wanted).tensor().unwrap().to_vec::<f32>().unwrap();
                assert!(off.iter().all(|v| v.abs() < 1e-3), "{scheme:?} {rows}: {off:?}");
            }
        }
    }
    let [a, b] = [[2, 3], [3, 2]].map(|shape| counting(&shape, DType::F32).quantize(Scheme::q8()).unwrap());
    let wanted: Vec<f64> =
        a.dequantize().unwrap().matmul(&b.dequantize().unwrap()).unwrap().to_host().unwrap().to_f64();
    assert_values(a.matmul(&b), &[2, 2], &wanted);
}

#[test]
fn training_for_being_quantised_passes_gradients_straight_through() {
    let x = Tensor::from_vec(scattered(12, 0), [3, 4], &device().autodiff()).unwrap().require_grad().unwrap();
    let left = x.fake_quantize(Scheme::q4().blocks(4)).unwrap();
    let wanted: Vec<f64> = x.quantize(Scheme::q4().blocks(4)).unwrap().dequantize().unwrap().to_vec().unwrap();
    assert_eq!(left.to_vec::<f64>().unwrap(), wanted);
    let gradients = (left * 3.0).tensor().unwrap().sum_all().unwrap().backward().unwrap();
    assert_values(gradients.get(&x).cloned(), &[3, 4], &[3.0; 12]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let x = counting(&[2, 6], DType::F32);
    let message = |result: ubique::Result<QTensor>| result.unwrap_err().to_string();
    assert!(message(x.quantize(Scheme::q8().blocks(0))).contains("block"));
    assert!(message(counting(&[], DType::F32).quantize(Scheme::q4())).contains("rank 0"));
    assert!(message(counting(&[4], DType::I32).quantize(Scheme::q8())).contains("floating-point"));
    let scheme = Scheme::q8().blocks(3);
    let scale = tensor(&[1.0f32], &[]);
    assert!(message(x.quantize_with(scheme, &scale, None)).contains("f32[2, 2]"));
    assert!(message(x.quantize_with(Scheme::q8().affine(), &scale, None)).contains("zero points"));
    let quantized = x.quantize(scheme).unwrap();
    let parts = |spec| QTensor::from_parts(quantized.values().clone(), quantized.scales().clone(), None, scheme, spec);
    assert_values(parts(TensorSpec::new([2, 6], DType::F16)).unwrap().dequantize(), &[2, 6], &{
        quantized.dequantize().unwrap().cast(DType::F16).unwrap().to_host().unwrap().to_f64()
    });
    assert!(message(parts(TensorSpec::new([2, 5], DType::F32))).contains("i8[2, 5]"));
    assert!(message(parts(TensorSpec::new([2, 6], DType::F64))).contains("f64[2, 2]"));
    assert!(message(parts(TensorSpec::new([2, 6], DType::I32))).contains("floating-point"));
    assert!(quantized.linear(&counting(&[3, 5], DType::F32), None).is_err());
    let error = quantized.linear(&counting(&[3, 6], DType::F64), None).unwrap_err();
    assert!(error.to_string().contains("f64[3, 6]"), "{error}");
}

#[test]
fn eight_bit_floats_are_stored_moved_and_cast() {
    let x = tensor(&[1.06f32, -500.0, 1e-4, f32::INFINITY], &[2, 2]);
    assert_values(x.cast(DType::F8E4M3).unwrap().cast(DType::F32), &[2, 2], &[1.0, f64::NAN, 0.0, f64::NAN]);
    let small = x.cast(DType::F8E5M2).unwrap();
    let rounded = [1.0, -512.0, 0.0001068115234375, f64::INFINITY];
    assert_values(small.cast(DType::F32), &[2, 2], &rounded);
    let moved = Tensor::concat(&[&small, &small.t().unwrap()], 0).unwrap();
    assert_values(moved.at(2).unwrap().cast(DType::F32), &[2], &[rounded[0], rounded[2]]);
    assert_eq!(Tensor::full([2], 3.3, DType::F8E4M3, &device()).unwrap().to_vec::<F8E4M3>().unwrap()[1].to_f32(), 3.25);
    assert_eq!(small.to_vec::<F8E5M2>().unwrap()[0].to_bits(), 0x3c);
    for error in [(&small + &small).tensor(), small.exp(), small.sum_all(), small.matmul(&small), small.lt(1.0)] {
        let error = error.unwrap_err();
        assert!(error.kind() == ErrorKind::DType && error.to_string().contains("cast"), "{error}");
    }
    let tracked = Tensor::from_vec(vec![1.0f32], [1], &device().autodiff()).unwrap().require_grad().unwrap();
    assert!(!tracked.cast(DType::F8E4M3).unwrap().is_tracked());
    assert!(Device::new("flex").unwrap().supports_dtype(DType::F8E5M2));
}
