//! Taints: their type, all taint keys, and the taints that disappear during a node's start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema_rules::QUALIFIED_NAME;

/// Taint of a Node from its bootstrap until the registration of its NodeClaim; effect [`NO_EXECUTE`].
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// Taint of a Node that is being drained; effect [`NO_SCHEDULE`].
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Taint of a Node from its registration until all gates of the agent are open; effect [`NO_EXECUTE`], and briefly
/// [`NO_SCHEDULE`] during its removal.
pub const AGENT_NOT_READY: &str = "kerf.sh/agent-not-ready";
/// Taint of the node controller for Nodes that are not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of the node controller for Nodes that do not report their status.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Taint of kubelet until the cloud controller has initialized the Node; value `true`.
pub const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint of `kubectl cordon`.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Prefix of the readiness controller's taints.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Effect that keeps new pods from the node.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect that keeps new pods from the node if they fit on another one.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Effect that keeps new pods from the node and evicts running pods.
pub const NO_EXECUTE: &str = "NoExecute";
/// All three effects.
pub const EFFECTS: [&str; 3] = [NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE];
/// Pattern of the values of taints: a qualified name or an empty text.
const VALUE: &str = r"^(([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// Taint of a Node, NodePool or NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Qualified name of the taint.
    #[serde(default)]
    #[schemars(!default, extend("minLength" = 1, "pattern" = QUALIFIED_NAME))]
    pub key: String,
    /// Value that a toleration may require.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = VALUE))]
    pub value: Option<String>,
    /// Effect on pods that do not tolerate the taint.
    #[serde(default)]
    #[schemars(!default, extend("enum" = EFFECTS))]
    pub effect: String,
    /// Time at which the taint was added, in RFC 3339. Kept as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub time_added: Option<String>,
}

impl Taint {
    /// Creates a taint without a value.
    #[must_use]
    pub fn new(key: &str, effect: &str) -> Self {
        Self { key: key.to_owned(), effect: effect.to_owned(), ..Self::default() }
    }

    /// Reports whether both are the same taint: key and effect are compared, as in Kubernetes.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// Returns the value, empty if absent.
    #[must_use]
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

/// Reports whether the taint belongs to a Node's start and disappears by itself. Scheduling to a Node that is not initialized
/// ignores such a taint.
#[must_use]
pub fn is_known_ephemeral(taint: &Taint) -> bool {
    match (taint.key.as_str(), taint.effect.as_str()) {
        (NOT_READY, NO_SCHEDULE | NO_EXECUTE)
        | (UNREACHABLE, NO_SCHEDULE)
        | (UNREGISTERED, NO_EXECUTE)
        | (AGENT_NOT_READY, NO_EXECUTE | NO_SCHEDULE) => true,
        (CLOUD_UNINITIALIZED, NO_SCHEDULE) => taint.value() == "true",
        (key, _) => key.starts_with(READINESS_PREFIX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_known_ephemeral_matches_startup_taints() {
        let uninitialized = Taint { value: Some("true".to_owned()), ..Taint::new(CLOUD_UNINITIALIZED, NO_SCHEDULE) };
        let rows = [
            (Taint::new(NOT_READY, NO_SCHEDULE), true),
            (Taint::new(NOT_READY, NO_EXECUTE), true),
            (Taint::new(UNREACHABLE, NO_SCHEDULE), true),
            (Taint::new(UNREACHABLE, NO_EXECUTE), false),
            (Taint::new(CLOUD_UNINITIALIZED, NO_SCHEDULE), false),
            (uninitialized, true),
            (Taint::new(UNREGISTERED, NO_EXECUTE), true),
            (Taint::new(AGENT_NOT_READY, NO_EXECUTE), true),
            (Taint::new(AGENT_NOT_READY, NO_SCHEDULE), true),
            (Taint::new("readiness.k8s.io/cni", NO_SCHEDULE), true),
            (Taint::new(DISRUPTED, NO_SCHEDULE), false),
            (Taint::new("team", NO_SCHEDULE), false),
        ];
        for (taint, expected) in rows {
            assert_eq!(is_known_ephemeral(&taint), expected, "{taint:?}");
        }
    }
}
