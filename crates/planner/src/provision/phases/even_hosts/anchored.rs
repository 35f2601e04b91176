//! Hosts for pods with required `podAffinity` by hostname to a workload of which each host has only one pod: the cheapest mix of
//! sizes.
//!
//! Each pod of that workload, the anchor, needs a host anyway. So the number of hosts is known, and what remains to decide is
//! how many dependent pods each of them has.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_sized, open_host, pending_shapes};
use crate::label;
use crate::provision::capacity::NewNodeOption;
use crate::provision::demand::Demand;
use crate::provision::fleet::entry_for;
use crate::provision::phases::open_node::best_alone;
use crate::provision::topology::RuleKind;
use crate::provision::{Attempt, PodRun, Solver};

/// Maximum number of anchors and of dependent pods; more are placed one by one.
const MOST_PODS: usize = 500;

/// Shape of the anchors, and shape of the pods beside them.
#[derive(Clone, Copy)]
pub(super) struct AnchoredShapes {
    anchor: usize,
    dependent: usize,
}

/// Number of dependent pods that fit on a host of a certain cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostSize {
    pods: usize,
    cost: i64,
}

/// Returns pending pods that only need an anchor and a size, each with its only anchor.
pub(super) fn anchored_shapes(solver: &Solver<'_>) -> Vec<AnchoredShapes> {
    let pending = pending_shapes(solver);
    let pair = |dependent: &usize| {
        let anchor = anchor_of(solver, &pending, *dependent)?;
        Some(AnchoredShapes { anchor, dependent: *dependent })
    };
    pending.iter().filter_map(pair).collect()
}

fn anchor_of(solver: &Solver<'_>, pending: &BTreeSet<usize>, dependent: usize) -> Option<usize> {
    let demands = &solver.problem.demands;
    let demand = &demands[dependent];
    let ([term], [rule]) = (demand.shape.near.as_slice(), demand.levels[0].rules.as_slice()) else { return None };
    let needs_host = term.key == label::HOSTNAME && rule.kind == RuleKind::Affinity && !rule.own;
    if !needs_host || demand.levels.len() > 1 || !is_sized(demand, 0, &solver.topology) {
        return None;
    }
    let mut anchors = pending.iter().copied().filter(|shape| demands[*shape].counts.contains(&rule.group));
    let anchor = anchors.next().filter(|_| anchors.next().is_none())?;
    is_alone_on_host(solver, &demands[anchor]).then_some(anchor)
}

/// Reports whether only size and anti-affinity to its own kind decide where a pod may run, and each host has one such pod.
fn is_alone_on_host(solver: &Solver<'_>, demand: &Demand<'_>) -> bool {
    let [level] = demand.levels.as_slice() else { return false };
    let is_apart = level.rules.iter().all(|rule| rule.kind == RuleKind::AntiAffinity);
    let is_free = !demand.late && demand.shape.ports.is_empty() && demand.attachments.is_empty();
    is_apart && is_free && level.keys.is_empty() && solver.topology.host_slots(&level.rules, None) == 1
}

/// Opens the hosts of anchors that have dependent pods, and places both. Removes the placed pods from the queue.
pub(super) fn open_anchored_hosts(solver: &mut Solver<'_>, queue: &mut Vec<PodRun>) {
    for shapes in anchored_shapes(solver) {
        open_hosts(solver, queue, shapes);
        queue.retain(|run| !run.pods.is_empty());
    }
}

