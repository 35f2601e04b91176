//! Delays after attempts that failed: the state of open launches before a plan, and pods that a pause keeps without a place
//! after a plan. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::condition;
use api::objects::Pod;
use api::status::Conditioned;
use jiff::Timestamp;
use planner::{CapacityHolder, Launch, Plan, PodVerdict, Purpose, Stage};
use snapshot::{Delays, SnapshotResult};

use crate::state::attempts::PoolVersion;
use crate::state::attempts::launches::{AttemptState, AttemptView, BlockedLaunches, NodeUse, PodGroup, PodGroups};
use crate::state::attempts::stored::Attempts;
use crate::state::index::Index;

/// Nodes on which a plan places pods.
#[derive(Debug, Default)]
pub struct PlannedNodes {
    /// Nodes and NodeClaims for pending pods.
    pods: BTreeSet<String>,
    /// Registered nodes for virtual pods.
    virtual_pods: BTreeSet<String>,
}

/// Evaluates open launches and returns the delays of the next plan, after a plan that has placed pods on nodes.
pub fn delays(index: &Index, attempts: &Attempts, planned: &PlannedNodes, now: Timestamp) -> Delays {
    for pool in index.pools.values() {
        attempts.restore(index, pool, now);
    }
    let mut delays = Delays { replacements: attempts.replacements.failing(index), ..Delays::default() };
    let mut attempts = attempts.launches.lock();
    attempts.update(&AttemptView {
        state: &|claim| state(index, planned, claim),
        needs: &|group, pods| needs(index, group, pods),
        version: &|pool| PoolVersion::from_index(index, pool),
        now,
    });
    if !attempts.has_pauses() {
        return delays;
    }
    for pod in index.pending_pods() {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let pauses = attempts.pauses(&group_of(pod), &uid, now);
        if !pauses.is_empty() {
            delays.pods.insert(uid, pauses);
        }
    }
    let holders = if attempts.has_paused_pools(now) { holders(index) } else { attempts.holders() };
    for holder in holders {
        let pauses = attempts.pauses(&PodGroup::from(&holder), "", now);
        delays.holders.insert(holder, pauses);
    }
    delays.static_pools = attempts.static_pools(now);
    delays
}

/// Returns all objects that may keep capacity.
fn holders(index: &Index) -> BTreeSet<CapacityHolder> {
    let buffers = index.buffers.keys().cloned().map(CapacityHolder::Buffer);
    buffers.chain(index.requests.keys().cloned().map(CapacityHolder::Request)).collect()
}

/// Returns the state of a launch by its NodeClaim and node.
fn state(index: &Index, planned: &PlannedNodes, name: &str) -> AttemptState {
    let Some(claim) = index.claims.get(name).filter(|claim| claim.metadata.deletion_timestamp.is_none()) else {
        return AttemptState::Gone;
    };
    if !claim.is_true(condition::REGISTERED) {
        return AttemptState::Starting;
    }
    let nodes = index.nodes_of_claim(claim);
    let is_any = |is: &dyn Fn(&str) -> bool| nodes.iter().any(|node| is(node.name()));
    AttemptState::Up(if is_any(&|node| index.pods_on(node).any(|pod| !pod.is_daemon() && !pod.is_static())) {
        NodeUse::Pods
    } else if is_any(&|node| planned.virtual_pods.contains(node)) {
        NodeUse::VirtualPods
    } else if planned.pods.contains(name) || is_any(&|node| planned.pods.contains(node)) {
        NodeUse::Expected
    } else {
        NodeUse::Unused
    })
}

/// Reports whether a group still needs a place for some of the pods of a launch.
fn needs(index: &Index, group: &PodGroup, pods: &BTreeSet<String>) -> bool {
    match group {
        PodGroup::Controller(_) => pods.iter().any(|pod| index.waits(pod)),
        PodGroup::Buffer(key) => index.buffers.get(key).is_some(),
        PodGroup::Request(key) => index.requests.get(key).is_some(),
        PodGroup::Replicas => true,
    }
}

fn group_of(pod: &Pod) -> PodGroup {
    let own = || pod.metadata.uid.clone().unwrap_or_default();
    PodGroup::Controller(pod.controller().map_or_else(own, |owner| owner.uid.clone()))
}

/// Returns the pods of a launch by group. Pods that use a missing node of a static NodePool do not count.
pub fn groups(index: &Index, built: &SnapshotResult, launch: &Launch) -> PodGroups {
    if launch.purpose == Purpose::Static {
        return [(PodGroup::Replicas, BTreeSet::new())].into();
    }
    let mut groups = PodGroups::new();
    for pod in launch.pods.iter().map(|pod| &built.snapshot.pods[*pod]) {
        let group = match &pod.holder {
            Some(holder) => Some(PodGroup::from(holder)),
            None => index.pods.get(&pod.name).map(|pod| group_of(pod)),
        };
        let uid = if pod.holder.is_some() { String::new() } else { pod.uid.clone() };
        groups.entry(group.unwrap_or_else(|| PodGroup::Controller(pod.uid.clone()))).or_default().insert(uid);
    }
    groups
}

/// Returns the nodes on which the plan places pods.
pub fn planned_nodes(built: &SnapshotResult, plan: &Plan) -> PlannedNodes {
    let starting = built.snapshot.nodes.iter().filter(|node| node.stage == Stage::InFlight);
    let starting: BTreeSet<&str> = starting.map(|node| node.name.as_str()).collect();
    let mut planned = PlannedNodes::default();
    for (pod, verdict) in built.snapshot.pods.iter().zip(&plan.report.pods) {
        let PodVerdict::Existing { node, .. } = verdict else { continue };
        if pod.holder.is_none() {
            planned.pods.insert(node.clone());
        } else if !starting.contains(node.as_str()) {
            planned.virtual_pods.insert(node.clone());
        }
    }
    planned
}

/// Returns the pauses that keep pods or missing nodes of static NodePools waiting, by NodePool.
pub fn blocked(
    built: &SnapshotResult,
    plan: &Plan,
    static_failures: impl Fn(&str) -> u32,
) -> BTreeMap<String, BlockedLaunches> {
    let mut blocked: BTreeMap<String, BlockedLaunches> = BTreeMap::new();
    let mut add = |pool: &str, pods, failures, until: planner::Millis| {
        let until = Timestamp::from_millisecond(until.0).unwrap_or(Timestamp::MAX);
        let known = blocked.entry(pool.to_owned()).or_insert(BlockedLaunches { pods: 0, failures, until, cause: None });
        known.pods += pods;
        known.failures = known.failures.max(failures);
        known.until = known.until.max(until);
    };
    let waiting = built.snapshot.pods.iter().zip(&plan.report.pods);
    for (pod, _) in waiting.filter(|(_, verdict)| matches!(verdict, PodVerdict::Unschedulable { .. })) {
        for pause in built.snapshot.shapes[pod.shape].paused.iter().filter(|pause| pause.failures > 0) {
            add(&pause.pool, 1, pause.failures, pause.until);
        }
    }
    for pool in built.snapshot.pools.iter().filter(|pool| pool.replicas.is_some_and(|wanted| wanted > pool.running)) {
        if let Some(until) = pool.paused_until {
            add(&pool.name, 0, static_failures(&pool.name), until);
        }
    }
    blocked
}

#[cfg(test)]
mod tests;
