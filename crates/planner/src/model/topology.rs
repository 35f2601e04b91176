//! How pods stand to other pods: who must be near whom, who apart, and how evenly a group is spread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Requirement;

/// A selector of pods or namespaces by their labels: a conjunction; empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Selector(pub Vec<Requirement>);

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The node label whose values are the domains.
    pub key: String,
    /// How many more matching pods a domain may have than the emptiest one; at least 1.
    pub max_skew: u32,
    /// With fewer domains than this the emptiest one counts as empty; `None` is one.
    #[serde(default)]
    pub min_domains: Option<u32>,
    /// Which pods of the pod's own namespace count, `matchLabelKeys` merged in; see [`Spread::counted`].
    pub selector: Option<Selector>,
    /// `DoNotSchedule`; otherwise `ScheduleAnyway`, which is a preference.
    pub hard: bool,
    /// `nodeAffinityPolicy: Honor`: only nodes that the pod's node selector and affinity allow are domains.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: only nodes whose taints the pod tolerates are domains.
    pub honor_taints: bool,
}

/// One term of a pod's affinity or anti-affinity to other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTerm {
    /// The node label whose values are the domains.
    pub key: String,
    /// Which pods are meant, `matchLabelKeys` and `mismatchLabelKeys` merged in; `None` means none.
    pub selector: Option<Selector>,
    /// Namespaces by name; with none here and no selector, the pod's own.
    pub namespaces: Vec<String>,
    /// Namespaces by label, beside the named ones.
    pub namespace_selector: Option<Selector>,
}

/// A term that a pod would like to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodPreference {
    /// How much, 1 to 100.
    pub weight: i32,
    /// The term.
    pub term: PodTerm,
}

impl Selector {
    /// Whether these labels are selected.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|it| super::ValueSet::from_requirement(it).allows(labels.get(&it.key).map(String::as_str)))
    }
}

impl Spread {
    /// Which pods of the pod's own namespace count, if any do: as kube-scheduler has it, an empty selector counts nobody,
    /// so that such a constraint asks for nothing but the node's label.
    #[must_use]
    pub fn counted(&self) -> Option<&Selector> {
        self.selector.as_ref().filter(|selector| !selector.0.is_empty())
    }
}

impl PodTerm {
    /// Whether a pod with this namespace and these labels is meant by the term of a pod in `own` namespace.
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

    /// Whether the term of a pod in `own` namespace looks at pods in `namespace`.
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
