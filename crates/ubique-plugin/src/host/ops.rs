//! Ops in the backend's own form. Reading one from its text takes microseconds, so the recent ones are kept.

use std::cell::RefCell;
use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use rustc_hash::FxHashMap;
use ubique_core::{Op, TensorSpec};

use super::device::Device;
use crate::abi;
use crate::text;

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
        let (prepare, mut handle) = (device.table.prepare_op, null_mut());
        // SAFETY: the texts end with NUL, and all pointers are valid for the call.
        let read = |error: &mut _| unsafe { prepare(device.handle, name.as_ptr(), json.as_ptr(), &mut handle, error) };
        // An op that the backend cannot read is one that it does not have: the host composes it of others.
        text::checked(read).ok()?;
        (!handle.is_null()).then_some(Prepared { handle, free: device.table.free_op })
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: the handle is given back once.
        unsafe { (self.free)(self.handle) };
    }
}

/// An op as the backend knows it.
pub struct Known {
    op: Op,
    /// `None` where the backend has no kernel for it.
    pub prepared: Option<Prepared>,
    /// What the backend said about the operands that came first. About others it is asked each time, which takes less than a
    /// small op does.
    answers: [OnceLock<(Vec<TensorSpec>, bool)>; 16],
}

impl Known {
    /// Whether the backend takes these operands: what it said before, or what it says now.
    pub fn supports(&self, inputs: &[TensorSpec], ask: impl Fn(&Prepared) -> bool) -> bool {
        let Some(prepared) = &self.prepared else { return false };
        for place in &self.answers {
            let (specs, answer) = place.get_or_init(|| (inputs.to_vec(), ask(prepared)));
            if specs == inputs {
                return *answer;
            }
        }
        ask(prepared)
    }
}

/// The ops known so far, by name.
#[derive(Default)]
pub struct Prepares(RwLock<FxHashMap<&'static str, Vec<Arc<Known>>>>);

/// An op found lately, and the list that it was found in, by its address. It is only looked at while that list lives, and
/// gone where the list is.
type Recent = (*const Prepares, Weak<Known>);

thread_local! {
    /// What this thread found lately, by the ops' names, so that most ops need no lock.
    static RECENT: RefCell<[Recent; 32]> = const { RefCell::new([const { (null(), Weak::new()) }; 32]) };
}

impl Prepares {
    /// The op as prepared before, or as `prepare` prepares it now.
    pub fn find(&self, op: &Op, prepare: impl FnOnce() -> Option<Prepared>) -> Arc<Known> {
        let name = op.name();
        let place = (name.as_ptr().addr() >> 2) % 32;
        let recent = RECENT.with_borrow(|recent| {
            let (list, known) = &recent[place];
            if std::ptr::eq(*list, self) { known.upgrade().filter(|known| known.op == *op) } else { None }
        });
        recent.unwrap_or_else(|| {
            let found = self.look_up(name, op, prepare);
            RECENT.with_borrow_mut(|recent| recent[place] = (self, Arc::downgrade(&found)));
            found
        })
    }

    fn look_up(&self, name: &'static str, op: &Op, prepare: impl FnOnce() -> Option<Prepared>) -> Arc<Known> {
        {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.get(name).and_then(|list| list.iter().find(|known| known.op == *op)) {
                return known.clone();
            }
        }
        let new = Arc::new(Known { op: op.clone(), prepared: prepare(), answers: Default::default() });
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let list = known.entry(name).or_default();
        if list.len() >= KEPT {
            list.remove(0);
        }
        list.push(new.clone());
        new
    }

    pub fn clear(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
