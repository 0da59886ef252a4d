//! Two backends by strangers, one in C and one in Rust, loaded into one program that has neither in its own sources.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;
use ubique::{DType, Device, Op, Tensor};
use ubique_conformance::Options;

/// Builds the one in C, and names both to the registry before it is first asked.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let status = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC"])
        .arg(format!("-I{root}/crates/ubique-plugin/include"))
        .arg(format!("{root}/examples/plugin-c/plugin.c"))
        .args(["-lm", "-o"])
        .arg(folder.path().join(library("plugin_c")))
        .status();
    assert!(status.unwrap().success());
    let places = [folder.path().to_owned(), beside_this_test(&library("plugin_rust"))];
    // SAFETY: no test of this binary reads the environment before this has run.
    unsafe { std::env::set_var("UBIQUE_PLUGIN_PATH", std::env::join_paths(places).unwrap()) };
    folder
});

fn library(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// Where cargo puts a package's own library for its tests.
fn beside_this_test(file: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(file)
}

fn device(name: &str) -> Device {
    LazyLock::force(&FOLDER);
    Device::new(name).unwrap()
}

#[test]
fn both_work_side_by_side() {
    let devices = ["example_c", "example_rust", "flex", "ndarray"].map(device);
    // Both ask for the number 200; one of them has got another.
    assert_ne!(devices[0].id(), devices[1].id());
    for device in &devices {
        assert_eq!(Device::from_id(device.id()).unwrap(), *device);
        let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], device).unwrap();
        let (flipped, column) = (x.flip(&[1]).unwrap(), x.narrow(1, 0, 1).unwrap());
        let sum = (&flipped + &column).tensor().unwrap();
        assert_eq!(sum.to_vec::<f32>().unwrap(), [4.0, 3.0, 2.0, 10.0, 9.0, 8.0], "{device}");
        let product = x.matmul(&x.t().unwrap()).unwrap();
        assert_eq!(product.to_vec::<f32>().unwrap(), [14.0, 32.0, 32.0, 77.0], "{device}");
        // Neither has a kernel for this one: it is composed, or runs on the host.
        let sum = x.softmax(-1).unwrap().sum_all().unwrap().item::<f32>().unwrap();
        assert!((sum - 2.0).abs() < 1e-6, "{sum} on {device}");
    }
    let counts = devices[0].counts();
    assert!(counts.native > 0 && counts.host > 0, "{counts:?}");
}

#[test]
fn gradients_cross_between_them() {
    let (c, rust) = (device("example_c").autodiff(), device("example_rust").autodiff());
    let x = Tensor::from_vec(vec![1.0f32, -2.0, 3.0], [3], &c).unwrap().require_grad().unwrap();
    let there = x.square().unwrap().to_device(&rust).unwrap();
    let loss = (&there * &there).tensor().unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    let gradient = gradients.get(&x).unwrap();
    assert_eq!(gradient.device().name(), "example_c:0");
    assert_eq!(gradient.to_vec::<f32>().unwrap(), [4.0, -32.0, 108.0]);
}

#[test]
fn host_memory_is_never_copied_on_its_way() {
    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let start = data.as_ptr();
    let at = |tensor: &Tensor| tensor.view().buffer.host_bytes().unwrap().as_ptr().cast::<f32>();
    let on_c = Tensor::from_vec(data, [10, 100], &device("example_c")).unwrap();
    let on_rust = on_c.to_device(&device("example_rust")).unwrap();
    let on_ndarray = on_rust.to_device(&device("ndarray")).unwrap();
    let on_flex = on_ndarray.to_device(&device("flex")).unwrap();
    assert!([&on_c, &on_rust, &on_ndarray, &on_flex].iter().all(|tensor| at(tensor) == start));
    let host = on_flex.to_host().unwrap();
    assert_eq!(host.as_slice::<f32>().unwrap().as_ptr(), start);
    // What one of them computes is seen by the others without a copy too.
    let computed = on_c.neg().unwrap();
    assert_eq!(at(&computed), at(&computed.to_device(&device("flex")).unwrap()));
    // Memory lives as long as anybody looks at it.
    drop((on_c, on_rust, on_ndarray, host));
    assert_eq!(on_flex.sum_all().unwrap().item::<f32>().unwrap(), 499_500.0);
}

