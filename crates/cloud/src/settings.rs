//! Settings of the cluster and of Kerf that launches depend on.

use planner::MinValuesPolicy;

/// Settings for instance types and launches; one value per process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the cluster, `CLUSTER_NAME`.
    pub cluster_name: String,
    /// URL of the API server for nodes.
    pub cluster_endpoint: String,
    /// Base64 of the cluster's CA bundle (PEM).
    pub cluster_ca: String,
    /// Service CIDR; empty while unknown.
    pub cluster_cidr: String,
    /// Addresses of the cluster's DNS service; empty leaves the choice to the node.
    pub cluster_dns: Vec<String>,
    /// Kubernetes minor version such as `1.36`, part of the path of EKS images.
    pub kubernetes: String,
    /// AWS region.
    pub region: String,
    /// Network interfaces that are not for pods, `RESERVED_ENIS`.
    pub reserved_enis: u32,
    /// `VM_MEMORY_OVERHEAD_PERCENT` in thousandths: 75 is the default 0.075.
    pub memory_overhead_thousandths: u32,
    /// `ISOLATED_VPC`: IAM cannot be reached, and Kerf does not call it.
    pub isolated_vpc: bool,
    /// Feature gate ReservedCapacity: Kerf queries and uses capacity reservations.
    pub reserved_capacity: bool,
    /// `MIN_VALUES_POLICY`: behaviour of a launch with fewer values than `minValues` requires.
    pub min_values: MinValuesPolicy,
    /// `DISABLE_DRY_RUN`: an EC2NodeClass becomes ready without a launch probe.
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
