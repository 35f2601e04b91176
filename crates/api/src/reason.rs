//! Every reason of a condition or an event, once: Karpenter's and Kerf's own.

/// A condition that nobody has looked at yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Root condition: a dependent is False.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Root condition: a dependent is Unknown or out of date.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// NodePool: the runtime checks refuse it.
pub const NODEPOOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
/// NodePool: its class does not exist.
pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
/// NodePool: its class is being deleted.
pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
/// NodePool: its class says nothing yet.
pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
/// NodeClaim: the class is not ready.
pub const NODE_CLASS_NOT_READY: &str = "NodeClassNotReady";

/// NodeClaim: the cloud refused the launch.
pub const LAUNCH_FAILED: &str = "LaunchFailed";
/// Pool: recent launches did not become Nodes.
pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
/// NodeClaim: the machine's Node is not there yet.
pub const NODE_NOT_FOUND: &str = "NodeNotFound";
/// NodeClaim: several Nodes claim the same machine.
pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
/// NodeClaim: kubelet does not report Ready.
pub const NODE_NOT_READY: &str = "NodeNotReady";
/// NodeClaim: startup taints are left.
pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
/// NodeClaim: taints of the Node's own start are left.
pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
/// NodeClaim: an extended resource is not there yet.
pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
/// NodeClaim: pods are leaving.
pub const DRAINING: &str = "Draining";
/// NodeClaim: volumes are leaving.
pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
/// NodeClaim: the grace period ended before the volumes left.
pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";

/// Drift: the pool's template changed.
pub const NODEPOOL_DRIFTED: &str = "NodePoolDrifted";
/// Drift: the pool's requirements no longer admit the node.
pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
/// Drift: the pool no longer offers the node's type.
pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
/// Drift: the class changed.
pub const NODE_CLASS_DRIFT: &str = "NodeClassDrift";
/// Drift: the image is no longer the class's.
pub const AMI_DRIFT: &str = "AMIDrift";
/// Drift: the security groups are no longer the class's.
pub const SECURITY_GROUP_DRIFT: &str = "SecurityGroupDrift";
/// Drift: the subnet is no longer the class's.
pub const SUBNET_DRIFT: &str = "SubnetDrift";
/// Drift: the capacity reservation is no longer the class's.
pub const CAPACITY_RESERVATION_DRIFT: &str = "CapacityReservationDrift";
/// Drift: the placement group is no longer the class's.
pub const PLACEMENT_GROUP_DRIFT: &str = "PlacementGroupDrift";

/// EC2NodeClass: no image matches.
pub const AMI_NOT_FOUND: &str = "AMINotFound";
/// EC2NodeClass: the alias does not exist for this Kubernetes version.
pub const UNSUPPORTED_ALIAS: &str = "UnsupportedAlias";
/// EC2NodeClass: no subnet matches.
pub const SUBNETS_NOT_FOUND: &str = "SubnetsNotFound";
/// EC2NodeClass: no security group matches.
pub const SECURITY_GROUPS_NOT_FOUND: &str = "SecurityGroupsNotFound";
/// EC2NodeClass: the instance profile does not exist.
pub const INSTANCE_PROFILE_NOT_FOUND: &str = "InstanceProfileNotFound";
/// EC2NodeClass: the role does not exist, so no instance profile can be made for it.
pub const ROLE_NOT_FOUND: &str = "RoleNotFound";
/// EC2NodeClass: the controller may not make instance profiles.
pub const INSTANCE_PROFILE_AUTH_FAILED: &str = "InstanceProfileAuthFailed";
/// EC2NodeClass: IAM makes no instance profile for the role.
pub const INSTANCE_PROFILE_CREATION_FAILED: &str = "InstanceProfileCreationFailed";
/// EC2NodeClass: the placement group could not be read.
pub const PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "PlacementGroupResolutionFailed";
/// EC2NodeClass: the placement group does not exist or is not available.
pub const PLACEMENT_GROUP_NOT_FOUND: &str = "PlacementGroupNotFound";
/// EC2NodeClass: the cluster's service addresses could not be read.
pub const CLUSTER_CIDR_RESOLUTION_FAILED: &str = "ClusterCIDRResolutionFailed";
/// EC2NodeClass: validation waits for the other conditions.
pub const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
/// EC2NodeClass: a tag is reserved.
pub const TAG_VALIDATION_FAILED: &str = "TagValidationFailed";
/// EC2NodeClass: the controller may not create launch templates.
pub const CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED: &str = "CreateLaunchTemplateAuthCheckFailed";
/// EC2NodeClass: the controller may not create fleets.
pub const CREATE_FLEET_AUTH_CHECK_FAILED: &str = "CreateFleetAuthCheckFailed";
/// EC2NodeClass: the controller may not run instances.
pub const RUN_INSTANCES_AUTH_CHECK_FAILED: &str = "RunInstancesAuthCheckFailed";
/// EC2NodeClass: the user data is larger than EC2 takes.
pub const USER_DATA_SIZE_LIMIT_EXCEEDED: &str = "UserDataSizeLimitExceeded";
/// EC2NodeClass, event: something is to be known of its user data.
pub const USER_DATA: &str = "UserData";
/// Event of the controller's Lease: the interruption queue cannot be read.
pub const INTERRUPTION_QUEUE_UNREADABLE: &str = "InterruptionQueueUnreadable";
/// Event of the controller's Lease: the interruption queue can be read, at first or again.
pub const INTERRUPTION_QUEUE_READABLE: &str = "InterruptionQueueReadable";
/// EC2NodeClass, event: deletion waits for claims.
pub const WAITING_ON_NODE_CLAIM_TERMINATION: &str = "WaitingOnNodeClaimTermination";

