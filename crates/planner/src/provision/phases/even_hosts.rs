//! Launches for pods that are spread over hosts: the number of hosts with the lowest cost, each with an even share.
//!
//! A host that receives its share raises the minimum of the spread, so a few large nodes are as valid as many small ones. The
//! shares hold pods of every shape that the launches suit, because each further launch without them would lower the minimum.
//! Where nodes exist whose pods are too few, the spread limits the shares, and the number of hosts grows accordingly.
//!
//! Pods may also be spread over zones: hosts then start in the zone with the fewest pods (`zones`).
//!
//! Pods that prefer separate hosts share them in the same way, where separate hosts cost more than the premium allows: on at
//! least two hosts.

mod anchored;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use super::fill_existing::fill_existing_nodes;
use super::host_minimum::{min_domains_of_groups, present_hosts};
use super::open_node::{best_alone, open_launch};
use crate::provision::capacity::NewNodeOption;
use crate::provision::daemon_overhead::tolerates_daemons;
use crate::provision::demand::Demand;
use crate::provision::demand::host_preferences::avoided_pods;
use crate::provision::fleet::entry_for;
use crate::provision::select_best::strategy::LoadRule;
use crate::provision::topology::host_minimum::{
    HostCounts, host_spreads, pods_on_host, rely_on_minimum, spread_group, spread_key,
};
use crate::provision::topology::{Counts, GroupId, HOST, KeyId, Rule, RuleKind, Topology};
use crate::provision::{Attempt, PodPlacement, PodRun, Solver};
use crate::{PlacementReason, label};
use anchored::{anchored_shapes, open_anchored_hosts};
use zones::{ZoneSpread, keeps_zones, uneven_loads, zone_spreads};

/// Pods of one shape, and the number of pods of the shapes before it.
#[derive(Clone, Copy)]
struct Share {
    shape: usize,
    /// Preference level at which the pods may share hosts.
    level: usize,
    pods: usize,
    before: usize,
}

/// Spread over the hosts of a fleet.
struct HostSpread {
    group: GroupId,
    max_skew: u32,
    min_domains: usize,
    /// True if the launches certainly count.
    is_sure: bool,
    /// Shapes whose pods count.
    counted: BTreeSet<usize>,
    /// Hosts that exist already, and the most pods on one of them that received some from this plan.
    present: HostCounts,
    highest: u32,
}

/// Equal hosts: pods by shape, and the number of such hosts.
type HostLoad = (Vec<(usize, usize)>, usize);

/// Hosts with even shares, and the minimum of each spread on which they rely.
struct EvenHosts {
    loads: Vec<HostLoad>,
    /// Preference level of each shape.
    levels: BTreeMap<usize, usize>,
    minimums: Vec<(GroupId, u32)>,
    /// True if each host starts in a zone of its own.
    has_zones: bool,
}

/// Reports whether the strategy for even hosts suits some pending pods: those that are spread over hosts, or need a pod of another
/// workload on their host.
pub(in crate::provision) fn has_even_pods(solver: &Solver<'_>) -> bool {
    let is_spread = |shape: usize| is_even(&solver.problem.demands[shape], 0, &solver.topology);
    pending_shapes(solver).into_iter().any(is_spread) || !anchored_shapes(solver).is_empty()
}

/// Returns the shapes of pending pods that prefer separate hosts, each with the pods that it avoids.
pub(in crate::provision) fn separate_shapes(solver: &Solver<'_>) -> Vec<(usize, GroupId)> {
    let avoided = |shape: usize| Some((shape, avoided_pods(&solver.problem.demands[shape])?));
    pending_shapes(solver).into_iter().filter_map(avoided).collect()
}

fn pending_shapes(solver: &Solver<'_>) -> BTreeSet<usize> {
    let pending = solver.problem.input.snapshot.pods.iter().enumerate().filter(|(_, pod)| pod.nominated.is_none());
    pending.map(|(pod, _)| solver.problem.demand_of[pod]).collect()
}

/// Places pods on existing nodes, then opens the hosts with the lowest cost for each set of pods that share them. Removes the
/// placed pods from the queue.
pub(in crate::provision) fn open_even_hosts(solver: &mut Solver<'_>, queue: &mut Vec<PodRun>) {
    fill_existing_nodes(solver, queue);
    open_anchored_hosts(solver, queue);
    let mut tried: BTreeSet<usize> = BTreeSet::new();
    loop {
        let is_anchor = |run: &&PodRun| !tried.contains(&run.shape) && level_of(solver, run.shape).is_some();
        let Some(anchor) = queue.iter().find(is_anchor).map(|run| run.shape) else { return };
        tried.insert(anchor);
        open_hosts_for(solver, queue, anchor);
        queue.retain(|run| !run.pods.is_empty());
    }
}

