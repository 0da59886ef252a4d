//! safetensors files: round trips, and files that are not what they should be.

use std::path::Path;

use ubique_core::{DType, HostTensor, Scalar, Tensor};
use ubique_nn::Checkpoint;

use crate::device;

/// One tensor of each dtype, of ranks 0 to 3, one of them empty and one strided.
fn everything() -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    for (i, dtype) in DType::ALL.into_iter().enumerate() {
        let shape = [3, 2, 1][..i % 4].to_vec();
        let count: usize = shape.iter().product();
        let value =
            |i: usize| if dtype == DType::Bool { Scalar::Bool(i.is_multiple_of(2)) } else { Scalar::Int(i as i64 + 1) };
        let host = HostTensor::from_scalars((0..count).map(value), dtype, &shape[..]).unwrap();
        checkpoint.tensors.insert(format!("of.{dtype}"), Tensor::from_host(host, &device()).unwrap());
    }
    let matrix = Tensor::arange(0, 6, 1, DType::F32, &device()).unwrap().reshape([2, 3]).unwrap();
    checkpoint.tensors.insert("strided".to_owned(), matrix.t().unwrap());
    checkpoint.tensors.insert("empty".to_owned(), Tensor::zeros([2, 0], DType::F32, &device()).unwrap());
    checkpoint.metadata.insert("kind".to_owned(), "every \"dtype\"\n".to_owned());
    checkpoint.metadata.insert("a".to_owned(), "b".to_owned());
    checkpoint
}

fn load(path: &Path) -> ubique_core::Result<Checkpoint> {
    Checkpoint::load(path, &device())
}

#[test]
fn every_dtype_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (path, again) = (directory.path().join("all.safetensors"), directory.path().join("again.safetensors"));
    let saved = everything();
    saved.save(&path).unwrap();
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.metadata, saved.metadata);
    assert_eq!(loaded.tensors.keys().collect::<Vec<_>>(), saved.tensors.keys().collect::<Vec<_>>());
    for (name, tensor) in &saved.tensors {
        assert_eq!(loaded.tensors[name].spec(), tensor.spec(), "{name}");
        assert_eq!(loaded.tensors[name].to_host().unwrap().bytes(), tensor.to_host().unwrap().bytes(), "{name}");
    }
    loaded.save(&again).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
    // Another reader agrees.
    let bytes = std::fs::read(&path).unwrap();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.tensor("strided").unwrap().shape(), [3, 2]);
    let nothing = directory.path().join("nothing.safetensors");
    Checkpoint::default().save(&nothing).unwrap();
    assert!(load(&nothing).unwrap().tensors.is_empty());
}

#[test]
fn parts_come_apart_as_they_were_put_together() {
    let whole = Checkpoint::default().with("model.", everything()).with("optimizer.", Checkpoint::default());
    assert!(whole.tensors.contains_key("model.of.f32"));
    let part = whole.part("model.");
    assert_eq!(part.metadata, everything().metadata);
    assert_eq!(part.tensors.len(), everything().tensors.len());
    assert!(whole.part("optimizer.").tensors.is_empty());
}

#[test]
fn damaged_files_are_errors_that_name_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.safetensors");
    everything().save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let fails = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        error
    };
    // Cut short anywhere, or longer than it says.
    for length in (0..good.len()).step_by(7) {
        fails(&good[..length]);
    }
    fails(&[&good[..], &[0]].concat());
    // A header that is too long, no JSON, or lies about offsets, dtypes and sizes.
    fails(&[&u64::MAX.to_le_bytes(), &good[8..]].concat());
    let with_header =
        |header: &str, data: &[u8]| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat();
    fails(&with_header("{\"x\":", &[]));
    fails(&with_header(r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, &[0; 4]));
    fails(&with_header(r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, &[0; 8]));
    fails(&with_header(r#"{"x":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}"#, &[0; 4]));
    let huge = r#"{"x":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}}"#;
    fails(&with_header(huge, &[0; 4]));
    let error = fails(&with_header(r#"{"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}"#, &[1, 7]));
    assert!(error.contains("tensor x") && error.contains('7'), "{error}");
    let error = fails(&with_header(r#"{"x":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]}}"#, &[1, 7]));
    assert!(error.contains("F8_E8M0"), "{error}");
    // Any byte of the header changed gives an error or a checkpoint, never a panic.
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    for at in 0..header {
        let mut bytes = good.clone();
        bytes[at] ^= 0x15;
        std::fs::write(&path, bytes).unwrap();
        let _ = load(&path);
    }
    let missing = directory.path().join("none");
    assert!(load(&missing).unwrap_err().to_string().starts_with(missing.to_str().unwrap()));
}

#[test]
fn a_failed_save_keeps_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.safetensors");
    everything().save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let mut bad = everything();
    bad.tensors.insert("__metadata__".to_owned(), Tensor::scalar(1f32, &device()).unwrap());
    assert!(bad.save(&path).is_err());
    assert!(everything().save(directory.path().join("no/such/directory")).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), good);
}
