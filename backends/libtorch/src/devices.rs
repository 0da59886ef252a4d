//! LibTorch's devices: of every kind that it knows, and why one is not there.

use std::error::Error;
use std::sync::LazyLock;

use libloading::Library;
use tch::{Cuda, Device, Kind};
use ubique_core::DType;
use ubique_core::backend::{DTypeUsage, DeviceInfo, DeviceKind, Unavailable};

use crate::dtype;

/// Every device with what it is. Where a kind has none, one entry says why.
pub fn all() -> Vec<(Device, DeviceInfo)> {
    let mut all = vec![(Device::Cpu, cpu())];
    match cuda_devices() {
        Err(why) => all.push((Device::Cuda(0), cuda("CUDA, LibTorch".to_owned(), Some(why)))),
        Ok(count) => {
            all.extend((0..count).map(|i| (Device::Cuda(i), cuda(format!("CUDA device {i}, LibTorch"), None))))
        }
    }
    all.push((Device::Mps, mps((!tch::utils::has_mps()).then(no_mps))));
    all.push((Device::Vulkan, vulkan((!tch::utils::has_vulkan()).then(no_vulkan))));
    all
}

fn cpu() -> DeviceInfo {
    let threads = tch::get_num_threads();
    let name = format!("CPU, {threads} thread{}, LibTorch", if threads == 1 { "" } else { "s" });
    // Below the CPU backends that are part of the program, which `auto` and `cpu` shall mean.
    DeviceInfo { priority: -2, ..info(name, DeviceKind::Cpu, 0, None) }
}

fn cuda(name: String, unavailable: Option<Unavailable>) -> DeviceInfo {
    info(name, DeviceKind::DiscreteGpu, 1, unavailable)
}

/// How many CUDA devices there are, or why none.
fn cuda_devices() -> Result<usize, Unavailable> {
    // LibTorch's part for CUDA needs CUDA's libraries, and the plugin has to load without them.
    static PART: LazyLock<Result<(), String>> = LazyLock::new(|| {
        // SAFETY: LibTorch's own library, whose code runs as that of the rest does; it is never unloaded.
        let loaded = unsafe { Library::new(libloading::library_filename("torch_cuda")) };
        // The loader's own words, which name the library that is missing.
        loaded.map(std::mem::forget).map_err(|e| e.source().map_or_else(|| e.to_string(), ToString::to_string))
    });
    let unavailable = |why: String, hint: &str| Unavailable { why, hint: Some(hint.to_owned()) };
    if let Err(why) = &*PART {
        return Err(unavailable(
            format!("LibTorch's part for CUDA cannot be loaded: {why}"),
            "tools/install-libtorch.sh --cuda installs it with CUDA's libraries",
        ));
    }
    match usize::try_from(Cuda::device_count()) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(unavailable(
            "LibTorch finds no CUDA device".to_owned(),
            "install NVIDIA's driver, and check it with nvidia-smi",
        )),
    }
}

fn mps(unavailable: Option<Unavailable>) -> DeviceInfo {
    let info = info("MPS, LibTorch".to_owned(), DeviceKind::IntegratedGpu, 2, unavailable);
    // Metal has no 64-bit floats.
    let dtypes = info.dtypes.into_iter().filter(|(dtype, _)| *dtype != DType::F64).collect();
    DeviceInfo { dtypes, ..info }
}

fn no_mps() -> Unavailable {
    Unavailable {
        why: "this LibTorch has no MPS: Metal's shaders are on Apple's systems only".to_owned(),
        hint: Some("use it on a Mac with an M-series processor".to_owned()),
    }
}

fn vulkan(unavailable: Option<Unavailable>) -> DeviceInfo {
    let info = info("Vulkan, LibTorch".to_owned(), DeviceKind::IntegratedGpu, 3, unavailable);
    let dtypes = info.dtypes.into_iter().filter(|(dtype, _)| *dtype == DType::F32).collect();
    DeviceInfo { dtypes, priority: -2, ..info }
}

fn no_vulkan() -> Unavailable {
    Unavailable {
        why: "this LibTorch was built without Vulkan".to_owned(),
        hint: Some("build LibTorch with USE_VULKAN=1, or use the vulkan backend".to_owned()),
    }
}

fn info(name: String, kind: DeviceKind, class: u8, unavailable: Option<Unavailable>) -> DeviceInfo {
    let usage = |dtype: DType| DTypeUsage {
        storage: true,
        arithmetic: !dtype.is_stored(),
        accelerated: !dtype.is_stored() && !matches!(dtype, DType::U16 | DType::U32 | DType::U64),
    };
    DeviceInfo {
        name,
        kind,
        class,
        memory: None,
        driver: format!("LibTorch 2.13, ubique-libtorch {}", env!("CARGO_PKG_VERSION")),
        dtypes: DType::ALL
            .into_iter()
            .filter(|&d| dtype::kind(d) != Kind::ComplexDouble)
            .map(|d| (d, usage(d)))
            .collect(),
        default_float: DType::F32,
        default_int: DType::I64,
        // After a backend that is made for the hardware.
        priority: -1,
        unavailable,
    }
}