fn open_hosts_for(solver: &mut Solver<'_>, queue: &mut [PodRun], anchor: usize) {
    let first = Attempt { shape: anchor, level: level_of(solver, anchor).unwrap_or(0) };
    let Some(option) = best_alone(solver, first, true) else { return };
    if option.reservation.is_some() {
        return;
    }
    let shares = shares(solver, queue, first, &option);
    let Some(hosts) = cheapest(solver, &option, &shares) else { return };
    solver.progress.is_dealt |= hosts.has_zones;
    for (group, minimum) in &hosts.minimums {
        rely_on_minimum(&mut solver.topology, *group, *minimum);
    }
    solver.progress.emptiest_first = hosts.has_zones;
    let loads = hosts.loads.iter().flat_map(|(load, times)| std::iter::repeat_n(load, *times));
    for load in loads {
        let here = if hosts.has_zones { best_alone(solver, first, true) } else { Some(option.clone()) };
        let here = here.filter(|here| here.reservation.is_none());
        if !here.is_some_and(|here| open_host(solver, queue, &here, load, &hosts.levels)) {
            break;
        }
    }
    solver.progress.emptiest_first = false;
}

/// Opens one host and places its pods; reports whether the limits allow it.
fn open_host(
    solver: &mut Solver<'_>,
    queue: &mut [PodRun],
    option: &NewNodeOption,
    load: &[(usize, usize)],
    levels: &BTreeMap<usize, usize>,
) -> bool {
    let Some(entry) = entry_for(&solver.capacity, &solver.problem.demands, option, load) else { return false };
    let position = open_launch(solver, option, entry, load[0].0, load);
    let mut why = PlacementReason::Opened;
    for (shape, count) in load {
        let Some(run) = queue.iter_mut().find(|run| run.shape == *shape) else { continue };
        let pods: Vec<usize> = run.pods.drain(..*count).collect();
        solver.new_nodes.use_slots(position, *shape, *count);
        let attempt = Attempt { shape: *shape, level: levels.get(shape).copied().unwrap_or(0) };
        solver.record(attempt, PodPlacement::New(position), &pods, why);
        why = PlacementReason::Joined;
    }
    true
}

/// Returns the preference level at which even hosts suit pods of a shape under the present strategy.
fn level_of(solver: &Solver<'_>, shape: usize) -> Option<usize> {
    let may_share = solver.progress.strategy.load.shares_hosts() && !solver.progress.separate.contains(&shape);
    even_level(&solver.problem.demands[shape], &solver.topology, may_share)
}

/// Returns the first preference level at which pods of a shape are spread over hosts, or prefer separate hosts; `None` for other
/// pods. Level 0 has all preferences. Pods that prefer separate hosts have none only where they may share hosts.
fn even_level(demand: &Demand<'_>, topology: &Topology<'_>, may_share: bool) -> Option<usize> {
    if is_even(demand, 0, topology) {
        return Some(0);
    }
    let shape = demand.shape;
    let prefers_separate = shape.prefers_near.is_empty()
        && shape.prefers_apart.iter().all(|it| it.term.key == label::HOSTNAME)
        && demand.levels[0].rules.iter().any(is_separate);
    let level = shape.prefers_apart.len();
    let is_simple =
        || demand.levels.get(level).is_some_and(|it| it.rules.is_empty() && is_sized(demand, level, topology));
    let shares = may_share && level > 0 && prefers_separate && (is_simple() || is_even(demand, level, topology));
    shares.then_some(level)
}

/// Reports whether a rule separates pods from each other.
fn is_separate(rule: &Rule) -> bool {
    rule.own && rule.kind == RuleKind::AntiAffinity
}

