//! Emptying the node: an order starts, tightens or calls off the drain in the journal; here is also when it may go on, what it asks
//! for, and how it ended.

use std::collections::BTreeSet;
use std::time::Duration;

use drain::{Action, Drain, Millis, Settings};

use super::Act;
use super::known::Known;
use crate::journal::{Journal, Order, Outcome};
use crate::report::{self, Tiding, Wanted};

/// For so long a drain waits for its cordon: evicted pods must not come back, but they must get away in time too.
const CORDON_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Emptying {
    /// Since when the drain waits for its cordon.
    begun: Option<Millis>,
    follows_pods: bool,
    /// Pods whose eviction the journal knows of: a retry need not wait for the disk.
    asked: BTreeSet<String>,
}

impl Emptying {
    /// A drain that the journal has goes on.
    pub(super) fn carried_on(journal: &Journal, now: Millis) -> Self {
        Self { begun: journal.drain.as_ref().map(|_| now), ..Self::default() }
    }

    /// Follows the order that holds now: the drain begins, gets another end, or is called off. Whether it is news.
    pub(super) fn follow(&mut self, known: &mut Known, order: Option<Order>, now: Millis) -> bool {
        if known.journal.order == order {
            return false;
        }
        match &order {
            None => self.call_off(known),
            Some(order) => self.adjust(known, order, now),
        }
        let same = |before: &Order| order.as_ref().is_some_and(|now| now.id == before.id);
        let renamed = !known.journal.order.as_ref().is_some_and(same);
        if renamed {
            // What ended for one reason is told for that reason; a new one has an end of its own.
            known.journal.outcome = None;
        }
        known.journal.order = order;
        known.dirty = true;
        renamed
    }

    fn adjust(&mut self, known: &mut Known, order: &Order, now: Millis) {
        let current = known.journal.drain.as_ref().map(|drain| drain.settings().deadline);
        match (current, order.forced) {
            (Some(current), forced) if current == forced => {}
            (Some(None), Some(sooner)) => known.with_drain(|drain| drain.tighten(sooner)),
            (Some(Some(current)), Some(sooner)) if sooner < current => known.with_drain(|drain| drain.tighten(sooner)),
            // The nearest end was called off, or put off: what it made urgent is so no more.
            (Some(_), _) | (None, _) => {
                let settings = settings(order, report::fnv(&known.journal.instance));
                known.journal.drain = Some(Drain::new(settings, now));
                self.asked.clear();
                self.begun = Some(now);
            }
        }
    }

    fn call_off(&mut self, known: &mut Known) {
        log::info!("the drain is called off");
        known.journal.drain = None;
        self.asked.clear();
        self.begun = None;
    }

    /// What the Node should be while it is emptied.
    pub(super) fn wanted(&self, known: &Known) -> Wanted {
        let order = known.journal.order.as_ref();
        let deadline = order.and_then(|order| order.deadline);
        Wanted { cordon: order.is_some(), exclude: order.is_some(), say: order.is_some(), deadline }
    }

    pub(super) fn step(&mut self, known: &mut Known, cordoned: bool, now: Millis) -> Vec<Act> {
        let mut acts = Vec::new();
        if known.journal.drain.is_none() || !self.may_drain(known, cordoned, now) {
            return acts;
        }
        if !std::mem::replace(&mut self.follows_pods, true) {
            acts.push(Act::FollowPods);
        }
        known.with_drain(|drain| drain.closed(now));
        let steps = known.journal.drain.as_mut().map(|drain| drain.step(now)).unwrap_or_default();
        for step in &steps {
            known.dirty |= match step {
                Action::Evict { uid, .. } => self.asked.insert(uid.clone()),
                Action::Delete { .. } => true,
                Action::List => false,
            };
        }
        acts.extend(steps.into_iter().map(Act::Drain));
        conclude(known, now);
        acts
    }

    pub(super) fn poll_timeout(&self, known: &Known, cordoned: bool, now: Millis) -> Option<Millis> {
        let drain = known.journal.drain.as_ref().filter(|_| self.may_drain(known, cordoned, now))?;
        let end = known.deadline().filter(|_| known.journal.outcome.is_none());
        drain.poll_timeout(now).into_iter().chain(end).min()
    }

    pub(super) fn tiding(&self, known: &Known) -> Option<Tiding> {
        let (order, outcome) = (known.journal.order.as_ref()?, known.journal.outcome.as_ref()?);
        Some(Tiding::drained(order, outcome, known.wall))
    }

    pub(super) fn summary(&self, known: &Known) -> Option<String> {
        let order = known.journal.order.as_ref()?;
        Some(match &known.journal.outcome {
            Some(outcome) => format!("drained: {}", outcome.summary),
            None => format!("draining: {}", order.why),
        })
    }

    fn may_drain(&self, known: &Known, cordoned: bool, now: Millis) -> bool {
        let Some(node) = known.node() else {
            return false;
        };
        let waited = self.begun.is_some_and(|at| now >= at + CORDON_PATIENCE);
        node.spec.unschedulable || cordoned || waited
    }
}

fn settings(order: &Order, seed: u64) -> Settings {
    match order.forced {
        Some(forced) => Settings::for_notice(forced, seed),
        None => Settings { seed, ..Settings::default() },
    }
}

/// Once, when nothing is left to go or the deadline has come.
fn conclude(known: &mut Known, now: Millis) {
    let late = known.deadline().is_some_and(|deadline| now >= deadline);
    let Some(drain) = known.journal.drain.as_ref().filter(|_| known.journal.outcome.is_none()) else {
        return;
    };
    if drain.is_done() || late {
        let (complete, summary) = report::outcome(drain, now);
        log::info!(complete = complete; "the drain is over: {summary}");
        known.journal.outcome = Some(Outcome { complete, summary });
        known.dirty = true;
    }
}
