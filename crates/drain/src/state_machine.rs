//! State of a drain: its pods, and the next requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::Budgets;
use crate::moment::Millis;
use crate::order::DrainOrders;
use crate::pod::PodOnNode;
use crate::progress::{PodOutcome, Progress};
use crate::reply::{Refused, Reply};
use crate::settings::Settings;
use crate::step::{Moments, StepContext};
use crate::tracked_pod::{EvictionAttempt, PodState, RemovalMethod, SHOWS_WITHIN, TrackedPod};
use crate::volumes::Volumes;

/// An action of the driver. Each pod has at most one outstanding request; its response is passed to [`Drain::reply`].
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
        /// `deleteOptions.gracePeriodSeconds`; `None` keeps the pod's own.
        grace: Option<u64>,
    },
    /// Delete the pod regardless of its budget, with the UID as a precondition.
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
    /// List the node's pods without a cache, and pass them to [`Drain::pods`].
    List,
}

/// State of one node's drain. The state can be serialised over a restart, followed by a call of [`Drain::resume`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    pub(crate) settings: Settings,
    pub(crate) pods: BTreeMap<String, TrackedPod>,
    #[serde(default)]
    budgets: Budgets,
    #[serde(default)]
    pub(crate) volumes: Volumes,
    #[serde(default)]
    pub(crate) started: Millis,
    /// Time since which the node is cordoned and out of load balancers.
    #[serde(default)]
    closed: Option<Millis>,
    /// `true` if the drain is withdrawn: it sends no more requests.
    #[serde(default)]
    withdrawn: bool,
    /// `true` if another drain owner may send requests: this drain currently sends none.
    #[serde(default)]
    held: bool,
    /// Time before which no request is sent, for the same reason. Only a controller uses it, and a controller keeps no state
    /// over a restart.
    #[serde(skip)]
    pub(crate) quiet: Option<Millis>,
    /// `true` if this controller has written its mark to the node.
    #[serde(skip)]
    pub(crate) signed: bool,
    /// `true` if a list has arrived since the start or the restart.
    listed: bool,
    /// `true` if a new list is needed.
    relist: bool,
    /// `true` if a new list was requested and has not arrived.
    listing: bool,
    /// Time at which a new list was last requested.
    relisted: Millis,
    /// Latest `now` of any call.
    pub(crate) now: Millis,
}

impl Drain {
    /// Creates a drain without pods: [`Self::step`] returns no action until the first [`Self::pods`].
    #[must_use]
    pub fn new(settings: Settings, now: Millis) -> Self {
        Self {
            settings,
            pods: BTreeMap::new(),
            budgets: Budgets::default(),
            volumes: Volumes::default(),
            started: now,
            closed: None,
            withdrawn: false,
            held: false,
            quiet: None,
            signed: false,
            listed: false,
            relist: false,
            listing: false,
            relisted: now,
            now,
        }
    }

    /// Returns the rules of the drain.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the start of the drain.
    #[must_use]
    pub fn started(&self) -> Millis {
        self.started
    }

    /// Moves the deadline to an earlier time; a later time has no effect.
    pub fn tighten(&mut self, deadline: Millis) {
        let sooner = self.settings.deadline.is_none_or(|current| deadline < current);
        if sooner {
            self.settings.deadline = Some(deadline);
        }
    }

    /// Replaces the rules, except for deadline and DaemonSets, which its drain requests define.
    pub fn govern(&mut self, rules: Settings) {
        let (deadline, daemon_sets) = (self.settings.deadline, self.settings.daemon_sets);
        self.settings = Settings { deadline, daemon_sets, ..rules };
    }

    /// Follows these drain requests from now on. Without any request the drain is withdrawn: it evicts no more pods, but pods
    /// that it has already evicted still leave.
    pub fn follow(&mut self, orders: &DrainOrders) {
        (self.settings.deadline, self.settings.daemon_sets) = (orders.deadline(), orders.daemon_sets());
        self.withdrawn = orders.is_empty();
    }

    /// Reports whether the drain was withdrawn.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Records that the node is cordoned and out of load balancers; the lead begins with the first call.
    pub fn closed(&mut self, now: Millis) {
        self.tick(now);
        self.closed.get_or_insert(now);
    }

