//! Plan in an order in which kube-scheduler could carry it out: each pod's topology rules hold when it is bound.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::check::in_flight_node::Certainty;
use crate::check::node_places::{self, NodePlace};
use crate::check::{Findings, InFlightNodes, verdicts};
use crate::{BoundPod, Plan, PodShape, PodVerdict, Snapshot, label};

use super::excluded_daemons::ExcludedDaemons;
use super::topology_counts::{AffinityCounts, AntiAffinityCounts, SpreadCounts, TermMatcher};

/// Input of the simulated binding.
pub(in crate::check) struct BindingState<'a> {
    pub(in crate::check) snapshot: &'a Snapshot,
    pub(in crate::check) plan: &'a Plan,
    pub(in crate::check) places: &'a [NodePlace<'a>],
    pub(in crate::check) excluded_daemons: &'a ExcludedDaemons,
}

/// Returns an order in which the plan's pods can be bound: the plan's order, but moved pods, from position `own` on, wait for
/// each other.
pub(in crate::check) fn possible(snapshot: &Snapshot, plan: &Plan, own: usize) -> Vec<usize> {
    let in_flight_nodes = InFlightNodes::new(snapshot, plan);
    let (places, excluded_daemons) =
        (node_places::all(snapshot, plan, &in_flight_nodes), ExcludedDaemons::new(snapshot, &in_flight_nodes.nodes));
    check(
        &BindingState { snapshot, plan, places: &places, excluded_daemons: &excluded_daemons },
        own,
        &mut Findings(Vec::new()),
    )
}

/// Binds all pods and returns the order; pods from position `own` of the snapshot on are moved pods.
pub(in crate::check) fn check(simulation: &BindingState<'_>, own: usize, findings: &mut Findings) -> Vec<usize> {
    let BindingState { snapshot, plan, places, excluded_daemons } = *simulation;
    let mut positions: BTreeMap<usize, usize> = BTreeMap::new();
    for pod in 0..snapshot.pods.len() {
        positions.extend(position(snapshot, plan, pod).map(|position| (pod, position)));
    }
    let mut sorted = plan.report.order.clone();
    sorted.sort_unstable();
    if !sorted.iter().eq(positions.keys()) {
        findings.add("report", "its order does not name every placed pod once");
        return plan.report.order.clone();
    }
    let (mut shapes, bound) = shapes(snapshot);
    let daemons = shapes.len()..shapes.len() + snapshot.daemons.len();
    shapes.extend(snapshot.daemons.iter().map(|daemon| &daemon.shape));
    let owners: BTreeSet<usize> = positions.keys().map(|pod| snapshot.pods[*pod].shape).collect();
    let present = owners.iter().copied().chain(bound.iter().map(|it| it.1)).chain(daemons.clone()).collect();
    let mut counts = TopologyCounts::new(&TermMatcher { snapshot, shapes: &shapes }, &owners, &present, places);
    let coming = coming(snapshot, &counts, excluded_daemons, daemons);
    bound.iter().for_each(|(position, shape)| counts.add(*shape, *position, true));
    coming.iter().for_each(|it| counts.add(it.shape, it.position, it.surely));
    let mut binder = Binder { snapshot, positions: &positions, counts, order: Vec::new() };
    // CapacityBuffer pods are never bound, so no rule may rely on them.
    let is_buffer = |pod: &usize| snapshot.pods[*pod].holder.is_some();
    let (firm, moving): (Vec<usize>, Vec<usize>) = plan.report.order.iter().partition(|pod| **pod < own);
    let (buffers, real): (Vec<usize>, Vec<usize>) = firm.into_iter().partition(is_buffer);
    real.into_iter().for_each(|pod| binder.bind(pod, findings));
    binder.bind_in_order(moving, findings);
    binder.count_stranded(plan);
    buffers.into_iter().for_each(|pod| binder.bind(pod, findings));
    binder.counts.settled(&positions, &coming, snapshot, findings);
    binder.order
}

/// Binds pods where the plan puts them.
struct Binder<'a, 's> {
    snapshot: &'a Snapshot,
    /// Position of each pod among the places.
    positions: &'s BTreeMap<usize, usize>,
    counts: TopologyCounts<'a>,
    /// Bound pods, in order.
    order: Vec<usize>,
}

impl Binder<'_, '_> {
    /// Binds one more pod and reports every rule that forbids it.
    fn bind(&mut self, pod: usize, findings: &mut Findings) {
        let name = verdicts::name(self.snapshot, pod);
        self.faults(pod).into_iter().for_each(|fault| findings.add(&*name, fault));
        self.place(pod);
    }

    fn place(&mut self, pod: usize) {
        self.counts.add(self.snapshot.pods[pod].shape, self.positions[&pod], true);
        self.order.push(pod);
    }

