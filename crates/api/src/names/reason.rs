//! Reasons of conditions and events, of Karpenter and of Kerf. Each is defined once.

/// Condition that has not been reconciled yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Root condition: a dependent condition is False.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Root condition: a dependent condition is Unknown or out of date.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// NodePool: runtime validation failed.
pub const NODEPOOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
/// NodePool: its node class does not exist.
pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
/// NodePool: its node class is being deleted.
pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
/// NodePool: its node class reports no readiness yet.
pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
/// NodeClaim: the node class is not ready.
pub const NODE_CLASS_NOT_READY: &str = "NodeClassNotReady";

/// NodeClaim: EC2 refused the launch.
pub const LAUNCH_FAILED: &str = "LaunchFailed";
/// NodePool: recent launches did not become Nodes.
pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
/// NodeClaim: the Node of the instance does not exist yet.
pub const NODE_NOT_FOUND: &str = "NodeNotFound";
/// NodeClaim: EC2 does not report the partition of the instance in its placement group yet.
pub const PARTITION_NOT_FOUND: &str = "PartitionNotFound";
/// NodeClaim: several Nodes have the provider id of the instance.
pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
/// NodeClaim: kubelet does not report Ready.
pub const NODE_NOT_READY: &str = "NodeNotReady";
/// NodeClaim: the Node still has startup taints.
pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
/// NodeClaim: the Node still has taints that disappear during its start.
pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
/// NodeClaim: an extended resource is not registered yet.
pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
/// NodeClaim: pods are being evicted.
pub const DRAINING: &str = "Draining";
/// NodeClaim: volumes are being detached.
pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
/// NodeClaim: the termination grace period ended before the volumes were detached.
pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";

/// Pod that was evicted: the reason of its condition `DisruptionTarget`, as the API server writes it.
pub const EVICTION_BY_EVICTION_API: &str = "EvictionByEvictionAPI";

/// Drift: the template of the NodePool changed.
pub const NODEPOOL_DRIFTED: &str = "NodePoolDrifted";
/// Drift: the node no longer matches the requirements of the NodePool.
pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
/// Drift: the NodePool no longer offers the instance type of the node.
pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
/// Drift: the node class changed.
pub const NODE_CLASS_DRIFT: &str = "NodeClassDrift";
/// Drift: the node class no longer selects the image.
pub const AMI_DRIFT: &str = "AMIDrift";
/// Drift: the node class no longer selects the same security groups.
pub const SECURITY_GROUP_DRIFT: &str = "SecurityGroupDrift";
/// Drift: the node class no longer selects the subnet.
pub const SUBNET_DRIFT: &str = "SubnetDrift";
/// Drift: the node class no longer selects the capacity reservation.
pub const CAPACITY_RESERVATION_DRIFT: &str = "CapacityReservationDrift";
/// Drift: the node class no longer selects the placement group.
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
/// EC2NodeClass: the role does not exist, so no instance profile can be created for it.
pub const ROLE_NOT_FOUND: &str = "RoleNotFound";
/// EC2NodeClass: the controller has no permission to create instance profiles.
pub const INSTANCE_PROFILE_AUTH_FAILED: &str = "InstanceProfileAuthFailed";
/// EC2NodeClass: IAM refused to create an instance profile for the role.
pub const INSTANCE_PROFILE_CREATION_FAILED: &str = "InstanceProfileCreationFailed";
/// EC2NodeClass: the placement group could not be read.
pub const PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "PlacementGroupResolutionFailed";
/// EC2NodeClass: the placement group does not exist or is not available.
pub const PLACEMENT_GROUP_NOT_FOUND: &str = "PlacementGroupNotFound";
/// EC2NodeClass: the service CIDR of the cluster could not be read.
pub const CLUSTER_CIDR_RESOLUTION_FAILED: &str = "ClusterCIDRResolutionFailed";
/// EC2NodeClass: validation waits for the other conditions.
pub const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
/// EC2NodeClass: a tag is reserved.
pub const TAG_VALIDATION_FAILED: &str = "TagValidationFailed";
/// EC2NodeClass: the controller has no permission to create launch templates.
pub const CREATE_LAUNCH_TEMPLATE_AUTH_CHECK_FAILED: &str = "CreateLaunchTemplateAuthCheckFailed";
/// EC2NodeClass: the controller has no permission to create fleets.
pub const CREATE_FLEET_AUTH_CHECK_FAILED: &str = "CreateFleetAuthCheckFailed";
/// EC2NodeClass: the controller has no permission to run instances.
pub const RUN_INSTANCES_AUTH_CHECK_FAILED: &str = "RunInstancesAuthCheckFailed";
/// EC2NodeClass: the user data exceeds EC2's size limit.
pub const USER_DATA_SIZE_LIMIT_EXCEEDED: &str = "UserDataSizeLimitExceeded";
/// Event on an EC2NodeClass: a note about its user data.
pub const USER_DATA: &str = "UserData";
/// Event on the controller's Lease: the interruption queue cannot be read.
pub const INTERRUPTION_QUEUE_UNREADABLE: &str = "InterruptionQueueUnreadable";
/// Event on the controller's Lease: the interruption queue can be read, for the first time or again.
pub const INTERRUPTION_QUEUE_READABLE: &str = "InterruptionQueueReadable";
/// Event on an EC2NodeClass: its deletion waits for NodeClaims.
pub const WAITING_ON_NODE_CLAIM_TERMINATION: &str = "WaitingOnNodeClaimTermination";

