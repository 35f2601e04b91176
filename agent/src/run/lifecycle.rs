//! What the agent decides while it runs: facts and answers come in with the moment, steps to carry out come out. No clock, no I/O.
//!
//! It is level-triggered: each step compares what the Node should say with what it says, so a lost write, a restart and someone
//! else's edit are all the same case. Each duty has its state and its rules in a file of its own; here they meet: an [`Input`] goes
//! to the duties that it concerns, and what they want to say or do becomes [`AgentAction`]s.
//!
//! A new duty adds a field, a line in [`Lifecycle::take`], and one where it speaks: [`Lifecycle::statements`] for conditions,
//! [`Lifecycle::tidings`] for events, [`Lifecycle::wishes`] for the Node's metadata, [`Lifecycle::step`] for acts of its own.

mod agent_state;
mod conditions;
mod drain_owner;
mod drain_requests;
mod events;
mod metadata;
mod node_drain;
mod node_patch;
mod notices;
mod scaling;
mod service;
mod shutdown;
mod timeline;
mod volumes;

use drain::{Action, FirstOwner, Millis, PodOnNode, Reply};
use machine::agent::AgentSettings;
use machine::agent::gates::GateSettings;
use machine::agent::notices::LifecycleHook;
use serde_json::Value;

use crate::bootstrap::state::BootstrapState;
use crate::clock::WallOffset;
use crate::cluster::Node;
use crate::gates::{Gates, ProbeResult};
use crate::health::{self, CheckRun, Health, HealthReport, HealthSample, check};
use crate::journal::Journal;
use crate::notices::{NoticeReading, Reachability};
use crate::report::{self, ConditionUpdate, NodeEvent, WantedMarks};

use agent_state::{AgentState, ObservedNode};
use conditions::Conditions;
use drain_requests::DrainRequests;
use events::Events;
use metadata::Metadata;
use node_drain::NodeDrain;
use node_patch::{NodePatch, NodePatcher};
use notices::Notices;
use scaling::Scaling;
use service::Service;
use shutdown::Shutdown;
use timeline::TimelineMark;
use volumes::Volumes;

/// A step to carry out. What came of it returns as an [`Input`].
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAction {
    /// Write the journal, and only then go on to the acts behind this one.
    Save,
    /// Follow the pods of this node; each list comes as [`Input::Pods`].
    FollowPods,
    /// Merge this into the Node: [`Input::NodeWritten`].
    PatchNode(Value),
    /// Merge this into the Node's status: [`Input::StatusWritten`].
    PatchStatus(Value),
    /// Create this event: [`Input::Told`].
    Tell(NodeEvent),
    /// Carry out a request of the drain: [`Input::Reply`], or [`Input::Pods`] for a list.
    Drain(Action),
    /// Read the Node, from where all writes are seen, after taking the controller's mark off it where that is due: [`Input::NodeRead`].
    ReadNode(FirstOwner),
    /// Look whether the volume's VolumeAttachment is still there: [`Input::Detached`] if it is not.
    LookAttached {
        /// As the Node names it.
        volume: String,
        /// The VolumeAttachment's name.
        attachment: String,
    },
    /// Let the shutdown of the operating system go on.
    Yield,
    /// Tell the Auto Scaling group that the machine may go: [`Input::Completed`].
    Complete(LifecycleHook),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The API server has been heard: our Node, or that there is none yet.
    Node(Option<Node>),
    /// The Node, by a reading that began at this moment; `None` came to nothing.
    NodeRead(Millis, Option<Node>),
    /// All pods of this node.
    Pods(Vec<PodOnNode>),
    /// What was found at a gate.
    Gate(ProbeResult),
    /// How the machine was found at a look, by the wall's clock.
    Health(HealthSample),
    /// What the agent found without looking for it, such as an API server that does not answer.
    Look(CheckRun),
    /// What bootstrap says.
    Bootstrap(Option<BootstrapState>),
    /// A source of notices says something (again).
    Reading(NoticeReading),
    /// Whether metadata answers.
    Reach(Reachability),
    /// How far the wall clock is ahead of the agent's.
    Wall(WallOffset),
    /// How the start of this node went so far, as the Node's annotation shall have it.
    Timeline(String),
    /// The answer to a request of the drain, by the pod's UID.
    Reply(String, Reply),
    /// The volume of this name is gone from the machine.
    Detached(String),
    /// Whether the Node took the patch.
    NodeWritten(bool),
    /// Whether the Node's status took the patch.
    StatusWritten(bool),
    /// Whether the Auto Scaling group has been reported.
    Completed(bool),
    /// Whether the API server has the event with this key.
    Told(String, bool),
}

