//! What Kerf is told about the cluster and itself, as far as buying machines depends on it (aws 8.1).

/// The settings behind instance types and launches; one value a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `CLUSTER_NAME`.
    pub cluster_name: String,
    /// URL of the API server as nodes reach it.
    pub cluster_endpoint: String,
    /// Base64 of the cluster's CA bundle (PEM).
    pub cluster_ca: String,
    /// Service CIDR; empty while unknown.
    pub cluster_cidr: String,
    /// Addresses of the cluster's DNS service; empty leaves the choice to the node.
    pub cluster_dns: Vec<String>,
    /// Kubernetes minor version such as `1.36`: part of the path of EKS images.
    pub kubernetes: String,
    /// AWS region.
    pub region: String,
    /// `RESERVED_ENIS`: interfaces that are not for pods.
    pub reserved_enis: u32,
    /// `VM_MEMORY_OVERHEAD_PERCENT` in thousandths: 75 is the default 0.075.
    pub memory_overhead_thousandths: u32,
    /// Whether capacity reservations are used as such (feature gate `ReservedCapacity`).
    pub reserved_capacity: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_name: String::new(),
            cluster_endpoint: String::new(),
            cluster_ca: String::new(),
            cluster_cidr: String::new(),
            cluster_dns: Vec::new(),
            kubernetes: String::new(),
            region: String::new(),
            reserved_enis: 0,
            memory_overhead_thousandths: 75,
            reserved_capacity: false,
        }
    }
}
