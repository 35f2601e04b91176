//! What the money for instances is spent on: starts, requests of pods, free capacity, empty nodes and drains.

use std::collections::BTreeMap;

use planner::{InstanceType, Resources, Size};
use simulator::surroundings::GPU;

use crate::clock::{HOUR, Moment};
use crate::cluster_state::ClusterState;
use crate::market::Instance;

/// What an instance, or a share of its price, is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// The Node is not initialized yet.
    Starting,
    /// Share that the node's pods request, of CPU, memory or GPUs, whichever is largest.
    Requested,
    /// The rest of a node with pods.
    Free,
    /// The node has no pod.
    Empty,
    /// The instance is interrupted, drained or terminated.
    Leaving,
}

/// Cost of all instances, in micro-dollars times milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spending(BTreeMap<Use, i128>);

impl Use {
    /// Returns the word of reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Requested => "requested",
            Self::Free => "free",
            Self::Empty => "empty",
            Self::Leaving => "leaving",
        }
    }
}

impl Spending {
    /// Adds the cost of all instances for a time in which nothing changed.
    pub fn add(&mut self, cluster_state: &ClusterState, passed: Moment) {
        for instance in cluster_state.market.instances.values() {
            let cost = i128::from(instance.price.0) * i128::from(passed);
            let initialized = cluster_state.nodes.get(&instance.id).is_some_and(|node| node.is_initialized());
            let requested =
                requested_share(&instance.kind, requests(cluster_state, instance), gpus(cluster_state, instance));
            match (is_leaving(cluster_state, instance), initialized, requested) {
                (true, ..) => self.spend(Use::Leaving, cost),
                (_, false, _) => self.spend(Use::Starting, cost),
                (_, _, 0) => self.spend(Use::Empty, cost),
                (_, _, share) => {
                    self.spend(Use::Requested, cost * share / 1_000);
                    self.spend(Use::Free, cost - cost * share / 1_000);
                }
            }
        }
    }

    fn spend(&mut self, purpose: Use, cost: i128) {
        *self.0.entry(purpose).or_default() += cost;
    }

    /// Returns what was spent after an earlier moment of the same simulation.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |purpose| before.0.get(purpose).copied().unwrap_or_default();
        Self(self.0.iter().map(|(purpose, cost)| (*purpose, cost - earlier(purpose))).collect())
    }

    /// Returns the cost of each use, in dollars.
    #[must_use]
    pub fn by_use(&self) -> BTreeMap<Use, f64> {
        self.0.iter().map(|(purpose, cost)| (*purpose, dollars(*cost))).collect()
    }

    /// Returns the cost of all instances, in dollars.
    #[must_use]
    pub fn dollars(&self) -> f64 {
        dollars(self.0.values().sum())
    }
}

fn requests(cluster_state: &ClusterState, instance: &Instance) -> Size {
    // Nodes that write false objects may claim any amount.
    cluster_state.pods_on(&instance.id).fold(Size::default(), |sum, (_, pod)| {
        let takes = pod.takes();
        Size { cpu: sum.cpu.saturating_add(takes.cpu), memory: sum.memory.saturating_add(takes.memory) }
    })
}

fn gpus(cluster_state: &ClusterState, instance: &Instance) -> i64 {
    cluster_state.pods_on(&instance.id).fold(0, |sum, (_, pod)| sum.saturating_add(pod.gpus))
}

fn is_leaving(cluster_state: &ClusterState, instance: &Instance) -> bool {
    let claim = cluster_state.claims.get(&instance.claim);
    instance.ending || instance.noticed || claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
}

/// Returns the largest share of CPU, memory and GPUs, in thousandths; 0 only without requests.
fn requested_share(kind: &InstanceType, sum: Size, gpus: i64) -> i128 {
    let share = |part: i64, resource| {
        let of = kind.allocatable.get(resource).max(1);
        (i128::from(part) * 1_000 + i128::from(of) - 1) / i128::from(of)
    };
    let shares = [share(sum.cpu, Resources::CPU), share(sum.memory, Resources::MEMORY), share(gpus, GPU)];
    shares.into_iter().max().unwrap_or_default().min(1_000)
}

fn dollars(spent: i128) -> f64 {
    spent as f64 / HOUR as f64 / 1e6
}
