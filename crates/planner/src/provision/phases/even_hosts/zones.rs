//! Zones, or other domains, of even hosts: each host starts in the domain with the fewest pods.
//!
//! A number of hosts is possible if their shares keep the spreads over domains. Each host then receives its domain like any
//! other launch (`pin_zone`), and the rehearsal of the plan verifies the order of binding.

use std::collections::{BTreeMap, BTreeSet};

use super::{HostLoad, Share, pods_on};
use crate::provision::Solver;
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
            if solver.topology.spread_key(rule.group) == Some(HOST) {
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
        pods: solver.topology.pods_by_domain(group),
    };
    order.into_iter().map(spread).collect()
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
