//! Description of an EKS cluster.

use serde::{Deserialize, Serialize};

/// An EKS cluster: its name in other services, and the values that a node needs to join it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterDescription {
    /// ARN of the cluster.
    pub arn: String,
    /// Kubernetes minor version, such as `1.36`.
    pub version: String,
    /// URL of the API server; empty while the cluster is being created.
    pub endpoint: String,
    /// Base64 of the PEM certificates of the API server's CA; empty while the cluster is being created.
    pub ca: String,
    /// Service CIDR: the IPv6 range in an IPv6 cluster, else the IPv4 range.
    pub service_cidr: String,
}
