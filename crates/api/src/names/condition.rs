//! Condition types. Each is defined once.

/// Root condition of every kind. On Nodes, kubelet's own condition.
pub const READY: &str = "Ready";

/// NodePool, NodeOverlay, EC2NodeClass: the object is valid.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// NodePool: its node class exists and is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// NodePool: recent launches became Nodes. For information only.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// NodeClaim: an instance was launched.
pub const LAUNCHED: &str = "Launched";
/// NodeClaim: the Node of the instance exists and carries the labels of the NodeClaim.
pub const REGISTERED: &str = "Registered";
/// NodeClaim: the Node can run pods.
pub const INITIALIZED: &str = "Initialized";
/// NodeClaim: no pod came or left for `consolidateAfter`.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// NodeClaim: the instance no longer matches its NodePool or node class.
pub const DRIFTED: &str = "Drifted";
/// NodeClaim: voluntary disruption in progress, with its reason.
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// NodeClaim: its pods are evicted.
pub const DRAINED: &str = "Drained";
/// NodeClaim: its volumes are detached.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// NodeClaim: its instance reboots, and the NodeClaim is kept until a time limit. False for a while after the reboot.
pub const REBOOTING: &str = "kerf.sh/Rebooting";
/// NodeClaim: EC2 has accepted the termination.
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
/// EC2NodeClass: capacity reservations were read. Only with the ReservedCapacity gate.
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";

/// CapacityBuffer: template and number of pods are known.
pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
/// CapacityBuffer: True if the capacity exists.
pub const PROVISIONING: &str = "Provisioning";

/// ProvisioningRequest: Kerf handles the request.
pub const ACCEPTED: &str = "Accepted";
/// ProvisioningRequest: the capacity exists and is kept for its pods.
pub const PROVISIONED: &str = "Provisioned";
/// ProvisioningRequest: the capacity cannot be had.
pub const FAILED: &str = "Failed";
/// ProvisioningRequest: the time is over for which the capacity was kept.
pub const BOOKING_EXPIRED: &str = "BookingExpired";
/// ProvisioningRequest: the capacity is gone. Other programs set it.
pub const CAPACITY_REVOKED: &str = "CapacityRevoked";

/// SpendPolicy: the cost is within the limits per hour.
pub const WITHIN_LIMITS: &str = "WithinLimits";
/// SpendPolicy: the budget of the month is not spent, and the forecast is within it.
pub const WITHIN_BUDGET: &str = "WithinBudget";

/// Node: the pod network is not available. Set by cloud controllers and network plugins.
pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
/// Condition of kubelet: a disk is nearly full.
pub const DISK_PRESSURE: &str = "DiskPressure";
/// Condition of kubelet: memory is nearly used up.
pub const MEMORY_PRESSURE: &str = "MemoryPressure";
/// Beginning of the message of a health condition that Kerf's agent wrote.
pub const AGENT_MESSAGE: &str = "kerf-agent: ";
/// Node: the kernel works. This name and the four below are those of the EKS node monitoring agent.
pub const KERNEL_READY: &str = "KernelReady";
/// Node: disks work.
pub const STORAGE_READY: &str = "StorageReady";
/// Node: kubelet and the container runtime work.
pub const CONTAINER_RUNTIME_READY: &str = "ContainerRuntimeReady";
/// Node: the network works.
pub const NETWORKING_READY: &str = "NetworkingReady";
/// Node: accelerators work.
pub const ACCELERATED_HARDWARE_READY: &str = "AcceleratedHardwareReady";
/// Node: conditions of the node's health, which are False for a problem.
pub const HEALTH: [&str; 5] =
    [KERNEL_READY, STORAGE_READY, CONTAINER_RUNTIME_READY, NETWORKING_READY, ACCELERATED_HARDWARE_READY];
/// Node: all gates of the agent are open. If False, the reason lists the closed gates.
pub const AGENT_READY: &str = "kerf.sh/Ready";
/// Node: EC2 has announced the end of the instance. The message contains `deadline=<RFC 3339>`.
pub const INTERRUPTED: &str = "kerf.sh/Interrupted";
/// Node: True once the agent has drained the node, False during the drain. [`crate::DrainProgress`] parses the beginning of the
/// message.
pub const NODE_DRAINED: &str = "kerf.sh/Drained";
/// Node: EC2 has scheduled maintenance that is not due yet. The message contains `notBefore=` and `drain=` (RFC 3339).
pub const MAINTENANCE_SCHEDULED: &str = "kerf.sh/MaintenanceScheduled";
/// Node: the instance metadata service answers the agent. Present only after a longer failure.
pub const METADATA_REACHABLE: &str = "kerf.sh/MetadataReachable";

/// Pod: the scheduler found a node.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// Pod: kubelet has not granted the current requests of the pod. The reason is `Deferred` or `Infeasible`.
pub const POD_RESIZE_PENDING: &str = "PodResizePending";
/// NodePool: every DaemonSet tolerates the startup taint of nodes with the agent. Present only if one does not.
pub const DAEMONSETS_TOLERATE_AGENT_TAINT: &str = "kerf.sh/DaemonSetsTolerateAgentTaint";
/// NodePool: all of its disruption settings are valid. Present only if one is not.
pub const DISRUPTION_VALID: &str = "kerf.sh/DisruptionValid";
/// NodePool: its replacements are initialized. Present only while they fail.
pub const REPLACEMENTS_HEALTHY: &str = "kerf.sh/ReplacementsHealthy";
/// NodePool: its launches give pods a place. Present only while a pause keeps pods waiting.
pub const LAUNCHES_HEALTHY: &str = "kerf.sh/LaunchesHealthy";
/// NodePool: the controller's view of the cluster is current. Present only while a stale view prevents voluntary disruption.
pub const WATCHES_HEALTHY: &str = "kerf.sh/WatchesHealthy";
/// NodePool: notices of agents and failed status checks remove at most a fifth of its nodes in ten minutes. Present only while more
/// ask for it.
pub const NOTICES_WITHIN_LIMIT: &str = "kerf.sh/NoticesWithinLimit";
/// NodePool: the controller has the permissions that annotations of the NodePool need. Present only if one is missing.
pub const PERMISSIONS_GRANTED: &str = "kerf.sh/PermissionsGranted";
/// Pod: a disruption is about to end the pod.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Condition status True.
pub const TRUE: &str = "True";
/// Condition status False.
pub const FALSE: &str = "False";
/// Condition status Unknown.
pub const UNKNOWN: &str = "Unknown";
