//! Spreads over the domains that exist now: those of nodes that count, and those that launches open.

use std::collections::BTreeMap;

use crate::provision::capacity::node_template::{NodeTemplates, TemplateId};
use crate::provision::demand::requirement_sets::RequirementSets;

use super::bound_counts::{certain_domains, occupants};
use super::{Counts, Domain, GroupId, HOST, Rule, RuleKind, Topology, at};

/// Data about an existing or possible domain, except the pods that were in it from the beginning.
#[derive(Default)]
struct Existence {
    /// True if the domain certainly exists.
    sure: bool,
    /// Pods on sites that proved to be in it.
    joined: u32,
    /// Minimum number of pods over the sites that may be the one that opens the domain.
    least: Option<u32>,
}

impl Existence {
    fn add(&mut self, pods: u32, sure: bool) {
        self.sure |= sure;
        if sure {
            self.joined += pods;
        } else {
            self.least = Some(self.least.map_or(pods, |least| least.min(pods)));
        }
    }

    /// Returns the pods that the domain has whenever it exists.
    fn brought(&self) -> u32 {
        if self.sure { self.joined } else { self.least.unwrap_or(0) }
    }
}

/// Evaluates these rules by the existing domains, until [`Self::look_ahead`]. `launches` are templates and sites.
pub(in crate::provision) fn look_at_present<'a>(
    topology: &mut Topology<'a>,
    rules: &[Rule],
    launches: &[(TemplateId, Domain)],
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
) {
    for rule in rules {
        let RuleKind::Spread { min_domains, .. } = rule.kind else { continue };
        let domains = present_domains(topology, rule.group, launches, templates, requirement_sets);
        let sure = domains.values().filter(|it| it.sure).count();
        let group = &mut topology.groups[rule.group];
        let pods = |(domain, it): (&Domain, &Existence)| (at(&group.tallies[0], *domain) + it.brought(), *domain);
        let mut least: Vec<(u32, Domain)> = domains.iter().map(pods).collect();
        least.sort_unstable();
        least.truncate(if sure < min_domains { 0 } else { 2 });
        if let Some(spread) = group.spread_mut() {
            spread.domains.least = Some(least);
        }
    }
}

/// Evaluates these rules by all possible domains again.
pub(in crate::provision) fn look_ahead(topology: &mut Topology<'_>, rules: &[Rule]) {
    for rule in rules.iter().filter(|rule| matches!(rule.kind, RuleKind::Spread { .. })) {
        if let Some(spread) = topology.groups[rule.group].spread_mut() {
            spread.domains.least = None;
        }
    }
}

/// Returns the domains that exist or may exist. A label without a fixed value may become a domain of each of its values.
fn present_domains<'a>(
    topology: &Topology<'a>,
    id: GroupId,
    launches: &[(TemplateId, Domain)],
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
) -> BTreeMap<Domain, Existence> {
    let group = &topology.groups[id];
    let Some(spread) = group.spread() else { return BTreeMap::new() };
    let key = group.keys[0];
    let mut domains: BTreeMap<Domain, Existence> = BTreeMap::new();
    let mut add = |domain, site: &Domain, sure| {
        let pods = spread.on_site.get(site).copied().unwrap_or(0);
        domains.entry(domain).or_default().add(pods, sure);
    };
    occupants(topology, key, spread).for_each(|(domain, site)| add(domain, &site, false));
    for (template, site) in launches {
        let counts = templates.counts(*template, id, &spread.group, requirement_sets);
        match templates.get(*template).pins[key] {
            _ if counts == Counts::Never => {}
            _ if key == HOST => add(*site, site, counts == Counts::Surely),
            Some(domain) => add(domain, site, counts == Counts::Surely),
            None => {
                let values = templates.settled_values(*template, &topology.keys[key].name);
                // A domain without a number has no counted pods.
                let number = |value: &String| topology.keys[key].known.get(value).copied().unwrap_or(Domain::MAX);
                values.iter().for_each(|value| add(number(value), site, false));
            }
        }
    }
    for domain in certain_domains(topology, key, spread) {
        domains.entry(domain).and_modify(|it| it.sure = true);
    }
    domains
}
