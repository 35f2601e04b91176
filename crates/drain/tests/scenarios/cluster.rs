//! Runs a scenario with a small API server and a driver of the drain. Responses arrive immediately, so that the result depends
//! only on rules.

use std::collections::BTreeMap;
use std::time::Duration;

use drain::{Action, Millis, PodOnNode, Reply};

use super::scenario::{Fact, Member, Scenario, T0};

/// Driver of a drain.
pub trait DrainDriver {
    fn observe(&mut self, now: Millis, pods: Vec<PodOnNode>, volumes: Vec<String>);
    fn reply(&mut self, now: Millis, uid: &str, reply: &Reply);
    fn step(&mut self, now: Millis) -> Vec<Action>;
    /// Returns the time of the next action.
    fn next(&self, now: Millis) -> Option<Millis>;
    fn restart(&mut self, now: Millis);
    fn is_done(&self) -> bool;
    /// Processes a fact that is not about pods.
    fn apply_fact(&mut self, who: &str, what: &str) {
        unreachable!("this driver ignores that {who} is {what}");
    }
    /// Returns the actions other than requests for pods.
    fn did(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A request and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRequest {
    pub at: Millis,
    pub pod: String,
    pub evicts: bool,
    /// Grace period in whole seconds, if the request sets it.
    pub grace: Option<u64>,
    /// Budget that refused the request.
    pub refused: Option<String>,
}

/// Result of a scenario.
pub struct Outcome {
    /// The transcript.
    pub transcript: String,
    pub requests: Vec<PodRequest>,
    pub gone: BTreeMap<String, Millis>,
    /// Time at which no pod was left that must leave.
    pub over: Option<Millis>,
}

struct SimulatedCluster<P> {
    driver: P,
    now: Millis,
    members: BTreeMap<String, Member>,
    budgets: BTreeMap<String, usize>,
    volumes: Vec<String>,
    outcome: Outcome,
}

/// Runs the scenario to its end.
pub fn run(scenario: &Scenario, driver: impl DrainDriver) -> Outcome {
    let outcome = Outcome { transcript: String::new(), requests: vec![], gone: BTreeMap::new(), over: None };
    let (members, budgets) = (BTreeMap::new(), BTreeMap::new());
    let mut cluster = SimulatedCluster { driver, now: T0, members, budgets, volumes: vec![], outcome };
    let mut facts = scenario.facts.iter().peekable();
    loop {
        while let Some((_, fact)) = facts.next_if(|(at, _)| *at <= cluster.now) {
            cluster.begin(fact.clone());
        }
        cluster.remove_ended_pods();
        cluster.run_driver();
        let next = [facts.peek().map(|(at, _)| *at), cluster.next()].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next <= scenario.until) else { break };
        assert!(next > cluster.now, "time does not pass");
        cluster.now = next;
    }
    cluster.now = scenario.until;
    cluster.close()
}

/// Returns the seconds since the start, with a fraction if there is one.
pub fn clock(at: Millis) -> String {
    let millis = at.since(T0).as_millis();
    let (whole, rest) = (millis / 1000, millis % 1000);
    if rest == 0 { format!("{whole}s") } else { format!("{whole}.{rest:03}s") }
}

impl<P: DrainDriver> SimulatedCluster<P> {
    fn record(&mut self, what: &str) {
        self.outcome.transcript.push_str(&format!("{}: {what}\n", clock(self.now)));
    }

    fn begin(&mut self, fact: Fact) {
        match fact {
            Fact::Pod(member) => {
                if self.now > T0 {
                    self.record(&format!("{} is created", member.pod.name));
                }
                self.members.insert(member.pod.name.clone(), *member);
            }
            Fact::Budget(name, most) => drop(self.budgets.insert(name, most)),
            Fact::Volume(name) => self.volumes.push(name),
            Fact::Gone(pod) => {
                let member = self.members.get_mut(&pod).expect("a pod that is there");
                member.gone = Some(self.now);
            }
            Fact::Detached(volume) => {
                self.record(&format!("{volume} is detached"));
                self.volumes.retain(|name| *name != volume);
            }
            Fact::Is(who, what) => {
                self.record(&format!("{who} is {what}"));
                self.driver.apply_fact(&who, &what);
            }
            Fact::Restart => {
                self.record("drain driver restarts");
                self.driver.restart(self.now);
            }
        }
    }

