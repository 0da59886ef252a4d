//! The loader: batches in a fixed order, made by worker threads a few ahead of their use.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ubique_core::error::panic_message;
use ubique_core::random::Philox;
use ubique_core::{Error, Result};

use super::Dataset;

/// How batches are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Examples in a batch.
    pub batch_size: usize,
    /// The seed of a random order, another for each epoch; `None` keeps the order of the data set.
    pub shuffle: Option<u64>,
    /// Whether to leave out a last batch that is not full.
    pub drop_last: bool,
    /// How many threads make batches; 0 for the caller's own.
    pub workers: usize,
    /// How many batches may be made ahead of their use, at least 1.
    pub prefetch: usize,
}

impl Default for Options {
    /// Batches of 32 in order, made by the caller's thread.
    fn default() -> Options {
        Options { batch_size: 32, shuffle: None, drop_last: false, workers: 0, prefetch: 4 }
    }
}

/// Gives the batches of a data set, epoch by epoch. The batches and their order depend on the options and the number of
/// the epoch alone, however many workers there are.
///
/// ```
/// use ubique_core::HostTensor;
/// use ubique_nn::data::{Loader, Options, TensorDataset};
///
/// let images = HostTensor::from_vec(vec![0f32; 10 * 4], [10, 4])?;
/// let labels = HostTensor::from_vec((0..10i64).collect(), [10])?;
/// let options = Options { batch_size: 4, shuffle: Some(7), workers: 2, ..Options::default() };
/// let loader = Loader::new(TensorDataset::new(vec![images, labels])?, options)?;
/// let mut seen = Vec::new();
/// for batch in loader.epoch(0) {
///     seen.extend_from_slice(batch?[1].as_slice::<i64>()?);
/// }
/// seen.sort();
/// assert_eq!(seen, (0..10).collect::<Vec<i64>>());
/// # Ok::<(), ubique_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Loader<D> {
    dataset: Arc<D>,
    options: Options,
}

impl<D: Dataset + 'static> Loader<D> {
    /// A loader of a data set.
    ///
    /// # Errors
    /// Where the batch size or the prefetch is 0.
    pub fn new(dataset: impl Into<Arc<D>>, options: Options) -> Result<Loader<D>> {
        if options.batch_size == 0 || options.prefetch == 0 {
            return Err(Error::value("the batch size and the prefetch of a loader must be at least 1"));
        }
        Ok(Loader { dataset: dataset.into(), options })
    }

    /// The data set.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// How many batches an epoch has.
    pub fn batches(&self) -> usize {
        let (examples, size) = (self.dataset.len(), self.options.batch_size);
        if self.options.drop_last { examples / size } else { examples.div_ceil(size) }
    }

    /// The batches of an epoch. Trouble of any kind (an example that cannot be had, a worker that panics, a thread that
    /// cannot be started) comes as an error in the place of the batch, and is the last item.
    pub fn epoch(&self, number: u64) -> Epoch<D::Batch> {
        match self.start(number) {
            Ok(epoch) => epoch,
            Err(error) => Epoch { source: Source::Failed(Some(error)) },
        }
    }

    fn start(&self, number: u64) -> Result<Epoch<D::Batch>> {
        let Options { batch_size, workers, prefetch, .. } = self.options;
        let order = self.order(number)?;
        let (dataset, count) = (self.dataset.clone(), self.batches());
        let make = move |batch: usize| {
            let start = batch * batch_size;
            let end = order.len().min(start + batch_size);
            guarded(|| dataset.batch(&order[start..end])).map_err(|e| e.context(format!("batch {batch}")))
        };
        if workers == 0 {
            return Ok(Epoch { source: Source::Own { make: Box::new(make), batches: 0..count } });
        }
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), count, prefetch });
        let mut crew = Crew { shared: shared.clone(), threads: Vec::new() };
        let make = Arc::new(make);
        for _ in 0..workers.min(count) {
            let (shared, make) = (shared.clone(), make.clone());
            let thread = std::thread::Builder::new().name("ubique-loader".to_owned());
            let thread = thread.spawn(move || shared.work(&*make));
            crew.threads.push(thread.map_err(|e| Error::io("starting a loader thread", e))?);
        }
        Ok(Epoch { source: Source::Crew(crew) })
    }

    /// The order of the examples.
    fn order(&self, epoch: u64) -> Result<Vec<usize>> {
        let count = self.dataset.len();
        let Some(seed) = self.options.shuffle else { return Ok((0..count).collect()) };
        let mut order = vec![0; count];
        Philox::new(seed).with_stream(epoch).fill_permutation(&mut order)?;
        Ok(order.into_iter().map(|i| i as usize).collect())
    }
}

