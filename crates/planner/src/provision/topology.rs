//! Where pods stand to each other: which groups of pods count in which domains, and what that forbids.
//!
//! A *key* is a node label whose values are domains; the host's name is the first of them and its domains are the
//! *sites*: the snapshot's nodes, then the plan's launches. A *group* is a set of pods that some pod of the plan looks at.
//! What a rule says is kube-scheduler's law: affinity counts only pods that match all terms and may start anew only where
//! no such pod exists at all; anti-affinity holds both ways; a spread's emptiest domain counts among those that the pod
//! could reach. A new host is always possible, so for hosts the emptiest one is empty.

mod bound_counts;
mod current_domains;
mod daemon_counts;
mod domain_rules;
mod group_store;
mod groups;
mod leaving_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{PodTerm, Snapshot, TopologyReason, label};

pub(crate) use bound_counts::KnownDomains;
pub(super) use bound_counts::possible_labels;
pub(super) use daemon_counts::{DaemonCounts, DaemonPresence};
use group_store::GroupStore;
pub(super) use groups::{Counts, PossibleLabels, SpreadGroup};
pub(super) use leaving_pods::CountsBefore;

pub(super) type GroupId = usize;
/// A node label; 0 is the host's name.
pub(super) type KeyId = usize;
/// A label value; a site for the host's name.
pub(super) type Domain = u32;

/// The host's name, whose domains are sites.
pub(super) const HOST: KeyId = 0;

/// What a pod demands of one group.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) group: GroupId,
    pub(super) kind: RuleKind,
    /// Whether the group counts the pod itself.
    pub(super) own: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleKind {
    Spread {
        max_skew: u32,
        min_domains: usize,
    },
    Near,
    Apart,
    /// Only where nobody of the group is anywhere.
    Alone,
}

impl Rule {
    pub(super) fn apart(group: GroupId) -> Self {
        Self { group, kind: RuleKind::Apart, own: false }
    }
}

/// What a group is, by which equal demands share one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKind<'a> {
    Spread(SpreadGroup<'a>),
    Near {
        namespace: &'a str,
        terms: Vec<&'a PodTerm>,
    },
    Apart {
        namespace: &'a str,
        term: &'a PodTerm,
    },
    /// Pods with one volume claim, reported one by one.
    Claim(&'a str),
}

#[derive(Clone)]
struct TopologyGroup<'a> {
    kind: GroupKind<'a>,
    keys: Vec<KeyId>,
    /// Pods in each domain, one list a key.
    tallies: Vec<Vec<u32>>,
    /// Pods that count perhaps, or whose domain is one of several, counted in each of them; one list a key.
    maybe: Vec<Vec<u32>>,
    /// Spread: pods that are on a site for certain, of which it is open whether it counts or which domain it is in. The domain
    /// that it opens has them.
    on_site: BTreeMap<Domain, u32>,
    /// Pods that are surely in some domain of some key.
    total: u64,
    /// Anti-affinity: pods in each domain that hold the term.
    holders: Vec<u32>,
    /// Affinity: by key, domains to which pods of the group may come with nodes that are still to come.
    coming: Vec<BTreeSet<Domain>>,
    /// Affinity: by key, the domain of the first pod of the group, where that is one of the plan's and nobody was there.
    started: Option<Vec<Option<Domain>>>,
    /// Spread: by domain, how many more may come there with new nodes until a pod of the plan would have been too many.
    slack: BTreeMap<Domain, u32>,
    /// Spread: domains with nodes that count, as far as anyone comes along with nodes.
    opened: BTreeSet<Domain>,
    /// Spread: those of them that are certain, where a strict plan counts on no others.
    certain: Option<BTreeSet<Domain>>,
    /// Spread: how many come along at least with every node that is still to come.
    brought: u32,
    /// Affinity: sites with pods that are still in no domain that is known.
    here: BTreeSet<Domain>,
    /// Whether a pod of the plan looks at the tallies.
    constrained: bool,
    /// Whether any pod holds the term as required.
    held: bool,
    /// Spread: the domains that a pod with this constraint could reach.
    reachable: Vec<Domain>,
    /// Spread: whether launches that it may count must not leave their domain open.
    guarded: bool,
    /// Spread: the two emptiest domains that exist with what they have, while only those are looked at.
    least: Option<Vec<(u32, Domain)>>,
    /// Spread: whether pods on each site count.
    eligible: Arc<[Counts]>,
    /// Spread: for sites that may still come up in one of several domains, those in which pods there may count.
    prospects: BTreeMap<Domain, Vec<Domain>>,
}