    /// Sets whether requests wait until the other drain owner is known to send none.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Reports whether a request for any pod is due now, even if requests are on hold.
    #[must_use]
    pub fn wants(&self, now: Millis) -> bool {
        self.turn(now).is_some_and(|turn| !turn.choose(self.pods.values()).is_empty())
    }

    pub(crate) fn is_quiet(&self, now: Millis) -> bool {
        self.held || self.quiet.is_some_and(|quiet| now < quiet)
    }

    /// Marks the known state as outdated after a gap without updates: no request is sent before a new list, which is requested.
    pub fn doubt(&mut self, now: Millis) {
        self.resume(now);
        self.relist = true;
    }

    /// Continues after a restart. Responses to outstanding requests will never arrive, so no request is sent until a new list
    /// shows their effect.
    pub fn resume(&mut self, now: Millis) {
        self.tick(now);
        (self.listed, self.relist, self.listing) = (false, false, false);
        for tracked in self.pods.values_mut() {
            tracked.lose_answer();
        }
    }

    /// Updates all pods bound to the node. A pod that is missing in the list is gone.
    pub fn pods(&mut self, now: Millis, pods: Vec<PodOnNode>) {
        self.tick(now);
        (self.listed, self.relist, self.listing) = (true, false, false);
        for tracked in self.pods.values_mut() {
            tracked.present = false;
        }
        for pod in pods {
            match self.pods.get_mut(&pod.uid) {
                Some(tracked) => tracked.listed(pod, now),
                None => {
                    self.pods.insert(pod.uid.clone(), TrackedPod::new(pod, now));
                }
            }
        }
        self.look_empty(now);
    }

    /// Updates the names of the volumes that are attached to the node.
    pub fn attached(&mut self, now: Millis, volumes: Vec<String>) {
        self.tick(now);
        self.volumes.attached = volumes;
    }

    /// Returns the volumes of the last update.
    #[must_use]
    pub fn volumes(&self) -> &[String] {
        &self.volumes.attached
    }

    /// Processes the response to a request for the pod with this UID. Unknown pods and unexpected responses have no effect.
    pub fn reply(&mut self, now: Millis, uid: &str, reply: &Reply) {
        self.tick(now);
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        // Admission reads from a cache: a pod that was bound very recently may be "not found" and still run.
        self.relist |= matches!(reply, Reply::Forbidden | Reply::Gone | Reply::Recreated);
        if !tracked.reply(&self.settings, reply, now) {
            return;
        }
        match (reply, tracked.budget.as_deref()) {
            (Reply::Blocked { budget: Some(_), retry_after }, Some(budget)) => {
                self.budgets.refused(&self.settings, budget, *retry_after, now);
            }
            (Reply::Accepted, Some(budget)) => self.budgets.gave_way(budget, now),
            _ => {}
        }
    }

    /// Returns the current actions. Every request among them counts as sent: its response, or [`Reply::Unreachable`], must
    /// follow.
    #[must_use]
    pub fn step(&mut self, now: Millis) -> Vec<Action> {
        self.tick(now);
        self.relist |= self.doubts(now);
        let mut actions = Vec::new();
        if std::mem::take(&mut self.relist) {
            (self.listing, self.relisted) = (true, now);
            actions.push(Action::List);
        }
        for (uid, ask) in self.due(now) {
            if let Some(tracked) = self.pods.get_mut(&uid) {
                tracked.state = PodState::Asked { how: ask.how, within: ask.within };
                actions.push(action(&tracked.pod, ask));
            }
        }
        self.look_empty(now);
        actions
    }

