//! Decision log: what the controller decided, when, why and at what price. The controller writes the records, and `kerf log` and
//! `kerf report` read them.

pub mod money;
pub mod storage;
mod summary;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use summary::{CommandTotals, Durations, NewFleet, NodeHours, Summary};

use crate::timeline::StartStage;

/// Maximum number of names in a list of a record.
const NAMES: usize = 256;

/// Kind of a decision, or of an event that the controller reacted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DecisionKind {
    /// A NodeClaim was created.
    Created,
    /// EC2 launched the instance of a NodeClaim.
    Launched,
    /// The node of a NodeClaim may receive pods.
    Initialized,
    /// EC2 did not launch the instances of NodeClaims.
    LaunchFailed,
    /// Pods have no place, for a new reason.
    Unschedulable,
    /// A disruption command started.
    Disrupting,
    /// The NodeClaims of a disruption command were deleted.
    Disrupted,
    /// A disruption command was rolled back, and its nodes stay.
    RolledBack,
    /// Nodes stay, for a new reason.
    Kept,
    /// EC2 announced the end of an instance.
    Interrupted,
    /// The controller only observes: otherwise it would create a NodeClaim.
    WouldCreate,
    /// The controller only observes: otherwise it would start a disruption command.
    WouldDisrupt,
    /// Kind of a newer version.
    #[serde(other)]
    Unknown,
}

impl DecisionKind {
    /// Returns the kind in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Launched => "launched",
            Self::Initialized => "initialized",
            Self::LaunchFailed => "launch failed",
            Self::Unschedulable => "unschedulable",
            Self::Disrupting => "disrupting",
            Self::Disrupted => "disrupted",
            Self::RolledBack => "rolled back",
            Self::Kept => "kept",
            Self::Interrupted => "interrupted",
            Self::WouldCreate => "would create",
            Self::WouldDisrupt => "would disrupt",
            Self::Unknown => "unknown",
        }
    }
}

/// Names of objects: at most 256 of them, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Number of objects.
    pub count: usize,
    /// Names of the first objects; `namespace/name` for pods.
    pub names: Vec<String>,
}

impl Names {
    /// Reports whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the first names as text, and the number of the others.
    #[must_use]
    pub fn listed(&self, most: usize) -> String {
        let shown = self.names.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.count.saturating_sub(most) {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }

    /// Reports whether the list contains the name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

impl<S: Into<String>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(all: I) -> Self {
        let mut names = Self::default();
        for name in all {
            names.count += 1;
            if names.names.len() < NAMES {
                names.names.push(name.into());
            }
        }
        names
    }
}

/// Instance that EC2 launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchedInstance {
    /// Id, such as `i-0123456789abcdef0`.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Availability zone.
    pub zone: String,
    /// Capacity type.
    pub capacity_type: String,
}

/// Record of one decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Time of the decision.
    pub time: Timestamp,
    /// Kind.
    pub kind: DecisionKind,
    /// Reason, as in events and conditions.
    pub reason: String,
    /// Reason as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// NodePools of the nodes.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub nodepools: Names,
    /// NodeClaims.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub nodeclaims: Names,
    /// Nodes.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub nodes: Names,
    /// Pods that the decision places or moves.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub pods: Names,
    /// NodeClaims that replace the nodes.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub replacements: Names,
    /// Launched instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<LaunchedInstance>,
    /// Stages of the node's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StartStage>,
    /// Instance types that the launch may use, the cheapest first.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub instance_types: Names,
    /// Price of the nodes in micro-dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "money")]
    pub price_per_hour: Option<i64>,
    /// Expected savings in micro-dollars per hour: negative where the replacements cost more.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "money")]
    pub saving_per_hour: Option<i64>,
}

impl Decision {
    /// Creates a record without objects and prices.
    #[must_use]
    pub fn new(time: Timestamp, kind: DecisionKind, reason: impl Into<String>) -> Self {
        Self {
            time,
            kind,
            reason: reason.into(),
            message: String::new(),
            nodepools: Names::default(),
            nodeclaims: Names::default(),
            nodes: Names::default(),
            pods: Names::default(),
            replacements: Names::default(),
            instance: None,
            stages: Vec::new(),
            instance_types: Names::default(),
            price_per_hour: None,
            saving_per_hour: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, DecisionKind, Names};
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn decision_has_prices_as_dollars_and_no_empty_fields() {
        let decision = Decision {
            saving_per_hour: Some(-1_500_000),
            pods: ["shop/web"].into_iter().collect(),
            ..Decision::new(Timestamp::UNIX_EPOCH, DecisionKind::RolledBack, "Drifted")
        };
        let text = serde_json::to_value(&decision).unwrap();
        let expected = json!({
            "time": "1970-01-01T00:00:00Z", "kind": "rolledBack", "reason": "Drifted",
            "pods": {"count": 1, "names": ["shop/web"]}, "savingPerHour": "-1.5",
        });
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_value::<Decision>(text).unwrap(), decision);
    }

    #[test]
    fn decision_of_a_newer_version_is_unknown() {
        let text = r#"{"time": "2026-11-28T12:00:00Z", "kind": "hibernated", "reason": "Night", "watts": 3}"#;
        assert_eq!(serde_json::from_str::<Decision>(text).unwrap().kind, DecisionKind::Unknown);
    }

    #[test]
    fn names_counts_what_it_leaves_out() {
        let names: Names = (0..300).map(|number| format!("pod-{number}")).collect();
        assert_eq!((names.count, names.names.len()), (300, 256));
        assert!(names.contains("pod-255") && !names.contains("pod-256"));
        assert_eq!(
            (names.listed(2), names.listed(256).contains(" and 44 more")),
            ("pod-0, pod-1 and 298 more".to_owned(), true)
        );
    }
}
