//! Reuse, accounting, limits, and blocks that cross threads.

use super::*;
use std::sync::{Barrier, mpsc};

const MIB: usize = 1 << 20;

fn fill(block: &mut Block, value: u8) {
    block.as_uninit_mut().iter_mut().for_each(|byte| {
        byte.write(value);
    });
}

fn holds(block: &Block, value: u8) -> bool {
    // SAFETY: every test fills its blocks first.
    unsafe { block.as_slice() }.iter().all(|&byte| byte == value)
}

#[test]
fn blocks_are_aligned_writable_and_distinct() {
    let pool = HostPool::new();
    let sizes = [1, 63, 64, 65, 1000, 4096, size::SMALL, size::SMALL + 1, MIB, 3 * MIB + 5, 17 * MIB, 65 * MIB];
    let mut blocks: Vec<Block> = sizes.iter().map(|&bytes| pool.alloc(bytes).unwrap()).collect();
    for (i, block) in blocks.iter_mut().enumerate() {
        assert_eq!(block.as_ptr() as usize % 64, 0);
        assert_eq!(block.len(), sizes[i]);
        assert!(block.capacity() >= sizes[i] && !block.is_empty());
        fill(block, i as u8);
    }
    assert!(blocks.iter().enumerate().all(|(i, block)| holds(block, i as u8)));
    assert_eq!(pool.usage().requested_bytes, sizes.iter().sum::<usize>() as u64);
    drop(blocks);
    assert_eq!(pool.usage().live_bytes, 0);
}

#[test]
fn empty_blocks_need_no_memory() {
    let pool = HostPool::with_limit(0);
    let block = pool.alloc(0).unwrap();
    assert!(block.is_empty() && block.as_uninit().is_empty());
    assert_eq!((block.as_ptr() as usize % 64, block.capacity()), (0, 0));
    assert_eq!(pool.usage(), MemoryUsage { limit: Some(0), ..MemoryUsage::default() });
}

#[test]
fn freed_blocks_are_reused() {
    let pool = HostPool::new();
    for bytes in [1, 100, 5000, size::SMALL, 100_000, MIB, 20 * MIB, 100 * MIB] {
        let first = pool.alloc(bytes).unwrap().as_ptr();
        let before = pool.usage().system_allocations;
        assert_eq!(pool.alloc(bytes).unwrap().as_ptr(), first, "{bytes} bytes");
        assert_eq!(pool.usage().system_allocations, before);
    }
    // A big block serves a request a little smaller than itself.
    assert_eq!(pool.alloc(91 * MIB).unwrap().capacity(), 100 * MIB);
    assert_eq!(pool.alloc(50 * MIB).unwrap().capacity(), 56 * MIB);
}

#[test]
fn accounting_follows_every_step() {
    let pool = HostPool::new();
    let (small, big) = (pool.alloc(300).unwrap(), pool.alloc(MIB).unwrap());
    let usage = pool.usage();
    assert_eq!((usage.live_bytes, usage.live_blocks), ((320 + MIB) as u64, 2));
    assert_eq!((usage.requested_bytes, usage.cached_bytes), ((300 + MIB) as u64, 0));
    assert_eq!((usage.allocations, usage.system_allocations), (2, 2));
    drop(small);
    drop(big);
    let usage = pool.usage();
    assert_eq!((usage.live_bytes, usage.live_blocks, usage.requested_bytes), (0, 0, 0));
    assert_eq!((usage.cached_bytes, usage.peak_bytes), ((320 + MIB) as u64, (320 + MIB) as u64));
    assert_eq!(pool.trim(), (320 + MIB) as u64);
    assert_eq!((pool.usage().cached_bytes, pool.trim()), (0, 0));
    let report = pool.report();
    assert!(report.contains("0 bytes in 0 blocks in use"), "{report}");
}

#[test]
fn peak_is_exact_in_one_thread() {
    let pool = HostPool::new();
    let mut high = 0;
    for round in 1..20 {
        let blocks: Vec<Block> = (0..round * 10).map(|i| pool.alloc(i * 37 + 1).unwrap()).collect();
        high = high.max(blocks.iter().map(Block::capacity).sum::<usize>());
    }
    assert_eq!(pool.usage().peak_bytes, high as u64);
}

#[test]
fn a_limit_is_an_error_and_cached_memory_yields_to_it() {
    let pool = HostPool::with_limit(4 * MIB as u64);
    let held = pool.alloc(2 * MIB).unwrap();
    drop((0..10).map(|_| pool.alloc(1000).unwrap()).collect::<Vec<_>>());
    assert_eq!(pool.usage().cached_bytes, 10 * 1024);
    // Fits only without the cached blocks.
    let second = pool.alloc(2 * MIB).unwrap();
    assert_eq!(pool.usage().cached_bytes, 0);
    let error = pool.alloc(1).unwrap_err();
    assert_eq!(error, AllocError { requested: 1, live: 4 * MIB as u64, cached: 0, limit: Some(4 * MIB as u64) });
    assert!(error.to_string().contains("cannot allocate 1 bytes"));
    drop(second);
    pool.alloc(1).unwrap();
    pool.set_limit(None);
    pool.alloc(10 * MIB).unwrap();
    drop(held);
    assert_eq!(pool.usage().live_bytes, 0);
}

#[test]
fn impossible_sizes_are_errors() {
    let pool = HostPool::new();
    for bytes in [usize::MAX, usize::MAX - 63, isize::MAX as usize + 1, isize::MAX as usize, isize::MAX as usize / 2] {
        assert_eq!(pool.alloc(bytes).unwrap_err().requested, bytes);
        assert_eq!(pool.persistent(|| pool.alloc(bytes)).unwrap_err().requested, bytes);
    }
    assert_eq!(pool.usage(), MemoryUsage::default());
}

