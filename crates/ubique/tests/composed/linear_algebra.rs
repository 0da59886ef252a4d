//! Linear algebra: conventions, values worked out by hand, refusals, and what is composed of factorisations.

use ubique::op::linalg::norm::MatrixNorm;
use ubique::{DType, Device, Tensor};

use crate::{assert_gradient, assert_values, counting, device, error, tensor};

/// A matrix of rank 2 that is neither symmetric nor near to singular.
fn matrix() -> Tensor {
    tensor(&[2f64, -1.0, 0.5, 4.0, 3.0, -2.0, 1.0, 1.0, 5.0], &[3, 3])
}

fn product(factors: &[&Tensor]) -> ubique::Result<Tensor> {
    let mut product = factors[0].clone();
    for factor in &factors[1..] {
        product = product.matmul(factor)?;
    }
    Ok(product)
}

#[test]
fn factors_multiply_to_the_matrix() {
    for shape in [&[3usize, 3] as &[usize], &[4, 2], &[2, 4], &[2, 4, 3], &[1, 1], &[3, 1], &[2, 0, 3]] {
        let count = shape.iter().product::<usize>();
        let values: Vec<f64> = (0..count).map(|i| ((i * i * 7 + 3 * i) % 23) as f64 - 9.5).collect();
        let a = tensor(&values, shape);
        let (u, s, vt) = a.svd().unwrap();
        assert_values(product(&[&u, &s.diag_embed(0).unwrap(), &vt]), shape, &values);
        let (q, r) = a.qr(false).unwrap();
        assert_values(product(&[&q, &r]), shape, &values);
        let (q, r) = a.qr(true).unwrap();
        assert_values(product(&[&q, &r]), shape, &values);
        let (rows, l, u) = a.lu().unwrap();
        let places = rows.unsqueeze(-1).unwrap().expand(shape).unwrap();
        let taken: Vec<f64> = a.gather(-2, &places).unwrap().to_vec().unwrap();
        assert_values(product(&[&l, &u]), shape, &taken);
        let (u, _, vt) = a.svd_full().unwrap();
        for orthogonal in [u, vt, q] {
            let n = orthogonal.shape()[orthogonal.rank() - 1];
            let ones = Tensor::eye(n, n, DType::F64, &device()).unwrap().expand(orthogonal.shape()).unwrap();
            let ones: Vec<f64> = ones.to_vec().unwrap();
            assert_values(product(&[&orthogonal.t().unwrap(), &orthogonal]), orthogonal.shape(), &ones);
        }
    }
}

#[test]
fn conventions_are_kept() {
    // Diagonals of R, and the first large element of each vector, are positive.
    let a = tensor(&[-3f64, 0.0, -4.0, 5.0], &[2, 2]);
    let (q, r) = a.qr(false).unwrap();
    assert_values(Ok(q), &[2, 2], &[-0.6, -0.8, -0.8, 0.6]);
    assert_values(Ok(r), &[2, 2], &[5.0, -4.0, 0.0, 3.0]);
    let half = 0.5f64.sqrt();
    let (values, vectors) = tensor(&[0f64, -2.0, -2.0, 3.0], &[2, 2]).eigh().unwrap();
    assert_values(Ok(values), &[2], &[-1.0, 4.0]);
    assert_values(Ok(vectors), &[2, 2], &[0.8f64.sqrt(), -0.2f64.sqrt(), 0.2f64.sqrt(), 0.8f64.sqrt()]);
    let (_, vectors) = tensor(&[0f64, 1.0, 1.0, 0.0], &[2, 2]).eigh().unwrap();
    assert_values(Ok(vectors), &[2, 2], &[half, half, -half, half]);
    let (u, s, vt) = tensor(&[0f64, 2.0, -3.0, 0.0], &[2, 2]).svd().unwrap();
    assert_values(Ok(s), &[2], &[3.0, 2.0]);
    assert_values(Ok(u), &[2, 2], &[0.0, 1.0, 1.0, 0.0]);
    assert_values(Ok(vt), &[2, 2], &[-1.0, 0.0, 0.0, 1.0]);
    // Pivots are the largest of their column.
    let (rows, l, u) = matrix().lu().unwrap();
    assert_values(Ok(rows), &[3], &[1.0, 0.0, 2.0]);
    assert_values(l.narrow(0, 1, 1), &[1, 3], &[0.5, 1.0, 0.0]);
    assert_values(u.narrow(0, 0, 1), &[1, 3], &[4.0, 3.0, -2.0]);
}

