//! Random numbers: draws from a device's Philox stream, and dropout. The same seed gives the same integers and uniforms
//! bit for bit on every backend, and normals within 2 ulp; see [`crate::random`] for how elements come from words.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::autodiff::vjp::{Cotangents, Saves, Vjp};
use crate::dispatch::{Device, run};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::case::Case;
use crate::op::reference::{RefTensor, Values};
use crate::op::{Op, Rule, Specs, Traits, operands, require_float};
use crate::random::{Philox, RandomError, bernoulli_threshold};
use crate::shape::{Shape, TensorSpec};
use crate::tensor::Tensor;

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// `low + u·(high - low)`, `u` uniform in `[0, 1)`, always below `high`.
    Uniform {
        /// The lower bound, included.
        low: f64,
        /// The upper bound, excluded.
        high: f64,
    },
    /// `mean + std·z`, `z` of the standard normal distribution.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// 1 with a probability, otherwise 0.
    Bernoulli {
        /// The probability of 1.
        probability: f64,
    },
    /// Integers.
    Integers {
        /// The lower bound, included.
        low: i64,
        /// The upper bound, excluded.
        high: i64,
    },
    /// The integers from 0 below the number of elements, each once, in random order.
    Permutation,
}

impl Distribution {
    /// How many elements a block of four random words gives.
    pub fn per_block(self, dtype: DType) -> u64 {
        match self {
            Distribution::Uniform { .. } | Distribution::Normal { .. } if dtype != DType::F64 => 4,
            Distribution::Bernoulli { .. } => 4,
            _ => 2,
        }
    }

    fn check(self, spec: &TensorSpec) -> Result<()> {
        let dtype = spec.dtype;
        let fits = match self {
            Distribution::Uniform { .. } | Distribution::Normal { .. } => dtype.is_float(),
            Distribution::Bernoulli { .. } => true,
            Distribution::Integers { .. } => dtype.is_int(),
            Distribution::Permutation => dtype == DType::I64,
        };
        if !fits {
            return Err(Error::dtype(format!("{self:?} cannot be {dtype}")));
        }
        match self {
            Distribution::Uniform { low, high } => {
                let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                if !wide.round(high - low).is_finite() || dtype.round(low) > largest_below(high, dtype) {
                    return Err(Error::value(format!(
                        "there is no {dtype} in [{low}, {high}): the upper bound is excluded"
                    )));
                }
            }
            Distribution::Normal { mean, std } if !(mean.is_finite() && std.is_finite() && std >= 0.0) => {
                return Err(Error::value(format!(
                    "no normal distribution has mean {mean} and standard deviation {std}"
                )));
            }
            Distribution::Bernoulli { probability } => {
                bernoulli_threshold(probability)?;
            }
            Distribution::Integers { low, high } => {
                if low >= high {
                    return Err(RandomError::EmptyRange { low, high }.into());
                }
                let fits = |v: i64| dtype.int_range().is_some_and(|(min, max)| (min..=max).contains(&v.into()));
                if !fits(low) || !fits(high - 1) {
                    return Err(Error::value(format!("{dtype} does not hold all integers in [{low}, {high})")));
                }
            }
            Distribution::Permutation if spec.shape.rank() != 1 => {
                return Err(Error::shape(format!("a permutation has rank 1, not {}", spec.shape.rank())));
            }
            _ => {}
        }
        Ok(())
    }
}

impl From<RandomError> for Error {
    fn from(error: RandomError) -> Error {
        match error {
            RandomError::OutOfMemory(_) => Error::out_of_memory(error.to_string()),
            _ => Error::value(error.to_string()),
        }
    }
}

/// The largest value of a float dtype below a bound: what a uniform draw is held to, since rounding could reach the bound.
pub fn largest_below(bound: f64, dtype: DType) -> f64 {
    let near = dtype.round(bound);
    if near < bound {
        return near;
    }
    // One step down in the order of the bits: towards 0 for positive values, away from it for negative ones.
    fn down16(bits: u16) -> u16 {
        match bits {
            0 => 0x8001,
            bits if bits & 0x8000 != 0 => bits + 1,
            bits => bits - 1,
        }
    }
    match dtype {
        _ if near == 0.0 && dtype == DType::F16 => -f16::from_bits(1).to_f64(),
        _ if near == 0.0 && dtype == DType::BF16 => -bf16::from_bits(1).to_f64(),
        DType::F16 => f16::from_bits(down16(f16::from_f64(near).to_bits())).to_f64(),
        DType::BF16 => bf16::from_bits(down16(bf16::from_f64(near).to_bits())).to_f64(),
        DType::F32 => (near as f32).next_down() as f64,
        _ => near.next_down(),
    }
}

