//! Volumes of the node after its pods have left. A volume that is still attached when its instance terminates cannot be
//! attached to another instance for minutes.

use serde::{Deserialize, Serialize};

use crate::moment::Millis;

/// Known state of the volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volumes {
    /// Volumes attached to the node, as of the last update; empty before the first update.
    pub(crate) attached: Vec<String>,
    /// Time since which no pod is left that must leave.
    pub(crate) emptied: Option<Millis>,
}

impl Volumes {
    /// Reports whether more volumes are attached than the remaining pods use.
    pub(crate) fn exceed(&self, staying: u32) -> bool {
        self.attached.len() > usize::try_from(staying).unwrap_or(usize::MAX)
    }
}