/// NodeOverlay: runtime validation failed.
pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
/// NodeOverlay: another one of the same weight sets a different value for the same instance types.
pub const CONFLICT: &str = "Conflict";

/// SpendPolicy, Commitment: all fields are valid.
pub const VALID: &str = "Valid";
/// SpendPolicy: the cost is within limits and budget.
pub const COST_WITHIN: &str = "CostWithin";
/// SpendPolicy: the cost is above the soft limit.
pub const ABOVE_SOFT_LIMIT: &str = "AboveSoftLimit";
/// SpendPolicy: the cost is above the limit, because prices rose or the limit fell.
pub const ABOVE_LIMIT: &str = "AboveLimit";
/// SpendPolicy: the forecast of the month is above the budget.
pub const FORECAST_ABOVE_BUDGET: &str = "ForecastAboveBudget";
/// SpendPolicy: the budget of the month is spent.
pub const BUDGET_SPENT: &str = "BudgetSpent";

/// Commitment: it pays later.
pub const NOT_STARTED: &str = "NotStarted";
/// Commitment: it no longer pays.
pub const ENDED: &str = "Ended";

/// CapacityBuffer: template and number of pods are known.
pub const RESOLVED: &str = "Resolved";
/// CapacityBuffer: the workload of `scalableRef` does not exist.
pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
/// CapacityBuffer: its pod template does not exist.
pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
/// CapacityBuffer: its specification is invalid.
pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
/// CapacityBuffer: all of its pods fit on existing nodes.
pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";
/// CapacityBuffer: some of its pods need new nodes.
pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
/// CapacityBuffer: template or number of pods are unknown.
pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
/// CapacityBuffer: it keeps capacity at other times.
pub const OUTSIDE_ACTIVE_TIMES: &str = "OutsideActiveTimes";
/// CapacityBuffer: it requests no pods.
pub const BUFFER_EMPTY: &str = "BufferEmpty";

/// ProvisioningRequest: Kerf handles its class.
pub const ACCEPTED: &str = "Accepted";
/// ProvisioningRequest: existing nodes have the capacity.
pub const CAPACITY_IS_FOUND: &str = "CapacityIsFound";
/// ProvisioningRequest: new nodes have the capacity.
pub const CAPACITY_IS_PROVISIONED: &str = "CapacityIsProvisioned";
/// ProvisioningRequest: the nodes start.
pub const CAPACITY_IS_STARTING: &str = "CapacityIsStarting";
/// ProvisioningRequest: not all pods would get a place.
pub const CAPACITY_IS_NOT_FOUND: &str = "CapacityIsNotFound";
/// ProvisioningRequest: the capacity did not exist in time.
pub const EXPIRED: &str = "Expired";
/// ProvisioningRequest: a parameter or a pod template is invalid.
pub const INVALID_REQUEST: &str = "InvalidRequest";
/// ProvisioningRequest: the capacity was kept for its pods as long as it is kept.
pub const CAPACITY_RESERVATION_TIME_EXPIRED: &str = "CapacityReservationTimeExpired";

