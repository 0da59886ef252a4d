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

/// What is known of one backend.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The backend's name.
    pub backend: String,
    /// Whether it can be used.
    pub state: State,
}

/// Whether a backend can be used.
#[derive(Clone, Debug)]
pub enum State {
    /// It has these devices. Of those too some may be unavailable, each with a reason of its own.
    Ready(Vec<DeviceInfo>),
    /// It has no device, or cannot be had at all.
    Unavailable(Unavailable),
    /// A config file says that it is not to be used; the reason names the file.
    Disabled(String),
}

impl Dispatch {
    /// Adds a backend to the ones that are linked in.
    ///
    /// # Errors
    /// Where its name or id is taken.
    pub fn register(backend: Box<dyn Backend>) -> Result<()> {
        registry::register(backend)
    }

    /// Asks every backend for its devices, all at the same time. A backend that panics or gives no answer within seconds is
    /// unavailable. Those that are disabled are not asked.
    pub fn probe() -> Vec<Probed> {
        let backends = registry::backends();
        let ready = select::probe_all(&backends).into_iter().map(|answer| match answer {
            Ok(devices) => State::Ready(devices),
            Err(why) => State::Unavailable(why),
        });
        let probed = |(name, state): (String, State)| Probed { backend: name, state };
        let names = backends.iter().map(|backend| backend.name().to_owned());
        let disabled = registry::disabled().into_iter().map(|(name, why)| (name, State::Disabled(why)));
        let rejected = registry::rejected().into_iter().map(|it| (it.name, State::Unavailable(it.why)));
        names.zip(ready).chain(disabled).chain(rejected).map(probed).collect()
    }

    /// The devices of one backend, by name, in the form that [`Device::new`] takes.
    ///
    /// # Errors
    /// Where the backend is unknown or unavailable.
    pub fn enumerate(backend: &str) -> Result<Vec<String>> {
        let found = registry::find(backend)?;
        let devices =
            select::probe(&found).map_err(|u| crate::Error::unavailable(u.to_string()).with_device(backend))?;
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
