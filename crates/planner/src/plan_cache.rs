//! Cache of a plan without actions: the plan remains valid while its inputs are equal and time alone changes no decision. A
//! caller with an interval of a few seconds can skip planning.

use std::collections::BTreeMap;

use crate::{BoundPod, Millis, NodeVerdict, Plan, PodVerdict, ReplacementState, Snapshot, packing, payback, rotation};

/// Maximum validity of a cached plan, in milliseconds.
const LONGEST: i64 = 300_000;

/// Validity of a plan without actions. The caller keeps the snapshot of the plan: a copy would take much memory.
#[derive(Clone, Copy, Debug)]
pub struct PlanCache {
    until: Millis,
}

impl PlanCache {
    /// Creates a cache entry for this plan; returns `None` where the plan has actions.
    #[must_use]
    pub fn new(snapshot: &Snapshot, plan: &Plan) -> Option<Self> {
        if !is_idle(plan) {
            return None;
        }
        let latest = Millis(snapshot.now.0.saturating_add(LONGEST));
        let next = has_later_parts(plan).then(|| rotation::end(snapshot.now));
        let waits = plan.report.nodes.iter().filter_map(|(_, verdict)| end_of_wait(verdict, snapshot.now));
        let moments = moments(snapshot).chain(next).chain(waits).filter(|at| *at > snapshot.now);
        let until = moments.min().map_or(latest, |first| first.min(latest));
        Some(Self { until })
    }

    /// Reports whether a plan for `snapshot` would be the same as the plan for `seen`, the snapshot of [`PlanCache::new`].
    #[must_use]
    pub fn is_valid(&self, seen: &Snapshot, snapshot: &Snapshot) -> bool {
        // The fields are listed one by one, so that the compiler reports a new field.
        let Snapshot {
            now,
            seed: _,
            policy,
            pools,
            catalogues,
            nodes,
            spend_limits,
            commitments,
            shapes,
            pods,
            single_claims,
            daemons,
            resting,
            namespaces,
        } = seen;
        (*now..self.until).contains(&snapshot.now)
            && *nodes == snapshot.nodes
            && *pods == snapshot.pods
            && *pools == snapshot.pools
            && *shapes == snapshot.shapes
            && *daemons == snapshot.daemons
            && *policy == snapshot.policy
            && *single_claims == snapshot.single_claims
            && *namespaces == snapshot.namespaces
            && *resting == snapshot.resting
            && *catalogues == snapshot.catalogues
            && *spend_limits == snapshot.spend_limits
            && *commitments == snapshot.commitments
    }

    /// Returns the time from which the entry is invalid in any case.
    #[must_use]
    pub fn until(&self) -> Millis {
        self.until
    }
}

/// Reports whether the plan has no action and postpones nothing to the next plan.
fn is_idle(plan: &Plan) -> bool {
    let waits = |verdict: &PodVerdict| matches!(verdict, PodVerdict::Unschedulable { .. });
    let put_off = |verdict: &NodeVerdict| matches!(verdict, NodeVerdict::Postponed | NodeVerdict::LeftOut { .. });
    plan.launches.is_empty()
        && plan.moves.is_empty()
        && plan.resizes.is_empty()
        && plan.report.pods.iter().all(waits)
        && !plan.report.nodes.iter().any(|(_, verdict)| put_off(verdict))
}

/// Reports whether nodes wait for a later part of the rotation.
fn has_later_parts(plan: &Plan) -> bool {
    plan.report.nodes.iter().any(|(_, verdict)| matches!(verdict, NodeVerdict::ByTurns { .. }))
}

/// Returns the time at which a node no longer waits for others.
fn end_of_wait(verdict: &NodeVerdict, now: Millis) -> Option<Millis> {
    match verdict {
        NodeVerdict::RoomSoon { remaining } | NodeVerdict::RemovedTogether { remaining } => {
            Some(Millis(now.0.saturating_add(*remaining)))
        }
        _ => None,
    }
}

/// Returns the moments at which time alone changes a plan.
fn moments(snapshot: &Snapshot) -> impl Iterator<Item = Millis> {
    let quiet_after: BTreeMap<&str, i64> = snapshot
        .pools
        .iter()
        .filter_map(|pool| Some((pool.name.as_str(), pool.disruption.consolidate_after?)))
        .collect();
    let canaries: BTreeMap<&str, i64> =
        snapshot.pools.iter().filter_map(|pool| Some((pool.name.as_str(), pool.disruption.canary?.time))).collect();
    let of_nodes = snapshot.nodes.iter().flat_map(move |node| {
        let canary = node.pool.as_deref().and_then(|pool| canaries.get(pool));
        let proven = node.healthy_since.zip(canary).map(|(since, time)| Millis(since.0.saturating_add(*time)));
        let after = node.pool.as_deref().and_then(|pool| quiet_after.get(pool));
        let quiet = node.quiet_since.zip(after).map(|(since, after)| Millis(since.0.saturating_add(*after)));
        let own = [quiet, proven, node.expires, node.nominated_until, node.unhealthy.as_ref().map(|it| it.due)];
        let work = node.pods.iter().filter_map(|pod| pod.works_since).flat_map(payback::moments);
        let own = own.into_iter().flatten().chain(node.pods.iter().filter_map(moment_of_pod)).chain(work);
        own.chain(node.claim.iter().flat_map(|_| payback::moments(node.created)))
    });
    let of_pools = snapshot.pools.iter().flat_map(|pool| {
        let until = match pool.replacements {
            ReplacementState::Paused { until, .. } => Some(until),
            _ => None,
        };
        until.into_iter().chain(pool.paused_until)
    });
    let of_shapes = snapshot.shapes.iter().flat_map(|shape| shape.paused.iter().map(|pause| pause.until));
    of_nodes.chain(snapshot.resting.values().copied()).chain(of_pools).chain(of_shapes)
}

fn moment_of_pod(pod: &BoundPod) -> Option<Millis> {
    pod.sizing.as_deref().and_then(packing::rests_until)
}

#[cfg(test)]
mod tests;
