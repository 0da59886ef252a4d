//! From a device's name to an opened device.
//!
//! Grammar: `auto`, `cpu`, `gpu`, or a backend's name, then optionally `:index`, then optionally `?key=value&…` with the
//! keys `threads` and `memory` (bytes). `UBIQUE_DEVICE` says what `auto` means.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::backend::{Backend, DeviceInfo, DeviceKind, OpenOptions, Unavailable, registry};
use crate::dispatch::device::{Device, DeviceId, Opened};
use crate::error::{Error, Result};

/// The environment variable that says which device `auto` is.
pub(crate) const VARIABLE: &str = "UBIQUE_DEVICE";

/// A parsed device name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Selection {
    /// `auto`, `cpu`, `gpu` or a backend's name.
    pub backend: String,
    /// Which of the candidates; 0 where not said.
    pub index: usize,
    /// How to open it.
    pub options: OpenOptions,
}

impl FromStr for Selection {
    type Err = Error;
    fn from_str(text: &str) -> Result<Selection> {
        let fail = |why: String| Error::device(format!("device name {text:?}: {why}"));
        let (place, options) = text.trim().split_once('?').map_or((text.trim(), None), |(p, o)| (p, Some(o)));
        let (backend, index) = match place.split_once(':') {
            None => (place, 0),
            Some((backend, index)) => match index.parse() {
                Ok(index) => (backend, index),
                Err(_) => return Err(fail(format!("{index:?} is not a device number"))),
            },
        };
        let mut parsed = OpenOptions::default();
        for pair in options.into_iter().flat_map(|o| o.split('&')) {
            let number = |value: &str| match value.parse::<u64>() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(fail(format!("{value:?} is not a positive number"))),
            };
            match pair.split_once('=') {
                Some(("threads", value)) => parsed.threads = Some(number(value)? as usize),
                Some(("memory", value)) => parsed.memory_limit = Some(number(value)?),
                _ => return Err(fail(format!("unknown option {pair:?}; known are threads=N and memory=BYTES"))),
            }
        }
        Ok(Selection { backend: backend.to_ascii_lowercase(), index, options: parsed })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.backend, self.index)?;
        let options = [("threads", self.options.threads.map(|t| t as u64)), ("memory", self.options.memory_limit)];
        let set = options.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?)));
        let set = set.collect::<Vec<_>>().join("&");
        if set.is_empty() { Ok(()) } else { write!(f, "?{set}") }
    }
}

/// Asks a backend for its devices; a panic becomes a reason.
pub(crate) fn probe(backend: &dyn Backend) -> std::result::Result<Vec<DeviceInfo>, Unavailable> {
    catch_unwind(AssertUnwindSafe(|| backend.probe())).unwrap_or_else(|_| {
        let hint = Some("this is a fault of the backend; please report it to its authors".to_owned());
        Err(Unavailable { why: "the backend panicked while looking for devices".to_owned(), hint })
    })
}

static OPENED: LazyLock<Mutex<HashMap<String, &'static Opened>>> = LazyLock::new(Mutex::default);

fn open(backend: &dyn Backend, index: usize, options: &OpenOptions) -> Result<Device> {
    let name = Selection { backend: backend.name().to_owned(), index, options: options.clone() }.to_string();
    let opened = || OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = opened().get(&name) {
        return Ok(Device::from_opened(device));
    }
    let fail = |e: Error| e.with_device(&name);
    // Not under the lock: a backend may open other devices, and may take its time.
    let executor = catch_unwind(AssertUnwindSafe(|| backend.open(index, options)))
        .unwrap_or_else(|_| Err(Error::backend("the backend panicked while opening the device")))
        .map_err(fail)?;
    let index16 =
        u16::try_from(index).map_err(|_| fail(Error::device(format!("{index} is too large a device number"))))?;
    let id = DeviceId { type_id: (backend.id() as u16) << 8 | executor.info().class as u16, index: index16 };
    // Where another thread was faster, its device is the one.
    let leak = || -> &'static Opened { Box::leak(Box::new(Opened::new(executor, id, name.clone()))) };
    Ok(Device::from_opened(opened().entry(name.clone()).or_insert_with(leak)))
}