#[test]
fn equations_are_solved() {
    let (a, b) = (matrix(), tensor(&[1f64, 2.0, 3.0], &[3]));
    let x = a.solve(&b).unwrap();
    assert_values(a.matmul(&x), &[3], &[1.0, 2.0, 3.0]);
    // One matrix for a batch of right sides, and the other way round.
    let sides = counting(&[2, 3, 2], DType::F64);
    let all: Vec<f64> = (0..12).map(f64::from).collect();
    assert_values(a.matmul(&a.solve(&sides).unwrap()), &[2, 3, 2], &all);
    let twice = Tensor::stack(&[&a, &(&a * 2.0).tensor().unwrap()], 0).unwrap();
    let x: Vec<f64> = x.to_vec().unwrap();
    let halved: Vec<f64> = x.iter().copied().chain(x.iter().map(|x| x / 2.0)).collect();
    assert_values(twice.solve(&b), &[2, 3], &halved);
    assert_values(a.inverse().and_then(|y| y.matmul(&b)), &[3], &x);
    let upper = tensor(&[2f64, 1.0, 9.0, 4.0], &[2, 2]);
    assert_values(upper.solve_triangular(&tensor(&[4f64, 8.0], &[2]), true), &[2], &[1.0, 2.0]);
    assert_values(upper.solve_triangular(&tensor(&[4f64, 8.0], &[2]), false), &[2], &[2.0, -2.5]);
    assert_values(a.det(), &[], &[56.5]);
    let (sign, log) = (&a * -1.0).tensor().unwrap().slogdet().unwrap();
    assert_values(Ok(sign), &[], &[-1.0]);
    assert_values(Ok(log), &[], &[56.5f64.ln()]);
    assert_values(tensor(&[1f64, 2.0, 2.0, 4.0], &[2, 2]).det(), &[], &[0.0]);
    let gram = a.t().unwrap().matmul(&a).unwrap();
    let expected: Vec<f64> = gram.to_vec().unwrap();
    let u = gram.cholesky(true).unwrap();
    assert_values(u.t().unwrap().matmul(&u), &[3, 3], &expected);
}

#[test]
fn least_squares_and_pseudoinverses() {
    // A line through (0, 1), (1, 3), (2, 5), (3, 7), and the same with an error orthogonal to lines.
    let a = tensor(&[1f64, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0], &[4, 2]);
    assert_values(a.lstsq(&tensor(&[1f64, 3.0, 5.0, 7.0], &[4])), &[2], &[1.0, 2.0]);
    let noisy = tensor(&[2f64, 2.0, 4.0, 8.0], &[4]);
    assert_values(a.lstsq(&noisy), &[2], &[1.0, 2.0]);
    assert_values(a.pinv(None).and_then(|p| p.matmul(&noisy)), &[2], &[1.0, 2.0]);
    // The shortest of many solutions.
    let wide = tensor(&[3f64, 4.0], &[1, 2]);
    assert_values(wide.lstsq(&tensor(&[25f64], &[1])), &[2], &[3.0, 4.0]);
    assert_values(wide.pinv(None), &[2, 1], &[0.12, 0.16]);
    // Not of full rank.
    let ones = tensor(&[1f64; 4], &[2, 2]);
    assert_values(ones.pinv(None), &[2, 2], &[0.25; 4]);
    assert_values(tensor(&[2f64, 0.0, 0.0, 1e-3], &[2, 2]).pinv(Some(0.01)), &[2, 2], &[0.5, 0.0, 0.0, 0.0]);
    assert!(error(ones.t().unwrap().matmul(&tensor(&[0f64; 4], &[2, 2])).unwrap().lstsq(&ones)).contains("full rank"));
    assert_values(tensor::<f64>(&[], &[0, 3]).pinv(None), &[3, 0], &[]);
}

#[test]
fn norms_of_matrices() {
    let a = tensor(&[3f64, 0.0, -4.0, 0.0, 0.0, 2.0], &[2, 3]);
    let norm = |norm| a.matrix_norm(norm);
    assert_values(norm(MatrixNorm::Frobenius), &[], &[29f64.sqrt()]);
    assert_values(norm(MatrixNorm::One), &[], &[6.0]);
    assert_values(norm(MatrixNorm::Infinity), &[], &[7.0]);
    // The squares of the singular values are the roots of x² - 29x + 36.
    let (large, small) = ((29.0 + 697f64.sqrt()) / 2.0, (29.0 - 697f64.sqrt()) / 2.0);
    assert_values(norm(MatrixNorm::Spectral), &[], &[large.sqrt()]);
    assert_values(norm(MatrixNorm::Nuclear), &[], &[large.sqrt() + small.sqrt()]);
    assert!(error(counting(&[2, 2], DType::F16).matrix_norm(MatrixNorm::One)).contains("cast first"));
}

