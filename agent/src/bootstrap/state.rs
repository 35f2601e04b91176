//! State of bootstrap, in a file. Bootstrap has no credentials for the API server, so `kerf-agent run` reports the state to the
//! cluster once the API server answers.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::{Host, HostError};

/// The file, on tmpfs.
pub const PATH: &str = "/run/kerf/bootstrap.json";

/// State of bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BootstrapState {
    /// A prerequisite is missing; bootstrap retries.
    Waiting {
        /// One sentence: the obstacle and its remedy.
        reason: String,
        /// Time at which the reason was new.
        since: Timestamp,
    },
    /// The user data is invalid, so only a user can correct it; bootstrap reads it again and retries.
    Failed {
        /// One sentence: the error, its place and its remedy.
        reason: String,
        /// Time at which the reason was new.
        since: Timestamp,
    },
    /// Files are written and units are started.
    Done {
        /// The name that kubelet registers.
        node_name: String,
        /// Time at which bootstrap finished.
        since: Timestamp,
    },
}

impl Display for BootstrapState {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { reason, since } => write!(out, "waiting since {since}: {reason}"),
            Self::Failed { reason, since } => write!(out, "failed since {since}: {reason}"),
            Self::Done { node_name, since } => write!(out, "done at {since}, as {node_name}"),
        }
    }
}

impl BootstrapState {
    /// Returns the path of the file below `root`.
    #[must_use]
    pub fn file(root: &Path) -> PathBuf {
        root.join(PATH.trim_start_matches('/'))
    }

    /// Reads the state below `root`; `None` before bootstrap has written the file, or when the file is invalid.
    #[must_use]
    pub fn read(root: &Path) -> Option<Self> {
        let text = fs::read(Self::file(root)).ok()?;
        machine::document::read_json(&text).ok()
    }

    /// Writes the state.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn write(&self, host: &Host) -> Result<(), HostError> {
        let content = serde_json::to_vec(self).unwrap_or_default();
        host.write(PATH, &content, 0o644).map(|_| ())
    }
}
