//! What the agent must not forget over a restart: the notices it has seen, the drain they started, and what it has told already.
//! One file, replaced as a whole; a notice is in it before anything is done about it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use drain::Drain;
use serde::{Deserialize, Serialize};

use crate::interruption::Notice;

/// Below the machine's root.
const FILE: &str = "var/lib/kerf/journal.json";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
/// Grows when an older agent could not read the file any more.
const VERSION: u32 = 1;

/// The agent's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    version: u32,
    /// The EC2 instance that it is about: images are made from machines that ran.
    pub instance: String,
    /// The boot that it is about: a stopped spot instance comes back with its disk.
    pub boot: Option<String>,
    /// The first spot notice; a later one can only move its deadline forward.
    pub spot: Option<Notice>,
    /// The first rebalance recommendation.
    pub rebalance: Option<Notice>,
    /// The drain that the spot notice started.
    pub drain: Option<Drain>,
    /// The drain's outcome, from the moment that it was over.
    pub outcome: Option<Outcome>,
    /// The cordon on the Node is this agent's own.
    #[serde(default)]
    pub cordoned: bool,
    /// What an earlier boot's interruption left on the Node, until it is cleared away.
    #[serde(default)]
    pub leftover: Option<Leftover>,
    /// Keys of the events that the API server has.
    pub told: BTreeSet<String>,
}

/// A machine that was stopped instead of ended comes back to a Node that still speaks of its interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The cordon is this agent's own, and so is the label that keeps load balancers away.
    pub cordoned: bool,
}

/// How a drain went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Everything that had to go was gone before the deadline.
    pub complete: bool,
    /// Figures, and the names of the pods that were left.
    pub summary: String,
}

/// Why there is no usable journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file system refuses.
    #[error("cannot {action} the journal {}; check the disk and the unit's StateDirectory", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not a journal.
    #[error("the journal {} does not parse; it is replaced", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl Journal {
    /// An empty journal of this instance and boot.
    #[must_use]
    pub fn new(instance: &str, boot: Option<String>) -> Self {
        Self {
            version: VERSION,
            instance: instance.to_owned(),
            boot,
            spot: None,
            rebalance: None,
            drain: None,
            outcome: None,
            cordoned: false,
            leftover: None,
            told: BTreeSet::new(),
        }
    }

    /// Reads the journal below `root`. One of another instance or boot is answered with an empty one, as is a missing file; of the
    /// same instance's last boot it keeps what is to be cleared away.
    ///
    /// # Errors
    /// [`JournalError`] when the file is there but of no use; start with [`Self::new`] then.
    pub fn read(root: &Path, instance: &str) -> Result<Self, JournalError> {
        let boot = boot_id(root);
        let path = root.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::new(instance, boot));
            }
            Err(source) => {
                return Err(JournalError::File { action: "read", path, source });
            }
        };
        let journal: Self = serde_json::from_slice(&text).map_err(|source| JournalError::Content { path, source })?;
        if journal.instance == instance && journal.boot == boot && journal.version <= VERSION {
            return Ok(journal);
        }
        log::info!(instance = journal.instance.as_str(); "the journal is of another machine or boot: starting afresh");
        let mut fresh = Self::new(instance, boot);
        let booted_again = journal.boot != fresh.boot && journal.boot.is_some() && fresh.boot.is_some();
        if journal.instance == instance && booted_again {
            fresh.leftover = journal.left();
        }
        Ok(fresh)
    }

    /// What the Node still says if the machine boots again.
    fn left(&self) -> Option<Leftover> {
        let interrupted = self.spot.is_some() || self.rebalance.is_some() || self.leftover.is_some();
        let cordoned = self.cordoned || self.leftover.is_some_and(|before| before.cordoned);
        interrupted.then_some(Leftover { cordoned })
    }

    /// Replaces the file as a whole, and returns when it is on the disk.
    ///
    /// # Errors
    /// [`JournalError::File`]; the old file is intact then.
    pub fn write(&self, root: &Path) -> Result<(), JournalError> {
        let path = root.join(FILE);
        let written = self.replace(&path);
        written.map_err(|source| JournalError::File { action: "write", path, source })
    }

    fn replace(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let beside = path.with_extension("json.new");
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(folder)?.sync_all()
    }
}

/// The kernel's id of this boot; `None` where the root has no `/proc`.
#[must_use]
pub fn boot_id(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(BOOT_ID)).ok()?;
    Some(text.trim().to_owned())
}