/// The agent's state while it runs.
#[derive(Debug)]
pub struct Lifecycle {
    /// Who we are, what the Node says and what the disk remembers: every duty may look.
    known: AgentState,
    /// Whether this node may serve.
    service: Service,
    /// How the machine is.
    health: Health,
    /// What EC2 has announced.
    notices: Notices,
    /// Whether EC2 can announce anything.
    metadata: Metadata,
    /// What someone asks for.
    asked: DrainRequests,
    /// Whether the operating system may go down.
    shutdown: Shutdown,
    /// Whether the Auto Scaling group knows.
    scaling: Scaling,
    /// Emptying the node.
    emptying: NodeDrain,
    /// What stands in the Node's specification and metadata.
    marks: NodePatcher,
    /// The Node's conditions.
    conditions: Conditions,
    /// How the start went.
    course: TimelineMark,
    /// Events for people.
    events: Events,
    /// The conditions that the last step found the Node should have.
    said: Vec<ConditionUpdate>,
}

impl Lifecycle {
    /// Carries on from `journal`.
    #[must_use]
    pub fn new(name: &str, mut journal: Journal, now: Millis) -> Self {
        if let Some(drain) = &mut journal.drain {
            drain.resume(now);
        }
        let emptying = NodeDrain::carried_on(&journal, now);
        Self {
            known: AgentState::new(name, journal),
            service: Service::new(Gates::new(&GateSettings::default(), now)),
            health: Health::default(),
            notices: Notices::default(),
            metadata: Metadata::default(),
            asked: DrainRequests::default(),
            shutdown: Shutdown::default(),
            scaling: Scaling::default(),
            emptying,
            marks: NodePatcher::new(now),
            conditions: Conditions::default(),
            course: TimelineMark::default(),
            events: Events::default(),
            said: Vec::new(),
        }
    }

