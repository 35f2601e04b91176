//! Where bootstrap stands, in a file: `kerf-agent run` tells the cluster about it once the API answers, since bootstrap
//! itself has no credentials for that.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::{Host, HostError};

/// The file, on tmpfs.
pub const PATH: &str = "/run/kerf/bootstrap.json";

/// Where bootstrap stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BootstrapState {
    /// Something is not there yet; it is tried again.
    Waiting {
        /// One sentence: what, and the cure.
        reason: String,
        /// When the reason was new.
        since: Timestamp,
    },
    /// What the machine received cannot be followed, which only people can change; it is read and tried again.
    Failed {
        /// One sentence: what, where, and the cure.
        reason: String,
        /// When the reason was new.
        since: Timestamp,
    },
    /// Files are written and units started.
    Done {
        /// The name that kubelet registers.
        node_name: String,
        /// When.
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
    /// Where it is below `root`.
    #[must_use]
    pub fn file(root: &Path) -> PathBuf {
        root.join(PATH.trim_start_matches('/'))
    }

    /// Reads the state below `root`; `None` before bootstrap has said anything, or while the file makes no sense.
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
