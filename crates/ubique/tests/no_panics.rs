//! No input to a public function may panic: ops with operands that were not meant for them, methods with any axis.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::sample::select;
use ubique::op::case::Case;
use ubique::op::conv::ConvOptions;
use ubique::op::cross_entropy::LossReduction;
use ubique::op::ctc_loss::CtcLoss;
use ubique::op::grid_sample::{GridSample, Outside};
use ubique::op::index::Combine;
use ubique::op::meshgrid::Indexing;
use ubique::op::quantile::Interpolation;
use ubique::op::quantized::Scheme;
use ubique::op::resize::Resize;
use ubique::op::search::Side;
use ubique::{DType, Device, Dispatch, Element, IntoAt, Op, Result, Shape, Tensor, TensorSpec};

fn extents() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(select(vec![0usize, 1, 1, 2, 2, 3, 3, 4, 5, 7]), 0..5)
}

/// Extents whose products overflow, for shape rules alone.
fn huge() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(select(vec![0usize, 1, 3, 1 << 20, 1 << 31, 1 << 40, usize::MAX / 2, usize::MAX]), 0..5)
}

fn dtype() -> impl Strategy<Value = DType> {
    select(DType::ALL.to_vec())
}

fn specs(shape: impl Strategy<Value = Vec<usize>>) -> impl Strategy<Value = Vec<TensorSpec>> {
    prop::collection::vec((shape, dtype()).prop_map(|(shape, dtype)| TensorSpec::new(shape, dtype)), 0..5)
}

/// Every op with the parameters of each of its cases, once.
fn ops() -> Vec<Op> {
    let mut ops: Vec<Op> = Vec::new();
    for Case { op, .. } in Op::cases() {
        if ops.last() != Some(&op) {
            ops.push(op);
        }
    }
    ops
}

fn tensor(spec: &TensorSpec, device: &Device) -> Result<Tensor> {
    let count = spec.shape.elements()?;
    let values = (0..count).map(|i| ((i * 7 + 3) % 11) as f64 - 4.0);
    Tensor::from_vec(values.collect(), &spec.shape, device)?.cast(spec.dtype)
}

/// Runs an op if its shape rule takes these operands.
fn run(op: &Op, specs: &[TensorSpec], device: &Device) -> Result<()> {
    let outputs = op.infer(specs)?;
    let small = |s: &TensorSpec| s.shape.elements().is_ok_and(|n| n < 1 << 20);
    if specs.is_empty() || !specs.iter().chain(outputs.as_slice()).all(small) {
        return Ok(());
    }
    let tensors = specs.iter().map(|s| tensor(s, device)).collect::<Result<Vec<_>>>()?;
    let results = Dispatch::run(op.clone(), &tensors.iter().collect::<Vec<_>>())?;
    for (result, spec) in results.iter().zip(outputs.as_slice()) {
        assert_eq!(result.spec(), *spec, "{op:?} on {specs:?}");
        result.to_host()?;
    }
    Ok(())
}

/// The message of a panic, if `f` panics.
fn panic_of(f: impl FnOnce() -> Result<()>) -> Option<String> {
    let error = catch_unwind(AssertUnwindSafe(|| drop(f()))).err()?;
    let text = error.downcast_ref::<String>().cloned().or_else(|| error.downcast_ref::<&str>().map(|s| s.to_string()));
    Some(text.unwrap_or_default())
}

#[test]
fn ops_take_or_refuse_any_operands() {
    let device = Device::new("flex").unwrap();
    let ops = ops();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 4000, ..Default::default() });
    let strategy = (select(ops.clone()), specs(extents()));
    let result = runner.run(&strategy, |(op, specs)| match panic_of(|| run(&op, &specs, &device)) {
        None => Ok(()),
        Some(text) => Err(TestCaseError::fail(format!("{op:?} on {specs:?} panicked: {text}"))),
    });
    result.unwrap();
    let result =
        runner.run(&(select(ops), specs(huge())), |(op, specs)| match panic_of(|| op.infer(&specs).map(drop)) {
            None => Ok(()),
            Some(text) => Err(TestCaseError::fail(format!("inference of {op:?} on {specs:?} panicked: {text}"))),
        });
    result.unwrap();
}

type Method = fn(&Tensor, isize, isize, usize) -> Result<()>;

fn ok<T>(_: T) {}

