//! Elementary functions against numpy's validation sets: how many units in the last place the f64 references and flex are
//! off at most. The figures stand in `docs/accuracy.md`. The values are packed by `tools/make-umath-cases.py`.

use safetensors::SafeTensors;
use ubique_core::op::unary::Unary;
use ubique_core::{Device, Op, Tensor};
use ubique_flex as _;

/// What numpy calls a function, the function, and the most ulp that it is off in f32 and in f64.
const FUNCTIONS: &[(&str, Unary, u64, u64)] = &[
    ("arccos", Unary::Acos, 0, 0),
    ("arccosh", Unary::Acosh, 0, 1),
    ("arcsin", Unary::Asin, 1, 1),
    ("arcsinh", Unary::Asinh, 0, 1),
    ("arctan", Unary::Atan, 0, 1),
    ("arctanh", Unary::Atanh, 0, 1),
    ("cbrt", Unary::Cbrt, 0, 0),
    ("cos", Unary::Cos, 1, 1),
    ("cosh", Unary::Cosh, 0, 1),
    ("exp", Unary::Exp, 1, 1),
    ("exp2", Unary::Exp2, 1, 0),
    ("expm1", Unary::Expm1, 0, 1),
    ("log", Unary::Log, 1, 0),
    ("log10", Unary::Log10, 0, 1),
    ("log1p", Unary::Log1p, 0, 1),
    ("log2", Unary::Log2, 0, 0),
    ("sin", Unary::Sin, 1, 0),
    ("sinh", Unary::Sinh, 0, 1),
    ("tan", Unary::Tan, 0, 1),
    ("tanh", Unary::Tanh, 1, 2),
];

/// Most f64 functions are those of the platform's C library: the figures are glibc's, and others may be one further off.
const PLATFORM: u64 = if cfg!(target_env = "gnu") { 0 } else { 1 };

/// The rows of a function in a dtype of `N` bytes: operands and results.
fn rows<T, const N: usize>(values: &SafeTensors<'_>, name: &str, decode: fn([u8; N]) -> T) -> (Vec<T>, Vec<T>) {
    let stored = values.tensor(name).expect("every function has rows");
    let (pairs, []) = stored.data().as_chunks::<N>() else { panic!("{name} has a torn value") };
    pairs.chunks_exact(2).map(|pair| (decode(pair[0]), decode(pair[1]))).unzip()
}

/// Bits as an integer that counts the values of a format from 0 up and down.
fn ordered(bits: u64, sign: u64) -> i128 {
    let magnitude = (bits & (sign - 1)) as i128;
    if bits & sign == 0 { magnitude } else { -magnitude }
}

/// How many values of the format lie between two; NaN is off from all but NaN.
fn ulps64(got: f64, wanted: f64) -> u64 {
    match (got.is_nan(), wanted.is_nan()) {
        (true, true) => 0,
        (false, false) => ordered(got.to_bits(), 1 << 63).abs_diff(ordered(wanted.to_bits(), 1 << 63)) as u64,
        _ => u64::MAX,
    }
}

fn ulps32(got: f32, wanted: f32) -> u64 {
    match (got.is_nan(), wanted.is_nan()) {
        (true, true) => 0,
        (false, false) => {
            ordered(got.to_bits().into(), 1 << 31).abs_diff(ordered(wanted.to_bits().into(), 1 << 31)) as u64
        }
        _ => u64::MAX,
    }
}

/// The function on flex.
fn apply<T: ubique_core::Element>(op: Unary, operands: &[T], device: &Device) -> Vec<T> {
    let x = Tensor::from_slice(operands, [operands.len()], device).expect("the rows fit in memory");
    let results = ubique_core::Dispatch::run(Op::Unary(op), &[&x]).expect("floats are taken");
    results[0].to_vec().expect("the dtype stays")
}

/// The largest distance of a list, and which operand has it.
fn worst<T: Copy>(operands: &[T], got: &[T], wanted: &[T], ulps: fn(T, T) -> u64) -> (u64, Option<T>) {
    let distances = got.iter().zip(wanted).map(|(&got, &wanted)| ulps(got, wanted));
    let largest = distances.zip(operands).max_by_key(|(distance, _)| *distance);
    largest.map_or((0, None), |(distance, &operand)| (distance, Some(operand)))
}

#[test]
fn elementary_functions_are_as_accurate_as_documented() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/umath/values.safetensors");
    let bytes = std::fs::read(path).expect("the values are in the repository");
    let values = SafeTensors::deserialize(&bytes).expect("it is a safetensors file");
    let device = Device::new("flex").expect("flex opens on every machine");
    let mut wrong = Vec::new();
    for &(name, op, limit32, limit64) in FUNCTIONS {
        let limit64 = limit64 + PLATFORM;
        let (x32, y32) = rows(&values, &format!("{name}.f32"), f32::from_le_bytes);
        let (x64, y64) = rows(&values, &format!("{name}.f64"), f64::from_le_bytes);
        let (f32_ulps, f32_at) = worst(&x32, &apply(op, &x32, &device), &y32, ulps32);
        let (f64_ulps, f64_at) = worst(&x64, &apply(op, &x64, &device), &y64, ulps64);
        let reference: Vec<f64> = x64.iter().map(|&x| op.float_fn()(x)).collect();
        let (reference_ulps, reference_at) = worst(&x64, &reference, &y64, ulps64);
        println!("| {} | {f32_ulps} | {f64_ulps} | {reference_ulps} |", ubique_core::op::Rule::name(&op));
        if f32_ulps > limit32 {
            wrong.push(format!("{name} in f32: {f32_ulps} ulp at {f32_at:?}, at most {limit32} allowed"));
        }
        if f64_ulps.max(reference_ulps) > limit64 {
            wrong.push(format!(
                "{name} in f64: {f64_ulps} ulp at {f64_at:?}, the reference {reference_ulps} at {reference_at:?}, at most {limit64} allowed"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
