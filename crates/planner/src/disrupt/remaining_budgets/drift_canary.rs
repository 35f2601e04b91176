//! Drift in two steps: first as many nodes as the canary of the NodePool, the others once the replacements have been healthy for
//! some time.
//!
//! Nodes that were created after the last drift of the NodePool have the new configuration, whatever they were launched for. Another
//! change of the configuration makes these drift too, so that the canary begins again. While one of them is unhealthy, no further
//! node is replaced for drift.

use std::collections::BTreeMap;

use crate::{DriftCanary, Node, NodeVerdict, Snapshot, Stage};

/// Limit of drift in a NodePool whose canary is not over.
#[derive(Clone)]
pub(super) struct DriftHold {
    /// Number of drifted nodes that the plan may still remove.
    pub(super) allowed: u32,
    /// Verdict of the others.
    pub(super) verdict: NodeVerdict,
}

/// Returns the limit of each NodePool with drifted nodes and a canary that is not over.
pub(super) fn drift_holds(snapshot: &Snapshot) -> BTreeMap<&str, DriftHold> {
    let with_canary = snapshot.pools.iter().filter_map(|pool| Some((pool.name.as_str(), pool.disruption.canary?)));
    let hold = |(name, canary)| Some((name, Rollout::new(snapshot, name)?.hold(snapshot, name, canary)?));
    with_canary.filter_map(hold).collect()
}

/// Nodes of a NodePool with drifted nodes.
struct Rollout<'a> {
    /// Number of drifted nodes that are being removed.
    leaving: usize,
    /// Nodes with the new configuration.
    renewed: Vec<&'a Node>,
}

impl<'a> Rollout<'a> {
    /// Returns the nodes; `None` if no node has drifted.
    fn new(snapshot: &'a Snapshot, pool: &str) -> Option<Self> {
        let own = || {
            let nodes = snapshot.nodes.iter().map(|node| node.as_ref());
            nodes.filter(|node| node.claim.is_some() && node.pool.as_deref() == Some(pool))
        };
        let last = own().filter_map(|node| Some(node.drifted.as_ref()?.since)).max()?;
        let leaving = own().filter(|node| node.drifted.is_some() && node.leaving.is_some()).count();
        let is_renewed = |node: &&Node| node.drifted.is_none() && node.leaving.is_none() && node.created >= last;
        Some(Self { leaving, renewed: own().filter(is_renewed).collect() })
    }

    fn hold(&self, snapshot: &Snapshot, pool: &str, canary: DriftCanary) -> Option<DriftHold> {
        let pool = pool.to_owned();
        if let Some(node) = self.renewed.iter().filter(|node| is_unhealthy(node)).map(|node| &node.name).min() {
            let verdict = NodeVerdict::CanaryUnhealthy { pool, node: node.clone() };
            return Some(DriftHold { allowed: 0, verdict });
        }
        let mut ends: Vec<i64> =
            self.renewed.iter().filter_map(|node| Some(node.healthy_since?.0.saturating_add(canary.time))).collect();
        ends.sort_unstable();
        let healthy = ends.iter().filter(|end| **end <= snapshot.now.0).count();
        let nodes = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
        if healthy >= nodes {
            return None;
        }
        let begun = self.renewed.len().max(self.leaving);
        let remaining = ends.get(nodes.saturating_sub(1)).map(|end| end - snapshot.now.0);
        Some(DriftHold {
            allowed: u32::try_from(nodes.saturating_sub(begun)).unwrap_or(u32::MAX),
            verdict: NodeVerdict::AwaitsCanary { pool, healthy, nodes: canary.nodes, remaining },
        })
    }
}

/// Reports whether a node was initialized and is not healthy now. A node that starts is neither.
fn is_unhealthy(node: &Node) -> bool {
    node.stage == Stage::Initialized && (node.healthy_since.is_none() || node.unhealthy.is_some())
}
