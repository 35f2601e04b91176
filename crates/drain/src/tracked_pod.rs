//! One pod of a drain: the state of its requests, and its next request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::moment::Millis;
use crate::pod::{PodOnNode, STUCK_AFTER, Skip};
use crate::progress::PodOutcome;
use crate::reply::{Refusal, Reply};
use crate::settings::Settings;
use crate::step::StepContext;

/// Time within which an accepted request must show as a deletionTimestamp; otherwise a new list is read.
pub(crate) const SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum RemovalMethod {
    Delete,
    Evict,
}

impl RemovalMethod {
    fn outcome(self) -> PodOutcome {
        match self {
            Self::Evict => PodOutcome::Evicted,
            Self::Delete => PodOutcome::Forced,
        }
    }
}

/// A request to send; `within` is the deadline that its grace period respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvictionAttempt {
    pub(crate) how: RemovalMethod,
    pub(crate) grace: Option<u64>,
    pub(crate) within: Option<Millis>,
}

/// Next step of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// No step before new input.
    Idle,
    /// A step at this future time.
    At(Millis),
    /// A request that is due now.
    Due(EvictionAttempt),
}

/// State of a pod's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PodState {
    /// No request sent.
    Waiting,
    /// Request sent, no response yet.
    Asked { how: RemovalMethod, within: Option<Millis> },
    /// Request sent, but the response was lost with a restart: the next list shows the effect.
    Unheard { how: RemovalMethod, within: Option<Millis> },
    /// Request refused; no retry before `next`.
    Refused { how: RemovalMethod, why: Refusal, next: Millis },
    /// Request accepted at `at`.
    Accepted { how: RemovalMethod, at: Millis, within: Option<Millis> },
}

/// A pod and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrackedPod {
    pub(crate) pod: PodOnNode,
    /// Time at which a list first contained the pod.
    #[serde(default)]
    pub(crate) seen: Millis,
    /// `true` if the last list contained the pod.
    pub(crate) present: bool,
    /// Number of refusals.
    pub(crate) attempts: u32,
    pub(crate) state: PodState,
    /// `namespace/name` of the PodDisruptionBudget that refused the pod last.
    #[serde(default)]
    pub(crate) budget: Option<String>,
}

impl TrackedPod {
    pub(crate) fn new(pod: PodOnNode, seen: Millis) -> Self {
        Self { pod, seen, present: true, attempts: 0, state: PodState::Waiting, budget: None }
    }

    /// Returns why the pod is skipped, or `None`.
    pub(crate) fn skip(&self, settings: &Settings, now: Millis) -> Option<Skip> {
        settings.skip(&self.pod, now)
    }

    /// Reports whether the pod is on the node and must leave.
    pub(crate) fn waits(&self, settings: &Settings, now: Millis) -> bool {
        self.present && self.skip(settings, now).is_none()
    }

    /// Reports whether the pod is known to be terminating.
    pub(crate) fn is_leaving(&self) -> bool {
        self.pod.deletion.is_some() || matches!(self.state, PodState::Accepted { .. })
    }

    /// Returns the outstanding request of the pod.
    pub(crate) fn asked(&self) -> Option<RemovalMethod> {
        match self.state {
            PodState::Asked { how, .. } => Some(how),
            _ => None,
        }
    }

    /// Returns the budget that blocks the pod, while it waits for a retry or is evicted again.
    pub(crate) fn held_by(&self) -> Option<&str> {
        let by_budget = match self.state {
            PodState::Refused { why, .. } => why == Refusal::Budget,
            PodState::Asked { how, .. } => how == RemovalMethod::Evict,
            _ => false,
        };
        self.budget.as_deref().filter(|_| by_budget)
    }

    /// Returns the last safe time of the pod.
    pub(crate) fn switch(&self, settings: &Settings) -> Option<Millis> {
        settings.switch(&self.pod, self.seen)
    }

