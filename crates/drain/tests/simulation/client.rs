//! Driver of a drain in the simulation. The driver sends requests to the server, returns the responses, and writes the journal
//! as the agent does. The driver restarts at any time, and validates every request.

use std::collections::BTreeSet;
use std::time::Duration;

use drain::{Action, AwaitedCopy, Drain, DrainOrder, DrainOrders, Millis, PodOnNode, PodOutcome, Reply, Settings};

use super::server::{Held, Server};

/// Events outside the drain.
#[derive(Clone, Debug)]
pub enum Event {
    /// The agent is killed and restarts a second later.
    Kill,
    /// New drain request; `None` withdraws the request.
    Order(Option<DrainOrder>),
}

/// The simulation.
pub struct Client {
    pub server: Server,
    pub drain: Drain,
    pub orders: DrainOrders,
    /// All requests, with their time.
    pub log: Vec<(Millis, Action)>,
    /// First time at which no pod was left that must leave.
    pub done: Option<Millis>,
    /// Longest time for which a budget had a free disruption for a ready pod without an eviction.
    pub idle: Duration,
    idle_since: Option<Millis>,
    rules: Settings,
    now: Millis,
    events: Vec<(Millis, Event)>,
    /// Outstanding responses: time, pod, reply.
    out: Vec<(Millis, Option<String>, Reply)>,
    /// Content of the journal, and pods whose first request it contains.
    journal: String,
    journaled: BTreeSet<String>,
    observed: Option<Vec<PodOnNode>>,
    /// Refusals: pod, and the time before which it must not be evicted again.
    resting: Vec<(String, Millis)>,
    down_until: Option<Millis>,
}

impl Client {
    pub fn new(server: Server, rules: Settings, order: DrainOrder, events: Vec<(Millis, Event)>, now: Millis) -> Self {
        let mut orders = DrainOrders::default();
        orders.set("test", Some(order));
        let mut drain = Drain::new(rules.clone(), now);
        drain.follow(&orders);
        drain.mark_closed(now);
        let journal = serde_json::to_string(&drain).expect("a drain serialises");
        Self {
            server,
            drain,
            orders,
            log: Vec::new(),
            done: None,
            idle: Duration::ZERO,
            idle_since: None,
            rules,
            now,
            events,
            out: Vec::new(),
            journal,
            journaled: BTreeSet::new(),
            observed: None,
            resting: Vec::new(),
            down_until: None,
        }
    }

    /// Runs until `end`, from event to event.
    pub fn run(mut self, end: Millis) -> Self {
        let mut events = 0;
        while self.now <= end {
            events += 1;
            assert!(events < 200_000, "it never comes to rest");
            self.happen();
            if self.down_until.is_none() {
                self.work();
            }
            self.watch_idleness();
            let Some(next) = self.next() else { break };
            assert!(next > self.now, "{next:?} is not after {:?}", self.now);
            self.now = next;
        }
        self
    }

    fn next(&self) -> Option<Millis> {
        let asked = self.drain.poll_timeout(self.now).filter(|_| self.down_until.is_none());
        let answers = self.out.iter().map(|(at, ..)| *at);
        let events = self.events.iter().map(|(at, _)| *at);
        let heals = self.server.budgets.iter().flat_map(|budget| budget.disrupted.iter().copied());
        let all =
            answers.chain(events).chain(heals).chain(asked).chain(self.server.next(self.now)).chain(self.down_until);
        all.filter(|at| *at > self.now).min()
    }

    fn happen(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.events).into_iter().partition(|(at, _)| *at <= now);
        self.events = later;
        for (_, event) in due {
            match event {
                Event::Kill => (self.out, self.down_until) = (Vec::new(), Some(now + Duration::from_secs(1))),
                Event::Order(order) => {
                    self.orders.set("test", order);
                    if self.down_until.is_none() {
                        self.drain.follow(&self.orders);
                        self.save();
                    }
                }
            }
        }
        if self.down_until.is_some_and(|up| now >= up) {
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.down_until = None;
        self.drain = serde_json::from_str(&self.journal).expect("a drain is restored");
        // Drain requests have a separate journal, which is written before the drain acts on them.
        self.drain.follow(&self.orders);
        self.drain.resume(self.now);
        (self.observed, self.journaled) = (None, BTreeSet::new());
        self.resting.clear();
    }

