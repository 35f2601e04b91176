//! Every annotation key and fixed annotation value, once.

/// On a pod: `true` or a Go duration since its start; on a Node: exactly `true`. Blocks voluntary disruption.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Drift hash of the pool's template, on pool, claim and Node.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the recipe behind [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// RFC 3339 instant at which a terminating claim is forced, on claim and Node.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// `true` or `false` on a claim: whether minValues were lowered to make it launchable.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// `true` on a claim whose candidate types were priced by a NodeOverlay.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// `true` on a claim whose candidate types were sized by a NodeOverlay.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";

/// Drift hash of an EC2NodeClass, on class and claim.
pub const EC2_NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Version of the recipe behind [`EC2_NODE_CLASS_HASH`].
pub const EC2_NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// Instance profile that the claim's machine uses.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
/// `true` on a claim whose instance has its late tags (Name, nodeclaim).
pub const INSTANCE_TAGGED: &str = "karpenter.k8s.aws/tagged";
/// `true` on a claim whose instance carries the cluster's name as a tag.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";

/// On an EC2NodeClass: [`AGENT_ENABLED`] when its images carry the Kerf agent.
pub const AGENT: &str = "kerf.sh/agent";
/// Value of [`AGENT`].
pub const AGENT_ENABLED: &str = "enabled";
/// On an EC2NodeClass: settings of the agent on its machines, a YAML document that becomes a part of their user data.
pub const AGENT_SETTINGS: &str = "kerf.sh/agent-settings";
/// On an EC2NodeClass: a duration such as `15m`, after which a registered node whose gates are not open is given up and replaced.
pub const GATE_TIMEOUT: &str = "kerf.sh/gate-timeout";
/// On a Node: RFC 3339 instant of the agent's last report.
pub const AGENT_HEARTBEAT: &str = "kerf.sh/agent-heartbeat";
/// On a Node: how its start went, JSON: the agent's `start`, and milliseconds from there by stage.
pub const TIMELINE: &str = "kerf.sh/timeline";
/// On a Node: RFC 3339 instant at which EC2 takes the machine.
pub const INTERRUPTION_DEADLINE: &str = "kerf.sh/interruption-deadline";
/// On a Node: the controller, or a person, asks the agent to empty it; a [`crate::DrainRequest`].
pub const DRAIN: &str = "kerf.sh/drain";
/// On a Node: the controller empties it itself, and its agent asks for no pod; a [`crate::DrainTaken`].
pub const DRAIN_TAKEN_OVER: &str = "kerf.sh/drain-taken-over";
/// On a Node, and in a NodePool's template: what a rebalance recommendation does: `ignore`, `cordon` or `replace`.
pub const REBALANCE: &str = "kerf.sh/rebalance";
/// On a Node: the id of the recommendation after which the controller wants the node drained.
pub const REPLACEMENT_APPROVED: &str = "kerf.sh/replacement-approved";
/// On a claim: client token of its CreateFleet, written before the call.
pub const LAUNCH_TOKEN: &str = "kerf.sh/launch-token";
/// On a claim: the claims that go once it is initialized, a comma list.
pub const REPLACES: &str = "kerf.sh/replaces";
/// On a claim that goes: the claims that must be initialized before, a comma list. It is there as long as the move is under way,
/// and the claims that carry the same list go together.
pub const REPLACED_BY: &str = "kerf.sh/replaced-by";

