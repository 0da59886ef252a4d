//! The works of `ubique bench` under criterion, on one thread and on two: `cargo bench -p ubique-cli -- layer_norm`.

use criterion::{Criterion, criterion_group, criterion_main};
use ubique::Device;
use ubique_cli::commands::bench::work;

fn works(c: &mut Criterion) {
    for threads in [1, 2] {
        let device = Device::new(&format!("flex?threads={threads}")).unwrap();
        let mut group = c.benchmark_group(format!("{threads} threads"));
        for (name, prepare) in work::ALL {
            let mut prepared = None;
            group.bench_function(*name, |bench| {
                let run = prepared.get_or_insert_with(|| prepare(&device).unwrap());
                bench.iter(|| run().unwrap());
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = works
}
criterion_main!(benches);
