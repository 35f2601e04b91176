//! Simulation of one node, one API server, one agent, one controller, and the messages between them. Time advances in small
//! ticks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use drain::{
    ARRIVES, Action, AgentOwnership, Drain, DrainOrder, DrainOrders, Millis, NodeReading, OwnershipStep, PodOnNode,
    Reply, Settings,
};

pub const T0: Millis = Millis(10_000_000);
const TICK: Duration = Duration::from_millis(200);
/// Same values as in `agent/src/run/lifecycle/node_patch.rs` and `controller/src/reconcile/node/drain_owner.rs`.
const BEAT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);

/// A fault, with its duration in seconds.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The agent is stopped at any point; requests that it has sent arrive.
    AgentHangs(u64),
    /// The agent is killed, and restarts after the duration.
    AgentDies(u64),
    ControllerHangs(u64),
    ControllerDies(u64),
    /// The controller's watch is delayed.
    ControllerSeesOld(u64),
    /// The controller considers the agent silent, regardless of its heartbeats.
    ControllerIsImpatient(u64),
    /// The API server rejects the agent's writes to the Node.
    AgentIsRefused(u64),
}

#[derive(Clone, Debug)]
pub struct Script {
    pub faults: Vec<(Millis, Fault)>,
    /// Delays of messages in milliseconds, used one after another and repeated.
    pub delays: Vec<u64>,
    /// Number of refusals of each pod's budget before it allows the eviction.
    pub refusals: Vec<u32>,
    pub deadline: Option<Millis>,
    /// Seconds by which the controller's clock is ahead of the agent's.
    pub skew: i64,
    /// `true` if the agent sent a heartbeat before the drain begins.
    pub agent_signed: bool,
    /// `true` if the agent survives, `false` if the controller survives.
    pub agent_survives: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Agent,
    Controller,
}

#[derive(Clone, Debug, Default)]
struct Node {
    version: u64,
    /// Time of the mark, by the controller's clock.
    mark: Option<Millis>,
    /// Last heartbeat of the agent, by its clock.
    beat: Option<Millis>,
}

impl Node {
    /// Returns the text of the mark.
    fn mark_text(&self) -> Option<String> {
        self.mark.map(|at| at.0.to_string())
    }
}

#[derive(Clone, Debug)]
enum What {
    Ask { uid: String, forced: bool },
    Read { began: Millis },
    TakeBack { began: Millis, mark_text: String },
    Beat { at: Millis },
    Sign { at: Millis, version: u64 },
}

/// A message: request and response together take at most [`ARRIVES`].
#[derive(Clone, Debug)]
struct Message {
    from: Who,
    restarts: u32,
    arrives: Millis,
    answered: Millis,
    what: What,
    /// Response, once the request has arrived.
    answer: Option<Answer>,
}

#[derive(Clone, Debug)]
enum Answer {
    Reply(String, Reply),
    Node { began: Millis, node: Node },
    Written(Option<Node>),
}

/// Common state of agent and controller.
struct Program {
    drain: Drain,
    /// Number of restarts.
    restarts: u32,
    /// Time until which the program is dead.
    up: Millis,
    /// Time until which the program is stopped.
    thaws: Millis,
    inbox: VecDeque<Answer>,
    /// Decided requests that are not sent yet: the time at which each is sent, and the time until which it may be sent.
    outbox: Vec<(Millis, Millis, Action)>,
}

pub struct Simulation {
    now: Millis,
    script: Script,
    sent: usize,
    node: Node,
    /// Earlier versions of the Node, for an old view.
    past: Vec<(Millis, Node)>,
    pods: BTreeMap<String, (PodOnNode, u32)>,
    flying: Vec<Message>,
    agent: Program,
    ownership: AgentOwnership,
    beats: Millis,
    controller: Program,
    view: Node,
    signing: bool,
    sees_old: Millis,
    impatient: Millis,
    refused: Millis,
    /// `true` once no more faults occur.
    calm: bool,
}

