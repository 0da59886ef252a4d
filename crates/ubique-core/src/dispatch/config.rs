//! The config file `ubique.toml`: the user's, and above it the project's.

use std::collections::BTreeMap;
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
/// disabled = ["vulkan"]        # backends not to be used, whoever asks
/// plugins = ["lib/mine.so"]    # libraries, or folders of them, with backends; relative to this file
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What `auto` means, as a device name.
    pub device: Option<String>,
    /// Backends not to be used.
    #[serde(default)]
    pub disabled: Vec<String>,
    /// Libraries, or folders of libraries, with backends. Relative paths start at the file's folder.
    #[serde(default)]
    pub plugins: Vec<PathBuf>,
}

/// The config files that are there: the project's, which is the nearest `ubique.toml` in the working directory or above it,
/// then the user's, in the user's folder of configurations. Of a single value the first that has one counts; lists add up.
fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = [project_file(), user_file()].into_iter().flatten().collect();
    files.dedup();
    files
}

/// What `auto` means according to the config files, and which of them says so.
///
/// # Errors
/// Where a file cannot be read or does not parse, or its device is no device name.
pub fn device() -> Result<Option<(PathBuf, Selection)>> {
    for path in files() {
        let fail = |e: Error| e.context(path.display());
        if let Some(name) = read(&path)?.device {
            let selection = name.parse().map_err(fail)?;
            return Ok(Some((path, selection)));
        }
    }
    Ok(None)
}

/// The backends that the config files turn off, each with the reason to show.
///
/// # Errors
/// Where a file cannot be read or does not parse.
pub fn disabled() -> Result<BTreeMap<String, String>> {
    let mut disabled = BTreeMap::new();
    for path in files() {
        let names = read(&path)?.disabled;
        disabled.extend(names.into_iter().map(|name| (name, format!("disabled in {}", path.display()))));
    }
    Ok(disabled)
}

/// The libraries, and folders of libraries, that the config files name. They hold code that is going to run, so a file that
/// somebody else could have left in a folder above the working directory may not name any.
///
/// # Errors
/// Where a file cannot be read, does not parse, or names plugins and is not the user's own.
pub fn plugins() -> Result<Vec<PathBuf>> {
    let mut plugins = Vec::new();
    for path in files() {
        let named = read(&path)?.plugins;
        if !named.is_empty() && !is_own(&path) {
            let why =
                "names plugins, but belongs to another user; plugins are code, so name them in a file of your own";
            return Err(Error::value(why).context(path.display()));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        plugins.extend(named.iter().map(|plugin| folder.join(plugin)));
    }
    Ok(plugins)
}

/// Whether a file belongs to the user that runs the program, or to the system's administrator.
#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    std::fs::metadata(path).is_ok_and(|file| file.uid() == user || file.uid() == 0)
}

#[cfg(not(unix))]
fn is_own(_path: &Path) -> bool {
    true
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
    user_path().filter(|path| path.is_file())
}

/// The user's folder of installed plugins, where libraries need no line in a config file.
pub fn plugin_folder() -> Option<PathBuf> {
    Some(dirs::data_dir()?.join("ubique").join("plugins"))
}

/// Where the user's file is, or would be.
pub fn user_path() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("ubique").join(FILE))
}
