//! The simulated cluster: events, kube-scheduler, drains and plans, one after another.

mod lives;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use planner::Purpose;
use snapshot::Settings;

use crate::cluster::{Cluster, is_managed};
use crate::drain::Drain;
use crate::event_queue::{Event, EventQueue};
use crate::figures::{Fees, Figures, Market, NodeSpan};
use crate::history::{Change, History};
use crate::karpenter::KarpenterRules;
use crate::machine;
use crate::pace::Pace;
use crate::passes::{Decisions, Passes};
use crate::workload::{Slot, slots};

/// Rules for the disruption of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Those of Kerf.
    #[default]
    Kerf,
    /// Those of Karpenter; pods are placed as by Kerf.
    Karpenter,
}

/// Replay of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// The recording, with changed objects if there are changes.
    pub history: &'a History,
    /// Instance types and prices.
    pub market: &'a Market,
    /// Settings of the planner.
    pub settings: Settings,
    /// Rules for the disruption of nodes.
    pub rules: Rules,
    /// Times of the models.
    pub pace: Pace,
}

impl Replay<'_> {
    /// Replays the recording. `progress` is called with the simulated time now and then.
    #[must_use]
    pub fn run(&self, progress: &mut dyn FnMut(Timestamp)) -> Figures {
        let mut simulation = Simulation::new(*self);
        simulation.begin();
        while let Some(now) = simulation.next() {
            simulation.step(now);
            progress(now);
        }
        simulation.finish()
    }
}

/// Demand for a pod with its present pod.
struct SlotState {
    /// UID of the present pod.
    uid: Option<String>,
    /// Number of pods so far.
    made: u32,
    /// True if the demand has ended.
    is_over: bool,
}

/// Command that waits for its replacements, or whose nodes drain.
struct Command {
    claims: Vec<String>,
    /// NodeClaims that are not initialized yet.
    awaits: Vec<String>,
}

/// Counters for the figures.
#[derive(Default)]
struct Counters {
    spans: Vec<NodeSpan>,
    /// Time of the launch of each node that exists.
    launched: BTreeMap<String, Timestamp>,
    launches: usize,
    disrupted: BTreeMap<String, usize>,
    interrupted: usize,
    evicted: usize,
    pods: usize,
    waits: Vec<i64>,
}

struct Simulation<'a> {
    replay: Replay<'a>,
    slots: Vec<Slot>,
    states: Vec<SlotState>,
    /// Slot of each pod of a workload, by UID.
    slot_of: BTreeMap<String, usize>,
    cluster: Cluster,
    event_queue: EventQueue,
    passes: Passes,
    commands: Vec<Command>,
    /// Drains in progress, by NodeClaim.
    drains: BTreeMap<String, Drain>,
    /// True if a pod may find a node now that had none before.
    may_bind: bool,
    /// Time at which kube-scheduler binds pods again. In a long recording it binds those of some seconds together.
    bind_after: Timestamp,
    /// Begin of the market's present catalogues.
    market_since: Option<Timestamp>,
    counters: Counters,
}

impl<'a> Simulation<'a> {
    fn new(replay: Replay<'a>) -> Self {
        let (begin, end) = (replay.history.begin, replay.history.end);
        let slots = slots(replay.history);
        let states = slots.iter().map(|_| SlotState { uid: None, made: 0, is_over: false }).collect();
        let karpenter = match replay.rules {
            Rules::Kerf => None,
            // Karpenter's own computing time is not known, and counts as none.
            Rules::Karpenter => Some(KarpenterRules::new(0)),
        };
        Self {
            passes: Passes::new(replay.settings, karpenter, begin, end.duration_since(begin)),
            replay,
            slots,
            states,
            slot_of: BTreeMap::new(),
            cluster: Cluster::new(begin),
            event_queue: EventQueue::default(),
            commands: Vec::new(),
            drains: BTreeMap::new(),
            may_bind: true,
            bind_after: begin,
            market_since: None,
            counters: Counters::default(),
        }
    }

    /// Enters all recorded events, and builds the first state.
    fn begin(&mut self) {
        let history = self.replay.history;
        self.begin_nodes();
        for (position, (at, _)) in history.changes.iter().enumerate() {
            self.event_queue.enter(*at, Event::Recorded(position));
        }
        for (position, slot) in self.slots.iter().enumerate() {
            self.event_queue.enter(slot.arrives.max(history.begin), Event::Arrives(position));
        }
        for (position, node) in history.nodes.iter().enumerate() {
            node.interrupted.iter().for_each(|at| self.event_queue.enter(*at, Event::Interrupted(position)));
        }
    }

    /// Returns the time of the next event or plan, within the recording.
    fn next(&self) -> Option<Timestamp> {
        let bind = (self.may_bind && !self.cluster.pending().is_empty()).then_some(self.bind_after);
        let all = [self.event_queue.next(), Some(self.passes.due()), bind];
        all.into_iter().flatten().min().filter(|next| *next <= self.replay.history.end)
    }

    fn step(&mut self, now: Timestamp) {
        self.cluster.now = now;
        self.follow_market();
        while let Some(event) = self.event_queue.due(now) {
            self.happen(event);
        }
        self.proceed();
        if self.passes.due() <= now {
            self.plan();
            self.proceed();
        }
    }