    /// Returns the time of the next call of [`Self::step`] if no other call precedes it; `None` if only a new input can lead to
    /// an action.
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        if self.relist || !self.due(now).is_empty() {
            return Some(now);
        }
        let listing = self.listing.then(|| self.relisted + SHOWS_WITHIN);
        let pods = self.turn(now).and_then(|turn| turn.later(self.pods.values()));
        let quiet = self.quiet.filter(|_| self.wants(now));
        let volumes = self.detached_by().filter(|_| !self.is_done());
        listing.into_iter().chain(pods).chain(quiet).chain(volumes).filter(|at| *at > now).min()
    }

    /// Returns the progress of the drain.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut sum = Progress::default();
        for tracked in self.pods.values() {
            sum.add(tracked, &self.settings, self.now);
        }
        sum
    }

    /// Reports whether all pods that must leave have left, and the volumes are detached or have had their time. The list of
    /// pods must not be outdated by a later response.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_empty() && (!self.detaches() || self.detached_by().is_some_and(|by| self.now >= by))
    }

    /// Reports whether no pod that must leave is left, by a list that no later response has made outdated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed && !self.relist && !self.listing && !self.pods.values().any(|tracked| self.waits(tracked))
    }

    /// Reports whether the drain waits for volumes: more are attached than the remaining pods use.
    #[must_use]
    pub fn detaches(&self) -> bool {
        let stay = |tracked: &&TrackedPod| tracked.present && !tracked.pod.terminal;
        let claims = self.pods.values().filter(stay).map(|tracked| tracked.pod.claims);
        !self.settings.detach.is_zero() && self.volumes.exceed(claims.fold(0, u32::saturating_add))
    }

    /// Returns every pod that the drain has seen, with its outcome; `None` without an outcome yet. After the deadline every pod
    /// has an outcome.
    pub fn outcomes(&self, now: Millis) -> impl Iterator<Item = (&PodOnNode, Option<PodOutcome>)> {
        let pods = self.pods.values();
        pods.map(move |tracked| (&tracked.pod, tracked.outcome(&self.settings, now)))
    }

    /// Returns the pods whose last request was refused.
    pub fn refusals(&self) -> impl Iterator<Item = Refused<'_>> {
        self.pods.values().filter_map(|tracked| match tracked.state {
            PodState::Refused { why, .. } if tracked.present => {
                Some(Refused { pod: &tracked.pod, why, budget: tracked.held_by() })
            }
            _ => None,
        })
    }

    fn waits(&self, tracked: &TrackedPod) -> bool {
        tracked.waits(&self.settings, self.now)
    }

    /// Returns the requests that are due at `now`.
    fn due(&self, now: Millis) -> Vec<(String, EvictionAttempt)> {
        self.turn(now).filter(|_| !self.is_quiet(now)).map(|turn| turn.choose(self.pods.values())).unwrap_or_default()
    }

    /// Returns the context of the next requests; `None` before the first list and after the withdrawal.
    fn turn(&self, now: Millis) -> Option<StepContext<'_>> {
        if !self.listed || self.withdrawn {
            return None;
        }
        let open = self.closed.unwrap_or(self.started + self.settings.patience);
        let moments = Moments { started: self.started, open, relisted: self.relisted, now };
        StepContext::new(&self.settings, &self.budgets, self.pods.values(), moments)
    }

    /// Reports whether a requested list is overdue, or whether a list does not show a request that was accepted long ago.
    fn doubts(&self, now: Millis) -> bool {
        let unseen = |tracked: &TrackedPod| {
            let shown = !tracked.present || tracked.pod.deletion.is_some();
            !shown && matches!(tracked.state, PodState::Accepted { at, .. } if now >= at + SHOWS_WITHIN)
        };
        let waited = now >= self.relisted + SHOWS_WITHIN;
        waited && (self.listing || self.listed && self.pods.values().any(unseen))
    }

    /// Records since when the node has been empty.
    fn look_empty(&mut self, now: Millis) {
        let empty = self.is_empty();
        self.volumes.emptied = self.volumes.emptied.or(Some(now)).filter(|_| empty);
    }

    /// Returns the time until which the drain waits for volumes.
    fn detached_by(&self) -> Option<Millis> {
        let patience = self.volumes.emptied? + self.settings.detach;
        Some(self.settings.deadline.map_or(patience, |deadline| patience.min(deadline)))
    }

    fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }
}

fn action(pod: &PodOnNode, ask: EvictionAttempt) -> Action {
    let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
    match ask.how {
        RemovalMethod::Evict => Action::Evict { namespace, pod: name, uid, grace: ask.grace },
        RemovalMethod::Delete => Action::Delete { namespace, pod: name, uid, grace: ask.grace.unwrap_or(1) },
    }
}
