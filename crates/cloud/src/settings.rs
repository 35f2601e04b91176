//! What Kerf is informed about the cluster and itself, as far as buying machines depends on it (aws 8.1).

use planner::MinValuesPolicy;

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
    /// `ISOLATED_VPC`: IAM cannot be reached, and is not asked.
    pub isolated_vpc: bool,
    /// The gate ReservedCapacity: capacity reservations are looked for and used.
    pub reserved_capacity: bool,
    /// `MIN_VALUES_POLICY`: what becomes of a launch that is left with fewer values than `minValues` asks for.
    pub min_values: MinValuesPolicy,
    /// `DISABLE_DRY_RUN`: launches are not tried out before a class is called ready.
    pub disable_dry_run: bool,
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
            isolated_vpc: false,
            reserved_capacity: false,
            min_values: MinValuesPolicy::Strict,
            disable_dry_run: false,
        }
    }
}
