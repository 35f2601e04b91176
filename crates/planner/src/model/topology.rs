//! Inter-pod constraints: affinity, anti-affinity and topology spread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Requirement;

/// Selector of pods or namespaces by their labels: a conjunction; empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Selector(pub Vec<Requirement>);

/// Topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// Node label whose values are the domains.
    pub key: String,
    /// Maximum difference to the domain with the fewest matching pods; at least 1.
    pub max_skew: u32,
    /// Minimum number of domains: with fewer, the global minimum counts as 0; `None` is one.
    #[serde(default)]
    pub min_domains: Option<u32>,
    /// Selector of the counted pods in the pod's own namespace, `matchLabelKeys` merged in; see [`Spread::counted`].
    pub selector: Option<Selector>,
    /// `DoNotSchedule`; otherwise `ScheduleAnyway`, which is a preference.
    pub hard: bool,
    /// `nodeAffinityPolicy: Honor`: only nodes that the pod's node selector and affinity allow are domains.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: only nodes whose taints the pod tolerates are domains.
    pub honor_taints: bool,
}

/// Term of a pod's affinity or anti-affinity to other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTerm {
    /// Node label whose values are the domains.
    pub key: String,
    /// Selector of the pods, `matchLabelKeys` and `mismatchLabelKeys` merged in; `None` selects no pod.
    pub selector: Option<Selector>,
    /// Namespaces by name; without names and a selector, the pod's own namespace applies.
    pub namespaces: Vec<String>,
    /// Namespaces by label, in addition to the named ones.
    pub namespace_selector: Option<Selector>,
}

/// Preferred term.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodPreference {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// Preferred affinity or anti-affinity term.
    pub term: PodTerm,
}

impl Spread {
    /// Reports whether the constraint is a preference for separate hosts.
    #[must_use]
    pub fn prefers_separate_hosts(&self) -> bool {
        !self.hard && self.key == super::label::HOSTNAME
    }
}

impl Selector {
    /// Reports whether these labels are selected.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|it| super::ValueSet::from_requirement(it).allows(labels.get(&it.key).map(String::as_str)))
    }
}

impl Spread {
    /// Returns the selector of the counted pods, if any count. As in kube-scheduler, an empty selector counts no pod; such a
    /// constraint requires only the node's label.
    #[must_use]
    pub fn counted(&self) -> Option<&Selector> {
        self.selector.as_ref().filter(|selector| !selector.0.is_empty())
    }
}

impl PodTerm {
    /// Reports whether the term of a pod in namespace `own` selects a pod with this namespace and these labels.
    #[must_use]
    pub fn means(
        &self,
        own: &str,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        namespaces: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> bool {
        self.selector.as_ref().is_some_and(|it| it.selects(labels)) && self.covers(own, namespace, namespaces)
    }

    /// Reports whether the term of a pod in namespace `own` applies to pods in `namespace`.
    #[must_use]
    pub fn covers(&self, own: &str, namespace: &str, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
        let unlabelled = BTreeMap::new();
        let labels = namespaces.get(namespace).unwrap_or(&unlabelled);
        match &self.namespace_selector {
            None if self.namespaces.is_empty() => namespace == own,
            None => self.namespaces.iter().any(|it| it == namespace),
            Some(selector) => self.namespaces.iter().any(|it| it == namespace) || selector.selects(labels),
        }
    }
}