/// Methods with numbers of the caller's choice.
const METHODS: &[(&str, Method)] = &[
    ("reshape", |t, _, _, n| t.reshape([n, n]).map(ok)),
    ("permute", |t, a, b, _| t.permute(&[a, b]).map(ok)),
    ("transpose", |t, a, b, _| t.transpose(a, b).map(ok)),
    ("movedim", |t, a, b, _| t.movedim(a, b).map(ok)),
    ("expand", |t, _, _, n| t.expand([n, 2, n]).map(ok)),
    ("slice", |t, a, b, n| t.slice(a, Some(b), Some(n as isize), b).map(ok)),
    ("narrow", |t, a, b, n| t.narrow(a, b, n).map(ok)),
    ("flip", |t, a, b, _| t.flip(&[a, b]).map(ok)),
    ("squeeze", |t, a, _, _| t.squeeze(a).map(ok)),
    ("unsqueeze", |t, a, _, _| t.unsqueeze(a).map(ok)),
    ("flatten", |t, a, b, _| t.flatten(a, b).map(ok)),
    ("split", |t, a, _, n| t.split(&[n, n], a).map(ok)),
    ("chunk", |t, a, _, n| t.chunk(n, a).map(ok)),
    ("unfold", |t, a, b, n| t.unfold(a, n, b.unsigned_abs()).map(ok)),
    ("at", |t, a, b, _| t.at((a, b)).map(ok)),
    ("concat", |t, a, _, _| Tensor::concat(&[t, t], a).map(ok)),
    ("stack", |t, a, _, _| Tensor::stack(&[t, t], a).map(ok)),
    ("sum", |t, a, b, _| t.sum(&[a, b]).map(ok)),
    ("max", |t, a, _, _| t.max(&[a]).map(ok)),
    ("mean", |t, a, _, _| t.mean_keepdim(&[a]).map(ok)),
    ("cumsum", |t, a, _, _| t.cumsum(a).map(ok)),
    ("argmax", |t, a, _, _| t.argmax(a, true).map(ok)),
    ("sort", |t, a, _, _| t.sort(a, true).map(ok)),
    ("topk", |t, a, _, n| t.topk(n, a, true).map(ok)),
    ("softmax", |t, a, _, _| t.softmax(a).map(ok)),
    ("layer_norm", |t, _, _, n| t.layer_norm(n, None, None, 1e-5).map(ok)),
    ("roll", |t, a, b, _| t.roll(&[b], &[a]).map(ok)),
    ("tile", |t, _, _, n| t.tile(&[n, 2]).map(ok)),
    ("repeat", |t, a, _, n| t.repeat(n, a).map(ok)),
    ("one_hot", |t, _, _, n| t.one_hot(n, DType::F32).map(ok)),
    ("matmul", |t, _, _, _| t.matmul(t).map(ok)),
    ("max_pool", |t, _, _, n| t.max_pool([n, 2], &Default::default()).map(ok)),
    ("tril", |t, a, _, _| t.tril(a).map(ok)),
    ("triu", |t, a, _, _| t.triu(a).map(ok)),
    ("diag", |t, a, _, _| t.diag(a).map(ok)),
    ("diag_embed", |t, a, _, _| t.diag_embed(a).map(ok)),
    ("diagonal", |t, a, b, n| t.diagonal(n as isize - 2, a, b).map(ok)),
    ("trace", |t, _, _, _| t.trace().map(ok)),
    ("meshgrid", |t, _, _, _| Tensor::meshgrid(&[t, t], Indexing::Xy).map(ok)),
    ("kron", |t, _, _, _| t.kron(t).map(ok)),
    ("cross", |t, a, _, _| t.cross(t, a).map(ok)),
    ("tensordot", |t, a, b, _| t.tensordot(t, &[a, b], &[b, a]).map(ok)),
    ("einsum", |t, _, _, n| {
        let equations = ["ij,jk", "ii->i", "...i,...j->ij", "i...", "", "a->b", "iij,j->i", "...->", ".,"];
        let equation = equations[n % equations.len()];
        Tensor::einsum(equation, &vec![t; 1 + equation.matches(',').count()]).map(ok)
    }),
    ("gather_nd", |t, _, _, _| t.gather_nd(&t.cast(DType::I64)?).map(ok)),
    ("scatter_nd", |t, _, _, _| t.scatter_nd(&t.cast(DType::I32)?, t, Combine::Set).map(ok)),
    ("slice_assign", |t, a, b, n| t.slice_assign((a, (b..n as isize).by(b)), t).map(ok)),
    ("select_assign", |t, a, b, _| t.select_assign(a, b, &t.at(0)?).map(ok)),
    ("mask_where", |t, _, _, _| t.mask_where(&t.eq(t)?, t).map(ok)),
    ("cummax_with_indices", |t, a, _, _| t.cummax_with_indices(a).map(ok)),
    ("argtopk", |t, a, _, n| t.argtopk(n, a, false).map(ok)),
    ("max_abs", |t, a, b, _| t.max_abs(&[a, b]).map(ok)),
    ("fmod", |t, a, _, _| t.fmod(a).map(ok)),
    ("quantile", |t, a, b, n| t.quantile(b as f64 / n as f64, a, Interpolation::Linear, true).map(ok)),
    ("quantiles", |t, a, b, n| t.quantiles(&[0.5, b as f64 / n as f64], a, Interpolation::Midpoint, false).map(ok)),
    ("median", |t, a, _, _| t.median(a, false).map(ok)),
    ("quantize", |t, a, _, n| {
        let scheme = if a < 0 { Scheme::q4() } else { Scheme::q8().affine() };
        let quantized = t.quantize(if n > 3 { scheme } else { scheme.blocks(n) })?;
        quantized.linear(t, Some(t)).or_else(|_| quantized.dequantize()).map(ok)
    }),
    ("searchsorted", |t, _, _, _| t.searchsorted(t, Side::Right).map(ok)),
    ("bucketize", |t, _, _, _| t.bucketize(t, Side::Left).map(ok)),
    ("bincount", |t, _, _, n| t.bincount(None, n).map(ok)),
    ("histogram", |t, a, b, n| t.histogram(n, a as f64, b as f64, None, true).map(ok)),
    ("im2col", |t, a, _, n| t.im2col([n], &ConvOptions::new().dilation([a.unsigned_abs()])).map(ok)),
    ("col2im", |t, a, _, n| {
        let options = ConvOptions::new().padding([n % 3]).stride([a.unsigned_abs()]);
        t.col2im([n], [2], &options).map(ok)
    }),
    ("adaptive_max_pool", |t, _, _, n| t.adaptive_max_pool([n % 20]).map(ok)),
    ("interpolate", |t, a, _, n| t.interpolate([n % 20], Resize::Cubic, a > 0).map(ok)),
    ("interpolate nearest", |t, a, _, _| t.interpolate([a.unsigned_abs()], Resize::Nearest, false).map(ok)),
    ("grid_sample", |t, a, _, _| {
        let outside = if a > 0 { Outside::Reflection } else { Outside::Zeros };
        let extents: Vec<usize> = t.shape().iter().copied().take(3).chain([2]).collect();
        let grid = Tensor::full(extents, a, t.dtype(), t.device())?;
        t.grid_sample(&grid, GridSample { outside, ..GridSample::default() }).map(ok)
    }),
    ("deform_conv2d", |t, a, _, n| {
        let options = ConvOptions::new().padding([n % 3]).groups(a.unsigned_abs());
        t.deform_conv2d(t, t, None, Some(t), &options).map(ok)
    }),
    ("ctc_loss", |t, a, _, n| {
        let lengths = Tensor::full([n % 4], a, DType::I64, t.device())?;
        let options = CtcLoss { blank: n, zero_infinity: false };
        t.ctc_loss(&t.cast(DType::I64)?, &lengths, &lengths, LossReduction::Mean, options).map(ok)
    }),
    ("print", |t, _, _, _| {
        assert!(!format!("{t} {t:?} {t:.1}").is_empty());
        Ok(())
    }),
];

