//! The drain itself: which pods it knows, whose turn it is, and what to do next.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::pod::{Group, PodOnNode};
use crate::progress::{Outcome, Progress};
use crate::reply::{Refusal, Reply};
use crate::settings::Settings;
use crate::tracked::{Ask, How, SHOWS_WITHIN, State, Tracked};

/// Something to do. Each pod has at most one request out; its answer comes back through [`Drain::reply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Create a `policy/v1` Eviction with the UID as a precondition.
    Evict {
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        pod: String,
        /// `metadata.uid`, the precondition.
        uid: String,
        /// `deleteOptions.gracePeriodSeconds`; `None` leaves the pod its own.
        grace: Option<u64>,
    },
    /// Delete the pod, whatever its budget says, with the UID as a precondition.
    Delete {
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        pod: String,
        /// `metadata.uid`, the precondition.
        uid: String,
        /// `gracePeriodSeconds`, at least 1.
        grace: u64,
    },
    /// List the node's pods afresh (no cache) and hand them to [`Drain::pods`].
    List,
}

/// The state of one node's drain. Serialise it to carry it over a restart, then call [`Drain::resume`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    settings: Settings,
    pods: BTreeMap<String, Tracked>,
    /// A list has arrived since the start or the restart.
    listed: bool,
    /// A fresh list is wanted.
    relist: bool,
    /// A fresh list was asked for, and has not come.
    listing: bool,
    /// When a fresh list was last asked for.
    relisted: Millis,
    /// The latest `now` seen.
    now: Millis,
}

impl Drain {
    /// A drain that knows no pods yet: [`Self::step`] is empty until the first [`Self::pods`].
    #[must_use]
    pub fn new(settings: Settings, now: Millis) -> Self {
        Self { settings, pods: BTreeMap::new(), listed: false, relist: false, listing: false, relisted: now, now }
    }

    /// The rules it follows.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Moves the deadline, to an earlier moment only; a later one changes nothing.
    pub fn tighten(&mut self, deadline: Millis) {
        let sooner = self.settings.deadline.is_none_or(|current| deadline < current);
        if sooner {
            self.settings.deadline = Some(deadline);
        }
    }

    /// After a restart: answers to requests that were out will never come, so nothing is asked until a fresh list shows what they did.
    pub fn resume(&mut self, now: Millis) {
        self.tick(now);
        (self.listed, self.relist, self.listing) = (false, false, false);
        for tracked in self.pods.values_mut() {
            tracked.lose_answer();
        }
    }

    /// Takes in all pods bound to the node. A pod that is not among them is gone.
    pub fn pods(&mut self, now: Millis, pods: Vec<PodOnNode>) {
        self.tick(now);
        (self.listed, self.relist, self.listing) = (true, false, false);
        for tracked in self.pods.values_mut() {
            tracked.present = false;
        }
        for pod in pods {
            match self.pods.get_mut(&pod.uid) {
                Some(tracked) => tracked.seen(pod, now),
                None => {
                    self.pods.insert(pod.uid.clone(), Tracked::new(pod));
                }
            }
        }
    }

    /// Takes in the answer to a request for the pod with this UID. Unknown pods and answers that nobody waits for change nothing.
    pub fn reply(&mut self, now: Millis, uid: &str, reply: Reply) {
        self.tick(now);
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        // Admission looks at a cache: a pod that was bound a moment ago may be "not found" and run all the same.
        self.relist |= matches!(reply, Reply::Forbidden | Reply::Gone | Reply::Recreated);
        tracked.reply(&self.settings, reply, now);
    }

    /// What to do now. Every request in it counts as sent: its answer, or [`Reply::Unreachable`], must come back.
    #[must_use]
    pub fn step(&mut self, now: Millis) -> Vec<Action> {
        self.tick(now);
        self.relist |= self.doubts(now);
        let mut actions = Vec::new();
        if std::mem::take(&mut self.relist) {
            (self.listing, self.relisted) = (true, now);
            actions.push(Action::List);
        }
        let Some(first) = self.turn() else {
            return actions;
        };
        for tracked in self.pods.values_mut() {
            if let Some(ask) = tracked.decide(&self.settings, first, now) {
                tracked.state = State::Asked { how: ask.how, within: ask.within };
                actions.push(action(&tracked.pod, ask));
            }
        }
        actions
    }

    /// When [`Self::step`] has something to do again if nothing else happens before; `None` waits for news.
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        if self.relist {
            return Some(now);
        }
        let listing = self.listing.then(|| self.relisted + SHOWS_WITHIN);
        let pods = self.turn().and_then(|first| {
            let moments = self.pods.values().filter_map(|tracked| tracked.changes_at(&self.settings, first, now));
            moments.map(|moment| self.not_before_relist(moment, now)).min()
        });
        listing.into_iter().chain(pods).min()
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut sum = Progress::default();
        for tracked in self.pods.values() {
            tracked.count(&self.settings, self.now, &mut sum);
        }
        sum
    }

    /// Whether nothing that has to go is left on the node, by a list that no answer has put in doubt since.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.listed && !self.relist && !self.listing && self.turn().is_none()
    }

    /// Each pod that it ever knew, with how it ended; `None` has not ended. From the deadline on every pod has an outcome.
    pub fn outcomes(&self, now: Millis) -> impl Iterator<Item = (&PodOnNode, Option<Outcome>)> {
        let pods = self.pods.values();
        pods.map(move |tracked| (&tracked.pod, tracked.outcome(&self.settings, now)))
    }

    /// The pods whose last request was refused, with the reason.
    pub fn refusals(&self) -> impl Iterator<Item = (&PodOnNode, Refusal)> {
        self.pods.values().filter_map(|tracked| match tracked.state {
            State::Refused { why, .. } if tracked.present => Some((&tracked.pod, why)),
            _ => None,
        })
    }

    /// The first group that still has pods to go.
    fn turn(&self) -> Option<Group> {
        let waiting = self.pods.values().filter(|tracked| tracked.waits(&self.settings, self.now));
        waiting.map(|tracked| tracked.pod.group()).min().filter(|_| self.listed)
    }

    /// Whether a list that was asked for does not come, or one does not show what was accepted long ago.
    fn doubts(&self, now: Millis) -> bool {
        let unseen = |tracked: &Tracked| {
            let shown = !tracked.present || tracked.pod.deletion.is_some();
            !shown && matches!(tracked.state, State::Accepted { at, .. } if now >= at + SHOWS_WITHIN)
        };
        let waited = now >= self.relisted + SHOWS_WITHIN;
        waited && self.listed && (self.listing || self.pods.values().any(unseen))
    }

    /// A moment that has passed can only be the wait for an accepted request to show.
    fn not_before_relist(&self, moment: Millis, now: Millis) -> Millis {
        if moment < now { (self.relisted + SHOWS_WITHIN).max(now) } else { moment }
    }

    fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }
}

fn action(pod: &PodOnNode, ask: Ask) -> Action {
    let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
    match ask.how {
        How::Evict => Action::Evict { namespace, pod: name, uid, grace: ask.grace },
        How::Delete => Action::Delete { namespace, pod: name, uid, grace: ask.grace.unwrap_or(1) },
    }
}
