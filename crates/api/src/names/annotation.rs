//! Annotation keys and fixed annotation values, each defined once.

/// Annotation that blocks voluntary disruption. On a pod: `true` or a Go duration since its start. On a Node: only `true`.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Drift hash of the NodePool's template, on NodePool, NodeClaim and Node.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Time in RFC 3339 at which a terminating NodeClaim is forced, on NodeClaim and Node.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Annotation of a NodeClaim: `true` if `minValues` were lowered to make the launch possible, otherwise `false`.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Annotation of a NodeClaim whose instance types have prices from a NodeOverlay; value `true`.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// Annotation of a NodeClaim whose instance types have capacity from a NodeOverlay; value `true`.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";

/// Drift hash of an EC2NodeClass, on EC2NodeClass and NodeClaim.
pub const EC2_NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Version of [`EC2_NODE_CLASS_HASH`].
pub const EC2_NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// Instance profile of the NodeClaim's instance.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
/// Annotation of a NodeClaim whose instance has its late tags (Name, nodeclaim); value `true`.
pub const INSTANCE_TAGGED: &str = "karpenter.k8s.aws/tagged";
/// Annotation of a NodeClaim whose instance has a tag with the name of the cluster; value `true`.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";

/// Annotation of a NodePool in Karpenter 1.0: kubelet settings of v1beta1 as JSON. Nothing reads it since Karpenter 1.1.
pub const KUBELET_CONVERSION: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// Annotation of a NodePool in Karpenter 1.0: the reference to its class in v1beta1 as JSON. Nothing reads it since Karpenter 1.1.
pub const NODE_CLASS_CONVERSION: &str = "compatibility.karpenter.sh/v1beta1-nodeclass-reference";

/// Annotation of an EC2NodeClass: [`AGENT_ENABLED`] if its images contain the Kerf agent.
pub const AGENT: &str = "kerf.sh/agent";
/// Value of [`AGENT`].
pub const AGENT_ENABLED: &str = "enabled";
/// Annotation of an EC2NodeClass: settings of the agent, a YAML document that becomes a part of the user data.
pub const AGENT_SETTINGS: &str = "kerf.sh/agent-settings";
/// Annotation of an EC2NodeClass: a duration such as `15m`. A registered node whose gates are not open by then is replaced.
pub const GATE_TIMEOUT: &str = "kerf.sh/gate-timeout";
/// Annotation of an EC2NodeClass: a duration such as `10m`. A node that does not return from a reboot by then is replaced.
pub const REBOOT_TIMEOUT: &str = "kerf.sh/reboot-timeout";
/// Annotation of a Node: time of the agent's last report, in RFC 3339.
pub const AGENT_HEARTBEAT: &str = "kerf.sh/agent-heartbeat";
/// Annotation of a Node: timeline of its start as JSON, with the agent's `start`, and milliseconds from there by stage. Annotation
/// of a NodeClaim: the same of the whole start, from the creation of the pod that needed the node; see [`crate::timeline`].
pub const TIMELINE: &str = "kerf.sh/timeline";
/// Annotation of a Node: time in RFC 3339 at which EC2 reclaims the instance.
pub const INTERRUPTION_DEADLINE: &str = "kerf.sh/interruption-deadline";
/// Annotation of a Node: request to the agent to drain the node, by the controller or a person; a [`crate::DrainRequest`].
pub const DRAIN: &str = "kerf.sh/drain";
/// Annotation of a Node: mark that the controller drains the node itself, so the agent evicts no pods; a [`crate::DrainTaken`]. On
/// a NodeClaim, which no node can write, it records that the controller keeps the drain whatever the node says.
pub const DRAIN_TAKEN_OVER: &str = "kerf.sh/drain-taken-over";
/// Annotation of a Node, and of a NodePool's template: reaction to a rebalance recommendation: `ignore`, `cordon` or `replace`.
pub const REBALANCE: &str = "kerf.sh/rebalance";
/// Annotation of a Node: id of the rebalance recommendation for which the controller approves the drain.
pub const REPLACEMENT_APPROVED: &str = "kerf.sh/replacement-approved";
/// Annotation of a NodeClaim that another controller launched: time at which Kerf took it over. For ten minutes from then on, its
/// node is not consolidated.
pub const ADOPTED_AT: &str = "kerf.sh/adopted-at";
/// Annotation of a NodeClaim: [`TRUE`] once Kerf lowers requests of a pod on its node. Only on such nodes [`REQUESTED`] counts.
pub const REQUESTS_LOWERED: &str = "kerf.sh/requests-lowered";
/// Annotation of a NodeClaim: client token of its CreateFleet call, written before the call.
pub const LAUNCH_TOKEN: &str = "kerf.sh/launch-token";
/// Annotation of a NodeClaim: NodeClaims that are removed once this one is initialized, separated by commas.
pub const REPLACES: &str = "kerf.sh/replaces";
/// Annotation of a NodeClaim that is to be removed: NodeClaims that must be initialized first, separated by commas. The
/// annotation is present while the disruption command is in progress. NodeClaims with the same list are removed together.
pub const REPLACED_BY: &str = "kerf.sh/replaced-by";

