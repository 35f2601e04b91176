//! Inter-pod constraints: counts of groups of pods per domain, and the placements that they forbid.
//!
//! A *key* is a node label whose values are domains. The hostname is the first key, and its domains are the *sites*: the
//! snapshot's nodes, then the plan's launches. A *group* is a set of pods that some pod's rule counts. Rules follow
//! kube-scheduler: affinity counts only pods that match all terms. A first pod may start a group only where no such pod exists
//! at all. Anti-affinity applies in both directions. The minimum of a spread covers the domains that the pod could reach; for
//! hostnames it is the number on which the plan relies (`host_minimum`), otherwise 0, because a new host is always possible.

pub(super) mod bound_counts;
pub(super) mod current_domains;
pub(super) mod daemon_counts;
mod domain_rules;
mod group_store;
mod groups;
pub(super) mod host_minimum;
pub(super) mod leaving_pods;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Snapshot, TopologyReason, label};

pub(crate) use bound_counts::KnownDomains;
pub(super) use bound_counts::possible_labels;
pub(super) use daemon_counts::{DaemonCounts, DaemonPresence};
use group_store::{AffinityState, AntiAffinityState, GroupKind, GroupStore, SpreadDomains, SpreadState, TopologyGroup};
use groups::GroupIndex;
pub(super) use groups::{Counts, PossibleLabels, SpreadGroup};
pub(super) use leaving_pods::CountsBefore;

pub(super) type GroupId = usize;
/// Node label as a topology key; 0 is the hostname.
pub(super) type KeyId = usize;
/// Label value as a domain; a site for the hostname.
pub(super) type Domain = u32;

/// Hostname key, whose domains are sites.
pub(super) const HOST: KeyId = 0;

/// Constraint of a pod on one group.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) group: GroupId,
    pub(super) kind: RuleKind,
    /// True if the group counts the pod itself.
    pub(super) own: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleKind {
    Spread {
        max_skew: u32,
        min_domains: usize,
    },
    Affinity,
    AntiAffinity,
    /// Allowed only while no pod of the group exists in any domain.
    Exclusive,
}

impl Rule {
    pub(super) fn anti_affinity(group: GroupId) -> Self {
        Self { group, kind: RuleKind::AntiAffinity, own: false }
    }
}

#[derive(Clone)]
struct TopologyKey {
    name: String,
    values: Vec<String>,
    known: BTreeMap<String, Domain>,
    /// Value on each of the snapshot's nodes.
    of_site: Vec<Option<Domain>>,
    /// Values that in-flight claims may still receive.
    open: BTreeMap<Domain, Prospects>,
}

/// Values that a future node may receive, and whether it may lack the label.
#[derive(Clone)]
struct Prospects {
    values: Vec<Domain>,
    lacking: bool,
}

/// State of a snapshot node for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stand {
    Without,
    In(Domain),
    /// One of several domains, not decided yet; holds the node's site.
    Open(Domain),
}

/// All keys and groups of one plan.
#[derive(Clone)]
pub(super) struct Topology<'a> {
    keys: Vec<TopologyKey>,
    index: GroupIndex<'a>,
    groups: GroupStore<'a>,
    /// Number of nodes in the snapshot.
    sites: usize,
    /// True if each launch with pods that a spread counts must satisfy the spread at once, without later launches.
    strict: bool,
    /// The groups as they were before the plan's first pod.
    beginning: GroupStore<'a>,
}

/// Location of a pod for topology rules: a site and its values.
#[derive(Clone, Copy)]
pub(super) struct Spot<'p> {
    /// `None` for a launch that is not opened yet: no pod is there.
    pub(super) site: Option<Domain>,
    /// Values by key for a launch; the values of a snapshot node are stored in the keys.
    pub(super) pins: Option<&'p [Option<Domain>]>,
}