/// A panic as an error.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let said = panic_message(&*panic).unwrap_or("it did not say why");
        Err(Error::backend(format!("the data set panicked: {said}")))
    })
}

/// The batches of one epoch, in order. Dropping it stops its workers.
pub struct Epoch<B> {
    source: Source<B>,
}

enum Source<B> {
    Own { make: Box<dyn Fn(usize) -> Result<B> + Send>, batches: std::ops::Range<usize> },
    Crew(Crew<B>),
    Failed(Option<Error>),
}

impl<B> std::fmt::Debug for Epoch<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Epoch")
    }
}

impl<B> Iterator for Epoch<B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        let batch = match &mut self.source {
            Source::Own { make, batches } => make(batches.next()?),
            Source::Crew(crew) => crew.shared.take()?,
            Source::Failed(error) => Err(error.take()?),
        };
        if batch.is_err() {
            self.source = Source::Failed(None);
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.source {
            // An error ends the epoch early.
            Source::Own { batches, .. } => (0, Some(batches.len())),
            Source::Crew(crew) => (0, Some(crew.shared.count - crew.shared.lock().taken)),
            Source::Failed(error) => (0, Some(error.is_some() as usize)),
        }
    }
}

/// The workers of an epoch; dropped, they stop.
struct Crew<B> {
    shared: Arc<Shared<B>>,
    threads: Vec<JoinHandle<()>>,
}

impl<B> Drop for Crew<B> {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // Workers do not panic: what could is guarded.
            let _ = thread.join();
        }
    }
}

/// What the workers and the consumer share.
struct Shared<B> {
    state: Mutex<Progress<B>>,
    changed: Condvar,
    /// How many batches there are.
    count: usize,
    prefetch: usize,
}

struct Progress<B> {
    /// The next batch that a worker will make.
    next: usize,
    /// How many batches the consumer has taken.
    taken: usize,
    ready: BTreeMap<usize, Result<B>>,
    stopped: bool,
}

impl<B> Default for Progress<B> {
    fn default() -> Progress<B> {
        Progress { next: 0, taken: 0, ready: BTreeMap::new(), stopped: false }
    }
}

impl<B> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, Progress<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, Progress<B>>) -> MutexGuard<'a, Progress<B>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker: makes batches until there are no more, never further ahead than allowed.
    fn work(&self, make: &(impl Fn(usize) -> Result<B> + ?Sized)) {
        let mut state = self.lock();
        while !state.stopped && state.next < self.count {
            if state.next >= state.taken + self.prefetch {
                state = self.wait(state);
                continue;
            }
            let batch = state.next;
            state.next += 1;
            drop(state);
            let made = make(batch);
            state = self.lock();
            state.ready.insert(batch, made);
            self.changed.notify_all();
        }
    }

    /// The consumer: the next batch in order.
    fn take(&self) -> Option<Result<B>> {
        let mut state = self.lock();
        if state.taken == self.count {
            return None;
        }
        loop {
            let batch = state.taken;
            if let Some(made) = state.ready.remove(&batch) {
                state.taken += 1;
                self.changed.notify_all();
                return Some(made);
            }
            state = self.wait(state);
        }
    }
}
