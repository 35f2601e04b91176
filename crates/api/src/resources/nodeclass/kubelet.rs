//! Settings of kubelet in an EC2NodeClass.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::resources::schema_rules::{cel_rule, values};
use crate::units::duration::DurationText;
use crate::units::quantity::{PATTERN, Quantity};

/// Settings of kubelet, with kubelet's own names. Absent settings have the defaults of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    cel_rule(
        "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent) ? self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
        "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
    ),
    cel_rule(
        "has(self.evictionSoft) ? self.evictionSoft.all(e, has(self.evictionSoftGracePeriod) && e in self.evictionSoftGracePeriod) : true",
        "every key of evictionSoft must have a matching evictionSoftGracePeriod",
    ),
    cel_rule(
        "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e, has(self.evictionSoft) && e in self.evictionSoft) : true",
        "every key of evictionSoftGracePeriod must have a matching evictionSoft",
    ),
]))]
pub struct KubeletConfiguration {
    /// IP addresses of the cluster DNS service.
    #[serde(default, rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<String>>,
    /// Maximum number of pods on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub max_pods: Option<i32>,
    /// Maximum number of pods on a node for each vCPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub pods_per_core: Option<i32>,
    /// Resources that are reserved for the operating system: cpu, memory, ephemeral-storage, pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = reserved_rules("systemReserved")), transform = values(quantity_text()))]
    pub system_reserved: Option<BTreeMap<String, Quantity>>,
    /// Resources that are reserved for kubelet and the container runtime: cpu, memory, ephemeral-storage, pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = reserved_rules("kubeReserved")), transform = values(quantity_text()))]
    pub kube_reserved: Option<BTreeMap<String, Quantity>>,
    /// Eviction signals and thresholds at which pods are evicted at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [signal_rule("evictionHard")]), transform = values(threshold()))]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Eviction signals and thresholds at which pods are evicted after a grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [signal_rule("evictionSoft")]), transform = values(threshold()))]
    pub eviction_soft: Option<BTreeMap<String, String>>,
    /// Grace periods of the soft eviction thresholds, by signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [signal_rule("evictionSoftGracePeriod")]))]
    pub eviction_soft_grace_period: Option<BTreeMap<String, DurationText>>,
    /// Maximum grace period in seconds of a pod that is evicted at a soft threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Percentage of disk usage above which images are always garbage-collected.
    #[serde(default, rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 100))]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Percentage of disk usage below which images are never garbage-collected.
    #[serde(default, rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 100))]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// True if CPU limits are enforced by CFS quota.
    #[serde(default, rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

/// Returns the rules of a table of reserved resources.
fn reserved_rules(field: &str) -> [Value; 2] {
    [
        cel_rule(
            "self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",
            format!("valid keys for {field} are ['cpu','memory','ephemeral-storage','pid']"),
        ),
        cel_rule(
            "self.all(x, !self[x].startsWith('-'))",
            format!("{field} value cannot be a negative resource quantity"),
        ),
    ]
}

/// Returns the keywords of reserved amounts. Karpenter reads them as text. An integer, which Karpenter could not read, is
/// therefore refused here too.
fn quantity_text() -> Value {
    json!({ "type": "string", "pattern": PATTERN, "anyOf": null, "x-kubernetes-int-or-string": null })
}

fn signal_rule(field: &str) -> Value {
    const SIGNALS: &str = "['memory.available','nodefs.available','nodefs.inodesFree','imagefs.available','imagefs.inodesFree','pid.available']";
    cel_rule(format!("self.all(x, x in {SIGNALS})"), format!("valid keys for {field} are {SIGNALS}"))
}

/// Returns the keywords of eviction thresholds: a percentage or a quantity.
fn threshold() -> Value {
    let quantity = PATTERN.trim_start_matches('^').trim_end_matches('$');
    json!({ "pattern": format!(r"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%||{quantity})$") })
}
