//! Fourier transforms of real values, along several axes, and what belongs to them.

use ubique::op::fft::{self, FftNorm};
use ubique::{DType, Result, Tensor};

use crate::{assert_gradient, assert_values, counting, device, error, tensor};

/// The two parts one after the other, as one tensor.
fn joined(parts: Result<(Tensor, Tensor)>) -> Result<Tensor> {
    let (re, im) = parts?;
    Tensor::stack(&[&re, &im], 0)
}

#[test]
fn real_values_have_half_a_spectrum() {
    let x = tensor(&[1f64, 2.0, 0.0, -1.0], &[4]);
    let spectrum = joined(fft::rfft(&x, None, 0, FftNorm::Backward));
    assert_values(spectrum, &[2, 3], &[2.0, 1.0, 0.0, 0.0, -3.0, 0.0]);
    // Filled up with a zero, cut to two.
    let longer = joined(fft::rfft(&x.narrow(0, 0, 3).unwrap(), Some(4), 0, FftNorm::Backward));
    assert_values(longer, &[2, 3], &[3.0, 1.0, -1.0, 0.0, -2.0, 0.0]);
    assert_values(joined(fft::rfft(&x, Some(2), -1, FftNorm::Forward)), &[2, 2], &[1.5, -0.5, 0.0, 0.0]);
    for norm in FftNorm::ALL {
        for n in [1, 2, 5, 6] {
            let x = counting(&[3, n], DType::F64);
            let (re, im) = fft::rfft(&x, None, 1, norm).unwrap();
            let values: Vec<f64> = (0..3 * n).map(|i| i as f64).collect();
            assert_values(fft::irfft(&re, &im, Some(n), 1, norm), &[3, n], &values);
        }
    }
    let (re, im) = fft::rfft(&x, None, 0, FftNorm::Ortho).unwrap();
    assert_values(fft::irfft(&re, &im, None, 0, FftNorm::Ortho), &[4], &[1.0, 2.0, 0.0, -1.0]);
}

#[test]
fn several_axes_are_transformed_one_after_the_other() {
    let x = counting(&[2, 3, 4], DType::F64);
    let values: Vec<f64> = (0..24).map(f64::from).collect();
    for axes in [&[] as &[isize], &[0, -1], &[1]] {
        let zeros = x.zeros_like().unwrap();
        let (re, im) = fft::fftn(&x, &zeros, axes, FftNorm::Ortho).unwrap();
        let back = fft::ifftn(&re, &im, axes, FftNorm::Ortho);
        assert_values(back.map(|parts| parts.0), &[2, 3, 4], &values);
        let (half_re, half_im) = fft::rfftn(&x, axes, FftNorm::Ortho).unwrap();
        let last = axes.last().copied().unwrap_or(-1);
        let half = half_re.shape()[half_re.shape().axis(last).unwrap()];
        let expected: Vec<f64> = re.narrow(last, 0, half).unwrap().to_vec().unwrap();
        assert_values(Ok(half_re.clone()), half_re.shape(), &expected);
        let n = Some(x.shape()[x.shape().axis(last).unwrap()]);
        assert_values(fft::irfftn(&half_re, &half_im, n, axes, FftNorm::Ortho), &[2, 3, 4], &values);
    }
}

#[test]
fn frequencies_and_shifts_follow_numpy() {
    let frequencies = |n| fft::fftfreq(n, 0.5, DType::F64, &device());
    assert_values(frequencies(4), &[4], &[0.0, 0.5, -1.0, -0.5]);
    assert_values(frequencies(5), &[5], &[0.0, 0.4, 0.8, -0.8, -0.4]);
    assert_values(fft::rfftfreq(5, 0.5, DType::F64, &device()), &[3], &[0.0, 0.4, 0.8]);
    assert!(error(fft::fftfreq(4, 0.0, DType::F32, &device())).contains("a span of 0"));
    assert!(error(fft::fftfreq(4, 1.0, DType::I64, &device())).contains("floating-point"));
    let x = counting(&[5, 2], DType::I32);
    assert_values(fft::fftshift(&x, &[0]), &[5, 2], &[6.0, 7.0, 8.0, 9.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let back = fft::ifftshift(&fft::fftshift(&x, &[]).unwrap(), &[]);
    assert_values(back, &[5, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
}

#[test]
fn misfits_are_explained() {
    let x = counting(&[2, 3], DType::F32);
    assert!(error(fft::rfft(&x, Some(0), 0, FftNorm::Backward)).contains("at least one element"));
    assert!(error(fft::rfft(&x, None, 2, FftNorm::Backward)).starts_with("fft(f32[2, 3])"));
    assert!(error(fft::irfft(&x.narrow(1, 0, 1).unwrap(), &x, None, 1, FftNorm::Backward)).contains("say n"));
    assert!(error(fft::rfftn(&tensor(&[1f32], &[]), &[], FftNorm::Backward)).contains("no axis"));
    assert!(error(fft::fftn(&x, &x, &[0, 0], FftNorm::Backward)).contains("named twice"));
    assert!(fft::fft(&x, &x.t().unwrap(), None, 0, FftNorm::Backward).is_err());
    for huge in [usize::MAX, 1 << 60] {
        assert!(fft::rfft(&x, Some(huge), 0, FftNorm::Backward).is_err());
        assert!(fft::irfft(&x, &x, Some(huge), 0, FftNorm::Backward).is_err());
        assert!(fft::fftfreq(huge, 1.0, DType::F32, &device()).is_err());
    }
}

#[test]
fn transforms_of_real_values_have_gradients() {
    assert_gradient(&[&[3, 5]], |x| joined(fft::rfft(&x[0], Some(6), 1, FftNorm::Ortho)));
    assert_gradient(&[&[4, 2], &[4, 2]], |x| fft::irfft(&x[0], &x[1], Some(5), 0, FftNorm::Backward));
    assert_gradient(&[&[4, 2], &[4, 2]], |x| fft::irfft(&x[0], &x[1], None, 0, FftNorm::Forward));
    assert_gradient(&[&[3, 4]], |x| joined(fft::rfftn(&x[0], &[], FftNorm::Backward)));
}
