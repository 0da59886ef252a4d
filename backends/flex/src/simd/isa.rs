//! Instruction sets: what they offer to kernels, which one the CPU has, and how to run a kernel with one enabled.

use std::ops::{Add, Mul};
use std::sync::OnceLock;

/// A floating-point type with a fused multiply-add.
pub trait Real: Copy + Add<Output = Self> + Mul<Output = Self> {
    /// `self·b + c` with one rounding; slow unless the instruction set has it, so kernels call [`Isa::fma`].
    fn fused(self, b: Self, c: Self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn fused(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn fused(self, b: f64, c: f64) -> f64 {
        self.mul_add(b, c)
    }
}

/// An instruction set, as far as a kernel's source has to know about it.
pub trait Isa: Copy + 'static {
    /// Whether a fused multiply-add is one instruction.
    const FMA: bool;

    /// `a·b + c`: fused where that is fast, with two roundings elsewhere.
    #[inline(always)]
    fn fma<T: Real>(a: T, b: T, c: T) -> T {
        if Self::FMA { a.fused(b, c) } else { a * b + c }
    }

    /// The polynomial `c[0] + c[1]·x + c[2]·x² + …` by Horner's rule.
    #[inline(always)]
    fn poly<T: Real, const N: usize>(x: T, c: [T; N]) -> T {
        let mut sum = c[N - 1];
        let mut i = N - 1;
        while i > 0 {
            i -= 1;
            sum = Self::fma(sum, x, c[i]);
        }
        sum
    }
}

/// What the compilation target guarantees, and no more.
#[derive(Clone, Copy)]
pub struct Portable;

impl Isa for Portable {
    const FMA: bool = cfg!(target_feature = "fma");
}

/// An instruction set beyond the baseline, all of which have a fused multiply-add.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[derive(Clone, Copy)]
struct Fused;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Isa for Fused {
    const FMA: bool = true;
}

/// A computation to run with an instruction set enabled. `run` and all that it calls in its loops must be
/// `#[inline(always)]`: only code that is inlined is compiled for the instruction set.
pub trait Kernel {
    /// What the computation returns.
    type Output;

    /// Runs the computation.
    fn run<S: Isa>(self) -> Self::Output;
}

/// The instruction sets that kernels are compiled for, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The baseline of the compilation target.
    Portable,
    /// NEON, on 64-bit ARM.
    Neon,
    /// AVX2, FMA and F16C, on x86-64.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, on x86-64.
    Avx512,
}

impl Level {
    const ALL: [Level; 4] = [Level::Portable, Level::Neon, Level::Avx2, Level::Avx512];

    /// The name that `UBIQUE_CPU_ISA` takes.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Neon => "neon",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// Whether this CPU has the instruction set.
    pub fn available(self) -> bool {
        match self {
            Level::Portable => true,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[allow(unreachable_patterns, reason = "which levels are left depends on the target")]
            _ => false,
        }
    }

    /// Every level that this CPU has, in ascending order.
    pub fn all_available() -> impl Iterator<Item = Level> {
        Level::ALL.into_iter().filter(|level| level.available())
    }

    /// The level that [`vectorize`] uses: the CPU's best, capped by the environment variable `UBIQUE_CPU_ISA`
    /// (`portable`, `neon`, `avx2` or `avx512`; anything else is ignored). Both are read once.
    pub fn current() -> Level {
        static CURRENT: OnceLock<Level> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let cap = std::env::var("UBIQUE_CPU_ISA").ok();
            let cap = cap.and_then(|name| Level::ALL.into_iter().find(|level| level.name() == name));
            Level::all_available().filter(|level| cap.is_none_or(|cap| *level <= cap)).last().unwrap_or(Level::Portable)
        })
    }
}

/// Starts to bring memory into the second-level cache. The hardware's own prefetching ends with every page, and
/// kernels that go over a row several times leave the memory idle meanwhile.
#[inline(always)]
pub fn prefetch<T>(slice: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for element in slice.iter().step_by((64 / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint about an address of the slice; it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(element).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slice;
}

/// Runs a kernel with the best instruction set that the CPU has (see [`Level::current`]).
#[inline]
pub fn vectorize<K: Kernel>(kernel: K) -> K::Output {
    dispatch(Level::current(), kernel)
}

/// Runs a kernel with the given instruction set, or with the portable one where the CPU lacks it.
pub fn vectorize_with<K: Kernel>(level: Level, kernel: K) -> K::Output {
    dispatch(if level.available() { level } else { Level::Portable }, kernel)
}

/// Runs a kernel at `level`, which the CPU must have: both callers made sure of it.
#[inline(always)]
fn dispatch<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the CPU has the level's features.
        Level::Avx512 => unsafe { run_avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the CPU has the level's features.
        Level::Avx2 => unsafe { run_avx2(kernel) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the CPU has the level's features.
        Level::Neon => unsafe { run_neon(kernel) },
        _ => run_portable(kernel),
    }
}

#[inline(never)]
fn run_portable<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Portable>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn run_neon<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct HasFma;

    impl Kernel for HasFma {
        type Output = bool;

        fn run<S: Isa>(self) -> bool {
            S::FMA
        }
    }

    #[test]
    fn each_level_runs_its_own_code() {
        for level in Level::ALL {
            let expected = level.available() && (level > Level::Portable || Portable::FMA);
            assert_eq!(vectorize_with(level, HasFma), expected, "{}", level.name());
        }
    }

    #[test]
    fn current_level_is_available() {
        assert!(Level::current().available());
        assert!(Level::all_available().any(|level| level == Level::Portable));
    }
}