/// A draw. Uniforms and normals are computed in f32 (f64 for f64), each operation rounded on its own, and then rounded
/// to the dtype.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Random {
    /// What is drawn.
    pub distribution: Distribution,
    /// The result's shape and dtype.
    pub spec: TensorSpec,
    /// Where in which sequence the draw begins.
    pub source: Philox,
}

/// Element `i`'s 32-bit word.
fn word32(source: &Philox, i: usize) -> u32 {
    let position = source.offset.wrapping_add(i as u64);
    source.block(position / 4)[(position % 4) as usize]
}

/// Element `i`'s 64-bit word.
fn word64(source: &Philox, i: usize) -> u64 {
    let position = source.offset.wrapping_add(i as u64);
    let block = source.block(position / 2);
    let half = (position % 2) as usize * 2;
    block[half] as u64 | (block[half + 1] as u64) << 32
}

/// Element `i` of the standard normal distribution: Box-Muller on the pair of words that the element shares.
fn normal(source: &Philox, i: usize, double: bool) -> f64 {
    let position = source.offset.wrapping_add(i as u64);
    let (u, t) = if double {
        let block = source.block(position / 2);
        let unit = |low: usize| {
            let word = block[low] as u64 | (block[low + 1] as u64) << 32;
            ((word >> 12) as f64 + 0.5) / (1u64 << 52) as f64
        };
        (unit(0), unit(2))
    } else {
        let block = source.block(position / 4);
        let first = (position % 4) as usize / 2 * 2;
        let exact = (block[first] as f64 + 0.5) / (1u64 << 32) as f64;
        // Truncated to the 24 bits of an f32: rounded, and one step back where that went up.
        let near = exact as f32;
        let u = if near as f64 > exact { near.next_down() } else { near };
        (u as f64, ((block[first + 1] >> 8) as f64 + 0.5) / (1u64 << 24) as f64)
    };
    // The nearest quarter turn is taken off exactly, so that small results are accurate too.
    let quarter = (4.0 * t).round();
    let (sin, cos) = ((t - quarter / 4.0) * std::f64::consts::TAU).sin_cos();
    let turned = match (quarter as usize + (position % 2) as usize * 3) % 4 {
        0 => cos,
        1 => -sin,
        2 => -cos,
        _ => sin,
    };
    (-2.0 * u.ln()).sqrt() * turned
}

impl Random {
    fn floats(&self, count: usize) -> Vec<f64> {
        let (dtype, source) = (self.spec.dtype, &self.source);
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let scaled = |u: f64, scale: f64, shift: f64| {
            dtype.round(wide.round(wide.round(u * wide.round(scale)) + wide.round(shift)))
        };
        let element = |i: usize| match self.distribution {
            Distribution::Uniform { low, high } => {
                let u = match wide {
                    DType::F64 => (word64(source, i) >> 11) as f64 / (1u64 << 53) as f64,
                    _ => (word32(source, i) >> 8) as f64 / (1u64 << 24) as f64,
                };
                scaled(u, high - low, low).min(largest_below(high, dtype))
            }
            Distribution::Normal { mean, std } => scaled(wide.round(normal(source, i, wide == DType::F64)), std, mean),
            _ => 0.0,
        };
        (0..count).map(element).collect()
    }

    fn ints(&self, count: usize) -> Result<Vec<i128>> {
        let source = &self.source;
        Ok(match self.distribution {
            Distribution::Bernoulli { probability } => {
                let threshold = bernoulli_threshold(probability)?;
                (0..count).map(|i| (u64::from(word32(source, i)) < threshold) as i128).collect()
            }
            Distribution::Integers { low, high } => {
                let width = (high as i128 - low as i128) as u128;
                (0..count).map(|i| low as i128 + ((word64(source, i) as u128 * width) >> 64) as i128).collect()
            }
            _ => {
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by_key(|&i| word64(source, i));
                order.into_iter().map(|i| i as i128).collect()
            }
        })
    }
}