fn open_hosts(solver: &mut Solver<'_>, queue: &mut [PodRun], shapes: AnchoredShapes) -> Option<()> {
    let AnchoredShapes { anchor, dependent } = shapes;
    let waiting = |shape: usize| queue.iter().find(|run| run.shape == shape).map_or(0, |run| run.pods.len());
    let (hosts, pods) = (waiting(anchor), waiting(dependent));
    let option = best_alone(solver, Attempt { shape: anchor, level: 0 }, true)?;
    if hosts.max(pods) > MOST_PODS || hosts.min(pods) == 0 || !suits(solver, &option, dependent) {
        return None;
    }
    let sizes = sizes(solver, &option, shapes, pods);
    solver.progress.steps += (hosts * pods * sizes.len()) as u64;
    for count in cheapest_loads(&sizes, hosts, pods)?.into_iter().filter(|count| *count > 0) {
        let load = [(anchor, 1), (dependent, count)];
        if !open_host(solver, queue, &option, &load, &BTreeMap::new()) {
            return None;
        }
    }
    Some(())
}

fn suits(solver: &Solver<'_>, option: &NewNodeOption, dependent: usize) -> bool {
    let templates = &solver.capacity.templates;
    let class = solver.problem.demands[dependent].levels[0].class;
    // Constraints of DaemonSet pods are evaluated for single pods only.
    solver.daemons.is_empty()
        && option.reservation.is_none()
        && !solver.is_paused(option.template, dependent)
        && templates.suits_as_it_is(option.template, class, &solver.problem.requirement_sets)
}

/// Returns the sizes of hosts, each with the most dependent pods for its cost, in ascending order.
fn sizes(solver: &Solver<'_>, option: &NewNodeOption, shapes: AnchoredShapes, pods: usize) -> Vec<HostSize> {
    let AnchoredShapes { anchor, dependent } = shapes;
    let entries = &solver.capacity.templates.get(option.template).entries;
    let mut sizes: Vec<HostSize> = Vec::new();
    for count in 0..=pods {
        let load = [(anchor, 1), (dependent, count)];
        let entry = entry_for(&solver.capacity, &solver.problem.demands, option, &load[..=usize::from(count > 0)]);
        let Some(cost) = entry.map(|entry| entries[entry].cost) else { break };
        match sizes.last_mut().filter(|last| last.cost == cost) {
            Some(last) => last.pods = count,
            None => sizes.push(HostSize { pods: count, cost }),
        }
    }
    sizes
}

/// Returns the number of pods on each of so many hosts, at the lowest cost; `None` if they have no place for all pods.
fn cheapest_loads(sizes: &[HostSize], hosts: usize, pods: usize) -> Option<Vec<usize>> {
    // For each number of hosts and of pods: the lowest cost, and the pods on the last host.
    let mut best: Vec<Vec<Option<(i64, usize)>>> = vec![vec![None; pods + 1]; hosts + 1];
    best[0][0] = Some((0, 0));
    for host in 1..=hosts {
        for count in 0..=pods {
            let with = |size: &HostSize| {
                let here = size.pods.min(count);
                Some((best[host - 1][count - here]?.0 + size.cost, here))
            };
            best[host][count] = sizes.iter().filter_map(with).min_by_key(|(cost, _)| *cost);
        }
    }
    let mut left = pods;
    let mut loads = Vec::with_capacity(hosts);
    for host in (1..=hosts).rev() {
        let (_, here) = best[host][left]?;
        loads.push(here);
        left -= here;
    }
    Some(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [HostSize; 3] =
        [HostSize { pods: 1, cost: 113 }, HostSize { pods: 5, cost: 172 }, HostSize { pods: 13, cost: 344 }];

    #[test]
    fn cheapest_loads_mix_sizes() {
        assert_eq!(sorted(4, 24), Some(vec![13, 5, 5, 1]));
        assert_eq!(sorted(2, 6), Some(vec![5, 1]));
        assert_eq!(sorted(3, 2), Some(vec![1, 1, 0]), "a pod is on each of the smallest hosts");
    }

    #[test]
    fn cheapest_loads_are_none_when_the_hosts_are_too_few() {
        assert_eq!(sorted(2, 27), None);
    }

    fn sorted(hosts: usize, pods: usize) -> Option<Vec<usize>> {
        let mut loads = cheapest_loads(&SIZES, hosts, pods)?;
        loads.sort_unstable_by(|one, other| other.cmp(one));
        Some(loads)
    }
}
