//! Writes a file whole or not at all, so that a crash or a full disk never leaves half a checkpoint under its name.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use ubique_core::{Error, Result};

/// Gives `fill` a writer, and puts what it wrote under `path` in one step, replacing what was there.
///
/// The bytes go to a temporary file in the same directory, are flushed to the disk, and then renamed. Where anything
/// fails, `path` is as before and the temporary file is removed. A symbolic link is followed; a device or pipe
/// (`/dev/stdout`) is written to directly.
///
/// # Errors
/// Whatever `fill` returns, and any failure of the file system; the message begins with `path`.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    try_write(path, fill).map_err(|e| Error::io(format_args!("{}: cannot write", path.display()), e))
}

fn try_write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(io::Error::other("it is a directory")),
        Ok(meta) if !meta.is_file() => fill_and_flush(&OpenOptions::new().write(true).open(path)?, fill),
        Ok(meta) => replace(&fs::canonicalize(path)?, Some(&meta), fill),
        Err(error) if error.kind() == ErrorKind::NotFound => replace(path, None, fill),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, old: Option<&Metadata>, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?.to_string_lossy();
    let dir = directory_of(path);
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{name}.");
    builder.prefix(&prefix).suffix(".tmp");
    let default = default_permissions();
    if let Some(permissions) = old.map(Metadata::permissions).or(default) {
        builder.permissions(permissions);
    }
    let temporary = builder.tempfile_in(&dir)?;
    fill_and_flush(temporary.as_file(), fill)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|failure| failure.error)?;
    sync_directory(&dir)
}

fn fill_and_flush(file: &File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    fill(&mut writer)?;
    writer.flush()
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// What a new file usually gets (less the umask); temporary files are the owner's alone otherwise.
#[cfg(unix)]
fn default_permissions() -> Option<fs::Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(fs::Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn default_permissions() -> Option<fs::Permissions> {
    None
}

/// Makes the rename itself survive a power cut.
#[cfg(unix)]
fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_dir: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, bytes: &'static [u8]) -> Result<()> {
        write(path, |out| out.write_all(bytes))
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn creates_and_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.bin");
        put(&path, b"one").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        put(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(dir.path()), ["model.bin"]);
    }

    #[test]
    fn a_failure_keeps_the_old_file_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.bin");
        put(&path, b"good").unwrap();
        let error = write(&path, |out| {
            out.write_all(&[0; 100_000])?;
            Err(io::Error::other("out of ideas"))
        })
        .unwrap_err();
        assert_eq!(error.to_string(), format!("{}: cannot write: out of ideas", path.display()));
        assert_eq!(fs::read(&path).unwrap(), b"good");
        assert_eq!(names(dir.path()), ["model.bin"]);
    }

    #[test]
    fn a_panic_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.bin");
        let panicked = std::panic::catch_unwind(|| write(&path, |_| panic!("as the test wants")));
        assert!(panicked.is_err());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn names_a_path_that_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().join("no/such/dir/file"), dir.path().to_path_buf(), PathBuf::from("")] {
            let error = put(&path, b"x").unwrap_err();
            assert!(error.to_string().starts_with(&format!("{}: cannot write: ", path.display())), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn follows_links_keeps_permissions_and_writes_to_devices() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("real"), dir.path().join("link"));
        put(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real", &link).unwrap();
        put(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);

        put(Path::new("/dev/null"), b"gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
