//! Volumes of the node after its pods have left. A volume that is still attached when its instance terminates cannot be
//! attached to another instance for minutes.

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::settings::Settings;

/// Known state of the volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Volumes {
    /// Volumes attached to the node, as of the last update; empty before the first update.
    pub(super) attached: Vec<String>,
    /// Time since which no pod is left that must leave.
    emptied: Option<Millis>,
}

impl Volumes {
    /// Reports whether more volumes are attached than the remaining pods use.
    pub(super) fn exceed(&self, claims: u32) -> bool {
        self.attached.len() > usize::try_from(claims).unwrap_or(usize::MAX)
    }

    /// Records whether the node is empty, and since when.
    pub(super) fn record_empty(&mut self, is_empty: bool, now: Millis) {
        self.emptied = self.emptied.or(Some(now)).filter(|_| is_empty);
    }

    /// Returns the time until which the drain waits for volumes; `None` while pods are left.
    pub(super) fn detach_deadline(&self, settings: &Settings) -> Option<Millis> {
        let patience = self.emptied? + settings.detach;
        Some(settings.deadline.map_or(patience, |deadline| patience.min(deadline)))
    }
}