/// Reports whether only spreads over hosts and zones, which count the pod itself, decide where a pod may run, apart from its
/// size.
fn is_even(demand: &Demand<'_>, level: usize, topology: &Topology<'_>) -> bool {
    let Some(rules) = demand.levels.get(level).map(|level| &level.rules) else { return false };
    let groups: BTreeSet<GroupId> = host_spreads(topology).collect();
    let even = |rule: &Rule| rule.own && matches!(rule.kind, RuleKind::Spread { .. });
    let on_hosts = |rule: &&Rule| spread_key(topology, rule.group) == Some(HOST);
    let decides = |rule: &Rule| groups.contains(&rule.group);
    rules.iter().all(even)
        && rules.iter().any(decides)
        && rules.iter().filter(on_hosts).all(decides)
        && is_sized(demand, level, topology)
}

/// Reports whether no volume, port, anti-affinity or domain of other pods' rules matters for a pod.
fn is_sized(demand: &Demand<'_>, level: usize, topology: &Topology<'_>) -> bool {
    let level = &demand.levels[level];
    let keys: Vec<KeyId> = level.rules.iter().filter_map(|rule| spread_key(topology, rule.group)).collect();
    let is_known = level.keys.len() <= 1 && level.keys.iter().all(|key| keys.contains(key));
    let is_free = demand.holds.is_empty() && demand.excluded_by.is_empty();
    !demand.late && is_known && is_free && demand.shape.ports.is_empty() && demand.attachments.is_empty()
}

/// Returns the pods that share the hosts: those of the anchor first, then all others that the launches suit as they are.
fn shares(solver: &mut Solver<'_>, queue: &[PodRun], first: Attempt, option: &NewNodeOption) -> Vec<Share> {
    let anchor = first.shape;
    let keys = solver.problem.demands[anchor].levels[first.level].keys.clone();
    let template = solver.capacity.templates.get(option.template);
    let bounded = solver.capacity.headroom.is_bounded(template.pool_template);
    let priority = solver.problem.demands[anchor].shape.priority;
    let mut shares: Vec<Share> = Vec::new();
    let others = queue.iter().filter(|run| run.shape != anchor);
    for run in queue.iter().filter(|run| run.shape == anchor).chain(others) {
        if !deals_together(solver, anchor, run.shape) {
            continue;
        }
        let equal = !bounded || solver.problem.demands[run.shape].shape.priority == priority;
        let level = level_of(solver, run.shape).unwrap_or(0);
        let own = &solver.problem.demands[run.shape].levels[level].keys;
        let equal = equal && (own.is_empty() || *own == keys);
        if run.shape == anchor || (equal && joins(solver, Attempt { shape: run.shape, level }, option)) {
            let before = shares.last().map_or(0, |last| last.before + last.pods);
            shares.push(Share { shape: run.shape, level, pods: run.pods.len(), before });
        }
    }
    shares
}

/// Reports whether the present strategy deals pods of both shapes over the same hosts.
fn deals_together(solver: &Solver<'_>, anchor: usize, other: usize) -> bool {
    let groups = |shape: usize| -> BTreeSet<GroupId> {
        solver.problem.demands[shape].levels[0].rules.iter().map(|rule| rule.group).collect()
    };
    let deals_all = solver.progress.strategy.load != LoadRule::SharedByOwn;
    deals_all || anchor == other || !groups(anchor).is_disjoint(&groups(other))
}

/// Reports whether pods of a shape may share the hosts of others.
fn joins(solver: &mut Solver<'_>, attempt: Attempt, option: &NewNodeOption) -> bool {
    let (template, Attempt { shape, level }) = (option.template, attempt);
    let demand = &solver.problem.demands[shape];
    let is_free = demand.levels[level].rules.is_empty() && is_sized(demand, level, &solver.topology);
    let is_simple = is_free || is_even(demand, level, &solver.topology);
    let templates = &solver.capacity.templates;
    is_simple
        && !solver.is_paused(template, shape)
        && templates.suits_as_it_is(template, demand.levels[level].class, &solver.problem.requirement_sets)
        && templates.holding(template, 0, demand.load()).next().is_some()
        && tolerates_daemons(solver, template, attempt)
}

