//! New launches: from the NodePool with the greatest weight that can take the pod; among equal weights the cheapest, then the
//! last by name. Reserved capacity is used first.
//!
//! A launch is opened for as many of the remaining equal pods at once as make each of them cheapest. The first step to a larger
//! type may cost more than it saves until further pods use it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::{HostPort, MinValuesPolicy};

use super::dimensions::{Amounts, add, times};
use super::existing_node::attach;
use super::join::{holding, within};
use super::limits::{Footprint, maximum};
use super::new_node::NewNode;
use super::node_template::TemplateId;
use super::strategy::LoadRule;
use super::topology::Domain;
use super::{Attempt, Solver};

/// Best launch for a single pod.
#[derive(Clone)]
pub(super) struct NewNodeOption {
    pub(super) frame: TemplateId,
    pub(super) entry: usize,
    cost: i64,
    /// Number of DaemonSets whose pods do not fit on the node.
    absent: usize,
    /// Capacity reservation that the launch draws on.
    pub(super) reservation: Option<String>,
    pub(super) lowered: BTreeMap<String, u32>,
}

/// Cached best launch for a single pod, with the generation of limits and reservations.
#[derive(Clone)]
pub(super) struct SingleNodePrices {
    generation: (u64, u64),
    best: Option<NewNodeOption>,
}

