//! Health of the machine: checks and kernel messages become conditions that clear by themselves. Pure except for the sampler
//! below: each check and each incident has its time. A condition changes only after the problem has lasted for a while.
//!
//! Conditions are those of the EKS node monitoring agent, by name and by reason. The agent does not report them where that
//! agent runs too.

mod accelerators;
pub mod check;
mod disks;
mod hung;
pub mod hysteresis;
mod kmsg;
mod network;
mod patterns;
mod sampler;
mod text;
mod units;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::condition;
use drain::Millis;
use serde::{Deserialize, Serialize};

use crate::cluster::{ConditionUpdate, Node, NodeCondition, NodeEvent};
use crate::host::clock::{WallOffset, rfc3339};

pub use check::Check;
use hysteresis::{Hysteresis, Verdict};
pub use sampler::{Sampler, watch};

/// Age after which conditions of another agent are ignored. The EKS node monitoring agent renews its conditions every five
/// minutes.
const FOREIGN: Duration = Duration::from_secs(15 * 60);
/// Interval in which our conditions are renewed, as those of the EKS node monitoring agent are.
const RENEWAL: Duration = Duration::from_secs(5 * 60);
/// Greatest number of incidents that are kept per check.
const REMEMBERED: usize = 16;

/// Each condition with its reason while no problem exists.
const WELL: [(&str, &str); 5] = [
    (condition::KERNEL_READY, "KernelIsReady"),
    (condition::STORAGE_READY, "StorageIsReady"),
    (condition::CONTAINER_RUNTIME_READY, "ContainerRuntimeIsReady"),
    (condition::NETWORKING_READY, "NetworkingIsReady"),
    (condition::ACCELERATED_HARDWARE_READY, "AcceleratedHardwareIsReady"),
];

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRun {
    /// The check.
    pub check: Check,
    /// The problem in one sentence, if any.
    pub trouble: Option<String>,
}

/// An event that is over at once. Only its repetition shows whether the problem persists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// The check to which the incident belongs.
    pub check: Check,
    /// Number of such incidents that are a problem.
    pub quota: Quota,
    /// Time of the incident.
    pub at: Millis,
    /// Description in one sentence.
    pub text: String,
}

/// Number of incidents within a time that are a problem; fewer are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Number of incidents.
    pub times: usize,
    /// Time window.
    pub within: Duration,
}

/// Results of all checks at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthSample {
    /// Results of checks.
    pub checks: Vec<CheckRun>,
    /// Incidents since the last sample.
    pub incidents: Vec<Incident>,
}

/// Health of the machine.
#[derive(Clone, Debug, Default)]
pub struct Health {
    checks: BTreeMap<Check, CheckState>,
    incidents: BTreeMap<Check, Series>,
    /// Set once the first sample has arrived.
    known: bool,
}

#[derive(Clone, Debug)]
struct CheckState {
    verdict: Verdict,
    text: String,
    /// Result of the last check.
    good: bool,
}

#[derive(Clone, Debug)]
struct Series {
    quota: Quota,
    recent: VecDeque<Millis>,
    /// Text of the incident with which the problem began.
    text: String,
    since: Option<Millis>,
}

/// Health report for `kerf-agent status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthReport {
    /// Set once a sample was taken.
    #[serde(rename = "looked")]
    pub evaluated: bool,
    /// Set where another agent reports these conditions, so that ours are not reported.
    pub silent: bool,
    /// Problems, the oldest first.
    pub troubles: Vec<HealthProblem>,
}

/// One problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthProblem {
    /// The affected condition.
    pub condition: String,
    /// Reason in CamelCase.
    pub reason: String,
    /// Set where the problem makes the condition `False`; otherwise the problem is only reported.
    pub fatal: bool,
    /// Start of the problem, in wall time.
    pub since: String,
    /// Description in one sentence.
    pub message: String,
}

/// A problem that counts now.
#[derive(Clone, Copy, Debug)]
struct ActiveProblem<'a> {
    check: &'a Check,
    since: Millis,
    text: &'a str,
}

impl Health {
    /// Records a sample, whose incidents have wall time.
    pub fn take(&mut self, sample: HealthSample, wall: WallOffset, now: Millis) {
        self.known = true;
        for check in sample.checks {
            self.record(check, now);
        }
        for incident in sample.incidents {
            self.incident(Incident { at: wall.ours(incident.at), ..incident });
        }
        for series in self.incidents.values_mut() {
            series.evaluate(now);
        }
    }

    /// Records one check; without a sampler too, for facts that the agent has from another source.
    pub fn record(&mut self, run: CheckRun, now: Millis) {
        let CheckRun { check, trouble } = run;
        let patience = Hysteresis::over(check.patience());
        let fresh =
            || CheckState { verdict: Verdict::new(true, patience, patience, now), text: String::new(), good: true };
        let again = check.again();
        let state = self.checks.entry(check).or_insert_with(fresh);
        let good = trouble.is_none();
        let anew = std::mem::replace(&mut state.good, good) && !good;
        let again = again.filter(|_| anew).zip(trouble.clone());
        // The text remains while the problem lasts: values that change with each check are no change of the problem.
        if state.verdict.is_good() {
            state.text = trouble.unwrap_or_default();
        }
        state.verdict.take(good, now);
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
        let checked = self.checks.iter().filter(|(_, state)| !state.verdict.is_good());
        let checked = checked.map(|(check, state)| ActiveProblem {
            check,
            since: state.verdict.since(),
            text: state.text.as_str(),
        });
        let happened = self.incidents.iter().filter_map(|(check, series)| {
            series.since.map(|since| ActiveProblem { check, since, text: series.text.as_str() })
        });
        let mut troubles: Vec<_> = checked.chain(happened).collect();
        troubles.sort_by_key(|trouble| (trouble.since, trouble.check));
        troubles
    }

