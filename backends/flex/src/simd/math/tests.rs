//! Errors of the `f32` functions, in units in the last place of the exact value, at every instruction set.

use super::super::elementwise::{BinaryLoop, Map2, Operand, binary, binary_half_with, in_place_with, unary_half_with};
use super::super::{Level, vectorize_with};
use super::{Atan2, Hypot, Pow, UNARY, Unary};
use half::{bf16, f16};
use std::f32::consts::{PI, SQRT_2};
use std::mem::MaybeUninit;
use ubique_core::op::Rule;
use ubique_core::op::unary::Unary as Op;

const BLOCK: usize = 4096;

/// Sign, exponent and leading digits all vary in these: a step of a prime through all bit patterns, and values where
/// functions change their ways.
fn samples() -> impl Iterator<Item = f32> {
    let edges = [
        0.0,
        1.0,
        0.5,
        0.25,
        2.0,
        3.0,
        0.625,
        0.92,
        0.95,
        3.92,
        10.05,
        13.0,
        14.5,
        15.0,
        88.7,
        87.3,
        103.9,
        104.1,
        127.5,
        128.0,
        126.0,
        149.0,
        149.5,
        150.5,
        1e-38,
        1e-45,
        1.17e-38,
        0.70710677,
        SQRT_2,
        PI,
        1.5707964,
        6.2831855,
        1048576.0,
        1048577.0,
        9.0,
        16777216.0,
        16777217.0,
        1e30,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        0.0009765625,
        0.00024414063,
    ];
    let near =
        edges.into_iter().flat_map(|x| (-40..=40).map(move |d| f32::from_bits(x.to_bits().wrapping_add_signed(d))));
    let sweep = (0..=u32::MAX).step_by(1009).map(f32::from_bits);
    near.flat_map(|x| [x, -x]).chain(sweep)
}