    /// Reports whether the time until the pod's last safe time is at most its grace period.
    pub(crate) fn is_urgent(&self, settings: &Settings, now: Millis) -> bool {
        self.switch(settings).is_some_and(|switch| now + self.pod.grace() >= switch)
    }

    /// Returns the next step of the pod.
    pub(crate) fn next(&self, turn: &StepContext<'_>) -> NextStep {
        let now = turn.now;
        if !self.waits(turn.settings, now) || self.asked().is_some() {
            return NextStep::Idle;
        }
        if self.is_leaving() {
            return self.next_of_leaving(turn);
        }
        let switch = self.switch(turn.settings);
        if switch.is_some_and(|switch| now >= switch) {
            return self.delete(turn);
        }
        let moments = [switch, self.evictable(turn)];
        match moments.into_iter().flatten().min() {
            Some(at) if at > now => NextStep::At(at),
            Some(_) => NextStep::Due(self.evict(turn)),
            None => NextStep::Idle,
        }
    }

    fn next_of_leaving(&self, turn: &StepContext<'_>) -> NextStep {
        if self.overstays(turn.settings) {
            return self.delete(turn);
        }
        let shown = match (self.state, self.pod.deletion) {
            (PodState::Accepted { at, .. }, None) => Some(at.max(turn.relisted) + SHOWS_WITHIN),
            _ => None,
        };
        let stuck = self.pod.deletion.map(|end| end + STUCK_AFTER);
        let moments = [shown, stuck];
        moments.into_iter().flatten().filter(|at| *at > turn.now).min().map_or(NextStep::Idle, NextStep::At)
    }

    /// Returns the time from which the pod may be evicted; `None` while a condition other than time blocks it.
    fn evictable(&self, turn: &StepContext<'_>) -> Option<Millis> {
        if turn.settings.holds(&self.pod) {
            return None;
        }
        let group = if self.pod.group() == turn.first { Millis(0) } else { self.jumps(turn)? };
        let retry = match (self.state, self.held_by()) {
            (PodState::Refused { next, .. }, Some(budget)) => turn.probe(budget)?.max(next),
            (PodState::Refused { next, .. }, None) => next,
            _ => Millis(0),
        };
        Some(group.max(retry).max(turn.open + self.lead(turn)))
    }

    /// Returns the time from which the pod does not wait for earlier groups.
    fn jumps(&self, turn: &StepContext<'_>) -> Option<Millis> {
        let switch = self.switch(turn.settings)?;
        Some(switch - turn.settings.jump.min(switch.since(turn.started) / 2))
    }

    /// Returns how long the pod waits for the load balancers: at most a quarter of its spare time.
    fn lead(&self, turn: &StepContext<'_>) -> Duration {
        let spare = self.switch(turn.settings).map(|switch| switch.since(turn.open.max(self.seen)));
        let whole = turn.settings.end().map(|end| end - self.pod.grace() >= self.seen);
        match (spare, whole) {
            (_, Some(false)) => Duration::ZERO,
            (Some(spare), _) => turn.settings.lead.min(spare / 4),
            (None, _) => turn.settings.lead,
        }
    }

    /// Reports whether the pod's deletion would end after the deadline, and no shorter deletion was requested.
    fn overstays(&self, settings: &Settings) -> bool {
        let (Some(deadline), Some(end)) = (settings.deadline, self.pod.deletion) else {
            return false;
        };
        let asked = match self.state {
            PodState::Accepted { within, how: RemovalMethod::Delete, .. } => within,
            _ => None,
        };
        end > deadline && asked.is_none_or(|within| within > deadline)
    }

    fn evict(&self, turn: &StepContext<'_>) -> EvictionAttempt {
        let left = turn.settings.seconds_left(turn.now);
        EvictionAttempt {
            how: RemovalMethod::Evict,
            grace: left.filter(|left| *left < self.pod.grace_seconds),
            within: turn.settings.deadline,
        }
    }

