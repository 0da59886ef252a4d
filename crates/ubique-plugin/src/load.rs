//! Finding libraries and loading them. One that fails is a reason to show, and the others work.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libloading::Library;
use ubique_core::backend::registry::{Loaded, Rejected};
use ubique_core::backend::{Unavailable, deadline};
use ubique_core::dispatch::config;

use crate::abi;
use crate::host::{Plugin, Table};

/// The environment variable with libraries, or folders of libraries, as in `PATH`.
pub const VARIABLE: &str = "UBIQUE_PLUGIN_PATH";

/// The numbers that backends outside the main repository have.
const IDS: std::ops::RangeInclusive<u8> = 128..=255;

/// Backends of ours that come as plugins because they link what most machines lack: the name, and how to install it.
const OPTIONAL: [(&str, &str); 1] =
    [("libtorch", "tools/install-libtorch.sh in ubique's repository installs it, and LibTorch from PyPI")];

/// Every library that the environment, the config files and the user's folder of plugins name, loaded.
pub fn all() -> Loaded {
    let (paths, mut loaded) = find();
    let mut ids = BTreeSet::new();
    for path in paths {
        match load(&path, &mut ids) {
            Ok(plugin) => loaded.backends.push(Box::new(plugin)),
            Err(why) => loaded.rejected.push(reject(&path, why)),
        }
    }
    OPTIONAL.into_iter().for_each(|(name, install)| explain_absence(&mut loaded, name, install));
    loaded
}

/// Says how to get a backend that could be here.
fn explain_absence(loaded: &mut Loaded, name: &str, install: &str) {
    if loaded.backends.iter().any(|backend| backend.name() == name) {
        return;
    }
    let hint = Some(install.to_owned());
    match loaded.rejected.iter_mut().find(|rejected| rejected.name == name) {
        Some(rejected) => rejected.why.hint = hint,
        None => {
            let why = Unavailable { why: "its plugin is not installed".to_owned(), hint };
            loaded.rejected.push(Rejected { name: name.to_owned(), why });
        }
    }
}

fn reject(path: &Path, why: String) -> Rejected {
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.strip_prefix("lib").unwrap_or(&name);
    let name = name.strip_prefix("ubique_").unwrap_or(name).to_owned();
    Rejected { name, why: Unavailable { why: format!("{}: {why}", path.display()), hint: None } }
}

/// The libraries to load, each once, and what is wrong with the places named.
fn find() -> (Vec<PathBuf>, Loaded) {
    let mut named: Vec<PathBuf> = std::env::var_os(VARIABLE).iter().flat_map(std::env::split_paths).collect();
    let mut loaded = Loaded::default();
    match config::plugins() {
        Ok(paths) => named.extend(paths),
        Err(error) => {
            let why = Unavailable { why: error.to_string(), hint: None };
            loaded.rejected.push(Rejected { name: "plugins".to_owned(), why });
        }
    }
    named.extend(config::plugin_folder().filter(|folder| folder.is_dir()));
    let mut paths = Vec::new();
    for place in named.into_iter().filter(|place| !place.as_os_str().is_empty()) {
        match libraries(&place) {
            Ok(found) => paths.extend(found),
            Err(error) => loaded.rejected.push(reject(&place, error.to_string())),
        }
    }
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    (paths, loaded)
}

/// A file itself, or the libraries of a folder in order of their names.
fn libraries(place: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(place)?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(std::env::consts::DLL_EXTENSION)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn load(path: &Path, ids: &mut BTreeSet<u8>) -> Result<Plugin, String> {
    // Loading runs the library's own code, which may never come back.
    let file = path.to_owned();
    let table = deadline::start(deadline::PROBE, move || open(&file))
        .finish()
        .map_err(|why| format!("it {why} while it was loaded"))??;
    let wanted = u8::try_from(table.raw.id).ok().filter(|id| IDS.contains(id) && !ids.contains(id));
    let id = wanted.or_else(|| IDS.rev().find(|id| !ids.contains(id))).ok_or("there are too many plugins")?;
    ids.insert(id);
    Ok(Plugin::new(table, id))
}

fn open(path: &Path) -> Result<&'static Table, String> {
    // SAFETY: the user has named this library to be run.
    let library = unsafe { load_now(path) }.map_err(|e| explain(path, &e))?;
    // Its code is needed as long as the program runs, and even a library that is refused may have started threads.
    let library = Box::leak(Box::new(library));
    // SAFETY: the symbol has this type, by the contract.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const abi::Backend>(abi::SYMBOL.as_bytes()) };
    let entry = entry.map_err(|_| format!("it has no symbol {}, so it is no backend of this version", abi::SYMBOL))?;
    // SAFETY: by the contract.
    let table = unsafe { Table::read(entry()) }?;
    Ok(Box::leak(Box::new(table)))
}

/// Loads a library with all its symbols: one that is missing must show now, and not end the program when it is called.
///
/// # Safety
/// As for [`Library::new`].
#[cfg(unix)]
unsafe fn load_now(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{Library as Unix, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: as the caller promises.
    unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Library::from)
}

/// Loads a library, which needs all its symbols here.
///
/// # Safety
/// As for [`Library::new`].
#[cfg(not(unix))]
unsafe fn load_now(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: as the caller promises.
    unsafe { Library::new(path) }
}

/// The loader's own words, which name the library or the symbol that is missing.
fn explain(path: &Path, error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let said = cause.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&cause);
    format!("it cannot be loaded: {said}")
}
