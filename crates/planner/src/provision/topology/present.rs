//! Spreads over the domains that exist now: those of nodes that count, and those that launches open.

use std::collections::BTreeMap;

use crate::provision::frame::{FrameId, Frames};
use crate::provision::wants::Wants;

use super::{Counts, Domain, GroupId, HOST, Kind, Rule, RuleKind, Topology, at};

impl<'a> Topology<'a> {
    /// Judges these rules by the domains that exist, until [`Self::look_ahead`]. `launches` are frames and sites.
    pub(in crate::provision) fn look_at_present(
        &mut self,
        rules: &[Rule],
        launches: &[(FrameId, Domain)],
        frames: &Frames<'a>,
        wants: &Wants<'a>,
    ) {
        for rule in rules {
            let RuleKind::Spread { min_domains, .. } = rule.kind else { continue };
            let domains = self.present(rule.group, launches, frames, wants);
            let sure = domains.values().filter(|sure| **sure).count();
            let group = &mut self.groups[rule.group];
            let mut least: Vec<(u32, Domain)> = domains.keys().map(|it| (at(&group.tallies[0], *it), *it)).collect();
            least.sort_unstable();
            least.truncate(if sure < min_domains { 0 } else { 2 });
            group.least = Some(least);
        }
    }

    /// Judges these rules by all domains again that there can be.
    pub(in crate::provision) fn look_ahead(&mut self, rules: &[Rule]) {
        rules.iter().for_each(|rule| self.groups[rule.group].least = None);
    }

    /// The domains that there are or may be, and which of them are certain. A label that is still open may become a domain of
    /// each of its values.
    fn present(
        &self,
        id: GroupId,
        launches: &[(FrameId, Domain)],
        frames: &Frames<'a>,
        wants: &Wants<'a>,
    ) -> BTreeMap<Domain, bool> {
        let group = &self.groups[id];
        let Kind::Spread(spread) = &group.kind else { return BTreeMap::new() };
        let key = group.keys[0];
        let mut domains: BTreeMap<Domain, bool> =
            self.occupied(group).into_iter().map(|domain| (domain, false)).collect();
        let mut add = |domain, sure| *domains.entry(domain).or_insert(sure) |= sure;
        self.certain(group).into_iter().for_each(|domain| add(domain, true));
        for (frame, site) in launches {
            let counts = frames.counts(*frame, id, spread, wants);
            match frames.get(*frame).pins[key] {
                _ if counts == Counts::Never => {}
                _ if key == HOST => add(*site, counts == Counts::Surely),
                Some(domain) => add(domain, counts == Counts::Surely),
                None => {
                    let values = frames.settled_values(*frame, &self.keys[key].name);
                    // Nobody is counted in a domain that has no number yet.
                    let number = |value: &String| self.keys[key].known.get(value).copied().unwrap_or(Domain::MAX);
                    values.iter().for_each(|value| add(number(value), false));
                }
            }
        }
        domains
    }
}