#[test]
fn errors_cross_with_their_kind() {
    let c = device("example_c?memory=4000");
    let x = Tensor::zeros([500], DType::F32, &c).unwrap();
    let held = x.exp().unwrap_or(x.neg().unwrap());
    let error = [0; 4].map(|_| held.neg()).into_iter().collect::<Result<Vec<_>, _>>().unwrap_err();
    assert_eq!(error.kind(), ubique::ErrorKind::OutOfMemory);
    assert!(
        error.to_string().contains("neg(f32[500]) on example_c:0?memory=4000: no memory for 2000 bytes"),
        "{error}"
    );
    for (name, why) in
        [("example_c:7", "no"), ("example_rust:7", "there is no 7"), ("example_c?threads=4", "one thread")]
    {
        let error = Device::new(name).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = device("example_rust").executor().upload(ubique::HostTensor::from_vec(vec![1u8], [1]).unwrap());
    assert!(error.is_ok());
}

#[test]
fn odd_numbers_of_everything_pass() {
    for device in ["example_c", "example_rust"].map(device) {
        let none = Tensor::zeros([1 << 40, 1 << 40, 0], DType::F32, &device).unwrap();
        assert_eq!(none.add(&none).unwrap().elements(), 0);
        // More shapes than the host keeps answers about, and more operands than a short list has room for.
        for round in 0..2 {
            for n in 0..40 {
                let x = Tensor::full([n], 1.5, DType::F32, &device).unwrap();
                assert_eq!(x.add(&x).unwrap().to_vec::<f32>().unwrap(), vec![3.0; n], "{device}, round {round}");
            }
        }
        let parts: Vec<Tensor> = (0..7).map(|i| Tensor::full([i], i, DType::F32, &device).unwrap()).collect();
        let joined = Tensor::concat(&parts.iter().collect::<Vec<_>>(), 0).unwrap();
        assert_eq!(joined.sum_all().unwrap().item::<f32>().unwrap(), 91.0, "{device}");
    }
}

#[test]
fn memory_returns_when_tensors_go() {
    let c = device("example_c?memory=100000000");
    let live = || c.memory().unwrap().usage().live_bytes;
    let before = live();
    for _ in 0..100 {
        let x = Tensor::ones([64, 64], DType::F32, &c).unwrap();
        let y = x.matmul(&x).unwrap().neg().unwrap().abs().unwrap();
        assert!(live() > before);
        assert_eq!(y.narrow(0, 0, 1).unwrap().to_vec::<f32>().unwrap(), [64.0; 64]);
    }
    assert_eq!(live(), before);
}

#[test]
fn ops_survive_as_text() {
    for case in Op::cases() {
        let text = serde_json::to_string(&case.op).unwrap();
        let read: Op = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        // Texts are compared, because NaN parameters are equal to nothing.
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}

#[test]
fn the_conformance_kit_finds_no_fault() {
    // The one in C whole; of the one in Rust, whose kernels are the slow references, what it has and some of what is composed
    // of that.
    let some =
        ["neg", "exp", "add", "div", "matmul", "sum", "max", "contiguous", "softmax", "concat", "permute", "linear"];
    for (name, ops, least_native) in [("example_c", &[][..], 100), ("example_rust", &some[..], 1_000)] {
        let ops = ops.iter().map(|&op| op.to_owned()).collect();
        let report = ubique_conformance::run(&device(name), &Options { ops, ..Default::default() });
        assert!(report.passed(), "{report}");
        let native: usize = report.ops.iter().map(|op| op.native).sum();
        assert!(native >= least_native, "{native} on {name}");
    }
}
