//! Constraints on hosts and zones, as conditions on the number of nodes.
//!
//! Pods and nodes that share neither pods nor nodes with others form a part; parts are bounded alone.
//!
//! With a spread over hosts, one host has the least number of pods and no host has more than `maxSkew` pods more. Every possible
//! least number is tried: it is subtracted from every node, as overhead. A spread over zones demands a least number of nodes and
//! limits the pods of a zone, and so those of a host.
//!
//! Zones are those that the NodePools offer, as Karpenter and Kerf count them. A workload that prefers separate hosts has at
//! least two: this is the least that Kerf promises for it.
//!
//! A constraint that is not understood here is ignored, which only lowers the bound: selectors of several workloads,
//! `minDomains`, hosts of which a workload counts only some, affinity by other keys, volumes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use planner::{PodShape, PodTerm, Snapshot, Spread, label};

use super::market::kinds;
use super::{Item, Machine, Market};

/// Pods and nodes that compete only with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Pods and all nodes for them.
    pub market: Market,
    /// `maxSkew` of the spread over hosts of each item; `None` without such a spread.
    pub skews: Vec<Option<f64>>,
    /// Possible numbers of nodes.
    pub hosts: RangeInclusive<usize>,
}

/// Returns the parts of a snapshot without nodes.
///
/// # Errors
/// Returns an error if there are nodes.
pub(super) fn parts(snapshot: &Snapshot) -> anyhow::Result<Vec<Part>> {
    let whole = Market::whole(snapshot)?;
    let shapes = kinds(snapshot);
    let zones = zones(snapshot);
    let part = |items: Vec<usize>| {
        let chosen: Vec<(&PodShape, f64)> = items.iter().map(|position| shapes[*position]).collect();
        Part::new(only(&whole, &items), &Rules { snapshot, shapes: &chosen, zones })
    };
    Ok(components(&whole).into_iter().map(part).collect())
}

/// Constraints of a part's items.
struct Rules<'a> {
    snapshot: &'a Snapshot,
    shapes: &'a [(&'a PodShape, f64)],
    zones: f64,
}

impl Part {
    fn new(mut market: Market, rules: &Rules<'_>) -> Self {
        let pods: f64 = market.items.iter().map(|item| item.count).sum();
        let everywhere = |position: usize| market.machines.iter().all(|machine| machine.takes[position]);
        let skews = (0..market.items.len()).map(|it| rules.host_skew(it).filter(|_| everywhere(it))).collect();
        let fewest = (0..market.items.len()).map(|it| rules.fewest_hosts(it)).fold(1.0, f64::max);
        for (position, item) in market.items.iter_mut().enumerate() {
            item.most = item.most.min(rules.most_on_a_host(position));
        }
        let most = rules.hosts_of_anchor(&market.items).unwrap_or(pods);
        Self { market, skews, hosts: fewest as usize..=most as usize }
    }

    /// Returns all ways to satisfy the spreads over exactly this number of nodes, without those in which some pod fits no node: the
    /// pods beyond the least number of each host, and the nodes less that number.
    pub(super) fn with_hosts(&self, hosts: usize) -> Vec<Market> {
        let mut ways = vec![self.market.clone()];
        for (position, skew) in self.skews.iter().enumerate() {
            let Some(skew) = skew else { continue };
            let leasts = leasts(self.market.items[position].count, hosts as f64, *skew);
            let spread = |market: Market| {
                leasts
                    .clone()
                    .map(move |least| market.clone().with_least(position, hosts as f64, f64::from(least), *skew))
            };
            ways = ways.into_iter().flat_map(spread).collect();
        }
        ways.into_iter().filter_map(Market::beyond_the_least).collect()
    }
}

/// Returns the possible least numbers of pods on a host: one host has it, and no host has more than `skew` pods more.
fn leasts(pods: f64, hosts: f64, skew: f64) -> RangeInclusive<u32> {
    let lowest = (((pods + skew) / hosts).ceil() - skew).max(0.0);
    lowest as u32..=(pods / hosts).floor() as u32
}

impl Market {
    /// Reserves the least number of pods of an item on every node.
    fn with_least(mut self, position: usize, hosts: f64, least: f64, skew: f64) -> Self {
        let item = &mut self.items[position];
        item.most = (item.most - least).min(skew);
        item.count -= hosts * least;
        self.machines.iter_mut().for_each(|machine| machine.reserve(&item.needs, least));
        self
    }

    /// Returns the items with pods beyond the least number, and the nodes that hold that number.
    fn beyond_the_least(mut self) -> Option<Self> {
        let market = &mut self;
        market.machines.retain(|machine| machine.allocatable.iter().all(|amount| *amount >= 0.0));
        let left: Vec<usize> = (0..market.items.len()).filter(|it| market.items[*it].count > 0.0).collect();
        let mut market = only(market, &left);
        market.exclude_what_does_not_fit();
        let possible = market.item_without_machine().is_none() && !market.machines.is_empty();
        possible.then(|| market.without_replaced())
    }
}

