//! Zones, or other domains, of even hosts: each host starts in the domain with the fewest pods.
//!
//! A number of hosts is possible if their shares keep the spreads over domains. Each host then receives its domain like any
//! other launch (`pin_zone`), and the rehearsal of the plan verifies the order of binding.
//!
//! Where some zones have two hosts and others one, single hosts receive more pods if the spread over hosts allows it. The zones
//! then differ less.

use std::collections::{BTreeMap, BTreeSet};

use super::{HostLoad, Share, pods_on};
use crate::provision::Solver;
use crate::provision::topology::host_minimum::{pods_by_domain, spread_key};
use crate::provision::topology::{Domain, GroupId, HOST, RuleKind};

/// Spread of some shares over another key than the hostname.
pub(super) struct ZoneSpread {
    max_skew: u32,
    min_domains: usize,
    /// Shapes whose pods count.
    counted: BTreeSet<usize>,
    /// Pods in each domain.
    pods: Vec<(Domain, u32)>,
}

/// Returns the spreads over zones of the shares' pods, those of the first share first.
pub(super) fn zone_spreads(solver: &Solver<'_>, shares: &[Share]) -> Vec<ZoneSpread> {
    let mut order: Vec<GroupId> = Vec::new();
    let mut limits: BTreeMap<GroupId, (u32, usize)> = BTreeMap::new();
    for share in shares {
        for rule in &solver.problem.demands[share.shape].levels[share.level].rules {
            let RuleKind::Spread { max_skew, min_domains } = rule.kind else { continue };
            if spread_key(&solver.topology, rule.group) == Some(HOST) {
                continue;
            }
            let (skew, domains) = limits.entry(rule.group).or_insert_with(|| {
                order.push(rule.group);
                (max_skew, min_domains)
            });
            (*skew, *domains) = (max_skew.min(*skew), min_domains.max(*domains));
        }
    }
    let counts = |group: GroupId, shape: usize| solver.problem.demands[shape].counts.contains(&group);
    let spread = |group: GroupId| ZoneSpread {
        max_skew: limits[&group].0,
        min_domains: limits[&group].1,
        counted: shares.iter().map(|share| share.shape).filter(|shape| counts(group, *shape)).collect(),
        pods: pods_by_domain(&solver.topology, group),
    };
    order.into_iter().map(spread).collect()
}

/// Returns the loads of hosts that start in this order, one in some zones and two in the others: a single host has this number
/// of pods more than one of two. `None` if the hosts do not fit the zones so, or if a zone has pods already.
///
/// kube-scheduler can bind the pods in any order. While pods remain, a host with the fewest pods is never stopped by the spread
/// over hosts. If its zone has as many pods as the spread over zones allows, the other host there has at least the maximum skew
/// of zones more pods than the emptiest zone. A single host of the emptiest zone has its share then, or it has fewer pods than
/// the maximum skew of hosts allows, because `least` is no more than the maximum skew of zones.
pub(super) fn uneven_loads(share: Share, hosts: usize, zone: &ZoneSpread, more: usize) -> Option<Vec<HostLoad>> {
    let zones = zone.pods.len();
    let doubled = hosts.checked_sub(zones).filter(|doubled| (1..zones).contains(doubled))?;
    let (pairs, singles) = (2 * doubled, zones - doubled);
    let pods = share.pods.checked_sub(singles * more)?;
    let (least, rest) = (pods / hosts, pods % hosts);
    let is_empty = zone.pods.iter().all(|(_, pods)| *pods == 0);
    let is_bound = usize::try_from(zone.max_skew).is_ok_and(|skew| least <= skew);
    if least == 0 || !is_empty || !is_bound {
        return None;
    }
    let single = |host: usize| least + more + usize::from(host + pairs < rest);
    let paired = |host: usize| least + usize::from(host < rest);
    let loads = (0..singles).map(single).chain((0..pairs).map(paired));
    Some(loads.map(|count| (vec![(share.shape, count)], 1)).collect())
}

/// Reports whether hosts keep the spreads when each starts in the domain that has the fewest pods of the first spread.
pub(super) fn keeps_zones(zones: &[ZoneSpread], loads: &[HostLoad]) -> bool {
    let Some(first) = zones.first() else { return true };
    let mut pods: Vec<Vec<(Domain, u32)>> = zones.iter().map(|zone| zone.pods.clone()).collect();
    let mut used: BTreeSet<Domain> = BTreeSet::new();
    for (load, times) in loads {
        for _ in 0..*times {
            let least = pods[0].iter().min_by_key(|(_, pods)| *pods).map(|(domain, _)| *domain);
            let Some(domain) = least.filter(|_| !first.pods.is_empty()) else { return false };
            used.insert(domain);
            for (zone, pods) in zones.iter().zip(&mut pods) {
                let own = pods.iter_mut().filter(|(of, _)| *of == domain);
                own.for_each(|(_, count)| *count += pods_on(load, &zone.counted));
            }
        }
    }
    zones.iter().zip(&pods).all(|(zone, pods)| zone.holds(pods, &used))
}

impl ZoneSpread {
    fn holds(&self, pods: &[(Domain, u32)], used: &BTreeSet<Domain>) -> bool {
        let least = pods.iter().map(|(_, count)| *count).min().unwrap_or(0);
        let minimum = if pods.len() < self.min_domains { 0 } else { least };
        let most = pods.iter().filter(|(domain, _)| used.contains(domain)).map(|(_, count)| *count).max().unwrap_or(0);
        most <= minimum.saturating_add(self.max_skew)
    }
}
