//! Decisions of the running agent: inputs with their time come in, actions come out. No clock, no I/O.
//!
//! The lifecycle is level-triggered: each step compares the desired state of the Node with its current state. A lost write, a
//! restart and an edit by another client are therefore the same case. Each duty has its state and its rules in a file of its
//! own. An [`Input`] is passed to the duties that it concerns, and their results become [`AgentAction`]s.
//!
//! A new duty adds a field, a line in [`Lifecycle::take`], and a line for its output. `Lifecycle::condition_updates` collects
//! conditions, `Lifecycle::node_events` events, and `Lifecycle::node_patches` the metadata of the Node. [`Lifecycle::step`]
//! adds other actions.

mod agent_state;
mod conditions;
mod events;
mod metadata;
mod node_drain;
mod node_patch;
mod notices;
mod scaling;
mod service;
mod shutdown;

use drain::{Action, Millis, OwnershipStep, PodOnNode, Reply};
use machine::agent::AgentSettings;
use machine::agent::gates::GateSettings;
use machine::agent::notices::LifecycleHook;
use serde_json::Value;

use crate::bootstrap::state::BootstrapState;
use crate::cluster::{ConditionUpdate, Node, NodeEvent};
use crate::gates::{Gates, ProbeResult};
use crate::health::{self, CheckRun, Health, HealthReport, HealthSample, check};
use crate::host::clock::WallOffset;
use crate::notices::{NoticeReading, Reachability};
use crate::run::journal::Journal;
use crate::run::report::{self, WantedMarks};

use agent_state::{AgentState, ObservedNode};
use conditions::Conditions;
use events::Events;
use metadata::Metadata;
use node_drain::NodeDrain;
use node_drain::requests::DrainRequests;
use node_drain::volumes::Volumes;
use node_patch::{NodePatch, NodePatcher, TimelineMark};
use notices::Notices;
use scaling::Scaling;
use service::Service;
use shutdown::Shutdown;

/// Action for the agent to carry out. Its result returns as an [`Input`].
#[derive(Clone, Debug, PartialEq)]
pub enum AgentAction {
    /// Write of the journal, before the actions that follow this one.
    Save,
    /// Watch of this node's pods. Each list returns as [`Input::Pods`].
    FollowPods,
    /// Merge patch for the Node: [`Input::NodeWritten`].
    PatchNode(Value),
    /// Merge patch for the Node's status: [`Input::StatusWritten`].
    PatchStatus(Value),
    /// Event to create: [`Input::EventWritten`].
    CreateEvent(NodeEvent),
    /// Request of the drain: [`Input::Reply`], or [`Input::Pods`] for a list.
    Drain(Action),
    /// Consistent read of the Node, after removal of the controller's mark if necessary: [`Input::NodeRead`].
    ReadNode(OwnershipStep),
    /// Check of the volume's VolumeAttachment: [`Input::Detached`] if it no longer exists.
    ReadAttachment {
        /// Name of the volume in the Node's status.
        volume: String,
        /// Name of the VolumeAttachment.
        attachment: String,
    },
    /// Release of the delay lock, so that the shutdown of the operating system continues.
    Yield,
    /// Completion of the lifecycle action of the Auto Scaling group: [`Input::Completed`].
    Complete(LifecycleHook),
}

