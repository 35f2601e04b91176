//! PriorityClasses, with the fields that Kerf uses: the priority of pods that did not come from an API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use crate::objects::meta::slim;

/// PriorityClass.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::scheduling::v1::PriorityClass", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Priority of its pods; a greater number is a higher priority.
    pub value: i32,
    /// True if this class is the default of pods without a class. Of several default classes the one with the least value
    /// counts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub global_default: bool,
    /// Permission of its pods to preempt others; absent means that they may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<PreemptionPolicy>,
}

/// Permission of a pod to preempt pods of lower priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PreemptionPolicy {
    /// The pod preempts pods of lower priority.
    #[default]
    PreemptLowerPriority,
    /// The pod preempts no pods.
    Never,
}

/// Priority that a class gives to its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// Number of the priority.
    pub value: i32,
    /// Permission to preempt.
    pub preemption_policy: PreemptionPolicy,
}

impl From<&PriorityClass> for Priority {
    fn from(class: &PriorityClass) -> Self {
        Self { value: class.value, preemption_policy: class.preemption_policy.unwrap_or_default() }
    }
}

/// Classes that every cluster has, by name.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Returns the priority of a pod from the name of its class. An empty name means no class. Returns `None` if the class does not
/// exist.
#[must_use]
pub fn priority_of<'a>(name: &str, classes: impl IntoIterator<Item = &'a PriorityClass>) -> Option<Priority> {
    let mut classes = classes.into_iter();
    if name.is_empty() {
        let defaults = classes.filter(|class| class.global_default);
        return Some(defaults.min_by_key(|class| class.value).map(Priority::from).unwrap_or_default());
    }
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
    let named = |class: &&PriorityClass| class.metadata.name.as_deref() == Some(name);
    built_in
        .map(|(_, value)| Priority { value: *value, ..Priority::default() })
        .or_else(|| classes.find(named).map(Priority::from))
}
