//! One pod of a drain: the state of its requests, and its next request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::eviction::backoff;
use crate::eviction::reply::{Refusal, Reply};
use crate::moment::Millis;
use crate::pod::{PodOnNode, PodOutcome, STUCK_AFTER, Skip};
use crate::settings::Settings;
use crate::step_context::StepContext;

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
    pub(crate) method: RemovalMethod,
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
    #[serde(rename = "Asked")]
    Requested {
        #[serde(rename = "how")]
        method: RemovalMethod,
        within: Option<Millis>,
    },
    /// Request sent, but the response was lost with a restart: the next list shows the effect.
    #[serde(rename = "Unheard")]
    ResponseLost {
        #[serde(rename = "how")]
        method: RemovalMethod,
        within: Option<Millis>,
    },
    /// Request refused; no retry before `next`.
    Refused {
        #[serde(rename = "how")]
        method: RemovalMethod,
        why: Refusal,
        next: Millis,
    },
    /// Request accepted at `at`.
    Accepted {
        #[serde(rename = "how")]
        method: RemovalMethod,
        at: Millis,
        within: Option<Millis>,
    },
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
    pub(crate) fn must_leave(&self, settings: &Settings, now: Millis) -> bool {
        self.present && self.skip(settings, now).is_none()
    }

    /// Reports whether the pod is known to be terminating.
    pub(crate) fn is_terminating(&self) -> bool {
        self.pod.deletion.is_some() || matches!(self.state, PodState::Accepted { .. })
    }

    /// Returns the outstanding request of the pod.
    pub(crate) fn outstanding(&self) -> Option<RemovalMethod> {
        match self.state {
            PodState::Requested { method, .. } => Some(method),
            _ => None,
        }
    }

    /// Returns the budget that blocks the pod, while it waits for a retry or is evicted again.
    pub(crate) fn blocking_budget(&self) -> Option<&str> {
        let by_budget = match self.state {
            PodState::Refused { why, .. } => why == Refusal::Budget,
            PodState::Requested { method, .. } => method == RemovalMethod::Evict,
            _ => false,
        };
        self.budget.as_deref().filter(|_| by_budget)
    }

    /// Returns the last safe time of the pod.
    pub(crate) fn last_safe_time(&self, settings: &Settings) -> Option<Millis> {
        settings.last_safe_time(&self.pod, self.seen)
    }

    /// Reports whether the time until the pod's last safe time is at most its grace period.
    pub(crate) fn is_urgent(&self, settings: &Settings, now: Millis) -> bool {
        self.last_safe_time(settings).is_some_and(|last| now + self.pod.grace() >= last)
    }

    /// Returns the next step of the pod.
    pub(crate) fn next(&self, context: &StepContext<'_>) -> NextStep {
        let now = context.times.now;
        if !self.must_leave(context.settings, now) || self.outstanding().is_some() {
            return NextStep::Idle;
        }
        if self.is_terminating() {
            return self.next_of_terminating(context);
        }
        let last = self.last_safe_time(context.settings);
        if last.is_some_and(|last| now >= last) {
            return self.next_deletion(context);
        }
        let moments = [last, self.evictable(context)];
        match moments.into_iter().flatten().min() {
            Some(at) if at > now => NextStep::At(at),
            Some(_) => NextStep::Due(self.eviction_attempt(context)),
            None => NextStep::Idle,
        }
    }

    fn next_of_terminating(&self, context: &StepContext<'_>) -> NextStep {
        if self.ends_too_late(context.settings) {
            return self.next_deletion(context);
        }
        let shown = match (self.state, self.pod.deletion) {
            (PodState::Accepted { at, .. }, None) => Some(at.max(context.times.relisted) + SHOWS_WITHIN),
            _ => None,
        };
        let stuck = self.pod.deletion.map(|end| end + STUCK_AFTER);
        let moments = [shown, stuck];
        moments.into_iter().flatten().filter(|at| *at > context.times.now).min().map_or(NextStep::Idle, NextStep::At)
    }

    /// Returns the time from which the pod may be evicted; `None` while a condition other than time blocks it.
    fn evictable(&self, context: &StepContext<'_>) -> Option<Millis> {
        let released = context.settings.released_at(&self.pod)?;
        let group = if self.pod.group() == context.first { Millis(0) } else { self.jump_time(context)? };
        let retry = match (self.state, self.blocking_budget()) {
            (PodState::Refused { next, .. }, Some(budget)) => context.probe(budget)?.max(next),
            (PodState::Refused { next, .. }, None) => next,
            _ => Millis(0),
        };
        let copy = context.settings.copy_awaited_until(&self.pod, self.seen);
        Some(group.max(retry).max(released).max(copy).max(context.times.open + self.lead_time(context)))
    }

    /// Returns the time at which the pod must leave although a policy leaves it on the node at `now`: the end of its protection.
    pub(crate) fn joins_at(&self, settings: &Settings, now: Millis) -> Option<Millis> {
        let end = self.pod.do_not_disrupt.end().filter(|end| *end > now)?;
        let waits = self.present && self.skip(settings, now) == Some(Skip::Policy);
        (waits && self.skip(settings, end).is_none()).then_some(end)
    }

    /// Returns the time from which the pod does not wait for earlier groups.
    fn jump_time(&self, context: &StepContext<'_>) -> Option<Millis> {
        let last = self.last_safe_time(context.settings)?;
        Some(last - context.settings.jump.min(last.since(context.times.started) / 2))
    }

    /// Returns method long the pod waits for the load balancers: at most a quarter of its spare time.
    fn lead_time(&self, context: &StepContext<'_>) -> Duration {
        let spare = self.last_safe_time(context.settings).map(|last| last.since(context.times.open.max(self.seen)));
        let whole = context.settings.end().map(|end| end - self.pod.grace() >= self.seen);
        match (spare, whole) {
            (_, Some(false)) => Duration::ZERO,
            (Some(spare), _) => context.settings.lead.min(spare / 4),
            (None, _) => context.settings.lead,
        }
    }

    /// Reports whether the pod's deletion would end after the deadline, and no shorter deletion was requested.
    fn ends_too_late(&self, settings: &Settings) -> bool {
        let (Some(deadline), Some(end)) = (settings.deadline, self.pod.deletion) else {
            return false;
        };
        let requested = match self.state {
            PodState::Accepted { within, method: RemovalMethod::Delete, .. } => within,
            _ => None,
        };
        end > deadline && requested.is_none_or(|within| within > deadline)
    }

    fn eviction_attempt(&self, context: &StepContext<'_>) -> EvictionAttempt {
        let left = context.settings.seconds_left(context.times.now);
        EvictionAttempt {
            method: RemovalMethod::Evict,
            grace: left.filter(|left| *left < self.pod.grace_seconds),
            within: context.settings.deadline,
        }
    }

    /// Returns a deletion within the time left, unless a deletion was recently refused.
    fn next_deletion(&self, context: &StepContext<'_>) -> NextStep {
        if let PodState::Refused { method: RemovalMethod::Delete, next, .. } = self.state
            && context.times.now < next
        {
            return NextStep::At(next);
        }
        let Some(left) = context.settings.seconds_left(context.times.now) else {
            return NextStep::Idle;
        };
        let grace = Some(left.min(self.pod.grace_seconds).max(1));
        NextStep::Due(EvictionAttempt { method: RemovalMethod::Delete, grace, within: context.settings.deadline })
    }

    /// Processes a response. Only the response to an outstanding request has an effect. Returns whether it had.
    pub(crate) fn reply(&mut self, settings: &Settings, reply: &Reply, now: Millis) -> bool {
        let PodState::Requested { method, within } = self.state else {
            return false;
        };
        let Some(why) = reply.refusal() else {
            self.present &= *reply == Reply::Accepted;
            self.state = match reply {
                Reply::Accepted => PodState::Accepted { method, at: now, within },
                _ => PodState::Waiting,
            };
            return true;
        };
        self.attempts = self.attempts.saturating_add(1);
        if let Reply::Blocked { budget: Some(budget), .. } = reply {
            self.budget = Some(format!("{}/{budget}", self.pod.namespace));
        }
        let next = self.retry_at(settings, reply, method, now);
        self.state = PodState::Refused { method, why, next };
        true
    }

    /// Returns the time of the retry. A refused deletion is retried within half of the time left.
    fn retry_at(&self, settings: &Settings, reply: &Reply, method: RemovalMethod, now: Millis) -> Millis {
        let wait = match reply {
            Reply::Invalid => settings.retry_max,
            // The budget sets the delay for all its pods.
            Reply::Blocked { budget: Some(_), .. } => settings.retry_min,
            _ => backoff::wait(settings, &self.pod.uid, self.attempts, settings.retry_max),
        };
        match (reply, method, settings.deadline) {
            (Reply::Blocked { retry_after: Some(delay), .. }, RemovalMethod::Evict, _) => now + wait.max(*delay),
            (_, RemovalMethod::Delete, Some(deadline)) if now < deadline => {
                now + wait.min(deadline.since(now) / 2).max(settings.retry_min)
            }
            _ => now + wait,
        }
    }

    /// Records that the response is lost; the next list shows whether the request arrived.
    pub(crate) fn lose_response(&mut self) {
        if let PodState::Requested { method, within } = self.state {
            self.state = PodState::ResponseLost { method, within };
        }
    }

    /// Updates the pod from a list.
    pub(crate) fn update(&mut self, pod: PodOnNode, now: Millis) {
        let newly = pod.deletion.is_some() && self.pod.deletion.is_none();
        self.state = match self.state {
            PodState::ResponseLost { method, within } if newly => PodState::Accepted { method, at: now, within },
            PodState::ResponseLost { .. } => PodState::Waiting,
            PodState::Refused { method, why: Refusal::Unreachable, .. } if newly => {
                PodState::Accepted { method, at: now, within: None }
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
            PodState::Accepted { method, .. } => Some(method.outcome()),
            PodState::ResponseLost { method, .. } if !self.present => Some(method.outcome()),
            _ if !self.present => Some(PodOutcome::Gone),
            _ => self.skip(settings, now).map(PodOutcome::Left).or_else(|| {
                let late = settings.deadline.is_some_and(|deadline| now >= deadline);
                late.then_some(PodOutcome::Left(Skip::Deadline))
            }),
        }
    }
}