impl Machine {
    fn reserve(&mut self, needs: &[f64], pods: f64) {
        self.allocatable.iter_mut().zip(needs).for_each(|(amount, need)| *amount -= need * pods);
    }
}

impl Rules<'_> {
    fn host_skew(&self, position: usize) -> Option<f64> {
        let spread = self.shapes[position].0.spread.iter().find(|it| it.hard && it.key == label::HOSTNAME)?;
        self.of_one_kind(position, spread).then(|| f64::from(spread.max_skew))
    }

    fn zone_skew(&self, position: usize) -> Option<f64> {
        let spread = self.shapes[position].0.spread.iter().find(|it| it.hard && it.key == label::ZONE)?;
        self.of_one_kind(position, spread).then(|| f64::from(spread.max_skew))
    }

    /// Reports whether the spread counts the pods of its own kind and no others.
    fn of_one_kind(&self, position: usize, spread: &Spread) -> bool {
        let own = self.shapes[position].0;
        let term = PodTerm { key: spread.key.clone(), selector: spread.selector.clone(), ..PodTerm::default() };
        let others = self.snapshot.shapes.iter().filter(|shape| shape.as_ref() != own);
        spread.min_domains.is_none()
            && self.means(own, &term, own)
            && !others.into_iter().any(|other| self.means(own, &term, other))
    }

    fn means(&self, owner: &PodShape, term: &PodTerm, other: &PodShape) -> bool {
        term.means(&owner.namespace, &other.namespace, &other.labels, &self.snapshot.namespaces)
    }

    /// Returns the least number of hosts: one in each zone that cannot stay empty, and one per pod that keeps alone.
    fn fewest_hosts(&self, position: usize) -> f64 {
        let count = self.shapes[position].1;
        let zones = self.zone_skew(position).map_or(1.0, |skew| (count / skew).ceil().min(self.zones));
        zones.max((count / self.most_on_a_host(position)).ceil())
    }

    fn most_on_a_host(&self, position: usize) -> f64 {
        let (shape, count) = self.shapes[position];
        let of_zone = |skew: f64| ((count + (self.zones - 1.0) * skew) / self.zones).floor();
        let in_zone = self.zone_skew(position).map_or(count, of_zone);
        let alone = shape.ports.iter().any(|port| port.clashes(port))
            || shape.apart.iter().any(|term| term.key == label::HOSTNAME && self.means(shape, term, shape));
        let preferred = shape.prefers_apart.iter().map(|it| &it.term).any(|it| it.key == label::HOSTNAME)
            || shape.spread.iter().any(|it| !it.hard && it.key == label::HOSTNAME);
        match (alone, preferred && count > 1.0) {
            (true, _) => 1.0,
            (false, true) => in_zone.min(count - 1.0),
            (false, false) => in_zone.min(count),
        }
    }

    /// Returns the number of hosts if all pods must be on hosts with a pod of one kind, of which each host has one.
    fn hosts_of_anchor(&self, items: &[Item]) -> Option<f64> {
        let needs = |owner: &PodShape, anchor: &PodShape| {
            owner.near.iter().any(|term| term.key == label::HOSTNAME && self.means(owner, term, anchor))
        };
        let is_anchor = |position: usize| {
            let others = (0..self.shapes.len()).filter(|other| *other != position);
            let mut others = others.map(|other| self.shapes[other].0);
            self.shapes.len() > 1 && others.all(|other| needs(other, self.shapes[position].0))
        };
        let anchor = (0..items.len()).find(|it| items[*it].most <= 1.0 && is_anchor(*it));
        anchor.map(|position| items[position].count)
    }
}

/// Returns the number of zones with an offering.
fn zones(snapshot: &Snapshot) -> f64 {
    let types = snapshot.catalogues.iter().flat_map(|catalogue| &catalogue.types);
    let offerings = types.flat_map(|kind| &kind.offerings).filter(|it| it.available);
    offerings.map(|it| it.zone.as_str()).collect::<BTreeSet<&str>>().len() as f64
}

/// Returns the market with these items, in this order, and the nodes that take one of them.
fn only(market: &Market, items: &[usize]) -> Market {
    let machine = |it: &Machine| Machine { takes: items.iter().map(|item| it.takes[*item]).collect(), ..it.clone() };
    let nothing_left = items.is_empty();
    let machines = market.machines.iter().map(machine).filter(|it| nothing_left || it.takes.iter().any(|takes| *takes));
    Market { items: items.iter().map(|item| market.items[*item].clone()).collect(), machines: machines.collect() }
}

/// Returns the items of each part: two items are in the same one if a node takes both.
fn components(market: &Market) -> Vec<Vec<usize>> {
    let mut parts: Vec<BTreeSet<usize>> = (0..market.items.len()).map(|item| BTreeSet::from([item])).collect();
    for machine in &market.machines {
        let taken = |part: &BTreeSet<usize>| part.iter().any(|item| machine.takes[*item]);
        let (together, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(taken);
        parts = others;
        parts.extend((!together.is_empty()).then(|| together.into_iter().flatten().collect::<BTreeSet<usize>>()));
    }
    parts.sort();
    parts.into_iter().map(|part| part.into_iter().collect()).collect()
}
