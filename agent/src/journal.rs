//! What the agent must not forget over a restart: the notices it has seen, the drain they started, and what it has reported already.
//! One file, replaced as a whole; a notice is in it before anything is done about it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use drain::{Drain, Millis};
use machine::document::{Fault, read_json};
use serde::{Deserialize, Serialize};

use crate::files::replace_durably;
use crate::notices::NoticeStore;

/// Below the machine's root.
pub(crate) const FILE: &str = "var/lib/kerf/journal.json";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
/// Grows when an older agent could not read the file any more.
const VERSION: u32 = 2;

/// The agent's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    version: u32,
    /// The EC2 instance that it is about: images are made from machines that ran.
    pub instance: String,
    /// The boot that it is about: a stopped spot instance comes back with its disk.
    pub boot: Option<String>,
    /// What was announced.
    #[serde(default)]
    pub notices: NoticeStore,
    /// Why the node is emptied.
    #[serde(default)]
    pub order: Option<OrderRecord>,
    /// What someone asks for by the Node's annotation.
    #[serde(default)]
    pub asked: Option<drain::DrainOrder>,
    /// The drain that follows the order.
    pub drain: Option<Drain>,
    /// The drain's outcome, from the moment that it was over.
    pub outcome: Option<DrainOutcome>,
    /// The Auto Scaling group's notice whose lifecycle hook is completed.
    #[serde(default)]
    pub completed: Option<String>,
    /// What on the Node is this agent's own; written before it is done.
    #[serde(default)]
    pub ours: OwnedMarks,
    /// What an interruption that is over left on the Node, until it is cleared away.
    #[serde(default)]
    pub leftover: Option<OwnedMarks>,
    /// The moment 0 of the agent's clock, in milliseconds of Unix time, less the machine's time since it booted: deadlines survive a
    /// restart even if someone sets the clock.
    #[serde(default)]
    pub anchor: Option<i64>,
    /// Keys of the events that the API server has.
    pub told: BTreeSet<String>,
}

/// Marks on the Node that this agent made and nobody else: what there is to take back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnedMarks {
    /// The cordon.
    pub cordoned: bool,
    /// The label that keeps load balancers away.
    pub excluded: bool,
    /// The annotation with the deadline.
    pub dated: bool,
    /// The condition that tells of the interruption.
    pub said: bool,
}

impl OwnedMarks {
    /// The marks of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            cordoned: self.cordoned || other.cordoned,
            excluded: self.excluded || other.excluded,
            dated: self.dated || other.dated,
            said: self.said || other.said,
        }
    }

    /// The marks that the other has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self {
            cordoned: self.cordoned && !other.cordoned,
            excluded: self.excluded && !other.excluded,
            dated: self.dated && !other.dated,
            said: self.said && !other.said,
        }
    }
}

/// Why the node is emptied, and by when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// The same order has the same id over restarts.
    pub id: String,
    /// The condition's and the event's reason.
    pub reason: String,
    /// In a few words, such as `EC2 takes this spot instance back (terminate)`.
    pub why: String,
    /// When the machine may be gone.
    pub deadline: Option<Millis>,
    /// When pods must be gone, whatever their budgets say.
    pub forced: Option<Millis>,
}

/// How a drain went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainOutcome {
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
    #[error("invalid journal {}, replacing it", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Fault,
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
            notices: NoticeStore::default(),
            order: None,
            asked: None,
            drain: None,
            outcome: None,
            completed: None,
            ours: OwnedMarks::default(),
            leftover: None,
            anchor: None,
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
        match fs::read(&path) {
            Ok(text) => {
                let journal = Self::parse(&text).map_err(|source| JournalError::Content { path, source })?;
                Ok(journal.carried_on(instance, boot))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::new(instance, boot)),
            Err(source) => Err(JournalError::File { action: "read", path, source }),
        }
    }

    /// Reads the content of a journal's file, of whatever machine it is.
    ///
    /// # Errors
    /// When it is no journal.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        read_json(text)
    }

    /// The journal for this instance and boot: itself, or a fresh one with what is left to do of an earlier boot.
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

    /// The journal below `root` as it lies there, for those who only look; `None` without one that can be read.
    #[must_use]
    pub fn peek(root: &Path) -> Option<Self> {
        Self::parse(&fs::read(root.join(FILE)).ok()?).ok()
    }

    /// What the Node still says if the machine boots again.
    fn left(&self) -> Option<OwnedMarks> {
        let left = self.ours.with(self.leftover.unwrap_or_default());
        (left != OwnedMarks::default()).then_some(left)
    }

    /// Replaces the file as a whole, and returns when it is on the disk.
    ///
    /// # Errors
    /// [`JournalError::File`]; the old file is intact then.
    pub fn write(&self, root: &Path) -> Result<(), JournalError> {
        let path = root.join(FILE);
        let written = serde_json::to_vec(self).map_err(io::Error::from).and_then(|text| replace_durably(&path, &text));
        written.map_err(|source| JournalError::File { action: "write", path, source })
    }
}

/// The kernel's id of this boot; `None` where the root has no `/proc`.
#[must_use]
pub fn boot_id(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(BOOT_ID)).ok()?;
    Some(text.trim().to_owned())
}
