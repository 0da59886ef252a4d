//! Data sets and their loading in batches.

mod loader;

pub use loader::{Epoch, Loader, Options};

use ubique_core::host::{WithElement, with_element};
use ubique_core::{Element, Error, HostTensor, Result};

/// Numbered examples, from which batches are made. Loaders call it from several threads.
pub trait Dataset: Send + Sync {
    /// What a batch is.
    type Batch: Send;

    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The examples with the given numbers, each below [`Dataset::len`], as a batch.
    ///
    /// # Errors
    /// Where an example cannot be had.
    fn batch(&self, indices: &[usize]) -> Result<Self::Batch>;
}

impl<D: Dataset + ?Sized> Dataset for std::sync::Arc<D> {
    type Batch = D::Batch;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn batch(&self, indices: &[usize]) -> Result<D::Batch> {
        (**self).batch(indices)
    }
}

/// Examples that are rows of tensors in host memory: images and labels, say. A batch has the chosen rows of each.
#[derive(Clone, Debug)]
pub struct TensorDataset {
    tensors: Vec<HostTensor>,
    len: usize,
}

impl TensorDataset {
    /// A data set of tensors that have equally many rows.
    ///
    /// # Errors
    /// Where there is no tensor, one has rank 0, or they have different numbers of rows.
    pub fn new(tensors: Vec<HostTensor>) -> Result<TensorDataset> {
        let rows = |tensor: &HostTensor| {
            tensor.shape().first().copied().ok_or_else(|| Error::shape("a tensor of rank 0 has no rows"))
        };
        let counts = tensors.iter().map(rows).collect::<Result<Vec<_>>>()?;
        match counts.first() {
            None => Err(Error::value("a data set needs at least one tensor")),
            Some(&len) if counts.iter().all(|&count| count == len) => Ok(TensorDataset { tensors, len }),
            Some(_) => Err(Error::shape(format!("the tensors have different numbers of rows: {counts:?}"))),
        }
    }
}

impl Dataset for TensorDataset {
    type Batch = Vec<HostTensor>;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, indices: &[usize]) -> Result<Vec<HostTensor>> {
        self.tensors.iter().map(|tensor| select_rows(tensor, indices)).collect()
    }
}

/// The rows of a tensor with the given numbers.
fn select_rows(tensor: &HostTensor, indices: &[usize]) -> Result<HostTensor> {
    struct Select<'a>(&'a HostTensor, &'a [usize]);
    impl WithElement for Select<'_> {
        type Output = Result<HostTensor>;
        fn run<T: Element>(self) -> Self::Output {
            let Select(tensor, indices) = self;
            let shape = tensor.shape().with(0, indices.len());
            let (values, row) = (tensor.as_slice::<T>()?, tensor.shape().removed(0).elements()?);
            let mut out = Vec::with_capacity(shape.elements()?);
            for &index in indices {
                let bounds = index.checked_mul(row).and_then(|start| Some(start..start.checked_add(row)?));
                let found = bounds.filter(|_| index < tensor.shape()[0]).and_then(|bounds| values.get(bounds));
                out.extend_from_slice(found.ok_or_else(|| {
                    Error::index(format!("there is no row {index} in a tensor of {}", tensor.spec()))
                })?);
            }
            HostTensor::from_vec(out, shape)
        }
    }
    with_element(tensor.dtype(), Select(tensor, indices))
}

/// A data set from two functions: one that gets an example, and one that makes a batch of examples.
pub struct Items<G, C> {
    len: usize,
    get: G,
    collate: C,
}

impl<G, C> std::fmt::Debug for Items<G, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Items({})", self.len)
    }
}

impl<G, C> Items<G, C> {
    /// A data set of `len` examples.
    pub fn new<T, B>(len: usize, get: G, collate: C) -> Items<G, C>
    where
        G: Fn(usize) -> Result<T> + Send + Sync,
        C: Fn(Vec<T>) -> Result<B> + Send + Sync,
    {
        Items { len, get, collate }
    }
}

impl<T, B, G, C> Dataset for Items<G, C>
where
    B: Send,
    G: Fn(usize) -> Result<T> + Send + Sync,
    C: Fn(Vec<T>) -> Result<B> + Send + Sync,
{
    type Batch = B;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, indices: &[usize]) -> Result<B> {
        (self.collate)(indices.iter().map(|&i| (self.get)(i)).collect::<Result<_>>()?)
    }
}
