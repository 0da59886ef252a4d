//! The conformance kit itself: a backend that is wrong in every way it can be is reported, and the run goes on.

use std::sync::Arc;
use std::time::Duration;

use ubique::backend::buffer::Buffer;
use ubique::backend::pending::Pending;
use ubique::backend::{
    Backend, DeviceInfo, Executor, OpenOptions, Operand, Outputs, Several, Support, Unavailable, View,
};
use ubique::{Device, Dispatch, Error, HostTensor, Op, Result, TensorSpec};
use ubique_conformance::{OpReport, Options, run};

/// Flex, but for some ops.
struct Faulty(Device);

impl Executor for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn supports(&self, op: &Op, inputs: &[TensorSpec]) -> Support {
        self.0.executor().supports(op, inputs)
    }
    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        self.0.executor().upload(data)
    }
    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        self.0.executor().download(view)
    }
    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        let flex = self.0.executor();
        match op.name() {
            // Right for a single element.
            "exp" if outputs[0].shape.elements()? > 1 => {
                let TensorSpec { shape, dtype } = &outputs[0];
                flex.upload(HostTensor::from_bytes(vec![0u8; shape.bytes(*dtype)?], *dtype, shape)?).map(Several::One)
            }
            "log" => panic!("a bug in the logarithm"),
            "sin" => {
                std::thread::sleep(Duration::from_secs(3600));
                Err(Error::backend("awake"))
            }
            "cos" => Ok(Several::Many(vec![])),
            "abs" => Err(Error::backend("the kernel was lost")),
            _ => flex.execute(op, inputs, outputs),
        }
    }
}

struct FaultyBackend;

impl Backend for FaultyBackend {
    fn name(&self) -> &str {
        "faulty"
    }
    fn id(&self) -> u8 {
        254
    }
    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        Device::new("flex")
            .map(|flex| vec![flex.info().clone()])
            .map_err(|e| Unavailable { why: e.to_string(), hint: None })
    }
    fn open(&self, _index: usize, _options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        Ok(Arc::new(Faulty(Device::new("flex")?)))
    }
}

#[test]
fn every_kind_of_fault_is_reported_and_the_run_goes_on() {
    Dispatch::register(Box::new(FaultyBackend)).unwrap();
    let ops = ["abs", "cos", "exp", "log", "sin", "sqrt"].map(str::to_owned).to_vec();
    let options = Options { ops, gradients: false, deadline: Duration::from_millis(300) };
    let device = Device::new("faulty").unwrap();
    // The device's panics are meant.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let report = run(&device, &options);
    std::panic::set_hook(hook);
    let op = |name: &str| -> &OpReport { report.ops.iter().find(|op| op.name == name).unwrap() };
    let why = |name: &str| op(name).example.as_ref().unwrap().why.clone();

    assert!(why("cos").contains("0 outputs"), "{}", why("cos"));
    assert!(why("exp").contains("elements are off"), "{}", why("exp"));
    // Two elements are the fewest on which it is wrong.
    assert_eq!(op("exp").example.as_ref().unwrap().operands, ["f64[2, 1, 1]"]);
    assert!(why("log").contains("panicked: a bug in the logarithm"), "{}", why("log"));
    assert!(why("abs").contains("the kernel was lost"), "{}", why("abs"));
    assert!(why("sin").contains("no answer within 0.3 s"), "{}", why("sin"));
    // A device that never answers is not waited for every time.
    assert!(op("sqrt").unchecked > 0 && op("sqrt").passed == 0);
    assert!(!report.passed() && report.to_string().contains("sin: "));
}
