//! NodeUsage (`kerf.sh/v1alpha1`): measured utilization of one node, written by its agent. The object has no desired state.
//! Like a Lease it has only a `spec`, which is written with one request. Every agent may write one object, so each field is
//! bounded.

use jiff::Timestamp;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::ser::Error;
use serde::{Deserialize, Serialize, Serializer};

use super::schema_rules::cel_rule;
use crate::units::quantity::Quantity;

/// Pattern of base64 for URLs.
const BASE64: &str = "^[A-Za-z0-9_-]*$";

/// Utilization of a node. Percentiles cover all history, in which the weight of a sample halves every 24 hours.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kerf.sh",
    version = "v1alpha1",
    kind = "NodeUsage",
    plural = "nodeusages",
    category = "kerf",
    derive = "PartialEq",
    doc = "Measured utilization of the node with the same name, written by its agent.",
    printcolumn = r#"{"name":"CPU-P95","type":"string","jsonPath":".spec.cpu.p95"}"#,
    printcolumn = r#"{"name":"Memory-P95","type":"string","jsonPath":".spec.memory.p95"}"#,
    printcolumn = r#"{"name":"OOM-Kills","type":"integer","jsonPath":".spec.oomKills"}"#,
    printcolumn = r#"{"name":"Measured","type":"date","jsonPath":".spec.measuredAt"}"#,
    printcolumn = r#"{"name":"Since","type":"date","jsonPath":".spec.since","priority":1}"#,
    printcolumn = r#"{"name":"CPU-Waits","type":"integer","jsonPath":".spec.pressure.cpu","priority":1}"#,
    printcolumn = r#"{"name":"Memory-Waits","type":"integer","jsonPath":".spec.pressure.memory","priority":1}"#,
    printcolumn = r#"{"name":"IO-Waits","type":"integer","jsonPath":".spec.pressure.io","priority":1}"#,
    printcolumn = r#"{"name":"Instance","type":"string","jsonPath":".spec.instance","priority":1}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    // The spec has one owner. Without `atomic`, `managedFields` would take a third of the object.
    "x-kubernetes-map-type" = "atomic",
    "x-kubernetes-validations" = [cel_rule("self.since <= self.measuredAt", "'since' may not be after 'measuredAt'")],
))]
pub struct NodeUsageSpec {
    /// Id of the EC2 instance. A later instance may have a node with the same name.
    #[schemars(extend("pattern" = "^i-[0-9a-f]{1,32}$", "maxLength" = 34))]
    pub instance: String,
    /// Time of the measurement, by the clock of the instance.
    #[serde(serialize_with = "to_the_second")]
    pub measured_at: Time,
    /// Start of the history.
    #[serde(serialize_with = "to_the_second")]
    pub since: Time,
    /// Used CPU.
    pub cpu: Figures,
    /// Working set: used memory without memory that the kernel can reclaim at once.
    pub memory: Figures,
    /// Stalls of processes. Absent if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// Thousandths of CPU quota periods in which containers were throttled, in the worst five minutes of the last hour.
    #[schemars(extend("minimum" = 0, "maximum" = 1000, "format" = null))]
    pub throttled: u16,
    /// Number of processes that the kernel OOM-killed within 24 hours.
    #[schemars(extend("minimum" = 0, "format" = null))]
    pub oom_kills: u32,
    /// Histograms that can be merged, in the encoding of Kerf's crate `api`.
    pub histograms: Histograms,
    /// Utilization of the node's pods, in the encoding of Kerf's crate `api`.
    #[schemars(extend("pattern" = BASE64, "maxLength" = 16_384))]
    pub pods: String,
}

/// Serializes a time as Kubernetes does, in whole seconds. Kubernetes' own type would add a formatter for every calendar to the
/// agent's binary.
fn to_the_second<S: Serializer>(moment: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = Timestamp::from_second(moment.0.as_second()).map_err(S::Error::custom)?;
    whole.serialize(serializer)
}

/// Figures of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Median: not exceeded half of the time.
    pub p50: Quantity,
    /// 95th percentile: not exceeded 95 % of the time.
    pub p95: Quantity,
    /// 99th percentile: not exceeded 99 % of the time.
    pub p99: Quantity,
    /// Maximum sample of 5 minutes.
    pub peak5m: Quantity,
    /// Maximum sample of an hour.
    pub peak1h: Quantity,
    /// Maximum sample of 24 hours.
    pub peak24h: Quantity,
}

/// Thousandths of the time in which processes stalled, in the worst five minutes of the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// Some process waited for a CPU.
    #[schemars(extend("minimum" = 0, "maximum" = 1000, "format" = null))]
    pub cpu: u16,
    /// Some process waited for memory.
    #[schemars(extend("minimum" = 0, "maximum" = 1000, "format" = null))]
    pub memory: u16,
    /// All processes waited for memory.
    #[schemars(extend("minimum" = 0, "maximum" = 1000, "format" = null))]
    pub memory_full: u16,
    /// Some process waited for a disk.
    #[schemars(extend("minimum" = 0, "maximum" = 1000, "format" = null))]
    pub io: u16,
    /// All processes waited for a disk.
    #[schemars(extend("minimum" = 0, "maximum" = 1000, "format" = null))]
    pub io_full: u16,
}

/// Histograms of the node: [`crate::usage::Histogram`] and [`crate::usage::Joint`] as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Histograms {
    /// Histogram of CPU in nanocores.
    #[schemars(extend("pattern" = BASE64, "maxLength" = 1024))]
    pub cpu: String,
    /// Histogram of the working set in bytes.
    #[schemars(extend("pattern" = BASE64, "maxLength" = 1024))]
    pub memory: String,
    /// Joint histogram of CPU and memory, as shares of the node.
    #[schemars(extend("pattern" = BASE64, "maxLength" = 1024))]
    pub joint: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn to_the_second_serializes_whole_seconds() {
        #[derive(Serialize)]
        struct Moment(#[serde(serialize_with = "to_the_second")] Time);
        let written = |text: &str| serde_json::to_value(Moment(Time(text.parse().unwrap()))).unwrap();
        for (moment, expected) in [
            ("2026-11-22T10:00:00Z", "2026-11-22T10:00:00Z"),
            ("2026-11-22T10:00:59.999999999Z", "2026-11-22T10:00:59Z"),
            ("2026-11-22T11:00:00+01:00", "2026-11-22T10:00:00Z"),
        ] {
            assert_eq!(written(moment), json!(expected));
            assert_eq!(written(moment), serde_json::to_value(Time(moment.parse().unwrap())).unwrap());
        }
    }
}
