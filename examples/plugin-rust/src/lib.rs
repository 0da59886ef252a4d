//! A backend for ubique in Rust that is loaded at run time: one device that computes a few ops on the host.
//!
//! ```sh
//! cargo build --release -p plugin-rust
//! UBIQUE_PLUGIN_PATH=target/release/libplugin_rust.so ubique verify --device example_rust
//! ```
//!
//! The traits are those of every backend; only the last function is a plugin's own. The library has its own copy of
//! `ubique-core`: what crosses between it and the program that loads it are plain C types, so both can be built apart.

use std::sync::{Arc, LazyLock};

use ubique_core::backend::buffer::Buffer;
use ubique_core::backend::pending::Pending;
use ubique_core::backend::{
    Backend, DTypeUsage, DeviceInfo, DeviceKind, Executor, OpenOptions, Operand, Outputs, Several, Support,
    Unavailable, View,
};
use ubique_core::op::reference::RefTensor;
use ubique_core::{DType, Error, HostTensor, Op, Result, TensorSpec};
use ubique_plugin::{Exported, export};

struct Example;

impl Backend for Example {
    fn name(&self) -> &str {
        "example_rust"
    }

    // Where another plugin has the same number, the host gives one of them another.
    fn id(&self) -> u8 {
        200
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        Ok(vec![info()])
    }

    fn open(&self, index: usize, _options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        match index {
            0 => Ok(Arc::new(Device { info: info() })),
            _ => Err(Error::device(format!("example_rust has one device, 0; there is no {index}"))),
        }
    }
}

fn info() -> DeviceInfo {
    let usage = |dtype: DType| DTypeUsage { storage: true, arithmetic: !dtype.is_stored(), accelerated: false };
    DeviceInfo {
        name: "example backend in Rust".to_owned(),
        kind: DeviceKind::Cpu,
        class: 0,
        memory: None,
        driver: format!("plugin-rust {}", env!("CARGO_PKG_VERSION")),
        dtypes: DType::ALL.map(|dtype| (dtype, usage(dtype))).to_vec(),
        default_float: DType::F32,
        default_int: DType::I64,
        // Behind every other CPU.
        priority: -100,
        unavailable: None,
    }
}

struct Device {
    info: DeviceInfo,
}

impl Executor for Device {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn supports(&self, op: &Op, _inputs: &[TensorSpec]) -> Support {
        let kernel = matches!(op, Op::Contiguous(_) | Op::Unary(_) | Op::Binary(_) | Op::Reduce(_) | Op::Matmul(_));
        if kernel { Support::Native } else { Support::No }
    }

    fn upload(&self, data: HostTensor) -> Result<Buffer> {
        Ok(data.into_buffer())
    }

    fn download(&self, view: &View) -> Result<Pending<HostTensor>> {
        if view.layout.is_row_major() {
            return HostTensor::from_buffer(view.buffer.clone(), view.spec()).map(Pending::ready);
        }
        read(view)?.to_host().map(Pending::ready)
    }

    // Yours computes here; this one lets the op's own reference do it.
    fn execute(&self, op: &Op, inputs: &mut [Operand<'_>], outputs: &[TensorSpec]) -> Result<Outputs> {
        let inputs = inputs.iter().map(|input| read(input)).collect::<Result<Vec<_>>>()?;
        let results = op.rule().reference(&inputs, outputs)?;
        let buffers = results.iter().map(|result| Ok(result.to_host()?.into_buffer()));
        Ok(Several::Many(buffers.collect::<Result<_>>()?))
    }
}

/// A view's elements, row-major.
fn read(view: &View) -> Result<RefTensor> {
    let elements = view.buffer.byte_len() / view.dtype.size();
    let whole = HostTensor::from_buffer(view.buffer.clone(), TensorSpec::new([elements], view.dtype))?;
    let scalars = whole.scalars();
    let picked = view.layout.positions().map(|at| scalars[at]);
    Ok(RefTensor::from_host(&HostTensor::from_scalars(picked, view.dtype, view.shape())?))
}

/// What the host looks for in the library.
#[unsafe(no_mangle)]
pub extern "C" fn ubique_backend_v1() -> *const Exported {
    static TABLE: LazyLock<&Exported> = LazyLock::new(|| export(Box::new(Example)));
    *TABLE
}