/// Returns the spreads of the shares' pods.
fn spreads(solver: &Solver<'_>, shares: &[Share], option: &NewNodeOption) -> Vec<HostSpread> {
    let mut skews: BTreeMap<GroupId, u32> = BTreeMap::new();
    for share in shares {
        for rule in &solver.problem.demands[share.shape].levels[share.level].rules {
            if let RuleKind::Spread { max_skew, .. } = rule.kind
                && spread_key(&solver.topology, rule.group) == Some(HOST)
            {
                skews.entry(rule.group).and_modify(|least| *least = max_skew.min(*least)).or_insert(max_skew);
            }
        }
    }
    let min_domains = min_domains_of_groups(solver);
    let spread = |(group, max_skew): (GroupId, u32)| HostSpread {
        group,
        max_skew,
        min_domains: min_domains.get(&group).copied().unwrap_or(1),
        is_sure: counts(solver, group, option) == Counts::Surely,
        counted: shapes_of(solver, shares, group),
        present: present_hosts(solver, group, &BTreeMap::new()),
        highest: highest(solver, group),
    };
    skews.into_iter().filter(|(group, _)| counts(solver, *group, option) != Counts::Never).map(spread).collect()
}

fn shapes_of(solver: &Solver<'_>, shares: &[Share], group: GroupId) -> BTreeSet<usize> {
    let counts = |shape: &usize| solver.problem.demands[*shape].counts.contains(&group);
    shares.iter().map(|share| share.shape).filter(counts).collect()
}

/// Returns whether a spread counts the launches of an option.
fn counts(solver: &Solver<'_>, group: GroupId, option: &NewNodeOption) -> Counts {
    spread_group(&solver.topology, group).map_or(Counts::Never, |spread| {
        solver.capacity.templates.counts(option.template, group, spread, &solver.problem.requirement_sets)
    })
}

/// Returns the most pods of a spread on a host that received some of them from this plan.
fn highest(solver: &Solver<'_>, group: GroupId) -> u32 {
    let counted = |pod: &&usize| solver.problem.demand(**pod).counts.contains(&group);
    let sites: BTreeSet<_> = solver
        .outcome
        .order
        .iter()
        .filter(counted)
        .filter_map(|pod| solver.spot_of(solver.place_of(*pod)?).site)
        .collect();
    sites.into_iter().map(|site| pods_on_host(&solver.topology, group, site)).max().unwrap_or(0)
}

/// Returns the hosts with the lowest cost, the fewest among equals: at least two for several pods of a spread.
fn cheapest(solver: &mut Solver<'_>, option: &NewNodeOption, shares: &[Share]) -> Option<EvenHosts> {
    let (spreads, zones) = (spreads(solver, shares, option), zone_spreads(solver, shares));
    let pods = |spread: &HostSpread| -> usize {
        shares.iter().filter(|share| spread.counted.contains(&share.shape)).map(|share| share.pods).sum()
    };
    let separate = shares.iter().filter(|share| share.level > 0).map(|share| share.pods).max().unwrap_or(0);
    let most = spreads.iter().map(pods).max().unwrap_or(0).max(separate);
    let mut best: Option<(i64, EvenHosts)> = None;
    for hosts in separate.clamp(1, 2)..=most {
        for loads in possible_loads(shares, hosts, &spreads, &zones) {
            solver.progress.steps += shares.len() as u64;
            let minimum = |spread: &HostSpread| spread.minimum(&loads, hosts, pods(spread));
            let minimums: Option<Vec<(GroupId, u32)>> =
                spreads.iter().map(|spread| Some((spread.group, minimum(spread)?))).collect();
            let Some(minimums) = minimums.filter(|_| keeps_zones(&zones, &loads)) else { continue };
            let Some(cost) = cost(solver, option, &loads) else { continue };
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                let (levels, has_zones) = (levels(shares, hosts), !zones.is_empty());
                best = Some((cost, EvenHosts { loads, levels, minimums, has_zones }));
            }
        }
    }
    best.map(|(_, hosts)| hosts)
}

/// Returns the loads of so many hosts: even ones first, then those that differ by no more than the spread allows, where that
/// brings zones closer together.
fn possible_loads(shares: &[Share], hosts: usize, spreads: &[HostSpread], zones: &[ZoneSpread]) -> Vec<Vec<HostLoad>> {
    let mut all = vec![even_loads(shares, hosts)];
    if let ([share], [spread], [zone]) = (shares, spreads, zones) {
        let most = usize::try_from(spread.max_skew).unwrap_or(usize::MAX).min(share.pods / hosts);
        all.extend((1..=most).filter_map(|more| uneven_loads(*share, hosts, zone, more)));
    }
    all
}

/// Returns the preference levels of shapes on so many hosts: pods that need not share them keep their preferences.
fn levels(shares: &[Share], hosts: usize) -> BTreeMap<usize, usize> {
    shares.iter().map(|share| (share.shape, if share.pods <= hosts { 0 } else { share.level })).collect()
}

