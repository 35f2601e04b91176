//! History on the disk, so that a restart does not forget what took days to learn. It may be lost, unlike the journal: so it is
//! replaced as a whole but never waited for, because the one thread of this process must not hang on a slow disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::history::History;
use crate::files::replace;

/// Below the machine's root, beside the journal.
const FILE: &str = "var/lib/kerf/usage.json";
/// Grows when an older agent could not read the file any more, or would misread it.
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

/// Why there is no history to carry on from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refuses.
    #[error("cannot {action} {}; check the disk and the unit's StateDirectory", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is no history.
    #[error("invalid file {}; usage is measured again", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Another version of the agent wrote it.
    #[error("file {} has another version ({version}); usage is measured again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// The history below `root` of this instance; `None` when there is none, or another instance's (images are made from machines
/// that ran).
///
/// # Errors
/// [`CheckpointError`] when there is a file that is of no use.
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

/// Replaces the file as a whole.
///
/// # Errors
/// [`CheckpointError::File`]; the old file is intact then.
pub fn write(root: &Path, instance: &str, history: &History) -> Result<(), CheckpointError> {
    let path = root.join(FILE);
    let written = Written { version: VERSION, instance, history };
    let replaced = serde_json::to_vec(&written).map_err(io::Error::from).and_then(|text| replace(&path, &text));
    replaced.map_err(|source| CheckpointError::File { action: "write", path, source })
}
