//! What a node could go for, or the first reason why it stays whatever else may be true.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Disruption, Node, NodeVerdict, Pool, Snapshot, Stage};

/// What a node may go for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Free {
    /// Nothing runs there that would need another place.
    Empty,
}

/// Judges nodes one by one.
pub(super) struct Judge<'a> {
    snapshot: &'a Snapshot,
    pools: BTreeMap<&'a str, &'a Pool>,
    /// Nodes to which this plan sends pods.
    expecting: &'a BTreeSet<String>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, expecting: &'a BTreeSet<String>) -> Self {
        let pools = snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
        Self { snapshot, pools, expecting }
    }

    /// What a node may go for, budgets aside.
    pub(super) fn of(&self, node: &Node) -> Result<Free, NodeVerdict> {
        let in_use = node.pods.iter().filter(|pod| pod.reschedulable).count();
        let promised = node.nominated_until.is_some_and(|until| until > self.snapshot.now);
        if node.leaving.is_some() {
            return Err(NodeVerdict::Leaving);
        }
        if node.stage != Stage::Initialized {
            return Err(NodeVerdict::NotInitialized);
        }
        if in_use > 0 {
            return Err(NodeVerdict::InUse { pods: in_use });
        }
        if promised || self.expecting.contains(&node.name) {
            return Err(NodeVerdict::Nominated);
        }
        if node.do_not_disrupt {
            return Err(NodeVerdict::DoNotDisrupt);
        }
        if let Some(pod) = node.pods.iter().find(|pod| pod.do_not_disrupt) {
            return Err(NodeVerdict::PodDoNotDisrupt { pod: pod.name.clone() });
        }
        match self.pools.get(node.pool.as_deref().unwrap_or_default()) {
            None => Err(NodeVerdict::NoPool),
            Some(pool) if pool.replicas.is_some() => Err(NodeVerdict::Static),
            Some(pool) => self.is_quiet(node, &pool.disruption).map(|()| Free::Empty),
        }
    }

    /// Whether the pool has waited long enough, and how much longer it wants to.
    fn is_quiet(&self, node: &Node, disruption: &Disruption) -> Result<(), NodeVerdict> {
        let after = disruption.consolidate_after.ok_or(NodeVerdict::ConsolidationDisabled)?;
        let since = node.quiet_since.ok_or(NodeVerdict::NotInitialized)?;
        let remaining = since.0.saturating_add(after).saturating_sub(self.snapshot.now.0);
        if remaining > 0 { Err(NodeVerdict::Quiet { remaining }) } else { Ok(()) }
    }
}
