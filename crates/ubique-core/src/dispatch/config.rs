//! The config file `ubique.toml`: the user's, and above it the project's.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::dispatch::Selection;
use crate::error::{Error, Result};

/// The name of the file.
pub const FILE: &str = "ubique.toml";

/// What a config file says.
///
/// ```toml
/// device = "cuda,vulkan,cpu"   # what `auto` means
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What `auto` means, as a device name.
    pub device: Option<String>,
}

/// What `auto` means according to the config files, and which of them says so: the project's is the nearest `ubique.toml` in
/// the working directory or above it, the user's lies in the user's folder of configurations.
///
/// # Errors
/// Where a file cannot be read or does not parse, or its device is no device name.
pub fn device() -> Result<Option<(PathBuf, Selection)>> {
    for path in [project_file(), user_file()].into_iter().flatten() {
        let fail = |e: Error| e.context(path.display());
        if let Some(name) = read(&path)?.device {
            let selection = name.parse().map_err(fail)?;
            return Ok(Some((path, selection)));
        }
    }
    Ok(None)
}

/// Reads one file.
///
/// # Errors
/// Where it cannot be read or does not parse; the error names the file and the place.
pub fn read(path: &Path) -> Result<Config> {
    let fail = |what: String| Error::format(what.trim_end()).context(path.display());
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    toml::from_str(&text).map_err(|e| fail(e.to_string()))
}

/// The nearest file in the working directory or above it.
fn project_file() -> Option<PathBuf> {
    let directory = std::env::current_dir().ok()?;
    directory.ancestors().map(|ancestor| ancestor.join(FILE)).find(|path| path.is_file())
}

/// The user's file, where there is one.
fn user_file() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("ubique").join(FILE)).filter(|path| path.is_file())
}
