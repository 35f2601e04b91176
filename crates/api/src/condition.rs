//! Every condition type, once.

/// Root condition of every kind, and kubelet's own on Nodes.
pub const READY: &str = "Ready";

/// NodePool, NodeOverlay, EC2NodeClass: the object says something that can be carried out.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// NodePool: its node class exists and is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// NodePool: recent launches became Nodes; for information only.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// NodeClaim: a machine was bought.
pub const LAUNCHED: &str = "Launched";
/// NodeClaim: the machine's Node is there and carries the claim's labels.
pub const REGISTERED: &str = "Registered";
/// NodeClaim: the Node can take pods.
pub const INITIALIZED: &str = "Initialized";
/// NodeClaim: quiet for long enough to be consolidated.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// NodeClaim: the machine is no longer what its pool or class asks for.
pub const DRIFTED: &str = "Drifted";
/// NodeClaim: is being removed voluntarily, and why.
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// NodeClaim: its pods are gone.
pub const DRAINED: &str = "Drained";
/// NodeClaim: its volumes are detached.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// NodeClaim: the cloud has accepted its end.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";

/// EC2NodeClass: images were found.
pub const AMIS_READY: &str = "AMIsReady";
/// EC2NodeClass: subnets were found.
pub const SUBNETS_READY: &str = "SubnetsReady";
/// EC2NodeClass: security groups were found.
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
/// EC2NodeClass: the instance profile is known.
pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
/// EC2NodeClass: the placement group, if any, is available.
pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
/// EC2NodeClass: capacity reservations were read; only with the ReservedCapacity gate.
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";

/// CapacityBuffer: template and number of pods are known.
pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
/// CapacityBuffer: whether the room is there.
pub const PROVISIONING: &str = "Provisioning";

/// Node: the network of pods is not there; set by cloud controllers and network plugins.
pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
/// Node: the kernel works; named as the EKS node monitoring agent names it, like the four below.
pub const KERNEL_READY: &str = "KernelReady";
/// Node: disks work.
pub const STORAGE_READY: &str = "StorageReady";
/// Node: kubelet and the container runtime work.
pub const CONTAINER_RUNTIME_READY: &str = "ContainerRuntimeReady";
/// Node: the network works.
pub const NETWORKING_READY: &str = "NetworkingReady";
/// Node: accelerators work.
pub const ACCELERATED_HARDWARE_READY: &str = "AcceleratedHardwareReady";
/// Node: the agent's gates are all true; when False the reason lists the closed ones.
pub const AGENT_READY: &str = "kerf.sh/Ready";
/// Node: EC2 has announced the end of the machine; the message carries `deadline=<RFC 3339>`.
pub const INTERRUPTED: &str = "kerf.sh/Interrupted";
/// Node: whether the agent has emptied it; False while it does. The message begins as [`crate::DrainSaid`] reads it.
pub const NODE_DRAINED: &str = "kerf.sh/Drained";
/// Node: EC2 has scheduled maintenance that is not due yet; the message carries `notBefore=` and `drain=` (RFC 3339).
pub const MAINTENANCE_SCHEDULED: &str = "kerf.sh/MaintenanceScheduled";
/// Node: whether the instance metadata service answers the agent. Only there once it has failed for a while.
pub const METADATA_REACHABLE: &str = "kerf.sh/MetadataReachable";

/// Pod: whether the scheduler found a place.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// On a pod: kubelet has not granted what the pod requests now; its reason is `Deferred` or `Infeasible`.
pub const POD_RESIZE_PENDING: &str = "PodResizePending";
/// NodePool: whether every DaemonSet tolerates the taint with which nodes that run the agent start. Only there when one does not.
pub const DAEMONSETS_TOLERATE_AGENT_TAINT: &str = "kerf.sh/DaemonSetsTolerateAgentTaint";
/// NodePool: whether everything that it says of disruption can be read. Only there when something cannot.
pub const DISRUPTION_VALID: &str = "kerf.sh/DisruptionValid";
/// Pod: is about to be ended by a disruption.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Status of a condition.
pub const TRUE: &str = "True";
/// Status of a condition.
pub const FALSE: &str = "False";
/// Status of a condition.
pub const UNKNOWN: &str = "Unknown";