    /// Returns a deletion within the time left, unless a deletion was recently refused.
    fn delete(&self, turn: &StepContext<'_>) -> NextStep {
        if let PodState::Refused { how: RemovalMethod::Delete, next, .. } = self.state
            && turn.now < next
        {
            return NextStep::At(next);
        }
        let Some(left) = turn.settings.seconds_left(turn.now) else {
            return NextStep::Idle;
        };
        let grace = Some(left.min(self.pod.grace_seconds).max(1));
        NextStep::Due(EvictionAttempt { how: RemovalMethod::Delete, grace, within: turn.settings.deadline })
    }

    /// Processes a response. Only the response to an outstanding request has an effect. Returns whether it had.
    pub(crate) fn reply(&mut self, settings: &Settings, reply: &Reply, now: Millis) -> bool {
        let PodState::Asked { how, within } = self.state else {
            return false;
        };
        let Some(why) = reply.refusal() else {
            self.present &= *reply == Reply::Accepted;
            self.state = match reply {
                Reply::Accepted => PodState::Accepted { how, at: now, within },
                _ => PodState::Waiting,
            };
            return true;
        };
        self.attempts = self.attempts.saturating_add(1);
        if let Reply::Blocked { budget: Some(budget), .. } = reply {
            self.budget = Some(format!("{}/{budget}", self.pod.namespace));
        }
        let next = self.retry_at(settings, reply, how, now);
        self.state = PodState::Refused { how, why, next };
        true
    }

    /// Returns the time of the retry. A refused deletion is retried within half of the time left.
    fn retry_at(&self, settings: &Settings, reply: &Reply, how: RemovalMethod, now: Millis) -> Millis {
        let wait = match reply {
            Reply::Invalid => settings.retry_max,
            // The budget sets the delay for all its pods.
            Reply::Blocked { budget: Some(_), .. } => settings.retry_min,
            _ => backoff::wait(settings, &self.pod.uid, self.attempts, settings.retry_max),
        };
        match (reply, how, settings.deadline) {
            (Reply::Blocked { retry_after: Some(asked), .. }, RemovalMethod::Evict, _) => now + wait.max(*asked),
            (_, RemovalMethod::Delete, Some(deadline)) if now < deadline => {
                now + wait.min(deadline.since(now) / 2).max(settings.retry_min)
            }
            _ => now + wait,
        }
    }

    /// Records that the response is lost; the next list shows whether the request arrived.
    pub(crate) fn lose_answer(&mut self) {
        if let PodState::Asked { how, within } = self.state {
            self.state = PodState::Unheard { how, within };
        }
    }

    /// Updates the pod from a list.
    pub(crate) fn listed(&mut self, pod: PodOnNode, now: Millis) {
        let newly = pod.deletion.is_some() && self.pod.deletion.is_none();
        self.state = match self.state {
            PodState::Unheard { how, within } if newly => PodState::Accepted { how, at: now, within },
            PodState::Unheard { .. } => PodState::Waiting,
            PodState::Refused { how, why: Refusal::Unreachable, .. } if newly => {
                PodState::Accepted { how, at: now, within: None }
            }
            PodState::Accepted { at, .. } if pod.deletion.is_none() && now >= at + SHOWS_WITHIN => PodState::Waiting,
            other => other,
        };
        self.present = true;
        self.pod = pod;
    }

    /// Returns the outcome of the pod, if it has one.
    pub(crate) fn outcome(&self, settings: &Settings, now: Millis) -> Option<PodOutcome> {
        match self.state {
            PodState::Accepted { how, .. } => Some(how.outcome()),
            PodState::Unheard { how, .. } if !self.present => Some(how.outcome()),
            _ if !self.present => Some(PodOutcome::Gone),
            _ => self.skip(settings, now).map(PodOutcome::Left).or_else(|| {
                let late = settings.deadline.is_some_and(|deadline| now >= deadline);
                late.then_some(PodOutcome::Left(Skip::Deadline))
            }),
        }
    }
}
