//! State of a drain: its pods, and the next requests.

mod hold;
mod pod_list;
mod selection;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::drain_owner::{MARK_HOLDS, QUIET};
use crate::eviction::budget::Budgets;
use crate::eviction::reply::{Refused, Reply};
use crate::moment::Millis;
use crate::order::DrainOrders;
use crate::pod::{PodOnNode, PodOutcome};
use crate::progress::{DrainReport, Progress};
use crate::settings::Settings;
use crate::step_context::StepTimes;
use crate::tracked_pod::{EvictionAttempt, PodState, RemovalMethod, SHOWS_WITHIN, TrackedPod};
use hold::Hold;
use pod_list::PodList;
use selection::Selection;
use volumes::Volumes;

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
    settings: Settings,
    pods: BTreeMap<String, TrackedPod>,
    #[serde(default)]
    budgets: Budgets,
    #[serde(default)]
    volumes: Volumes,
    #[serde(default)]
    started: Millis,
    /// Time at which a pod that had to leave last left or began to leave.
    #[serde(default)]
    progressed: Millis,
    /// Time since which the node is cordoned and out of load balancers.
    #[serde(default)]
    closed: Option<Millis>,
    /// `true` if the drain is withdrawn: it sends no more requests.
    #[serde(default)]
    withdrawn: bool,
    #[serde(rename = "held", default)]
    hold: Hold,
    /// `true` if this controller has written its mark to the node.
    #[serde(skip)]
    signed: bool,
    #[serde(flatten)]
    list: PodList,
    /// Latest `now` of any call.
    now: Millis,
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
            progressed: now,
            closed: None,
            withdrawn: false,
            hold: Hold::Released,
            signed: false,
            list: PodList::new(now),
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
    pub fn set_rules(&mut self, rules: Settings) {
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
    pub fn mark_closed(&mut self, now: Millis) {
        self.tick(now);
        self.closed.get_or_insert(now);
    }

    /// Sets whether requests wait until the other drain owner is known to send none.
    pub fn hold(&mut self, held: bool) {
        match (held, self.hold) {
            (true, _) => self.hold = Hold::Agent,
            (false, Hold::Agent) => self.hold = Hold::Released,
            (false, Hold::Released | Hold::Controller(_)) => {}
        }
    }

    /// Returns the time until which the controller may evict pods with the mark that it wrote at `signed`. `None` requests that
    /// the controller writes a mark first. `agent` reports that the node ever had a heartbeat of an agent.
    pub fn take_over(&mut self, now: Millis, signed: Option<Millis>, agent: bool) -> Option<Millis> {
        let Some(signed) = signed else {
            (self.hold, self.signed) = (Hold::Released, true);
            return None;
        };
        if self.hold.until().is_none() {
            self.hold = Hold::Controller(now + if agent { QUIET } else { Duration::ZERO });
        }
        let until = signed + MARK_HOLDS;
        let holds = self.signed && signed <= now && now < until;
        let waits = !self.has_due_requests(now) || self.hold.is_active(now);
        self.signed |= !holds && !waits;
        (holds || waits).then_some(until)
    }

    /// Records that the controller writes a mark on its own initiative. A mark that the controller finds without having written
    /// one belongs to another controller, with another clock.
    pub fn sign(&mut self) {
        self.signed = true;
    }

    /// Reports whether a request for any pod is due now, even if requests are on hold.
    #[must_use]
    pub fn has_due_requests(&self, now: Millis) -> bool {
        self.selection(now).is_some_and(|selection| !selection.attempts().is_empty())
    }

    /// Marks the known state as outdated after a gap without updates: no request is sent before a new list, which is requested.
    pub fn mark_outdated(&mut self, now: Millis) {
        self.resume(now);
        self.list.need();
    }

    /// Continues after a restart. Responses to outstanding requests will never arrive, so no request is sent until a new list
    /// shows their effect.
    pub fn resume(&mut self, now: Millis) {
        self.tick(now);
        self.list.reset();
        for tracked in self.pods.values_mut() {
            tracked.lose_response();
        }
    }

    /// Updates all pods bound to the node. A pod that is missing in the list is gone.
    pub fn pods(&mut self, now: Millis, pods: Vec<PodOnNode>) {
        self.tick(now);
        self.list.receive();
        let staying = self.staying();
        for tracked in self.pods.values_mut() {
            tracked.present = false;
        }
        for pod in pods {
            match self.pods.get_mut(&pod.uid) {
                Some(tracked) => tracked.update(pod, now),
                None => {
                    self.pods.insert(pod.uid.clone(), TrackedPod::new(pod, now));
                }
            }
        }
        if !staying.is_subset(&self.staying()) {
            self.progressed = now;
        }
        self.record_empty(now);
    }

    /// Returns the UIDs of the pods that must leave and whose deletion has not begun.
    fn staying(&self) -> BTreeSet<String> {
        let stays =
            |tracked: &TrackedPod| tracked.pod.deletion.is_none() && tracked.must_leave(&self.settings, self.now);
        self.pods.iter().filter(|(_, tracked)| stays(tracked)).map(|(uid, _)| uid.clone()).collect()
    }

    /// Records that the drain waits on purpose before it begins: the time of [`Self::without_progress`] begins again.
    pub fn postpone(&mut self, now: Millis) {
        self.tick(now);
        self.progressed = self.now;
    }

    /// Returns the time since which no pod that must leave has left or begun to leave.
    #[must_use]
    pub fn without_progress(&self, now: Millis) -> Duration {
        now.since(self.progressed)
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
        if matches!(reply, Reply::Forbidden | Reply::Gone | Reply::Recreated) {
            self.list.need();
        }
        if !tracked.reply(&self.settings, reply, now) {
            return;
        }
        match (reply, tracked.budget.as_deref()) {
            (Reply::Blocked { budget: Some(_), retry_after }, Some(budget)) => {
                self.budgets.refused(&self.settings, budget, *retry_after, now);
            }
            (Reply::Accepted, Some(budget)) => self.budgets.release(budget, now),
            _ => {}
        }
    }

    /// Returns the current actions. Every request among them counts as sent: its response, or [`Reply::Unreachable`], must
    /// follow.
    #[must_use]
    pub fn step(&mut self, now: Millis) -> Vec<Action> {
        self.tick(now);
        if self.is_list_outdated(now) {
            self.list.need();
        }
        let mut actions = Vec::new();
        if self.list.request(now) {
            actions.push(Action::List);
        }
        for (uid, attempt) in self.due(now) {
            if let Some(tracked) = self.pods.get_mut(&uid) {
                tracked.state = PodState::Requested { method: attempt.method, within: attempt.within };
                actions.push(action(&tracked.pod, attempt));
            }
        }
        self.record_empty(now);
        actions
    }

    /// Returns the time of the next call of [`Self::step`] if no other call precedes it; `None` if only a new input can lead to
    /// an action.
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        if self.list.is_needed() || !self.due(now).is_empty() {
            return Some(now);
        }
        let list = self.list.overdue_at();
        let pods = self.selection(now).and_then(|selection| selection.next_time());
        let joining = self.next_joining(now);
        let hold = self.hold.until().filter(|_| self.has_due_requests(now));
        let volumes = self.volumes.detach_deadline(&self.settings).filter(|_| !self.is_done());
        list.into_iter().chain(pods).chain(joining).chain(hold).chain(volumes).filter(|at| *at > now).min()
    }

    /// Returns the time at which the next pod that a policy leaves on the node must leave after all.
    fn next_joining(&self, now: Millis) -> Option<Millis> {
        let active = self.list.is_known() && !self.withdrawn;
        let joining = self.pods.values().filter_map(|tracked| tracked.joins_at(&self.settings, now));
        joining.min().filter(|_| active)
    }

    /// Returns the progress of the drain.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::from_pods(self.pods.values(), &self.settings, self.now)
    }

    /// Returns the report as of `now`.
    #[must_use]
    pub fn report(&self, now: Millis) -> DrainReport {
        let seconds = now.since(self.started).as_secs();
        let volumes = if self.detaches() { self.volumes.attached.len() } else { 0 };
        DrainReport { seconds, volumes, ..DrainReport::from_pods(self.pods.values(), &self.settings, now) }
    }

    /// Reports whether the deadline has passed, after which the drain may end although pods remain.
    #[must_use]
    pub fn is_late(&self, now: Millis) -> bool {
        self.settings.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Returns the duration of the drain so far.
    #[must_use]
    pub fn lasted(&self, now: Millis) -> Duration {
        now.since(self.started)
    }

    /// Reports whether all pods that must leave have left, and the volumes are detached or have had their time. The list of
    /// pods must not be outdated by a later response.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let deadline = self.volumes.detach_deadline(&self.settings);
        self.is_empty() && (!self.detaches() || deadline.is_some_and(|deadline| self.now >= deadline))
    }

    /// Reports whether no pod that must leave is left, by a list that no later response has made outdated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_current() && !self.pods.values().any(|tracked| tracked.must_leave(&self.settings, self.now))
    }

    /// Reports whether the drain waits for volumes: more are attached than the remaining pods use.
    #[must_use]
    pub fn detaches(&self) -> bool {
        let is_left = |tracked: &&TrackedPod| tracked.present && !tracked.pod.terminal;
        let claims = self.pods.values().filter(is_left).map(|tracked| tracked.pod.claims);
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
                Some(Refused { pod: &tracked.pod, why, budget: tracked.blocking_budget() })
            }
            _ => None,
        })
    }

    /// Returns the requests that are due at `now`.
    fn due(&self, now: Millis) -> Vec<(String, EvictionAttempt)> {
        let selection = self.selection(now).filter(|_| !self.hold.is_active(now));
        selection.map(|selection| selection.attempts()).unwrap_or_default()
    }

    /// Returns the selection of the next requests; `None` before the first list and after the withdrawal.
    fn selection(&self, now: Millis) -> Option<Selection<'_>> {
        if !self.list.is_known() || self.withdrawn {
            return None;
        }
        let open = self.closed.unwrap_or(self.started + self.settings.patience);
        let times = StepTimes { started: self.started, open, relisted: self.list.requested_at(), now };
        Selection::new(&self.settings, &self.budgets, &self.pods, times)
    }

    /// Reports whether a requested list is overdue, or whether a list does not show a request that was accepted long ago.
    fn is_list_outdated(&self, now: Millis) -> bool {
        let unseen = |tracked: &TrackedPod| {
            let shown = !tracked.present || tracked.pod.deletion.is_some();
            !shown && matches!(tracked.state, PodState::Accepted { at, .. } if now >= at + SHOWS_WITHIN)
        };
        let waited = now >= self.list.requested_at() + SHOWS_WITHIN;
        waited && (self.list.is_requested() || self.list.is_known() && self.pods.values().any(unseen))
    }

    /// Records since when the node has been empty.
    fn record_empty(&mut self, now: Millis) {
        let is_empty = self.is_empty();
        self.volumes.record_empty(is_empty, now);
    }

    fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }
}

fn action(pod: &PodOnNode, attempt: EvictionAttempt) -> Action {
    let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
    match attempt.method {
        RemovalMethod::Evict => Action::Evict { namespace, pod: name, uid, grace: attempt.grace },
        RemovalMethod::Delete => Action::Delete { namespace, pod: name, uid, grace: attempt.grace.unwrap_or(1) },
    }
}
