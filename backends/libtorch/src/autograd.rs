//! LibTorch's automatic differentiation, left out where it is not needed: it costs every op a call more.

/// Runs `body` without differentiation in this thread.
#[inline(always)]
pub fn without<R>(body: impl FnOnce() -> R) -> R {
    struct Guard([u64; 2]);
    impl Drop for Guard {
        #[inline(always)]
        fn drop(&mut self) {
            // SAFETY: the guard made below, which is removed once.
            unsafe { ubique_end_without_autograd(&mut self.0) };
        }
    }
    let mut guard = Guard([0; 2]);
    // SAFETY: room for a guard of LibTorch's.
    unsafe { ubique_without_autograd(&mut guard.0) };
    body()
}

/// Runs `body` with differentiation where it was left out.
pub fn with<R>(body: impl FnOnce() -> R) -> R {
    struct Out;
    impl Drop for Out {
        fn drop(&mut self) {
            // SAFETY: the function changes only a setting of this thread.
            unsafe { ubique_set_autograd(false) };
        }
    }
    // SAFETY: as above.
    unsafe { ubique_set_autograd(true) };
    let _out = Out;
    body()
}

unsafe extern "C" {
    // In `shim.cpp`.
    fn ubique_without_autograd(place: *mut [u64; 2]);
    fn ubique_end_without_autograd(guard: *mut [u64; 2]);
    fn ubique_set_autograd(on: bool);
}