/// Groups that count a pod, and groups of its own anti-affinity.
#[derive(Clone, Copy)]
pub(super) struct Membership<'m> {
    pub(super) counts: &'m [GroupId],
    pub(super) holds: &'m [GroupId],
}

/// Pods to count, and how certainly they will be at their location.
#[derive(Clone, Copy)]
pub(super) struct CountedPods {
    pub(super) count: u32,
    pub(super) there: Counts,
}

impl<'a> Topology<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut topology = Self {
            keys: Vec::new(),
            index: GroupIndex::new(&snapshot.namespaces),
            groups: GroupStore::default(),
            sites: snapshot.nodes.len(),
            strict: false,
            beginning: GroupStore::default(),
        };
        topology.key(label::HOSTNAME);
        topology
    }

    /// Reports whether no pod has inter-pod constraints.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the keys and their names.
    pub(super) fn key_names(&self) -> impl Iterator<Item = (KeyId, &str)> {
        self.keys.iter().enumerate().map(|(id, key)| (id, key.name.as_str()))
    }

    pub(super) fn key_name(&self, key: KeyId) -> &str {
        &self.keys[key].name
    }

    pub(super) fn value(&self, key: KeyId, domain: Domain) -> &str {
        &self.keys[key].values[domain as usize]
    }

    /// Returns the number of a value, if it has one.
    pub(super) fn known(&self, key: KeyId, value: &str) -> Option<Domain> {
        self.keys[key].known.get(value).copied()
    }

    fn key(&mut self, name: &str) -> KeyId {
        self.keys.iter().position(|key| key.name == name).unwrap_or_else(|| {
            self.keys.push(TopologyKey {
                name: name.to_owned(),
                values: Vec::new(),
                known: BTreeMap::new(),
                of_site: Vec::new(),
                open: BTreeMap::new(),
            });
            self.keys.len() - 1
        })
    }

    /// Returns the number of a value and assigns one if necessary.
    pub(super) fn domain(&mut self, key: KeyId, value: &str) -> Domain {
        let key = &mut self.keys[key];
        if let Some(known) = key.known.get(value) {
            return *known;
        }
        let domain = Domain::try_from(key.values.len()).unwrap_or(Domain::MAX);
        key.values.push(value.to_owned());
        key.known.insert(value.to_owned(), domain);
        domain
    }

    /// Reports whether two pods with this rule, which counts them both, can conflict other than on a shared host.
    pub(super) fn limits_each_other(&self, rule: &Rule) -> bool {
        let on_host = self.groups[rule.group].keys == [HOST];
        match rule.kind {
            RuleKind::Spread { .. } | RuleKind::AntiAffinity => !on_host,
            RuleKind::Affinity | RuleKind::Exclusive => false,
        }
    }

    /// Returns the keys whose values must be known to place pods with these rules and groups, in the order of their names.
    pub(super) fn keys_to_settle(&self, rules: &[Rule], counts: &[GroupId], excluded_by: &[GroupId]) -> Vec<KeyId> {
        let rules = rules.iter().map(|rule| &self.groups[rule.group]);
        let counting = counts.iter().map(|group| &self.groups[*group]).filter(|group| group.constrained);
        let shunning = excluded_by.iter().map(|group| &self.groups[*group]).filter(|group| group.is_held());
        let all = rules.chain(counting).chain(shunning).flat_map(|group| group.keys.iter().copied());
        let mut keys: Vec<KeyId> = all.filter(|key| *key != HOST).collect();
        keys.sort_unstable_by_key(|key| &self.keys[*key].name);
        keys.dedup();
        keys
    }

    /// Returns the keys of rules whose refusal of a domain may be temporary.
    pub(super) fn fickle_keys(&self, rules: &[Rule]) -> Vec<KeyId> {
        let mut keys = Vec::new();
        for rule in rules {
            match rule.kind {
                RuleKind::Affinity | RuleKind::Exclusive => keys.extend(&self.groups[rule.group].keys),
                RuleKind::Spread { .. } => keys.extend(self.groups[rule.group].keys.iter().filter(|key| **key != HOST)),
                RuleKind::AntiAffinity => {}
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the value of a key at a spot.
    pub(super) fn domain_at(&self, key: KeyId, spot: Spot<'_>) -> Option<Domain> {
        domain_at(&self.keys, key, spot)
    }

    /// Reports whether the rules and other pods' anti-affinity allow one value of one key.
    pub(super) fn allows(&self, rules: &[Rule], excluded_by: &[GroupId], key: KeyId, domain: Option<Domain>) -> bool {
        self.allows_beside(rules, excluded_by, key, domain, &DaemonCounts::default())
    }

    /// Like `allows`, with the DaemonSet pods that a launch brings.
    pub(super) fn allows_beside(
        &self,
        rules: &[Rule],
        excluded_by: &[GroupId],
        key: KeyId,
        domain: Option<Domain>,
        daemons: &DaemonCounts,
    ) -> bool {
        rules.iter().all(|rule| self.groups[rule.group].allows(rule, key, domain, daemons.get(rule.group)))
            && excluded_by.iter().all(|group| {
                let group = &self.groups[*group];
                group.keys[0] != key || domain.is_none_or(|domain| group.holders_in(domain) == 0)
            })
    }

    /// Returns domains of a key that the rules or other pods' anti-affinity forbid.
    pub(super) fn refused(&self, rules: &[Rule], excluded_by: &[GroupId], key: KeyId) -> BTreeSet<Domain> {
        let domains = if key == HOST { self.sites } else { self.keys[key].values.len() };
        let all = (0..).take(domains);
        all.filter(|domain| !self.allows(rules, excluded_by, key, Some(*domain))).collect()
    }

    /// Returns the state of a snapshot node for a key.
    pub(super) fn stand(&self, key: KeyId, spot: Spot<'_>) -> Stand {
        let open = spot.site.filter(|site| self.keys[key].open.contains_key(site));
        self.domain_at(key, spot).map(Stand::In).or(open.map(Stand::Open)).unwrap_or(Stand::Without)
    }

    /// Reports whether the rules allow a node in this state for a key, with every value that it may still receive. Affinity to
    /// pods on an undecided node is satisfied on that node.
    pub(super) fn allows_stand(&self, rules: &[Rule], excluded_by: &[GroupId], key: KeyId, stand: Stand) -> bool {
        let site = match stand {
            Stand::Without => return self.allows(rules, excluded_by, key, None),
            Stand::In(domain) => return self.allows(rules, excluded_by, key, Some(domain)),
            Stand::Open(site) => site,
        };
        let Some(Prospects { values, lacking }) = self.keys[key].open.get(&site) else { return false };
        let possible = || values.iter().copied().map(Some).chain(lacking.then_some(None));
        let kept = |rule: &Rule| {
            let group = &self.groups[rule.group];
            group.affinity().is_some_and(|affinity| affinity.here.contains(&site))
                || possible().all(|domain| group.allows(rule, key, domain, DaemonPresence::default()))
        };
        rules.iter().all(kept) && possible().all(|domain| self.allows(&[], excluded_by, key, domain))
    }

    /// Like `allows_stand`, for a node by its spot.
    pub(super) fn allows_at(&self, rules: &[Rule], excluded_by: &[GroupId], key: KeyId, spot: Spot<'_>) -> bool {
        self.allows_stand(rules, excluded_by, key, self.stand(key, spot))
    }

    /// Reports whether the rules allow the host; a launch that is not opened yet is empty.
    pub(super) fn allows_host(&self, rules: &[Rule], excluded_by: &[GroupId], site: Option<Domain>) -> bool {
        self.allows(rules, excluded_by, HOST, Some(site.unwrap_or(Domain::MAX)))
    }

    /// Returns how many more pods with these rules the host takes.
    pub(super) fn host_slots(&self, rules: &[Rule], site: Option<Domain>) -> usize {
        self.host_slots_beside(rules, site, &DaemonCounts::default())
    }

    /// Like `host_slots`, with the DaemonSet pods that a launch brings.
    pub(super) fn host_slots_beside(&self, rules: &[Rule], site: Option<Domain>, daemons: &DaemonCounts) -> usize {
        let slots = |rule: &Rule| {
            let group = &self.groups[rule.group];
            let there = site.map_or(0, |site| group.most(0, site)) + daemons.get(rule.group).most;
            match rule.kind {
                _ if group.keys[0] != HOST || !rule.own => usize::MAX,
                RuleKind::Spread { max_skew, .. } => {
                    let minimum = group.spread().map_or(0, |spread| spread.domains.host_minimum);
                    minimum.saturating_add(max_skew).saturating_sub(there) as usize
                }
                RuleKind::AntiAffinity | RuleKind::Exclusive => usize::from(there == 0),
                RuleKind::Affinity => usize::MAX,
            }
        };
        rules.iter().map(slots).min().unwrap_or(usize::MAX)
    }

    /// Returns the rule on a key that refuses all of these domains, or a new host; `None` when other pods' rules refuse them.
    pub(super) fn refusal(&self, rules: &[Rule], key: KeyId, domains: &[Domain]) -> Option<TopologyReason> {
        let none = [Domain::MAX];
        let domains = if domains.is_empty() { &none } else { domains };
        let no_daemons = DaemonPresence::default();
        let allows = |rule: &Rule, domain| self.groups[rule.group].allows(rule, key, Some(domain), no_daemons);
        let refused_by = |rule: &&Rule| !domains.iter().any(|it| allows(rule, *it));
        rules.iter().find(refused_by).map(|rule| match rule.kind {
            RuleKind::Spread { max_skew, .. } => {
                TopologyReason::Spread { max_skew, emptiest: self.emptiest(rule.group, key, domains) }
            }
            RuleKind::Affinity => TopologyReason::Near,
            RuleKind::AntiAffinity => TopologyReason::Apart,
            RuleKind::Exclusive => TopologyReason::Claimed,
        })
    }

    /// Returns the names of the first few domains with the fewest pods of a spread, without the refused ones.
    fn emptiest(&self, group: GroupId, key: KeyId, refused: &[Domain]) -> Vec<String> {
        const SHOWN: usize = 3;
        if key == HOST {
            return Vec::new();
        }
        let domains = self.groups[group].emptiest_domains().into_iter().filter(|domain| !refused.contains(domain));
        let mut names: Vec<String> = domains.map(|domain| self.value(key, domain).to_owned()).collect();
        names.sort();
        names.truncate(SHOWN);
        names
    }

    /// Returns the number of pods that spreads count in a domain; fewer pods mean a smaller skew.
    pub(super) fn pods_in_domain(&self, rules: &[Rule], key: KeyId, domain: Domain) -> u32 {
        let spread = rules.iter().filter(|rule| matches!(rule.kind, RuleKind::Spread { .. }));
        let there = spread.filter(|rule| self.groups[rule.group].keys == [key]);
        there.map(|rule| at(&self.groups[rule.group].tallies[0], domain)).sum()
    }

    /// Returns the number of domains over which pods with these rules are spread by one key, at least 1.
    pub(super) fn breadth(&self, rules: &[Rule]) -> usize {
        let spread = rules.iter().filter(|rule| matches!(rule.kind, RuleKind::Spread { .. }));
        let wide = spread.map(|rule| &self.groups[rule.group]).filter(|group| group.keys != [HOST]);
        wide.map(|group| group.spread().map_or(0, |spread| spread.domains.reachable.len())).max().unwrap_or(1).max(1)
    }

    /// Counts pods of one membership at a spot. `suits` returns whether a spread counts pods on that launch.
    pub(super) fn record(
        &mut self,
        membership: Membership<'_>,
        spot: Spot<'_>,
        pods: CountedPods,
        suits: impl Fn(GroupId, &SpreadGroup<'a>) -> Counts,
    ) {
        for id in membership.counts {
            let group = &self.groups[*id];
            let counted = match (&group.kind, spot.pins, spot.site) {
                (GroupKind::Spread(spread), Some(_), _) => suits(*id, &spread.group),
                (GroupKind::Spread(spread), None, Some(site)) => spread.eligible[site as usize],
                _ => Counts::Surely,
            };
            if counted != Counts::Never && pods.there == Counts::Surely {
                self.note_on_site(*id, spot, pods.count, counted);
            }
            let counted = counted.min(pods.there);
            if counted != Counts::Never {
                self.count(*id, spot, pods.count, counted);
            }
        }
        for id in membership.holds {
            let key = self.groups[*id].keys[0];
            if let Some(anti) = self.groups[*id].anti_affinity_mut() {
                possible(&self.keys, key, spot).for_each(|domain| *slot(&mut anti.holders, domain) += pods.count);
            }
        }
    }

    fn note_on_site(&mut self, id: GroupId, spot: Spot<'_>, pods: u32, counted: Counts) {
        let key = self.groups[id].keys[0];
        let settled = counted == Counts::Surely && domain_at(&self.keys, key, spot).is_some();
        let Some(site) = spot.site.filter(|_| !settled && self.groups[id].spread().is_some()) else { return };
        if let Some(spread) = self.groups[id].spread_mut() {
            *spread.on_site.entry(site).or_default() += pods;
        }
    }

    fn count(&mut self, id: GroupId, spot: Spot<'_>, pods: u32, counted: Counts) {
        let mut somewhere = false;
        let group = &mut self.groups[id];
        for (position, key) in group.keys.iter().enumerate() {
            let settled = domain_at(&self.keys, *key, spot).is_some();
            if let (GroupKind::Affinity(affinity), false, Some(site)) = (&mut group.kind, settled, spot.site) {
                affinity.here.insert(site);
            }
            let sure = settled && counted == Counts::Surely;
            let list = if sure { &mut group.tallies } else { &mut group.maybe };
            for domain in possible(&self.keys, *key, spot) {
                *slot(&mut list[position], domain) += pods;
                somewhere = true;
            }
        }
        // A DaemonSet pod that may come does not prevent a pod from being the first of its group.
        group.total += if somewhere && counted == Counts::Surely { u64::from(pods) } else { 0 };
    }

    /// Returns the values that a key has or may receive at a spot.
    pub(super) fn possible(&self, key: KeyId, spot: Spot<'_>) -> impl Iterator<Item = Domain> {
        possible(&self.keys, key, spot)
    }
}

fn domain_at(keys: &[TopologyKey], key: KeyId, spot: Spot<'_>) -> Option<Domain> {
    match (key, spot.pins, spot.site) {
        (HOST, ..) => spot.site,
        (_, Some(pins), _) => pins[key],
        (_, None, Some(site)) => keys[key].of_site[site as usize],
        (_, None, None) => None,
    }
}

fn possible<'k>(keys: &'k [TopologyKey], key: KeyId, spot: Spot<'_>) -> impl Iterator<Item = Domain> + use<'k> {
    let settled = domain_at(keys, key, spot);
    let undecided = spot.site.filter(|_| settled.is_none() && spot.pins.is_none());
    let open = undecided.and_then(|site| keys[key].open.get(&site)).map_or(&[][..], |open| &open.values);
    settled.into_iter().chain(open.iter().copied())
}

fn at(list: &[u32], domain: Domain) -> u32 {
    list.get(domain as usize).copied().unwrap_or(0)
}

fn slot(list: &mut Vec<u32>, domain: Domain) -> &mut u32 {
    let position = domain as usize;
    if list.len() <= position {
        list.resize(position + 1, 0);
    }
    &mut list[position]
}
