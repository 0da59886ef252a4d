//! Decompositions and gradients of ops against their f64 references, on a device that has no kernels at all: whatever
//! an op is composed of runs by reference.

use std::sync::{Arc, Once};

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{
    Backend, DTypeUsage, DeviceInfo, DeviceKind, Executor, OpenOptions, Operand, Outputs, Support, Unavailable, View,
};
use ubique_core::op::Gradient;
use ubique_core::op::case::Case;
use ubique_core::op::reference::RefTensor;
use ubique_core::{DType, Device, Dispatch, Error, HostTensor, Op, Result, Tensor, TensorSpec, grad};

/// Stores tensors and runs nothing.
struct Plain(DeviceInfo);

impl Executor for Plain {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn supports(&self, _: &Op, _: &[TensorSpec]) -> Support {
        Support::No
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        Ok(data.into_buffer())
    }

    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        let whole = HostTensor::from_buffer(
            view.buffer.clone(),
            TensorSpec::new(view.buffer.byte_len() / view.dtype.size(), view.dtype),
        )?;
        RefTensor::from_host(&whole).gather(&view.spec(), view.layout.positions()).to_host().map(Pending::ready)
    }

    fn execute(&self, op: &Op, _: &mut [Operand<'_>], _: &[TensorSpec]) -> Result<Outputs> {
        Err(Error::unsupported(format!("{} has no kernel", op.name())))
    }
}

struct NoKernels;

impl Backend for NoKernels {
    fn name(&self) -> &str {
        "plain"
    }

    fn id(&self) -> u8 {
        200
    }

    fn probe(&self) -> std::result::Result<Vec<DeviceInfo>, Unavailable> {
        let usage = DTypeUsage { storage: true, arithmetic: true, accelerated: false };
        Ok(vec![DeviceInfo {
            name: "no kernels".to_owned(),
            kind: DeviceKind::Virtual,
            class: 0,
            memory: None,
            driver: String::new(),
            dtypes: DType::ALL.map(|dtype| (dtype, usage)).to_vec(),
            default_float: DType::F32,
            default_int: DType::I64,
            priority: 0,
            unavailable: None,
        }])
    }

    fn open(&self, _: usize, _: &OpenOptions) -> Result<Arc<dyn Executor>> {
        let info = self.probe().map_err(|e| Error::unavailable(e.to_string()))?.remove(0);
        Ok(Arc::new(Plain(info)))
    }
}

fn device() -> Device {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| Dispatch::register(Box::new(NoKernels)).unwrap());
    Device::new("plain").unwrap()
}

/// How far apart results may be, relative to the largest.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-11,
        DType::F32 => 2e-5,
        DType::F16 => 4e-3,
        _ => 3e-2,
    }
}

fn close(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    let scale = b.iter().filter(|v| v.is_finite()).fold(1e-3, |a: f64, b| a.max(b.abs()));
    let near = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * scale;
    a.len() == b.len() && a.iter().zip(b).all(near)
}

fn tensors(case: &Case, device: &Device) -> Vec<Tensor> {
    case.operands().iter().map(|o| Tensor::from_host(o.to_host().unwrap(), device).unwrap()).collect()
}

/// The families that this test covers: those that have decompositions worth a test.
fn cases() -> impl Iterator<Item = Case> {
    Op::cases().into_iter().filter(|case| {
        let rule = case.op.rule();
        !matches!(case.op, Op::BinaryScalar(_) | Op::CompareScalar(_)) && rule.gradient() != Gradient::None
            || matches!(case.op, Op::AdamStep(_) | Op::SgdStep(_))
    })
}

