//! From a device's name to an opened device. The grammar is that of [`Selection`]; `UBIQUE_DEVICE`, or else the config file,
//! says what `auto` means.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::backend::deadline::{self, Started};
use crate::backend::{Backend, DeviceInfo, DeviceKind, Executor, OpenOptions, Unavailable, registry};
use crate::dispatch::config;
use crate::dispatch::device::{Device, DeviceId, Opened};
use crate::dispatch::requirements::Requirements;
use crate::dispatch::selection::{Choice, Place, Selection};
use crate::error::{Error, Result};

/// The environment variable that says which device `auto` is.
pub(crate) const VARIABLE: &str = "UBIQUE_DEVICE";

/// What a backend answers when asked for its devices.
type Answer = std::result::Result<Vec<DeviceInfo>, Unavailable>;

/// Backends that were asked and have not answered yet.
static SILENT: LazyLock<Mutex<BTreeSet<String>>> = LazyLock::new(Mutex::default);

fn silent() -> MutexGuard<'static, BTreeSet<String>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks a backend for its devices; a panic or silence becomes a reason.
pub(crate) fn probe(backend: &Arc<dyn Backend>) -> Answer {
    finish(start(backend))
}

/// Asks several at the same time.
pub(crate) fn probe_all(backends: &[Arc<dyn Backend>]) -> Vec<Answer> {
    let started: Vec<_> = backends.iter().map(start).collect();
    started.into_iter().map(finish).collect()
}

/// `None` where an earlier question is still open: a second thread would hang like the first.
fn start(backend: &Arc<dyn Backend>) -> Option<Started<Answer>> {
    let name = backend.name().to_owned();
    if silent().contains(&name) {
        return None;
    }
    let backend = backend.clone();
    Some(deadline::start(deadline::PROBE, move || {
        silent().insert(name.clone());
        let answer = catch_unwind(AssertUnwindSafe(|| backend.probe()));
        silent().remove(&name);
        answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }))
}

fn finish(started: Option<Started<Answer>>) -> Answer {
    let why = match started.map(Started::finish) {
        Some(Ok(answer)) => return answer,
        Some(Err(why)) => format!("the backend {why} when asked for its devices"),
        None => "the backend has not answered an earlier question for its devices".to_owned(),
    };
    let hint = "its driver or library may be at fault; leave it out with the key `disabled` in ubique.toml";
    Err(Unavailable { why, hint: Some(hint.to_owned()) })
}

static OPENED: LazyLock<Mutex<HashMap<String, &'static Opened>>> = LazyLock::new(Mutex::default);

/// Opens a backend's device, or gives the one that is open under the same name.
pub(super) fn open(backend: &dyn Backend, place: &Place, options: &OpenOptions) -> Result<Device> {
    let choice = Choice { backend: backend.name().to_owned(), place: place.clone(), options: options.clone() };
    let name = choice.to_string();
    let opened = || OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = opened().get(&name) {
        return Ok(Device::from_opened(device));
    }
    // Not under the lock: a backend may open other devices, and may take its time.
    let (executor, index) = open_new(backend, place, options).map_err(|e| e.with_device(&name))?;
    let id = DeviceId { type_id: (backend.id() as u16) << 8 | executor.info().class as u16, index };
    // Where another thread was faster, its device is the one.
    let leak = || -> &'static Opened { Box::leak(Box::new(Opened::new(executor, id, name.clone()))) };
    Ok(Device::from_opened(opened().entry(name.clone()).or_insert_with(leak)))
}

fn open_new(backend: &dyn Backend, place: &Place, options: &OpenOptions) -> Result<(Arc<dyn Executor>, u16)> {
    let number = match place {
        Place::Index(index) => {
            u16::try_from(*index).map_err(|_| Error::device(format!("{index} is too large a device number")))?
        }
        // Devices by address share one number: they are found again by their names.
        Place::Address(_) => u16::MAX,
    };
    let open = || match place {
        Place::Index(index) => backend.open(*index, options),
        Place::Address(address) => backend.connect(address, options),
    };
    let executor = catch_unwind(AssertUnwindSafe(open))
        .unwrap_or_else(|_| Err(Error::backend("the backend panicked while opening the device")))?;
    Ok((executor, number))
}

/// Candidates that were tried, and why each was not taken.
#[derive(Default)]
struct TurnedDown(Vec<String>);

impl TurnedDown {
    fn add(&mut self, candidate: impl std::fmt::Display, why: &str) {
        self.0.push(format!("{candidate}: {why}"));
    }

    fn into_error(self, wanted: &str) -> Error {
        let reasons = if self.0.is_empty() { "no backend offers one".to_owned() } else { self.0.join("; ") };
        Error::unavailable(format!("no device fits {wanted:?}: {reasons}"))
    }
}

/// Opens the first choice that opens and has what is needed. A single choice keeps its own error.
fn open_selection(selection: &Selection, needs: &Requirements, auto: Auto) -> Result<Device> {
    let mut turned_down = TurnedDown::default();
    for choice in &selection.0 {
        match open_choice(choice, needs, auto) {
            Err(why) if selection.0.len() > 1 => turned_down.add(choice, why.message()),
            found => return found,
        }
    }
    Err(turned_down.into_error(&selection.to_string()))
}

/// Where the meaning of `auto` comes from.
#[derive(Clone, Copy)]
enum Auto {
    /// The environment variable, else the config files, else the best device.
    Configured,
    /// The best device: the meaning of `auto` where the variable or a file says it.
    Best,
}

