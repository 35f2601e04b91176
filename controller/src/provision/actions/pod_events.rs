//! Events of pods, made one after another while they are published: a hundred thousand unschedulable pods have as many events, of
//! which only a few are sent.

use std::collections::BTreeMap;

use api::objects::Pod;
use api::status::Conditioned;
use api::{NodePool, reason};
use planner::{Plan, PodVerdict, Preference};
use snapshot::{Problem, SnapshotResult};

use crate::state::index::{Index, key_of};
use crate::write::events::{Event, ObjectReference};

/// Parts of the events that a plan determines beside its verdicts.
#[derive(Debug, Default)]
pub struct PodEvents {
    /// Names of the NodeClaims, by the position of their launch.
    launches: BTreeMap<usize, String>,
    /// NodePools that the plan did not include, as the end of a sentence.
    absent: String,
}

impl PodEvents {
    /// Creates the common parts of the events of a plan.
    pub(super) fn new(index: &Index, built: &SnapshotResult, launches: BTreeMap<usize, String>) -> Self {
        Self { launches, absent: absent_pools(index, built) }
    }

    /// Returns the event of each planned pod, then of each ignored pod. Pods of a CapacityBuffer exist only in the planner.
    pub fn iter<'a>(
        &'a self,
        index: &'a Index,
        built: &'a SnapshotResult,
        plan: &'a Plan,
    ) -> impl Iterator<Item = Event> + 'a {
        let all = built.snapshot.pods.iter().zip(&plan.report.pods).filter(|(pod, _)| pod.holder.is_none());
        let planned = all.filter_map(|(pod, verdict)| self.event(index.pods.get(&pod.name)?, verdict));
        planned.chain(ignored(index, built))
    }

    /// Returns the nomination of a pod with its dropped preferences, or the reason of each NodePool.
    fn event(&self, pod: &Pod, verdict: &PodVerdict) -> Option<Event> {
        let object = || ObjectReference::to(pod);
        let nominated = |place: String, dropped: &[Preference]| {
            let message = format!("Pod should schedule on: {place}{}", without(dropped));
            Event::normal(object(), reason::NOMINATED, message)
        };
        match verdict {
            PodVerdict::Existing { node, dropped, .. } => Some(nominated(format!("node/{node}"), dropped)),
            PodVerdict::Launch { launch, dropped, .. } => {
                let name = self.launches.get(launch).map_or("", String::as_str);
                Some(nominated(format!("nodeclaim/{name}"), dropped))
            }
            PodVerdict::Unschedulable { .. } => {
                let message = format!("Failed to schedule pod, {verdict}{}", self.absent);
                Some(Event::warning(object(), reason::FAILED_SCHEDULING, message))
            }
            PodVerdict::Postponed => None,
        }
    }
}

/// Returns the dropped preferences as the end of a sentence.
fn without(dropped: &[Preference]) -> String {
    let preferences: Vec<String> = dropped.iter().map(ToString::to_string).collect();
    if preferences.is_empty() { String::new() } else { format!("; dropped: {}", preferences.join(", ")) }
}

/// Returns the NodePools that the plan did not include, each with its reason, as the end of a sentence.
fn absent_pools(index: &Index, built: &SnapshotResult) -> String {
    if index.pools.is_empty() {
        return "; no NodePool exists: create one".to_owned();
    }
    let seen = |name: &str| built.snapshot.pools.iter().any(|pool| pool.name == name);
    let absent = index.pools.values().map(|pool| (key_of(pool.as_ref()), pool));
    let absent = absent.filter(|(name, pool)| !seen(name) && pool.spec.replicas.is_none());
    absent.map(|(name, pool)| format!("; NodePool {name}: {}", why_absent(&name, pool, built))).collect()
}

fn why_absent(name: &str, pool: &NodePool, built: &SnapshotResult) -> String {
    if pool.metadata.deletion_timestamp.is_some() {
        return "it is being deleted".to_owned();
    }
    let problem = built.problems.iter().find(|one| matches!(one, Problem::NoCatalogue { pool, .. } if pool == name));
    // Only these conditions decide about Ready. Others, such as the health of registrations, are informative.
    let decisive = |found: &&api::Condition| NodePool::DEPENDENTS.contains(&found.type_.as_str());
    let missing = pool.conditions().iter().filter(decisive).find(|found| !found.is_true());
    match (missing, problem) {
        (Some(found), _) => format!("not ready, {}={}: {}", found.type_, found.status, found.message),
        (None, Some(_)) => {
            let class = &pool.spec.template.spec.node_class_ref.name;
            format!("EC2NodeClass {class}: instance types not loaded yet")
        }
        (None, None) => "not ready: NodePool has not been reconciled yet".to_owned(),
    }
}

/// Returns the event of each ignored pod. Pods that opted out, or that run and only wait, receive none.
fn ignored<'a>(index: &'a Index, built: &'a SnapshotResult) -> impl Iterator<Item = Event> + 'a {
    built.ignored.iter().filter(|ignored| ignored.deserves_event()).filter_map(|ignored| {
        let pod = ObjectReference::to::<Pod>(index.pods.get(&ignored.pod)?);
        let message = format!("Failed to schedule pod, {}", ignored.reason);
        Some(Event::warning(pod, reason::FAILED_SCHEDULING, message))
    })
}
