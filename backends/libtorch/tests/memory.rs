//! LibTorch's host memory comes from a pool, which counts, gives back and limits it. A program of its own: there is one pool.

mod loaded;

use ubique_core::{DType, Device, ErrorKind, Tensor};

const MIB: u64 = 1 << 20;

#[test]
fn memory_is_counted_reused_and_limited() {
    let device = loaded::device();
    let memory = device.memory().expect("the CPU's memory is a pool");
    let zeros = |mib: usize| Tensor::zeros([mib << 18], DType::F32, &device);

    let before = memory.usage();
    let (some, more) = (zeros(2).expect("memory"), zeros(4).expect("memory"));
    let used = memory.usage();
    assert_eq!(used.live_blocks - before.live_blocks, 2);
    assert!((6 * MIB..8 * MIB).contains(&(used.live_bytes - before.live_bytes)), "{used:?}");
    assert!(memory.report().contains("in use"), "{}", memory.report());

    drop(more);
    let kept = memory.usage();
    assert!(kept.cached_bytes >= before.cached_bytes + 4 * MIB, "{kept:?}");
    let again = some.reshape([1 << 18, 2]).and_then(|x| Tensor::concat(&[&x, &x], 1)).expect("4 MiB");
    assert_eq!(memory.usage().system_allocations, kept.system_allocations);
    drop(again);
    assert!(memory.cleanup() >= 4 * MIB);

    let limited = Device::new("libtorch?memory=67108864").expect("a limit");
    let limit = limited.memory().expect("a pool").usage().limit;
    assert_eq!(limit, Some(64 * MIB));
    let error = zeros(80).expect_err("more than the limit");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("limit"), "{error}");
    // What is there is there, and less than the limit can be had.
    assert_eq!(some.sum(&[0]).and_then(|sum| sum.item::<f32>()).expect("a sum"), 0.0);
    drop(zeros(32).expect("memory"));

    memory.set_limit(None);
    drop(zeros(80).expect("memory"));
    // An empty tensor needs none.
    assert_eq!(zeros(0).and_then(|x| x.add(1.0)).expect("no elements").elements(), 0);
}