/// Input of the lifecycle.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Our Node from the watch, or `None` if it does not exist yet.
    Node(Option<Node>),
    /// Result of a read of the Node that began at this time; `None` if it failed.
    NodeRead(Millis, Option<Node>),
    /// All pods of this node.
    Pods(Vec<PodOnNode>),
    /// Result of a gate's probe.
    Gate(ProbeResult),
    /// Result of a health check, with wall clock times.
    Health(HealthSample),
    /// State of a problem that the agent detects outside of health checks, such as an API server that does not answer.
    Check(CheckRun),
    /// State of bootstrap.
    Bootstrap(Option<BootstrapState>),
    /// Notices of one source, also if they are unchanged.
    Reading(NoticeReading),
    /// Reachability of metadata.
    Reach(Reachability),
    /// Offset of the wall clock from the agent's clock.
    Wall(WallOffset),
    /// Timeline of this node's start, as the text of the Node's annotation.
    Timeline(String),
    /// Reply to a request of the drain, with the pod's UID.
    Reply(String, Reply),
    /// Name of a volume that is detached from the instance.
    Detached(String),
    /// Result of the Node's patch: true if the API server accepted it.
    NodeWritten(bool),
    /// Result of the status patch: true if the API server accepted it.
    StatusWritten(bool),
    /// Result of the call to Auto Scaling: true if it succeeded.
    Completed(bool),
    /// Key of an event, and true if the API server has the event.
    EventWritten(String, bool),
}

/// State of the running agent.
#[derive(Debug)]
pub struct Lifecycle {
    /// Identity of the node, its Node object and the journal, for all duties.
    known: AgentState,
    /// Readiness of this node.
    service: Service,
    /// Health of the node.
    health: Health,
    /// Notices of EC2.
    notices: Notices,
    /// Reachability of metadata.
    metadata: Metadata,
    /// Drain requests from the Node's annotation.
    drain_requests: DrainRequests,
    /// Shutdown of the operating system.
    shutdown: Shutdown,
    /// Lifecycle action of the Auto Scaling group.
    scaling: Scaling,
    /// Drain of the node.
    node_drain: NodeDrain,
    /// Specification and metadata of the Node.
    node_patcher: NodePatcher,
    /// Conditions of the Node.
    conditions: Conditions,
    /// Timeline of the start.
    timeline: TimelineMark,
    /// Events of the Node.
    events: Events,
    /// Conditions of the Node according to the last step.
    published: Vec<ConditionUpdate>,
}

impl Lifecycle {
    /// Continues from `journal`.
    #[must_use]
    pub fn new(name: &str, mut journal: Journal, now: Millis) -> Self {
        if let Some(drain) = &mut journal.drain {
            drain.resume(now);
        }
        let node_drain = NodeDrain::carried_on(&journal, now);
        Self {
            known: AgentState::new(name, journal),
            service: Service::new(Gates::new(&GateSettings::default(), now)),
            health: Health::default(),
            notices: Notices::default(),
            metadata: Metadata::default(),
            drain_requests: DrainRequests::default(),
            shutdown: Shutdown::default(),
            scaling: Scaling::default(),
            node_drain,
            node_patcher: NodePatcher::new(now),
            conditions: Conditions::default(),
            timeline: TimelineMark::default(),
            events: Events::default(),
            published: Vec::new(),
        }
    }

