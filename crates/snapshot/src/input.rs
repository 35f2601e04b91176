//! What a snapshot is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{
    CSINode, DaemonSet, Deployment, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodTemplate, ReplicaSet, StatefulSet, StorageClass,
};
use api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use jiff::Timestamp;
use planner::{Catalogue, MinValuesPolicy, Policy, PreferencePolicy};

/// What a snapshot is made of. Lists may come in any order; the snapshot has its own.
///
/// Objects come in `Arc`s, so that [`crate::Memory`] knows an object that it has seen before by its address.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The moment that the snapshot speaks of.
    pub now: Timestamp,
    /// Breaks ties that nothing else breaks.
    pub seed: u64,
    /// All pods, bound or not.
    pub pods: Vec<&'a Arc<Pod>>,
    /// All nodes, managed or not.
    pub nodes: Vec<&'a Arc<Node>>,
    /// All NodeClaims.
    pub claims: Vec<&'a Arc<NodeClaim>>,
    /// All NodePools; those that are not ready or being deleted are left out.
    pub pools: Vec<&'a Arc<NodePool>>,
    /// All DaemonSets.
    pub daemon_sets: Vec<&'a Arc<DaemonSet>>,
    /// All PodDisruptionBudgets.
    pub budgets: Vec<&'a Arc<PodDisruptionBudget>>,
    /// What agents say of their nodes' use.
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
    /// All NodeOverlays; none where the feature gate is off.
    pub overlays: Vec<&'a Arc<NodeOverlay>>,
    /// All CapacityBuffers; none where the feature gate is off.
    pub buffers: Vec<&'a Arc<CapacityBuffer>>,
    /// The PodTemplates that buffers name.
    pub pod_templates: Vec<&'a Arc<PodTemplate>>,
    /// The Deployments that buffers follow.
    pub deployments: Vec<&'a Arc<Deployment>>,
    /// The ReplicaSets that buffers follow.
    pub replica_sets: Vec<&'a Arc<ReplicaSet>>,
    /// The StatefulSets that buffers follow.
    pub stateful_sets: Vec<&'a Arc<StatefulSet>>,
    /// What can be bought, by the node class's name; a pool whose class has no entry is left out and named as a problem.
    pub catalogues: BTreeMap<String, Arc<Catalogue>>,
    /// Labels besides the well-known ones that instance types decide on: pods may ask for them, pools need not name them.
    pub type_labels: BTreeSet<String>,
    /// Promises of recent plans in the order in which they were made: pod UID and the name of a Node or NodeClaim.
    pub nominations: Vec<(String, String)>,
    /// Until when nodes are protected by such promises, by the name of the Node or NodeClaim.
    pub nominated_until: BTreeMap<String, Timestamp>,
    /// Since when EC2's status checks of instances fail, by the instance's id.
    pub impaired: BTreeMap<String, Timestamp>,
    /// How hard the planner may try, and which policies apply.
    pub settings: Settings,
}

/// Settings of the planner that are not in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Upper bound on search steps.
    pub max_steps: u64,
    /// Instance types that one launch may list.
    pub max_instance_types: usize,
    /// What preferences count for (`PREFERENCE_POLICY`).
    pub preferences: PreferencePolicy,
    /// What happens when `minValues` cannot be met (`MIN_VALUES_POLICY`).
    pub min_values: MinValuesPolicy,
    /// Types that a launch which allows spot keeps where its pods' requirements do.
    pub least_spot_types: usize,
    /// Whether spot may be replaced by cheaper spot (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
    /// Whether sick nodes are replaced (feature gate `NodeRepair`).
    pub node_repair: bool,
    /// Whether requests of pods can be changed where they are; without it pools that pack only observe.
    pub resize: bool,
    /// Whether pools with `replicas` get their nodes (feature gate `StaticCapacity`); without it such pools are left out.
    pub static_pools: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            max_steps: policy.max_steps,
            max_instance_types: policy.max_instance_types,
            preferences: policy.preferences,
            min_values: policy.min_values,
            least_spot_types: policy.least_spot_types,
            spot_to_spot: policy.spot_to_spot,
            node_repair: false,
            resize: true,
            static_pools: true,
        }
    }
}

impl Input<'_> {
    /// An empty cluster at one moment.
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
            pod_templates: Vec::new(),
            deployments: Vec::new(),
            replica_sets: Vec::new(),
            stateful_sets: Vec::new(),
            catalogues: BTreeMap::new(),
            type_labels: BTreeSet::new(),
            nominations: Vec::new(),
            nominated_until: BTreeMap::new(),
            impaired: BTreeMap::new(),
            settings: Settings::default(),
        }
    }
}
