//! What dispatch costs: one-element ops through the public API, on the CPU and on an executor that does nothing.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use ubique::backend::buffer::Buffer;
use ubique::backend::pending::Pending;
use ubique::backend::{
    Backend, DTypeUsage, DeviceInfo, DeviceKind, Executor, OpenOptions, Operand, Outputs, Support, Unavailable, View,
};
use ubique::{DType, Device, Dispatch, HostTensor, Op, Result, Tensor, TensorSpec};

/// Gives the same buffer as the result of every op.
struct Nothing {
    info: DeviceInfo,
    result: Buffer,
}

impl Executor for Nothing {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn supports(&self, _op: &Op, _inputs: &[TensorSpec]) -> Support {
        Support::Native
    }
    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        Ok(data.into_buffer())
    }
    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        Ok(Pending::ready(HostTensor::from_buffer(view.buffer.clone(), view.spec())?))
    }
    fn execute(&self, _op: &Op, _inputs: &mut [Operand<'_>], _outputs: &[TensorSpec]) -> Result<Outputs> {
        Ok(Outputs::One(self.result.clone()))
    }
}

struct NothingBackend;

impl Backend for NothingBackend {
    fn name(&self) -> &str {
        "nothing"
    }
    fn id(&self) -> u8 {
        255
    }
    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        let usage = DTypeUsage { storage: true, arithmetic: true, accelerated: false };
        Ok(vec![DeviceInfo {
            name: "nothing".to_owned(),
            kind: DeviceKind::Virtual,
            class: 0,
            memory: None,
            driver: String::new(),
            dtypes: vec![(DType::F32, usage)],
            default_float: DType::F32,
            default_int: DType::I64,
            priority: 0,
            unavailable: None,
        }])
    }
    fn open(&self, _index: usize, _options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        let info = self.probe().map_err(|why| ubique::Error::unavailable(why.to_string()))?.remove(0);
        Ok(Arc::new(Nothing { info, result: HostTensor::from_vec(vec![0f32], [1])?.into_buffer() }))
    }
}

fn ops(c: &mut Criterion) {
    Dispatch::register(Box::new(NothingBackend)).unwrap();
    for name in ["nothing", "flex"] {
        let device = Device::new(name).unwrap();
        let a = Tensor::from_vec(vec![1f32], [1], &device).unwrap();
        let b = Tensor::from_vec(vec![2f32], [1], &device).unwrap();
        c.bench_function(&format!("{name}/a + b"), |bench| bench.iter(|| black_box((&a + &b).tensor().unwrap())));
        c.bench_function(&format!("{name}/a + 1"), |bench| bench.iter(|| black_box((&a + 1.0).tensor().unwrap())));
        c.bench_function(&format!("{name}/exp a"), |bench| bench.iter(|| black_box(a.exp().unwrap())));
        let tracked = Tensor::from_vec(vec![1f32], [1], &device.autodiff()).unwrap().require_grad().unwrap();
        c.bench_function(&format!("{name}/tracked a + b"), |bench| {
            bench.iter(|| black_box((&tracked + &b).tensor().unwrap()))
        });
    }
}

criterion_group!(benches, ops);
criterion_main!(benches);
