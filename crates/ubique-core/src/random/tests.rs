//! Published vectors, an independent scalar Philox, split invariance, and the statistics of each distribution.

use super::*;

const KEY: Philox = Philox { seed: 0x0123_4567_89AB_CDEF, stream: 0xFEDC_BA98_7654_3210, offset: 0 };

/// Philox as the paper writes it: one counter, 128-bit products split by hand.
fn scalar_philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let split = |m: u32, x: u32| {
        let product = m as u128 * x as u128;
        ((product >> 32) as u32, (product & 0xFFFF_FFFF) as u32)
    };
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        let (high0, low0) = split(0xD251_1F53, counter[0]);
        let (high1, low1) = split(0xCD9E_8D57, counter[2]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
    }
    counter
}

/// Word `position` of a draw's 32-bit layout.
fn scalar_word(philox: Philox, position: u64) -> u32 {
    let (block, half) = (position / 4, |x: u64| [x as u32, (x >> 32) as u32]);
    let ([b0, b1], [s0, s1]) = (half(block), half(philox.stream));
    scalar_philox([b0, b1, s0, s1], half(philox.seed))[(position % 4) as usize]
}

#[test]
fn published_vectors() {
    let cases = [
        ([0; 4], [0; 2], [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]),
        (
            [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344],
            [0xA409_3822, 0x299F_31D0],
            [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1],
        ),
    ];
    for (counter, key, expected) in cases {
        let [index, stream] = [0, 2].map(|i| engine::join(counter[i], counter[i + 1]));
        let philox = Philox { seed: engine::join(key[0], key[1]), stream, offset: 0 };
        assert_eq!(philox.block(index), expected);
        assert_eq!(scalar_philox(counter, key), expected);
    }
}

#[test]
fn words_follow_the_layout() {
    for offset in [0, 1, 63, 64, (1 << 34) - 5, u64::MAX - 100] {
        let philox = Philox { offset, ..KEY };
        let mut words = [0; 333];
        philox.fill_u32(7, &mut words);
        for (i, word) in words.into_iter().enumerate() {
            assert_eq!(word, scalar_word(KEY, offset.wrapping_add(7 + i as u64)), "offset {offset}, element {i}");
        }
        let mut doubles = [0; 111];
        philox.fill_u64(7, &mut doubles);
        for (i, double) in doubles.into_iter().enumerate() {
            let first = offset.wrapping_add(7 + i as u64).wrapping_mul(2);
            // Doubling the position loses its top bit, which belongs to the block index.
            let block = offset.wrapping_add(7 + i as u64) / 2;
            let words = KEY.block(block);
            let low = (first % 4) as usize;
            assert_eq!(double, engine::join(words[low], words[low + 1]), "offset {offset}, element {i}");
        }
    }
}

#[test]
fn derived_elements_follow_the_layout() {
    let philox = Philox { offset: 5, ..KEY };
    let (mut words, mut doubles) = ([0; 100], [0; 100]);
    philox.fill_u32(0, &mut words);
    philox.fill_u64(0, &mut doubles);
    let (mut f32s, mut f64s, mut bools, mut ints) = ([0.0; 100], [0.0; 100], [false; 100], [0; 100]);
    philox.fill_uniform_f32(0, &mut f32s);
    philox.fill_uniform_f64(0, &mut f64s);
    philox.fill_bernoulli(0, &mut bools, 0.25).unwrap();
    philox.fill_integers(0, &mut ints, -1000, 1 << 40).unwrap();
    for i in 0..100 {
        assert_eq!(f32s[i], (words[i] >> 8) as f32 / 16_777_216.0);
        assert_eq!(f64s[i], (doubles[i] >> 11) as f64 / 9_007_199_254_740_992.0);
        assert_eq!(bools[i], words[i] < 1 << 30);
        let width = (1i128 << 40) + 1000;
        assert_eq!(i128::from(ints[i]), ((i128::from(doubles[i]) * width) >> 64) - 1000);
    }
}

/// The formula of the module documentation, with library functions.
fn box_muller(unit: f64, turn: f64) -> [f64; 2] {
    let radius = (-2.0 * libm::log(unit)).sqrt();
    // A quarter turn at a time, so that the product with 2π keeps its relative accuracy.
    let quarter = (4.0 * turn).round();
    let (sin, cos) = libm::sincos((turn - quarter / 4.0) * std::f64::consts::TAU);
    let [c, s] = [[cos, sin], [-sin, cos], [-cos, -sin], [sin, -cos]][quarter as usize % 4];
    [radius * c, radius * s]
}

