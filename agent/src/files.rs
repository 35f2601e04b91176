//! Files of the agent's own, kept so that nobody ever reads half of one, and files of the kernel's that are read again and again.
//! What is particular about the operating system's files, their modes and mounts, is [`crate::host`]'s.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The mode of files that hold no secrets.
const OPEN: u32 = 0o644;

/// Replaces a file as a whole; it need not survive a crash of the machine.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    beside(path, content, OPEN, |draft, _| fs::rename(draft, path))
}

/// Replaces a file as a whole, and returns when it is on the disk.
pub(crate) fn replace_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    beside(path, content, OPEN, |draft, file| {
        file.sync_all()?;
        fs::rename(draft, path)?;
        File::open(folder(path))?.sync_all()
    })
}

/// Writes the content beside its place, under a name that no other process uses and that nobody takes for configuration, and has
/// `settle` bring it there. A draft that does not come so far goes again.
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
        // What came to its place before the error is no draft any more.
        let _ = fs::remove_file(&draft);
    }
    settled
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// A file that others replace now and then, which is seen without reading it.
#[derive(Debug)]
pub(crate) struct FileReplacement {
    path: PathBuf,
    /// Inode, length and time of the file that was there at the last look.
    known: Option<Option<[i128; 4]>>,
}

impl FileReplacement {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, known: None }
    }

    /// Whether it differs from that of the last look, or nobody has looked yet.
    pub(crate) fn is_new(&mut self) -> bool {
        let found = fs::metadata(&self.path).ok();
        let found = found.map(|it| [it.ino().into(), it.len().into(), it.mtime().into(), it.mtime_nsec().into()]);
        let known = self.known.replace(found);
        known != self.known
    }
}

/// A file that may be there, and that stays open between two looks.
#[derive(Debug)]
pub(crate) struct FileBackup {
    path: PathBuf,
    file: Option<File>,
}

impl FileBackup {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// What `fill` makes of it; `None` when it cannot be read. What was made anew since, as a cgroup is, is found again by its path.
    pub(crate) fn read<T>(&mut self, mut fill: impl FnMut(&File) -> Option<T>) -> Option<T> {
        let kept = self.file.take().and_then(|file| Some((fill(&file)?, file)));
        let (content, file) = kept.or_else(|| {
            let file = File::open(&self.path).ok()?;
            Some((fill(&file)?, file))
        })?;
        self.file = Some(file);
        Some(content)
    }

    /// Closes it until the next look.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_new_until_it_was_looked_at_and_whenever_it_was_replaced() {
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
