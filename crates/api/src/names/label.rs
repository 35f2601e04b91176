//! Label keys and fixed label values, each defined once, and the checks for restricted and well-known keys.

/// Domain of Karpenter's own labels. Keys of this domain and of its subdomains are restricted.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";
/// Domain of the AWS provider's labels. Only its [`AWS_WELL_KNOWN`] keys are accepted.
pub const AWS_DOMAIN: &str = "karpenter.k8s.aws";

/// NodePool of a NodeClaim and of its Node.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// Capacity type of the instance: one of the `CAPACITY_*` values.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Label of a Node whose NodeClaim has been matched to it; value `true`.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// Label of a Node whose startup taints are removed and whose resources are registered; value `true`.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Label of a Node whose bootstrap has already set the taints of the NodeClaim, so registration must not add them; value
/// `true`.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Label of a Node from the start of its termination, so that load balancers remove it; value `karpenter`.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Name of the availability zone, for example `us-west-2a`.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Name of the region, for example `us-west-2`.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Id of the availability zone, the same for every account, for example `usw2-az1`.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Zone label of the EBS CSI driver, an alias of [`ZONE`].
pub const EBS_CSI_ZONE: &str = "topology.ebs.csi.aws.com/zone";
/// EC2 instance type, for example `m5.large`.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// CPU architecture: [`ARCH_AMD64`] or [`ARCH_ARM64`].
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system: [`OS_LINUX`] or [`OS_WINDOWS`].
pub const OS: &str = "kubernetes.io/os";
/// Host name of a Node. Never a requirement of a NodePool.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Label of a Deployment's pod: the ReplicaSet that created it.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Label of a DaemonSet's or StatefulSet's pod: the revision of the template from which it was created.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// Label of a DaemonSet's pod: the generation of the template, see [`super::annotation::TEMPLATE_GENERATION`].
pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
/// Windows build, for example `10.0.20348`.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Label of every Namespace: its own name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Value of [`CAPACITY_TYPE`]: spare capacity, which EC2 can reclaim with two minutes' notice.
pub const CAPACITY_SPOT: &str = "spot";
/// Value of [`CAPACITY_TYPE`]: capacity at the on-demand price.
pub const CAPACITY_ON_DEMAND: &str = "on-demand";
/// Value of [`CAPACITY_TYPE`]: capacity that is already paid for.
pub const CAPACITY_RESERVED: &str = "reserved";
/// All three values of [`CAPACITY_TYPE`].
pub const CAPACITY_TYPES: [&str; 3] = [CAPACITY_ON_DEMAND, CAPACITY_RESERVED, CAPACITY_SPOT];
/// Value of [`ARCH`] for x86-64.
pub const ARCH_AMD64: &str = "amd64";
/// Value of [`ARCH`] for 64-bit Arm.
pub const ARCH_ARM64: &str = "arm64";
/// Value of [`OS`] for Linux.
pub const OS_LINUX: &str = "linux";
/// Value of [`OS`] for Windows.
pub const OS_WINDOWS: &str = "windows";
/// Value of [`REGISTERED`], [`INITIALIZED`] and [`DO_NOT_SYNC_TAINTS`].
pub const TRUE: &str = "true";
/// Value of [`EXCLUDE_BALANCERS`].
pub const KARPENTER: &str = "karpenter";

/// Name of the EC2NodeClass of the instance.
pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Letters of the instance family, for example `m`.
pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
/// Generation number of the instance family.
pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Instance family, the text before the dot.
pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Instance size, the text after the dot.
pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
/// Number of vCPUs.
pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
/// CPU manufacturer: `amd`, `intel` or `aws`.
pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
/// Sustained clock speed in MHz.
pub const INSTANCE_CPU_CLOCK: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
/// Memory in MiB.
pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
/// EBS bandwidth in Mbit/s, if EBS optimization is enabled by default.
pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
/// Network bandwidth in Mbit/s.
pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// Hypervisor: `nitro`, `xen`, or empty for bare metal.
pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
/// Support for encryption in transit: `true` or `false`.
pub const INSTANCE_ENCRYPTION: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
/// Local NVMe storage in GB, all disks together.
pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
/// Flex instance type: `true` for flex families, otherwise `false`.
pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
/// GPU name. Instance types without a GPU do not have the GPU labels at all.
pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
/// GPU manufacturer.
pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
/// Number of GPUs.
pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Memory of one GPU in MiB.
pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
/// Accelerator name. Absent on instance types without an accelerator.
pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
/// Accelerator manufacturer.
pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
/// Number of accelerators.
pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// Tenancy: `default` or `dedicated`.
pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
/// Capacity reservation of a reserved offering.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// Type of the capacity reservation: `default` or `capacity-block`.
pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
/// Interruptible capacity reservation: `true` or `false`.
pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
/// Placement group of the instance.
pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
/// Partition of the placement group.
pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";
/// Value of `PLACEMENT_GROUP_PARTITION` on a NodeClaim whose partition EC2 selects, until its node registers; as in Karpenter.
pub const PARTITION_NOT_READ: &str = "";