    /// Returns the journal to write on [`AgentAction::Save`].
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.known.journal
    }

    /// Returns the Node's name, as bootstrap configured it in kubelet.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.known.name
    }

    /// Returns the offset of the wall clock from the agent's clock.
    #[must_use]
    pub fn wall(&self) -> WallOffset {
        self.known.wall
    }

    /// Returns the number of requests to metadata without an answer since the start.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.metadata.failed()
    }

    /// Returns our Node, if the watch has returned it.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.known.node()
    }

    /// Returns the time until which requests of the drain may be sent.
    #[must_use]
    pub fn polls_until(&self, now: Millis) -> Millis {
        self.node_drain.polls_until(now)
    }

    /// Applies the settings of the instance.
    pub fn configure(&mut self, settings: &AgentSettings) {
        self.notices.configure(settings.notices.clone());
        self.node_drain.configure(settings.drain.clone());
    }

    /// Configures the gates, all closed.
    pub fn guard(&mut self, settings: &GateSettings, now: Millis) {
        self.service.use_gates(Gates::new(settings, now));
    }

    /// Returns the gates with their state.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        self.service.gates()
    }

    /// Returns the health of the node in one line; `None` if there is no problem.
    #[must_use]
    pub fn health(&self, now: Millis) -> Option<String> {
        if self.other_agent_owns_health(now) {
            return Some("health conditions are managed by another agent".to_owned());
        }
        self.health.summary(self.known.wall)
    }

    /// Returns the health of the node in detail.
    #[must_use]
    pub fn health_report(&self, now: Millis) -> HealthReport {
        self.health.report(self.other_agent_owns_health(now), self.known.wall)
    }

    fn other_agent_owns_health(&self, now: Millis) -> bool {
        self.known.node().is_some_and(|node| health::other_agent(node, self.known.wall.wall_time(now)))
    }

    /// Changes the name after bootstrap has written it. Facts about the old name are dropped.
    pub fn rename(&mut self, name: &str) {
        self.known.rename(name);
    }

    /// Returns the state in one line, for systemd's status and, on change, for the log.
    #[must_use]
    pub fn summary(&self) -> String {
        let name = &self.known.name;
        match &self.known.seen {
            ObservedNode::Unknown => format!("waiting for Node {name} from the API server"),
            ObservedNode::Absent => format!("waiting for kubelet to register Node {name}"),
            ObservedNode::Foreign(id) => format!("Node {name} belongs to another instance ({id}), ignoring it"),
            ObservedNode::Ours(_) => {
                self.node_drain.summary(&self.known).unwrap_or_else(|| self.service.summary(&self.known))
            }
        }
    }

    /// Handles an input.
    pub fn take(&mut self, input: Input, now: Millis) {
        match input {
            Input::Node(node) => {
                self.known.update_node(node);
                self.drain_requests.read(&mut self.known);
                self.node_drain.observe(&self.known, now);
                Volumes::observe(&mut self.known, now);
            }
            Input::NodeRead(began, node) => {
                let node = node.filter(|node| self.known.is_ours(node));
                self.node_drain.read(node.as_ref(), began, now);
            }
            Input::Pods(pods) => self.known.with_drain(|drain| drain.pods(now, pods)),
            Input::Reply(uid, reply) => self.known.with_drain(|drain| drain.reply(now, &uid, &reply)),
            Input::Gate(finding) => self.service.found(finding, now),
            Input::Health(sample) => self.health.take(sample, self.known.wall, now),
            Input::Check(run) => self.health.record(run, now),
            Input::Bootstrap(report) => self.service.bootstrap(report, now),
            Input::Timeline(line) => self.timeline.take(line),
            Input::Reading(reading) => {
                if self.notices.read(&mut self.known, &reading, now) {
                    self.retry_soon(now);
                }
            }
            Input::Reach(reach) => {
                self.metadata.reach(reach, now);
                self.health.record(CheckRun { check: check::NO_IMDS, trouble: self.metadata.problem() }, now);
            }
            Input::Wall(wall) => self.known.wall = wall,
            Input::Detached(volume) => Volumes::detached(&mut self.known, &volume, now),
            Input::NodeWritten(done) => self.node_patcher.written(done, now),
            Input::StatusWritten(done) => self.conditions.written(done, now),
            Input::Completed(done) => self.scaling.completed(&mut self.known, done, now),
            Input::EventWritten(key, done) => self.events.written(&mut self.known, key, done, now),
        }
    }

    /// Returns the actions for now.
    #[must_use]
    pub fn step(&mut self, now: Millis) -> Vec<AgentAction> {
        self.notices.pass(&mut self.known, now);
        let order = self.notices.order(&self.known, now);
        if self.node_drain.follow(&mut self.known, order, now) {
            self.retry_soon(now);
        }
        let wanted = self.wanted(now);
        notices::sort_marks(&mut self.known, &wanted);
        if self.node_patcher.settled(now) {
            notices::forget_leftover(&mut self.known);
        }
        self.actions(&wanted, now)
    }

    fn actions(&mut self, wanted: &WantedMarks, now: Millis) -> Vec<AgentAction> {
        let mut actions = Vec::new();
        self.service.observe(&self.known, &self.health, now);
        let patches = self.node_patches(wanted);
        actions.extend(self.node_patcher.patch(&mut self.known, patches, now).map(AgentAction::PatchNode));
        let updates = self.condition_updates(now);
        actions.extend(self.conditions.patch(&self.known, &updates, now).map(AgentAction::PatchStatus));
        self.published = updates;
        actions.extend(self.node_drain.step(&mut self.known, self.node_patcher.cordoned(), now));
        actions.extend(self.shutdown.yields(&self.known, now).then_some(AgentAction::Yield));
        let hook = self.scaling.completes(&self.known, self.notices.hook(), now);
        actions.extend(hook.map(AgentAction::Complete));
        let events = self.node_events(now);
        actions.extend(self.events.next(&self.known, events, now).map(AgentAction::CreateEvent));
        if std::mem::take(&mut self.known.dirty) {
            actions.insert(0, AgentAction::Save);
        }
        actions
    }

    /// Returns the time of the next step if there is no input before.
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        let moments = [
            self.node_patcher.poll_timeout(&self.known, now),
            self.metadata.poll_timeout(now),
            self.conditions.poll_timeout(now),
            self.events.poll_timeout(now),
            self.node_drain.poll_timeout(&self.known, self.node_patcher.cordoned(), now),
            self.service.poll_timeout(now),
            self.notices.poll_timeout(&self.known, now),
            self.shutdown.poll_timeout(&self.known),
            self.scaling.poll_timeout(now),
        ];
        moments.into_iter().flatten().min()
    }

    /// Returns the desired marks of the Node from all duties.
    fn wanted(&self, now: Millis) -> WantedMarks {
        let (drain, notices) = (self.node_drain.wanted(&self.known), self.notices.wanted(&self.known, now));
        WantedMarks { cordon: drain.cordon || notices.cordon, report: drain.report || notices.report, ..drain }
    }

    /// Returns the patches for the Node's specification and metadata.
    fn node_patches(&self, wanted: &WantedMarks) -> Vec<NodePatch> {
        let wall = self.known.wall;
        let missing = self.known.node().and_then(|node| report::wanted_patch(node, wanted, wall));
        let missing = missing.map(|patch| NodePatch { patch, urgent: true });
        let patches = missing.into_iter().chain(notices::undo(&self.known));
        patches.chain(self.timeline.node_patch(&self.known)).collect()
    }

    /// Returns the desired conditions of the Node according to the last step.
    pub(super) fn published_conditions(&self) -> &[ConditionUpdate] {
        &self.published
    }

    /// Returns the desired conditions of the Node.
    fn condition_updates(&self, now: Millis) -> Vec<ConditionUpdate> {
        let mut updates: Vec<ConditionUpdate> = self.service.condition_update(&self.known).into_iter().collect();
        updates.extend(self.notices.condition_updates(&self.known, now));
        updates.extend(self.metadata.condition_update(&self.known, now));
        updates.extend(
            self.drain_requests.condition_update().or_else(|| self.node_drain.condition_update(&self.known, now)),
        );
        updates.extend(
            self.known.node().into_iter().flat_map(|node| self.health.condition_updates(node, self.known.wall, now)),
        );
        updates
    }

    /// Returns the desired events of the Node.
    fn node_events(&self, now: Millis) -> Vec<NodeEvent> {
        let mut events: Vec<NodeEvent> = self.service.event(&self.known, now).into_iter().collect();
        events.extend(self.notices.events(&self.known));
        events.extend(self.node_drain.node_event(&self.known));
        events.extend(self.health.events());
        events
    }

    /// Makes all writes urgent, so that none waits for its interval.
    fn retry_soon(&mut self, now: Millis) {
        self.node_patcher.retry_soon(now);
        self.conditions.hurry(now);
        self.events.hurry(now);
    }
}
