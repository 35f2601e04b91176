//! Pod groups: all of the pods that a group needs get a place, or none of its pods.
//!
//! A group without enough places is left out and the plan made again, because its pods took places and limits from others. One group
//! is left out at a time, that with the lowest priority and among equals the youngest: what it leaves may complete another group.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{GroupShortage, Plan, Pod, PodGroup, PodVerdict, PoolMismatch, Snapshot, UnschedulableReason};

/// Maximum number of groups that are left out one by one. Then all incomplete ones are.
const MOST_ROUNDS: usize = 16;

/// Returns the plan in which every group is complete or has no place.
pub(in crate::provision) fn with_complete_groups(snapshot: &Snapshot, provision: impl Fn(&Snapshot) -> Plan) -> Plan {
    let groups = Groups::new(snapshot);
    if groups.members.is_empty() {
        return provision(snapshot);
    }
    let mut left_out = groups.too_small(snapshot);
    for round in 0.. {
        let kept = KeptPods::new(snapshot, &groups, &left_out);
        let plan = kept.restored(snapshot, provision(&kept.reduced(snapshot)), &left_out);
        let mut incomplete = groups.incomplete(snapshot, &plan, &left_out);
        incomplete.sort_by_cached_key(|(group, _)| groups.rank(snapshot, group));
        if round < MOST_ROUNDS {
            incomplete.truncate(1);
        }
        if incomplete.is_empty() {
            return plan;
        }
        left_out.extend(incomplete);
    }
    unreachable!("each round leaves out a group, and there is a last one")
}

/// Verdicts of the pods of groups that are left out, by the name of the group.
type LeftOut = BTreeMap<String, PodVerdict>;

/// Groups that need further pods, with the positions of their pending pods.
struct Groups<'a> {
    members: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Groups<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, pod) in snapshot.pods.iter().enumerate() {
            if let Some(group) = needy(pod) {
                members.entry(&group.name).or_default().push(position);
            }
        }
        Self { members }
    }

    /// Returns the groups of which fewer pods exist than they need.
    fn too_small(&self, snapshot: &Snapshot) -> LeftOut {
        let small = self.members.iter().filter_map(|(name, pods)| {
            let group = needy(snapshot.pods.get(*pods.first()?)?)?;
            let existing = group.running + count(pods.len());
            let shortage = GroupShortage { placed: group.running, existing, ..shortage_of(group) };
            (existing < group.least).then(|| ((*name).to_owned(), in_all_pools(snapshot, &shortage)))
        });
        small.collect()
    }

    /// Returns the groups that got fewer places than they need.
    fn incomplete(&self, snapshot: &Snapshot, plan: &Plan, left_out: &LeftOut) -> Vec<(String, PodVerdict)> {
        let tried = self.members.iter().filter(|(name, _)| !left_out.contains_key(**name));
        let verdict = |(name, pods): (&&str, &Vec<usize>)| {
            let group = needy(snapshot.pods.get(*pods.first()?)?)?;
            let unplaced = |pod: &&usize| {
                matches!(plan.report.pods[**pod], PodVerdict::Unschedulable { .. } | PodVerdict::Postponed)
            };
            let first = pods.iter().find(unplaced)?;
            let waiting = pods.iter().filter(unplaced).count();
            let placed = group.running + count(pods.len() - waiting);
            if placed >= group.least {
                return None;
            }
            let existing = group.running + count(pods.len());
            let shortage = GroupShortage { placed, existing, ..shortage_of(group) };
            Some(((*name).to_owned(), with_reasons(&plan.report.pods[*first], &shortage)))
        };
        tried.filter_map(verdict).collect()
    }

    /// Returns the order in which incomplete groups are left out: the lowest priority first, then the youngest.
    fn rank(&self, snapshot: &Snapshot, group: &str) -> (i32, Reverse<i64>, Reverse<String>) {
        let pods = self.members.get(group).into_iter().flatten().map(|pod| &snapshot.pods[*pod]);
        let priority = pods.clone().filter_map(|pod| Some(snapshot.shapes.get(pod.shape)?.priority)).max();
        let created = pods.map(|pod| pod.created.0).min();
        (priority.unwrap_or_default(), Reverse(created.unwrap_or_default()), Reverse(group.to_owned()))
    }
}

