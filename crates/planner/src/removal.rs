//! Which nodes go: those on which nothing runs that would need another place, quiet for long enough, within the budgets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Disruption, Node, NodeVerdict, Plan, PodVerdict, Pool, Removal, RemovalReason, Snapshot, Stage};

/// Adds the removal of empty nodes, and a verdict for every managed node. The dearest go first while a budget lasts.
pub(crate) fn remove_empty(snapshot: &Snapshot, plan: &mut Plan) {
    let expecting = plan.report.pods.iter().filter_map(|verdict| match verdict {
        PodVerdict::Existing { node, .. } => Some(node.as_str()),
        _ => None,
    });
    let nominated: BTreeSet<&str> = expecting.collect();
    let pools: BTreeMap<&str, &Pool> = snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let mut budgets: BTreeMap<&str, u32> =
        pools.iter().map(|(name, pool)| (*name, pool.disruption.empty_budget)).collect();
    let mut verdicts: Vec<Option<NodeVerdict>> = vec![None; snapshot.nodes.len()];
    let mut removals = Vec::new();
    for position in by_price(snapshot) {
        let node = &snapshot.nodes[position];
        let pool = node.pool.as_deref().unwrap_or_default();
        let staying = reason_to_stay(snapshot, node, pools.get(pool).copied(), nominated.contains(node.name.as_str()));
        let verdict = match (staying, budgets.get_mut(pool)) {
            (Some(verdict), _) => verdict,
            (None, Some(budget)) if *budget > 0 => {
                *budget -= 1;
                removals.push(removal(node));
                NodeVerdict::Remove(RemovalReason::Empty)
            }
            (None, _) => NodeVerdict::Budget,
        };
        verdicts[position] = Some(verdict);
    }
    plan.removals = removals;
    let managed = snapshot.nodes.iter().zip(verdicts);
    plan.report.nodes = managed.filter_map(|(node, verdict)| Some((node.name.clone(), verdict?))).collect();
}

/// Positions of the managed nodes, the dearest first, then by name.
fn by_price(snapshot: &Snapshot) -> Vec<usize> {
    let nodes = &snapshot.nodes;
    let mut managed: Vec<usize> = (0..nodes.len()).filter(|node| nodes[*node].claim.is_some()).collect();
    managed.sort_by_key(|node| (Reverse(nodes[*node].price), nodes[*node].name.as_str()));
    managed
}

fn removal(node: &Node) -> Removal {
    Removal {
        node: node.name.clone(),
        claim: node.claim.clone().unwrap_or_default(),
        reason: RemovalReason::Empty,
        saving: node.price,
    }
}

/// The first reason not to remove a node, budgets aside.
fn reason_to_stay(snapshot: &Snapshot, node: &Node, pool: Option<&Pool>, nominated: bool) -> Option<NodeVerdict> {
    let in_use = node.pods.iter().filter(|pod| pod.reschedulable).count();
    let promised = node.nominated_until.is_some_and(|until| until > snapshot.now);
    if node.leaving.is_some() {
        Some(NodeVerdict::Leaving)
    } else if node.stage != Stage::Initialized {
        Some(NodeVerdict::NotInitialized)
    } else if in_use > 0 {
        Some(NodeVerdict::InUse { pods: in_use })
    } else if nominated || promised {
        Some(NodeVerdict::Nominated)
    } else if node.do_not_disrupt || node.pods.iter().any(|pod| pod.do_not_disrupt) {
        Some(NodeVerdict::DoNotDisrupt)
    } else {
        match pool {
            None => Some(NodeVerdict::NoPool),
            Some(pool) if pool.replicas.is_some() => Some(NodeVerdict::Static),
            Some(pool) => still_quiet(snapshot, node, &pool.disruption),
        }
    }
}

/// Whether the pool wants to wait, and for how long.
fn still_quiet(snapshot: &Snapshot, node: &Node, disruption: &Disruption) -> Option<NodeVerdict> {
    let Some(after) = disruption.consolidate_after else { return Some(NodeVerdict::ConsolidationDisabled) };
    let Some(since) = node.quiet_since else { return Some(NodeVerdict::NotInitialized) };
    let remaining = since.0.saturating_add(after).saturating_sub(snapshot.now.0);
    (remaining > 0).then_some(NodeVerdict::Quiet { remaining })
}
