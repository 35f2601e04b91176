//! NodeUsage (`kerf.sh/v1alpha1`): what one machine really uses, as its agent saw it. Nobody wishes anything by it, so like a
//! Lease it has only a `spec`, written in one request.

use jiff::Timestamp;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::ser::Error;
use serde::{Deserialize, Serialize, Serializer};

use crate::Quantity;

/// What a machine uses. Percentiles are of all history, in which what was seen counts half as much after 24 hours.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kerf.sh",
    version = "v1alpha1",
    kind = "NodeUsage",
    plural = "nodeusages",
    category = "kerf",
    derive = "PartialEq",
    doc = "Measured utilization of the node with the same name, written by its agent.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsageSpec {
    /// The EC2 instance: names of nodes come back with other machines.
    pub instance: String,
    /// When it was measured, by the machine's clock.
    #[serde(serialize_with = "to_the_second")]
    pub measured_at: Time,
    /// Since when there is history behind it.
    #[serde(serialize_with = "to_the_second")]
    pub since: Time,
    /// CPU in use.
    pub cpu: Figures,
    /// Working set: memory in use without what the kernel can drop at once.
    pub memory: Figures,
    /// How long processes waited; absent where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// Thousandths of the periods of their CPU quota in which containers were throttled, in the worst five minutes of the last hour.
    pub throttled: u16,
    /// Processes that the kernel killed for want of memory within 24 hours.
    pub oom_kills: u32,
    /// Histograms that can be merged, in the form of Kerf's crate `api`.
    pub histograms: Histograms,
    /// The node's pods, in the form of Kerf's crate `api`.
    pub pods: String,
}

/// As Kubernetes writes a moment. Its own type for that brings a formatter for every calendar into the agent.
fn to_the_second<S: Serializer>(moment: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = Timestamp::from_second(moment.0.as_second()).map_err(S::Error::custom)?;
    whole.serialize(serializer)
}

/// Figures of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Not exceeded half of the time.
    pub p50: Quantity,
    /// Not exceeded 95 % of the time.
    pub p95: Quantity,
    /// Not exceeded 99 % of the time.
    pub p99: Quantity,
    /// The highest sample of 5 minutes.
    pub peak5m: Quantity,
    /// The highest sample of an hour.
    pub peak1h: Quantity,
    /// The highest sample of 24 hours.
    pub peak24h: Quantity,
}

/// Thousandths of the time in which processes waited, in the worst five minutes of the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// Some process waited for a CPU.
    pub cpu: u16,
    /// Some process waited for memory.
    pub memory: u16,
    /// All processes waited for memory.
    pub memory_full: u16,
    /// Some process waited for a disk.
    pub io: u16,
    /// All processes waited for a disk.
    pub io_full: u16,
}

/// Histograms of the machine: [`crate::usage::Histogram`] and [`crate::usage::Joint`] as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Histograms {
    /// CPU in nanocores.
    pub cpu: String,
    /// Working set in bytes.
    pub memory: String,
    /// CPU and memory at the same time, as shares of the machine.
    pub joint: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn moments_are_written_as_kubernetes_writes_them() {
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
