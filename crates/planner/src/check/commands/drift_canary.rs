//! Canary of drift: until enough nodes with the new configuration have been healthy for long enough, no more drifted nodes are
//! replaced than the canary has, and none while such a node is unhealthy.

use crate::check::Findings;
use crate::{CommandReason, Node, Plan, Pool, Snapshot, Stage};

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    for pool in &snapshot.pools {
        let Some(most) = most(snapshot, pool) else { continue };
        let drifts = plan.moves.iter().filter(|it| it.reason == CommandReason::Drifted).flat_map(|it| &it.nodes);
        let goes = drifts.filter(|gone| nodes(snapshot, pool).any(|node| node.name == gone.node)).count();
        findings.expect(goes <= most, &format!("pool {}", pool.name), || {
            format!("replaces {goes} drifted nodes, its canary allows {most}")
        });
    }
}

fn nodes<'a>(snapshot: &'a Snapshot, pool: &'a Pool) -> impl Iterator<Item = &'a Node> {
    let nodes = snapshot.nodes.iter().map(AsRef::as_ref);
    nodes.filter(|node: &&Node| node.claim.is_some() && node.pool.as_ref() == Some(&pool.name))
}

/// Returns the maximum number of drifted nodes; `None` without a canary, and when it is over.
fn most(snapshot: &Snapshot, pool: &Pool) -> Option<usize> {
    let canary = pool.disruption.canary?;
    let changed = nodes(snapshot, pool).filter_map(|node| node.drifted.as_ref().map(|drifted| drifted.since)).max()?;
    let is_new = |node: &&Node| node.drifted.is_none() && node.leaving.is_none() && node.created >= changed;
    let new: Vec<&Node> = nodes(snapshot, pool).filter(is_new).collect();
    let is_unhealthy = |node: &&Node| node.unhealthy.is_some() || node.healthy_since.is_none();
    if new.iter().filter(|node| node.stage == Stage::Initialized).any(is_unhealthy) {
        return Some(0);
    }
    let proven = |since: i64| since.saturating_add(canary.time) <= snapshot.now.0;
    let healthy = new.iter().filter(|node| node.healthy_since.is_some_and(|since| proven(since.0))).count();
    let wanted = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
    (healthy < wanted).then_some(wanted)
}
