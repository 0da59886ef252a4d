//! The CPU devices, on which runs what another device neither has nor can compose.

use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::{DeviceKind, OpenOptions, registry};
use crate::dispatch::selection::Place;
use crate::dispatch::{Device, select};

/// The CPU devices that open, best first, and of how many backends they are.
type Known = (usize, Arc<[Device]>);

/// Every CPU device that opens, best first: those that compute in the host's memory.
pub(crate) fn cpus() -> Arc<[Device]> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let backends = registry::backends();
    if let Some((count, cpus)) = &*known()
        && *count == backends.len()
    {
        return cpus.clone();
    }
    // Not under the lock: a backend may take its time.
    let mut found = Vec::new();
    for backend in &backends {
        for (index, info) in select::probe(backend).unwrap_or_default().into_iter().enumerate() {
            if info.kind == DeviceKind::Cpu
                && let Ok(device) = select::open(&**backend, &Place::Index(index), &OpenOptions::default())
            {
                found.push((info.priority, device));
            }
        }
    }
    // Stable: among equals the order of backends decides.
    found.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    let cpus: Arc<[Device]> = found.into_iter().map(|(_, device)| device).collect();
    *known() = Some((backends.len(), cpus.clone()));
    cpus
}