/// Annotation of a NodePool: removals in the last ten minutes that only agents' notices or failed status checks asked for, as JSON. The
/// controller writes it, so that their limit survives a restart.
pub const NOTICE_REMOVALS: &str = "kerf.sh/notice-removals";
/// Annotation of a NodePool: cost of each node besides its price, in dollars per hour such as `0.01`, for agents and licenses.
pub const NODE_FEE: &str = "kerf.sh/node-fee";
/// Annotation of a NodePool, and name of a limit in `spec.limits`: maximum cost of its nodes in dollars per hour such as `12.50`.
pub const MAX_COST_PER_HOUR: &str = "kerf.sh/max-cost-per-hour";
/// Annotation of a NodePool: performance factors, separated by commas, such as `family=m8g:1.25,generation=7:1.1`; see
/// [`crate::performance`]. The [`PERFORMANCE`] of a NodeOverlay is more specific and takes precedence.
pub const PERFORMANCE_FACTORS: &str = "kerf.sh/performance-factors";
/// Annotation of a NodePool: launches and replacements that failed, and nodes that no pod could use, as JSON. The controller writes
/// it, so that delays and pauses survive a restart.
pub const FAILED_ATTEMPTS: &str = "kerf.sh/failed-attempts";
/// Annotation of a NodePool: what preferences of pods on its nodes may cost, such as `10%`; see [`crate::price::premium`].
pub const PREFERENCE_PREMIUM: &str = "kerf.sh/preference-premium";
/// Annotation of a NodePool: time zone for the schedules of its budgets, such as `Europe/Berlin`. Absent: UTC.
pub const BUDGET_TIMEZONE: &str = "kerf.sh/budget-timezone";
/// Annotation of a NodePool: drifted nodes that are replaced first, and how long their replacements must be healthy before the others
/// follow, such as `10% for 15m`.
pub const DRIFT_CANARY: &str = "kerf.sh/drift-canary";
/// Annotation of a NodePool: minimum savings of a consolidation relative to the cost of its nodes, such as `2.5%`.
pub const CONSOLIDATION_MIN_SAVING: &str = "kerf.sh/consolidation-min-saving";
/// Annotation of a NodePool: minimum savings of a consolidation for each evicted pod, in dollars per hour such as `0.005`.
pub const CONSOLIDATION_MIN_SAVING_PER_POD: &str = "kerf.sh/consolidation-min-saving-per-pod";
/// Annotation of a NodePool: a duration such as `10m` for which a new node costs money before it is useful. In that time images
/// are pulled and caches warm up. A consolidation must earn that cost back within the age of its nodes, at most a day.
pub const CONSOLIDATION_WARM_UP: &str = "kerf.sh/consolidation-warm-up";
/// Annotation of a NodePool: work that evicted pods of Jobs would do again, as a cost of a consolidation: `count` or `ignore`.
pub const CONSOLIDATION_LOST_WORK: &str = "kerf.sh/consolidation-lost-work";
/// Annotation of a NodePool: use of utilization reports: `ignore`, `observe` or `pack`.
pub const UTILIZATION: &str = "kerf.sh/utilization";
/// Annotation of a NodePool with [`UTILIZATION`] `pack`: margin of the requests above the utilization of pods, such as `20%`.
pub const PACK_MARGIN: &str = "kerf.sh/pack-margin";
/// Annotation of a NodePool with [`UTILIZATION`] `pack`: lower bound of a lowered request, such as `50%`.
pub const PACK_FLOOR: &str = "kerf.sh/pack-floor";
/// Annotation of a NodePool with [`UTILIZATION`] `pack`: minimum history of a pod before its requests change, such as `24h`.
pub const PACK_MIN_HISTORY: &str = "kerf.sh/pack-min-history";
/// Annotation of a pod, from its template: [`RESIZE_NEVER`] keeps its requests unchanged.
pub const RESIZE: &str = "kerf.sh/resize";
/// Value of [`RESIZE`].
pub const RESIZE_NEVER: &str = "never";
/// Annotation of a pod whose requests were lowered: the original requests of its containers; see [`crate::objects::Requested`].
pub const REQUESTED: &str = "kerf.sh/requested";
/// Annotation of a pod: times at which its requests were raised back, because a resource was short or kubelet could not lower
/// them. RFC 3339, separated by commas.
pub const GIVEN_BACK: &str = "kerf.sh/requests-given-back";
/// Annotation of a pod, from its template: a duration such as `4h`. A pod that has run for less is not moved to save money,
/// which limits how often its workload is disrupted.
pub const DISRUPT_AT_MOST_ONCE_PER: &str = "kerf.sh/disrupt-at-most-once-per";
/// Annotation of a pod, from its template: [`TRUE`] if a copy must be ready before its eviction, `false` if not. Annotation of
/// a NodePool: [`TRUE`] if this applies to all single pods of Deployments on its nodes, `false` if to none. Absent: it applies to those
/// that a budget would block for ever.
pub const SURGE: &str = "kerf.sh/surge";
/// Annotation of a pod that waits for its copy: its former owner, and the time at which that ownership ended; see
/// [`crate::objects::Surged`].
pub const SURGED: &str = "kerf.sh/surged";
/// Annotation of a Node that KWOK simulates, with the value [`FAKE`].
pub const KWOK_NODE: &str = "kwok.x-k8s.io/node";
/// Value of [`KWOK_NODE`].
pub const FAKE: &str = "fake";
/// Annotation of a Node whose EC2 instance the controller emulates: the instance as JSON.
pub const EMULATED_INSTANCE: &str = "kerf.sh/emulated-instance";
/// Annotation of a Node whose EC2 instance the controller emulates: an event of EC2 that is to be emulated once, such as
/// `spot-interruption`. The controller removes it.
pub const EMULATED_EVENT: &str = "kerf.sh/emulated-event";
/// Annotation of an EC2NodeClass with the provider kwok: offerings without capacity in the emulated EC2, such as
/// `spot/us-east-1a, c6a.2xlarge`.
pub const EMULATED_SHORTAGE: &str = "kerf.sh/emulated-shortage";
/// Annotation of a CapacityBuffer: times at which it keeps capacity, such as `0 7 * * mon-fri for 11h in Europe/Berlin`; see
/// [`crate::schedule::Times`]. Annotation of a NodePool: times at which it has nodes. Absent: always.
pub const ACTIVE_TIMES: &str = "kerf.sh/active-times";
/// Annotation of a pod, from its template: number of pods of its group that must get places together, such as `50`; see
/// [`crate::objects::pod_group`].
pub const POD_GROUP_MIN: &str = "kerf.sh/pod-group-min";
/// Annotation of a pod, from its template: name of its group in its namespace. Absent: the pods of its owner, such as a Job.
pub const POD_GROUP: &str = "kerf.sh/pod-group";
/// Label of a pod: name of its group in Kueue.
pub const KUEUE_POD_GROUP: &str = "kueue.x-k8s.io/pod-group-name";
/// Annotation of a pod: number of pods of its group in Kueue.
pub const KUEUE_POD_GROUP_COUNT: &str = "kueue.x-k8s.io/pod-group-total-count";
/// Annotation of a pod: name of the ProvisioningRequest that has capacity for it.
pub const CONSUMES_REQUEST: &str = "autoscaling.x-k8s.io/consume-provisioning-request";
/// Older spelling of [`CONSUMES_REQUEST`].
pub const OLDER_CONSUMES_REQUEST: &str = "cluster-autoscaler.kubernetes.io/consume-provisioning-request";
/// Annotation of a NodeOverlay: work of its instance types, as a factor such as `1.15`.
pub const PERFORMANCE: &str = "kerf.sh/performance";

/// Annotation or label of a pod: number of pods of its workload that never run on spot, such as `2`; see [`crate::capacity_split`].
pub const ON_DEMAND_BASE: &str = "kerf.sh/on-demand-base";
/// Annotation or label of a pod: share of the workload's other pods on spot, such as `70%`.
pub const SPOT_SHARE: &str = "kerf.sh/spot-share";

/// Annotation of a pod, set by kubelet for a pod from a manifest on the node.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// Annotation of a DaemonSet, set by the API server: the generation of its pod template.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Annotation of a pod: a number. Of the pods of a ReplicaSet those with the lower number are deleted first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Annotation of a PersistentVolumeClaim, present once its binding to a volume is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of a PersistentVolumeClaim: name of its StorageClass, in the form that preceded the field.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Annotation of a StorageClass: `true` if it is the default of claims without a class.
pub const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Older spelling of [`DEFAULT_STORAGE_CLASS`].
pub const BETA_DEFAULT_STORAGE_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

/// Annotation of any object: the object as `kubectl apply` last sent it, as large as the object itself.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Value `true` of annotations that are switches.
pub const TRUE: &str = "true";
/// Value `false` of annotations that are switches.
pub const FALSE: &str = "false";
