//! Drain of the node. Orders start, tighten or cancel the drain in the journal. This module also decides when the drain may
//! proceed, which requests it sends, and how it ends.

mod owner;
pub(super) mod requests;
pub(super) mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::condition;
use drain::{Action, DaemonSets, Drain, DrainOrders, Millis};
use machine::agent::drain::DrainSettings;

use super::AgentAction;
use super::agent_state::AgentState;
use crate::cluster::{ConditionUpdate, Node, NodeEvent};
use crate::run::eviction::rules;
use crate::run::journal::{DrainOutcome, Journal, OrderRecord};
use crate::run::report::{self, WantedMarks};

use owner::OwnerTracker;
use volumes::Volumes;

/// Source name of the notices' order.
const ANNOUNCED: &str = "announced";

/// Time for which a drain waits for its cordon. Evicted pods must not come back to the node, but their eviction must not be too
/// late either.
const CORDON_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct NodeDrain {
    /// Time since which the drain waits for its cordon.
    begun: Option<Millis>,
    follows_pods: bool,
    /// Pods whose eviction is in the journal. A retry need not wait for the disk.
    asked: BTreeSet<String>,
    /// Reason of the last logged refusal of each pod, by UID.
    refused: BTreeMap<String, String>,
    /// Orders to drain the node.
    orders: DrainOrders,
    settings: DrainSettings,
    volumes: Volumes,
    owner: OwnerTracker,
}

impl NodeDrain {
    /// Continues a drain from the journal.
    pub(super) fn carried_on(journal: &Journal, now: Millis) -> Self {
        let begun = journal.drain.as_ref().map(|_| now);
        Self { begun, orders: orders(journal), ..Self::default() }
    }

    /// Applies the settings of the instance.
    pub(super) fn configure(&mut self, settings: DrainSettings) {
        self.settings = settings;
    }

    /// Records our Node from the watch.
    pub(super) fn observe(&mut self, known: &AgentState, now: Millis) {
        if let Some(node) = known.node() {
            self.owner.observe(node, now);
        }
    }

    /// Records a read of our Node that began at `began`.
    pub(super) fn read(&mut self, node: Option<&Node>, began: Millis, now: Millis) {
        self.owner.read(node, began, now);
    }

    /// Returns the time until which requests may be sent.
    pub(super) fn polls_until(&self, now: Millis) -> Millis {
        self.owner.until(now)
    }

    /// Applies the current order of the notices and the request of the annotation: the drain begins, gets another deadline, or
    /// is cancelled. Returns whether the orders have changed.
    pub(super) fn follow(&mut self, known: &mut AgentState, order: Option<OrderRecord>, now: Millis) -> bool {
        let announced = known.journal.order != order;
        known.journal.order = order;
        let orders = orders(&known.journal);
        let news = !self.orders.ids().eq(orders.ids());
        if news {
            // The outcome of a drain belongs to its orders. A new order has an outcome of its own.
            known.journal.outcome = None;
        }
        let changed = self.orders != orders;
        if changed {
            self.adjust(known, &orders, now);
            self.orders = orders;
        }
        known.dirty |= announced || changed;
        news
    }

    fn adjust(&mut self, known: &mut AgentState, orders: &DrainOrders, now: Millis) {
        let mut rules =
            rules(&self.settings, api::hash::fnv1a(known.journal.instance.bytes()), orders.is_termination());
        // The controller starts copies after a notice, and requests the termination when they are ready.
        let is_requested = orders.get(requests::SOURCE).is_some_and(|order| order.termination);
        rules.await_copies &= orders.get(ANNOUNCED).is_some() && !is_requested;
        if orders.is_empty() {
            self.cancel(known);
        } else if known.journal.drain.is_none() {
            known.journal.drain = Some(Drain::new(rules.clone(), now));
            Volumes::observe(known, now);
            self.begun = Some(now);
        }
        known.with_drain(|drain| {
            drain.set_rules(rules);
            drain.follow(orders);
        });
    }

    fn cancel(&mut self, known: &mut AgentState) {
        if known.journal.drain.take().is_some() {
            log::info!("cancelled drain");
        }
        known.journal.outcome = None;
        self.asked.clear();
        self.refused.clear();
        self.begun = None;
    }

    /// Returns the desired marks of the Node during the drain.
    pub(super) fn wanted(&self, known: &AgentState) -> WantedMarks {
        let drains = !self.orders.is_empty();
        let announced = known.journal.order.as_ref();
        let deadline = announced.and_then(|order| order.deadline);
        WantedMarks { cordon: drains, exclude: drains, report: announced.is_some(), deadline }
    }

    pub(super) fn step(&mut self, known: &mut AgentState, cordoned: bool, now: Millis) -> Vec<AgentAction> {
        let mut actions = Vec::new();
        if known.journal.drain.is_none() || known.node().is_none() {
            return actions;
        }
        if !std::mem::replace(&mut self.follows_pods, true) {
            actions.push(AgentAction::FollowPods);
        }
        if cordoned || known.node().is_some_and(|node| node.spec.unschedulable) {
            known.with_drain(|drain| drain.mark_closed(now));
        }
        if self.may_drain(known, cordoned, now) {
            actions.extend(self.start_steps(known, now));
            actions.extend(self.volumes.ask(known, now));
            self.log_refusals(known);
            self.conclude(known, now);
        }
        actions
    }