#[test]
fn normals_match_the_formula() {
    let (mut f32s, mut f64s) = (vec![0f32; 10_000], vec![0f64; 10_000]);
    KEY.fill_normal_f32(0, &mut f32s);
    KEY.fill_normal_f64(0, &mut f64s);
    for i in 0..5_000u64 {
        let (a, b) = (scalar_word(KEY, 2 * i), scalar_word(KEY, 2 * i + 1));
        let exact = (f64::from(a) + 0.5) / 4_294_967_296.0;
        let truncated = f64::from_bits(exact.to_bits() >> 29 << 29);
        let expected = box_muller(truncated, (f64::from(b >> 8) + 0.5) / 16_777_216.0);
        for (got, expected) in f32s[2 * i as usize..].iter().zip(expected) {
            assert!((f64::from(*got) - expected).abs() <= expected.abs() * f64::from(f32::EPSILON), "{got} {expected}");
        }
        let [w0, w1, w2, w3] = KEY.block(i);
        let open = |low, high| ((engine::join(low, high) >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
        for (got, expected) in f64s[2 * i as usize..].iter().zip(box_muller(open(w0, w1), open(w2, w3))) {
            assert!((got - expected).abs() <= 4.0 * expected.abs() * f64::EPSILON, "{got} {expected}");
        }
    }
}

fn fills_alike_in_pieces<T: Copy + Default + PartialEq + fmt::Debug>(fill: impl Fn(u64, &mut [T])) {
    let mut whole = vec![T::default(); 1000];
    fill(3, &mut whole);
    for piece in [1, 2, 3, 5, 64, 127, 999] {
        let mut parts = vec![T::default(); 1000];
        for (i, part) in parts.chunks_mut(piece).enumerate().collect::<Vec<_>>().into_iter().rev() {
            fill(3 + (i * piece) as u64, part);
        }
        assert_eq!(parts, whole, "pieces of {piece}");
    }
    fill(0, &mut []);
}

#[test]
fn pieces_equal_the_whole() {
    for philox in [KEY, KEY.advanced(u64::MAX - 400), KEY.with_stream(1).advanced(2)] {
        fills_alike_in_pieces(|start, out: &mut [u32]| philox.fill_u32(start, out));
        fills_alike_in_pieces(|start, out: &mut [u64]| philox.fill_u64(start, out));
        fills_alike_in_pieces(|start, out: &mut [f32]| philox.fill_uniform_f32(start, out));
        fills_alike_in_pieces(|start, out: &mut [f64]| philox.fill_uniform_f64(start, out));
        fills_alike_in_pieces(|start, out: &mut [f32]| philox.fill_normal_f32(start, out));
        fills_alike_in_pieces(|start, out: &mut [f64]| philox.fill_normal_f64(start, out));
        fills_alike_in_pieces(|start, out: &mut [bool]| philox.fill_bernoulli(start, out, 0.3).unwrap());
        fills_alike_in_pieces(|start, out: &mut [i64]| philox.fill_integers(start, out, -5, 1 << 50).unwrap());
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    // `fill` picks the widest; a batch computed here is compiled for the baseline.
    use engine::Draw;
    let words = engine::words(&KEY, 0, u64::MAX);
    let (mut f32s, mut baseline32) = ([0f32; LANES * 4], [0f32; LANES * 4]);
    KEY.fill_normal_f32(0, &mut f32s);
    normal::Normal32.convert(&words, &mut baseline32);
    assert_eq!(f32s.map(f32::to_bits), baseline32.map(f32::to_bits));
    let (mut f64s, mut baseline64) = ([0f64; LANES * 2], [0f64; LANES * 2]);
    KEY.fill_normal_f64(0, &mut f64s);
    normal::Normal64.convert(&words, &mut baseline64);
    assert_eq!(f64s.map(f64::to_bits), baseline64.map(f64::to_bits));
}

const SAMPLES: usize = 1 << 20;

/// Mean, variance, skewness and excess kurtosis.
fn moments(values: impl Iterator<Item = f64> + Clone) -> [f64; 4] {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let central = |power| values.clone().map(|v| (v - mean).powi(power)).sum::<f64>() / n;
    let variance = central(2);
    [mean, variance, central(3) / variance.powf(1.5), central(4) / variance.powi(2) - 3.0]
}

/// Pearson's statistic against equal expected counts, in standard deviations from its mean.
fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let statistic: f64 = counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

fn assert_near(got: &[f64], expected: &[f64], tolerance: f64) {
    for (g, e) in got.iter().zip(expected) {
        assert!((g - e).abs() < tolerance, "{got:?}, expected {expected:?}");
    }
}

#[test]
fn uniforms_are_uniform() {
    let (mut f32s, mut f64s) = (vec![0f32; SAMPLES], vec![0f64; SAMPLES]);
    Philox::new(1).fill_uniform_f32(0, &mut f32s);
    Philox::new(2).fill_uniform_f64(0, &mut f64s);
    let f32s: Vec<f64> = f32s.into_iter().map(f64::from).collect();
    for values in [f32s, f64s] {
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        assert_near(&moments(values.iter().copied()), &[0.5, 1.0 / 12.0, 0.0, -1.2], 5e-3);
        let mut bins = [0; 256];
        let mut pairs = [0; 256];
        values.iter().for_each(|v| bins[(v * 256.0) as usize] += 1);
        values.as_chunks::<2>().0.iter().for_each(|[a, b]| pairs[(a * 16.0) as usize * 16 + (b * 16.0) as usize] += 1);
        assert!(chi_square(&bins).abs() < 4.0, "{}", chi_square(&bins));
        assert!(chi_square(&pairs).abs() < 4.0, "{}", chi_square(&pairs));
    }
}

#[test]
fn normals_are_normal() {
    let (mut f32s, mut f64s) = (vec![0f32; SAMPLES], vec![0f64; SAMPLES]);
    Philox::new(3).fill_normal_f32(0, &mut f32s);
    Philox::new(4).fill_normal_f64(0, &mut f64s);
    let f32s: Vec<f64> = f32s.into_iter().map(f64::from).collect();
    for values in [f32s, f64s] {
        assert_near(&moments(values.iter().copied()), &[0.0, 1.0, 0.0, 0.0], 1.5e-2);
        // The distribution function maps normals to uniforms.
        let mut bins = [0; 256];
        values.iter().for_each(|v| bins[(libm::erfc(-v * std::f64::consts::FRAC_1_SQRT_2) * 128.0) as usize] += 1);
        assert!(chi_square(&bins).abs() < 4.0, "{}", chi_square(&bins));
        let correlation = values.as_chunks::<2>().0.iter().map(|[a, b]| a * b).sum::<f64>() / (SAMPLES / 2) as f64;
        assert!(correlation.abs() < 5e-3, "{correlation}");
    }
}

#[test]
fn streams_and_seeds_are_unrelated() {
    let draw = |philox: Philox| {
        let mut out = vec![0f64; SAMPLES / 4];
        philox.fill_normal_f64(0, &mut out);
        out
    };
    let base = draw(Philox::new(5));
    for other in [Philox::new(6), Philox::new(5).with_stream(1), Philox::new(5).advanced(1)] {
        let correlation = base.iter().zip(draw(other)).map(|(a, b)| a * b).sum::<f64>() / base.len() as f64;
        assert!(correlation.abs() < 1e-2, "{other:?}: {correlation}");
    }
}

#[test]
fn bernoulli_keeps_its_probability() {
    let mut out = vec![false; SAMPLES];
    for probability in [0.0, 1e-3, 0.3, 0.5, 0.999, 1.0] {
        Philox::new(7).fill_bernoulli(0, &mut out, probability).unwrap();
        let frequency = out.iter().filter(|&&b| b).count() as f64 / SAMPLES as f64;
        let deviation = (probability * (1.0 - probability) / SAMPLES as f64).sqrt();
        assert!((frequency - probability).abs() <= 4.0 * deviation, "{frequency} for {probability}");
    }
    for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let error = Philox::new(7).fill_bernoulli(0, &mut out, wrong).unwrap_err();
        assert!(error.to_string().contains("not between 0 and 1"));
    }
}

#[test]
fn integers_cover_their_range_evenly() {
    let mut out = vec![0; SAMPLES];
    Philox::new(8).fill_integers(0, &mut out, -50, 50).unwrap();
    let mut bins = [0; 100];
    out.iter().for_each(|v| bins[(v + 50) as usize] += 1);
    assert!(chi_square(&bins).abs() < 4.0, "{}", chi_square(&bins));

    Philox::new(8).fill_integers(0, &mut out, i64::MIN, i64::MAX).unwrap();
    let negative = out.iter().filter(|&&v| v < 0).count() as f64 / SAMPLES as f64;
    assert!((negative - 0.5).abs() < 4.0 * 0.5 / (SAMPLES as f64).sqrt(), "{negative}");
    Philox::new(8).fill_integers(0, &mut out, i64::MAX - 1, i64::MAX).unwrap();
    assert!(out.iter().all(|&v| v == i64::MAX - 1));

    for (low, high) in [(3, 3), (4, 3), (i64::MAX, i64::MIN)] {
        assert_eq!(Philox::new(8).fill_integers(0, &mut out, low, high), Err(RandomError::EmptyRange { low, high }));
    }
}

#[test]
fn permutations_hold_every_index_once() {
    for n in [0, 1, 2, 1000] {
        let mut permutation = vec![-1; n];
        KEY.fill_permutation(&mut permutation).unwrap();
        let mut sorted = permutation.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..n as i64));
        if n == 1000 {
            assert!(permutation.iter().enumerate().filter(|&(i, &v)| i as i64 == v).count() < 10);
        }
    }
    // All orders of three are equally likely.
    let mut counts = [0u64; 9];
    for seed in 0..6000 {
        let mut order = [0; 3];
        Philox::new(seed).fill_permutation(&mut order).unwrap();
        counts[(order[0] * 3 + order[1]) as usize] += 1;
    }
    let seen: Vec<u64> = counts.into_iter().filter(|&c| c > 0).collect();
    assert_eq!(seen.len(), 6);
    assert!(chi_square(&seen).abs() < 4.0, "{seen:?}");
}