    /// Binds pods whose nodes are removed in parallel: kube-scheduler tries refused pods again after others are bound.
    fn bind_in_order(&mut self, mut waiting: Vec<usize>, findings: &mut Findings) {
        let mut before = usize::MAX;
        while waiting.len() < before {
            before = waiting.len();
            waiting.retain(|pod| {
                let refused = !self.faults(*pod).is_empty();
                if !refused {
                    self.place(*pod);
                }
                refused
            });
        }
        waiting.into_iter().for_each(|pod| self.bind(pod, findings));
    }

    /// Counts pods that lose their node without another place where they ran. A CapacityBuffer keeps no node, so a removal does
    /// not wait until a virtual pod has a place without these pods: the next plan places them all again.
    fn count_stranded(&mut self, plan: &Plan) {
        for (pod, verdict) in self.snapshot.pods.iter().zip(&plan.report.pods) {
            let is_stranded = *verdict == PodVerdict::Postponed && pod.holder.is_none();
            let Some(left) = pod.leaving_node.as_ref().filter(|_| is_stranded) else { continue };
            if let Some(position) = self.snapshot.nodes.iter().position(|node| node.name == *left) {
                self.counts.add(pod.shape, position, true);
            }
        }
    }

    fn faults(&self, pod: usize) -> Vec<String> {
        self.counts.faults(self.snapshot.pods[pod].shape, self.positions[&pod])
    }
}

/// DaemonSet pod that comes with a node.
struct ArrivingDaemons {
    /// Position of the node among the places.
    position: usize,
    /// Shape of the pod; shapes of DaemonSets follow all others.
    shape: usize,
    surely: bool,
}

/// Returns the future pods of DaemonSets, as far as rules count them. Where running pods do not exclude it, a DaemonSet pod
/// runs on its node before the plan's first pod.
fn coming(
    snapshot: &Snapshot,
    counts: &TopologyCounts<'_>,
    excluded_daemons: &ExcludedDaemons,
    shapes: Range<usize>,
) -> Vec<ArrivingDaemons> {
    let seen: Vec<(usize, usize)> = shapes.enumerate().filter(|(_, shape)| counts.sees(*shape)).collect();
    let mut all = Vec::new();
    for (position, place) in counts.places.iter().enumerate() {
        for (daemon, shape) in
            seen.iter().filter(|(daemon, _)| !excluded_daemons.contains(*daemon, |key| place.values(key)))
        {
            let answer = place.awaits(snapshot, *daemon);
            let coming = ArrivingDaemons { position, shape: *shape, surely: answer == Certainty::Sure };
            all.extend((answer != Certainty::Never).then_some(coming));
        }
    }
    all
}

/// Returns the place of a pod by its verdict, as a position among the places.
fn position(snapshot: &Snapshot, plan: &Plan, pod: usize) -> Option<usize> {
    match verdicts::place(plan.report.pods.get(pod)?)? {
        verdicts::AssignedNode::Node(name) => snapshot.nodes.iter().position(|node| node.name == name),
        verdicts::AssignedNode::Launch(launch) => Some(snapshot.nodes.len() + launch),
    }
}

/// Returns all distinct shapes, those of the snapshot first; and the bound pods, each as node and shape. Terminating pods, pods
/// that terminate with their node, and pods that the plan places again are omitted.
fn shapes(snapshot: &Snapshot) -> (Vec<&PodShape>, Vec<(usize, usize)>) {
    let mut shapes: Vec<&PodShape> = snapshot.shapes.iter().map(AsRef::as_ref).collect();
    let mut known: BTreeMap<*const PodShape, usize> = BTreeMap::new();
    let mut equal: BTreeMap<&PodShape, usize> = BTreeMap::new();
    let moving: BTreeSet<&str> = snapshot.pods.iter().map(|pod| pod.uid.as_str()).collect();
    let mut bound = Vec::new();
    for (position, node) in snapshot.nodes.iter().enumerate() {
        let remains = |pod: &&BoundPod| pod.reschedulable || node.leaving.is_none();
        let stays = |pod: &&BoundPod| !pod.ending && !moving.contains(pod.uid.as_str());
        for pod in node.pods.iter().filter(remains).filter(stays) {
            let shape = *known.entry(Arc::as_ptr(&pod.shape)).or_insert_with(|| {
                *equal.entry(pod.shape.as_ref()).or_insert_with(|| {
                    shapes.push(pod.shape.as_ref());
                    shapes.len() - 1
                })
            });
            bound.push((position, shape));
        }
    }
    (shapes, bound)
}

