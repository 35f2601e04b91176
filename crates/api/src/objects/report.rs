//! NodeUsages in the controller's index, parsed into numbers once when they arrive.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::meta::slim;
use crate::resources::nodeusage::NodeUsageSpec;
use crate::usage::Usage;

/// Utilization of a node as its agent reported it. Parsing fails with the name of the field if the report is invalid.
#[derive(Resource, Clone, Debug, PartialEq, Deserialize)]
#[resource(inherit = "crate::NodeUsage", crates(kube_core = "::kube_core"))]
pub struct NodeReport {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Parsed utilization.
    #[serde(rename = "spec", deserialize_with = "read")]
    pub usage: Usage,
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usage, D::Error> {
    let spec = NodeUsageSpec::deserialize(deserializer)?;
    Usage::read(&spec).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        D::Error::custom(format!("{error}{cause}"))
    })
}