fn open_choice(choice: &Choice, needs: &Requirements, auto: Auto) -> Result<Device> {
    match (choice.backend.as_str(), auto) {
        ("auto", Auto::Configured) => open_configured(choice, needs),
        ("auto", Auto::Best) => open_best(choice, needs, |kind| kind > DeviceKind::Virtual),
        ("cpu", _) => open_best(choice, needs, |kind| kind == DeviceKind::Cpu),
        ("gpu", _) => open_best(choice, needs, |kind| kind >= DeviceKind::IntegratedGpu),
        (name, _) => {
            let device = open(&*registry::find(name)?, &choice.place, &choice.options)?;
            needs.check(device.executor()).map_err(|e| e.with_device(device.name()))?;
            Ok(device)
        }
    }
}

/// Opens what the environment variable or a config file says `auto` is.
fn open_configured(choice: &Choice, needs: &Requirements) -> Result<Device> {
    let Some((source, mut selection)) = configured()? else {
        return open_best(choice, needs, |kind| kind > DeviceKind::Virtual);
    };
    for named in &mut selection.0 {
        // What the caller says beats what the surroundings say.
        named.options.threads = choice.options.threads.or(named.options.threads);
        named.options.memory_limit = choice.options.memory_limit.or(named.options.memory_limit);
    }
    open_selection(&selection, needs, Auto::Best).map_err(|e| e.context(source))
}

/// What `auto` is said to mean, and where.
fn configured() -> Result<Option<(String, Selection)>> {
    match std::env::var(VARIABLE) {
        Ok(name) if !name.trim().is_empty() => {
            let source = format!("{VARIABLE}={name}");
            match name.parse() {
                Ok(selection) => Ok(Some((source, selection))),
                Err(error) => Err(Error::context(error, source)),
            }
        }
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::device(format!("{VARIABLE} is not valid text"))),
        _ => Ok(config::device()?.map(|(path, selection)| (path.display().to_string(), selection))),
    }
}

/// Opens the choice's `index`-th device, best first, of those that `accept` and that have what is needed.
fn open_best(choice: &Choice, needs: &Requirements, accept: impl Fn(DeviceKind) -> bool) -> Result<Device> {
    let Place::Index(mut left) = choice.place else {
        return Err(Error::device(format!("{} takes a number, not an address", choice.backend)));
    };
    let mut turned_down = TurnedDown::default();
    let mut candidates = Vec::new();
    let backends = registry::backends();
    for (backend, answer) in backends.iter().zip(probe_all(&backends)) {
        match answer {
            Ok(devices) => {
                for (i, info) in devices.into_iter().enumerate().filter(|(_, info)| accept(info.kind)) {
                    match needs.check_info(&info) {
                        Ok(()) => candidates.push(((info.kind, info.priority), backend.clone(), i)),
                        Err(why) => turned_down.add(format!("{}:{i}", backend.name()), why.message()),
                    }
                }
            }
            Err(why) => turned_down.add(backend.name(), &why.to_string()),
        }
    }
    for (name, why) in registry::disabled() {
        turned_down.add(name, &why);
    }
    // Stable: among equals the order of backends decides.
    candidates.sort_by_key(|c| std::cmp::Reverse(c.0));
    for (_, backend, i) in candidates {
        let opened = open(&*backend, &Place::Index(i), &choice.options);
        match opened.and_then(|device| needs.check(device.executor()).map(|()| device)) {
            Ok(device) if left == 0 => return Ok(device),
            Ok(_) => left -= 1,
            Err(why) => turned_down.add(format!("{}:{i}", backend.name()), why.message()),
        }
    }
    Err(turned_down.into_error(&choice.backend))
}

impl Device {
    /// Opens a device by name: `"auto"`, `"cpu"`, `"gpu"`, `"flex:0"`, `"flex?threads=2"`, or the first that opens of a list
    /// such as `"cuda,vulkan,cpu"`; see [`Selection`] for the grammar. Opening the same name twice gives the same device.
    ///
    /// # Errors
    /// Where the name does not parse, names no known backend (the error lists the known ones), or the device cannot be
    /// opened; of a list and of `auto`, `cpu` and `gpu` why each candidate was turned down.
    pub fn new(name: &str) -> Result<Device> {
        open_selection(&name.parse()?, &Requirements::default(), Auto::Configured)
    }

    /// The best device that opens, or what the environment variable `UBIQUE_DEVICE`, or else the config file `ubique.toml`,
    /// says instead.
    ///
    /// # Errors
    /// Where no device opens, or what the variable or file names does not.
    pub fn auto() -> Result<Device> {
        Device::auto_for(&Requirements::default())
    }

    /// As [`Device::auto`], the best device that has what a program needs.
    ///
    /// ```
    /// use ubique_core::dispatch::Requirements;
    /// use ubique_core::{DType, Device};
    ///
    /// let needs = Requirements { dtypes: vec![DType::F64], memory: 1 << 20, ..Default::default() };
    /// match Device::auto_for(&needs) {
    ///     Ok(device) => assert!(device.supports_dtype(DType::F64)),
    ///     Err(error) => println!("{error}"), // says of each device why not
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Device::auto`]; devices that lack something are turned down like those that do not open.
    pub fn auto_for(needs: &Requirements) -> Result<Device> {
        open_selection(&"auto".parse()?, needs, Auto::Configured)
    }

    /// Opens the device of a stable number.
    ///
    /// # Errors
    /// Where no backend has that id, or its device of that index is of another class.
    pub fn from_id(id: DeviceId) -> Result<Device> {
        let number = (id.type_id >> 8) as u8;
        let backend = registry::backends().into_iter().find(|b| b.id() == number);
        let backend = backend.ok_or_else(|| Error::device(format!("no backend has the id {number}")))?;
        let device = open(&*backend, &Place::Index(id.index.into()), &OpenOptions::default())?;
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
    fn unknown_backends_list_the_known_ones() {
        let error = Device::new("warp:0").unwrap_err();
        assert!(error.to_string().contains("known are"), "{error}");
    }
}