/// Returns the cost of hosts; `None` if no instance type holds one of the loads.
fn cost(solver: &Solver<'_>, option: &NewNodeOption, loads: &[HostLoad]) -> Option<i64> {
    let entries = &solver.capacity.templates.get(option.template).entries;
    let each = |(load, times): &HostLoad| {
        let entry = entry_for(&solver.capacity, &solver.problem.demands, option, load)?;
        Some(entries[entry].cost.saturating_mul(i64::try_from(*times).unwrap_or(i64::MAX)))
    };
    loads.iter().map(each).try_fold(0_i64, |sum, cost| Some(sum.saturating_add(cost?)))
}

/// Returns the pods on each of so many hosts. Pods are dealt in turns, so that neither the pods of one shape nor the pods of
/// successive shapes differ by more than one between two hosts.
fn even_loads(shares: &[Share], hosts: usize) -> Vec<HostLoad> {
    let ends = shares.iter().flat_map(|share| [share.before % hosts, (share.before + share.pods) % hosts]);
    let mut bounds: Vec<usize> = ends.chain([0, hosts]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let load = |host: usize| {
        let dealt = |share: &Share| {
            let turn = (host + hosts - share.before % hosts) % hosts;
            (share.shape, share.pods / hosts + usize::from(turn < share.pods % hosts))
        };
        shares.iter().map(dealt).filter(|(_, count)| *count > 0).collect()
    };
    bounds.windows(2).map(|bounds| (load(bounds[0]), bounds[1] - bounds[0])).collect()
}

/// Returns the number of pods of these shapes in a load.
fn pods_on(load: &[(usize, usize)], shapes: &BTreeSet<usize>) -> u32 {
    let own = load.iter().filter(|(shape, _)| shapes.contains(shape));
    own.map(|(_, count)| u32::try_from(*count).unwrap_or(u32::MAX)).fold(0, u32::saturating_add)
}

impl HostSpread {
    /// Returns the minimum of pods on every host, with so many new hosts; `None` if the hosts violate the spread. `pods` is the
    /// number of pods to place.
    fn minimum(&self, loads: &[HostLoad], hosts: usize, pods: usize) -> Option<u32> {
        let on_host = |(load, _): &HostLoad| pods_on(load, &self.counted);
        let (least, most) = (loads.iter().map(on_host).min()?, loads.iter().map(on_host).max()?);
        let least = self.present.least.map_or(least, |present| present.min(least));
        let certain = self.present.sure + if self.is_sure { hosts } else { 0 };
        let minimum = if certain < self.min_domains { 0 } else { least };
        let is_spread = self.present.occupied + hosts.min(pods) >= pods.min(2);
        let highest = most.max(self.highest);
        (is_spread && highest <= minimum.saturating_add(self.max_skew)).then_some(minimum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(pods: &[usize], hosts: usize) -> Vec<HostLoad> {
        let mut before = 0;
        let mut shares = Vec::new();
        for (shape, pods) in pods.iter().copied().enumerate() {
            shares.push(Share { shape, level: 0, pods, before });
            before += pods;
        }
        even_loads(&shares, hosts)
    }

    #[test]
    fn even_loads_differ_by_one_pod() {
        assert_eq!(dealt(&[20], 3), [(vec![(0, 7)], 2), (vec![(0, 6)], 1)]);
        assert_eq!(dealt(&[6], 3), [(vec![(0, 2)], 3)]);
    }

    #[test]
    fn even_loads_continue_with_the_next_shape() {
        for hosts in 1..12 {
            for pods in [[1, 5, 7], [4, 4, 4], [11, 1, 2], [3, 0, 8]] {
                let loads = dealt(&pods, hosts);
                assert_eq!(loads.iter().map(|(_, times)| times).sum::<usize>(), hosts);
                let totals: Vec<usize> = loads.iter().map(|(load, _)| load.iter().map(|it| it.1).sum()).collect();
                assert!(totals.iter().max().unwrap_or(&0) - totals.iter().min().unwrap_or(&0) <= 1, "{loads:?}");
                for (shape, pods) in pods.into_iter().enumerate() {
                    let on = |load: &[(usize, usize)]| load.iter().find(|it| it.0 == shape).map_or(0, |it| it.1);
                    let placed: usize = loads.iter().map(|(load, times)| on(load) * times).sum();
                    assert_eq!(placed, pods, "{loads:?}");
                }
            }
        }
    }
}
