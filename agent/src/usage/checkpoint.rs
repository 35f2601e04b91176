//! History on disk, so that a restart keeps the history of several days. Unlike the journal it may be lost. The file is
//! replaced atomically but not synced, because a slow disk must not block the only thread of this process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::history::History;
use crate::host::files::replace;

/// Path of the file, below the machine's root, beside the journal.
const FILE: &str = "var/lib/kerf/usage.json";
/// Version of the format, incremented when an older agent can no longer read the file, or would misread it.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Deserialize)]
struct Read {
    instance: String,
    history: History,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    instance: &'a str,
    history: &'a History,
}

/// Reasons why no history can be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system returned an error.
    #[error("cannot {action} {}; check the disk and the unit's StateDirectory", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The file is no history.
    #[error("invalid file {}; usage is measured again", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
    /// Another version of the agent wrote the file.
    #[error("file {} has another version ({version}); usage is measured again", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        version: u32,
    },
}

/// Reads the history below `root` of this instance; `None` when there is none, or it belongs to another instance (images are
/// made from machines that ran).
///
/// # Errors
/// [`CheckpointError`] when the file exists but is unusable.
pub fn read(root: &Path, instance: &str, now: Timestamp) -> Result<Option<History>, CheckpointError> {
    let path = root.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CheckpointError::File { action: "read", path, source }),
    };
    let content = |source| CheckpointError::Content { path: path.clone(), source };
    let head: Head = serde_json::from_slice(&text).map_err(content)?;
    if head.version != VERSION {
        return Err(CheckpointError::Version { path, version: head.version });
    }
    let mut read: Read = serde_json::from_slice(&text).map_err(content)?;
    if !read.history.fits() {
        return Err(CheckpointError::Version { path, version: head.version });
    }
    read.history.begin_by(now);
    Ok((read.instance == instance).then_some(read.history))
}

/// Replaces the file atomically.
///
/// # Errors
/// [`CheckpointError::File`]; the old file is then intact.
pub fn write(root: &Path, instance: &str, history: &History) -> Result<(), CheckpointError> {
    let path = root.join(FILE);
    let written = Written { version: VERSION, instance, history };
    let replaced = serde_json::to_vec(&written).map_err(io::Error::from).and_then(|text| replace(&path, &text));
    replaced.map_err(|source| CheckpointError::File { action: "write", path, source })
}
