//! LibTorch's devices: of every kind that it knows, and why one is not there.

use tch::{Cuda, Device, Kind};
use ubique_core::DType;
use ubique_core::backend::{DTypeUsage, DeviceInfo, DeviceKind, Unavailable};

use crate::dtype;

/// Every device with what it is. Where a kind has none, one entry says why.
pub fn all() -> Vec<(Device, DeviceInfo)> {
    let mut all = vec![(Device::Cpu, cpu())];
    let count = usize::try_from(Cuda::device_count()).unwrap_or(0);
    match count {
        0 => all.push((Device::Cuda(0), cuda("CUDA, LibTorch".to_owned(), Some(no_cuda())))),
        count => all.extend((0..count).map(|i| (Device::Cuda(i), cuda(format!("CUDA device {i}, LibTorch"), None)))),
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

fn no_cuda() -> Unavailable {
    let built = tch::utils::has_cudart();
    Unavailable {
        why: match built {
            true => "LibTorch finds no CUDA device".to_owned(),
            false => "this LibTorch was built without CUDA".to_owned(),
        },
        hint: Some(match built {
            true => "install NVIDIA's driver, and check it with nvidia-smi".to_owned(),
            false => "install a LibTorch with CUDA".to_owned(),
        }),
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
