//! The open list of backends: those linked in announce themselves, loaders bring others, and programs add more at run time.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard};

use crate::backend::{Backend, Unavailable};
use crate::dispatch::config;
use crate::error::{Error, Result};

/// A linked-in backend's announcement: linking the crate is enough to have the backend.
///
/// ```ignore
/// ubique_core::inventory::submit! { ubique_core::backend::registry::Linked(|| Box::new(MyBackend)) }
/// ```
pub struct Linked(pub fn() -> Box<dyn Backend>);

inventory::collect!(Linked);

/// A way to find more backends when the program starts, announced like a backend.
pub struct Loader(pub fn() -> Loaded);

inventory::collect!(Loader);

/// What a [`Loader`] found.
#[derive(Default)]
pub struct Loaded {
    /// The backends.
    pub backends: Vec<Box<dyn Backend>>,
    /// What looked like a backend, but is none that works here.
    pub rejected: Vec<Rejected>,
}

/// A backend that cannot be had, listed so that its user learns why.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// What it is called, as far as that is known.
    pub name: String,
    /// Why it is not there.
    pub why: Unavailable,
}

struct Registry {
    backends: Vec<Arc<dyn Backend>>,
    rejected: Vec<Rejected>,
    /// Which backends a config file turns off, and which file.
    disabled: BTreeMap<String, String>,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(|| RwLock::new(Registry::new()));

impl Registry {
    fn new() -> Registry {
        let mut registry = Registry { backends: Vec::new(), rejected: Vec::new(), disabled: BTreeMap::new() };
        match config::disabled() {
            Ok(disabled) => registry.disabled = disabled,
            Err(error) => {
                let why = Unavailable { why: error.to_string(), hint: None };
                registry.rejected.push(Rejected { name: config::FILE.to_owned(), why });
            }
        }
        let mut linked: Vec<_> = inventory::iter::<Linked>.into_iter().map(|linked| (linked.0)()).collect();
        linked.sort_by_key(|backend| backend.id());
        let loaded: Vec<Loaded> = inventory::iter::<Loader>.into_iter().map(|loader| (loader.0)()).collect();
        linked.into_iter().for_each(|backend| registry.add(backend));
        for Loaded { backends, rejected } in loaded {
            registry.rejected.extend(rejected);
            backends.into_iter().for_each(|backend| registry.add(backend));
        }
        registry
    }

    /// Adds a backend. Of two with the same name or number the first stays, so that selection stays unambiguous.
    fn add(&mut self, backend: Box<dyn Backend>) {
        match self.check(&*backend) {
            Ok(()) => self.backends.push(backend.into()),
            Err(error) => {
                let why = Unavailable { why: error.message().to_owned(), hint: None };
                self.rejected.push(Rejected { name: backend.name().to_owned(), why });
            }
        }
    }

    fn check(&self, new: &dyn Backend) -> Result<()> {
        let name = new.name();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            return Err(Error::value(format!(
                "backend name {name:?} is not of lower-case ASCII letters, digits and _"
            )));
        }
        match self.backends.iter().find(|b| b.name() == name || b.id() == new.id()) {
            Some(other) => Err(Error::value(format!(
                "backend {name:?} (id {}) collides with {:?} (id {})",
                new.id(),
                other.name(),
                other.id()
            ))),
            None => Ok(()),
        }
    }
}

fn registry() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a backend.
///
/// # Errors
/// Where its name or id is taken, or the name cannot be written in a device name.
pub fn register(backend: Box<dyn Backend>) -> Result<()> {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.check(&*backend)?;
    registry.backends.push(backend.into());
    Ok(())
}

/// Every known backend that is not disabled.
pub fn backends() -> Vec<Arc<dyn Backend>> {
    let registry = registry();
    registry.backends.iter().filter(|b| !registry.disabled.contains_key(b.name())).cloned().collect()
}

/// The backends that a config file turns off, and why.
pub fn disabled() -> Vec<(String, String)> {
    let registry = registry();
    let reason = |b: &Arc<dyn Backend>| Some((b.name().to_owned(), registry.disabled.get(b.name())?.clone()));
    registry.backends.iter().filter_map(reason).collect()
}

/// The backends that cannot be had.
pub fn rejected() -> Vec<Rejected> {
    registry().rejected.clone()
}

/// A backend by name.
///
/// # Errors
/// Where there is none of that name (the error lists the known ones), or it is disabled or cannot be had.
pub fn find(name: &str) -> Result<Arc<dyn Backend>> {
    let registry = registry();
    if let Some(found) = registry.backends.iter().find(|b| b.name() == name) {
        return match registry.disabled.get(name) {
            Some(why) => Err(Error::unavailable(why.clone()).with_device(name)),
            None => Ok(found.clone()),
        };
    }
    if let Some(Rejected { why, .. }) = registry.rejected.iter().find(|rejected| rejected.name == name) {
        return Err(Error::unavailable(why.to_string()).with_device(name));
    }
    let known: Vec<&str> = registry.backends.iter().map(|b| b.name()).collect();
    Err(Error::device(format!("no backend is called {name:?}; known are: {}, and auto", known.join(", "))))
}
