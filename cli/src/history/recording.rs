//! Recordings of a cluster: files with one line of JSON for each change, compressed with gzip.
//!
//! Each file begins with the whole state, so that a recording can lose its oldest files. A file that was cut is read until its last whole
//! line.

pub(super) mod pseudonyms;
pub(super) mod read;
pub(super) mod slim;
pub(super) mod write;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the format.
const VERSION: u32 = 1;
/// End of the names of the files.
const ENDING: &str = ".jsonl.gz";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    /// First line of a file.
    Begin {
        /// Version of the format.
        version: u32,
        at: Timestamp,
    },
    /// State of an object.
    Set { at: Timestamp, object: Value },
    /// Deletion of an object.
    Gone {
        at: Timestamp,
        #[serde(flatten)]
        key: Key,
    },
    /// All objects of the first state are in the file.
    Complete { at: Timestamp },
    /// Settings of the cluster's controller.
    Controller { at: Timestamp, variables: BTreeMap<String, String> },
    /// Market that the controller publishes: its ConfigMap.
    Market { at: Timestamp, map: Value },
    /// Nothing else changed until now.
    Alive { at: Timestamp },
}

/// Identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Key {
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
}

impl Key {
    pub(super) fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { kind: text("/kind"), namespace: text("/metadata/namespace"), name: text("/metadata/name") }
    }
}

impl Line {
    fn at(&self) -> Timestamp {
        match self {
            Self::Begin { at, .. }
            | Self::Set { at, .. }
            | Self::Gone { at, .. }
            | Self::Complete { at }
            | Self::Controller { at, .. }
            | Self::Market { at, .. }
            | Self::Alive { at } => *at,
        }
    }
}

#[cfg(test)]
mod tests;