impl Program {
    fn new(deadline: Option<Millis>, restarts: u32, up: Millis) -> Self {
        let mut drain = Drain::new(Settings::for_termination(deadline, restarts.into()), T0);
        let mut orders = DrainOrders::default();
        orders.set("test", Some(DrainOrder { id: "o".into(), deadline, ..DrainOrder::default() }));
        drain.follow(&orders);
        Self { drain, restarts, up, thaws: up, inbox: VecDeque::new(), outbox: Vec::new() }
    }

    fn runs(&self, now: Millis) -> bool {
        now >= self.up && now >= self.thaws
    }

    fn observe(&mut self, now: Millis, pods: Vec<PodOnNode>) {
        self.drain.pods(now, pods);
    }
}

impl Simulation {
    pub fn new(script: Script) -> Self {
        let pod = |(index, refusals): (usize, &u32)| {
            let uid = format!("uid-{index}");
            let owner_kind = Some("ReplicaSet".to_owned());
            (uid.clone(), (PodOnNode { uid, owner_kind, grace_seconds: 5, ..PodOnNode::default() }, *refusals))
        };
        let node = Node { beat: Some(T0).filter(|_| script.agent_signed), ..Node::default() };
        Self {
            now: T0,
            sent: 0,
            past: vec![(T0, node.clone())],
            view: node.clone(),
            node,
            pods: script.refusals.iter().enumerate().map(pod).collect(),
            flying: Vec::new(),
            agent: Program::new(script.deadline, 0, T0),
            ownership: AgentOwnership::default(),
            beats: T0,
            controller: Program::new(script.deadline, 0, T0),
            signing: false,
            sees_old: T0,
            impatient: T0,
            refused: T0,
            calm: false,
            script,
        }
    }

    pub fn run_until(&mut self, end: Millis) {
        while self.now < end && !self.is_empty() {
            self.tick();
            self.now = self.now + TICK;
        }
    }

    /// Kills one of the two permanently, and ends all faults of the other.
    pub fn stop_the_other_program(&mut self) {
        self.script.faults.clear();
        self.calm = true;
        for until in [&mut self.sees_old, &mut self.impatient, &mut self.refused] {
            *until = self.now;
        }
        let (survivor, stopped) = match self.script.agent_survives {
            true => (&mut self.agent, &mut self.controller),
            false => (&mut self.controller, &mut self.agent),
        };
        stopped.up = Millis(u64::MAX);
        (survivor.up, survivor.thaws) = (survivor.up.min(self.now), self.now);
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub fn left(&self) -> Vec<&String> {
        self.pods.keys().collect()
    }

    fn tick(&mut self) {
        self.go_wrong();
        self.deliver();
        self.pods.retain(|_, (pod, _)| pod.deletion.is_none_or(|end| end > self.now));
        if self.agent.runs(self.now) {
            self.agent_works();
        }
        if self.controller.runs(self.now) {
            self.controller_works();
        }
        if self.past.last().is_some_and(|(_, node)| node.version != self.node.version) {
            self.past.push((self.now, self.node.clone()));
        }
    }

    fn go_wrong(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.script.faults).into_iter().partition(|(at, _)| *at <= now);
        self.script.faults = later;
        let until = |seconds: u64| now + Duration::from_secs(seconds);
        for (_, fault) in due {
            match fault {
                Fault::AgentHangs(seconds) => self.agent.thaws = self.agent.thaws.max(until(seconds)),
                Fault::AgentDies(seconds) => {
                    self.agent = Program::new(self.script.deadline, self.agent.restarts + 1, until(seconds));
                    self.ownership = AgentOwnership::default();
                    self.beats = self.agent.up;
                }
                Fault::ControllerHangs(seconds) => self.controller.thaws = self.controller.thaws.max(until(seconds)),
                Fault::ControllerDies(seconds) => {
                    self.controller = Program::new(self.script.deadline, self.controller.restarts + 1, until(seconds));
                    (self.view, self.signing) = (Node::default(), false);
                }
                Fault::ControllerSeesOld(seconds) => self.sees_old = until(seconds),
                Fault::ControllerIsImpatient(seconds) => self.impatient = until(seconds),
                Fault::AgentIsRefused(seconds) => self.refused = until(seconds),
            }
        }
    }

