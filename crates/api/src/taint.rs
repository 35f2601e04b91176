//! Taints: their wire form, every taint key once, and which taints vanish by themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On a Node from its bootstrap until its claim is registered; effect [`NO_EXECUTE`].
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// On a Node that is being emptied; effect [`NO_SCHEDULE`].
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// On a Node from its registration until the agent's gates are true; effect [`NO_EXECUTE`], and [`NO_SCHEDULE`] for a moment while it
/// is lifted.
pub const AGENT_NOT_READY: &str = "kerf.sh/agent-not-ready";
/// Set by the node controller on Nodes that are not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Set by the node controller on Nodes that it has not heard of.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Set by kubelet until the cloud controller has seen the Node; value `true`.
pub const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Set by `kubectl cordon`.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Prefix of the readiness controller's taints.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Effect: new pods stay away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect: new pods stay away where there is another place.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Effect: new pods stay away and running ones are evicted.
pub const NO_EXECUTE: &str = "NoExecute";
/// The three effects.
pub const EFFECTS: [&str; 3] = [NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE];

/// A taint, as Nodes, pools and claims carry it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Qualified name of the taint.
    #[serde(default)]
    pub key: String,
    /// Value that a toleration may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What happens to pods that do not tolerate the taint.
    #[serde(default)]
    pub effect: String,
    /// RFC 3339 instant at which the taint was added; kept as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

impl Taint {
    /// A taint without value.
    #[must_use]
    pub fn new(key: &str, effect: &str) -> Self {
        Self { key: key.to_owned(), effect: effect.to_owned(), ..Self::default() }
    }

    /// Whether both name the same taint: key and effect, as Kubernetes compares them.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// The value, empty when absent.
    #[must_use]
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

/// Whether the taint belongs to a Node's start and goes by itself, so that a Node that is not yet
/// initialized is counted as if it were not there.
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
    fn ephemeral_taints() {
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