/// Interruption: EC2 reclaims a spot instance.
pub const SPOT_INTERRUPTION: &str = "SpotInterruption";
/// Interruption: EC2 expects to reclaim a spot instance.
pub const REBALANCE_RECOMMENDATION: &str = "RebalanceRecommendation";
/// Interruption: EC2 will stop, reboot or retire the instance.
pub const SCHEDULED_EVENT: &str = "ScheduledEvent";

/// Interruption: the Auto Scaling group terminates the instance.
pub const ASG_LIFECYCLE: &str = "ASGLifecycle";
/// Interruption: the operating system shuts down without another notice, after a stop or termination by EC2's console or API.
pub const INSTANCE_SHUTDOWN: &str = "InstanceShutdown";
/// Interruption, also the event: the instance reboots and returns. Its NodeClaim is kept for a limited time.
pub const INSTANCE_REBOOT: &str = "InstanceReboot";
/// Interruption: EC2 expects to reclaim a spot instance, and the controller has approved the drain.
pub const REBALANCE_REPLACEMENT: &str = "RebalanceReplacement";
/// Metadata: the service answers.
pub const METADATA_ANSWERS: &str = "MetadataAnswers";
/// Metadata: the service has not answered for a while.
pub const METADATA_FAILS: &str = "MetadataFails";

/// NodeClaim, and event on it: the gates of its node stayed closed for too long, so the node is replaced.
pub const GATE_TIMEOUT: &str = "GateTimeout";
/// NodeClaim, and event on it: a startup taint of its node stayed for too long, so the node is replaced.
pub const STARTUP_TAINT_TIMEOUT: &str = "StartupTaintTimeout";
/// NodeClaim, and event on it: its node was not Ready in time after the registration, so the node is replaced.
pub const NOT_READY_TIMEOUT: &str = "NotReadyTimeout";
/// NodeClaim: its instance has returned from a reboot.
pub const REBOOTED: &str = "Rebooted";
/// Event on NodeClaim and Node: the instance did not return from its reboot in time, so the node is replaced.
pub const REBOOT_TIMEOUT: &str = "RebootTimeout";
/// NodeClaim, and event on it: a replacement whose command was rolled back was not initialized in time, so it is deleted.
pub const INITIALIZATION_TIMEOUT: &str = "InitializationTimeout";
/// NodePool, and event on it: replacements were not initialized, so that disruption commands wait.
pub const REPLACEMENTS_FAILED: &str = "ReplacementsFailed";
/// NodePool, and event on it: launches gave pods no place, so that the next launch waits.
pub const LAUNCHES_FAILED: &str = "LaunchesFailed";
/// NodePool, and event on it: the controller's view of a kind is too old for voluntary disruption.
pub const WATCH_STALE: &str = "WatchStale";
/// NodePool, and event on it: more nodes than a fifth report a notice or fail a status check that nothing else confirms.
pub const TOO_MANY_NOTICES: &str = "TooManyNotices";
/// Event on a NodePool: garbage collection keeps its instances without a NodeClaim, because they are suspiciously many.
pub const ORPHANED_INSTANCES_KEPT: &str = "OrphanedInstancesKept";
/// NodePool, and event on it or on a pod: the controller lacks a permission that an annotation needs.
pub const PERMISSION_MISSING: &str = "PermissionMissing";
/// Agent: every gate is open.
pub const GATES_OPEN: &str = "GatesOpen";

/// Pod: the scheduler found no node.
pub const UNSCHEDULABLE: &str = "Unschedulable";