/// NodeOverlay: the runtime checks refuse it.
pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
/// NodeOverlay: another one of the same weight says something else of the same machines.
pub const CONFLICT: &str = "Conflict";

/// CapacityBuffer: template and number of pods are known.
pub const RESOLVED: &str = "Resolved";
/// CapacityBuffer: the workload that it follows does not exist.
pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
/// CapacityBuffer: its template does not exist.
pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
/// CapacityBuffer: it says something that cannot be carried out.
pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
/// CapacityBuffer: all its pods would fit on nodes that are there.
pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
/// CapacityBuffer: some of its pods need new nodes.
pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
/// CapacityBuffer: template or number of pods are not known.
pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
/// CapacityBuffer: it asks for no pods.
pub const BUFFER_EMPTY: &str = "BufferEmpty";

/// Interruption: EC2 takes back a spot machine.
pub const SPOT_INTERRUPTION: &str = "SpotInterruption";
/// Interruption: EC2 expects to take back a spot machine.
pub const REBALANCE_RECOMMENDATION: &str = "RebalanceRecommendation";
/// Interruption: EC2 will stop, reboot or retire the machine.
pub const SCHEDULED_EVENT: &str = "ScheduledEvent";

/// Interruption: the machine's Auto Scaling group lets it go.
pub const ASG_LIFECYCLE: &str = "ASGLifecycle";
/// Interruption: the operating system goes down, announced by nothing else: a stop or an end by EC2's console or API.
pub const INSTANCE_SHUTDOWN: &str = "InstanceShutdown";
/// Interruption: EC2 expects to take back a spot machine, and the controller has approved that its pods move now.
pub const REBALANCE_REPLACEMENT: &str = "RebalanceReplacement";
/// Metadata: it answers.
pub const METADATA_ANSWERS: &str = "MetadataAnswers";
/// Metadata: it has not answered for a while.
pub const METADATA_FAILS: &str = "MetadataFails";

/// NodeClaim, and an event on it: the gates of its node stayed closed for too long, so it goes and another one comes.
pub const GATE_TIMEOUT: &str = "GateTimeout";
/// Agent: every gate is open.
pub const GATES_OPEN: &str = "GatesOpen";

/// Pod: the scheduler found no place.
pub const UNSCHEDULABLE: &str = "Unschedulable";

