//! The drain itself: which pods it knows, whose turn it is, and what to do next.

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
    pub(crate) settings: Settings,
    pub(crate) pods: BTreeMap<String, TrackedPod>,
    #[serde(default)]
    budgets: Budgets,
    #[serde(default)]
    pub(crate) volumes: Volumes,
    #[serde(default)]
    pub(crate) started: Millis,
    /// Since when the node has been cordoned and out of load balancers.
    #[serde(default)]
    closed: Option<Millis>,
    /// It was called off: nothing more is asked.
    #[serde(default)]
    withdrawn: bool,
    /// Somebody else may be asking: nothing is asked for now.
    #[serde(default)]
    held: bool,
    /// For the same reason nothing is asked before this moment; for a controller, which keeps nothing over its own end.
    #[serde(skip)]
    pub(crate) quiet: Option<Millis>,
    /// This controller has signed for it on the node.
    #[serde(skip)]
    pub(crate) signed: bool,
    /// A list has arrived since the start or the restart.
    listed: bool,
    /// A fresh list is wanted.
    relist: bool,
    /// A fresh list was asked for, and has not come.
    listing: bool,
    /// When a fresh list was last asked for.
    relisted: Millis,
    /// The latest `now` seen.
    pub(crate) now: Millis,
}

impl Drain {
    /// A drain that knows no pods yet: [`Self::step`] is empty until the first [`Self::pods`].
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

    /// The rules it follows.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When it began.
    #[must_use]
    pub fn started(&self) -> Millis {
        self.started
    }

    /// Moves the deadline, to an earlier moment only; a later one changes nothing.
    pub fn tighten(&mut self, deadline: Millis) {
        let sooner = self.settings.deadline.is_none_or(|current| deadline < current);
        if sooner {
            self.settings.deadline = Some(deadline);
        }
    }

    /// Goes on by these rules, but for what its requests say of deadline and DaemonSets.
    pub fn govern(&mut self, rules: Settings) {
        let (deadline, daemon_sets) = (self.settings.deadline, self.settings.daemon_sets);
        self.settings = Settings { deadline, daemon_sets, ..rules };
    }

    /// Follows these requests from now on. Without any it is called off: nothing more is asked of anyone, and who was asked leaves.
    pub fn follow(&mut self, orders: &DrainOrders) {
        (self.settings.deadline, self.settings.daemon_sets) = (orders.deadline(), orders.daemon_sets());
        self.withdrawn = orders.is_empty();
    }

    /// Whether it was called off.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// The node is cordoned and out of load balancers; the lead begins with the first call.
    pub fn closed(&mut self, now: Millis) {
        self.tick(now);
        self.closed.get_or_insert(now);
    }

    /// Whether requests wait until someone else is known not to make any.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether something is to be asked for of a pod now, be it held or not.
    #[must_use]
    pub fn wants(&self, now: Millis) -> bool {
        self.turn(now).is_some_and(|turn| !turn.choose(self.pods.values()).is_empty())
    }

    pub(crate) fn is_quiet(&self, now: Millis) -> bool {
        self.held || self.quiet.is_some_and(|quiet| now < quiet)
    }

    /// After a while in which nothing was heard: what is known may be old, so nothing is asked before a fresh list, which is asked for.
    pub fn doubt(&mut self, now: Millis) {
        self.resume(now);
        self.relist = true;
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
                Some(tracked) => tracked.listed(pod, now),
                None => {
                    self.pods.insert(pod.uid.clone(), TrackedPod::new(pod, now));
                }
            }
        }
        self.look_empty(now);
    }

    /// Takes in the names of the volumes that are attached to the node.
    pub fn attached(&mut self, now: Millis, volumes: Vec<String>) {
        self.tick(now);
        self.volumes.attached = volumes;
    }

    /// The volumes that were taken in last.
    #[must_use]
    pub fn volumes(&self) -> &[String] {
        &self.volumes.attached
    }

    /// Takes in the answer to a request for the pod with this UID. Unknown pods and answers that nobody waits for change nothing.
    pub fn reply(&mut self, now: Millis, uid: &str, reply: &Reply) {
        self.tick(now);
        let Some(tracked) = self.pods.get_mut(uid) else {
            return;
        };
        // Admission looks at a cache: a pod that was bound a moment ago may be "not found" and run all the same.
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
        for (uid, ask) in self.due(now) {
            if let Some(tracked) = self.pods.get_mut(&uid) {
                tracked.state = PodState::Asked { how: ask.how, within: ask.within };
                actions.push(action(&tracked.pod, ask));
            }
        }
        self.look_empty(now);
        actions
    }

    /// When [`Self::step`] has something to do again if nothing else happens before; `None` waits for news.
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

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut sum = Progress::default();
        for tracked in self.pods.values() {
            sum.add(tracked, &self.settings, self.now);
        }
        sum
    }

    /// Whether nothing that has to go is left on the node, by a list that no answer has put in doubt since, and its volumes are detached
    /// or have had their time.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_empty() && (!self.detaches() || self.detached_by().is_some_and(|by| self.now >= by))
    }

    /// Whether no pod that has to go is left, by a list that no answer has put in doubt since.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed && !self.relist && !self.listing && !self.pods.values().any(|tracked| self.waits(tracked))
    }

    /// Whether volumes are attached that no pod has use for, and the drain waits for such.
    #[must_use]
    pub fn detaches(&self) -> bool {
        let stay = |tracked: &&TrackedPod| tracked.present && !tracked.pod.terminal;
        let claims = self.pods.values().filter(stay).map(|tracked| tracked.pod.claims);
        !self.settings.detach.is_zero() && self.volumes.exceed(claims.fold(0, u32::saturating_add))
    }

    /// Each pod that it ever knew, with how it ended; `None` has not ended. From the deadline on every pod has an outcome.
    pub fn outcomes(&self, now: Millis) -> impl Iterator<Item = (&PodOnNode, Option<PodOutcome>)> {
        let pods = self.pods.values();
        pods.map(move |tracked| (&tracked.pod, tracked.outcome(&self.settings, now)))
    }

    /// The pods whose last request was refused.
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

    /// The requests that are due at `now`.
    fn due(&self, now: Millis) -> Vec<(String, EvictionAttempt)> {
        self.turn(now).filter(|_| !self.is_quiet(now)).map(|turn| turn.choose(self.pods.values())).unwrap_or_default()
    }

    /// Whose turn it is; nobody's before the first list and after the withdrawal.
    fn turn(&self, now: Millis) -> Option<StepContext<'_>> {
        if !self.listed || self.withdrawn {
            return None;
        }
        let open = self.closed.unwrap_or(self.started + self.settings.patience);
        let moments = Moments { started: self.started, open, relisted: self.relisted, now };
        StepContext::new(&self.settings, &self.budgets, self.pods.values(), moments)
    }

    /// Whether a list that was asked for does not come, or one does not show what was accepted long ago.
    fn doubts(&self, now: Millis) -> bool {
        let unseen = |tracked: &TrackedPod| {
            let shown = !tracked.present || tracked.pod.deletion.is_some();
            !shown && matches!(tracked.state, PodState::Accepted { at, .. } if now >= at + SHOWS_WITHIN)
        };
        let waited = now >= self.relisted + SHOWS_WITHIN;
        waited && (self.listing || self.listed && self.pods.values().any(unseen))
    }

    /// Remembers since when the node has been empty.
    fn look_empty(&mut self, now: Millis) {
        let empty = self.is_empty();
        self.volumes.emptied = self.volumes.emptied.or(Some(now)).filter(|_| empty);
    }

    /// Volumes are waited for until then.
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
