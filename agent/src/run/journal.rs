//! State that must survive a restart of the agent: its notices, the drain that they started, and its published reports. The
//! state is one file, which is replaced atomically. A notice is in the file before the agent acts on it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use drain::{Drain, Millis};
use machine::document::{Fault, read_json};
use serde::{Deserialize, Serialize};

use crate::host::files::replace_durably;
use crate::notices::NoticeStore;

/// Path of the file, below the machine's root.
pub(crate) const FILE: &str = "var/lib/kerf/journal.json";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
/// Version of the format, incremented when an older agent can no longer read the file.
const VERSION: u32 = 4;

/// Persistent state of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    version: u32,
    /// EC2 instance of this state: an image may be made from a machine that ran.
    pub instance: String,
    /// Boot of this state: a stopped spot instance starts again with its disk.
    pub boot: Option<String>,
    /// Notices of EC2.
    #[serde(default)]
    pub notices: NoticeStore,
    /// The current order to drain the node.
    #[serde(default)]
    pub order: Option<OrderRecord>,
    /// The drain that the Node's annotation requests.
    #[serde(default)]
    pub asked: Option<drain::DrainOrder>,
    /// The drain that carries out the order.
    pub drain: Option<Drain>,
    /// Outcome of the drain, from its end on.
    pub outcome: Option<DrainOutcome>,
    /// The Auto Scaling group's notice whose lifecycle hook is completed.
    #[serde(default)]
    pub completed: Option<String>,
    /// Marks on the Node that belong to this agent; written before they are made.
    #[serde(default)]
    pub ours: OwnedMarks,
    /// Marks on the Node from an interruption that is over, until they are removed.
    #[serde(default)]
    pub leftover: Option<OwnedMarks>,
    /// Time 0 of the agent's clock: milliseconds of Unix time, minus the time since the machine booted. Deadlines therefore
    /// survive a restart even if the clock is set.
    #[serde(default)]
    pub anchor: Option<i64>,
    /// Keys of the events that the API server has.
    #[serde(default)]
    pub published_events: BTreeSet<String>,
}

/// Marks on the Node that this agent made itself and must remove again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnedMarks {
    /// The cordon.
    pub cordoned: bool,
    /// The label that excludes the node from load balancers.
    pub excluded: bool,
    /// The annotation with the deadline.
    pub dated: bool,
    /// The condition that reports the interruption.
    #[serde(rename = "said")]
    pub reported: bool,
}

impl OwnedMarks {
    /// Returns the union of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            cordoned: self.cordoned || other.cordoned,
            excluded: self.excluded || other.excluded,
            dated: self.dated || other.dated,
            reported: self.reported || other.reported,
        }
    }

    /// Returns the marks that `other` does not have.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            cordoned: self.cordoned && !other.cordoned,
            excluded: self.excluded && !other.excluded,
            dated: self.dated && !other.dated,
            reported: self.reported && !other.reported,
        }
    }
}

/// Reason and deadline of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// Id of the order, which survives restarts.
    pub id: String,
    /// Reason in the condition and in the event.
    pub reason: String,
    /// Short description, such as `EC2 takes this spot instance back (terminate)`.
    pub why: String,
    /// Earliest time at which the machine may be terminated.
    pub deadline: Option<Millis>,
    /// Time by which pods must be gone, regardless of their PodDisruptionBudgets.
    pub forced: Option<Millis>,
}

/// Outcome of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainOutcome {
    /// Set when all pods of the drain were gone before the deadline.
    pub complete: bool,
    /// Numbers, and the names of the remaining pods.
    pub summary: String,
}

/// Reasons why no usable journal exists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file system returned an error.
    #[error("cannot {action} the journal {}; check the disk and the unit's StateDirectory", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The file is not a journal.
    #[error("invalid journal {}, replacing it", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Fault,
    },
}

impl Journal {
    /// Returns an empty journal of this instance and boot.
    #[must_use]
    pub fn new(instance: &str, boot: Option<String>) -> Self {
        Self {
            version: VERSION,
            instance: instance.to_owned(),
            boot,
            notices: NoticeStore::default(),
            order: None,
            asked: None,
            drain: None,
            outcome: None,
            completed: None,
            ours: OwnedMarks::default(),
            leftover: None,
            anchor: None,
            published_events: BTreeSet::new(),
        }
    }

    /// Reads the journal below `root`. Returns an empty journal for a missing file, and for one of another instance or boot.
    /// After a reboot of the same instance, the new journal keeps the marks that must be removed.
    ///
    /// # Errors
    /// [`JournalError`] when the file exists but is unusable; the caller then starts with [`Self::new`].
    pub fn read(root: &Path, instance: &str) -> Result<Self, JournalError> {
        let boot = boot_id(root);
        let path = root.join(FILE);
        match fs::read(&path) {
            Ok(text) => {
                let journal = Self::parse(&text).map_err(|source| JournalError::Content { path, source })?;
                Ok(journal.carried_on(instance, boot))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::new(instance, boot)),
            Err(source) => Err(JournalError::File { action: "read", path, source }),
        }
    }

    /// Parses the content of a journal's file, of any machine.
    ///
    /// # Errors
    /// The content is no journal.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        read_json(text)
    }

    /// Returns the journal for this instance and boot: itself, or a new one with the remaining work of an earlier boot.
    #[must_use]
    pub fn carried_on(self, instance: &str, boot: Option<String>) -> Self {
        if self.instance == instance && self.boot == boot && self.version <= VERSION {
            return self;
        }
        log::info!(
            instance_id = self.instance.as_str();
            "the journal belongs to another instance or boot, starting a new one"
        );
        let mut fresh = Self::new(instance, boot);
        let booted_again = self.boot != fresh.boot && self.boot.is_some() && fresh.boot.is_some();
        if self.instance == instance && booted_again {
            fresh.leftover = self.left();
            fresh.notices = self.notices.rebooted();
        }
        fresh
    }

    /// Reads the journal below `root` unchanged, for readers that do not act on it; `None` when there is no readable journal.
    #[must_use]
    pub fn peek(root: &Path) -> Option<Self> {
        Self::parse(&fs::read(root.join(FILE)).ok()?).ok()
    }

    /// Returns the marks that remain on the Node after a reboot.
    fn left(&self) -> Option<OwnedMarks> {
        let left = self.ours.with(self.leftover.unwrap_or_default());
        (left != OwnedMarks::default()).then_some(left)
    }

    /// Replaces the file atomically, and returns when it is on the disk.
    ///
    /// # Errors
    /// [`JournalError::File`]; the old file is then intact.
    pub fn write(&self, root: &Path) -> Result<(), JournalError> {
        let path = root.join(FILE);
        let written = serde_json::to_vec(self).map_err(io::Error::from).and_then(|text| replace_durably(&path, &text));
        written.map_err(|source| JournalError::File { action: "write", path, source })
    }
}

/// Returns the kernel's id of this boot; `None` where the root has no `/proc`.
#[must_use]
pub fn boot_id(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(BOOT_ID)).ok()?;
    Some(text.trim().to_owned())
}
