//! Which nodes static pools give back: claims without an instance first, then empty nodes, then those that disturb least.

use std::collections::BTreeMap;

use crate::{Node, Pool, Snapshot, Stage};

use super::agenda::Position;
use super::judge::Judge;
use super::worth::cost_of;

/// Nodes that static pools have too many of beside those that go anyway, but for those that expect pods.
pub(super) fn of<'a>(snapshot: &'a Snapshot, judge: &Judge<'_>, goes: impl Fn(Position) -> bool) -> Vec<Position> {
    let mut by_pool: BTreeMap<&str, Vec<Position>> = BTreeMap::new();
    for (position, node) in snapshot.nodes.iter().enumerate() {
        if node.claim.is_some() && node.leaving.is_none() && !goes(position) {
            by_pool.entry(node.pool.as_deref().unwrap_or_default()).or_default().push(position);
        }
    }
    let of_static = |pool: &'a Pool| Some((pool.name.as_str(), pool.replicas?));
    let replicas: BTreeMap<&str, u32> = snapshot.pools.iter().filter_map(of_static).collect();
    let mut gone = Vec::new();
    for (pool, replicas) in replicas {
        let mut own = by_pool.remove(pool).unwrap_or_default();
        let surplus = own.len().saturating_sub(replicas as usize);
        own.retain(|position| !judge.is_expected(&snapshot.nodes[*position]));
        own.sort_by_cached_key(|position| dearness(snapshot, &snapshot.nodes[*position]));
        gone.extend(own.into_iter().take(surplus));
    }
    gone
}

/// What it costs to take a node away; less goes first.
fn dearness(snapshot: &Snapshot, node: &Node) -> (bool, bool, bool, i64, String) {
    let in_use = node.pods.iter().any(|pod| pod.reschedulable);
    let held = node.do_not_disrupt || node.pods.iter().any(|pod| pod.do_not_disrupt);
    (node.stage != Stage::InFlight, held || in_use, held, remaining(snapshot, node), node.name.clone())
}

/// What disrupting it counts for, less the less of its life is left.
fn remaining(snapshot: &Snapshot, node: &Node) -> i64 {
    let cost = i128::from(cost_of(node));
    let Some(expires) = node.expires else { return cost_of(node) };
    let life = i128::from(expires.0 - node.created.0).max(1);
    let left = i128::from(expires.0 - snapshot.now.0).clamp(0, life);
    i64::try_from(cost * left / life).unwrap_or(i64::MAX)
}