/// The distance between a result and the exact value in ulp of the latter; infinite if only one is NaN or a sign of
/// zero is wrong.
fn ulps(actual: f32, exact: f64) -> f64 {
    const OVERFLOW: f64 = (1u128 << 127) as f64 * 2.0;
    if exact.is_nan() || actual.is_nan() {
        return if exact.is_nan() && actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if exact == 0.0 {
        let same = actual == 0.0 && actual.is_sign_negative() == exact.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    if exact.is_infinite() {
        return if actual as f64 == exact { 0.0 } else { f64::INFINITY };
    }
    let exact = exact.clamp(-OVERFLOW, OVERFLOW);
    let actual = (actual as f64).clamp(-OVERFLOW, OVERFLOW);
    let exponent = ((exact.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    (actual - exact).abs() / 2f64.powi(exponent.clamp(-126, 127) - 23)
}

/// What a function may be wrong by. Both kinds of GELU multiply an error by the size of the exponent that they take a
/// power of, and vanish there.
fn tolerance(name: &str) -> f64 {
    match name {
        "silu" => 3.0,
        "gelu" => 12.0,
        "gelu_tanh" => 200.0,
        _ => 2.0,
    }
}

#[derive(Clone, Copy, Default)]
struct Worst {
    ulps: f64,
    at: (f32, f32),
    actual: f32,
}

impl Worst {
    fn see(&mut self, at: (f32, f32), actual: f32, exact: f64) {
        let ulps = ulps(actual, exact);
        if ulps > self.ulps {
            *self = Worst { ulps, at, actual };
        }
    }

    fn check(&self, name: &str, level: Level, tolerance: f64) -> bool {
        let Worst { ulps, at, actual } = self;
        println!("{name:>10} {:>8}: {ulps:.3} ulp at {at:?}, got {actual:e}", level.name());
        *ulps <= tolerance
    }
}

fn value(x: MaybeUninit<f32>) -> f32 {
    // SAFETY: called on targets that a function of the tables has written.
    unsafe { x.assume_init() }
}

/// The function in double precision.
fn exact(function: &Unary) -> fn(f64) -> f64 {
    Op::ALL.iter().find(|op| op.name() == function.name).expect("named as the op").float_fn()
}

/// A function of two arguments: with an instruction set, and in double precision.
struct Binary {
    name: &'static str,
    f32_at: BinaryAt,
    f64: fn(f64, f64) -> f64,
}

type BinaryAt = fn(Level, &[f32], &[f32], &mut [MaybeUninit<f32>]);

const fn two<M: Map2<f32, f32, f32> + Default>(name: &'static str, f64: fn(f64, f64) -> f64) -> Binary {
    let f32_at: BinaryAt = |level, a, b, target| vectorize_with(level, BinaryLoop { map: M::default(), a, b, target });
    Binary { name, f32_at, f64 }
}

fn worst_of_unary(function: &Unary, inputs: &[f32], level: Level) -> Worst {
    let mut worst = Worst::default();
    let mut target = [MaybeUninit::uninit(); BLOCK];
    let exact = exact(function);
    for block in inputs.chunks(BLOCK) {
        (function.f32_at)(level, block, &mut target[..block.len()]);
        for (&x, &y) in block.iter().zip(&target) {
            worst.see((x, 0.0), value(y), exact(x as f64));
        }
    }
    worst
}

fn worst_of_binary(function: &Binary, a: &[f32], b: &[f32], level: Level) -> Worst {
    let mut worst = Worst::default();
    let mut target = [MaybeUninit::uninit(); BLOCK];
    for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        (function.f32_at)(level, a, b, &mut target[..a.len()]);
        for ((&a, &b), &y) in a.iter().zip(b).zip(&target) {
            worst.see((a, b), value(y), (function.f64)(a as f64, b as f64));
        }
    }
    worst
}

#[test]
fn unary_functions_are_within_tolerance() {
    let inputs: Vec<f32> = samples().collect();
    let mut good = true;
    for function in UNARY {
        for level in Level::all_available() {
            let worst = worst_of_unary(function, &inputs, level);
            good &= worst.check(function.name, level, tolerance(function.name));
        }
    }
    assert!(good, "see the list above");
}

#[test]
fn activations_are_accurate_where_they_matter() {
    // For moderate arguments even the tails are accurate.
    let inputs: Vec<f32> = samples().filter(|x| x.abs() < 4.0).collect();
    for (name, tolerance) in [("gelu", 5.0), ("gelu_tanh", 24.0), ("silu", 3.0), ("sigmoid", 2.0)] {
        let function = Unary::find(name).expect("in the table");
        for level in Level::all_available() {
            assert!(worst_of_unary(function, &inputs, level).check(name, level, tolerance), "{name}");
        }
    }
}

#[test]
fn binary_functions_are_within_tolerance() {
    let specials: Vec<f32> = [
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        2.5,
        1e-45,
        1e-38,
        1e38,
        0.99999994,
        1.0000001,
        7.0,
        8.0,
        16777215.0,
        16777216.0,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ]
    .into_iter()
    .flat_map(|x| [x, -x])
    .collect();
    let pairs = specials.iter().flat_map(|&a| specials.iter().map(move |&b| (a, b)));
    // Pairs of any size, pairs of similar size, and pairs with moderate powers.
    let any = (0..=u32::MAX).step_by(2503).map(|a| (f32::from_bits(a), f32::from_bits(a.wrapping_mul(2_654_435_761))));
    let similar = (0..=u32::MAX).step_by(2503).map(|a| {
        let sign = a.wrapping_mul(40_503) & 0x8000_0000;
        (f32::from_bits(a), f32::from_bits(a.wrapping_add(a.wrapping_mul(2_654_435_761) >> 5) & 0x7fff_ffff | sign))
    });
    let moderate = (0..1_000_000u32).map(|i| {
        let (a, b) = (i.wrapping_mul(2_654_435_761), i.wrapping_mul(2_246_822_519));
        (a as f32 / 1e9 + 1e-6, b as f32 / 2e7 - 107.0)
    });
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.chain(any).chain(similar).chain(moderate).unzip();
    let mut good = true;
    for function in [two::<Pow>("pow", f64::powf), two::<Atan2>("atan2", f64::atan2), two::<Hypot>("hypot", f64::hypot)]
    {
        for level in Level::all_available() {
            good &= worst_of_binary(&function, &a, &b, level).check(function.name, level, 2.0);
        }
    }
    assert!(good, "see the list above");
}

#[test]
fn slices_of_any_length_and_kind_get_the_same_values() {
    let exp = Unary::find("exp").expect("in the table");
    for len in [0, 1, 5, 31, 32, 33, 1023, 1024, 1025, 3000] {
        let source: Vec<f32> = (0..len).map(|i| i as f32 / 300.0 - 7.0).collect();
        let mut in_place = source.clone();
        // SAFETY: the function initialises its target.
        unsafe { in_place_with(exp.f32, &mut in_place) };
        let mut target = vec![MaybeUninit::uninit(); len];
        (exp.f32)(&source, &mut target);
        let halves: Vec<f16> = source.iter().map(|&x| f16::from_f32(x)).collect();
        let mut half_target = vec![MaybeUninit::uninit(); len];
        // SAFETY: as above.
        unsafe { unary_half_with(exp.f32, &halves, &mut half_target) };
        for i in 0..len {
            assert!(ulps(in_place[i], (source[i] as f64).exp()) <= 2.0);
            assert!(ulps(value(target[i]), (source[i] as f64).exp()) <= 2.0);
            // SAFETY: written by the call above.
            let half = unsafe { half_target[i].assume_init() };
            let exact = halves[i].to_f64().exp();
            assert!((half.to_f64() - exact).abs() <= exact * 2f64.powi(-11), "{half} {exact}");
        }
    }
}

#[test]
fn scalars_act_like_slices_of_equal_elements() {
    for len in [0, 1, 1024, 2500] {
        let x: Vec<f32> = (0..len).map(|i| i as f32 / 100.0).collect();
        let y = vec![1.5f32; len];
        let run = |a, b| {
            let mut target = vec![MaybeUninit::uninit(); len];
            binary(Pow, a, b, &mut target);
            target.into_iter().map(value).collect::<Vec<f32>>()
        };
        use Operand::{Scalar, Slice};
        assert_eq!(run(Slice(&x), Scalar(1.5)), run(Slice(&x), Slice(&y)));
        assert_eq!(run(Scalar(1.5), Slice(&x)), run(Slice(&y), Slice(&x)));
        assert_eq!(run(Scalar(2.0), Scalar(10.0)), vec![1024.0; len]);

        let halves: Vec<bf16> = x.iter().map(|&x| bf16::from_f32(x)).collect();
        let mut target = vec![MaybeUninit::uninit(); len];
        let two = Scalar(bf16::from_f32(2.0));
        // SAFETY: `binary` initialises its target.
        unsafe { binary_half_with(|a, b, target| binary(Pow, a, b, target), Slice(&halves), two, &mut target) };
        for (t, h) in target.into_iter().zip(&halves) {
            // SAFETY: written by the call above.
            assert_eq!(unsafe { t.assume_init() }, bf16::from_f32(h.to_f32() * h.to_f32()));
        }
    }
}