#[derive(Clone)]
struct TopologyKey {
    name: String,
    values: Vec<String>,
    known: BTreeMap<String, Domain>,
    /// The value on each of the snapshot's nodes.
    of_site: Vec<Option<Domain>>,
    /// What claims in flight may still get.
    open: BTreeMap<Domain, Prospects>,
}

/// Values that a node to come may get, and whether it may be without one.
#[derive(Clone)]
struct Prospects {
    values: Vec<Domain>,
    lacking: bool,
}

/// How a node of the snapshot stands to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stand {
    Without,
    In(Domain),
    /// It may come up in one of several; the site that it is.
    Open(Domain),
}

/// All keys and groups of one plan.
#[derive(Clone)]
pub(super) struct Topology<'a> {
    namespaces: &'a BTreeMap<String, BTreeMap<String, String>>,
    keys: Vec<TopologyKey>,
    groups: GroupStore<'a>,
    known: BTreeMap<GroupKind<'a>, GroupId>,
    /// Groups that may mean a pod with this label and value, by the first requirement of their selector.
    by_label: BTreeMap<(&'a str, &'a str), Vec<GroupId>>,
    by_any_label: Vec<GroupId>,
    /// How many nodes the snapshot has.
    sites: usize,
    /// Whether a launch that brings along whom a spread counts must leave it even at once, without those that come later.
    strict: bool,
    /// The groups as they were before the plan's first pod.
    beginning: GroupStore<'a>,
}

/// Where a pod goes, for the rules: a site and its values.
#[derive(Clone, Copy)]
pub(super) struct Spot<'p> {
    /// `None` for a launch that is not open yet: nobody is there.
    pub(super) site: Option<Domain>,
    /// Values by key for a launch; for a node of the snapshot they are looked up.
    pub(super) pins: Option<&'p [Option<Domain>]>,
}

/// The groups that count a pod, and those of the anti-affinity that it holds.
#[derive(Clone, Copy)]
pub(super) struct Membership<'m> {
    pub(super) counts: &'m [GroupId],
    pub(super) holds: &'m [GroupId],
}

/// Pods to be counted, and whether they will be where they are said to be.
#[derive(Clone, Copy)]
pub(super) struct CountedPods {
    pub(super) count: u32,
    pub(super) there: Counts,
}

