//! How the machine is: looks at it and what the kernel says become conditions that clear themselves. Pure but for the sampler below:
//! each look and each incident comes with its moment, and nothing turns before it has been so for a while.
//!
//! Conditions are the EKS node monitoring agent's, by name and by reason. Where that agent runs too, ours stays silent.

mod accelerators;
pub mod check;
mod disks;
mod hung;
mod kmsg;
mod network;
mod sampler;
mod text;
mod units;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::condition;
use drain::Millis;
use serde::{Deserialize, Serialize};

use crate::clock::WallOffset;
use crate::cluster::Node;
use crate::hysteresis::{Hysteresis, Verdict};
use crate::report::{ConditionUpdate, NodeEvent, rfc3339};

pub use check::Check;
pub use sampler::{Sampler, watch};

/// How our messages begin: whose they are.
const OURS: &str = "kerf-agent: ";
/// The EKS node monitoring agent renews its conditions every five minutes.
const FOREIGN: Duration = Duration::from_secs(15 * 60);
/// Ours are renewed as often.
const RENEWAL: Duration = Duration::from_secs(5 * 60);
/// Incidents of one kind that are remembered.
const REMEMBERED: usize = 16;

/// Each condition and its reason while all is well.
const WELL: [(&str, &str); 5] = [
    (condition::KERNEL_READY, "KernelIsReady"),
    (condition::STORAGE_READY, "StorageIsReady"),
    (condition::CONTAINER_RUNTIME_READY, "ContainerRuntimeIsReady"),
    (condition::NETWORKING_READY, "NetworkingIsReady"),
    (condition::ACCELERATED_HARDWARE_READY, "AcceleratedHardwareIsReady"),
];

/// What a look at the machine has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRun {
    /// For which trouble it looked.
    pub check: Check,
    /// The trouble in a sentence, if it is there.
    pub trouble: Option<String>,
}

/// Something that happened and is over: only that it happens again tells whether the trouble lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Of which trouble it is a sign.
    pub check: Check,
    /// How many of its kind are trouble.
    pub quota: Quota,
    /// When.
    pub at: Millis,
    /// In a sentence.
    pub text: String,
}

/// So many incidents within this time are trouble; fewer are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How many.
    pub times: usize,
    /// Within.
    pub within: Duration,
}

/// What was found at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthSample {
    /// Looks.
    pub looks: Vec<CheckRun>,
    /// Incidents since the last sample.
    pub incidents: Vec<Incident>,
}

/// The machine's health.
#[derive(Clone, Debug, Default)]
pub struct Health {
    looks: BTreeMap<Check, CheckState>,
    incidents: BTreeMap<Check, Series>,
    /// The first sample has come.
    known: bool,
}

#[derive(Clone, Debug)]
struct CheckState {
    verdict: Verdict,
    text: String,
    /// What the last look said.
    good: bool,
}

#[derive(Clone, Debug)]
struct Series {
    quota: Quota,
    recent: VecDeque<Millis>,
    /// Of the incident that made it trouble.
    text: String,
    since: Option<Millis>,
}

/// The machine's health, as it is reported on the machine itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthReport {
    /// Somebody has looked.
    pub looked: bool,
    /// Another agent has the say of the Node's conditions, so they say nothing of this.
    pub silent: bool,
    /// What is wrong, the longest first.
    pub troubles: Vec<HealthProblem>,
}

/// One trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthProblem {
    /// The condition that it is about.
    pub condition: String,
    /// In one word.
    pub reason: String,
    /// It makes the condition False; otherwise it is only reported.
    pub fatal: bool,
    /// Since when, by the wall's clock.
    pub since: String,
    /// In a sentence.
    pub message: String,
}

/// A trouble that counts now.
#[derive(Clone, Copy, Debug)]
struct ActiveProblem<'a> {
    check: &'a Check,
    since: Millis,
    text: &'a str,
}

impl Health {
    /// Takes a sample in, whose incidents carry the wall's time.
    pub fn take(&mut self, sample: HealthSample, wall: WallOffset, now: Millis) {
        self.known = true;
        for look in sample.looks {
            self.look(look, now);
        }
        for incident in sample.incidents {
            self.incident(Incident { at: wall.ours(incident.at), ..incident });
        }
        for series in self.incidents.values_mut() {
            series.judge(now);
        }
    }

    /// Takes one look in; also without a sampler, for what the agent knows anyway.
    pub fn look(&mut self, look: CheckRun, now: Millis) {
        let CheckRun { check, trouble } = look;
        let patience = Hysteresis::over(check.patience());
        let fresh =
            || CheckState { verdict: Verdict::new(true, patience, patience, now), text: String::new(), good: true };
        let again = check.again();
        let looked = self.looks.entry(check).or_insert_with(fresh);
        let good = trouble.is_none();
        let anew = std::mem::replace(&mut looked.good, good) && !good;
        let again = again.filter(|_| anew).zip(trouble.clone());
        // While it lasts it keeps its words: figures that change with each look are no news.
        if looked.verdict.is_good() {
            looked.text = trouble.unwrap_or_default();
        }
        looked.verdict.take(good, now);
        if let Some(((check, quota), text)) = again {
            self.incident(Incident { check, quota, at: now, text });
        }
    }

    fn incident(&mut self, incident: Incident) {
        let Incident { check, quota, at, text } = incident;
        let fresh = || Series { quota, recent: VecDeque::new(), text: String::new(), since: None };
        let series = self.incidents.entry(check).or_insert_with(fresh);
        if series.recent.len() == REMEMBERED {
            series.recent.pop_front();
        }
        series.recent.push_back(at);
        if series.since.is_none() {
            series.text = text;
        }
    }

