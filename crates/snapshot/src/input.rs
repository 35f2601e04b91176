//! Input of a snapshot.

mod delays;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
};
use api::{CapacityBuffer, Commitment, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy, annotation};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::{Catalogue, MicroDollars, MinValuesPolicy, Policy, PreferencePolicy, PreferencePremium};

pub use delays::{Delays, FailedReplacements};
pub use objects::Objects;

/// Minimum age of an object before the absence of its counterpart is a problem.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);

/// Input of a snapshot. Lists may be in any order; the snapshot has its own order.
///
/// Objects are in `Arc`s, so that [`crate::SnapshotCache`] recognizes an unchanged object by its address.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// Time of the snapshot.
    pub now: Timestamp,
    /// Seed for the remaining ties.
    pub seed: u64,
    /// All pods, bound or not.
    pub pods: Vec<&'a Arc<Pod>>,
    /// All nodes, managed or not.
    pub nodes: Vec<&'a Arc<Node>>,
    /// All NodeClaims.
    pub claims: Vec<&'a Arc<NodeClaim>>,
    /// All NodePools; the snapshot omits those that are not ready or being deleted.
    pub pools: Vec<&'a Arc<NodePool>>,
    /// All DaemonSets.
    pub daemon_sets: Vec<&'a Arc<DaemonSet>>,
    /// All PodDisruptionBudgets.
    pub budgets: Vec<&'a Arc<PodDisruptionBudget>>,
    /// Reports of agents on the utilization of their nodes.
    pub usages: Vec<&'a Arc<NodeReport>>,
    /// All PersistentVolumeClaims.
    pub volume_claims: Vec<&'a Arc<PersistentVolumeClaim>>,
    /// All PersistentVolumes.
    pub volumes: Vec<&'a Arc<PersistentVolume>>,
    /// All StorageClasses.
    pub storage_classes: Vec<&'a Arc<StorageClass>>,
    /// All CSINodes.
    pub csi_nodes: Vec<&'a Arc<CSINode>>,
    /// All Namespaces.
    pub namespaces: Vec<&'a Arc<Namespace>>,
    /// All NodeOverlays; empty if the feature gate is disabled.
    pub overlays: Vec<&'a Arc<NodeOverlay>>,
    /// All CapacityBuffers; empty if the feature gate is disabled.
    pub buffers: Vec<&'a Arc<CapacityBuffer>>,
    /// All ProvisioningRequests.
    pub requests: Vec<&'a Arc<ProvisioningRequest>>,
    /// All SpendPolicies.
    pub spend_policies: Vec<&'a Arc<SpendPolicy>>,
    /// All Commitments.
    pub commitments: Vec<&'a Arc<Commitment>>,
    /// PodTemplates that buffers and requests reference.
    pub pod_templates: Vec<&'a Arc<PodTemplate>>,
    /// All LimitRanges.
    pub limit_ranges: Vec<&'a Arc<LimitRange>>,
    /// All RuntimeClasses.
    pub runtime_classes: Vec<&'a Arc<RuntimeClass>>,
    /// All PriorityClasses.
    pub priority_classes: Vec<&'a Arc<PriorityClass>>,
    /// Deployments that buffers reference.
    pub deployments: Vec<&'a Arc<Deployment>>,
    /// ReplicaSets that buffers reference.
    pub replica_sets: Vec<&'a Arc<ReplicaSet>>,
    /// StatefulSets that buffers reference.
    pub stateful_sets: Vec<&'a Arc<StatefulSet>>,
    /// Catalogues by the name of the EC2NodeClass. A NodePool whose EC2NodeClass has no entry is omitted and reported as a
    /// problem.
    pub catalogues: BTreeMap<String, Arc<Catalogue>>,
    /// Further labels of instance types besides the well-known ones. Pods may require them without an entry in the NodePool.
    pub type_labels: BTreeSet<String>,
    /// Nominations of recent plans in the order in which they were made: pod UID and the name of a Node or NodeClaim.
    pub nominations: Vec<(String, String)>,
    /// Times until which such nominations protect nodes, by the name of the Node or NodeClaim.
    pub nominated_until: BTreeMap<String, Timestamp>,
    /// Times since which EC2's status checks of instances fail, by instance id.
    pub impaired: BTreeMap<String, Timestamp>,
    /// Delays after attempts that failed; empty without a running controller.
    pub delays: Delays,
    /// Limits and policies of the planner.
    pub settings: Settings,
}

