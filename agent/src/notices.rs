//! Notices of an interruption or the end of this machine: the current readings of their sources ([`NoticeReading`]), and the
//! notices of this boot ([`NoticeStore`]).

pub mod logind;
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

/// Current reading of a source. A repeated reading changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeReading {
    /// Value of the source.
    pub value: NoticeValue,
    /// Time of EC2's clock in the response, if any.
    pub date: Option<Millis>,
}

/// Values of sources. A source without a notice (404) or with an error has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeValue {
    /// EC2 interrupts the spot instance at `time`, by EC2's clock.
    Spot {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
        /// Time of the interruption.
        time: Millis,
    },
    /// The spot instance is at elevated risk since `time`.
    Rebalance {
        /// Start of the elevated risk.
        time: Millis,
    },
    /// All scheduled maintenance.
    Maintenance(Vec<Maintenance>),
    /// Target lifecycle state of the machine in its Auto Scaling group.
    Scaling(String),
    /// The operating system shuts down, and waits this long for the agent; `None` cancels the shutdown or reboot.
    Shutdown(Option<Duration>),
    /// The operating system reboots, and waits this long for the agent.
    Reboot(Duration),
}

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Kind of the notice.
    pub kind: ImdsNoticeKind,
    /// Id, derived from the content: a notice that is read again, even after a restart, is the same notice.
    pub id: String,
    /// Time by EC2's clock: of the interruption, of the start of the maintenance window, or of the notice.
    pub time: Millis,
}

/// Kinds of notices, the least urgent first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImdsNoticeKind {
    /// The spot instance is at elevated risk.
    Rebalance,
    /// EC2 has scheduled maintenance of the machine.
    Maintenance {
        /// `instance-reboot`, `system-reboot`, `system-maintenance`, `instance-stop` or `instance-retirement`.
        code: String,
        /// End of the maintenance window, by EC2's clock.
        until: Option<Millis>,
    },
    /// The Auto Scaling group terminates the machine.
    Scaling,
    /// The operating system shuts down.
    Shutdown,
    /// The operating system reboots.
    Reboot,
    /// EC2 interrupts the spot instance at the notice's time.
    Spot {
        /// `terminate`, `stop` or `hibernate`.
        action: String,
    },
}

impl ImdsNoticeKind {
    /// Returns the urgency. Of two notices the one with the higher rank leads.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Maintenance { .. } if self.is_reboot() => 0,
            Self::Reboot => 1,
            Self::Rebalance => 2,
            Self::Maintenance { .. } => 3,
            Self::Scaling => 4,
            Self::Shutdown => 5,
            Self::Spot { .. } => 6,
        }
    }

    /// Reports whether the instance returns by itself, with the same Node.
    #[must_use]
    pub fn is_reboot(&self) -> bool {
        match self {
            Self::Reboot => true,
            Self::Maintenance { code, .. } => code.ends_with("-reboot"),
            _ => false,
        }
    }

    /// Returns the name that EC2 uses.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Rebalance => "rebalance",
            Self::Maintenance { code, .. } => code,
            Self::Scaling => "autoscaling",
            Self::Shutdown => "shutdown",
            Self::Reboot => "reboot",
            Self::Spot { action } => action,
        }
    }
}

/// Converts a timestamp to milliseconds; a time before 1970 becomes 1970.
#[must_use]
pub fn moment(time: Timestamp) -> Millis {
    Millis(u64::try_from(time.as_millisecond()).unwrap_or(0))
}