    fn work(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.out).into_iter().partition(|(at, ..)| *at <= now);
        self.out = later;
        for (_, uid, reply) in due {
            self.receive(uid, &reply);
        }
        let pods = Some(self.server.list(now)).filter(|_| self.server.stalled(now).is_none());
        if let Some(pods) = pods.filter(|pods| self.observed.as_ref() != Some(pods)) {
            self.drain.pods(now, pods.clone());
            self.observed = Some(pods);
        }
        for action in self.drain.step(now) {
            self.send(action);
        }
        assert!(self.drain.step(now).is_empty(), "the same moment twice");
        assert!(self.drain.poll_timeout(now).is_none_or(|next| next > now));
        if self.drain.is_done() {
            self.done.get_or_insert(now);
        }
    }

    fn receive(&mut self, uid: Option<String>, reply: &Reply) {
        let now = self.now;
        let Some(uid) = uid else {
            self.drain.pods(now, self.server.list(now));
            return;
        };
        if !matches!(reply, Reply::Accepted | Reply::Gone | Reply::Recreated) {
            let asked = match reply {
                Reply::Blocked { retry_after, .. } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            self.resting.push((uid.clone(), now + asked.max(self.rules.retry_min)));
        }
        self.drain.reply(now, &uid, reply);
    }

    fn send(&mut self, action: Action) {
        let now = self.now;
        let (uid, forced) = match &action {
            Action::List => {
                if self.server.stalled(now).is_none() {
                    self.out.push((now + self.server.latency * 2, None, Reply::Accepted));
                }
                return;
            }
            Action::Evict { uid, .. } => (uid.clone(), false),
            Action::Delete { uid, .. } => (uid.clone(), true),
        };
        self.check(&action, &uid, forced);
        if forced || self.journaled.insert(uid.clone()) {
            self.save();
        }
        let (at, reply) = self.server.take(&action, now);
        self.out.push((at, Some(uid), reply));
        self.log.push((now, action));
    }

    /// Writes the journal, before the recorded request is sent.
    fn save(&mut self) {
        self.journal = serde_json::to_string(&self.drain).expect("a drain serialises");
    }

    /// Asserts the rules for every request.
    fn check(&self, action: &Action, uid: &str, forced: bool) {
        let now = self.now;
        let to_pod = self.out.iter().filter(|(_, other, _)| other.as_deref() == Some(uid)).count();
        assert_eq!(to_pod, 0, "two requests for {uid}");
        let out = self.out.iter().filter(|(_, uid, _)| uid.is_some()).count();
        assert!(out < self.rules.abreast * 2, "{out} requests at once");
        assert!(!self.orders.is_empty(), "asked after the withdrawal: {action:?}");
        let held = &self.server.pods[uid];
        let pod = &held.pod;
        assert!(!pod.mirror && !pod.terminal && !pod.tolerates_disrupted, "{action:?}");
        assert!(!pod.is_daemon() || self.drain.settings().daemon_sets == drain::DaemonSets::Drain, "{action:?}");
        if forced {
            self.check_forced(action, held);
        } else {
            let rests = self.resting.iter().any(|(other, until)| other == uid && now < *until);
            assert!(!rests, "{uid} was told to wait");
            assert!(!pod.do_not_disrupt.holds(now), "{uid} is held by policy");
            let waits = matches!(pod.copy, AwaitedCopy::Starting(end) if now < end);
            assert!(!waits, "{uid} waits for its copy");
        }
    }

    /// Asserts that no pod is forced before its last safe time, which is computed independently here.
    fn check_forced(&self, action: &Action, held: &Held) {
        let deadline = self.orders.deadline().expect("without a deadline no pod is forced");
        let Action::Delete { grace, .. } = action else { return };
        assert!(*grace >= 1, "{action:?}");
        let end = deadline - self.rules.reserve;
        let own = held.pod.grace();
        let last = if end - own >= held.from { end - own } else { end - own.min(self.rules.grace_cap) };
        let observed = self.observed.iter().flatten().find(|pod| pod.uid == held.pod.uid);
        let overstays = observed.and_then(|pod| pod.deletion).is_some_and(|ends| ends > deadline);
        assert!(self.now >= last || overstays, "{} was forced at {:?}, before {last:?}", held.pod.uid, self.now);
    }

    /// Measures how long a budget has had a free disruption for a ready pod while no request is outstanding.
    fn watch_idleness(&mut self) {
        let now = self.now;
        let asked = self.out.iter().any(|(_, uid, _)| uid.is_some());
        let ready = self.server.pods.values().any(|held| {
            let waits = held.is_there(now) && held.pod.deletion.is_none() && held.goes();
            waits && held.budgets.len() == 1 && self.server.budgets[held.budgets[0]].allowed(now) > 0
        });
        let idle = ready && !asked && !self.orders.is_empty() && self.down_until.is_none();
        self.idle_since = self.idle_since.or(Some(now)).filter(|_| idle);
        self.idle = self.idle.max(self.idle_since.map(|since| now.since(since)).unwrap_or_default());
    }

    /// Returns the outcome of a pod by its UID.
    pub fn outcome(&self, uid: &str) -> Option<PodOutcome> {
        self.drain.outcomes(self.now).find(|(pod, _)| pod.uid == uid).and_then(|(_, outcome)| outcome)
    }
}