    /// Returns the conditions: none before the first sample, and none while another agent reports them.
    #[must_use]
    pub fn condition_updates(&self, node: &Node, wall: WallOffset, now: Millis) -> Vec<ConditionUpdate> {
        if !self.known || other_agent(node, wall.wall_time(now)) {
            return Vec::new();
        }
        let troubles = self.troubles();
        let watched = |condition: &str| {
            let any = self.checks.keys().chain(self.incidents.keys()).any(|check| check.condition == condition);
            any || condition != condition::ACCELERATED_HARDWARE_READY
        };
        let stated = WELL.into_iter().filter(|(kind, _)| watched(kind));
        stated.map(|(kind, well)| condition_update(kind, well, &troubles, wall)).collect()
    }

    /// Returns the oldest problem that makes this condition `False`, in one sentence.
    #[must_use]
    pub fn fatal_problem(&self, condition: &str) -> Option<&str> {
        let fatal = |problem: &ActiveProblem<'_>| problem.check.fatal && problem.check.condition == condition;
        self.troubles().into_iter().find(fatal).map(|problem| problem.text)
    }

    /// Returns an event for each current problem, at most one per hour and reason.
    #[must_use]
    pub fn events(&self) -> Vec<NodeEvent> {
        let event = |trouble: &ActiveProblem<'_>| NodeEvent {
            key: format!("{EVENT_KEY}{}-{}", trouble.check.reason, trouble.since.0 / 3_600_000),
            warning: true,
            reason: trouble.check.condition,
            message: format!("{}: {}", trouble.check.reason, trouble.text),
        };
        self.troubles().iter().map(event).collect()
    }

    /// Returns the health report; `silent` where another agent reports the conditions.
    #[must_use]
    pub fn report(&self, silent: bool, wall: WallOffset) -> HealthReport {
        let wrong = |trouble: &ActiveProblem<'_>| HealthProblem {
            condition: trouble.check.condition.to_owned(),
            reason: trouble.check.reason.to_string(),
            fatal: trouble.check.fatal,
            since: rfc3339(wall.wall_time(trouble.since)),
            message: trouble.text.to_owned(),
        };
        HealthReport { evaluated: self.known, silent, troubles: self.troubles().iter().map(wrong).collect() }
    }

    /// Returns the current problems in one line; `None` when there are none.
    #[must_use]
    pub fn summary(&self, wall: WallOffset) -> Option<String> {
        let problems: Vec<String> = self.troubles().iter().map(|trouble| describe(trouble, wall)).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

/// Prefix of the keys of health events; the part between the prefix and the last dash is the reason.
pub const EVENT_KEY: &str = "health-";

impl Series {
    /// Evaluates the incidents. The problem lasts while the quota is met, so it clears no sooner than the quota's time after it
    /// was last met.
    fn evaluate(&mut self, now: Millis) {
        let recent = self.recent.iter().filter(|at| now.since(**at) < self.quota.within).count();
        if recent < self.quota.times {
            self.since = None;
        } else {
            let first = self.recent.len().saturating_sub(recent);
            self.since = self.since.or_else(|| self.recent.get(first).copied());
        }
    }
}

fn describe(trouble: &ActiveProblem<'_>, wall: WallOffset) -> String {
    format!("{} since {}: {}", trouble.check.reason, rfc3339(wall.wall_time(trouble.since)), trouble.text)
}

/// Returns one condition: `False` for a fatal problem, else `True` with the warnings in its message.
fn condition_update(
    kind: &'static str,
    well: &str,
    troubles: &[ActiveProblem<'_>],
    wall: WallOffset,
) -> ConditionUpdate {
    let own: Vec<_> = troubles.iter().filter(|trouble| trouble.check.condition == kind).collect();
    let fatal = own.iter().find(|trouble| trouble.check.fatal);
    let message = match own.as_slice() {
        [] => "no problem".to_owned(),
        own => own.iter().map(|trouble| describe(trouble, wall)).collect::<Vec<_>>().join("; "),
    };
    ConditionUpdate {
        kind,
        status: if fatal.is_some() { condition::FALSE } else { condition::TRUE },
        reason: fatal.map_or_else(|| well.to_owned(), |trouble| trouble.check.reason.to_string()),
        message: format!("{}{message}", condition::AGENT_MESSAGE),
    }
}

/// Reports whether another program, such as the EKS node monitoring agent, has renewed any of these conditions recently before
/// `now`, in wall time.
#[must_use]
pub fn other_agent(node: &Node, now: Millis) -> bool {
    let conditions = WELL.iter().filter_map(|(kind, _)| node.condition(kind));
    let mut foreign = conditions.filter(|found| !is_own(found));
    foreign.any(|found| age(found.last_heartbeat_time, now).is_some_and(|age| age < FOREIGN))
}

/// Reports whether this agent wrote the condition.
#[must_use]
pub fn is_own(condition: &NodeCondition) -> bool {
    condition.message.starts_with(condition::AGENT_MESSAGE)
}

/// Reports whether our condition of health is so old at `now`, in wall time, that it must be sent again unchanged.
#[must_use]
pub fn is_old(node: &Node, update: &ConditionUpdate, now: Millis) -> bool {
    let health = WELL.iter().any(|(kind, _)| *kind == update.kind);
    let heartbeat = node.condition(update.kind).and_then(|found| found.last_heartbeat_time);
    health && age(heartbeat, now).is_none_or(|age| age >= RENEWAL)
}

fn age(heartbeat: Option<jiff::Timestamp>, now: Millis) -> Option<Duration> {
    let at = u64::try_from(heartbeat?.as_millisecond()).ok()?;
    Some(now.since(Millis(at)))
}

#[cfg(test)]
mod tests;
