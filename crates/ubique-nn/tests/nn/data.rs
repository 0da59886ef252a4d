//! The loader: the same batches whatever the workers, and trouble as errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ubique_core::{DType, Error, HostTensor, Result};
use ubique_nn::data::{Dataset, Items, Loader, Options, TensorDataset};

/// Gives the numbers asked for.
struct Numbers(usize);

impl Dataset for Numbers {
    type Batch = Vec<usize>;

    fn len(&self) -> usize {
        self.0
    }

    fn batch(&self, indices: &[usize]) -> Result<Vec<usize>> {
        Ok(indices.to_vec())
    }
}

fn epoch(count: usize, options: Options, number: u64) -> Vec<Vec<usize>> {
    Loader::new(Numbers(count), options).unwrap().epoch(number).collect::<Result<_>>().unwrap()
}

#[test]
fn batches_cover_the_data_in_order() {
    let options = Options { batch_size: 4, ..Options::default() };
    assert_eq!(epoch(10, options, 0), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
    assert_eq!(epoch(10, Options { drop_last: true, ..options }, 0).len(), 2);
    assert_eq!(epoch(0, options, 0).len(), 0);
    assert_eq!(epoch(0, Options { workers: 2, ..options }, 0).len(), 0);
    assert_eq!(epoch(3, Options { drop_last: true, ..options }, 0).len(), 0);
    assert!(Loader::new(Numbers(3), Options { batch_size: 0, ..options }).is_err());
    assert!(Loader::new(Numbers(3), Options { prefetch: 0, ..options }).is_err());
}

#[test]
fn the_order_depends_on_seed_and_epoch_alone() {
    let options =
        |seed, workers| Options { batch_size: 7, shuffle: Some(seed), workers, prefetch: 3, ..Options::default() };
    let first = epoch(100, options(1, 0), 0);
    for workers in [0, 1, 3] {
        assert_eq!(epoch(100, options(1, workers), 0), first);
    }
    assert_ne!(epoch(100, options(1, 2), 1), first);
    assert_ne!(epoch(100, options(2, 2), 0), first);
    let mut all = first.concat();
    assert_ne!(all, (0..100).collect::<Vec<_>>());
    all.sort();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn workers_stay_within_the_prefetch_and_stop_when_dropped() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    let get = move |i: usize| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(i)
    };
    let options = Options { batch_size: 1, workers: 3, prefetch: 5, ..Options::default() };
    let loader = Loader::new(Items::new(1000, get, Ok::<Vec<usize>, Error>), options).unwrap();
    let mut batches = loader.epoch(0);
    assert_eq!(batches.next().unwrap().unwrap(), [0]);
    let settled = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        made.load(Ordering::SeqCst) == 6
    });
    assert!(settled);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(made.load(Ordering::SeqCst), 6);
    assert_eq!(batches.next().unwrap().unwrap(), [1]);
    drop(batches);
    assert!(made.load(Ordering::SeqCst) <= 8);
}

#[test]
fn errors_and_panics_come_in_their_place_and_end_the_epoch() {
    for workers in [0, 2] {
        for panics in [false, true] {
            let get = move |i: usize| match i {
                5 if panics => panic!("five is bad"),
                5 => Err(Error::value("five is bad")),
                i => Ok(i),
            };
            let options = Options { batch_size: 2, workers, ..Options::default() };
            let loader = Loader::new(Items::new(20, get, Ok::<Vec<usize>, Error>), options).unwrap();
            let batches: Vec<_> = loader.epoch(0).collect();
            assert_eq!(batches.len(), 3);
            assert_eq!(batches[1].as_ref().unwrap(), &[2, 3]);
            let error = batches[2].as_ref().unwrap_err().to_string();
            assert!(error.contains("batch 2") && error.contains("five is bad"), "{error}");
        }
    }
}

#[test]
fn rows_of_tensors_of_any_dtype() {
    let images = HostTensor::from_vec((0..12).map(|v| v as f32).collect(), [4, 3]).unwrap();
    let flags = HostTensor::from_vec(vec![true, false, true, false], [4]).unwrap();
    let empty = HostTensor::from_vec(Vec::<i16>::new(), [4, 0]).unwrap();
    let data = TensorDataset::new(vec![images, flags, empty]).unwrap();
    let batch = data.batch(&[3, 0, 3]).unwrap();
    assert_eq!(batch[0].as_slice::<f32>().unwrap(), [9., 10., 11., 0., 1., 2., 9., 10., 11.]);
    assert_eq!(batch[1].as_slice::<bool>().unwrap(), [false, true, false]);
    assert_eq!((batch[2].shape()[..].to_vec(), batch[2].dtype()), (vec![3, 0], DType::I16));
    assert!(data.batch(&[4]).is_err());
    assert!(TensorDataset::new(Vec::new()).is_err());
    let row = |rows: usize| HostTensor::from_vec(vec![0u8; rows], [rows]).unwrap();
    assert!(TensorDataset::new(vec![row(2), row(3)]).is_err());
    assert!(TensorDataset::new(vec![HostTensor::from_vec(vec![1u8], ()).unwrap()]).is_err());
}