    fn start_steps(&mut self, known: &mut AgentState, now: Millis) -> Vec<AgentAction> {
        let Some(drain) = known.journal.drain.as_mut() else {
            return Vec::new();
        };
        let first = self.owner.before_requests(drain, now);
        let steps = drain.step(now);
        for step in &steps {
            known.dirty |= match step {
                Action::Evict { uid, .. } => self.asked.insert(uid.clone()),
                Action::Delete { .. } => true,
                Action::List => false,
            };
        }
        first.into_iter().chain(steps.into_iter().map(AgentAction::Drain)).collect()
    }

    /// Logs the reason of a refused eviction once. The eviction is retried several times a second and refused as often.
    fn log_refusals(&mut self, known: &AgentState) {
        for refused in known.journal.drain.iter().flat_map(Drain::refusals) {
            let words = refused.to_string();
            if self.refused.get(&refused.pod.uid) != Some(&words) {
                log::info!(reason = words.as_str(); "eviction blocked");
                self.refused.insert(refused.pod.uid.clone(), words);
            }
        }
    }

    pub(super) fn poll_timeout(&self, known: &AgentState, cordoned: bool, now: Millis) -> Option<Millis> {
        let drain = known.journal.drain.as_ref()?;
        if !self.may_drain(known, cordoned, now) {
            return self.begun.map(|at| at + CORDON_PATIENCE).filter(|_| known.node().is_some());
        }
        let end = self.deadline(known).filter(|_| known.journal.outcome.is_none());
        let owner = self.owner.poll_timeout(drain, now);
        drain.poll_timeout(now).into_iter().chain(end).chain(owner).chain(self.volumes.poll_timeout(known)).min()
    }

    /// Returns the condition `kerf.sh/Drained`, which also acknowledges drain requests.
    pub(super) fn condition_update(&self, known: &AgentState, now: Millis) -> Option<ConditionUpdate> {
        let (node, journal) = (known.node()?, &known.journal);
        match &journal.drain {
            Some(drain) => {
                let update = report::drained(drain, &self.orders, journal.outcome.as_ref(), known.wall, now);
                Some(if journal.outcome.is_none() { self.owner.add_to(update) } else { update })
            }
            None => node.condition(condition::NODE_DRAINED).map(|_| report::drain_withdrawn()),
        }
    }

    pub(super) fn node_event(&self, known: &AgentState) -> Option<NodeEvent> {
        let outcome = known.journal.outcome.as_ref()?;
        let by = self.deadline(known).map(|at| known.wall.wall_time(at));
        (!self.orders.is_empty()).then(|| NodeEvent::drained(&self.orders, outcome, by))
    }

    pub(super) fn summary(&self, known: &AgentState) -> Option<String> {
        if self.orders.is_empty() {
            return None;
        }
        Some(match &known.journal.outcome {
            Some(outcome) => format!("drained: {}", outcome.summary),
            None => format!("draining: {}", self.orders.reasons()),
        })
    }

    /// Returns the deadline, at which the instance may be terminated.
    fn deadline(&self, known: &AgentState) -> Option<Millis> {
        let announced = known.journal.order.as_ref().and_then(|order| order.deadline);
        let asked = self.orders.get(requests::SOURCE).and_then(|order| order.deadline);
        announced.into_iter().chain(asked).min()
    }

    /// Records the outcome once, when no pod is left or the deadline has come.
    fn conclude(&self, known: &mut AgentState, now: Millis) {
        let late = self.deadline(known).is_some_and(|deadline| now >= deadline);
        let Some(drain) = known.journal.drain.as_ref().filter(|_| known.journal.outcome.is_none()) else {
            return;
        };
        if drain.is_done() || late {
            let (complete, summary) = report::outcome(drain, now);
            log::info!(complete = complete, summary:% = summary; "finished drain");
            known.journal.outcome = Some(DrainOutcome { complete, summary });
            known.dirty = true;
        }
    }

    fn may_drain(&self, known: &AgentState, cordoned: bool, now: Millis) -> bool {
        let Some(node) = known.node() else {
            return false;
        };
        let waited = self.begun.is_some_and(|at| now >= at + CORDON_PATIENCE);
        node.spec.unschedulable || cordoned || waited
    }
}

/// Returns all orders to drain the node.
fn orders(journal: &Journal) -> DrainOrders {
    let mut orders = DrainOrders::default();
    let announced = journal.order.as_ref().map(|order| drain::DrainOrder {
        id: order.id.clone(),
        reason: order.why.clone(),
        deadline: order.forced,
        daemon_sets: DaemonSets::Skip,
        termination: false,
    });
    orders.set(ANNOUNCED, announced);
    orders.set(requests::SOURCE, journal.asked.clone());
    orders
}
