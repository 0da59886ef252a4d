//! The switch between tensors and devices: which devices there are, and how an op finds its way to one.

pub mod config;
mod cpus;
mod device;
pub mod layer;
mod requirements;
pub mod run;
mod select;
mod selection;

pub use device::{Checkpointing, Counts, Device, DeviceId, Fallback};
pub use layer::{Layer, LayerGuard};
pub use requirements::Requirements;
pub use selection::{Choice, Place, Selection};

use crate::backend::{Backend, DeviceInfo, Unavailable, registry};
use crate::error::Result;
use crate::op::Op;
use crate::tensor::Tensor;

/// The system-wide switch: the list of backends, and the entry for every op.
#[derive(Debug)]
pub struct Dispatch;

/// What one backend answered when asked for its devices.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The backend's name.
    pub backend: String,
    /// Its devices, or why there are none.
    pub devices: std::result::Result<Vec<DeviceInfo>, Unavailable>,
}

impl Dispatch {
    /// Adds a backend to the ones that are linked in.
    ///
    /// # Errors
    /// Where its name or id is taken.
    pub fn register(backend: Box<dyn Backend>) -> Result<()> {
        registry::register(backend)
    }

    /// Asks every backend for its devices. A backend that panics is reported as unavailable.
    pub fn probe() -> Vec<Probed> {
        registry::backends()
            .iter()
            .map(|b| Probed { backend: b.name().to_owned(), devices: select::probe(&**b) })
            .collect()
    }

    /// The devices of one backend, by name, in the form that [`Device::new`] takes.
    ///
    /// # Errors
    /// Where the backend is unknown or unavailable.
    pub fn enumerate(backend: &str) -> Result<Vec<String>> {
        let found = registry::find(backend)?;
        let devices =
            select::probe(&*found).map_err(|u| crate::Error::unavailable(u.to_string()).with_device(backend))?;
        Ok((0..devices.len()).map(|i| format!("{backend}:{i}")).collect())
    }

    /// Runs an op whose operands are all borrowed.
    ///
    /// # Errors
    /// Where the operands do not fit, are on different devices, or the device fails; the error names op, operands and device.
    pub fn run(op: Op, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        run::call_many(op, inputs)
    }
}