impl<'a> Topology<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut topology = Self {
            namespaces: &snapshot.namespaces,
            keys: Vec::new(),
            groups: GroupStore::default(),
            known: BTreeMap::new(),
            by_label: BTreeMap::new(),
            by_any_label: Vec::new(),
            sites: snapshot.nodes.len(),
            strict: false,
            beginning: GroupStore::default(),
        };
        topology.key(label::HOSTNAME);
        topology
    }

    /// Whether nobody looks at other pods.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The keys and their names.
    pub(super) fn key_names(&self) -> impl Iterator<Item = (KeyId, &str)> {
        self.keys.iter().enumerate().map(|(id, key)| (id, key.name.as_str()))
    }

    pub(super) fn key_name(&self, key: KeyId) -> &str {
        &self.keys[key].name
    }

    pub(super) fn value(&self, key: KeyId, domain: Domain) -> &str {
        &self.keys[key].values[domain as usize]
    }

    /// The number of a value that has one.
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

    /// The number of a value.
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

    /// Whether two pods with this rule, which it counts itself, can get into each other's way but for sharing a host.
    pub(super) fn limits_each_other(&self, rule: &Rule) -> bool {
        let on_host = self.groups[rule.group].keys == [HOST];
        match rule.kind {
            RuleKind::Spread { .. } | RuleKind::Apart => !on_host,
            RuleKind::Near | RuleKind::Alone => false,
        }
    }

    /// Keys whose value must be known wherever a pod with these rules and memberships goes, in the order of their names.
    pub(super) fn keys_to_settle(&self, rules: &[Rule], counts: &[GroupId], shunned: &[GroupId]) -> Vec<KeyId> {
        let rules = rules.iter().map(|rule| &self.groups[rule.group]);
        let counting = counts.iter().map(|group| &self.groups[*group]).filter(|group| group.constrained);
        let shunning = shunned.iter().map(|group| &self.groups[*group]).filter(|group| group.held);
        let all = rules.chain(counting).chain(shunning).flat_map(|group| group.keys.iter().copied());
        let mut keys: Vec<KeyId> = all.filter(|key| *key != HOST).collect();
        keys.sort_unstable_by_key(|key| &self.keys[*key].name);
        keys.dedup();
        keys
    }

    /// Keys of rules whose refusal of a domain need not be for good.
    pub(super) fn fickle_keys(&self, rules: &[Rule]) -> Vec<KeyId> {
        let mut keys = Vec::new();
        for rule in rules {
            match rule.kind {
                RuleKind::Near | RuleKind::Alone => keys.extend(&self.groups[rule.group].keys),
                RuleKind::Spread { .. } => keys.extend(self.groups[rule.group].keys.iter().filter(|key| **key != HOST)),
                RuleKind::Apart => {}
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The value of a key at a spot.
    pub(super) fn domain_at(&self, key: KeyId, spot: Spot<'_>) -> Option<Domain> {
        domain_at(&self.keys, key, spot)
    }

    /// Whether the rules and the anti-affinity of others allow one value of one key.
    pub(super) fn allows(&self, rules: &[Rule], shunned: &[GroupId], key: KeyId, domain: Option<Domain>) -> bool {
        self.allows_beside(rules, shunned, key, domain, &DaemonCounts::default())
    }

    /// The same where some company comes along.
    pub(super) fn allows_beside(
        &self,
        rules: &[Rule],
        shunned: &[GroupId],
        key: KeyId,
        domain: Option<Domain>,
        company: &DaemonCounts,
    ) -> bool {
        rules.iter().all(|rule| self.groups[rule.group].allows(rule, key, domain, company.get(rule.group)))
            && shunned.iter().all(|group| {
                let group = &self.groups[*group];
                group.keys[0] != key || domain.is_none_or(|domain| at(&group.holders, domain) == 0)
            })
    }

    /// Domains of a key that the rules and the anti-affinity of others do not allow.
    pub(super) fn refused(&self, rules: &[Rule], shunned: &[GroupId], key: KeyId) -> BTreeSet<Domain> {
        let domains = if key == HOST { self.sites } else { self.keys[key].values.len() };
        let all = (0..).take(domains);
        all.filter(|domain| !self.allows(rules, shunned, key, Some(*domain))).collect()
    }

    /// How a node of the snapshot stands to a key.
    pub(super) fn stand(&self, key: KeyId, spot: Spot<'_>) -> Stand {
        let open = spot.site.filter(|site| self.keys[key].open.contains_key(site));
        self.domain_at(key, spot).map(Stand::In).or(open.map(Stand::Open)).unwrap_or(Stand::Without)
    }

    /// Whether the rules allow such a node, as far as a key goes: whatever it may still become. Who is on a node that is
    /// still open is near it all the same.
    pub(super) fn allows_stand(&self, rules: &[Rule], shunned: &[GroupId], key: KeyId, stand: Stand) -> bool {
        let site = match stand {
            Stand::Without => return self.allows(rules, shunned, key, None),
            Stand::In(domain) => return self.allows(rules, shunned, key, Some(domain)),
            Stand::Open(site) => site,
        };
        let Some(Prospects { values, lacking }) = self.keys[key].open.get(&site) else { return false };
        let possible = || values.iter().copied().map(Some).chain(lacking.then_some(None));
        let kept = |rule: &Rule| {
            let group = &self.groups[rule.group];
            group.here.contains(&site)
                || possible().all(|domain| group.allows(rule, key, domain, DaemonPresence::default()))
        };
        rules.iter().all(kept) && possible().all(|domain| self.allows(&[], shunned, key, domain))
    }

    /// The same for a node by where it is.
    pub(super) fn allows_at(&self, rules: &[Rule], shunned: &[GroupId], key: KeyId, spot: Spot<'_>) -> bool {
        self.allows_stand(rules, shunned, key, self.stand(key, spot))
    }

    /// Whether the rules allow the host: an unopened one is empty.
    pub(super) fn allows_host(&self, rules: &[Rule], shunned: &[GroupId], site: Option<Domain>) -> bool {
        self.allows(rules, shunned, HOST, Some(site.unwrap_or(Domain::MAX)))
    }

    /// How many more pods with these rules the host takes.
    pub(super) fn host_room(&self, rules: &[Rule], site: Option<Domain>) -> usize {
        self.host_room_beside(rules, site, &DaemonCounts::default())
    }

    /// The same where some company comes along.
    pub(super) fn host_room_beside(&self, rules: &[Rule], site: Option<Domain>, company: &DaemonCounts) -> usize {
        let room = |rule: &Rule| {
            let group = &self.groups[rule.group];
            let there = site.map_or(0, |site| group.most(0, site)) + company.get(rule.group).most;
            match rule.kind {
                _ if group.keys[0] != HOST || !rule.own => usize::MAX,
                RuleKind::Spread { max_skew, .. } => max_skew.saturating_sub(there) as usize,
                RuleKind::Apart | RuleKind::Alone => usize::from(there == 0),
                RuleKind::Near => usize::MAX,
            }
        };
        rules.iter().map(room).min().unwrap_or(usize::MAX)
    }

    /// The rule about a key that refuses all of these domains, or an unopened host; `None` when it is others' doing.
    pub(super) fn standing(&self, rules: &[Rule], key: KeyId, domains: &[Domain]) -> Option<TopologyReason> {
        let none = [Domain::MAX];
        let domains = if domains.is_empty() { &none } else { domains };
        let nobody = DaemonPresence::default();
        let allows = |rule: &Rule, domain| self.groups[rule.group].allows(rule, key, Some(domain), nobody);
        let refuses = |rule: &&Rule| !domains.iter().any(|it| allows(rule, *it));
        rules.iter().find(refuses).map(|rule| match rule.kind {
            RuleKind::Spread { max_skew, .. } => TopologyReason::Spread { max_skew },
            RuleKind::Near => TopologyReason::Near,
            RuleKind::Apart => TopologyReason::Apart,
            RuleKind::Alone => TopologyReason::Claimed,
        })
    }

    /// Pods that a spread or the like counts in a domain: fewer is more even.
    pub(super) fn pods_in_domain(&self, rules: &[Rule], key: KeyId, domain: Domain) -> u32 {
        let spread = rules.iter().filter(|rule| matches!(rule.kind, RuleKind::Spread { .. }));
        let there = spread.filter(|rule| self.groups[rule.group].keys == [key]);
        there.map(|rule| at(&self.groups[rule.group].tallies[0], domain)).sum()
    }

    /// Over how many domains pods with these rules are spread by one key, at least 1.
    pub(super) fn breadth(&self, rules: &[Rule]) -> usize {
        let spread = rules.iter().filter(|rule| matches!(rule.kind, RuleKind::Spread { .. }));
        let wide = spread.map(|rule| &self.groups[rule.group]).filter(|group| group.keys != [HOST]);
        wide.map(|group| group.reachable.len()).max().unwrap_or(1).max(1)
    }

    /// Counts pods of one membership at a spot. `suits` says whether a spread counts pods on that launch.
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
                (GroupKind::Spread(spread), Some(_), _) => suits(*id, spread),
                (GroupKind::Spread(_), None, Some(site)) => group.eligible[site as usize],
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
            let holders = &mut self.groups[*id].holders;
            possible(&self.keys, key, spot).for_each(|domain| *slot(holders, domain) += pods.count);
        }
    }

    fn note_on_site(&mut self, id: GroupId, spot: Spot<'_>, pods: u32, counted: Counts) {
        let key = self.groups[id].keys[0];
        let settled = counted == Counts::Surely && domain_at(&self.keys, key, spot).is_some();
        if let Some(site) = spot.site.filter(|_| !settled && matches!(self.groups[id].kind, GroupKind::Spread(_))) {
            *self.groups[id].on_site.entry(site).or_default() += pods;
        }
    }

    fn count(&mut self, id: GroupId, spot: Spot<'_>, pods: u32, counted: Counts) {
        let mut somewhere = false;
        let group = &mut self.groups[id];
        for (position, key) in group.keys.iter().enumerate() {
            let settled = domain_at(&self.keys, *key, spot).is_some();
            if let (GroupKind::Near { .. }, false, Some(site)) = (&group.kind, settled, spot.site) {
                group.here.insert(site);
            }
            let sure = settled && counted == Counts::Surely;
            let list = if sure { &mut group.tallies } else { &mut group.maybe };
            for domain in possible(&self.keys, *key, spot) {
                *slot(&mut list[position], domain) += pods;
                somewhere = true;
            }
        }
        // A daemon that may come keeps nobody from being the first of his kind.
        group.total += if somewhere && counted == Counts::Surely { u64::from(pods) } else { 0 };
    }

    /// The values that a key has or may get at a spot.
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