impl Rule for Random {
    fn name(&self) -> &'static str {
        match self.distribution {
            Distribution::Uniform { .. } => "uniform",
            Distribution::Normal { .. } => "normal",
            Distribution::Bernoulli { .. } => "bernoulli",
            Distribution::Integers { .. } => "randint",
            Distribution::Permutation => "randperm",
        }
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        operands::<0>(inputs)?;
        self.distribution.check(&self.spec)?;
        self.spec.shape.bytes(self.spec.dtype)?;
        Ok(self.spec.clone().into())
    }

    fn reference(&self, _inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let spec = &outputs[0];
        let count = spec.shape.elements()?;
        Ok(vec![match self.distribution {
            Distribution::Uniform { .. } | Distribution::Normal { .. } => {
                RefTensor::float(&spec.shape, spec.dtype, self.floats(count))
            }
            _ => {
                let ints = RefTensor::int(&spec.shape, DType::I64, self.ints(count)?);
                match spec.dtype.is_float() {
                    true => RefTensor::float(&spec.shape, spec.dtype, ints.floats()),
                    false => RefTensor { spec: spec.clone(), values: Values::Int(ints.ints()) },
                }
            }
        }])
    }

    fn cases() -> Vec<Case> {
        let source = Philox { seed: 7, stream: 1 << 40, offset: 3 };
        let case = |distribution, shape: &[usize], dtype, offset| {
            let source = Philox { offset, ..source };
            Case::new(Random { distribution, spec: TensorSpec::new(shape, dtype), source })
        };
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for shape in [&[][..], &[0, 3], &[37, 3], &[1025]] {
                cases.push(case(Distribution::Uniform { low: 0.0, high: 1.0 }, shape, dtype, 3));
                cases.push(case(Distribution::Uniform { low: -3.0, high: -2.5 }, shape, dtype, 0));
                cases.push(case(Distribution::Normal { mean: 0.0, std: 1.0 }, shape, dtype, 1));
                cases.push(case(Distribution::Normal { mean: 10.0, std: 0.5 }, shape, dtype, u64::MAX - 50));
            }
        }
        for dtype in DType::COMPUTED {
            for probability in [0.0, 0.3, 1.0] {
                cases.push(case(Distribution::Bernoulli { probability }, &[37, 3], dtype, 2));
            }
        }
        for dtype in DType::INTS {
            let (low, high) = if dtype.int_range().is_some_and(|(min, _)| min < 0) { (-100, 28) } else { (3, 255) };
            cases.push(case(Distribution::Integers { low, high }, &[5, 7, 3], dtype, 5));
        }
        cases.push(case(Distribution::Integers { low: i64::MIN, high: i64::MAX }, &[1000], DType::I64, 0));
        for count in [0, 1, 2, 1001] {
            cases.push(case(Distribution::Permutation, &[count], DType::I64, 4));
        }
        cases
    }
}

/// Each element 0 with a probability, otherwise multiplied by 1 / (1 - probability) (Srivastava et al. 2014). What is
/// dropped follows from the source alone, so the gradient draws it again instead of keeping it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dropout {
    /// The probability of 0.
    pub probability: f64,
    /// Element `i` is 0 where [`Distribution::Bernoulli`] would draw 1 from here.
    pub source: Philox,
}

impl Dropout {
    /// What the elements that stay are multiplied by.
    pub fn scale(&self) -> f64 {
        // With probability 1 no element stays.
        if self.probability < 1.0 { 1.0 / (1.0 - self.probability) } else { 0.0 }
    }

    fn mask(&self, shape: &Shape, dtype: DType) -> Random {
        let distribution = Distribution::Bernoulli { probability: self.probability };
        Random { distribution, spec: TensorSpec::new(shape, dtype), source: self.source }
    }
}

