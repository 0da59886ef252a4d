//! Deformable convolution against plain loops and against convolution.

use ubique::op::conv::ConvOptions;
use ubique::{DType, Tensor};

use crate::{assert_gradient, assert_values, counting, error, scattered, tensor};

/// The extents of a sample: two examples of four channels, in two groups for offsets and two for the weight.
const IMAGE: [usize; 4] = [2, 4, 5, 6];
const WEIGHT: [usize; 4] = [6, 2, 3, 2];
const OUTPUT: [usize; 2] = [3, 5];
const OFFSET_GROUPS: usize = 2;

fn options() -> ConvOptions {
    ConvOptions::new().stride([2, 1]).padding([1, 1]).dilation([1, 3]).groups(2)
}

fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// What an image shows at a place between its elements, with zeros around it.
fn read(plane: &[f64], [height, width]: [usize; 2], y: f64, x: f64) -> f64 {
    let mut sum = 0.0;
    for (i, value) in plane.iter().enumerate().take(height * width) {
        let (row, column) = ((i / width) as f64, (i % width) as f64);
        sum += value * (1.0 - (y - row).abs()).max(0.0) * (1.0 - (x - column).abs()).max(0.0);
    }
    sum
}

#[test]
fn taps_read_where_offsets_put_them() {
    let [batch, channels, height, width] = IMAGE;
    let ([filters, inner, kh, kw], [oh, ow]) = (WEIGHT, OUTPUT);
    let taps = kh * kw;
    let (offsets, masks) = ([batch, OFFSET_GROUPS * taps * 2, oh, ow], [batch, OFFSET_GROUPS * taps, oh, ow]);
    let [x, offset, mask] = [scattered(count(&IMAGE), 0), scattered(count(&offsets), 5), scattered(count(&masks), 2)];
    let (weight, bias) = (scattered(count(&WEIGHT), 3), scattered(filters, 4));
    let mut expected = Vec::new();
    for n in 0..batch {
        for o in 0..filters {
            for (oy, ox) in (0..oh).flat_map(|oy| (0..ow).map(move |ox| (oy, ox))) {
                let mut sum = bias[o];
                for (c, tap) in (0..inner).flat_map(|c| (0..taps).map(move |tap| (c, tap))) {
                    let channel = o / (filters / 2) * inner + c;
                    let part = n * OFFSET_GROUPS + channel / (channels / OFFSET_GROUPS);
                    let moved = |axis: usize| offset[((part * taps + tap) * 2 + axis) * oh * ow + oy * ow + ox];
                    let y = (2 * oy + tap / kw) as f64 - 1.0 + moved(0);
                    let at = (ox + 3 * (tap % kw)) as f64 - 1.0 + moved(1);
                    let plane = &x[(n * channels + channel) * height * width..];
                    let seen = read(plane, [height, width], y, at) * mask[(part * taps + tap) * oh * ow + oy * ow + ox];
                    sum += weight[(o * inner + c) * taps + tap] * seen;
                }
                expected.push(sum);
            }
        }
    }
    let [x, weight] = [tensor(&x, &IMAGE), tensor(&weight, &WEIGHT)];
    let [offset, mask, bias] = [tensor(&offset, &offsets), tensor(&mask, &masks), tensor(&bias, &[filters])];
    let found = x.deform_conv2d(&offset, &weight, Some(&bias), Some(&mask), &options());
    assert_values(found, &[batch, filters, oh, ow], &expected);
    let single = |t: &Tensor| t.cast(DType::F32).unwrap();
    let found = single(&x).deform_conv2d(
        &single(&offset),
        &single(&weight),
        Some(&single(&bias)),
        Some(&single(&mask)),
        &options(),
    );
    for (got, wanted) in found.unwrap().to_vec::<f32>().unwrap().into_iter().zip(expected) {
        assert!((got as f64 - wanted).abs() < 2e-5, "{got} {wanted}");
    }
}

#[test]
fn without_offsets_it_is_convolution() {
    for dtype in [DType::F64, DType::F32, DType::F16] {
        let (x, weight) = (counting(&IMAGE, dtype), counting(&WEIGHT, dtype));
        let (x, weight) = ((x / 64.0 - 1.0).tensor().unwrap(), (weight / 32.0 - 1.0).tensor().unwrap());
        let offset = Tensor::zeros([2, 24, 3, 5], dtype, &crate::device()).unwrap();
        let found = x.deform_conv2d(&offset, &weight, None, None, &options()).unwrap();
        let convolved = x.conv(&weight, None, &options()).unwrap();
        assert_eq!(found.spec(), convolved.spec());
        let values = |t: &Tensor| -> Vec<f64> { t.cast(DType::F64).unwrap().to_vec().unwrap() };
        for (a, b) in values(&found).into_iter().zip(values(&convolved)) {
            assert!((a - b).abs() <= if dtype == DType::F16 { 2e-3 * b.abs() } else { 1e-5 }, "{dtype}: {a} {b}");
        }
    }
}

#[test]
fn deformable_convolution_differentiates_and_refuses() {
    let run = |x: &[Tensor]| {
        // Between elements, where small steps cross none.
        let offset = (&x[1] * 0.37 + 0.013).tensor()?;
        let options = ConvOptions::new().padding([1, 0]).groups(2);
        x[0].deform_conv2d(&offset, &x[2], Some(&x[3]), Some(&x[4]), &options)
    };
    let (offset, mask) = ([1, 2 * 4 * 2, 4, 2], [1, 2 * 4, 4, 2]);
    assert_gradient(&[&[1, 2, 3, 3], &offset, &[2, 1, 2, 2], &[2], &mask], run);

    let x = counting(&[1, 2, 3, 3], DType::F32);
    let weight = counting(&[2, 2, 2, 2], DType::F32);
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &crate::device()).unwrap();
    let options = ConvOptions::new();
    let refused = |offset: &[usize], mask: Option<&[usize]>| {
        error(x.deform_conv2d(&zeros(offset), &weight, None, mask.map(zeros).as_ref(), &options))
    };
    let text = refused(&[1, 7, 2, 2], None);
    assert!(
        text.starts_with("deform_conv2d(f32[1, 2, 3, 3], f32[1, 7, 2, 2]") && text.contains("[1, 8·groups, 2, 2]"),
        "{text}"
    );
    assert!(refused(&[1, 0, 2, 2], None).contains("groups"));
    assert!(refused(&[1, 24, 2, 2], None).contains("divide 2 channels"));
    assert!(refused(&[1, 8, 2, 3], None).contains("8·groups"));
    assert!(refused(&[1, 8, 2, 2], Some(&[1, 8, 2, 2])).contains("the mask has to be [1, 4, 2, 2]"));
    assert!(x.deform_conv2d(&counting(&[1, 8, 2, 2], DType::F64), &weight, None, None, &options).is_err());
    assert!(
        error(x.deform_conv2d(&zeros(&[1, 8, 2, 2]), &zeros(&[2, 1, 2, 2]), None, None, &options)).contains("channels")
    );
    assert!(counting(&[3, 3], DType::F32).deform_conv2d(&zeros(&[1]), &weight, None, None, &options).is_err());
}