fn number() -> impl Strategy<Value = isize> {
    select(vec![0isize, 1, -1, 2, -2, 3, -4, 5, 100, -100, isize::MAX, isize::MIN])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn methods_take_or_refuse_any_numbers(
        (name, method) in select(METHODS.to_vec()),
        shape in extents(),
        dtype in dtype(),
        (a, b) in (number(), number()),
        n in select(vec![0usize, 1, 2, 3, 4, 6, 12, 1000]),
        flipped in any::<bool>(),
    ) {
        let device = Device::new("flex").unwrap();
        let mut t = tensor(&TensorSpec::new(&shape[..], dtype), &device).unwrap();
        if flipped {
            let axes: Vec<isize> = (0..t.rank() as isize).rev().collect();
            t = t.permute(&axes).unwrap().flip(&axes).unwrap();
        }
        if let Some(text) = panic_of(|| method(&t, a, b, n)) {
            prop_assert!(false, "{name} of {dtype}{shape:?} with {a}, {b}, {n} panicked: {text}");
        }
    }

    #[test]
    fn views_keep_their_elements(shape in extents(), seed in any::<u64>()) {
        let device = Device::new("flex").unwrap();
        let count: usize = shape.iter().product();
        let t = Tensor::from_vec((0..count as i64).collect(), &shape[..], &device).unwrap();
        let rank = t.rank() as isize;
        // A permutation from the seed, then its inverse.
        let mut axes: Vec<isize> = (0..rank).collect();
        axes.sort_by_key(|&axis| (seed.rotate_left(axis as u32 * 13)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut inverse = vec![0; axes.len()];
        axes.iter().enumerate().for_each(|(to, &from)| inverse[from as usize] = to as isize);
        let back = t.permute(&axes).unwrap().flip(&axes).unwrap().contiguous().unwrap();
        let back = back.flip(&axes).unwrap().permute(&inverse).unwrap();
        prop_assert_eq!(back.to_vec::<i64>().unwrap(), t.to_vec::<i64>().unwrap());
        let flat = t.reshape([count]).unwrap().reshape(Shape::from(&shape[..])).unwrap();
        prop_assert_eq!(flat.to_vec::<i64>().unwrap(), t.to_vec::<i64>().unwrap());
    }
}

/// A check that the harness itself notices a panic.
#[test]
fn a_panic_is_noticed() {
    assert_eq!(panic_of(|| panic!("as the test wants")).as_deref(), Some("as the test wants"));
    assert_eq!(f32::DTYPE, DType::F32);
}
