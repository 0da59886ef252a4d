//! A simulated accelerator: memory of its own that the host cannot touch, a queue that a thread of its own works off, few
//! kernels, gaps in its dtypes, little memory, alignment rules, and faults on demand.
//!
//! It has two uses. Tests drive everything above it through what real devices do only on a bad day ([`Faults`]). And it is
//! the example to copy for a backend of your own, so its comments speak to you, the author of that backend. Its kernels are
//! the reference implementations of the ops: right, slow, and the one part that yours replaces.
//!
//! ```
//! use ubique_core::{DType, Device, Dispatch, Tensor};
//! use ubique_sim::{Profile, Sim};
//!
//! Dispatch::register(Box::new(Sim::new("sim", 200, Profile::default())))?;
//! let device = Device::new("sim")?;
//! let x = Tensor::ones([2, 3], DType::F32, &device)?;
//! assert_eq!(x.sum_all()?.item::<f32>()?, 6.0);
//! # Ok::<(), ubique_core::Error>(())
//! ```

mod device;
mod faults;
mod memory;
mod queue;

use std::sync::Arc;

use ubique_core::backend::{Backend, DTypeUsage, DeviceInfo, DeviceKind, Executor, OpenOptions, Unavailable};
use ubique_core::{DType, Error, Result};

pub use faults::Faults;

/// What the simulated hardware has.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Bytes of device memory.
    pub memory: usize,
    /// The dtypes that it can store and compute with.
    pub dtypes: Vec<DType>,
    /// Ops, by name, that it has no kernel for beyond those that it lacks anyway (see `device.rs`).
    pub missing: Vec<&'static str>,
}

impl Default for Profile {
    /// 64 MiB, no 64-bit types, and no kernel for `sort`, so that something has to run on the host.
    fn default() -> Profile {
        let dtypes = DType::ALL.into_iter().filter(|dtype| dtype.size() < 8).collect();
        Profile { memory: 64 << 20, dtypes, missing: vec!["sort"] }
    }
}

/// The backend. A real one finds its devices in `probe`; this one has exactly one.
pub struct Sim {
    name: String,
    id: u8,
    profile: Profile,
    faults: Faults,
}

impl Sim {
    /// A backend under a name and an id of its own: register as many as a test needs.
    pub fn new(name: &str, id: u8, profile: Profile) -> Sim {
        Sim { name: name.to_owned(), id, profile, faults: Faults::default() }
    }

    /// The switchboard for what shall go wrong on this backend's device.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    fn info(&self) -> DeviceInfo {
        let usage = DTypeUsage { storage: true, arithmetic: true, accelerated: false };
        DeviceInfo {
            name: "simulated accelerator".to_owned(),
            // `auto` prefers any real device.
            kind: DeviceKind::Virtual,
            class: 0,
            memory: Some(self.profile.memory as u64),
            driver: format!("ubique-sim {}", env!("CARGO_PKG_VERSION")),
            dtypes: self.profile.dtypes.iter().map(|&dtype| (dtype, usage)).collect(),
            default_float: DType::F32,
            default_int: DType::I32,
            priority: 0,
            unavailable: None,
        }
    }
}

impl Backend for Sim {
    fn name(&self) -> &str {
        &self.name
    }

    // 128 and above are free for backends outside the main repository.
    fn id(&self) -> u8 {
        self.id
    }

    // Yours asks the driver here. Where there is none, say why, and what the user can do about it: never panic.
    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        Ok(vec![self.info()])
    }

    fn open(&self, index: usize, options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        if index > 0 {
            return Err(Error::device(format!("{} has one device, 0; there is no {index}", self.name)));
        }
        if options.threads.is_some() {
            return Err(Error::value("a simulated accelerator has no threads to choose"));
        }
        let mut profile = self.profile.clone();
        if let Some(limit) = options.memory_limit {
            profile.memory = profile.memory.min(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok(Arc::new(device::Device::open(self.info(), profile, self.faults.clone())))
    }
}