#[test]
fn decompositions_agree_with_references() {
    let device = device();
    let mut failures = Vec::new();
    for case in cases() {
        let inputs = tensors(&case, &device);
        let Some(results) = case.op.rule().decompose(&inputs).unwrap_or_else(|e| panic!("{case:?}: {e}")) else {
            continue;
        };
        let specs = case.op.infer(&case.specs()).unwrap();
        let expected = case.op.rule().reference(&case.operands(), specs.as_slice()).unwrap();
        assert_eq!(results.len(), expected.len(), "{case:?}");
        for ((result, expected), spec) in results.iter().zip(expected).zip(specs.as_slice()) {
            assert_eq!(&result.spec(), spec, "{case:?}");
            let (got, expected) = (result.to_host().unwrap().to_f64(), expected.to_host().unwrap().to_f64());
            if !close(&got, &expected, tolerance(spec.dtype)) {
                failures.push(format!("{:?} {:?}\n  got {got:.5?}\n  not {expected:.5?}", case.op, case.specs()));
            }
        }
    }
    failures.iter_mut().for_each(|f| f.truncate(600));
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
}

/// The sum of all float results, each element weighted, from f64 operands.
fn objective(op: &Op, operands: &[RefTensor], weights: &[Vec<f64>]) -> f64 {
    let specs = op.infer(&operands.iter().map(|o| o.spec.clone()).collect::<Vec<_>>()).unwrap();
    let results = op.rule().reference(operands, specs.as_slice()).unwrap();
    results.iter().zip(weights).flat_map(|(r, w)| r.floats().into_iter().zip(w).map(|(r, w)| r * w)).sum()
}

#[test]
fn gradients_agree_with_finite_differences() {
    let device = device().autodiff();
    let mut failures = Vec::new();
    for case in
        cases().filter(|c| c.smooth && c.inputs.iter().all(|i| !i.spec.dtype.is_float() || i.spec.dtype == DType::F64))
    {
        let operands = case.operands();
        let total: usize = operands.iter().map(RefTensor::len).sum();
        let outputs = case.op.infer(&case.specs()).unwrap();
        let real = outputs.as_slice().iter().all(|o| o.dtype == DType::F64) && operands.iter().any(RefTensor::is_float);
        if case.op.rule().gradient() == Gradient::None || !real || total == 0 || total > 300 {
            continue;
        }
        let track = |t: Tensor| if t.dtype().is_float() { t.require_grad().unwrap() } else { t };
        let inputs: Vec<Tensor> = tensors(&case, &device).into_iter().map(track).collect();
        let outputs = Dispatch::run(case.op.clone(), &inputs.iter().collect::<Vec<_>>()).unwrap();
        let seeds: Vec<Vec<f64>> = outputs
            .iter()
            .map(|o| (0..o.elements()).map(|i| ((i * 37 + 11) % 17) as f64 / 8.0 - 1.0).collect())
            .collect();
        let seed_tensors: Vec<Tensor> =
            outputs.iter().zip(&seeds).map(|(o, s)| Tensor::from_vec(s.clone(), o.shape(), &device).unwrap()).collect();
        let tracked: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].is_tracked()).collect();
        let wanted: Vec<&Tensor> = tracked.iter().map(|&i| &inputs[i]).collect();
        let grads =
            match grad(&outputs.iter().collect::<Vec<_>>(), &seed_tensors.iter().collect::<Vec<_>>(), &wanted, true) {
                Ok(grads) => grads,
                Err(error) => {
                    failures.push(format!("{:?} {:?}: {error}", case.op, case.specs()));
                    continue;
                }
            };
        for (&i, got) in tracked.iter().zip(&grads) {
            let mut moved = operands.clone();
            let mut expected = Vec::new();
            for position in 0..operands[i].len() {
                let h = 1e-5;
                let mut at = |delta: f64| {
                    let mut values = operands[i].floats();
                    values[position] += delta;
                    moved[i] = RefTensor::float(operands[i].shape().clone(), DType::F64, values);
                    objective(&case.op, &moved, &seeds)
                };
                expected.push((at(h) - at(-h)) / (2.0 * h));
            }
            let got = got.to_host().unwrap().to_f64();
            if !close(&got, &expected, 1e-6) {
                failures.push(format!(
                    "{:?} {:?} operand {i}\n  got {got:.6?}\n  not {expected:.6?}",
                    case.op,
                    case.specs()
                ));
            }
        }
    }
    failures.iter_mut().for_each(|f| f.truncate(600));
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures[..failures.len().min(20)].join("\n"));
}
