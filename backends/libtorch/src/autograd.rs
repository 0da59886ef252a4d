//! LibTorch's automatic differentiation, turned off where it is not needed: it costs every op a call more.

/// Turns differentiation in this thread on or off until the guard is dropped.
pub fn set(on: bool) -> Guard {
    // SAFETY: the function changes only a setting of this thread.
    Guard { before: unsafe { ubique_set_autograd(on) } }
}

/// Puts back what was before.
pub struct Guard {
    before: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { ubique_set_autograd(self.before) };
    }
}

unsafe extern "C" {
    /// In `shim.cpp`.
    fn ubique_set_autograd(on: bool) -> bool;
}
