//! Detail of the exported series: sums by NodePool, condition and workload, or each node, pod and object as in Karpenter.

use std::str::FromStr;

use daemon::metric::Description;

use super::definitions::conditions::{ConditionLabels, Conditions};
use super::definitions::detailed;

/// Resources of sums. Each further resource would be a label value.
const SUMMED_RESOURCES: [&str; 5] = ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"];
/// Maximum number of pods whose wait is reported beside sums, per metric.
const REPORTED_PODS: usize = 10;
/// Maximum number of instance types that are reported beside sums.
const REPORTED_TYPES: usize = 10;

/// Detail of the exported series. It decides about labels and limits; the values come from the same code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricsDetail {
    /// Sums by NodePool, condition and workload. Their number hardly depends on the size of the cluster.
    #[default]
    Aggregated,
    /// Karpenter's series of each node, pod and object, with all of Karpenter's labels.
    Karpenter,
}

impl FromStr for MetricsDetail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "aggregated" => Ok(Self::Aggregated),
            "karpenter" => Ok(Self::Karpenter),
            _ => Err(format!("{text:?} is not a valid detail of metrics: write aggregated or karpenter")),
        }
    }
}

impl MetricsDetail {
    /// Returns the description of every exported metric.
    #[must_use]
    pub fn table(self) -> Vec<Description> {
        let mut table = super::table();
        if self == Self::Karpenter {
            let detailed = detailed::descriptions();
            for metric in &mut table {
                *metric = detailed.iter().find(|other| other.name == metric.name).copied().unwrap_or(*metric);
            }
            table.extend_from_slice(detailed::RUNNING_PLAN_METRICS);
        }
        table
    }

    /// Returns the labels of gauges of nodes, without the resource.
    pub(super) const fn node_labels(self) -> &'static [&'static str] {
        match self {
            Self::Aggregated => &["nodepool"],
            Self::Karpenter => &detailed::NODE_LABELS,
        }
    }

    /// Returns the labels of the gauge of pods.
    pub(super) const fn pod_labels(self) -> &'static [&'static str] {
        match self {
            Self::Aggregated => &["nodepool", "phase", "scheduled", "ready"],
            Self::Karpenter => detailed::POD_LABELS,
        }
    }

    /// Returns the labels of metrics of conditions.
    pub(super) const fn condition_labels(self, conditions: &Conditions) -> ConditionLabels {
        match self {
            Self::Aggregated => conditions.aggregated_labels(),
            Self::Karpenter => conditions.object_labels(),
        }
    }

    /// Reports whether gauges of nodes include a node of this NodePool; empty for other nodes.
    pub(super) const fn includes_node_of(self, pool: &str) -> bool {
        matches!(self, Self::Karpenter) || !pool.is_empty()
    }

    /// Reports whether a resource is reported.
    pub(super) fn includes_resource(self, name: &str) -> bool {
        self == Self::Karpenter || SUMMED_RESOURCES.contains(&name)
    }

    /// Returns the maximum number of pods whose wait is reported, per metric.
    pub(super) const fn most_pods(self) -> usize {
        match self {
            Self::Aggregated => REPORTED_PODS,
            Self::Karpenter => usize::MAX,
        }
    }

    /// Returns the maximum number of reported instance types. Sums report only types in use.
    pub(super) const fn most_types(self) -> usize {
        match self {
            Self::Aggregated => REPORTED_TYPES,
            Self::Karpenter => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MetricsDetail;

    #[test]
    fn from_str_names_valid_details_when_text_is_wrong() {
        assert_eq!("aggregated".parse(), Ok(MetricsDetail::default()));
        assert_eq!("karpenter".parse(), Ok(MetricsDetail::Karpenter));
        let error = "full".parse::<MetricsDetail>().err().unwrap_or_default();
        assert!(error.contains("write aggregated or karpenter"), "{error}");
    }

    #[test]
    fn table_of_each_detail_has_unique_names() {
        for detail in [MetricsDetail::Aggregated, MetricsDetail::Karpenter] {
            let mut names: Vec<&str> = detail.table().iter().map(|metric| metric.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{detail:?}");
        }
    }
}