impl Rule for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn infer(&self, inputs: &[TensorSpec]) -> Result<Specs> {
        let [x] = operands(inputs)?;
        require_float(x)?;
        bernoulli_threshold(self.probability)?;
        Ok(Specs::Like(0))
    }

    fn traits(&self) -> Traits {
        Traits::own(Saves::NONE).memory_bound()
    }

    fn vjp(&self, call: &Vjp<'_>) -> Result<Cotangents> {
        Ok(Cotangents::one(run::call(Op::Dropout(self.clone()), [call.grad(0)?.into()])?))
    }

    fn decompose(&self, inputs: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        let [x] = inputs else { return Ok(None) };
        let dropped = run::create(self.mask(x.shape(), DType::Bool), x.device())?;
        Ok(Some(vec![(x * self.scale()).tensor()?.masked_fill(&dropped, 0)?]))
    }

    fn reference(&self, inputs: &[RefTensor], outputs: &[TensorSpec]) -> Result<Vec<RefTensor>> {
        let (x, spec) = (&inputs[0], &outputs[0]);
        let dropped = self.mask(&spec.shape, DType::Bool).ints(x.len())?;
        let element = |(x, dropped): (f64, i128)| if dropped == 1 { 0.0 } else { x * self.scale() };
        Ok(vec![RefTensor::float(&spec.shape, spec.dtype, x.floats().into_iter().zip(dropped).map(element).collect())])
    }

    fn cases() -> Vec<Case> {
        let case = |probability| Case::new(Dropout { probability, source: Philox { seed: 3, stream: 0, offset: 5 } });
        let mut cases = Vec::new();
        for dtype in DType::FLOATS {
            for probability in [0.0, 0.4, 1.0] {
                cases.push(case(probability).input([37, 3], dtype));
                cases.push(case(probability).input_with([39], dtype, crate::op::case::Fill::Special));
            }
        }
        cases.push(case(0.5).input((), DType::F32));
        cases.push(case(0.5).input([3, 0], DType::F32));
        cases.push(case(0.1).input([1029], DType::F32));
        cases
    }
}

/// Reserves what a draw of `count` elements consumes of the device's stream.
fn reserve(device: &Device, count: usize, per_block: u64) -> Philox {
    let (seed, block) = device.reserve_random((count as u64).div_ceil(per_block));
    Philox { seed, stream: 0, offset: block.wrapping_mul(per_block) }
}

fn draw(distribution: Distribution, shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    let spec = TensorSpec::new(shape, dtype);
    let source = Philox { seed: 0, stream: 0, offset: 0 };
    let mut random = Random { distribution, spec, source };
    // A draw that is refused consumes nothing.
    Op::Random(random.clone()).infer(&[]).map_err(|e| e.with_device(device.name()))?;
    random.source = reserve(device, random.spec.shape.elements()?, distribution.per_block(dtype));
    run::create(random, device)
}

impl Tensor {
    /// Uniform random numbers in `[low, high)`.
    ///
    /// # Errors
    /// Where the dtype is not floating point, a bound is not finite, or the dtype has no value in the range.
    pub fn uniform(shape: impl Into<Shape>, low: f64, high: f64, dtype: DType, device: &Device) -> Result<Tensor> {
        draw(Distribution::Uniform { low, high }, shape, dtype, device)
    }

    /// Normally distributed random numbers.
    ///
    /// # Errors
    /// Where the dtype is not floating point, a parameter is not finite, or the standard deviation is negative.
    pub fn normal(shape: impl Into<Shape>, mean: f64, std: f64, dtype: DType, device: &Device) -> Result<Tensor> {
        draw(Distribution::Normal { mean, std }, shape, dtype, device)
    }

    /// 1 (`true` for bools) with a probability, otherwise 0.
    ///
    /// # Errors
    /// Where the probability is not between 0 and 1.
    pub fn bernoulli(shape: impl Into<Shape>, probability: f64, dtype: DType, device: &Device) -> Result<Tensor> {
        draw(Distribution::Bernoulli { probability }, shape, dtype, device)
    }

    /// Uniform random integers in `[low, high)`.
    ///
    /// # Errors
    /// Where the range is empty, or the dtype is not an integer type that holds all of it.
    pub fn randint(shape: impl Into<Shape>, low: i64, high: i64, dtype: DType, device: &Device) -> Result<Tensor> {
        draw(Distribution::Integers { low, high }, shape, dtype, device)
    }

    /// The integers `0..count` (i64), each once, in random order.
    ///
    /// # Errors
    /// Where memory cannot be had.
    pub fn randperm(count: usize, device: &Device) -> Result<Tensor> {
        draw(Distribution::Permutation, [count], DType::I64, device)
    }