/// Settings of the planner that are not objects of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of search steps.
    pub max_steps: u64,
    /// Maximum number of instance types per launch.
    pub max_instance_types: usize,
    /// Treatment of preferences (`PREFERENCE_POLICY`).
    pub preferences: PreferencePolicy,
    /// Maximum premium for the preferences of a workload (`PREFERENCE_PREMIUM`).
    pub preference_premium: PreferencePremium,
    /// Treatment of `minValues` that cannot be met (`MIN_VALUES_POLICY`).
    pub min_values: MinValuesPolicy,
    /// Minimum number of instance types in a launch that allows spot, if the pods' requirements allow so many.
    pub least_spot_types: usize,
    /// True if cheaper spot may replace spot (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
    /// Nodes that are replaced while they are unhealthy.
    pub node_repair: NodeRepair,
    /// True if requests of pods can be resized in place. Without resize, NodePools that lower requests only observe.
    pub resize: bool,
    /// True if a copy of a pod can start before its eviction. Otherwise pods are evicted as without `kerf.sh/surge`.
    pub surge: bool,
    /// Maximum hourly cost of all nodes (`MAX_COST_PER_HOUR`).
    pub cost_limit: Option<MicroDollars>,
    /// True if NodePools with `replicas` get their nodes (feature gate `StaticCapacity`); otherwise they are omitted.
    pub static_pools: bool,
}

/// Nodes that are replaced while they are unhealthy (feature gate `NodeRepair`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeRepair {
    /// None: the gate is closed.
    Off,
    /// Those with Kerf's agent: the gate is not set.
    #[default]
    WithAgent,
    /// All: the gate is open.
    All,
}

impl NodeRepair {
    /// Returns the nodes for a value of the gate, if it is set.
    #[must_use]
    pub fn from_gate(value: Option<bool>) -> Self {
        match value {
            None => Self::WithAgent,
            Some(true) => Self::All,
            Some(false) => Self::Off,
        }
    }

    /// Reports whether a node is replaced while it is unhealthy.
    #[must_use]
    pub fn covers(self, node: &Node) -> bool {
        match self {
            Self::Off => false,
            Self::WithAgent => node.annotation(annotation::AGENT_HEARTBEAT).is_some(),
            Self::All => true,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            max_steps: policy.max_steps,
            max_instance_types: policy.max_instance_types,
            preferences: policy.preferences,
            preference_premium: policy.preference_premium,
            min_values: policy.min_values,
            least_spot_types: policy.least_spot_types,
            spot_to_spot: policy.spot_to_spot,
            node_repair: NodeRepair::default(),
            resize: true,
            surge: true,
            cost_limit: None,
            static_pools: true,
        }
    }
}

impl Input<'_> {
    /// Creates the input of an empty cluster at a time.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            seed: 0,
            pods: Vec::new(),
            nodes: Vec::new(),
            claims: Vec::new(),
            pools: Vec::new(),
            daemon_sets: Vec::new(),
            budgets: Vec::new(),
            usages: Vec::new(),
            volume_claims: Vec::new(),
            volumes: Vec::new(),
            storage_classes: Vec::new(),
            csi_nodes: Vec::new(),
            namespaces: Vec::new(),
            overlays: Vec::new(),
            buffers: Vec::new(),
            requests: Vec::new(),
            spend_policies: Vec::new(),
            commitments: Vec::new(),
            pod_templates: Vec::new(),
            limit_ranges: Vec::new(),
            runtime_classes: Vec::new(),
            priority_classes: Vec::new(),
            deployments: Vec::new(),
            replica_sets: Vec::new(),
            stateful_sets: Vec::new(),
            catalogues: BTreeMap::new(),
            type_labels: BTreeSet::new(),
            nominations: Vec::new(),
            nominated_until: BTreeMap::new(),
            impaired: BTreeMap::new(),
            delays: Delays::default(),
            settings: Settings::default(),
        }
    }

    /// Reports whether an object is so old that the absence of its counterpart is a problem. An object without a creation time
    /// is.
    pub(crate) fn is_settled(&self, metadata: &ObjectMeta) -> bool {
        metadata.creation_timestamp.as_ref().is_none_or(|at| self.now.duration_since(at.0) >= SETTLED)
    }
}