/// Event on a pod: no NodePool can provide a node.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// Event on a pod: it is expected on the named NodeClaim or Node.
pub const NOMINATED: &str = "Nominated";
/// Event on a pod or Node: its do-not-disrupt annotation is invalid and protects nothing.
pub const INVALID_DO_NOT_DISRUPT_ANNOTATION: &str = "InvalidDoNotDisruptAnnotation";
/// Event on a PodDisruptionBudget and its pods: no eviction of these pods will ever be allowed.
pub const NEVER_EVICTED: &str = "NeverEvicted";
/// Event on a PodDisruptionBudget: it selects no pod.
pub const SELECTS_NOTHING: &str = "SelectsNothing";
/// Event on a Node: its label names a NodePool, but the Node has no NodeClaim.
pub const NODE_CLAIM_MISSING: &str = "NodeClaimMissing";
/// Event on any object: one of its settings has no effect, because nothing reads it.
pub const NO_EFFECT: &str = "NoEffect";
/// Event on an EC2NodeClass: the controller's IAM policies deny tags of instances, which are left out.
pub const TAGS_DENIED: &str = "TagsDenied";
/// Event on a Node that has not started: it has a taint that its NodePool does not declare.
pub const UNDECLARED_TAINT: &str = "UndeclaredTaint";
/// Event on a NodeUsage: it is ignored, because it is stale, from the future or of another instance.
pub const USAGE_IGNORED: &str = "UsageIgnored";
/// Event on an object: one of its annotations is invalid and counts as absent.
pub const INVALID_ANNOTATION: &str = "InvalidAnnotation";
/// Event on an object: one of its fields is invalid.
pub const INVALID_FIELD: &str = "InvalidField";
/// Event on a pod: its annotations for the split over on-demand and spot are invalid.
pub const INVALID_SPLIT_ANNOTATION: &str = "InvalidSplitAnnotation";
/// Event on a pod: its requests were lowered to its utilization.
pub const REQUESTS_LOWERED: &str = "RequestsLowered";
/// Event on a pod: requests that were lowered before were raised again.
pub const REQUESTS_RAISED: &str = "RequestsRaised";
/// Event on a pod or the owner of pods: the requests exceed the utilization.
pub const REQUESTS_ABOVE_USE: &str = "RequestsAboveUse";
/// Event on a NodePool: no instance type matches its requirements.
pub const NO_COMPATIBLE_INSTANCE_TYPES: &str = "NoCompatibleInstanceTypes";
/// Event on a NodeClaim: EC2 has no capacity for any of its offerings.
pub const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacityError";
/// Event on a NodeClaim: its Node started without the taint that repels pods until registration.
pub const UNREGISTERED_TAINT_MISSING: &str = "UnregisteredTaintMissing";
/// Event on a replacement: its launch is in progress.
pub const DISRUPTION_LAUNCHING: &str = "DisruptionLaunching";
/// Event on a replacement: the nodes that it replaces wait for its initialization.
pub const DISRUPTION_WAITING_READINESS: &str = "DisruptionWaitingReadiness";
/// Event on Node and NodeClaim: they are being disrupted.
pub const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
/// Event on Node, NodeClaim or NodePool: their disruption is blocked.
pub const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
/// Event on Node, NodeClaim and NodePool: an unhealthy node is not repaired, because too many nodes of its NodePool are
/// unhealthy.
pub const NODE_REPAIR_BLOCKED: &str = "NodeRepairBlocked";
/// Event on Node and NodeClaim: they will be consolidated if nothing changes for a while.
pub const CONSOLIDATION_CANDIDATE: &str = "ConsolidationCandidate";
/// Event on Node and NodeClaim: a change ended their consolidation before it began.
pub const CONSOLIDATION_REJECTED: &str = "ConsolidationRejected";
/// Event on Node and NodeClaim: there is no cheaper replacement.
pub const UNCONSOLIDATABLE: &str = "Unconsolidatable";
/// Event on a pod: its node is being drained, and its eviction waits until a copy is ready on another node.
pub const SURGING: &str = "Surging";
/// Event on a Node: its drain cannot continue.
pub const FAILED_DRAINING: &str = "FailedDraining";
/// Node: the deadline came before all pods were evicted.
pub const DRAIN_INCOMPLETE: &str = "DrainIncomplete";
/// Node: no drain request is left.
pub const DRAIN_WITHDRAWN: &str = "DrainWithdrawn";
/// Node: the drain request is invalid.
pub const DRAIN_REQUEST_INVALID: &str = "DrainRequestInvalid";
/// Event on a Node: its agent was requested to drain it and does not, so the controller does.
pub const DRAIN_TAKEN_OVER: &str = "DrainTakenOver";
/// Event on Node and NodeClaim: the time from which pods are deleted by force is set.
pub const TERMINATION_GRACE_PERIOD_EXPIRING: &str = "TerminationGracePeriodExpiring";
/// Event on Node and NodeClaim: EC2 reclaims a spot instance.
pub const SPOT_INTERRUPTED: &str = "SpotInterrupted";
/// Event on Node and NodeClaim: EC2 expects to reclaim a spot instance.
pub const SPOT_REBALANCE_RECOMMENDATION: &str = "SpotRebalanceRecommendation";
/// Event on Node and NodeClaim: their instance is stopping, and Kerf did not request this.
pub const INSTANCE_STOPPING: &str = "InstanceStopping";
/// Event on Node and NodeClaim: their instance is terminating, and Kerf did not request this.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// Event on Node and NodeClaim: their instance fails EC2's status checks, or EC2 has scheduled maintenance for it.
pub const INSTANCE_UNHEALTHY: &str = "InstanceUnhealthy";
/// Event on Node and NodeClaim: EC2 reclaims the capacity reservation of their instance.
pub const CAPACITY_RESERVATION_INSTANCE_INTERRUPTED: &str = "CapacityReservationInstanceInterrupted";
/// Event on Node and NodeClaim: they are terminated because of an interruption.
pub const TERMINATING_ON_INTERRUPTION: &str = "TerminatingOnInterruption";
/// Event: an object of a watch could not be parsed and was skipped.
pub const MALFORMED_OBJECT: &str = "MalformedObject";
/// Event on a Node: another Node registered for the instance of its provider id, so that this one has no effect.
pub const PROVIDER_ID_CONFLICT: &str = "ProviderIDConflict";
/// Event on a Node: it had other labels than its NodeClaim for what was launched, such as the zone.
pub const LABELS_RESTORED: &str = "LabelsRestored";
/// Event on a NodeClaim: the agent waits to be replaced, as its image asks for and its NodePool does not.
pub const REBALANCE_NOT_APPROVED: &str = "RebalanceNotApproved";
/// Event on any object: its reconcile panicked and is retried.
pub const INTERNAL_ERROR: &str = "InternalError";
/// NodePool: a budget or an annotation is invalid.
pub const DISRUPTION_INVALID: &str = "DisruptionInvalid";
/// NodePool: some DaemonSets do not tolerate the startup taint, and start only after the agent reports the node as ready.
pub const TOLERATION_MISSING: &str = "TolerationMissing";
/// Event on a Node: the agent cannot apply the configuration that the instance received at its launch.
pub const BOOTSTRAP_FAILED: &str = "BootstrapFailed";
/// Event on a Node: the agent has waited long for a prerequisite of kubelet.
pub const BOOTSTRAP_WAITING: &str = "BootstrapWaiting";
/// Interruption, False: it was cancelled, or the instance has rebooted since.
pub const INTERRUPTION_OVER: &str = "InterruptionOver";
/// Event on NodePool: a zonal shift excludes one of its zones. Event on NodeClaim: its instance is not terminated during the shift.
pub const ZONAL_SHIFT_ACTIVE: &str = "ZonalShiftActive";
/// Event on NodePool: a zonal shift no longer excludes one of its zones.
pub const ZONAL_SHIFT_CLEARED: &str = "ZonalShiftCleared";
/// Condition of health, False: a file system cannot be written.
pub const READONLY_FILESYSTEM: &str = "ReadonlyFilesystem";
/// Condition of health, False: the kernel has shut down a file system.
pub const FILESYSTEM_SHUTDOWN: &str = "FilesystemShutdown";
/// Condition of health, False: an NVIDIA GPU no longer responds.
pub const NVIDIA_DEVICE_COUNT_MISMATCH: &str = "NvidiaDeviceCountMismatch";
/// Condition of health, False: a Neuron device no longer responds.
pub const NEURON_DEVICE_COUNT_MISMATCH: &str = "NeuronDeviceCountMismatch";
