//! The guest's side: a backend written in Rust as a table. A panic becomes an error: it must not cross the boundary.

mod calls;
mod handles;

use std::any::Any;
use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ubique_core::backend::Backend;
use ubique_core::error::panic_message;
use ubique_core::{Error, Result};

use crate::abi;
use crate::text;

/// The table of a backend, which a library exports. Called more than once it makes more tables, so keep the first:
///
/// ```
/// use std::sync::LazyLock;
/// use ubique_plugin::{Exported, export};
/// # struct MyBackend;
/// # impl ubique_core::backend::Backend for MyBackend {
/// #     fn name(&self) -> &str { "mine" }
/// #     fn id(&self) -> u8 { 201 }
/// #     fn probe(&self) -> Result<Vec<ubique_core::backend::DeviceInfo>, ubique_core::backend::Unavailable> { Ok(vec![]) }
/// #     fn open(&self, _: usize, _: &ubique_core::backend::OpenOptions)
/// #         -> ubique_core::Result<std::sync::Arc<dyn ubique_core::backend::Executor>> {
/// #         Err(ubique_core::Error::device("none"))
/// #     }
/// # }
///
/// #[unsafe(no_mangle)]
/// pub extern "C" fn ubique_backend_v1() -> *const Exported {
///     static TABLE: LazyLock<&Exported> = LazyLock::new(|| export(Box::new(MyBackend)));
///     *TABLE
/// }
/// # assert!(!ubique_backend_v1().is_null());
/// ```
///
/// A backend whose name is not valid gives a table without a name, which the host refuses with that reason.
pub fn export(backend: Box<dyn Backend>) -> &'static Exported {
    let name = CString::new(backend.name()).map_or(std::ptr::null(), |name| name.into_raw().cast_const());
    let id = backend.id().into();
    let context = Box::into_raw(Box::new(backend)).cast::<c_void>();
    Box::leak(Box::new(Exported(abi::Backend {
        size: size_of::<abi::Backend>(),
        version: abi::VERSION,
        id,
        name,
        context,
        probe: Some(calls::probe),
        open_device: Some(calls::open_device),
        close_device: Some(calls::close_device),
        prepare_op: Some(calls::prepare_op),
        free_op: Some(calls::free_op),
        supports: Some(calls::supports),
        upload: Some(calls::upload),
        download: Some(calls::download),
        free_buffer: Some(calls::free_buffer),
        host_pointer: Some(calls::host_pointer),
        check_buffer: Some(calls::check_buffer),
        execute: Some(calls::execute),
        flush: Some(calls::flush),
        sync: Some(calls::sync),
        memory_usage: Some(calls::memory_usage),
        memory_cleanup: Some(calls::memory_cleanup),
        memory_limit: Some(calls::memory_limit),
    })))
}

/// The table of [`export`].
#[repr(transparent)]
pub struct Exported(pub(crate) abi::Backend);

// SAFETY: what its pointers lead to is a backend, which is `Send` and `Sync`.
unsafe impl Send for Exported {}
// SAFETY: as above.
unsafe impl Sync for Exported {}

/// Runs the body of a function of the table, and reports what went wrong.
///
/// # Safety
/// `error` is valid for writing.
#[inline(always)]
unsafe fn guarded(error: *mut abi::Error, body: impl FnOnce() -> Result<()>) -> abi::Code {
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(()) => abi::OK,
        // SAFETY: valid, as the caller promises.
        Err(what) => text::report(&what, unsafe { &mut *error }),
    }
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    Error::backend(format!("the backend panicked: {}", panic_message(panic).unwrap_or_default()))
}

/// As [`guarded`] for functions that cannot fail.
fn guarded_or<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}
