//! What EKS says of a cluster.

use serde::{Deserialize, Serialize};

/// A cluster of EKS: what a node must know to join it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterDescription {
    /// Kubernetes minor version, such as `1.36`.
    pub version: String,
    /// URL of the API server; empty while the cluster is being created.
    pub endpoint: String,
    /// Base64 of the PEM certificates that the API server is known by; empty while the cluster is being created.
    pub ca: String,
    /// Where services get their addresses from: the IPv6 range in an IPv6 cluster, else the IPv4 range.
    pub service_cidr: String,
}