    /// Takes over the catalogues of the market if they have changed.
    fn follow_market(&mut self) {
        let Some((since, set)) = self.replay.market.at(self.cluster.now) else { return };
        if self.market_since.replace(since) != Some(since) {
            self.cluster.set_market(set);
        }
    }

    /// Lets kube-scheduler and drains do what they can now.
    fn proceed(&mut self) {
        self.drain_nodes();
        self.bind_pods();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Recorded(position) => self.take_over(&self.replay.history.changes[position].1),
            Event::Arrives(slot) => self.arrive(slot),
            Event::Leaves(slot) => self.leave(slot),
            Event::Initialized(claim) => self.initialize(&claim),
            Event::Started(uid) => self.start(&uid, self.cluster.now),
            Event::Completed(uid) => self.complete(&uid),
            Event::Stopped(uid) => self.remove_pod(&uid),
            Event::Overdue(claim) => {
                self.drains.entry(claim).and_modify(|drain| drain.is_forced = true);
            }
            Event::Terminated(claim) => self.terminate(&claim),
            Event::Interrupted(position) => self.interrupt(position),
        }
    }

    fn take_over(&mut self, change: &Change) {
        let now = self.cluster.now;
        match change {
            Change::Objects(objects) => {
                self.cluster.set_objects(Arc::clone(objects));
                self.market_since = None;
                self.follow_market();
            }
            Change::Node(node) => {
                self.cluster.nodes.insert(node.name().to_owned(), Arc::clone(node));
                self.may_bind = true;
            }
            Change::NodeGone(name) => self.remove_foreign_node(name),
            Change::NodePod(pod) => self.set_node_pod(pod),
            Change::NodePodGone(name) => self.remove_node_pod(name),
        }
        if matches!(change, Change::Objects(_)) {
            self.passes.request_for_savings(now);
        }
    }

    /// Makes a plan, and begins what it decides.
    fn plan(&mut self) {
        let decisions = self.passes.plan(&mut self.cluster);
        let claims = self.launch(&decisions);
        self.passes.nominate(&decisions, &claims, self.cluster.now);
        // kube-scheduler tries the nominated node of a pod again.
        self.may_bind |= decisions.places_pods && !decisions.plan.nominations.is_empty();
        for position in &decisions.begin {
            self.command(&decisions.plan.moves[*position], &claims);
        }
    }

    /// Creates the NodeClaims of launches; those of commands only if the command begins. Returns their names.
    fn launch(&mut self, decisions: &Decisions) -> BTreeMap<usize, String> {
        let Decisions { plan, begin, places_pods, .. } = decisions;
        let begun: Vec<usize> = begin.iter().flat_map(|it| &plan.moves[*it].replacements).copied().collect();
        let mut names = BTreeMap::new();
        for (position, launch) in plan.launches.iter().enumerate() {
            let is_due = match launch.purpose {
                Purpose::Replacement => begun.contains(&position),
                Purpose::Provision | Purpose::Static => *places_pods,
            };
            if is_due && let Some(name) = self.launch_one(launch) {
                names.insert(position, name);
            }
        }
        names
    }

    fn launch_one(&mut self, launch: &planner::Launch) -> Option<String> {
        let now = self.cluster.now;
        let pool = self.cluster.objects.pools.iter().find(|pool| pool.metadata.name.as_ref() == Some(&launch.pool))?;
        let name = format!("{}-{:05}", launch.pool, self.counters.launches + 1);
        let claim = machine::launched(launch, pool, self.cluster.catalogue_of(pool)?, &name, now)?;
        let Pace { launch, boot, .. } = self.replay.pace;
        self.counters.launches += 1;
        self.counters.launched.insert(name.clone(), now + launch);
        self.cluster.claims.insert(name.clone(), Arc::new(claim));
        self.event_queue.enter(now + launch + boot, Event::Initialized(name.clone()));
        Some(name)
    }

    fn finish(mut self) -> Figures {
        let (begin, end) = (self.replay.history.begin, self.replay.history.end);
        let left: Vec<String> = self.cluster.claims.keys().cloned().collect();
        left.iter().for_each(|claim| self.end_span(claim, end));
        let Counters { spans, launches, disrupted, interrupted, evicted, pods, mut waits, .. } = self.counters;
        let pending = self.cluster.pending().len();
        let mut figures = Figures { launches, disrupted, interrupted, evicted, pods, pending, ..Figures::default() };
        figures.add_waits(&mut waits);
        figures.add_nodes(&spans, &Fees::of(self.replay.history), self.replay.market, begin..end);
        figures
    }

    /// Ends the paid time of a node.
    fn end_span(&mut self, claim: &str, at: Timestamp) {
        let Some(from) = self.counters.launched.remove(claim).filter(|from| *from < at) else { return };
        if let Some(claim) = self.cluster.claims.get(claim) {
            let (class, labels) = (claim.spec.node_class_ref.name.clone(), claim.metadata.labels.clone());
            self.counters.spans.push(NodeSpan { class, labels: labels.unwrap_or_default(), from, to: at });
        }
    }

    /// Reports whether the node takes part in the replay as a node of the recording does.
    fn is_foreign(&self, node: &str) -> bool {
        self.cluster.nodes.get(node).is_some_and(|node| !is_managed(node))
    }

    fn since_begin(&self) -> SignedDuration {
        self.cluster.now.duration_since(self.replay.history.begin)
    }
}

#[cfg(test)]
mod tests;
