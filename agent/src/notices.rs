//! What may end or interrupt this machine: what its sources say ([`Reading`]), and what is remembered of it ([`Ledger`]).

mod maintenance;
mod store;
mod watch;

use std::time::Duration;

use drain::Millis;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use maintenance::{Maintenance, MaintenanceState, parse_maintenance};
pub use store::{NoticeAction, NoticeResponse, NoticeState, NoticeStore, NoticeTerms, StoredNotice};
pub use watch::{Item, Reachability, WatchUpdate, Watcher, watch};

/// What a source says now. The same said twice changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeReading {
    /// What.
    pub said: NoticeValue,
    /// What EC2's clock said with it, if it did.
    pub heard: Option<Millis>,
}

/// The sources' words. That a source says nothing (404) or fails is no word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeValue {
    /// EC2 takes the spot instance back at `time`, by EC2's clock.
    Spot {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
        /// When.
        time: Millis,
    },
    /// The spot instance is at elevated risk since `time`.
    Rebalance {
        /// Since when.
        time: Millis,
    },
    /// All maintenance that is scheduled.
    Maintenance(Vec<Maintenance>),
    /// The state that the Auto Scaling group wants the machine in.
    Scaling(String),
    /// The operating system goes down, and waits for us so long; `None` calls it off.
    Shutdown(Option<Duration>),
}

/// An announcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Of which kind.
    pub kind: ImdsNoticeKind,
    /// Its identity follows from its content: the same notice, read twice or after a restart, is one.
    pub id: String,
    /// By EC2's clock: when the machine is taken, when the window opens, or when it was announced.
    pub time: Millis,
}

/// Kinds of announcements, the least urgent first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImdsNoticeKind {
    /// The spot instance is at elevated risk.
    Rebalance,
    /// EC2 is going to touch the machine.
    Maintenance {
        /// `instance-reboot`, `system-reboot`, `system-maintenance`, `instance-stop` or `instance-retirement`.
        code: String,
        /// When the window closes, by EC2's clock.
        until: Option<Millis>,
    },
    /// The Auto Scaling group lets the machine go.
    Scaling,
    /// The operating system goes down.
    Shutdown,
    /// The spot instance is taken back at the notice's time.
    Spot {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
    },
}

impl ImdsNoticeKind {
    /// Of two the higher one leads.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Rebalance => 0,
            Self::Maintenance { .. } => 1,
            Self::Scaling => 2,
            Self::Shutdown => 3,
            Self::Spot { .. } => 4,
        }
    }

    /// In a word, as EC2 says it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Rebalance => "rebalance",
            Self::Maintenance { code, .. } => code,
            Self::Scaling => "autoscaling",
            Self::Shutdown => "shutdown",
            Self::Spot { action } => action,
        }
    }
}

/// A timestamp as a drain's moment; before 1970 is 1970.
#[must_use]
pub fn moment(time: Timestamp) -> Millis {
    Millis(u64::try_from(time.as_millisecond()).unwrap_or(0))
}