/// Opens the `index`-th device, best first, of those that `accept`.
fn open_best(wanted: &str, index: usize, options: &OpenOptions, accept: impl Fn(DeviceKind) -> bool) -> Result<Device> {
    let mut turned_down = Vec::new();
    let mut candidates = Vec::new();
    for backend in registry::backends() {
        match probe(&*backend) {
            Ok(devices) => {
                for (i, info) in devices.into_iter().enumerate().filter(|(_, info)| accept(info.kind)) {
                    candidates.push(((info.kind, info.priority), backend.clone(), i));
                }
            }
            Err(why) => turned_down.push(format!("{}: {why}", backend.name())),
        }
    }
    // Stable: among equals the order of backends decides.
    candidates.sort_by_key(|c| std::cmp::Reverse(c.0));
    let mut left = index;
    for (_, backend, i) in candidates {
        match open(&*backend, i, options) {
            Ok(device) if left == 0 => return Ok(device),
            Ok(_) => left -= 1,
            Err(why) => turned_down.push(format!("{}:{i}: {}", backend.name(), why.message())),
        }
    }
    let reasons = if turned_down.is_empty() { "no backend offers one".to_owned() } else { turned_down.join("; ") };
    Err(Error::unavailable(format!("no device fits {wanted:?}: {reasons}")))
}

impl Device {
    /// Opens a device by name: `"auto"`, `"cpu"`, `"gpu"`, `"flex"`, `"flex:0"`, `"flex?threads=2"`, …
    /// Opening the same name twice gives the same device.
    ///
    /// # Errors
    /// Where the name does not parse, names no known backend (the error lists the known ones), or the device cannot be opened.
    pub fn new(name: &str) -> Result<Device> {
        let selection: Selection = name.parse()?;
        let Selection { backend, index, options } = &selection;
        match backend.as_str() {
            "auto" => Device::auto_with(*index, options),
            "cpu" => open_best("cpu", *index, options, |kind| kind == DeviceKind::Cpu),
            "gpu" => open_best("gpu", *index, options, |kind| kind >= DeviceKind::IntegratedGpu),
            name => open(&*registry::find(name)?, *index, options),
        }
    }

    /// The best device that opens, or the one that the environment variable `UBIQUE_DEVICE` names.
    ///
    /// # Errors
    /// Where no device opens, or the variable names none.
    pub fn auto() -> Result<Device> {
        Device::auto_with(0, &OpenOptions::default())
    }

    fn auto_with(index: usize, options: &OpenOptions) -> Result<Device> {
        match std::env::var(VARIABLE) {
            Ok(name) if !name.trim().is_empty() => {
                let named: Result<Selection> = name.parse();
                let chosen = named.and_then(|mut s| {
                    // What the caller says beats what the environment says.
                    s.options.threads = options.threads.or(s.options.threads);
                    s.options.memory_limit = options.memory_limit.or(s.options.memory_limit);
                    match s.backend.as_str() {
                        "auto" => Device::best(s.index, &s.options),
                        _ => Device::new(&s.to_string()),
                    }
                });
                chosen.map_err(|e| e.context(format!("{VARIABLE}={name}")))
            }
            Err(std::env::VarError::NotUnicode(_)) => Err(Error::device(format!("{VARIABLE} is not valid text"))),
            _ => Device::best(index, options),
        }
    }

    fn best(index: usize, options: &OpenOptions) -> Result<Device> {
        open_best("auto", index, options, |kind| kind > DeviceKind::Virtual)
    }

    /// Opens the device of a stable number.
    ///
    /// # Errors
    /// Where no backend has that id, or its device of that index is of another class.
    pub fn from_id(id: DeviceId) -> Result<Device> {
        let number = (id.type_id >> 8) as u8;
        let backend = registry::backends().into_iter().find(|b| b.id() == number);
        let backend = backend.ok_or_else(|| Error::device(format!("no backend has the id {number}")))?;
        let device = open(&*backend, id.index as usize, &OpenOptions::default())?;
        if device.id() != id {
            return Err(Error::device(format!("{} has the id {:?}, not {id:?}", device.name(), device.id())));
        }
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        let s: Selection = "flex:1?threads=2&memory=1000".parse().unwrap();
        assert_eq!((s.backend.as_str(), s.index, s.options.threads), ("flex", 1, Some(2)));
        assert_eq!(s.to_string(), "flex:1?threads=2&memory=1000");
        assert_eq!("auto".parse::<Selection>().unwrap().to_string(), "auto:0");
        for bad in ["flex:x", "flex?threads", "flex?threads=0", "flex?speed=9", "flex:-1"] {
            assert!(bad.parse::<Selection>().is_err(), "{bad}");
        }
    }

    #[test]
    fn unknown_backends_list_the_known_ones() {
        let error = Device::new("warp:0").unwrap_err();
        assert!(error.to_string().contains("known are"), "{error}");
    }
}
