//! What the agent decides while it runs: facts and answers come in with the moment, steps to carry out come out. No clock, no I/O.
//!
//! It is level-triggered: each step compares what the Node should say with what it says, so a lost write, a restart and somebody
//! else's edit are all the same case.

use std::collections::BTreeSet;
use std::time::Duration;

use api::condition;
use drain::{Action, Drain, Millis, PodOnNode, Reply, Settings};
use serde_json::Value;

use super::lane::Lane;
use super::obstacle::Obstacle;
use crate::bootstrap::state::State;
use crate::cluster::Node;
use crate::gates::{self, Facts};
use crate::interruption::{Kind, Notice};
use crate::journal::{Journal, Outcome};
use crate::report::{self, Statement, Tiding};

/// The sign of life is renewed at this age: well before the minute at which it must be.
const HEARTBEAT: Duration = Duration::from_secs(45);
/// For so long what was written last counts, not the Node as seen: the watch needs a moment to show it.
const ECHO: Duration = Duration::from_secs(10);
/// For so long a drain waits for its cordon: evicted pods must not come back, but they must get away in time too.
const CORDON_PATIENCE: Duration = Duration::from_secs(5);

/// A step to carry out. What came of it returns as an [`Input`].
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Write the journal, and only then go on to the acts behind this one.
    Save,
    /// Follow the pods of this node; each list comes as [`Input::Pods`].
    FollowPods,
    /// Merge this into the Node: [`Input::NodeWritten`].
    PatchNode(Value),
    /// Merge this into the Node's status: [`Input::StatusWritten`].
    PatchStatus(Value),
    /// Create this event: [`Input::Told`].
    Tell(Tiding),
    /// Carry out a request of the drain: [`Input::Reply`], or [`Input::Pods`] for a list.
    Drain(Action),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The API server has been heard: our Node, or that there is none yet.
    Node(Option<Node>),
    /// All pods of this node.
    Pods(Vec<PodOnNode>),
    /// Whether a CNI configuration is there.
    Cni(bool),
    /// What bootstrap says.
    Bootstrap(Option<State>),
    /// A notice was read (again).
    Notice(Notice),
    /// The answer to a request of the drain, by the pod's UID.
    Reply(String, Reply),
    /// Whether the Node took the patch.
    NodeWritten(bool),
    /// Whether the Node's status took the patch.
    StatusWritten(bool),
    /// Whether the API server has the event with this key.
    Told(String, bool),
}

/// What is known of our Node.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Unheard,
    Absent,
    /// There is a Node of our name that is another machine's.
    Foreign(String),
    Ours(Box<Node>),
}

/// The agent's state while it runs.
#[derive(Debug)]
pub struct Lifecycle {
    name: String,
    journal: Journal,
    /// The journal differs from its file.
    dirty: bool,
    node: Seen,
    cni: bool,
    bootstrap: Option<State>,
    obstacle: Obstacle,
    node_lane: Lane,
    status_lane: Lane,
    event_lane: Lane,
    /// The status patch that is under way, then the one written last.
    stated: Vec<Statement>,
    stated_at: Option<Millis>,
    heartbeat: Option<Millis>,
    /// The patch under way, or the last one, cordons.
    cordoning: bool,
    /// The API server has taken a patch that cordons.
    cordoned: bool,
    noticed: Option<Millis>,
    follows_pods: bool,
    /// Pods whose eviction the journal knows of: a retry need not wait for the disk.
    asked: BTreeSet<String>,
}

impl Lifecycle {
    /// Carries on from `journal`.
    #[must_use]
    pub fn new(name: &str, mut journal: Journal, now: Millis) -> Self {
        if let Some(drain) = &mut journal.drain {
            drain.resume(now);
        }
        Self {
            name: name.to_owned(),
            noticed: journal.spot.as_ref().map(|_| now),
            journal,
            dirty: false,
            node: Seen::Unheard,
            cni: false,
            bootstrap: None,
            obstacle: Obstacle::default(),
            node_lane: Lane::default(),
            status_lane: Lane::default(),
            event_lane: Lane::default(),
            stated: Vec::new(),
            stated_at: None,
            heartbeat: None,
            cordoning: false,
            cordoned: false,
            follows_pods: false,
            asked: BTreeSet::new(),
        }
    }