    fn delay(&mut self) -> Duration {
        self.sent += 1;
        Duration::from_millis(self.script.delays[self.sent % self.script.delays.len()])
    }

    fn send(&mut self, from: Who, what: What) {
        let there = self.delay().min(ARRIVES);
        let back = self.delay().min(ARRIVES - there);
        let restarts = self.program(from).restarts;
        let (arrives, answered) = (self.now + there, self.now + there + back);
        self.flying.push(Message { from, restarts, arrives, answered, what, answer: None });
    }

    fn program(&mut self, who: Who) -> &mut Program {
        match who {
            Who::Agent => &mut self.agent,
            Who::Controller => &mut self.controller,
        }
    }

    /// Sends a request, and asserts that no other sender has an outstanding one.
    fn ask(&mut self, from: Who, uid: String, forced: bool) {
        let other = |it: &&Message| it.from != from && matches!(it.what, What::Ask { .. });
        let other = self.flying.iter().find(other);
        assert!(other.is_none(), "{from:?} asks for {uid} at {:?} while this is under way: {other:?}", self.now);
        self.send(from, What::Ask { uid, forced });
    }

    fn deliver(&mut self) {
        let now = self.now;
        let mut flying = std::mem::take(&mut self.flying);
        for message in flying.iter_mut().filter(|it| it.answer.is_none() && it.arrives <= now) {
            message.answer = Some(self.arrive(message));
        }
        let (answered, flying): (Vec<_>, Vec<_>) =
            flying.into_iter().partition(|it| it.answer.is_some() && it.answered <= now);
        self.flying = flying;
        for Message { from, restarts, answer, .. } in answered {
            let program = self.program(from);
            program.inbox.extend(answer.filter(|_| program.restarts == restarts));
        }
    }

    fn arrive(&mut self, message: &Message) -> Answer {
        match &message.what {
            What::Ask { uid, forced } => Answer::Reply(uid.clone(), self.end(uid, *forced)),
            What::Read { began } => Answer::Node { began: *began, node: self.node.clone() },
            What::TakeBack { began, mark_text } => {
                if self.node.mark_text().as_ref() == Some(mark_text) && self.now >= self.refused {
                    self.write(|node| node.mark = None);
                }
                Answer::Node { began: *began, node: self.node.clone() }
            }
            What::Beat { at } => {
                let taken = self.now >= self.refused;
                if taken {
                    self.write(|node| node.beat = Some(*at));
                }
                Answer::Written(taken.then(|| self.node.clone()))
            }
            What::Sign { at, version } => {
                let taken = *version == self.node.version;
                if taken {
                    self.write(|node| node.mark = Some(*at));
                }
                Answer::Written(taken.then(|| self.node.clone()))
            }
        }
    }

    fn write(&mut self, change: impl FnOnce(&mut Node)) {
        self.node.version += 1;
        change(&mut self.node);
    }

    fn end(&mut self, uid: &str, forced: bool) -> Reply {
        let Some((pod, refusals)) = self.pods.get_mut(uid) else { return Reply::Gone };
        if !forced && *refusals > 0 {
            *refusals -= 1;
            return Reply::Blocked { retry_after: None, budget: Some(format!("of-{uid}")) };
        }
        pod.deletion.get_or_insert(self.now + pod.grace());
        Reply::Accepted
    }

    fn list(&self) -> Vec<PodOnNode> {
        self.pods.values().map(|(pod, _)| pod.clone()).collect()
    }

    /// Returns the time on the clock of one of them.
    fn clock(&self, who: Who) -> Millis {
        let ahead = if who == Who::Controller { self.script.skew * 1000 } else { 0 };
        Millis(self.now.0.saturating_add_signed(ahead))
    }