    /// The memory to write on [`AgentAction::Save`].
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.known.journal
    }

    /// The Node's name, as bootstrap gave it to kubelet.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.known.name
    }

    /// The wall clock, as it differs from ours.
    #[must_use]
    pub fn wall(&self) -> WallOffset {
        self.known.wall
    }

    /// Questions to metadata that had no answer, since the start.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.metadata.failed()
    }

    /// Our Node, if it has been seen.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.known.node()
    }

    /// Until when requests of the drain may be sent.
    #[must_use]
    pub fn polls_until(&self, now: Millis) -> Millis {
        self.emptying.polls_until(now)
    }

    /// What the machine's settings say.
    pub fn configure(&mut self, settings: &AgentSettings) {
        self.notices.configure(settings.notices.clone());
        self.emptying.configure(settings.drain.clone());
    }

    /// Guards the node by these gates, all closed.
    pub fn guard(&mut self, settings: &GateSettings, now: Millis) {
        self.service.use_gates(Gates::new(settings, now));
    }

    /// The gates, and how they stand.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        self.service.gates()
    }

    /// How the machine is, in a line; `None` when nothing is wrong.
    #[must_use]
    pub fn health(&self, now: Millis) -> Option<String> {
        if self.other_agent_owns_health(now) {
            return Some("health conditions are managed by another agent".to_owned());
        }
        self.health.summary(self.known.wall)
    }

    /// The same for those who want to know more.
    #[must_use]
    pub fn wellbeing(&self, now: Millis) -> HealthReport {
        self.health.wellbeing(self.other_agent_owns_health(now), self.known.wall)
    }

    fn other_agent_owns_health(&self, now: Millis) -> bool {
        self.known.node().is_some_and(|node| health::other_agent(node, self.known.wall.wall_time(now)))
    }

    /// Another name, after bootstrap has written it; whatever was known of the old one is forgotten.
    pub fn rename(&mut self, name: &str) {
        self.known.rename(name);
    }

    /// Where things stand, in one line: for systemd's status and, on change, for the log.
    #[must_use]
    pub fn summary(&self) -> String {
        let name = &self.known.name;
        match &self.known.seen {
            ObservedNode::Unheard => format!("waiting for Node {name} from the API server"),
            ObservedNode::Absent => format!("waiting for kubelet to register Node {name}"),
            ObservedNode::Foreign(id) => format!("Node {name} belongs to another instance ({id}), ignoring it"),
            ObservedNode::Ours(_) => {
                self.emptying.summary(&self.known).unwrap_or_else(|| self.service.summary(&self.known))
            }
        }
    }

    /// Takes in something that happened.
    pub fn take(&mut self, input: Input, now: Millis) {
        match input {
            Input::Node(node) => {
                self.known.update_node(node);
                self.asked.read(&mut self.known);
                self.emptying.observe(&self.known, now);
                Volumes::hear(&mut self.known, now);
            }
            Input::NodeRead(began, node) => {
                let node = node.filter(|node| self.known.is_ours(node));
                self.emptying.read(node.as_ref(), began, now);
            }
            Input::Pods(pods) => self.known.with_drain(|drain| drain.pods(now, pods)),
            Input::Reply(uid, reply) => self.known.with_drain(|drain| drain.reply(now, &uid, &reply)),
            Input::Gate(finding) => self.service.found(finding, now),
            Input::Health(sample) => self.health.take(sample, self.known.wall, now),
            Input::Look(look) => self.health.look(look, now),
            Input::Bootstrap(report) => self.service.bootstrap(report, now),
            Input::Timeline(line) => self.course.take(line),
            Input::Reading(reading) => {
                if self.notices.read(&mut self.known, &reading, now) {
                    self.retry_soon(now);
                }
            }
            Input::Reach(reach) => {
                self.metadata.reach(reach, now);
                self.health.look(CheckRun { check: check::NO_IMDS, trouble: self.metadata.problem() }, now);
            }
            Input::Wall(wall) => self.known.wall = wall,
            Input::Detached(volume) => Volumes::detached(&mut self.known, &volume, now),
            Input::NodeWritten(done) => self.marks.written(done, now),
            Input::StatusWritten(done) => self.conditions.written(done, now),
            Input::Completed(done) => self.scaling.completed(&mut self.known, done, now),
            Input::Told(key, done) => self.events.told(&mut self.known, key, done, now),
        }
    }

    /// What to do now.
    #[must_use]
    pub fn step(&mut self, now: Millis) -> Vec<AgentAction> {
        self.notices.pass(&mut self.known, now);
        let order = self.notices.order(&self.known, now);
        if self.emptying.follow(&mut self.known, order, now) {
            self.retry_soon(now);
        }
        let wanted = self.wanted(now);
        notices::sort_marks(&mut self.known, &wanted);
        if self.marks.settled(now) {
            notices::forget_leftover(&mut self.known);
        }
        self.acts(&wanted, now)
    }

    fn acts(&mut self, wanted: &WantedMarks, now: Millis) -> Vec<AgentAction> {
        let mut acts = Vec::new();
        self.service.observe(&self.known, now);
        let wishes = self.node_patches(wanted);
        acts.extend(self.marks.patch(&mut self.known, wishes, now).map(AgentAction::PatchNode));
        let said = self.condition_updates(now);
        acts.extend(self.conditions.patch(&self.known, &said, now).map(AgentAction::PatchStatus));
        self.said = said;
        acts.extend(self.emptying.step(&mut self.known, self.marks.cordoned(), now));
        acts.extend(self.shutdown.yields(&self.known, now).then_some(AgentAction::Yield));
        let hook = self.scaling.completes(&self.known, self.notices.hook(), now);
        acts.extend(hook.map(AgentAction::Complete));
        let tidings = self.node_events(now);
        acts.extend(self.events.next(&self.known, tidings, now).map(AgentAction::Tell));
        if std::mem::take(&mut self.known.dirty) {
            acts.insert(0, AgentAction::Save);
        }
        acts
    }

    /// When to step again if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        let moments = [
            self.marks.poll_timeout(now),
            self.conditions.poll_timeout(now),
            self.events.poll_timeout(now),
            self.emptying.poll_timeout(&self.known, self.marks.cordoned(), now),
            self.service.poll_timeout(now),
            self.notices.poll_timeout(&self.known, now),
            self.shutdown.poll_timeout(&self.known),
            self.scaling.poll_timeout(now),
        ];
        moments.into_iter().flatten().min()
    }

    /// What the Node should be, by all who have a say.
    fn wanted(&self, now: Millis) -> WantedMarks {
        let (emptied, noticed) = (self.emptying.wanted(&self.known), self.notices.wanted(&self.known, now));
        WantedMarks { cordon: emptied.cordon || noticed.cordon, say: emptied.say || noticed.say, ..emptied }
    }

    /// What is missing on the Node beside its conditions.
    fn node_patches(&self, wanted: &WantedMarks) -> Vec<NodePatch> {
        let wall = self.known.wall;
        let missing = self.known.node().and_then(|node| report::wanted_patch(node, wanted, wall));
        let missing = missing.map(|patch| NodePatch { patch, urgent: true });
        let wishes = missing.into_iter().chain(notices::undo(&self.known));
        wishes.chain(self.course.node_patch(&self.known)).collect()
    }

    /// The conditions that the Node should have, as of the last step.
    pub(super) fn published_conditions(&self) -> &[ConditionUpdate] {
        &self.said
    }

    /// The conditions that the Node should have.
    fn condition_updates(&self, now: Millis) -> Vec<ConditionUpdate> {
        let mut said: Vec<ConditionUpdate> = self.service.statement(&self.known).into_iter().collect();
        said.extend(self.notices.statements(&self.known, now));
        said.extend(self.metadata.statement(&self.known, now));
        said.extend(self.asked.condition_update().or_else(|| self.emptying.condition_update(&self.known, now)));
        said.extend(self.known.node().into_iter().flat_map(|node| self.health.statements(node, self.known.wall, now)));
        said
    }

    /// The events that the API server should have.
    fn node_events(&self, now: Millis) -> Vec<NodeEvent> {
        let mut tidings: Vec<NodeEvent> = self.service.tiding(&self.known, now).into_iter().collect();
        tidings.extend(self.notices.tidings(&self.known));
        tidings.extend(self.emptying.node_event(&self.known));
        tidings.extend(self.health.tidings());
        tidings
    }

    /// Something urgent: nothing that is to be written waits for its turn.
    fn retry_soon(&mut self, now: Millis) {
        self.marks.retry_soon(now);
        self.conditions.hurry(now);
        self.events.hurry(now);
    }
}
