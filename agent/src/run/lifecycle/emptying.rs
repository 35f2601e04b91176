//! Emptying the node: when the drain in the journal may go on, what it asks for, and how it ended.

use std::collections::BTreeSet;
use std::time::Duration;

use drain::{Action, Millis};

use super::Act;
use super::known::Known;
use crate::journal::{Journal, Outcome};
use crate::report::{self, Tiding};

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

    /// The journal has a new drain.
    pub(super) fn begin(&mut self, now: Millis) {
        self.begun = Some(now);
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
        drain.poll_timeout(now)
    }

    pub(super) fn tiding(&self, known: &Known) -> Option<Tiding> {
        let (notice, outcome) = (known.journal.spot.as_ref()?, known.journal.outcome.as_ref()?);
        Some(Tiding::drained(notice, outcome.complete, &outcome.summary))
    }

    pub(super) fn summary(&self, known: &Known) -> Option<String> {
        match (&known.journal.drain, &known.journal.outcome) {
            (_, Some(outcome)) => Some(format!("drained: {}", outcome.summary)),
            (Some(_), None) => Some("draining for a spot interruption".to_owned()),
            (None, None) => None,
        }
    }

    fn may_drain(&self, known: &Known, cordoned: bool, now: Millis) -> bool {
        let Some(node) = known.node() else {
            return false;
        };
        let waited = self.begun.is_some_and(|at| now >= at + CORDON_PATIENCE);
        node.spec.unschedulable || cordoned || waited
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
