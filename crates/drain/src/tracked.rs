//! One pod under drain: where its requests stand, and the next thing to ask for, if any.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::moment::Millis;
use crate::pod::{Group, PodOnNode, STUCK_AFTER, Skip};
use crate::progress::{Outcome, Progress};
use crate::reply::{Refusal, Reply};
use crate::settings::Settings;

/// An accepted request must show as a deletionTimestamp within this time, or the list is read again.
pub(crate) const SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// Which of the two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Evict,
    Delete,
}

impl How {
    fn outcome(self) -> Outcome {
        match self {
            Self::Evict => Outcome::Evicted,
            Self::Delete => Outcome::Forced,
        }
    }
}

/// A request to make: `within` is the deadline that its grace respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) how: How,
    pub(crate) grace: Option<u64>,
    pub(crate) within: Option<Millis>,
}

/// Where a pod's requests stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// Nothing asked.
    Waiting,
    /// Asked, no answer yet.
    Asked { how: How, within: Option<Millis> },
    /// Asked, but the answer was lost with a restart: the next list tells.
    Unheard { how: How, within: Option<Millis> },
    /// Refused; not to be asked the same again before `next`.
    Refused { how: How, why: Refusal, next: Millis },
    /// Accepted at `at`.
    Accepted { how: How, at: Millis, within: Option<Millis> },
}

/// A pod and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tracked {
    pub(crate) pod: PodOnNode,
    /// The last list still showed it.
    pub(crate) present: bool,
    /// Refusals so far.
    pub(crate) attempts: u32,
    pub(crate) state: State,
}

impl Tracked {
    pub(crate) fn new(pod: PodOnNode) -> Self {
        Self { pod, present: true, attempts: 0, state: State::Waiting }
    }

    /// Why it is left alone, if it is; a pod with a request out is not.
    pub(crate) fn skip(&self, settings: &Settings, now: Millis) -> Option<Skip> {
        self.pod.skip(settings.daemon_sets, now)
    }

    /// Whether it is on the node and has to go.
    pub(crate) fn waits(&self, settings: &Settings, now: Millis) -> bool {
        self.present && self.skip(settings, now).is_none()
    }

    /// Whether it is being deleted already, as far as we know.
    pub(crate) fn is_leaving(&self) -> bool {
        self.pod.deletion.is_some() || matches!(self.state, State::Accepted { .. })
    }

    /// What to ask for now. `first` is the group whose turn it is.
    pub(crate) fn decide(&self, settings: &Settings, first: Group, now: Millis) -> Option<Ask> {
        if !self.waits(settings, now) || matches!(self.state, State::Asked { .. }) {
            return None;
        }
        if self.is_leaving() {
            let asked = self.overstays(settings).then(|| self.delete(settings, now));
            return asked.flatten();
        }
        if settings.switch(&self.pod).is_some_and(|switch| now >= switch) {
            return self.delete(settings, now);
        }
        let held = self.pod.do_not_disrupt || self.pod.group() != first;
        let early = self.retry().is_some_and(|(_, next)| now < next);
        (!held && !early).then(|| self.evict(settings, now))
    }

    /// When [`Self::decide`] has something without any further news: `now` when it has already, `None` when only news can change it.
    pub(crate) fn changes_at(&self, settings: &Settings, first: Group, now: Millis) -> Option<Millis> {
        if self.decide(settings, first, now).is_some() {
            return Some(now);
        }
        if !self.waits(settings, now) || matches!(self.state, State::Asked { .. }) {
            return None;
        }
        if self.is_leaving() {
            return self.leaving_changes_at(settings);
        }
        let held = self.pod.do_not_disrupt || self.pod.group() != first;
        let retry = self.retry().filter(|(how, _)| *how == How::Delete || !held);
        let switch = settings.switch(&self.pod).filter(|switch| now < *switch);
        let moments = [switch, retry.map(|(_, next)| next)];
        moments.into_iter().flatten().min()
    }

    fn leaving_changes_at(&self, settings: &Settings) -> Option<Millis> {
        let shown = match (self.state, self.pod.deletion) {
            (State::Accepted { at, .. }, None) => Some(at + SHOWS_WITHIN),
            _ => None,
        };
        let stuck = self.pod.deletion.map(|end| end + STUCK_AFTER);
        let retry = self.retry().filter(|_| self.overstays(settings));
        let moments = [shown, stuck, retry.map(|(_, next)| next)];
        moments.into_iter().flatten().min()
    }

    /// The request that was refused, and when it may be repeated.
    fn retry(&self) -> Option<(How, Millis)> {
        match self.state {
            State::Refused { how, next, .. } => Some((how, next)),
            _ => None,
        }
    }