/// Event on a pod: no pool can serve it.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// Event on a pod: it will run on the named claim or Node.
pub const NOMINATED: &str = "Nominated";
/// Event on a pod or a Node: its do-not-disrupt annotation cannot be read, and protects nothing.
pub const INVALID_DO_NOT_DISRUPT_ANNOTATION: &str = "InvalidDoNotDisruptAnnotation";
/// Event on a PodDisruptionBudget and its pods: no eviction of them will ever pass.
pub const NEVER_EVICTED: &str = "NeverEvicted";
/// Event on a PodDisruptionBudget: it is about no pod.
pub const SELECTS_NOTHING: &str = "SelectsNothing";
/// Event on a Node: it says whose pool it is, and there is no NodeClaim of it.
pub const NODE_CLAIM_MISSING: &str = "NodeClaimMissing";
/// Event on a NodeUsage: it is stale, from the future or of another instance, so it does not count.
pub const USAGE_IGNORED: &str = "UsageIgnored";
/// Event on an object: an annotation of it cannot be read and counts as absent.
pub const INVALID_ANNOTATION: &str = "InvalidAnnotation";
/// Event on an object: a field of it cannot be read.
pub const INVALID_FIELD: &str = "InvalidField";
/// Event on a pod: what it says of its workload's split over on-demand and spot cannot be read.
pub const INVALID_SPLIT_ANNOTATION: &str = "InvalidSplitAnnotation";
/// Event on a pod: its requests were lowered to what it uses.
pub const REQUESTS_LOWERED: &str = "RequestsLowered";
/// Event on a pod: it got requests back that were lowered before.
pub const REQUESTS_RAISED: &str = "RequestsRaised";
/// Event on the owner of pods, or on a pod: they request more than they would do with.
pub const REQUESTS_ABOVE_USE: &str = "RequestsAboveUse";
/// Event on a pool: its requirements leave no instance type.
pub const NO_COMPATIBLE_INSTANCE_TYPES: &str = "NoCompatibleInstanceTypes";
/// Event on a claim: no capacity for any candidate.
pub const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacityError";
/// Event on a claim: its Node came without the taint that keeps pods away until registration.
pub const UNREGISTERED_TAINT_MISSING: &str = "UnregisteredTaintMissing";
/// Event on a replacement: it is being launched.
pub const DISRUPTION_LAUNCHING: &str = "DisruptionLaunching";
/// Event on a replacement: what it replaces waits for it.
pub const DISRUPTION_WAITING_READINESS: &str = "DisruptionWaitingReadiness";
/// Event on Node and claim: they are being taken away.
pub const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
/// Event on Node, claim or pool: something keeps them from being disrupted.
pub const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
/// Event on Node, claim and pool: an unhealthy node stays, for too many of its pool are unhealthy at once.
pub const NODE_REPAIR_BLOCKED: &str = "NodeRepairBlocked";
/// Event on Node and claim: they will be taken away if nothing changes for a while.
pub const CONSOLIDATION_CANDIDATE: &str = "ConsolidationCandidate";
/// Event on Node and claim: something has changed, so they are not taken away after all.
pub const CONSOLIDATION_REJECTED: &str = "ConsolidationRejected";
/// Event on Node and claim: nothing cheaper would do.
pub const UNCONSOLIDATABLE: &str = "Unconsolidatable";
/// Event on a pod: its node goes, and it stays until a copy of it is ready elsewhere.
pub const SURGING: &str = "Surging";
/// Event on a Node: the drain could not go on.
pub const FAILED_DRAINING: &str = "FailedDraining";
/// Node: the deadline came before all pods that had to go were gone.
pub const DRAIN_INCOMPLETE: &str = "DrainIncomplete";
/// Node: nobody wants it to be empty any more.
pub const DRAIN_WITHDRAWN: &str = "DrainWithdrawn";
/// Node: a drain was asked for in words that the agent does not understand.
pub const DRAIN_REQUEST_INVALID: &str = "DrainRequestInvalid";
/// Event on a Node: its agent was asked to drain it and does not, so the controller does.
pub const DRAIN_TAKEN_OVER: &str = "DrainTakenOver";
/// Event on Node and claim: the moment from which pods are ended by force is set.
pub const TERMINATION_GRACE_PERIOD_EXPIRING: &str = "TerminationGracePeriodExpiring";
/// Event on Node and claim: EC2 takes back a spot machine.
pub const SPOT_INTERRUPTED: &str = "SpotInterrupted";
/// Event on Node and claim: EC2 expects to take back a spot machine.
pub const SPOT_REBALANCE_RECOMMENDATION: &str = "SpotRebalanceRecommendation";
/// Event on Node and claim: their machine is stopping, not by us.
pub const INSTANCE_STOPPING: &str = "InstanceStopping";
/// Event on Node and claim: their machine ends, not by us.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// Event on Node and claim: their machine fails EC2's checks, or EC2 has maintenance ahead for it.
pub const INSTANCE_UNHEALTHY: &str = "InstanceUnhealthy";
/// Event on Node and claim: the reservation that their machine runs in is taken back.
pub const CAPACITY_RESERVATION_INSTANCE_INTERRUPTED: &str = "CapacityReservationInstanceInterrupted";
/// Event on Node and claim: they go because their machine does.
pub const TERMINATING_ON_INTERRUPTION: &str = "TerminatingOnInterruption";
/// Event: an object of a watch could not be read and was skipped.
pub const MALFORMED_OBJECT: &str = "MalformedObject";
/// NodePool: a budget or an annotation of it cannot be read.
pub const DISRUPTION_INVALID: &str = "DisruptionInvalid";
/// NodePool: DaemonSets that would only start after the agent has called the node ready.
pub const TOLERATION_MISSING: &str = "TolerationMissing";
/// Event on a Node: the agent cannot follow what the machine received at its launch.
pub const BOOTSTRAP_FAILED: &str = "BootstrapFailed";
/// Event on a Node: the agent has waited for long with what it needs to start kubelet.
pub const BOOTSTRAP_WAITING: &str = "BootstrapWaiting";
/// Interruption, False: it was called off, or the machine has booted again since.
pub const INTERRUPTION_OVER: &str = "InterruptionOver";
