//! Learning rates as functions of the step.

use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

/// A value for each step, counted from 0.
///
/// ```
/// use ubique_nn::Schedule;
///
/// let schedule = Schedule::cosine(0.1, 0.0, 100).warm_up(10);
/// assert!((schedule.at(0) - 0.01).abs() < 1e-12);
/// assert!((schedule.at(9) - 0.1).abs() < 1e-12);
/// assert!((schedule.at(60) - 0.05).abs() < 1e-12);
/// assert_eq!(schedule.at(1000), 0.0);
/// ```
#[derive(Clone)]
pub struct Schedule(Arc<dyn Fn(u64) -> f64 + Send + Sync>);

impl Schedule {
    /// Any function.
    pub fn new(f: impl Fn(u64) -> f64 + Send + Sync + 'static) -> Schedule {
        Schedule(Arc::new(f))
    }

    /// The same value always.
    pub fn constant(value: f64) -> Schedule {
        Schedule::new(move |_| value)
    }

    /// Multiplied by `factor` after every `every` steps (0 for never).
    pub fn step(value: f64, every: u64, factor: f64) -> Schedule {
        Schedule::new(move |step| value * factor.powf(step.checked_div(every).unwrap_or(0) as f64))
    }

    /// A straight line from one value to another in `steps` steps, and then level.
    pub fn linear(from: f64, to: f64, steps: u64) -> Schedule {
        Schedule::new(move |step| from + (to - from) * share(step, steps))
    }

    /// Half a cosine wave from one value to another in `steps` steps, and then level (Loshchilov and Hutter 2017).
    pub fn cosine(from: f64, to: f64, steps: u64) -> Schedule {
        Schedule::new(move |step| match share(step, steps) {
            1.0 => to,
            share => to + (from - to) * 0.5 * (1.0 + (PI * share).cos()),
        })
    }

    /// First rises on a straight line to this schedule's first value, which is reached at step `steps - 1`; then follows it.
    #[must_use]
    pub fn warm_up(self, steps: u64) -> Schedule {
        let first = self.at(0);
        Schedule::new(move |step| first * (step + 1) as f64 / steps as f64).then(steps, self)
    }

    /// From step `at` on, `next`, which begins at its own step 0.
    #[must_use]
    pub fn then(self, at: u64, next: Schedule) -> Schedule {
        Schedule::new(move |step| match step.checked_sub(at) {
            Some(step) => next.at(step),
            None => self.at(step),
        })
    }

    /// The value at a step.
    pub fn at(&self, step: u64) -> f64 {
        self.0(step)
    }
}

/// How much of `steps` is done: 0 to 1.
fn share(step: u64, steps: u64) -> f64 {
    if step >= steps { 1.0 } else { step as f64 / steps as f64 }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule(first {})", self.at(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_and_beyond_the_ends() {
        let stairs = Schedule::step(1.0, 10, 0.5);
        assert_eq!([0, 9, 10, 25].map(|s| stairs.at(s)), [1.0, 1.0, 0.5, 0.25]);
        assert_eq!(Schedule::step(1.0, 0, 0.5).at(99), 1.0);
        let line = Schedule::linear(1.0, 3.0, 4);
        assert_eq!([0, 1, 4, 99].map(|s| line.at(s)), [1.0, 1.5, 3.0, 3.0]);
        assert_eq!(Schedule::linear(1.0, 3.0, 0).at(0), 3.0);
        let wave = Schedule::cosine(2.0, 0.0, 4);
        assert!([(0, 2.0), (2, 1.0), (4, 0.0), (u64::MAX, 0.0)].iter().all(|&(s, v)| (wave.at(s) - v).abs() < 1e-12));
        let both = Schedule::constant(1.0).then(3, Schedule::constant(2.0)).warm_up(0);
        assert_eq!([0, 2, 3].map(|s| both.at(s)), [1.0, 1.0, 2.0]);
    }
}