    /// The memory to write on [`Act::Save`].
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The Node's name, as bootstrap gave it to kubelet.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Our Node, if it has been seen.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        match &self.node {
            Seen::Ours(node) => Some(node),
            _ => None,
        }
    }

    /// Another name, after bootstrap has written it; whatever was known of the old one is forgotten.
    pub fn rename(&mut self, name: &str) {
        if self.name != name {
            name.clone_into(&mut self.name);
            self.node = Seen::Unheard;
        }
    }

    /// Where things stand, in one line: for systemd's status and, on change, for the log.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.node {
            Seen::Unheard => format!("waiting for the API server to tell of Node {}", self.name),
            Seen::Absent => format!("waiting for kubelet to register Node {}", self.name),
            Seen::Foreign(id) => format!("Node {} is another machine's ({id}): doing nothing", self.name),
            Seen::Ours(_) => match (&self.journal.drain, &self.journal.outcome) {
                (_, Some(outcome)) => format!("drained: {}", outcome.summary),
                (Some(_), None) => "draining for a spot interruption".to_owned(),
                (None, None) => self.ready().map_or_else(String::new, |ready| ready.message),
            },
        }
    }

    /// Takes in something that happened.
    pub fn take(&mut self, input: Input, now: Millis) {
        match input {
            Input::Node(node) => {
                self.node = self.identify(node);
                self.forget_leftover();
            }
            Input::Pods(pods) => self.with_drain(|drain| drain.pods(now, pods)),
            Input::Reply(uid, reply) => self.with_drain(|drain| drain.reply(now, &uid, reply)),
            Input::Cni(there) => self.cni = there,
            Input::Bootstrap(report) => {
                self.obstacle.observe(report.as_ref(), now);
                self.bootstrap = report;
            }
            Input::Notice(notice) => self.notice(notice, now),
            Input::NodeWritten(done) => {
                self.node_lane.ended(done, now);
                let cordoned = done && self.cordoning;
                self.cordoned |= cordoned;
                self.dirty |= cordoned && !self.journal.cordoned;
                self.journal.cordoned |= cordoned;
                self.heartbeat = self.heartbeat.filter(|_| done);
            }
            Input::StatusWritten(done) => {
                self.status_lane.ended(done, now);
                self.stated_at = done.then_some(now);
            }
            Input::Told(key, done) => {
                self.event_lane.ended(done, now);
                if done {
                    self.dirty |= self.journal.told.insert(key);
                }
            }
        }
    }

    /// What to do now.
    #[must_use]
    pub fn step(&mut self, now: Millis) -> Vec<Act> {
        let mut acts = Vec::new();
        acts.extend(self.patch_node(now));
        acts.extend(self.patch_status(now));
        acts.extend(self.drain(now));
        acts.extend(self.tell(now));
        if std::mem::take(&mut self.dirty) {
            acts.insert(0, Act::Save);
        }
        acts
    }

    /// When to step again if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        let drain = self.journal.drain.as_ref().filter(|_| self.may_drain(now));
        let drain = drain.and_then(|drain| drain.poll_timeout(now));
        let lanes = [&self.node_lane, &self.status_lane, &self.event_lane];
        let lanes = lanes.into_iter().filter_map(|lane| lane.opens(now));
        lanes.chain(drain).chain(self.obstacle.poll_timeout(now)).min()
    }

    /// Proves who we are: the Node's providerID must end in our instance.
    fn identify(&self, node: Option<Node>) -> Seen {
        let Some(node) = node else {
            return Seen::Absent;
        };
        let instance = node.spec.provider_id.rsplit('/').next().unwrap_or_default();
        if instance == self.journal.instance && !instance.is_empty() {
            return Seen::Ours(Box::new(node));
        }
        Seen::Foreign(node.spec.provider_id)
    }

    /// Once the Node says nothing more of an interruption before this boot.
    fn forget_leftover(&mut self) {
        let (Seen::Ours(node), Some(leftover)) = (&self.node, self.journal.leftover) else {
            return;
        };
        let said_anew = self.journal.rebalance.is_some();
        if report::undo_patch(node, leftover).is_none() && (said_anew || !is_interrupted(node)) {
            log::info!("nothing is left of the interruption before this boot");
            self.journal.leftover = None;
            self.dirty = true;
        }
    }

    fn with_drain(&mut self, change: impl FnOnce(&mut Drain)) {
        if let Some(drain) = &mut self.journal.drain {
            change(drain);
        }
    }

    /// The first spot notice starts the drain; a later one can only bring its deadline forward.
    fn notice(&mut self, notice: Notice, now: Millis) {
        match (&notice.kind, &mut self.journal.spot) {
            (Kind::Rebalance, _) => {
                self.dirty |= self.journal.rebalance.is_none();
                self.journal.rebalance.get_or_insert(notice);
            }
            (Kind::Spot { .. }, Some(known)) => {
                let sooner = notice.time < known.time;
                if sooner {
                    known.time = notice.time;
                    self.dirty = true;
                    self.with_drain(|drain| drain.tighten(notice.time));
                }
            }
            (Kind::Spot { .. }, None) => {
                // What is left of the last one is this one's now.
                self.journal.cordoned |= self.journal.leftover.take().is_some_and(|before| before.cordoned);
                let seed = report::fnv(&self.journal.instance);
                let settings = Settings::for_notice(notice.time, seed);
                self.journal.drain = Some(Drain::new(settings, now));
                self.journal.spot = Some(notice);
                self.noticed = Some(now);
                self.dirty = true;
                self.node_lane.hurry(now);
                self.status_lane.hurry(now);
                self.event_lane.hurry(now);
            }
        }
    }

    fn patch_node(&mut self, now: Millis) -> Option<Act> {
        let Seen::Ours(node) = &self.node else {
            return None;
        };
        let old = self.heartbeat.is_none_or(|at| now >= at + HEARTBEAT);
        let heartbeat = old.then_some(now);
        let undo = || report::undo_patch(node, self.journal.leftover?);
        // The sign of life comes first: it must not starve if the API server refuses the other.
        let patch = report::node_patch(node, self.journal.spot.as_ref(), heartbeat).or_else(undo)?;
        self.node_lane.take(now).then(|| {
            self.heartbeat = heartbeat.or(self.heartbeat);
            self.cordoning = patch["spec"]["unschedulable"] == true;
            Act::PatchNode(patch)
        })
    }

    fn ready(&self) -> Option<Statement> {
        let node = self.node()?;
        let bootstrap = self.bootstrap.as_ref();
        Some(gates::judge(Facts { node, cni: self.cni, bootstrap }))
    }

    fn patch_status(&mut self, now: Millis) -> Option<Act> {
        let node = self.node()?;
        let (spot, rebalance) = (self.journal.spot.as_ref(), self.journal.rebalance.as_ref());
        let interrupted = report::interrupted(spot, rebalance, self.journal.drain.as_ref())
            .or_else(|| self.journal.leftover.filter(|_| is_interrupted(node)).map(|_| report::interruption_over()));
        let said: Vec<Statement> = self.ready().into_iter().chain(interrupted).collect();
        let fresh = self.stated_at.is_some_and(|at| now < at + ECHO);
        let known =
            if fresh { said.iter().all(|it| self.stated.contains(it)) } else { said.iter().all(|it| stands(node, it)) };
        if known {
            return None;
        }
        let patch = report::status_patch(&said, |it| !has_status(node, it), now);
        self.status_lane.take(now).then(|| {
            self.stated = said;
            Act::PatchStatus(patch)
        })
    }

    fn may_drain(&self, now: Millis) -> bool {
        let Seen::Ours(node) = &self.node else {
            return false;
        };
        let waited = self.noticed.is_some_and(|at| now >= at + CORDON_PATIENCE);
        node.spec.unschedulable || self.cordoned || waited
    }

    fn drain(&mut self, now: Millis) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.journal.drain.is_none() || !self.may_drain(now) {
            return acts;
        }
        if !std::mem::replace(&mut self.follows_pods, true) {
            acts.push(Act::FollowPods);
        }
        let steps = self.journal.drain.as_mut().map(|drain| drain.step(now)).unwrap_or_default();
        for step in &steps {
            self.dirty |= match step {
                Action::Evict { uid, .. } => self.asked.insert(uid.clone()),
                Action::Delete { .. } => true,
                Action::List => false,
            };
        }
        acts.extend(steps.into_iter().map(Act::Drain));
        self.conclude(now);
        acts
    }

    /// Once, when nothing is left to go or the deadline has come.
    fn conclude(&mut self, now: Millis) {
        let Some(drain) = self.journal.drain.as_ref().filter(|_| self.journal.outcome.is_none()) else {
            return;
        };
        let late = drain.settings().deadline.is_some_and(|deadline| now >= deadline);
        if drain.is_done() || late {
            let (complete, summary) = report::outcome(drain, now);
            log::info!(complete = complete; "the drain is over: {summary}");
            self.journal.outcome = Some(Outcome { complete, summary });
            self.dirty = true;
        }
    }

    /// The first event that the API server does not have yet; only once it has answered anything at all.
    fn tell(&mut self, now: Millis) -> Option<Act> {
        if matches!(self.node, Seen::Unheard | Seen::Foreign(_)) {
            return None;
        }
        let tidings = self.tidings(now);
        let untold = tidings.into_iter().find(|it| !self.journal.told.contains(&it.key))?;
        self.event_lane.take(now).then_some(Act::Tell(untold))
    }

    fn tidings(&self, now: Millis) -> Vec<Tiding> {
        let mut tidings: Vec<Tiding> = Vec::new();
        tidings.extend(self.obstacle.tiding(&self.journal.told, now));
        tidings.extend(self.journal.rebalance.as_ref().map(Tiding::rebalance));
        if let Some(notice) = &self.journal.spot {
            if let Kind::Spot { action } = &notice.kind {
                tidings.push(Tiding::spot(notice, action));
            }
            let outcome = self.journal.outcome.as_ref();
            tidings.extend(outcome.map(|it| Tiding::drained(notice, it.complete, &it.summary)));
        }
        tidings
    }
}

fn is_interrupted(node: &Node) -> bool {
    node.condition(condition::INTERRUPTED).is_some_and(|it| it.status == condition::TRUE)
}

/// Whether the Node says exactly this.
fn stands(node: &Node, said: &Statement) -> bool {
    node.condition(said.kind)
        .is_some_and(|it| it.status == said.status && it.reason == said.reason && it.message == said.message)
}

fn has_status(node: &Node, said: &Statement) -> bool {
    node.condition(said.kind).is_some_and(|it| it.status == said.status)
}