    fn agent_works(&mut self) {
        let now = self.clock(Who::Agent);
        while let Some(answer) = self.agent.inbox.pop_front() {
            match answer {
                Answer::Reply(uid, reply) => self.agent.drain.reply(now, &uid, &reply),
                Answer::Node { began, node } => {
                    let mark = node.mark_text();
                    let reading = NodeReading { mark: mark.as_deref(), has_heartbeat: node.beat.is_some() };
                    self.ownership.read(began, now, Some(reading));
                }
                Answer::Written(_) => {}
            }
        }
        if now >= self.beats {
            self.beats = now + BEAT;
            self.send(Who::Agent, What::Beat { at: now });
        }
        let pods = self.list();
        self.agent.observe(now, pods);
        self.send_out(Who::Agent);
        let until = self.ownership.until(now);
        self.agent.drain.hold(until.is_none());
        if until.is_none() && self.agent.drain.has_due_requests(now) {
            match self.ownership.first(now) {
                Some(OwnershipStep::Read) => self.send(Who::Agent, What::Read { began: now }),
                Some(OwnershipStep::RemoveMark(mark_text)) => {
                    self.send(Who::Agent, What::TakeBack { began: now, mark_text })
                }
                None => {}
            }
        }
        self.decide(Who::Agent, until.unwrap_or(now));
    }

    fn controller_works(&mut self) {
        let now = self.clock(Who::Controller);
        while let Some(answer) = self.controller.inbox.pop_front() {
            match answer {
                Answer::Reply(uid, reply) => self.controller.drain.reply(now, &uid, &reply),
                Answer::Written(written) => {
                    self.signing = false;
                    self.sees(written.unwrap_or_default());
                }
                Answer::Node { .. } => {}
            }
        }
        let lag = if self.now < self.sees_old { Duration::from_secs(90) } else { Duration::ZERO };
        let seen = self.past.iter().rfind(|(at, _)| *at + lag <= self.now).map(|(_, node)| node.clone());
        self.sees(seen.unwrap_or_default());
        let pods = self.list();
        self.controller.observe(now, pods);
        self.send_out(Who::Controller);
        let silent = self.view.beat.is_none_or(|beat| now >= beat + SILENCE) || self.now < self.impatient;
        if self.view.mark.is_none() && !silent {
            return;
        }
        let until = self.controller.drain.take_over(now, self.view.mark, self.view.beat.is_some());
        if until.is_none() && !std::mem::replace(&mut self.signing, true) {
            self.send(Who::Controller, What::Sign { at: now, version: self.view.version });
        }
        if let Some(until) = until {
            self.decide(Who::Controller, until);
        }
    }

    fn sees(&mut self, node: Node) {
        if node.version > self.view.version || self.view.version == 0 {
            self.view = node;
        }
    }

    fn decide(&mut self, who: Who, until: Millis) {
        let now = self.clock(who);
        for action in self.program(who).drain.step(now) {
            if action == Action::List {
                let pods = self.list();
                self.program(who).observe(now, pods);
                continue;
            }
            // A decision becomes a request after a delay, and its sender may hang meanwhile.
            let sent = if self.calm { now } else { now + self.delay() };
            self.program(who).outbox.push((sent, until, action));
        }
    }

    fn send_out(&mut self, who: Who) {
        let now = self.clock(who);
        let outbox = std::mem::take(&mut self.program(who).outbox);
        let (due, later): (Vec<_>, Vec<_>) = outbox.into_iter().partition(|(sent, ..)| *sent <= now);
        self.program(who).outbox = later;
        for (_, until, action) in due {
            let (uid, forced) = match action {
                Action::Evict { uid, .. } => (uid, false),
                Action::Delete { uid, .. } => (uid, true),
                Action::List => continue,
            };
            if now < until {
                self.ask(who, uid, forced);
            } else {
                self.program(who).drain.reply(now, &uid, &Reply::Unreachable);
            }
        }
    }
}