/// All applicable terms and constraints, each with its shape.
struct TopologyCounts<'a> {
    places: &'a [NodePlace<'a>],
    near: Vec<(usize, AffinityCounts<'a>)>,
    apart: Vec<(usize, AntiAffinityCounts<'a>)>,
    even: Vec<(usize, SpreadCounts<'a>)>,
}

impl<'a> TopologyCounts<'a> {
    /// Creates the counts. `owners` are the shapes of pods that the plan places, `standing` those of all pods in the final
    /// state.
    fn new(
        matcher: &TermMatcher<'a>,
        owners: &BTreeSet<usize>,
        present: &BTreeSet<usize>,
        places: &'a [NodePlace<'a>],
    ) -> Self {
        let (mut near, mut apart, mut even) = (Vec::new(), Vec::new(), Vec::new());
        for owner in present {
            let shape = matcher.shapes[*owner];
            apart.extend(shape.apart.iter().map(|term| (*owner, matcher.apart(shape, term))));
            if owners.contains(owner) {
                let hard = shape.spread.iter().filter(|spread| spread.hard);
                even.extend(hard.map(|spread| (*owner, matcher.even(shape, spread, places))));
                near.extend((!shape.near.is_empty()).then(|| (*owner, matcher.near(shape))));
            }
        }
        Self { places, near, apart, even }
    }

    /// Reports whether any term or constraint counts pods of a shape, or the shape has one itself.
    fn sees(&self, shape: usize) -> bool {
        self.near.iter().any(|(_, near)| near.means(shape))
            || self.apart.iter().any(|(owner, apart)| *owner == shape || apart.means[shape])
            || self.even.iter().any(|(_, even)| even.means[shape])
    }

    fn add(&mut self, shape: usize, position: usize, surely: bool) {
        let place = &self.places[position];
        self.near.iter_mut().for_each(|(_, near)| near.add(shape, position, surely, place));
        self.apart.iter_mut().for_each(|(owner, apart)| apart.add(shape, *owner == shape, place));
        self.even.iter_mut().for_each(|(_, even)| even.add(shape, position, surely, place));
    }

    /// Returns the rules that forbid the binding of one more pod there.
    fn faults(&self, shape: usize, position: usize) -> Vec<String> {
        let place = &self.places[position];
        let mut faults = Vec::new();
        let near = self.near.iter().filter(|(owner, _)| *owner == shape);
        let far = near.filter(|(_, near)| !near.holds(shape, position, place));
        faults.extend(far.map(|_| format!("is not near its own on {}", place.name)));
        for (owner, apart) in &self.apart {
            let key = &apart.term.key;
            if *owner == shape && !apart.tolerates_existing(place) {
                faults.push(format!("meets pods on {} that it must not, over {key}", place.name));
            }
            if !apart.is_tolerated(shape, place) {
                faults.push(format!("is not borne by pods on {}, over {key}", place.name));
            }
        }
        let even = self.even.iter().filter(|(owner, _)| *owner == shape);
        let uneven = even.filter_map(|(_, even)| even.fault(shape, place));
        faults.extend(uneven.map(|fault| format!("is spread badly on {}: {fault}", place.name)));
        faults
    }

    /// Checks that no launch leaves a domain open on which the rules of a pod there depend.
    fn settled(
        &self,
        positions: &BTreeMap<usize, usize>,
        coming: &[ArrivingDaemons],
        snapshot: &Snapshot,
        findings: &mut Findings,
    ) {
        let mut assigned: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (pod, position) in positions.iter().filter(|(_, position)| self.places[**position].node.is_none()) {
            assigned.entry(*position).or_default().insert(snapshot.pods[*pod].shape);
        }
        for it in coming {
            if let Some(assigned) = assigned.get_mut(&it.position) {
                assigned.insert(it.shape);
            }
        }
        for (position, shapes) in assigned {
            let place = &self.places[position];
            let keys: BTreeSet<&str> = shapes.iter().flat_map(|shape| self.keys(*shape, position)).collect();
            for key in keys.into_iter().filter(|key| *key != label::HOSTNAME) {
                let values = place.values(key);
                findings.expect(values.len() <= 1, &place.name, || format!("leaves {key} open: {values:?}"));
            }
        }
    }

    /// Returns the label keys that decide whether pods of a shape may run at a place, or other pods beside them.
    fn keys(&self, shape: usize, position: usize) -> Vec<&str> {
        let mut keys = Vec::new();
        for (_, near) in self.near.iter().filter(|(owner, near)| *owner == shape || near.means(shape)) {
            keys.extend(near.keys());
        }
        let concerned = |(owner, apart): &&(usize, AntiAffinityCounts<'_>)| *owner == shape || apart.means[shape];
        keys.extend(self.apart.iter().filter(concerned).map(|(_, apart)| apart.term.key.as_str()));
        let counted = |(owner, even): &&(usize, SpreadCounts<'_>)| {
            *owner == shape || (even.means[shape] && even.counted[position] != Certainty::Never)
        };
        keys.extend(self.even.iter().filter(counted).map(|(_, even)| even.spread.key.as_str()));
        keys
    }
}