/// Positions of the pods that are planned.
struct KeptPods(Vec<usize>);

impl KeptPods {
    fn new(snapshot: &Snapshot, groups: &Groups<'_>, left_out: &LeftOut) -> Self {
        let absent: BTreeSet<usize> =
            left_out.keys().filter_map(|name| groups.members.get(name.as_str())).flatten().copied().collect();
        Self((0..snapshot.pods.len()).filter(|pod| !absent.contains(pod)).collect())
    }

    fn reduced<'s>(&self, snapshot: &'s Snapshot) -> Cow<'s, Snapshot> {
        if self.0.len() == snapshot.pods.len() {
            return Cow::Borrowed(snapshot);
        }
        let pods = self.0.iter().map(|pod| snapshot.pods[*pod].clone()).collect();
        Cow::Owned(Snapshot { pods, ..snapshot.clone() })
    }

    /// Returns the plan with the positions and verdicts of all pods.
    fn restored(&self, snapshot: &Snapshot, mut plan: Plan, left_out: &LeftOut) -> Plan {
        let verdict_of = |pod: &Pod| {
            let left_out = pod.group.as_ref().and_then(|group| left_out.get(&group.name));
            left_out.cloned().unwrap_or(PodVerdict::Postponed)
        };
        let mut verdicts: Vec<PodVerdict> = snapshot.pods.iter().map(verdict_of).collect();
        for (position, verdict) in self.0.iter().zip(std::mem::take(&mut plan.report.pods)) {
            verdicts[*position] = verdict;
        }
        plan.report.pods = verdicts;
        let of_launches = plan.launches.iter_mut().flat_map(|launch| &mut launch.pods);
        let of_preferences = plan.report.preferences.iter_mut().flat_map(|decision| &mut decision.pods);
        let nominated = plan.nominations.iter_mut().map(|nomination| &mut nomination.pod);
        let all = of_launches.chain(of_preferences).chain(nominated).chain(&mut plan.report.order);
        all.for_each(|pod| *pod = self.0[*pod]);
        plan
    }
}

/// Returns the group of a pod that still needs further pods.
fn needy(pod: &Pod) -> Option<&PodGroup> {
    pod.group.as_deref().filter(|group| group.missing() > 0)
}

fn shortage_of(group: &PodGroup) -> GroupShortage {
    GroupShortage { group: group.name.clone(), least: group.least, placed: 0, existing: 0, nearest: None }
}

/// Returns a verdict with the shortage as the reason of every NodePool that takes pods.
fn in_all_pools(snapshot: &Snapshot, shortage: &GroupShortage) -> PodVerdict {
    let pools = snapshot.pools.iter().filter(|pool| pool.replicas.is_none());
    let mismatch = |pool: &crate::Pool| PoolMismatch {
        pool: pool.name.clone(),
        miss: UnschedulableReason::Group(shortage.clone()),
    };
    PodVerdict::Unschedulable { pools: pools.map(mismatch).collect() }
}

/// Returns a verdict with the reasons of a pod of the group that has no place.
fn with_reasons(verdict: &PodVerdict, shortage: &GroupShortage) -> PodVerdict {
    let PodVerdict::Unschedulable { pools } = verdict else { return verdict.clone() };
    let in_group = |mismatch: &PoolMismatch| {
        let nearest = Some(Box::new(mismatch.miss.clone()));
        let miss = UnschedulableReason::Group(GroupShortage { nearest, ..shortage.clone() });
        PoolMismatch { pool: mismatch.pool.clone(), miss }
    };
    let pools: Arc<[PoolMismatch]> = pools.iter().map(in_group).collect();
    PodVerdict::Unschedulable { pools }
}

fn count(pods: usize) -> u32 {
    u32::try_from(pods).unwrap_or(u32::MAX)
}