impl Solver<'_> {
    /// Returns the cost of a separate launch, as far as known: limits and reservations may have changed since. [`Self::open`]
    /// computes the present one.
    pub(super) fn price_alone(&mut self, turn: Attempt) -> Option<i64> {
        match self.alone.get(&turn) {
            Some(known) => known.best.as_ref().map(|fresh| fresh.cost),
            None => self.best_alone(turn, false).map(|fresh| fresh.cost),
        }
    }

    /// Returns the maximum additional cost of a launch that a pod joins: the cost of a separate launch, or nothing.
    pub(super) fn bearable_price(&self, alone: i64) -> i64 {
        match self.strategy.load {
            LoadRule::One | LoadRule::Own => alone,
            LoadRule::Fit | LoadRule::Fleet => 0,
        }
    }

    /// Returns the cost of a pod as its share of a node that is full of such pods.
    pub(super) fn share(&self, frame: TemplateId, shape: usize) -> i64 {
        let work_out = || self.work_out_share(frame, shape);
        *self.shares.borrow_mut().entry((frame, shape)).or_insert_with(work_out)
    }

    fn work_out_share(&self, frame: TemplateId, shape: usize) -> i64 {
        let requests = &self.demands[shape].requests;
        let own = self.frames.get(frame);
        let shares = own.entries.iter().enumerate().map(|(position, entry)| {
            let room = &self.frames.candidate(frame, position).room;
            let parts = requests.iter().zip(room.iter()).filter(|(asked, room)| **asked > 0 && **room > 0);
            parts.map(|(asked, room)| part_of(entry.cost, *asked, *room)).max().unwrap_or(0)
        });
        shares.min().unwrap_or(0)
    }

    /// Opens a launch for the first pods; returns its position and how many of them it takes now.
    pub(super) fn open(&mut self, turn: Attempt, pods: &[usize]) -> Option<(usize, usize)> {
        let level = &self.demands[turn.shape].levels[turn.level];
        let settles = !level.keys.is_empty() || !level.fickle.is_empty() || !self.daemon_overhead.is_empty();
        let fresh = self.best_alone(turn, settles)?;
        let (entry, load) = self.load(&fresh, turn, pods);
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        let own = load[0].1;
        let now = if level.single { 1 } else { own };
        let mut used: Amounts = vec![0; demand.requests.len()].into();
        load.iter().for_each(|(shape, count)| add(&mut used, &self.demands[*shape].requests, *count));
        let template = self.frames.get(fresh.frame).template;
        let held = self.reservation(fresh.frame, entry, &used, &demand.shape.ports, &[]);
        self.headroom.exchange(template, &[], &held);
        let mut claim = NewNode {
            frame: fresh.frame,
            site: self.next_site(),
            pods: Vec::new(),
            used: used.into_vec(),
            entry,
            seats: load.iter().map(|(of, count)| (*of, if *of == turn.shape { own - now } else { *count })).collect(),
            ports: demand.shape.ports.clone(),
            attached: super::existing_node::Attached::new(),
            held,
            least: 0,
            lowered: fresh.lowered.clone(),
        };
        let demand = &self.demands[turn.shape];
        pods[..now].iter().for_each(|pod| attach(&mut claim.attached, demand, &self.snapshot.pods[*pod]));
        claim.least = self.least_types(fresh.frame, turn.shape);
        if let Some(id) = fresh.reservation {
            self.reservations.draw(&id);
        }
        let position = self.claims.add(claim);
        self.count_daemons(position);
        Some((position, now))
    }

    /// Returns the entry and the pods by shape that a launch is made for, the given shape first.
    fn load(&mut self, fresh: &NewNodeOption, turn: Attempt, pods: &[usize]) -> (usize, Vec<(usize, usize)>) {
        if self.strategy.load == LoadRule::Fleet
            && let Some(planned) = self.next_planned(fresh, turn)
        {
            return planned;
        }
        let company = self.daemon_counts(fresh.frame);
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        let left = if demand.share_attachments(self.snapshot, pods) { 1 } else { pods.len() };
        let room = self.topology.host_room_beside(&level.rules, None, &company);
        let cap = room.min(left.div_ceil(self.topology.breadth(&level.rules)));
        let cap = if demand.shape.ports.is_empty() { cap.max(1) } else { 1 };
        if matches!(self.strategy.load, LoadRule::One | LoadRule::Fit) {
            return (fresh.entry, vec![(turn.shape, 1)]);
        }
        let (entry, load) = self.best_load(fresh, turn, cap);
        (entry, vec![(turn.shape, load)])
    }

    pub(super) fn next_site(&self) -> Domain {
        Domain::try_from(self.snapshot.nodes.len() + self.claims.list.len()).unwrap_or(Domain::MAX)
    }

    /// Returns the best launch for one pod. `anew` ignores a cached result although limits and reservations are unchanged: for
    /// pods whose rules depend on pods placed since.
    fn best_alone(&mut self, turn: Attempt, anew: bool) -> Option<NewNodeOption> {
        let generation = (self.headroom.generation(), self.reservations.generation());
        let known = self.alone.get(&turn).filter(|alone| alone.generation == generation && !anew);
        if let Some(known) = known {
            return known.best.clone();
        }
        let best = self.search_alone(turn);
        self.alone.insert(turn, SingleNodePrices { generation, best: best.clone() });
        best
    }

    fn search_alone(&mut self, turn: Attempt) -> Option<NewNodeOption> {
        let class = self.demands[turn.shape].levels[turn.level].class;
        let mut best: Option<NewNodeOption> = None;
        for base in self.frames.growing() {
            let weight = |base: usize| self.frames.templates[base].pool.weight;
            let chosen = best.as_ref().map(|fresh| self.frames.get(fresh.frame).template);
            if chosen.is_some_and(|chosen| weight(base) < weight(chosen)) {
                break;
            }
            let children = self.frames.for_class(base, class, &self.wants, &mut self.topology);
            for child in children.iter() {
                for frame in self.pinned_templates(*child, turn, true) {
                    let fresh = self.fresh(frame, turn);
                    let better =
                        |fresh: &NewNodeOption| best.as_ref().is_none_or(|best| self.is_better(fresh, best, turn));
                    best = fresh.filter(better).or(best);
                }
            }
        }
        best
    }

    /// Reports whether one launch is better than another: fewer absent DaemonSets, then the lower cost for a single pod, then
    /// per pod on a full node.
    fn is_better(&self, one: &NewNodeOption, other: &NewNodeOption, turn: Attempt) -> bool {
        let each = |fresh: &NewNodeOption| self.share(fresh.frame, turn.shape);
        match (one.absent, one.cost).cmp(&(other.absent, other.cost)) {
            Ordering::Less => true,
            Ordering::Equal => one.frame != other.frame && each(one) < each(other),
            Ordering::Greater => false,
        }
    }

    /// Returns a launch for one pod with a fixed template, if the limits allow one.
    fn fresh(&mut self, frame: TemplateId, turn: Attempt) -> Option<NewNodeOption> {
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        if self.daemon_overhead.is_empty() && !self.topology.allows_host(&level.rules, &demand.shunned, None) {
            return None;
        }
        let mut drawn: Vec<NewNodeOption> = Vec::new();
        for id in self.reservations.available() {
            let reserved = self.frames.reserved(frame, &id, &mut self.topology);
            let fresh = reserved.and_then(|reserved| self.fresh_of(reserved, turn));
            drawn.extend(fresh.map(|fresh| NewNodeOption { reservation: Some(id), ..fresh }));
        }
        let smallest = drawn.into_iter().min_by(|one, other| {
            let room = |fresh: &NewNodeOption| &self.frames.candidate(fresh.frame, fresh.entry).room;
            (one.absent, one.cost, room(one)).cmp(&(other.absent, other.cost, room(other)))
        });
        if smallest.is_some() {
            return smallest;
        }
        self.fresh_of(frame, turn)
    }

    fn fresh_of(&mut self, frame: TemplateId, turn: Attempt) -> Option<NewNodeOption> {
        self.steps += 1;
        let from = self.alone_in(frame, turn.shape)?;
        let demand = &self.demands[turn.shape];
        let ports = &demand.shape.ports;
        let entry = self.first_holding(frame, from, &demand.requests, ports, &[])?;
        let lowered = self.lowered_values(frame, &demand.requests, ports)?;
        let wanted = self.reservation(frame, entry, &demand.requests, ports, &[]);
        let template = self.frames.get(frame).template;
        let within = within(&self.headroom, template, &wanted, &[]);
        let cost = self.frames.get(frame).entries[entry].cost;
        let absent = self.absent_daemons(frame);
        let fresh = NewNodeOption { frame, entry, cost, absent, reservation: None, lowered };
        (within && self.tolerates_daemons(frame, turn)).then_some(fresh)
    }

    /// Returns the cheapest entry of a template that holds one pod; limits are ignored.
    pub(super) fn alone_in(&mut self, frame: TemplateId, shape: usize) -> Option<usize> {
        let demand = &self.demands[shape];
        if demand.shape.ports.is_empty() {
            return self.frames.first_fit(frame, &demand.requests);
        }
        holding(&self.frames, frame, 0, &demand.requests, &demand.shape.ports).next()
    }

    /// Returns how many types a launch of this template must keep for a pod. The policy's number applies where spot is allowed
    /// and as many types hold the pod alone; otherwise one is enough.
    pub(super) fn least_types(&self, frame: TemplateId, shape: usize) -> usize {
        let demand = &self.demands[shape];
        self.least_types_for(frame, &demand.requests, &demand.shape.ports)
    }

    /// Returns the same for given amounts and ports.
    pub(super) fn least_types_for(&self, frame: TemplateId, used: &[i64], ports: &[HostPort]) -> usize {
        if !self.frames.get(frame).allows_spot {
            return 1;
        }
        let policy = &self.snapshot.policy;
        let least = policy.least_spot_types.min(policy.max_instance_types);
        if self.enough_types(frame, 0, used, ports, least) { least.max(1) } else { 1 }
    }

    /// Returns the entry and the number of pods with the lowest cost per pod; the most pods among equally cheap ones.
    fn best_load(&self, fresh: &NewNodeOption, turn: Attempt, cap: usize) -> (usize, usize) {
        let demand = &self.demands[turn.shape];
        if cap <= 1 {
            return (fresh.entry, 1);
        }
        let frame = self.frames.get(fresh.frame);
        let template = &self.frames.templates[frame.template];
        let none = vec![0; demand.requests.len()];
        let loads: Vec<usize> = frame.entries[..]
            .iter()
            .map(|entry| times(&demand.requests, &none, &template.candidates[entry.candidate].room).min(cap))
            .collect();
        let most = self.most_with_enough_types(&loads, fresh.frame, turn.shape);
        let ways =
            (fresh.entry..frame.entries.len()).filter(|it| loads[*it] > 0).map(|it| (it, loads[it].min(most).max(1)));
        let cheapest = ways.min_by(|(one, load), (other, other_load)| {
            let each = i128::from(frame.entries[*one].cost) * *other_load as i128;
            each.cmp(&(i128::from(frame.entries[*other].cost) * *load as i128)).then(other_load.cmp(load))
        });
        let load = cheapest.map_or(1, |(_, load)| load);
        self.loaded(fresh, turn, load).map_or((fresh.entry, 1), |entry| (entry, load))
    }

    /// Returns the entry for this many pods together, if one exists and costs no more than separate launches.
    fn loaded(&self, fresh: &NewNodeOption, turn: Attempt, load: usize) -> Option<usize> {
        let demand = &self.demands[turn.shape];
        let ports = &demand.shape.ports;
        let mut used: Amounts = vec![0; demand.requests.len()].into();
        add(&mut used, &demand.requests, load);
        let entry = self.first_holding(fresh.frame, fresh.entry, &used, ports, &[])?;
        let separate = fresh.cost.saturating_mul(i64::try_from(load).unwrap_or(i64::MAX));
        let template = self.frames.get(fresh.frame).template;
        let wanted = self.reservation(fresh.frame, entry, &used, ports, &[]);
        let within = within(&self.headroom, template, &wanted, &[]);
        let cheap = self.frames.get(fresh.frame).entries[entry].cost <= separate;
        (within && cheap && self.keeps_values(fresh.frame, &used, ports, &[], &fresh.lowered)).then_some(entry)
    }

    /// Returns the most pods that leave a launch as many types as it must keep.
    fn most_with_enough_types(&self, loads: &[usize], frame: TemplateId, shape: usize) -> usize {
        let least = self.least_types(frame, shape);
        if least <= 1 {
            return usize::MAX;
        }
        let mut sorted = loads.to_vec();
        sorted.sort_unstable_by(|one, other| other.cmp(one));
        sorted.get(least - 1).copied().unwrap_or(1)
    }

    /// Returns what an open launch must reserve of its NodePool's limits: its cheapest type, or all listed types when
    /// `minValues` forbids their later removal.
    pub(super) fn reservation(
        &self,
        frame: TemplateId,
        entry: usize,
        used: &[i64],
        ports: &[HostPort],
        held: &[i64],
    ) -> Footprint {
        let own = self.frames.get(frame);
        if !self.headroom.is_bounded(own.template) {
            return Footprint::default();
        }
        let counted = if own.flexible { self.snapshot.policy.max_instance_types.max(1) } else { 1 };
        let candidates = &self.frames.templates[own.template].candidates;
        let listed = self.bearable(frame, entry, used, ports, held).take(counted);
        listed.fold(Footprint::default(), |all, it| maximum(&all, &candidates[own.entries[it].candidate].footprint))
    }

    /// Returns positions of the entries from one on that hold the used resources and that the limits allow.
    fn bearable<'s>(
        &'s self,
        frame: TemplateId,
        from: usize,
        used: &'s [i64],
        ports: &'s [HostPort],
        held: &'s [i64],
    ) -> impl Iterator<Item = usize> + 's {
        let own = self.frames.get(frame);
        let candidates = &self.frames.templates[own.template].candidates;
        let fits = move |position: &usize| {
            let wanted = &candidates[own.entries[*position].candidate].footprint;
            within(&self.headroom, own.template, wanted, held)
        };
        holding(&self.frames, frame, from, used, ports).filter(fits)
    }

    /// Returns labels for which the fitting types have fewer values than `minValues` requires, with their number.
    pub(super) fn fewer_values(&self, frame: TemplateId, used: &[i64], ports: &[HostPort]) -> BTreeMap<String, u32> {
        let counted = self.min_values(frame).into_iter().map(|(key, asked)| {
            let found = self.count_values(frame, &key, used, ports, &[]);
            (key, asked, found)
        });
        counted.filter(|(_, asked, found)| found < asked).map(|(key, _, found)| (key, found)).collect()
    }

    /// Returns the same; `None` when the policy forbids it.
    fn lowered_values(&self, frame: TemplateId, used: &[i64], ports: &[HostPort]) -> Option<BTreeMap<String, u32>> {
        let lowered = self.fewer_values(frame, used, ports);
        let strict = self.snapshot.policy.min_values == MinValuesPolicy::Strict;
        (lowered.is_empty() || !strict).then_some(lowered)
    }

    /// Reports whether the fitting types have as many values as `minValues` requires, or as it was lowered to.
    pub(super) fn keeps_values(
        &self,
        frame: TemplateId,
        used: &[i64],
        ports: &[HostPort],
        held: &[i64],
        lowered: &BTreeMap<String, u32>,
    ) -> bool {
        self.min_values(frame).into_iter().all(|(key, asked)| {
            let asked = lowered.get(&key).map_or(asked, |lowered| asked.min(*lowered));
            self.count_values(frame, &key, used, ports, held) >= asked
        })
    }

    pub(super) fn min_values(&self, frame: TemplateId) -> Vec<(String, u32)> {
        let own = self.frames.get(frame);
        if !own.flexible {
            return Vec::new();
        }
        let asked = own.requirements.iter().filter_map(|(key, set)| Some((key.to_owned(), set.min_values()?)));
        asked.collect()
    }

    /// Returns the number of label values over the types that a launch may list.
    pub(super) fn count_values(
        &self,
        frame: TemplateId,
        key: &str,
        used: &[i64],
        ports: &[HostPort],
        held: &[i64],
    ) -> u32 {
        let own = self.frames.get(frame);
        let candidates = &self.frames.templates[own.template].candidates;
        let most = self.snapshot.policy.max_instance_types.max(1);
        let listed = self.bearable(frame, 0, used, ports, held).take(most);
        let mut values = std::collections::BTreeSet::new();
        for position in listed {
            let candidate = &candidates[own.entries[position].candidate];
            candidate.values(candidate.offerings(&own.requirements), key, &mut values);
        }
        values.retain(|value| own.requirements.get(key).is_none_or(|set| set.allows(Some(value))));
        u32::try_from(values.len()).unwrap_or(u32::MAX)
    }
}

/// Returns the cost of a share of a node.
fn part_of(cost: i64, asked: i64, room: i64) -> i64 {
    let exact = || i64::try_from(i128::from(cost) * i128::from(asked) / i128::from(room)).unwrap_or(i64::MAX);
    // The wide division takes many times as long and is rarely needed.
    cost.checked_mul(asked).map_or_else(exact, |product| product / room)
}