#[test]
fn what_has_no_answer_is_refused() {
    let stack =
        |a: &[f64]| Tensor::stack(&[&Tensor::eye(2, 2, DType::F64, &device()).unwrap(), &tensor(a, &[2, 2])], 0);
    let flawed = stack(&[1.0, 2.0, 2.0, 4.0]).unwrap();
    let text = error(flawed.inverse());
    assert!(text.contains("matrix 1 of the batch of 2 is singular: there is no pivot in column 1"), "{text}");
    assert!(text.starts_with("inverse(f64[2, 2, 2]) on flex"), "{text}");
    assert!(error(flawed.solve(&tensor(&[1f64, 2.0], &[2]))).contains("matrix 1 of the batch of 2 is singular"));
    assert!(error(flawed.cholesky(false)).contains("matrix 1 of the batch of 2 is not positive definite"));
    let nan = stack(&[1.0, f64::NAN, 0.0, 1.0]).unwrap();
    for text in [error(nan.svd()), error(nan.eigh()), error(nan.qr(false)), error(nan.lu()), error(nan.det())] {
        assert!(text.contains("matrix 1 of the batch of 2 has elements that are not finite"), "{text}");
    }
    let a = matrix();
    assert!(error(a.narrow(1, 0, 2).unwrap().det()).contains("3 rows, 2 columns"));
    assert!(error(a.solve(&tensor(&[1f64, 2.0], &[2]))).contains("does not fit"));
    assert!(error(tensor(&[1f64, 2.0], &[2]).solve(&a)).contains("needs a matrix"));
    assert!(error(a.solve(&counting(&[3, 1], DType::F32))).contains("cast one of them"));
    assert!(error(counting(&[2, 2], DType::I64).eigh()).contains("cast first"));
}

#[test]
fn gradients_that_do_not_exist_are_errors() {
    let gradient = |values: &[f64], shape: &[usize], f: fn(&Tensor) -> ubique::Result<Tensor>| {
        let x = Tensor::from_slice(values, shape, &device().autodiff())?.require_grad()?;
        f(&x)?.sum_all()?.backward().map(drop)
    };
    let tall = [1.0, 2.0, 3.0, 5.0, 1.0, 4.0];
    assert!(error(gradient(&tall, &[3, 2], |x| Ok(x.qr(true)?.0))).contains("further columns"));
    assert!(error(gradient(&tall, &[3, 2], |x| Ok(x.svd_full()?.0))).contains("further columns"));
    assert!(gradient(&tall, &[3, 2], |x| Ok(x.svd_full()?.1)).is_ok());
    let dependent = [1.0, 2.0, 0.0, 0.0];
    assert!(error(gradient(&dependent, &[2, 2], |x| Ok(x.qr(false)?.0))).contains("linearly independent"));
    assert!(error(gradient(&[1.0, 2.0, 2.0, 4.0], &[2, 2], Tensor::det)).contains("needs the inverse"));
}

#[test]
fn composed_methods_have_gradients() {
    assert_gradient(&[&[4, 2], &[4]], |x| x[0].lstsq(&x[1]));
    assert_gradient(&[&[2, 4], &[2, 2]], |x| x[0].lstsq(&x[1]));
    assert_gradient(&[&[3, 2]], |x| x[0].pinv(None));
    assert_gradient(&[&[3, 2]], |x| x[0].matrix_norm(MatrixNorm::Nuclear));
    assert_gradient(&[&[2, 3], &[3, 2]], |x| x[0].matmul(&x[1])?.solve(&x[0]));
    assert_gradient(&[&[2, 3, 3]], |x| Ok(x[0].eigh()?.0));
    assert_gradient(&[&[3, 3]], |x| {
        (x[0].matmul(&x[0].t()?)? + Tensor::eye(3, 3, DType::F64, x[0].device())?).then(|a| a.cholesky(true)).tensor()
    });
}

#[test]
fn threads_do_not_change_results() {
    let x = Tensor::normal([200, 6, 6], 0.0, 1.0, DType::F32, &device()).unwrap();
    let one: Vec<f32> = x.svd().unwrap().1.to_vec().unwrap();
    let two = x.to_device(&Device::new("flex?threads=2").unwrap()).unwrap();
    assert_eq!(two.svd().unwrap().1.to_vec::<f32>().unwrap(), one);
}