#[test]
fn the_cache_limit_sends_the_longest_idle_back() {
    let pool = HostPool::new();
    pool.set_cache_limit(Some(5 * MIB as u64));
    drop(pool.alloc(3 * MIB).unwrap());
    drop(pool.alloc(2 * MIB).unwrap());
    assert_eq!(pool.usage().cached_bytes, 5 * MIB as u64);
    drop(pool.alloc(MIB).unwrap());
    assert_eq!(pool.usage().cached_bytes, 3 * MIB as u64);
    drop(pool.alloc(6 * MIB).unwrap());
    assert_eq!(pool.usage().cached_bytes, 3 * MIB as u64);
    pool.set_cache_limit(Some(0));
    drop(pool.alloc(100).unwrap());
    assert_eq!(pool.usage().cached_bytes, 0);
}

#[test]
fn persistent_blocks_are_exact_and_not_cached() {
    let pool = HostPool::new();
    let (outer, inner) = pool.persistent(|| {
        let inner = pool.persistent(|| pool.alloc(MIB + 1).unwrap());
        (pool.alloc(520).unwrap(), inner)
    });
    assert_eq!((outer.capacity(), inner.capacity()), (576, MIB + 64));
    assert!(pool.report().contains(&format!("({} bytes)", 576 + MIB + 64)), "{}", pool.report());
    drop((outer, inner));
    assert_eq!((pool.usage().live_bytes, pool.usage().cached_bytes), (0, 0));
    // The scope is over, even after a panic, and an exit too many is harmless.
    let panicked = std::panic::catch_unwind(|| pool.persistent(|| panic!("on purpose")));
    assert!(panicked.is_err());
    let control: &dyn MemoryControl = &pool;
    control.exit_persistent();
    assert_eq!(control.persistent(|| pool.alloc(520).unwrap().capacity()), 576);
    drop(pool.alloc(520).unwrap());
    assert_eq!(pool.usage().cached_bytes, 640);
}

#[test]
fn blocks_cross_threads() {
    let pool = HostPool::new();
    let (send, receive) = mpsc::channel::<(Block, u8)>();
    std::thread::scope(|scope| {
        let start = |worker: u64| {
            let (pool, send) = (pool.clone(), send.clone());
            scope.spawn(move || {
                let mut kept = Vec::new();
                for i in 0..3000u64 {
                    // A multiplicative hash for sizes of all kinds.
                    let random = (worker * 3000 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
                    let bytes = (random % (1 << (random % 18))) as usize + 1;
                    let mut block = pool.alloc(bytes).unwrap();
                    fill(&mut block, i as u8);
                    match i % 3 {
                        0 => kept.push((block, i as u8)),
                        1 => send.send((block, i as u8)).unwrap(),
                        _ => assert!(holds(&block, i as u8)),
                    }
                    if i % 100 == 0 {
                        assert!(kept.drain(..).all(|(block, value)| holds(&block, value)));
                    }
                    if i == 1500 {
                        pool.trim();
                    }
                }
            })
        };
        let workers = [0, 1, 2, 3].map(start);
        drop(send);
        assert!(receive.into_iter().all(|(block, value)| holds(&block, value)));
        // The scope alone waits for what they run, not until they have put their caches away.
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let usage = pool.usage();
    assert_eq!((usage.live_bytes, usage.live_blocks, usage.requested_bytes, usage.allocations), (0, 0, 0, 12_000));
    assert!(usage.system_allocations < 9000, "{usage:?}");
    // The workers have ended, so nothing is out of reach.
    assert_eq!(pool.trim(), usage.cached_bytes);
    assert_eq!(pool.usage().cached_bytes, 0);
}

#[test]
fn other_threads_give_up_their_cache_after_a_trim() {
    let pool = HostPool::new();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(pool.alloc(100).unwrap());
            barrier.wait();
            barrier.wait();
            drop(pool.alloc(5000).unwrap());
            barrier.wait();
            barrier.wait();
        });
        barrier.wait();
        assert_eq!(pool.trim(), 0);
        assert_eq!(pool.usage().cached_bytes, 128);
        assert!(pool.report().lines().any(|line| line.split_whitespace().eq(["128", "0", "1"])), "{}", pool.report());
        barrier.wait();
        barrier.wait();
        assert_eq!(pool.usage().cached_bytes, 5120);
        barrier.wait();
    });
}

#[test]
fn blocks_outlive_the_pool() {
    let pool = HostPool::new();
    let shared = pool.shared;
    let (mut small, big) = (pool.alloc(100).unwrap(), pool.alloc(MIB).unwrap());
    drop(pool.alloc(2 * MIB).unwrap());
    drop(pool);
    assert_eq!((shared.usage().cached_bytes, shared.usage().live_blocks), (0, 2));
    fill(&mut small, 7);
    assert!(holds(&small, 7));
    std::thread::spawn(|| drop(big)).join().unwrap();
    drop(small);
    assert_eq!((shared.usage().cached_bytes, shared.usage().live_bytes), (0, 0));
}

#[test]
fn a_thread_may_use_many_pools() {
    let pools: Vec<HostPool> = (0..5).map(|_| HostPool::new()).collect();
    for _ in 0..100 {
        let blocks: Vec<Block> = pools.iter().map(|pool| pool.alloc(200).unwrap()).collect();
        drop(blocks);
    }
    for pool in &pools {
        assert_eq!((pool.usage().allocations, pool.usage().system_allocations), (100, 1));
    }
}
