//! Evaluation of a rule in one domain, by the pods that are counted there.

use super::daemon_counts::DaemonPresence;
use super::{Domain, GroupKind, HOST, KeyId, Rule, RuleKind, SpreadState, TopologyGroup, at, slot};

impl TopologyGroup<'_> {
    /// Reports whether a rule on this group allows a value of a key, with this many DaemonSet pods of the group in addition.
    pub(super) fn allows(&self, rule: &Rule, key: KeyId, domain: Option<Domain>, daemons: DaemonPresence) -> bool {
        let Some(position) = self.keys.iter().position(|own| *own == key) else { return true };
        let Some(domain) = domain else { return rule.kind == RuleKind::AntiAffinity };
        let sure = at(&self.tallies[position], domain) + daemons.sure;
        match rule.kind {
            RuleKind::AntiAffinity => self.most(position, domain) + daemons.most == 0,
            RuleKind::Exclusive => self.total == 0,
            RuleKind::Affinity => sure > 0 || (rule.own && self.may_start(position, domain)),
            RuleKind::Spread { max_skew, min_domains } => {
                let most = self.most(position, domain) + daemons.most;
                most + u32::from(rule.own) <= self.emptiest(key, min_domains, domain, most).saturating_add(max_skew)
            }
        }
    }

    /// Reports whether a pod counted in a domain could have been the last one placed there, by a rule on this group.
    /// Anti-affinity is not checked: it excludes later pods itself.
    pub(super) fn bears(&self, rule: &Rule, position: usize, domain: Domain) -> bool {
        match rule.kind {
            RuleKind::AntiAffinity | RuleKind::Exclusive => true,
            RuleKind::Affinity => at(&self.tallies[position], domain) > u32::from(rule.own),
            RuleKind::Spread { max_skew, min_domains } => {
                let most = self.most(position, domain);
                most <= self.emptiest(self.keys[position], min_domains, domain, most).saturating_add(max_skew)
            }
        }
    }

    /// Reports whether a group's first pod may start in a domain: no pod exists, and DaemonSet pods of other nodes can only
    /// reach this domain.
    fn may_start(&self, position: usize, domain: Domain) -> bool {
        let coming = self.affinity().map(|affinity| &affinity.coming[position]);
        self.total == 0 && coming.into_iter().flatten().all(|other| *other == domain)
    }

    /// Returns the pods in a domain, including those that may be in another one.
    pub(super) fn most(&self, position: usize, domain: Domain) -> u32 {
        at(&self.tallies[position], domain) + at(&self.maybe[position], domain)
    }

    /// Returns the minimum over the domains that count, with `most` pods in domain `full`: both sides of the skew comparison
    /// must count the same pods. A domain without a node is opened by a node with its DaemonSet pods; a new host is always
    /// possible, unless the plan relies on a minimum for hosts.
    fn emptiest(&self, key: KeyId, min_domains: usize, full: Domain, most: u32) -> u32 {
        let Some(SpreadState { on_site, domains, .. }) = self.spread() else { return 0 };
        let has = |sure: u32, domain: Domain| if domain == full { most } else { sure };
        if let Some(least) = &domains.least {
            return least.iter().map(|(sure, domain)| has(*sure, *domain)).min().unwrap_or(0);
        }
        if domains.certain.as_ref().is_some_and(|certain| certain.len() < min_domains) {
            return if key == HOST { domains.host_minimum } else { 0 };
        }
        let there = |domain: &Domain| has(at(&self.tallies[0], *domain), *domain);
        if key == HOST {
            // A host that does not count is no domain; if it counts, all pods on it count.
            let on_it = |site: &Domain| on_site.get(site).copied().unwrap_or(0);
            let there = |site: &Domain| has(at(&self.tallies[0], *site) + on_it(site), *site);
            let least =
                if domains.brought == 0 { 0 } else { domains.opened.iter().map(there).fold(domains.brought, u32::min) };
            return least.max(domains.host_minimum);
        }
        if domains.reachable.len() < min_domains {
            return 0;
        }
        let brought =
            |domain: &Domain| if *domain == full || domains.opened.contains(domain) { 0 } else { domains.brought };
        domains.reachable.iter().map(|domain| there(domain).saturating_add(brought(domain))).min().unwrap_or(0)
    }

    /// Returns the domains with the fewest pods among those whose minimum decides about a spread. The existing domains of which
    /// only the two least are known come first.
    pub(super) fn emptiest_domains(&self) -> Vec<Domain> {
        let Some(SpreadState { domains, .. }) = self.spread() else { return Vec::new() };
        let counted: Vec<(u32, Domain)> = match &domains.least {
            Some(least) => least.clone(),
            None => domains.reachable.iter().map(|domain| (at(&self.tallies[0], *domain), *domain)).collect(),
        };
        let least = counted.iter().map(|(pods, _)| *pods).min();
        counted.into_iter().filter(|(pods, _)| Some(*pods) == least).map(|(_, domain)| domain).collect()
    }

    /// Returns how many more pods may be added to a domain before the last pod that a spread admitted there violates it. The
    /// minimum over the other domains decides, because this domain's count grows with each addition.
    pub(super) fn slack(&self, rule: &Rule, domain: Domain) -> Option<u32> {
        let RuleKind::Spread { max_skew, min_domains } = rule.kind else { return None };
        let own = self.most(0, domain) + u32::from(rule.own);
        let others = self.emptiest(self.keys[0], min_domains, domain, u32::MAX);
        (others < u32::MAX).then(|| others.saturating_add(max_skew).saturating_sub(own))
    }

    /// Counts as certain the pods that both sides count, and as possible those that either side counts.
    pub(super) fn allow_for(&mut self, other: &Self) {
        for position in 0..self.keys.len() {
            let lists = [&self.tallies, &self.maybe, &other.tallies, &other.maybe];
            let domains = lists.map(|list| list[position].len()).into_iter().max().unwrap_or(0);
            for domain in (0..).take(domains) {
                let sure = at(&self.tallies[position], domain).min(at(&other.tallies[position], domain));
                let most = self.most(position, domain).max(other.most(position, domain));
                *slot(&mut self.tallies[position], domain) = sure;
                *slot(&mut self.maybe[position], domain) = most - sure;
            }
        }
        match (&mut self.kind, &other.kind) {
            (GroupKind::AntiAffinity(own), GroupKind::AntiAffinity(other)) => {
                for (domain, held) in (0..).zip(&other.holders) {
                    let holders = slot(&mut own.holders, domain);
                    *holders = (*holders).max(*held);
                }
            }
            (GroupKind::Spread(own), GroupKind::Spread(other)) => {
                for (site, pods) in &mut own.on_site {
                    *pods = (*pods).min(other.on_site.get(site).copied().unwrap_or(0));
                }
            }
            _ => {}
        }
        self.total = self.total.max(other.total);
    }
}
