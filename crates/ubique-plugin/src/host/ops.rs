//! Ops in the backend's own form. Reading one from its text takes microseconds, so the recent ones are kept.

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;
use ubique_core::Op;

use super::device::Device;
use crate::abi;
use crate::text::NO_ERROR;

/// How many ops of one name are kept. More are rare: they differ in parameters only, as fills with different values do.
const KEPT: usize = 16;

/// The backend's handle of an op.
pub struct Prepared {
    pub handle: *mut abi::Op,
    free: abi::FreeOp,
}

// SAFETY: by the contract, handles can be used from any thread.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Prepared {
    pub fn new(device: &Device, op: &Op) -> Option<Prepared> {
        let name = CString::new(op.name()).ok()?;
        let json = CString::new(serde_json::to_string(op).ok()?).ok()?;
        let (mut handle, mut error) = (null_mut(), NO_ERROR);
        // SAFETY: the texts end with NUL, and all pointers are valid for the call.
        let code =
            unsafe { (device.table.prepare_op)(device.handle, name.as_ptr(), json.as_ptr(), &mut handle, &mut error) };
        // An op that the backend cannot read is one that it does not have: the host composes it of others.
        (code == abi::OK && !handle.is_null()).then_some(Prepared { handle, free: device.table.free_op })
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: the handle is given back once.
        unsafe { (self.free)(self.handle) };
    }
}

/// What preparing an op gave: `None` where the backend has no kernel for it.
type Known = (Op, Option<Arc<Prepared>>);

/// The ops prepared so far, by name.
#[derive(Default)]
pub struct Prepares(RwLock<FxHashMap<&'static str, Vec<Known>>>);

impl Prepares {
    /// The op as prepared before, or as `prepare` prepares it now.
    pub fn find(&self, op: &Op, prepare: impl FnOnce() -> Option<Prepared>) -> Option<Arc<Prepared>> {
        let name = op.name();
        {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, prepared)) = known.get(name).and_then(|list| list.iter().find(|(other, _)| other == op)) {
                return prepared.clone();
            }
        }
        let prepared = prepare().map(Arc::new);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let list = known.entry(name).or_default();
        if list.len() >= KEPT {
            list.remove(0);
        }
        list.push((op.clone(), prepared.clone()));
        prepared
    }

    pub fn clear(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
