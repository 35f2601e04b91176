//! Observations while a cluster is followed.

use serde_json::Value;

/// Observation of the cluster.
#[cfg_attr(not(feature = "live"), expect(dead_code, reason = "without a client nothing is observed"))]
#[derive(Debug)]
pub enum Seen {
    /// All objects of a kind.
    List(&'static str, Vec<Value>),
    /// State of an object.
    Set(Value),
    /// Object that was deleted, in its last state.
    Gone(Value),
    /// A list or watch failed and is tried again.
    Trouble(String),
    /// A second passed.
    Nothing,
}

impl Seen {
    /// Reports whether it is the state or the deletion of one object of this kind.
    pub fn is_of(&self, kind: &str) -> bool {
        matches!(self, Self::Set(object) | Self::Gone(object) if object["kind"] == kind)
    }
}
