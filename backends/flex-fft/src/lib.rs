//! Plans of Fourier transforms, by rustfft, for the CPU backend.
//!
//! A crate of its own, and without types of ubique, because rustfft is generic and large: its instances for f32 and f64 are
//! compiled here once, beside the other crates, and not with every change of a kernel.
#![warn(missing_docs)]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustfft::{FftDirection, FftPlanner, FftPlannerScalar};

pub use rustfft::FftNum;
pub use rustfft::num_complex::Complex;
pub use rustfft::num_traits::Zero;

/// How to transform lines of one length in one direction, without scaling.
pub type Plan<W> = Arc<dyn rustfft::Fft<W>>;
/// Those made so far, by length and whether inverse.
type Plans<W> = LazyLock<Mutex<HashMap<(usize, bool), Plan<W>>>>;

/// Elements of all plans kept, beyond which they are made anew.
const KEPT: usize = 1 << 22;

/// A type that transforms are computed in.
pub trait Planned: FftNum {
    /// The plan for lines of `n` complex numbers, with vector instructions where `vectors` allows them and the processor has
    /// them.
    fn plan(n: usize, inverse: bool, vectors: bool) -> Plan<Self>;
}

impl Planned for f32 {
    fn plan(n: usize, inverse: bool, vectors: bool) -> Plan<f32> {
        static PLANS: Plans<f32> = LazyLock::new(Mutex::default);
        find(&PLANS, n, inverse, vectors)
    }
}

impl Planned for f64 {
    fn plan(n: usize, inverse: bool, vectors: bool) -> Plan<f64> {
        static PLANS: Plans<f64> = LazyLock::new(Mutex::default);
        find(&PLANS, n, inverse, vectors)
    }
}

fn find<W: FftNum>(plans: &Plans<W>, n: usize, inverse: bool, vectors: bool) -> Plan<W> {
    let mut plans = plans.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(plan) = plans.get(&(n, inverse)) {
        return plan.clone();
    }
    if plans.keys().map(|(n, _)| n).sum::<usize>() > KEPT {
        plans.clear();
    }
    let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
    let plan = match vectors {
        true => FftPlanner::new().plan_fft(n, direction),
        false => FftPlannerScalar::new().plan_fft(n, direction),
    };
    plans.insert((n, inverse), plan.clone());
    plan
}
