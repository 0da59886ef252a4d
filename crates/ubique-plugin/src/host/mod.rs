//! The host's side: a loaded table as a [`Backend`].

mod buffer;
mod device;
mod executor;
mod ops;
mod table;

use std::sync::Arc;

use ubique_core::backend::{Backend, DTypeUsage, DeviceInfo, DeviceKind, Executor, OpenOptions, Unavailable};
use ubique_core::{DType, Error, Result};

use crate::abi;
use crate::text::{self, NO_ERROR};
use device::Device;
pub use table::Table;

/// More devices than any machine has: a table that claims so many is broken.
const MOST_DEVICES: usize = 4096;

/// A backend behind the C ABI.
pub struct Plugin {
    table: &'static Table,
    id: u8,
}

impl Plugin {
    /// A backend of a checked table, under a number that may differ from the one it asked for where that was taken.
    pub fn new(table: &'static Table, id: u8) -> Plugin {
        Plugin { table, id }
    }

    fn infos(&self) -> Result<Vec<abi::DeviceInfo>, Unavailable> {
        let mut infos = vec![no_info(); 8];
        loop {
            let (mut count, mut error) = (0, NO_ERROR);
            let context = self.table.raw.context;
            // SAFETY: the table was checked; the pointers are valid for the call, and `capacity` is the list's length.
            let code = unsafe { (self.table.probe)(context, infos.as_mut_ptr(), infos.len(), &mut count, &mut error) };
            if code != abi::OK {
                let reason = text::reason(&error);
                let why = if reason.why.is_empty() {
                    format!("looking for devices failed with code {code}")
                } else {
                    reason.why
                };
                return Err(Unavailable { why, ..reason });
            }
            if count > MOST_DEVICES {
                return Err(Unavailable { why: format!("it claims to have {count} devices"), hint: None });
            }
            if count <= infos.len() {
                infos.truncate(count);
                return Ok(infos);
            }
            infos.resize(count, no_info());
        }
    }
}

impl Backend for Plugin {
    fn name(&self) -> &str {
        &self.table.name
    }

    fn id(&self) -> u8 {
        self.id
    }

    fn probe(&self) -> Result<Vec<DeviceInfo>, Unavailable> {
        let infos = self.infos()?;
        if infos.is_empty() {
            return Err(Unavailable { why: "it found no device".to_owned(), hint: None });
        }
        infos.iter().map(|info| read_info(info).map_err(|e| Unavailable { why: e.to_string(), hint: None })).collect()
    }

    fn open(&self, index: usize, options: &OpenOptions) -> Result<Arc<dyn Executor>> {
        let infos = self.infos().map_err(|why| Error::unavailable(why.to_string()))?;
        let info = infos.get(index).ok_or_else(|| {
            Error::device(format!("{} has {} devices; there is no {index}", self.table.name, infos.len()))
        })?;
        let info = read_info(info)?;
        if let Some(why) = &info.unavailable {
            return Err(why.into());
        }
        Ok(Arc::new(executor::PluginExecutor::new(info, Arc::new(Device::open(self.table, index, options)?))))
    }
}

fn no_info() -> abi::DeviceInfo {
    abi::DeviceInfo {
        name: [0; 128],
        driver: [0; 128],
        kind: 0,
        device_class: 0,
        memory: 0,
        dtypes: [0; 16],
        default_float: 1,
        default_int: 4,
        priority: 0,
        unavailable: 0,
        why: NO_ERROR,
    }
}

fn read_info(info: &abi::DeviceInfo) -> Result<DeviceInfo> {
    let fail = |what: &str, value: u32| Error::format(format!("it describes a device with the {what} {value}"));
    let dtype = |number: u32| {
        usize::try_from(number).ok().and_then(|n| abi::DTYPES.get(n)).copied().ok_or_else(|| fail("dtype", number))
    };
    let kind = match info.kind {
        0 => DeviceKind::Virtual,
        1 => DeviceKind::Cpu,
        2 => DeviceKind::IntegratedGpu,
        3 => DeviceKind::DiscreteGpu,
        other => return Err(fail("kind", other)),
    };
    let usage = |(dtype, &bits): (DType, &u8)| {
        let has = |bit| bits & bit != 0;
        let usage = DTypeUsage {
            storage: has(abi::STORAGE),
            arithmetic: has(abi::ARITHMETIC),
            accelerated: has(abi::ACCELERATED),
        };
        usage.storage.then_some((dtype, usage))
    };
    Ok(DeviceInfo {
        name: text::read(&info.name),
        kind,
        class: u8::try_from(info.device_class).map_err(|_| fail("class", info.device_class))?,
        memory: Some(info.memory).filter(|&bytes| bytes > 0),
        driver: text::read(&info.driver),
        dtypes: abi::DTYPES.into_iter().zip(&info.dtypes).filter_map(usage).collect(),
        default_float: dtype(info.default_float)?,
        default_int: dtype(info.default_int)?,
        priority: info.priority,
        unavailable: (info.unavailable != 0).then(|| text::reason(&info.why)),
    })
}
