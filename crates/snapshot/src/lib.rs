//! Kubernetes objects become the planner's [`planner::Snapshot`], here and nowhere else.
//!
//! A live cluster and a folder of YAML take the same way, so that a decision can be repeated at a desk. The
//! translation is pure: instants come in with [`Input`], and what cannot be translated comes out by name, as an
//! ignored pod or as a problem, never as a failure of the whole.

mod budget;
mod daemons;
mod ignored;
mod nodes;
mod pools;
mod problem;
mod quantities;
mod rescheduling;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{DaemonSet, Node, Pod, PodDisruptionBudget};
use api::{NodeClaim, NodePool, label};
use jiff::Timestamp;
use planner::{Catalogue, Millis, Policy, Snapshot};

pub use ignored::{Constraint, Ignored, IgnoredReason};
pub use problem::Problem;

use nodes::Machine;
use shapes::Shapes;

/// What a snapshot is made of. Lists may come in any order; the snapshot has its own.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The moment that the snapshot speaks of.
    pub now: Timestamp,
    /// Breaks ties that nothing else breaks.
    pub seed: u64,
    /// All pods, bound or not.
    pub pods: Vec<&'a Pod>,
    /// All nodes, managed or not.
    pub nodes: Vec<&'a Node>,
    /// All NodeClaims.
    pub claims: Vec<&'a NodeClaim>,
    /// All NodePools; those that are not ready, static or being deleted are left out.
    pub pools: Vec<&'a NodePool>,
    /// All DaemonSets.
    pub daemon_sets: Vec<&'a DaemonSet>,
    /// All PodDisruptionBudgets.
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// What can be bought, by the node class's name; a pool whose class has no entry is left out and named as a problem.
    pub catalogues: BTreeMap<String, Arc<Catalogue>>,
    /// Promises of recent plans: pod UID to the name of a Node or NodeClaim.
    pub nominations: BTreeMap<String, String>,
    /// Until when nodes are protected by such promises, by the name of the Node or NodeClaim.
    pub nominated_until: BTreeMap<String, Timestamp>,
    /// How hard the planner may try.
    pub settings: Settings,
}

/// Settings of the planner that are not in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Upper bound on search steps.
    pub max_steps: u64,
    /// Instance types that one launch may list.
    pub max_instance_types: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let policy = Policy::default();
        Self { max_steps: policy.max_steps, max_instance_types: policy.max_instance_types }
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
            catalogues: BTreeMap::new(),
            nominations: BTreeMap::new(),
            nominated_until: BTreeMap::new(),
            settings: Settings::default(),
        }
    }
}

/// A snapshot with what did not go into it.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// The planner's input.
    pub snapshot: Snapshot,
    /// Pods that need a place and that the planner will not see, in the order of their names.
    pub ignored: Vec<Ignored>,
    /// Objects that could not be read in full.
    pub problems: Vec<Problem>,
}

/// Translates a cluster.
pub fn build(input: &Input<'_>) -> Built {
    let mut problems = Vec::new();
    let mut ignored = Vec::new();
    let mut shapes = Shapes::default();
    let catalogues: Vec<Arc<Catalogue>> = input.catalogues.values().cloned().collect();
    let machines = nodes::machines(input);
    let promises = nodes::promises(input, &machines);
    let mut pods = rescheduling::pending(input, &promises, &mut shapes, &mut ignored);
    pods.extend(rescheduling::leaving(input, &machines, &promises, &mut shapes, &mut ignored));
    pods.sort_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)));
    ignored.sort_by(|one, other| (&one.pod, &one.uid).cmp(&(&other.pod, &other.uid)));
    let nodes = machines.iter().map(|machine| Arc::new(nodes::translate(input, machine, &mut problems))).collect();
    let pools = pools::translate(input, &machines, &mut problems);
    let daemons = daemons::translate(input, &mut problems);
    let snapshot = Snapshot {
        now: millis(input.now),
        seed: input.seed,
        policy: policy(input.settings),
        pools,
        catalogues,
        nodes,
        shapes: shapes.into_list(),
        pods,
        daemons,
        namespaces: BTreeMap::new(),
    };
    Built { snapshot, ignored, problems }
}

fn policy(settings: Settings) -> Policy {
    let well_known = label::CORE_WELL_KNOWN.iter().chain(&label::AWS_WELL_KNOWN).map(|key| (*key).to_owned());
    Policy {
        max_steps: settings.max_steps,
        max_instance_types: settings.max_instance_types,
        well_known: well_known.collect::<BTreeSet<_>>(),
        ..Policy::default()
    }
}

fn millis(at: Timestamp) -> Millis {
    Millis(at.as_millisecond())
}

/// A claim and its Node, whichever of them exist; at least one does.
pub(crate) type Machines<'a> = [Machine<'a>];