    /// Its deletion would end after the deadline, and nobody has asked for a shorter one.
    fn overstays(&self, settings: &Settings) -> bool {
        let (Some(deadline), Some(end)) = (settings.deadline, self.pod.deletion) else {
            return false;
        };
        let asked = match self.state {
            State::Accepted { within, how: How::Delete, .. } => within,
            _ => None,
        };
        end > deadline && asked.is_none_or(|within| within > deadline)
    }

    fn evict(&self, settings: &Settings, now: Millis) -> Ask {
        let left = settings.seconds_left(now);
        Ask { how: How::Evict, grace: left.filter(|left| *left < self.pod.grace_seconds), within: settings.deadline }
    }

    /// A deletion within what is left, unless one was refused a moment ago.
    fn delete(&self, settings: &Settings, now: Millis) -> Option<Ask> {
        if matches!(self.state, State::Refused { how: How::Delete, next, .. } if now < next) {
            return None;
        }
        let left = settings.seconds_left(now)?;
        Some(Ask { how: How::Delete, grace: Some(left.min(self.pod.grace_seconds).max(1)), within: settings.deadline })
    }

    /// Takes in an answer; only the answer to an outstanding request counts.
    pub(crate) fn reply(&mut self, settings: &Settings, reply: Reply, now: Millis) {
        let State::Asked { how, within } = self.state else {
            return;
        };
        let Some(why) = reply.refusal() else {
            self.present &= reply == Reply::Accepted;
            self.state = match reply {
                Reply::Accepted => State::Accepted { how, at: now, within },
                _ => State::Waiting,
            };
            return;
        };
        self.attempts = self.attempts.saturating_add(1);
        let next = self.retry_at(settings, reply, how, now);
        self.state = State::Refused { how, why, next };
    }

    /// After a refused eviction never later than the switch; after a refused deletion within half of what is left.
    fn retry_at(&self, settings: &Settings, reply: Reply, how: How, now: Millis) -> Millis {
        let mut wait = match reply {
            Reply::Invalid => settings.retry_max,
            _ => backoff::wait(settings, &self.pod.uid, self.attempts),
        };
        if let Reply::Blocked { retry_after: Some(asked) } = reply {
            wait = wait.max(asked);
        }
        match (how, settings.switch(&self.pod), settings.deadline) {
            (How::Evict, Some(switch), _) => (now + wait).min(switch.max(now)),
            (How::Delete, _, Some(deadline)) if now < deadline => {
                now + wait.min(deadline.since(now) / 2).max(settings.retry_min)
            }
            _ => now + wait,
        }
    }

    /// The answer is lost; whether the request arrived shows in the next list.
    pub(crate) fn lose_answer(&mut self) {
        if let State::Asked { how, within } = self.state {
            self.state = State::Unheard { how, within };
        }
    }

    /// Takes in what a list says of the pod.
    pub(crate) fn seen(&mut self, pod: PodOnNode, now: Millis) {
        let newly = pod.deletion.is_some() && self.pod.deletion.is_none();
        self.state = match self.state {
            State::Unheard { how, within } if newly => State::Accepted { how, at: now, within },
            State::Unheard { .. } => State::Waiting,
            State::Refused { how, why: Refusal::Unreachable, .. } if newly => {
                State::Accepted { how, at: now, within: None }
            }
            State::Accepted { at, .. } if pod.deletion.is_none() && now >= at + SHOWS_WITHIN => State::Waiting,
            other => other,
        };
        self.present = true;
        self.pod = pod;
    }

    /// How it ended, if it has.
    pub(crate) fn outcome(&self, settings: &Settings, now: Millis) -> Option<Outcome> {
        match self.state {
            State::Accepted { how, .. } => Some(how.outcome()),
            State::Unheard { how, .. } if !self.present => Some(how.outcome()),
            _ if !self.present => Some(Outcome::Gone),
            _ => self.skip(settings, now).map(Outcome::Left).or_else(|| {
                let late = settings.deadline.is_some_and(|deadline| now >= deadline);
                late.then_some(Outcome::Left(Skip::Deadline))
            }),
        }
    }

    /// Adds itself to the figures.
    pub(crate) fn count(&self, settings: &Settings, now: Millis, sum: &mut Progress) {
        match self.state {
            State::Accepted { how: How::Evict, .. } => sum.evicted += 1,
            State::Accepted { how: How::Delete, .. } => sum.forced += 1,
            _ => {}
        }
        if !self.present {
            return;
        }
        if self.skip(settings, now).is_some() {
            sum.skipped += 1;
        } else if self.is_leaving() {
            sum.leaving += 1;
        } else if matches!(self.state, State::Refused { .. }) {
            sum.blocked += 1;
        } else {
            sum.waiting += 1;
        }
    }
}
