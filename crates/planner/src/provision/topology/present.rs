//! Spreads over the domains that exist now: those of nodes that count, and those that launches open.

use crate::provision::frame::{FrameId, Frames};
use crate::provision::wants::Wants;

use super::{Counts, Domain, GroupId, HOST, Kind, Rule, RuleKind, Spot, Topology, at};

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
            let group = &mut self.groups[rule.group];
            let mut least: Vec<(u32, Domain)> = domains.iter().map(|it| (at(&group.tallies[0], *it), *it)).collect();
            least.sort_unstable();
            least.truncate(if domains.len() < min_domains { 0 } else { 2 });
            group.least = Some(least);
        }
    }

    /// Judges these rules by all domains again that there can be.
    pub(in crate::provision) fn look_ahead(&mut self, rules: &[Rule]) {
        rules.iter().for_each(|rule| self.groups[rule.group].least = None);
    }

    /// A label that is still open may become a domain of each of its values.
    fn present(
        &self,
        id: GroupId,
        launches: &[(FrameId, Domain)],
        frames: &Frames<'a>,
        wants: &Wants<'a>,
    ) -> Vec<Domain> {
        let group = &self.groups[id];
        let Kind::Spread(spread) = &group.kind else { return Vec::new() };
        let key = group.keys[0];
        let sites = (0..).zip(&group.eligible).filter(|(_, counts)| **counts != Counts::Never);
        let mut domains: Vec<Domain> =
            sites.flat_map(|(site, _)| self.possible(key, Spot { site: Some(site), pins: None })).collect();
        let counting = |frame: FrameId| frames.counts(frame, id, spread, wants) != Counts::Never;
        for (frame, site) in launches.iter().filter(|(frame, _)| counting(*frame)) {
            match frames.get(*frame).pins[key] {
                _ if key == HOST => domains.push(*site),
                Some(domain) => domains.push(domain),
                None => {
                    let values = frames.settled_values(*frame, &self.keys[key].name);
                    let known = |value: &String| self.keys[key].known.get(value).copied();
                    // Nobody is counted in a domain that has no number yet.
                    domains.extend(values.iter().map(|value| known(value).unwrap_or(Domain::MAX)));
                }
            }
        }
        domains.sort_unstable();
        domains.dedup();
        domains
    }
}
