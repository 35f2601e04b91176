//! Every label key and fixed label value, once, with the tests of what a pool or a pod may say about them.

/// Domain of Karpenter's own labels; keys of this domain and of its sub-domains are restricted.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";
/// Domain of the AWS provider's labels; only [`AWS_WELL_KNOWN`] keys of it are accepted.
pub const AWS_DOMAIN: &str = "karpenter.k8s.aws";

/// Owning pool of a NodeClaim and of its Node.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// How the machine is bought: one of the `CAPACITY_*` values.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` on a Node once its claim has been matched to it.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on a Node once its startup taints are gone and its resources are there.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` on a Node whose bootstrap already set the claim's taints, so registration must not add them.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Set to `karpenter` on a Node at the start of its termination, so that load balancers let go of it.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Availability zone name, for example `us-west-2a`.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region name, for example `us-west-2`.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Availability zone id, the same for every account, for example `usw2-az1`.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Zone label that the EBS CSI driver writes; an alias of [`ZONE`].
pub const EBS_CSI_ZONE: &str = "topology.ebs.csi.aws.com/zone";
/// EC2 instance type, for example `m5.large`.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// CPU architecture: [`ARCH_AMD64`] or [`ARCH_ARM64`].
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system: [`OS_LINUX`] or [`OS_WINDOWS`].
pub const OS: &str = "kubernetes.io/os";
/// Host name of a Node; never a requirement of a pool.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// On a pod of a Deployment: which of its ReplicaSets made it.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Windows build, for example `10.0.20348`.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// On every Namespace: its own name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Value of [`CAPACITY_TYPE`]: spare capacity that EC2 may take back at two minutes' notice.
pub const CAPACITY_SPOT: &str = "spot";
/// Value of [`CAPACITY_TYPE`]: capacity at list price.
pub const CAPACITY_ON_DEMAND: &str = "on-demand";
/// Value of [`CAPACITY_TYPE`]: capacity that is paid for already.
pub const CAPACITY_RESERVED: &str = "reserved";
/// The three values of [`CAPACITY_TYPE`].
pub const CAPACITY_TYPES: [&str; 3] = [CAPACITY_ON_DEMAND, CAPACITY_RESERVED, CAPACITY_SPOT];
/// Value of [`ARCH`] for x86-64.
pub const ARCH_AMD64: &str = "amd64";
/// Value of [`ARCH`] for 64-bit Arm.
pub const ARCH_ARM64: &str = "arm64";
/// Value of [`OS`].
pub const OS_LINUX: &str = "linux";
/// Value of [`OS`].
pub const OS_WINDOWS: &str = "windows";
/// Value of the stamps [`REGISTERED`], [`INITIALIZED`] and [`DO_NOT_SYNC_TAINTS`].
pub const TRUE: &str = "true";
/// Value of [`EXCLUDE_BALANCERS`].
pub const KARPENTER: &str = "karpenter";

/// Name of the EC2NodeClass that a machine was made from.
pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Letters of the family, for example `m`.
pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
/// Generation number of the family.
pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Family, the text before the dot.
pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Size, the text after the dot.
pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
/// Number of vCPUs.
pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
/// `amd`, `intel` or `aws`.
pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
/// Sustained clock speed in MHz.
pub const INSTANCE_CPU_CLOCK: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
/// Memory in MiB.
pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
/// EBS bandwidth in Mbit/s, where EBS optimisation is on by default.
pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
/// Network bandwidth in Mbit/s.
pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// `nitro`, `xen`, or empty on metal.
pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
/// `true` or `false`.
pub const INSTANCE_ENCRYPTION: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
/// Local NVMe storage in GB, all disks together.
pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
/// `true` for flex families, else `false`.
pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
/// GPU name; the GPU labels are absent, not empty, on machines without one.
pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
/// GPU manufacturer.
pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
/// Number of GPUs.
pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Memory of one GPU in MiB.
pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
/// Accelerator name; absent on machines without one.
pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
/// Accelerator manufacturer.
pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
/// Number of accelerators.
pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// `default` or `dedicated`.
pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
/// Capacity reservation of a reserved offering.
pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// `default` or `capacity-block`.
pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
/// `true` or `false`.
pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
/// Placement group that the machine runs in.
pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
/// Partition inside the placement group.
pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

/// Keys that a pool need not define for a pod to ask for them: Karpenter's own.
pub const CORE_WELL_KNOWN: [&str; 8] = [NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// Keys that a pool need not define for a pod to ask for them: those that EC2 offerings carry.
/// Sorted; they are also the only `karpenter.k8s.aws` keys that the schemas admit.
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

/// Deprecated or foreign spellings of a key, with the key that they mean.
const ALIASES: [(&str, &str); 6] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    (EBS_CSI_ZONE, ZONE),
];

/// Whether a pool may leave `key` undefined and pods may still require it.
#[must_use]
pub fn is_well_known(key: &str) -> bool {
    CORE_WELL_KNOWN.contains(&key) || AWS_WELL_KNOWN.contains(&key)
}

/// Whether `key` belongs to Karpenter alone: the host name, or a key of `karpenter.sh` or one of its
/// sub-domains that is not well known. Such a key is never copied from requirements to labels.
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    if is_well_known(key) {
        return false;
    }
    key == HOSTNAME || domain(key).is_some_and(|d| within(d, KARPENTER_DOMAIN))
}

/// The key that `key` means, once deprecated and foreign spellings are resolved.
#[must_use]
pub fn canonical(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, stable)| *stable)
}

/// The text before the slash, if there is one.
#[must_use]
pub fn domain(key: &str) -> Option<&str> {
    key.split_once('/').map(|(domain, _)| domain)
}

fn within(domain: &str, parent: &str) -> bool {
    domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

/// Key of the label that carries the name of a node class: `<group>/<kind in lower case>`.
#[must_use]
pub fn node_class_key(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restricted_keys() {
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
    fn aliases_point_at_well_known_keys() {
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
    fn node_class_label_of_ec2() {
        assert_eq!(node_class_key(AWS_DOMAIN, "EC2NodeClass"), EC2_NODE_CLASS);
    }
}
