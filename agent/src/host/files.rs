//! Files of the agent itself, which are replaced atomically, and files of the kernel that are read repeatedly. Modes and mounts
//! of the operating system's files are handled in [`crate::host`].

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of files without secrets.
const OPEN: u32 = 0o644;

/// Replaces a file atomically. The new content need not survive a crash of the machine.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    beside(path, content, OPEN, |draft, _| fs::rename(draft, path))
}

/// Replaces a file atomically, and returns when the new content is on the disk.
pub(crate) fn replace_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    beside(path, content, OPEN, |draft, file| {
        file.sync_all()?;
        fs::rename(draft, path)?;
        File::open(folder(path))?.sync_all()
    })
}

/// Writes the content into a draft beside `path`, and calls `settle` to move the draft into place. No other process uses the
/// name of the draft, and no program reads the draft as configuration. The draft is removed after an error.
pub(crate) fn beside(
    path: &Path,
    content: &[u8],
    mode: u32,
    settle: impl FnOnce(&Path, &File) -> io::Result<()>,
) -> io::Result<()> {
    fs::create_dir_all(folder(path))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder(path).join(format!(".{name}.kerf-{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft)?;
    let settled = file.write_all(content).and_then(|()| settle(&draft, &file));
    if settled.is_err() {
        // A draft that was moved into place before the error no longer exists.
        let _ = fs::remove_file(&draft);
    }
    settled
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// A file that others replace from time to time. A replacement is detected without reading the file.
#[derive(Debug)]
pub(crate) struct FileReplacement {
    path: PathBuf,
    /// Inode, length and modification time at the last check.
    known: Option<Option<[i128; 4]>>,
}

impl FileReplacement {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, known: None }
    }

    /// Reports whether the file differs from the last check, or was never checked.
    pub(crate) fn is_new(&mut self) -> bool {
        let found = fs::metadata(&self.path).ok();
        let found = found.map(|it| [it.ino().into(), it.len().into(), it.mtime().into(), it.mtime_nsec().into()]);
        let known = self.known.replace(found);
        known != self.known
    }
}

/// A file that may exist, and that remains open between two reads.
#[derive(Debug)]
pub(crate) struct FileBackup {
    path: PathBuf,
    file: Option<File>,
}

impl FileBackup {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Returns the result of `fill`; `None` when the file cannot be read. A file that was created again in between, such as one
    /// of a cgroup, is opened again by its path.
    pub(crate) fn read<T>(&mut self, mut fill: impl FnMut(&File) -> Option<T>) -> Option<T> {
        let kept = self.file.take().and_then(|file| Some((fill(&file)?, file)));
        let (content, file) = kept.or_else(|| {
            let file = File::open(&self.path).ok()?;
            Some((fill(&file)?, file))
        })?;
        self.file = Some(file);
        Some(content)
    }

    /// Closes the file until the next read.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_new_returns_true_once_after_each_replacement() {
        let folder = std::env::temp_dir().join(format!("kerf-files-{}", std::process::id()));
        let path = folder.join("state.json");
        let mut file = FileReplacement::new(path.clone());
        assert!(file.is_new() && !file.is_new(), "that there is none is said once");
        for content in ["one", "two"] {
            assert!(replace(&path, content.as_bytes()).is_ok());
            assert!(file.is_new() && !file.is_new(), "{content}");
        }
        assert!(fs::remove_dir_all(&folder).is_ok());
        assert!(file.is_new());
    }
}