    /// Each element 0 with a probability, otherwise multiplied by 1 / (1 - probability), so that the mean stays
    /// (Srivastava et al. 2014). For training; at inference the tensor is used as it is.
    ///
    /// # Errors
    /// Where the dtype is not floating point or the probability is not between 0 and 1.
    pub fn dropout(&self, probability: f64) -> Result<Tensor> {
        let mut rule = Dropout { probability, source: Philox { seed: 0, stream: 0, offset: 0 } };
        Op::Dropout(rule.clone()).infer(&[self.spec()]).map_err(|e| e.with_device(self.device().name()))?;
        if probability == 0.0 {
            return Ok(self.clone());
        }
        let per_block = Distribution::Bernoulli { probability }.per_block(self.dtype());
        rule.source = reserve(self.device(), self.elements(), per_block);
        run::call(Op::Dropout(rule), [self.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_stepped_below() {
        assert_eq!(largest_below(1.0, DType::F64), 1.0f64.next_down());
        assert_eq!(largest_below(1.0, DType::F32), 1.0f32.next_down() as f64);
        assert_eq!(largest_below(1.0, DType::F16), 1.0 - 2f64.powi(-11));
        assert_eq!(largest_below(1.0, DType::BF16), 1.0 - 2f64.powi(-8));
        assert_eq!(largest_below(0.0, DType::F16), -(2f64.powi(-24)));
        assert_eq!(largest_below(-0.0, DType::F32), -f32::from_bits(1) as f64);
        assert_eq!(largest_below(-1.0, DType::F16), -1.0 - 2f64.powi(-10));
        assert_eq!(largest_below(1e9, DType::F16), 65504.0);
        for dtype in DType::FLOATS {
            let below = largest_below(0.1, dtype);
            assert!(below < 0.1 && dtype.round(below) == below);
        }
    }

    #[test]
    fn refuses_distributions_that_make_no_sense() {
        let check = |distribution: Distribution, dtype| distribution.check(&TensorSpec::new([2, 2], dtype));
        assert!(check(Distribution::Uniform { low: 1.0, high: 1.0 }, DType::F32).is_err());
        assert!(check(Distribution::Uniform { low: f64::NAN, high: 1.0 }, DType::F32).is_err());
        assert!(check(Distribution::Uniform { low: -3e38, high: 3e38 }, DType::F32).is_err());
        assert!(check(Distribution::Uniform { low: -3e38, high: 3e38 }, DType::F64).is_ok());
        assert!(check(Distribution::Uniform { low: 0.0, high: 1.0 }, DType::I32).is_err());
        assert!(check(Distribution::Normal { mean: 0.0, std: -1.0 }, DType::F32).is_err());
        assert!(check(Distribution::Bernoulli { probability: 1.5 }, DType::Bool).is_err());
        assert!(check(Distribution::Integers { low: 0, high: 256 }, DType::U8).is_ok());
        assert!(check(Distribution::Integers { low: 0, high: 257 }, DType::U8).is_err());
        assert!(check(Distribution::Integers { low: i64::MIN, high: i64::MIN }, DType::I64).is_err());
        assert!(check(Distribution::Permutation, DType::I64).is_err());
    }

    #[test]
    fn the_reference_agrees_with_the_generator() {
        let source = Philox { seed: 11, stream: 2, offset: 7 };
        let values = |distribution, dtype| {
            let random = Random { distribution, spec: TensorSpec::new([101], dtype), source };
            random.reference(&[], std::slice::from_ref(&random.spec)).unwrap().remove(0)
        };
        let mut uniform = [0f32; 101];
        source.fill_uniform_f32(0, &mut uniform);
        assert_eq!(values(Distribution::Uniform { low: 0.0, high: 1.0 }, DType::F32).floats(), uniform.map(f64::from));
        let mut ints = [0i64; 101];
        source.fill_integers(0, &mut ints, -5, 1000).unwrap();
        assert_eq!(values(Distribution::Integers { low: -5, high: 1000 }, DType::I64).ints(), ints.map(i128::from));
        source.fill_permutation(&mut ints).unwrap();
        assert_eq!(values(Distribution::Permutation, DType::I64).ints(), ints.map(i128::from));
        let mut normals = [0f32; 101];
        source.fill_normal_f32(0, &mut normals);
        for (a, b) in values(Distribution::Normal { mean: 0.0, std: 1.0 }, DType::F32).floats().into_iter().zip(normals)
        {
            assert!((a - b as f64).abs() <= 2.0 * (f32::EPSILON as f64) * a.abs(), "{a} {b}");
        }
        let mut doubles = [0f64; 101];
        source.fill_normal_f64(0, &mut doubles);
        for (a, b) in values(Distribution::Normal { mean: 0.0, std: 1.0 }, DType::F64).floats().into_iter().zip(doubles)
        {
            assert!((a - b).abs() <= 4.0 * f64::EPSILON * a.abs(), "{a} {b}");
        }
    }
}