    fn troubles(&self) -> Vec<ActiveProblem<'_>> {
        let looked = self.looks.iter().filter(|(_, looked)| !looked.verdict.is_good());
        let looked = looked.map(|(check, looked)| ActiveProblem {
            check,
            since: looked.verdict.since(),
            text: looked.text.as_str(),
        });
        let happened = self.incidents.iter().filter_map(|(check, series)| {
            series.since.map(|since| ActiveProblem { check, since, text: series.text.as_str() })
        });
        let mut troubles: Vec<_> = looked.chain(happened).collect();
        troubles.sort_by_key(|trouble| (trouble.since, trouble.check));
        troubles
    }

    /// The conditions: none before the first sample, and none while another agent has the say of them.
    #[must_use]
    pub fn statements(&self, node: &Node, wall: WallOffset, now: Millis) -> Vec<ConditionUpdate> {
        if !self.known || other_agent(node, wall.wall_time(now)) {
            return Vec::new();
        }
        let troubles = self.troubles();
        let watched = |condition: &str| {
            let any = self.looks.keys().chain(self.incidents.keys()).any(|check| check.condition == condition);
            any || condition != condition::ACCELERATED_HARDWARE_READY
        };
        let stated = WELL.into_iter().filter(|(kind, _)| watched(kind));
        stated.map(|(kind, well)| statement(kind, well, &troubles, wall)).collect()
    }

    /// An event for each trouble that counts now, at most one an hour and reason.
    #[must_use]
    pub fn tidings(&self) -> Vec<NodeEvent> {
        let tiding = |trouble: &ActiveProblem<'_>| NodeEvent {
            key: format!("{TIDING}{}-{}", trouble.check.reason, trouble.since.0 / 3_600_000),
            warning: true,
            reason: trouble.check.condition,
            message: format!("{}: {}", trouble.check.reason, trouble.text),
        };
        self.troubles().iter().map(tiding).collect()
    }

    /// How the machine is; `silent` where another agent has the say.
    #[must_use]
    pub fn wellbeing(&self, silent: bool, wall: WallOffset) -> HealthReport {
        let wrong = |trouble: &ActiveProblem<'_>| HealthProblem {
            condition: trouble.check.condition.to_owned(),
            reason: trouble.check.reason.to_string(),
            fatal: trouble.check.fatal,
            since: rfc3339(wall.wall_time(trouble.since)),
            message: trouble.text.to_owned(),
        };
        HealthReport { looked: self.known, silent, troubles: self.troubles().iter().map(wrong).collect() }
    }

    /// What is wrong, in a line; `None` when nothing is.
    #[must_use]
    pub fn summary(&self, wall: WallOffset) -> Option<String> {
        let said: Vec<String> = self.troubles().iter().map(|trouble| said(trouble, wall)).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// How the keys of events about health begin; what follows up to the last dash is the reason.
pub const TIDING: &str = "health-";

impl Series {
    /// It is trouble while the quota is met; so it clears no sooner than the quota's time after it was last met.
    fn judge(&mut self, now: Millis) {
        let recent = self.recent.iter().filter(|at| now.since(**at) < self.quota.within).count();
        if recent < self.quota.times {
            self.since = None;
        } else {
            let first = self.recent.len().saturating_sub(recent);
            self.since = self.since.or_else(|| self.recent.get(first).copied());
        }
    }
}

fn said(trouble: &ActiveProblem<'_>, wall: WallOffset) -> String {
    format!("{} since {}: {}", trouble.check.reason, rfc3339(wall.wall_time(trouble.since)), trouble.text)
}

/// One condition: False for what is fatal, else True, with what is only reported in its message.
fn statement(kind: &'static str, well: &str, troubles: &[ActiveProblem<'_>], wall: WallOffset) -> ConditionUpdate {
    let own: Vec<_> = troubles.iter().filter(|trouble| trouble.check.condition == kind).collect();
    let fatal = own.iter().find(|trouble| trouble.check.fatal);
    let message = match own.as_slice() {
        [] => "no problem".to_owned(),
        own => own.iter().map(|trouble| said(trouble, wall)).collect::<Vec<_>>().join("; "),
    };
    ConditionUpdate {
        kind,
        status: if fatal.is_some() { condition::FALSE } else { condition::TRUE },
        reason: fatal.map_or_else(|| well.to_owned(), |trouble| trouble.check.reason.to_string()),
        message: format!("{OURS}{message}"),
    }
}

/// Whether somebody else has renewed any of these conditions before `now`, by the wall, and not long before: such as the EKS node monitoring agent.
#[must_use]
pub fn other_agent(node: &Node, now: Millis) -> bool {
    let conditions = WELL.iter().filter_map(|(kind, _)| node.condition(kind));
    let mut foreign = conditions.filter(|found| !found.message.starts_with(OURS));
    foreign.any(|found| age(found.last_heartbeat_time, now).is_some_and(|age| age < FOREIGN))
}

/// Whether what we said of health is so old at `now`, by the wall, that it is to be said again, unchanged.
#[must_use]
pub fn is_old(node: &Node, said: &ConditionUpdate, now: Millis) -> bool {
    let health = WELL.iter().any(|(kind, _)| *kind == said.kind);
    let heartbeat = node.condition(said.kind).and_then(|found| found.last_heartbeat_time);
    health && age(heartbeat, now).is_none_or(|age| age >= RENEWAL)
}

fn age(heartbeat: Option<jiff::Timestamp>, now: Millis) -> Option<Duration> {
    let at = u64::try_from(heartbeat?.as_millisecond()).ok()?;
    Some(now.since(Millis(at)))
}

#[cfg(test)]
mod tests;
