//! List of the node's pods: whether the drain has one, and whether it needs a new one.

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::tracked_pod::SHOWS_WITHIN;

/// Phase of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPhase {
    /// No list since the start or the restart. The driver passes the first one without a request.
    Initial,
    /// The list is current.
    Current,
    /// A new list must be requested. `known` tells that there is an older one.
    Needed { known: bool },
    /// A new list is requested and has not arrived.
    Requested { known: bool },
}

/// State of the list. A journal has the phase as three booleans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PodListRecord", into = "PodListRecord")]
pub(super) struct PodList {
    phase: ListPhase,
    /// Time at which a new list was last requested.
    requested_at: Millis,
}

impl PodList {
    pub(super) fn new(now: Millis) -> Self {
        Self { phase: ListPhase::Initial, requested_at: now }
    }

    /// Returns the time at which a new list was last requested.
    pub(super) fn requested_at(&self) -> Millis {
        self.requested_at
    }

    /// Reports whether a list has arrived since the start or the restart.
    pub(super) fn is_known(&self) -> bool {
        match self.phase {
            ListPhase::Initial => false,
            ListPhase::Current => true,
            ListPhase::Needed { known } | ListPhase::Requested { known } => known,
        }
    }

    /// Reports whether no new list is needed.
    pub(super) fn is_current(&self) -> bool {
        self.phase == ListPhase::Current
    }

    /// Reports whether a new list must be requested.
    pub(super) fn is_needed(&self) -> bool {
        matches!(self.phase, ListPhase::Needed { .. })
    }

    /// Reports whether a requested list has not arrived.
    pub(super) fn is_requested(&self) -> bool {
        matches!(self.phase, ListPhase::Requested { .. })
    }

    /// Returns the time at which a requested list is overdue.
    pub(super) fn overdue_at(&self) -> Option<Millis> {
        self.is_requested().then(|| self.requested_at + SHOWS_WITHIN)
    }

    /// Returns to the start: lists from before a restart do not count.
    pub(super) fn reset(&mut self) {
        self.phase = ListPhase::Initial;
    }

    /// Records that a list has arrived.
    pub(super) fn receive(&mut self) {
        self.phase = ListPhase::Current;
    }

    /// Records that a new list is needed.
    pub(super) fn need(&mut self) {
        self.phase = ListPhase::Needed { known: self.is_known() };
    }

    /// Records the request of a needed list. Returns whether one was needed.
    pub(super) fn request(&mut self, now: Millis) -> bool {
        let ListPhase::Needed { known } = self.phase else {
            return false;
        };
        (self.phase, self.requested_at) = (ListPhase::Requested { known }, now);
        true
    }
}

/// The list in a journal.
#[derive(Serialize, Deserialize)]
struct PodListRecord {
    listed: bool,
    relist: bool,
    listing: bool,
    relisted: Millis,
}

impl From<PodListRecord> for PodList {
    fn from(record: PodListRecord) -> Self {
        let phase = match record {
            PodListRecord { listed: known, relist: true, .. } => ListPhase::Needed { known },
            PodListRecord { listed: known, listing: true, .. } => ListPhase::Requested { known },
            PodListRecord { listed: true, .. } => ListPhase::Current,
            PodListRecord { listed: false, .. } => ListPhase::Initial,
        };
        Self { phase, requested_at: record.relisted }
    }
}

impl From<PodList> for PodListRecord {
    fn from(list: PodList) -> Self {
        Self {
            listed: list.is_known(),
            relist: list.is_needed(),
            listing: list.is_requested(),
            relisted: list.requested_at,
        }
    }
}
