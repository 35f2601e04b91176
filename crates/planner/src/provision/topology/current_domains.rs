//! Spreads over the domains that exist now: those of nodes that count, and those that launches open.

use std::collections::BTreeMap;

use crate::provision::node_template::{NodeTemplates, TemplateId};
use crate::provision::requirement_sets::RequirementSets;

use super::{Counts, Domain, GroupId, GroupKind, HOST, Rule, RuleKind, Topology, at};

/// What is known of a domain that there is or may be, apart from the pods that were in it from the first.
#[derive(Default)]
struct Existence {
    /// Whether there is one for certain.
    sure: bool,
    /// Pods on sites that turned out to be in it.
    joined: u32,
    /// Pods at least on each site that may be the one that opens it.
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

    /// Pods that it has whenever there is one at all.
    fn brought(&self) -> u32 {
        if self.sure { self.joined } else { self.least.unwrap_or(0) }
    }
}

impl<'a> Topology<'a> {
    /// Judges these rules by the domains that exist, until [`Self::look_ahead`]. `launches` are frames and sites.
    pub(in crate::provision) fn look_at_present(
        &mut self,
        rules: &[Rule],
        launches: &[(TemplateId, Domain)],
        frames: &NodeTemplates<'a>,
        wants: &RequirementSets<'a>,
    ) {
        for rule in rules {
            let RuleKind::Spread { min_domains, .. } = rule.kind else { continue };
            let domains = self.present(rule.group, launches, frames, wants);
            let sure = domains.values().filter(|it| it.sure).count();
            let group = &mut self.groups[rule.group];
            let pods = |(domain, it): (&Domain, &Existence)| (at(&group.tallies[0], *domain) + it.brought(), *domain);
            let mut least: Vec<(u32, Domain)> = domains.iter().map(pods).collect();
            least.sort_unstable();
            least.truncate(if sure < min_domains { 0 } else { 2 });
            group.least = Some(least);
        }
    }

    /// Judges these rules by all domains again that there can be.
    pub(in crate::provision) fn look_ahead(&mut self, rules: &[Rule]) {
        rules.iter().for_each(|rule| self.groups[rule.group].least = None);
    }

    /// The domains that there are or may be. A label that is still open may become a domain of each of its values.
    fn present(
        &self,
        id: GroupId,
        launches: &[(TemplateId, Domain)],
        frames: &NodeTemplates<'a>,
        wants: &RequirementSets<'a>,
    ) -> BTreeMap<Domain, Existence> {
        let group = &self.groups[id];
        let GroupKind::Spread(spread) = &group.kind else { return BTreeMap::new() };
        let key = group.keys[0];
        let mut domains: BTreeMap<Domain, Existence> = BTreeMap::new();
        let mut add = |domain, site: &Domain, sure| {
            let pods = group.on_site.get(site).copied().unwrap_or(0);
            domains.entry(domain).or_default().add(pods, sure);
        };
        self.occupants(group).for_each(|(domain, site)| add(domain, &site, false));
        for (frame, site) in launches {
            let counts = frames.counts(*frame, id, spread, wants);
            match frames.get(*frame).pins[key] {
                _ if counts == Counts::Never => {}
                _ if key == HOST => add(*site, site, counts == Counts::Surely),
                Some(domain) => add(domain, site, counts == Counts::Surely),
                None => {
                    let values = frames.settled_values(*frame, &self.keys[key].name);
                    // Nobody is counted in a domain that has no number yet.
                    let number = |value: &String| self.keys[key].known.get(value).copied().unwrap_or(Domain::MAX);
                    values.iter().for_each(|value| add(number(value), site, false));
                }
            }
        }
        for domain in self.certain(group) {
            domains.entry(domain).and_modify(|it| it.sure = true);
        }
        domains
    }
}
