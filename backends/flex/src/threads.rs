//! Work split over threads, where there is enough of it.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use ubique_core::{Error, Result};

use crate::memory::Shared;

/// How many threads rayon would use by default.
pub fn available() -> usize {
    rayon::current_num_threads()
}

/// The threads of one opened device: rayon's global ones, or a pool of its own.
#[derive(Clone, Debug)]
pub struct Threads {
    count: usize,
    own: Option<Arc<rayon::ThreadPool>>,
}

impl Threads {
    /// The global threads, or `count` of the device's own.
    pub fn new(count: Option<usize>) -> Result<Threads> {
        match count {
            None => Ok(Threads { count: available(), own: None }),
            Some(1) => Ok(Threads { count: 1, own: None }),
            Some(count) => {
                let name = |i| format!("ubique-flex-{i}");
                let pool = rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(name).build();
                let pool = pool.map_err(|e| Error::backend(format!("{count} threads could not be started: {e}")))?;
                Ok(Threads { count, own: Some(Arc::new(pool)) })
            }
        }
    }

    /// How many threads work at a time.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs `f` where rayon's calls use this device's threads.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        match &self.own {
            Some(pool) => pool.install(f),
            None => f(),
        }
    }

    /// Calls `f` with ranges that together cover `0..count`, in parallel where `count` exceeds `grain`.
    ///
    /// `f` is an object on purpose: one compiled copy of the parallel machinery serves every kernel.
    pub fn ranges(&self, count: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
        if self.count == 1 || count <= grain {
            if count > 0 {
                f(0..count);
            }
            return;
        }
        // A few pieces a thread, so that one that is late costs little.
        let pieces = (self.count * 4).min(count.div_ceil(grain));
        let size = count.div_ceil(pieces);
        self.install(|| {
            (0..count.div_ceil(size)).into_par_iter().for_each(|i| f(i * size..((i + 1) * size).min(count)))
        });
    }

    /// Splits `target` in pieces of whole rows of `row` elements and calls `f` with each piece and its first row's
    /// number, in parallel where there are more than `grain` rows.
    pub fn rows<T: Send>(&self, target: &mut [T], row: usize, grain: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let count = target.len().checked_div(row).unwrap_or(0);
        let target = Shared::new(target);
        self.ranges(count, grain, &|range| {
            // SAFETY: ranges are disjoint.
            let part = unsafe { target.part(range.start * row..range.end * row) };
            f(range.start, part);
        });
    }
}