    fn remove_ended_pods(&mut self) {
        let ends = |member: &Member| member.gone.is_some_and(|at| at <= self.now);
        let ended: Vec<String> = self.members.values().filter(|it| ends(it)).map(|it| it.pod.name.clone()).collect();
        for name in ended {
            self.members.remove(&name);
            self.record(&format!("{name} is gone"));
            self.outcome.gone.insert(name, self.now);
        }
    }

    fn run_driver(&mut self) {
        self.observe();
        for _ in 0..100 {
            let actions = self.driver.step(self.now);
            self.driver.did().iter().for_each(|did| self.record(did));
            if actions.is_empty() {
                break;
            }
            actions.into_iter().for_each(|action| self.answer(action));
        }
        if self.outcome.over.is_none() && self.driver.is_done() {
            self.record("drain is complete");
            self.outcome.over = Some(self.now);
        }
    }

    fn observe(&mut self) {
        let pods = self.members.values().map(|member| member.pod.clone()).collect();
        self.driver.observe(self.now, pods, self.volumes.clone());
    }

    fn answer(&mut self, action: Action) {
        let (pod, evicts, grace) = match action {
            Action::List => return self.observe(),
            Action::Evict { pod, grace, .. } => (pod, true, grace),
            Action::Delete { pod, grace, .. } => (pod, false, Some(grace)),
        };
        let reply = if evicts { self.evict(&pod, grace) } else { self.end(&pod, grace) };
        self.driver.reply(self.now, &pod, &reply);
        let refused = match reply {
            Reply::Blocked { budget, .. } => budget,
            _ => None,
        };
        let with = grace.map(|seconds| format!(" with {seconds}s")).unwrap_or_default();
        let verb = if evicts { "evict" } else { "delete" };
        let but = refused.as_deref().map(|budget| format!(", refused by budget {budget}")).unwrap_or_default();
        let again = self.outcome.requests.iter().rfind(|requests| requests.pod == pod).is_some_and(|last| {
            last.refused.is_some() && (last.evicts, last.refused.as_ref()) == (evicts, refused.as_ref())
        });
        // The number of retries after a refusal depends on delays, not on rules, so only the first refusal is printed.
        if !again {
            self.record(&format!("{verb} {pod}{with}{but}"));
        }
        self.outcome.requests.push(PodRequest { at: self.now, pod, evicts, grace, refused });
    }

    fn evict(&mut self, pod: &str, grace: Option<u64>) -> Reply {
        let Some(budget) = self.members.get(pod).and_then(|member| member.budget.clone()) else {
            return self.end(pod, grace);
        };
        let away = |it: &&Member| it.pod.deletion.is_some() && it.budget.as_ref() == Some(&budget);
        let away = self.members.values().filter(away).count();
        if away >= self.budgets.get(&budget).copied().unwrap_or_default() {
            return Reply::Blocked { retry_after: None, budget: Some(budget) };
        }
        self.end(pod, grace)
    }

    fn end(&mut self, pod: &str, grace: Option<u64>) -> Reply {
        let now = self.now;
        let Some(member) = self.members.get_mut(pod) else { return Reply::Gone };
        let end = now + grace.map_or(member.pod.grace(), Duration::from_secs);
        let end = member.pod.deletion.map_or(end, |before| before.min(end));
        member.pod.deletion = Some(end);
        member.gone = member.stops.map(|span| (now + span).min(end));
        Reply::Accepted
    }

    fn next(&self) -> Option<Millis> {
        let ends = self.members.values().filter_map(|member| member.gone);
        ends.chain(self.driver.next(self.now)).filter(|at| *at > self.now).min()
    }

    fn close(mut self) -> Outcome {
        let left: Vec<String> = self.members.keys().cloned().collect();
        let left = if left.is_empty() { "none".to_owned() } else { left.join(", ") };
        self.record(&format!("on the node: {left}"));
        self.outcome
    }
}
