//! Affinity of pods: node affinity, pod affinity and pod anti-affinity.

use serde::{Deserialize, Serialize};

use super::meta::nullable;
use super::selector::LabelSelector;
use crate::resources::requirement::Requirement;

/// Affinity of a pod to nodes and to other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Affinity to nodes by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// Affinity to other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    /// Anti-affinity to other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// Affinity of a pod to nodes by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// Requirements at the scheduling of the pod.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
    /// Preferences, by weight.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// Alternative terms, of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// Alternative terms.
    #[serde(deserialize_with = "nullable")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all match. A term without requirements selects no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
    /// Requirements on fields. Kubernetes supports only `metadata.name`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<Requirement>,
}

/// Preference of a pod for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredSchedulingTerm {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// Preferred nodes.
    pub preference: NodeSelectorTerm,
}

/// Affinity or anti-affinity of a pod to other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinity {
    /// Terms that must all hold at the scheduling of the pod.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required: Vec<PodAffinityTerm>,
    /// Preferences, by weight.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// Selector of pods, and the topology key of their domains.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Selected pods. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Namespaces of the selected pods, in addition to those of the namespace selector.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Selector of the namespaces of the selected pods. Empty: all. Without this selector and without `namespaces`: the
    /// namespace of the pod itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Node label. Nodes with the same value form one domain.
    pub topology_key: String,
    /// Label keys of the pod itself. Selected pods must have the same values.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
    /// Label keys of the pod itself. Selected pods must not have the same values.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub mismatch_label_keys: Vec<String>,
}

/// Preference of a pod for or against domains with selected pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// Term of the preference.
    pub pod_affinity_term: PodAffinityTerm,
}
