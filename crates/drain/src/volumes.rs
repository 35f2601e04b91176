//! The node's volumes, once its pods are gone: a volume that is still attached when its machine ends cannot be attached elsewhere for
//! minutes.

use serde::{Deserialize, Serialize};

use crate::moment::Millis;

/// What is known of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volumes {
    /// Attached to the node as it was last heard; none before it is.
    pub(crate) attached: Vec<String>,
    /// Since when no pod has been left that has to go.
    pub(crate) emptied: Option<Millis>,
}

impl Volumes {
    /// Whether more are attached than the pods that stay have use for.
    pub(crate) fn exceed(&self, staying: u32) -> bool {
        self.attached.len() > usize::try_from(staying).unwrap_or(usize::MAX)
    }
}
