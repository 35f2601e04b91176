//! ConfigMaps for `kerf`, in the namespace of the controller: names, keys and limits of the decision log, and of the controller's
//! view of the market.
//!
//! A ring of ConfigMaps has the records, and a shorter ring the summaries. Each ConfigMap has one segment: lines of JSON,
//! compressed by gzip. The controller replaces the oldest segment, so the names, which RBAC needs, and the size are fixed.

/// Key of the compressed lines in `binaryData`.
pub const LINES: &str = "lines.jsonl.gz";
/// Key of the segment's number in `data`. The numbers grow, so they are also the order of the segments.
pub const NUMBER: &str = "segment";

/// Name of the ConfigMap with the catalogues of instance types that the controller plans with.
pub const MARKET: &str = "kerf-market";
/// Key of the catalogues in `binaryData`: JSON by EC2NodeClass, compressed by gzip.
pub const CATALOGUES: &str = "catalogues.json.gz";
/// Key of the time in `data` at which the catalogues were written.
pub const WRITTEN: &str = "written";

/// Ring of ConfigMaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Beginning of the names.
    pub prefix: &'static str,
    /// Number of ConfigMaps.
    pub size: u64,
}

/// Ring of the decisions.
pub const DECISIONS: Ring = Ring { prefix: "kerf-decisions", size: 12 };
/// Ring of the summaries.
pub const SUMMARIES: Ring = Ring { prefix: "kerf-summaries", size: 4 };

impl Ring {
    /// Returns the name of the ConfigMap for a segment.
    #[must_use]
    pub fn name(self, segment: u64) -> String {
        format!("{}-{}", self.prefix, segment % self.size)
    }

    /// Returns the names of all ConfigMaps.
    pub fn names(self) -> impl Iterator<Item = String> {
        (0..self.size).map(move |position| self.name(position))
    }
}