/// On a NodePool: what each of its nodes costs beside its price, in dollars per hour such as `0.01`: agents and licences.
pub const NODE_FEE: &str = "kerf.sh/node-fee";
/// On a NodePool: work that machines do, as a comma list such as `family=m8g:1.25,generation=7:1.1`; see
/// [`crate::performance`]. A NodeOverlay's [`PERFORMANCE`] is more special and wins.
pub const PERFORMANCE_FACTORS: &str = "kerf.sh/performance-factors";
/// On a NodePool: the time zone whose clocks schedules of its budgets go by, such as `Europe/Berlin`; UTC without it.
pub const BUDGET_TIMEZONE: &str = "kerf.sh/budget-timezone";
/// On a NodePool: what a consolidation must save of what its nodes cost, such as `2.5%`.
pub const CONSOLIDATION_MIN_SAVING: &str = "kerf.sh/consolidation-min-saving";
/// On a NodePool: what a consolidation must save for each pod that it evicts, in dollars per hour such as `0.005`.
pub const CONSOLIDATION_MIN_SAVING_PER_POD: &str = "kerf.sh/consolidation-min-saving-per-pod";
/// On a NodePool: a duration such as `10m`, for how long a new node of it costs money before it is of use, images pulled and
/// caches warm. A consolidation must earn that back within the time for which its nodes have stood, a day at most.
pub const CONSOLIDATION_WARM_UP: &str = "kerf.sh/consolidation-warm-up";
/// On a NodePool: what reports of real use count for: `ignore`, `observe` or `pack`.
pub const UTILIZATION: &str = "kerf.sh/utilization";
/// On a NodePool with [`UTILIZATION`] `pack`: how much more than its pods use their requests leave, such as `20%`.
pub const PACK_MARGIN: &str = "kerf.sh/pack-margin";
/// On a NodePool with [`UTILIZATION`] `pack`: what is left of a request at least, such as `50%`.
pub const PACK_FLOOR: &str = "kerf.sh/pack-floor";
/// On a NodePool with [`UTILIZATION`] `pack`: how long a pod must have been watched before its requests change, such as `24h`.
pub const PACK_MIN_HISTORY: &str = "kerf.sh/pack-min-history";
/// On a pod, copied from its template: [`RESIZE_NEVER`] keeps its requests as they are.
pub const RESIZE: &str = "kerf.sh/resize";
/// Value of [`RESIZE`].
pub const RESIZE_NEVER: &str = "never";
/// On a pod whose requests were lowered: what its containers requested before; see [`crate::objects::Requested`].
pub const REQUESTED: &str = "kerf.sh/requested";
/// On a pod: when it got its requests back because something was short or kubelet could not lower them, a comma list of RFC 3339
/// instants.
pub const GIVEN_BACK: &str = "kerf.sh/requests-given-back";
/// On a pod, copied from its template: a duration such as `4h`; a pod that has run for less is not moved to save money, so its
/// workload is disturbed at most so often.
pub const DISRUPT_AT_MOST_ONCE_PER: &str = "kerf.sh/disrupt-at-most-once-per";
/// On a pod, copied from its template: [`TRUE`] when a copy of it is to be up before it is evicted, `false` when not. On a NodePool:
/// [`TRUE`] when that holds for all single pods of Deployments on its nodes.
pub const SURGE: &str = "kerf.sh/surge";
/// On a pod that waits for its copy: whose pod it was, and since when it is not any more; see [`crate::objects::Surged`].
pub const SURGED: &str = "kerf.sh/surged";
/// On a NodeOverlay: work that its machines do, as a factor such as `1.15`.
pub const PERFORMANCE: &str = "kerf.sh/performance";

/// On a pod, or as a label of it: how many pods of its workload never go to spot, such as `2`; see [`crate::mix`].
pub const ON_DEMAND_BASE: &str = "kerf.sh/on-demand-base";
/// On a pod, or as a label of it: how many of the workload's other pods are to be on spot, such as `70%`.
pub const SPOT_SHARE: &str = "kerf.sh/spot-share";

/// On a pod of a Node: set by kubelet for a pod that comes from a file, not from the API.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// On a pod: a number; of the pods of a ReplicaSet those with the lower go first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// On a PersistentVolumeClaim: present once its binding to a volume is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a PersistentVolumeClaim: name of its class, from the time before the field.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a StorageClass: `true` when claims without a class get this one.
pub const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The older spelling of [`DEFAULT_STORAGE_CLASS`].
pub const BETA_DEFAULT_STORAGE_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

/// On anything: the object as `kubectl apply` last sent it, as large as the object itself.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The value `true` of annotations that are switches.
pub const TRUE: &str = "true";
