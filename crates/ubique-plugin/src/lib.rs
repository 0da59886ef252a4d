//! Backends that are loaded at run time.
//!
//! A library that exports `ubique_backend_v1` (see `include/ubique_backend_v1.h`) is a backend. Linking this crate makes the
//! registry load those that `UBIQUE_PLUGIN_PATH` and the key `plugins` of the config files name, and those in the user's folder
//! of data, under `ubique/plugins`. One that does not load is
//! listed with the reason, and the others work.
//!
//! A backend in Rust exports its table with [`export`].
#![warn(missing_docs)]

mod abi;
mod guest;
mod host;
mod load;
mod text;

pub use guest::{Exported, export};
pub use load::VARIABLE;

ubique_core::inventory::submit! { ubique_core::backend::registry::Loader(load::all) }
