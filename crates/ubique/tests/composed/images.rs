//! Windows as columns, adaptive pooling, and images sampled at other points.

use ubique::op::conv::ConvOptions;
use ubique::op::grid_sample::{GridSample, Outside, Sampling};
use ubique::op::resize::Resize::{Cubic, Linear, Nearest};
use ubique::{DType, Tensor};

use crate::{assert_gradient, assert_values, counting, error, tensor};

#[test]
fn windows_become_columns_and_go_back() {
    let x = counting(&[1, 1, 3, 3], DType::I32);
    let columns = x.im2col([2, 2], &ConvOptions::new());
    let expected = [0.0, 1.0, 3.0, 4.0, 1.0, 2.0, 4.0, 5.0, 3.0, 4.0, 6.0, 7.0, 4.0, 5.0, 7.0, 8.0];
    assert_values(columns, &[1, 4, 4], &expected);
    let ones = Tensor::ones([1, 4, 4], DType::F32, &crate::device()).unwrap();
    let sums = ones.col2im([3, 3], [2, 2], &ConvOptions::new());
    assert_values(sums, &[1, 1, 3, 3], &[1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
    let line = counting(&[1, 2, 3], DType::F32).im2col([2], &ConvOptions::new().padding([1]).dilation([2]).stride([2]));
    assert_values(line, &[1, 4, 2], &[0.0, 1.0, 1.0, 0.0, 0.0, 4.0, 4.0, 0.0]);
    assert!(error(x.im2col([4, 4], &ConvOptions::new())).starts_with("im2col(i32[1, 1, 3, 3])"));
    assert!(error(ones.col2im([3, 4], [2, 2], &ConvOptions::new())).contains("needs 6 windows"));
    assert!(counting(&[2, 3], DType::F32).im2col([1], &ConvOptions::new()).is_err());
}

#[test]
fn a_weight_times_columns_is_the_convolution() {
    let options = ConvOptions::new().stride([2, 1]).padding([1, 2]).dilation([1, 2]);
    let (x, weight) = (counting(&[2, 3, 5, 6], DType::F64), counting(&[4, 3, 3, 2], DType::F64));
    let convolved = x.conv(&weight, None, &options).unwrap();
    let expected: Vec<f64> = convolved.to_vec().unwrap();
    let product = weight.reshape([4, 18]).unwrap().matmul(&x.im2col([3, 2], &options).unwrap()).unwrap();
    assert_values(product.reshape(convolved.shape()), convolved.shape(), &expected);
    assert_gradient(&[&[1, 2, 4, 3]], |x| x[0].im2col([3, 2], &options));
    assert_gradient(&[&[1, 12, 8]], |x| x[0].col2im([3, 2], [3, 2], &options));
}

#[test]
fn adaptive_windows_hold_their_largest() {
    let x = tensor(&[3.0f32, 1.0, 2.0, 5.0, 4.0], &[1, 1, 5]);
    assert_values(x.adaptive_max_pool([2]), &[1, 1, 2], &[3.0, 5.0]);
    assert_values(x.adaptive_max_pool([3]), &[1, 1, 3], &[3.0, 5.0, 5.0]);
    assert_values(x.adaptive_max_pool([7]), &[1, 1, 7], &[3.0, 3.0, 2.0, 2.0, 5.0, 5.0, 4.0]);
    assert_values(x.adaptive_max_pool([0]), &[1, 1, 0], &[]);
    let plane = tensor(&[1i32, 2, 3, 4, 0, -6], &[1, 1, 2, 3]);
    assert_values(plane.adaptive_max_pool([1, 2]), &[1, 1, 1, 2], &[4.0, 3.0]);
    assert!(error(counting(&[1, 1, 0], DType::F32).adaptive_max_pool([1])).starts_with("adaptive_max_pool"));
    assert_gradient(&[&[1, 2, 5, 4]], |x| x[0].adaptive_max_pool([3, 2]));
    assert_gradient(&[&[1, 1, 2, 3, 3]], |x| x[0].adaptive_max_pool([2]));
}

#[test]
fn signals_and_images_are_resized() {
    let x = tensor(&[0.0f32, 10.0], &[1, 1, 2]);
    assert_values(x.interpolate([3], Nearest, false), &[1, 1, 3], &[0.0, 0.0, 10.0]);
    assert_values(x.interpolate([4], Linear, false), &[1, 1, 4], &[0.0, 2.5, 7.5, 10.0]);
    assert_values(x.interpolate([3], Linear, true), &[1, 1, 3], &[0.0, 5.0, 10.0]);
    assert_values(x.interpolate([1], Linear, true), &[1, 1, 1], &[0.0]);
    assert_values(x.interpolate([1], Linear, false), &[1, 1, 1], &[5.0]);
    assert_values(x.interpolate([0], Cubic, false), &[1, 1, 0], &[]);
    let plane = tensor(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2]);
    // The weights of the cubic at distances of quarters, along either axis.
    let along = [-0.10546875, 0.2265625, 0.7734375, 1.10546875];
    let expected: Vec<f64> = along.iter().flat_map(|y| along.map(|x| 1.0 + 2.0 * y + x)).collect();
    assert_values(plane.interpolate([4, 4], Cubic, false), &[1, 1, 4, 4], &expected);
    assert_values(plane.interpolate([2, 3], Cubic, true), &[1, 1, 2, 3], &[1.0, 1.5, 2.0, 3.0, 3.5, 4.0]);
    let cube = counting(&[1, 1, 2, 2, 2], DType::F16).interpolate([1], Linear, false).unwrap();
    assert_eq!(cube.dtype(), DType::F16);
    assert_values(Ok(cube), &[1, 1, 1, 1, 1], &[3.5]);
    assert_values(counting(&[1, 1, 2], DType::U8).interpolate([4], Nearest, true), &[1, 1, 4], &[0.0, 0.0, 1.0, 1.0]);
    for (mode, align) in [(Nearest, false), (Linear, false), (Linear, true), (Cubic, false), (Cubic, true)] {
        assert_gradient(&[&[1, 2, 3, 4]], |x| x[0].interpolate([5, 2], mode, align));
    }
    assert!(error(counting(&[1, 1, 2], DType::U8).interpolate([4], Linear, true)).contains("floating-point"));
    assert!(error(x.interpolate([2, 2], Linear, true)).contains("2 values for 1"));
    assert!(x.interpolate([usize::MAX], Linear, true).is_err());
    assert_values(counting(&[0, 1, 2], DType::F32).interpolate([usize::MAX], Linear, true), &[0, 1, usize::MAX], &[]);
    assert!(counting(&[1, 1, 0], DType::F32).interpolate([2], Nearest, true).is_err());
}

fn options(sampling: Sampling, outside: Outside, align_corners: bool) -> GridSample {
    GridSample { sampling, outside, align_corners, pixels: false }
}

#[test]
fn points_of_a_grid_are_sampled() {
    let image = tensor(&[0.0, 1.0, 2.0, 3.0], &[1, 1, 2, 2]);
    let at = |x: f64, y: f64, sampling, outside, align| {
        image.grid_sample(&tensor(&[x, y], &[1, 1, 1, 2]), options(sampling, outside, align)).unwrap().item::<f64>()
    };
    use Outside::{Border, Reflection, Zeros};
    use Sampling::{Bilinear, Nearest};
    for (x, y, sampling, outside, align, expected) in [
        (0.0, 0.0, Bilinear, Zeros, true, 1.5),
        (1.0, -1.0, Bilinear, Zeros, true, 1.0),
        (1.0, 1.0, Bilinear, Zeros, false, 0.75),
        (1.0, 1.0, Bilinear, Border, false, 3.0),
        (1.0, 1.0, Bilinear, Reflection, false, 3.0),
        (3.0, 1.0, Bilinear, Reflection, true, 2.0),
        (-2.0, 1.0, Bilinear, Reflection, true, 2.5),
        (9.0, 9.0, Bilinear, Zeros, true, 0.0),
        (f64::INFINITY, 1.0, Bilinear, Zeros, true, 0.0),
        (f64::NEG_INFINITY, 1.0, Bilinear, Border, true, 2.0),
        (0.1, -1.0, Nearest, Zeros, true, 1.0),
        (1.0, 4.0, Nearest, Zeros, true, 0.0),
        (1.0, 4.0, Nearest, Border, true, 3.0),
    ] {
        assert_eq!(at(x, y, sampling, outside, align).unwrap(), expected, "{x}, {y}, {sampling:?}, {outside:?}");
    }
    // What lies outside does not see an infinite element at the border.
    let infinite = tensor(&[f32::INFINITY], &[1, 1, 1, 1]);
    let far = tensor(&[5.0f32, 0.0], &[1, 1, 1, 2]);
    assert_values(infinite.grid_sample(&far, GridSample::default()), &[1, 1, 1, 1], &[0.0]);
}

#[test]
fn grids_are_refused_or_differentiated() {
    let image = counting(&[2, 3, 4, 5], DType::F32);
    let grid = |shape: &[usize]| counting(shape, DType::F32);
    let text = error(image.grid_sample(&grid(&[2, 3, 3, 3]), GridSample::default()));
    assert!(text.starts_with("grid_sample(f32[2, 3, 4, 5], f32[2, 3, 3, 3])"), "{text}");
    assert!(image.grid_sample(&grid(&[1, 3, 3, 2]), GridSample::default()).is_err());
    assert!(image.grid_sample(&counting(&[2, 3, 3, 2], DType::F64), GridSample::default()).is_err());
    assert!(counting(&[2, 3, 0, 5], DType::F32).grid_sample(&grid(&[2, 1, 1, 2]), GridSample::default()).is_err());
    assert_values(image.grid_sample(&grid(&[2, 0, 3, 2]), GridSample::default()), &[2, 3, 0, 3], &[]);
    // Points that count elements.
    let pixels = GridSample { pixels: true, ..GridSample::default() };
    let at = tensor(&[1.5f32, 2.0, 4.5, 0.0], &[1, 1, 2, 2]);
    assert_values(
        image.narrow(0, 0, 1).unwrap().narrow(1, 0, 1).unwrap().grid_sample(&at, pixels),
        &[1, 1, 1, 2],
        &[11.5, 2.0],
    );
    for outside in [Outside::Zeros, Outside::Border, Outside::Reflection] {
        for align in [false, true] {
            let bilinear = options(Sampling::Bilinear, outside, align);
            assert_gradient(&[&[1, 2, 3, 4], &[1, 3, 2, 2]], |x| x[0].grid_sample(&x[1], bilinear));
        }
    }
}
