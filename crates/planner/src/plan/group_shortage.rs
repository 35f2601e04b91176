//! Reason why a pod group gets no place.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::UnschedulableReason;

/// Pod group that does not get the places that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupShortage {
    /// Name of the group, `namespace/name`.
    pub group: String,
    /// Number of pods that the group needs.
    pub least: u32,
    /// Number of its pods that run, or could get a place.
    pub placed: u32,
    /// Number of its pods that exist.
    pub existing: u32,
    /// Reason why the NodePool takes no further pod; `None` if too few pods exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Box<UnschedulableReason>>,
}

impl Display for GroupShortage {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { group, least, placed, existing, nearest } = self;
        match nearest {
            Some(nearest) => {
                write!(out, "{nearest}; pod group {group} has a place for {placed} of {least} pods, so none gets one")
            }
            None => write!(out, "pod group {group} has {existing} of {least} pods, so none gets a place yet"),
        }
    }
}