/// Karpenter's well-known keys, which pods may require although a NodePool does not define them.
pub const CORE_WELL_KNOWN: [&str; 8] = [NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Well-known keys of EC2 offerings, which pods may require although a NodePool does not define them. Sorted. The schemas
/// accept no other `karpenter.k8s.aws` keys.
pub const AWS_WELL_KNOWN: [&str; 29] = [
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    CAPACITY_RESERVATION_TYPE,
    EC2_NODE_CLASS,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_CLOCK,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_ENCRYPTION,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_MEMORY,
    INSTANCE_GPU_NAME,
    INSTANCE_HYPERVISOR,
    INSTANCE_LOCAL_NVME,
    INSTANCE_MEMORY,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_SIZE,
    INSTANCE_TENANCY,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
    ZONE_ID,
];

/// Deprecated or foreign spellings of a key, with the current key.
const ALIASES: [(&str, &str); 6] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    (EBS_CSI_ZONE, ZONE),
];

/// Reports whether pods may require `key` although a NodePool does not define it.
#[must_use]
pub fn is_well_known(key: &str) -> bool {
    CORE_WELL_KNOWN.contains(&key) || AWS_WELL_KNOWN.contains(&key)
}

/// Reports whether `key` is reserved for Karpenter: the host name, or a key of `karpenter.sh` or its subdomains that is not
/// well known. Such a key is never copied from requirements to labels.
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    if is_well_known(key) {
        return false;
    }
    key == HOSTNAME || domain(key).is_some_and(|d| within(d, KARPENTER_DOMAIN))
}

/// Returns the current key for a deprecated or foreign spelling, otherwise `key` itself.
#[must_use]
pub fn canonical(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, stable)| *stable)
}

/// Returns the text before the slash, if there is one.
#[must_use]
pub fn domain(key: &str) -> Option<&str> {
    key.split_once('/').map(|(domain, _)| domain)
}

fn within(domain: &str, parent: &str) -> bool {
    domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

/// Returns the key of the label for the name of a node class: `<group>/<kind in lower case>`.
#[must_use]
pub fn node_class_key(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_restricted_matches_keys_of_karpenter() {
        let rows = [
            (HOSTNAME, true),
            ("karpenter.sh/anything", true),
            ("sub.karpenter.sh/anything", true),
            ("notkarpenter.sh/anything", false),
            (NODEPOOL, false),
            (CAPACITY_TYPE, false),
            (REGISTERED, true),
            (INSTANCE_CPU, false),
            ("team", false),
            ("example.com/team", false),
        ];
        for (key, expected) in rows {
            assert_eq!(is_restricted(key), expected, "{key}");
        }
    }

    #[test]
    fn canonical_resolves_aliases_to_well_known_keys() {
        for (alias, stable) in ALIASES {
            assert_eq!(canonical(alias), stable);
            assert!(is_well_known(stable), "{stable}");
            assert!(!is_well_known(alias), "{alias}");
        }
        assert_eq!(canonical("team"), "team");
    }

    #[test]
    fn well_known_keys_are_distinct() {
        let all: std::collections::BTreeSet<_> = CORE_WELL_KNOWN.iter().chain(&AWS_WELL_KNOWN).collect();
        assert_eq!(all.len(), CORE_WELL_KNOWN.len() + AWS_WELL_KNOWN.len());
    }

    #[test]
    fn node_class_key_equals_the_ec2_node_class_label() {
        assert_eq!(node_class_key(AWS_DOMAIN, "EC2NodeClass"), EC2_NODE_CLASS);
    }
}
