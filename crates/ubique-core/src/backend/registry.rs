//! The open list of backends: those linked in announce themselves, others are added at run time.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::backend::Backend;
use crate::error::{Error, Result};

/// A linked-in backend's announcement: linking the crate is enough to have the backend.
///
/// ```ignore
/// ubique_core::inventory::submit! { ubique_core::backend::registry::Linked(|| Box::new(MyBackend)) }
/// ```
pub struct Linked(pub fn() -> Box<dyn Backend>);

inventory::collect!(Linked);

static BACKENDS: LazyLock<RwLock<Vec<Arc<dyn Backend>>>> = LazyLock::new(|| {
    let mut backends: Vec<Arc<dyn Backend>> = Vec::new();
    for linked in inventory::iter::<Linked> {
        let backend = (linked.0)();
        // Two crates that announce the same name or id: the first stays, so that selection stays unambiguous.
        if check(&backends, &*backend).is_ok() {
            backends.push(backend.into());
        }
    }
    backends.sort_by_key(|b| b.id());
    RwLock::new(backends)
});

fn check(known: &[Arc<dyn Backend>], new: &dyn Backend) -> Result<()> {
    let name = new.name();
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
        return Err(Error::value(format!("backend name {name:?} is not of lower-case ASCII letters, digits and _")));
    }
    match known.iter().find(|b| b.name() == name || b.id() == new.id()) {
        Some(other) => Err(Error::value(format!(
            "backend {name:?} (id {}) collides with {:?} (id {})",
            new.id(),
            other.name(),
            other.id()
        ))),
        None => Ok(()),
    }
}

/// Adds a backend.
///
/// # Errors
/// Where its name or id is taken, or the name cannot be written in a device name.
pub fn register(backend: Box<dyn Backend>) -> Result<()> {
    let mut backends = BACKENDS.write().unwrap_or_else(PoisonError::into_inner);
    check(&backends, &*backend)?;
    backends.push(backend.into());
    Ok(())
}

/// Every known backend.
pub fn backends() -> Vec<Arc<dyn Backend>> {
    BACKENDS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A backend by name; the error lists the known ones.
///
/// # Errors
/// Where there is none of that name.
pub fn find(name: &str) -> Result<Arc<dyn Backend>> {
    let all = backends();
    all.iter().find(|b| b.name() == name).cloned().ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|b| b.name()).collect();
        Error::device(format!("no backend is called {name:?}; known are: {}, and auto", known.join(", ")))
    })
}
