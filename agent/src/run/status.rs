//! State of the agent on this machine, in one value. The running agent sends it through its socket; without an agent it is read
//! from files. `kerf-agent status` prints it as text or as JSON.

pub mod socket;

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bootstrap::BootstrapState;
use crate::bootstrap::observe::{self, Configurator};
use crate::bootstrap::timeline::Timeline;
use crate::cluster::{Access, ConditionUpdate, Credentials};
use crate::health::{HealthProblem, HealthReport};
use crate::host::clock::rfc3339;
use crate::run::journal::{DrainOutcome, Journal};
use crate::usage;

/// State of the agent and of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// Set by a running agent; otherwise all values come from files.
    pub running: bool,
    /// Version of the agent.
    pub version: String,
    /// Identity of this machine.
    pub identity: Identity,
    /// Current activity or obstacle, in one line.
    pub phase: String,
    /// State of bootstrap.
    pub bootstrap: Option<BootstrapState>,
    /// Conditions of the Node in the agent's view: gates, health, interruption.
    pub conditions: Vec<ConditionStatus>,
    /// Health of the machine; available from a running agent only.
    pub health: Option<HealthReport>,
    /// Notices of EC2.
    pub notices: Value,
    /// Current or last drain.
    pub drain: Option<DrainStatus>,
    /// Last usage report.
    pub usage: Value,
    /// Timeline of the start.
    pub timeline: Timeline,
}

/// Identity of this machine, at EC2 and in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    /// Instance id, `i-...`.
    pub instance: Option<String>,
    /// Name of the Node.
    pub node: Option<String>,
    /// Host and port of the API server.
    pub api_server: Option<String>,
    /// Credentials for the API server.
    pub credentials: Option<String>,
    /// Another program that configures this machine, so that bootstrap only observes.
    pub configured_by: Option<String>,
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConditionStatus {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in CamelCase.
    pub reason: String,
    /// Message, one sentence.
    pub message: String,
}

/// A drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// Reason of the drain.
    pub why: String,
    /// Earliest time at which the machine may be terminated.
    pub deadline: Option<String>,
    /// Numbers of pods.
    pub progress: String,
    /// Pods whose last request was refused, with the message of the API server.
    pub blocked: Vec<String>,
    /// Outcome of the drain.
    pub outcome: Option<DrainOutcome>,
}

impl AgentStatus {
    /// Reads the status from files. A running agent replaces the values for which it has newer data.
    #[must_use]
    pub fn from_files(root: &Path, journal: Option<&Journal>) -> Self {
        let usage =
            std::fs::read(root.join(usage::LAST)).ok().and_then(|text| machine::document::read_json(&text).ok());
        Self {
            running: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            identity: identity(root, journal),
            phase: String::new(),
            bootstrap: BootstrapState::read(root),
            conditions: Vec::new(),
            health: None,
            notices: journal.map(notices).unwrap_or_default(),
            drain: journal.and_then(drain_status),
            usage: usage.unwrap_or_default(),
            timeline: Timeline::read(root),
        }
    }
}

impl From<&ConditionUpdate> for ConditionStatus {
    fn from(update: &ConditionUpdate) -> Self {
        Self {
            kind: update.kind.to_owned(),
            status: update.status.to_owned(),
            reason: update.reason.clone(),
            message: update.message.clone(),
        }
    }
}

fn identity(root: &Path, journal: Option<&Journal>) -> Identity {
    let access = Access::read(root, &observe::kubeconfig(root)).ok();
    Identity {
        instance: journal.map(|journal| journal.instance.clone()),
        node: observe::node_name(root),
        api_server: access.as_ref().map(Access::server),
        credentials: access.map(|access| access.credentials.describe()),
        configured_by: observe::other(root).map(Configurator::name).map(str::to_owned),
    }
}

/// Returns the notices of the journal.
fn notices(journal: &Journal) -> Value {
    serde_json::to_value(&journal.notices).unwrap_or_default()
}

fn drain_status(journal: &Journal) -> Option<DrainStatus> {
    let drain = journal.drain.as_ref()?;
    Some(DrainStatus {
        why: journal.order.as_ref().map(|order| order.why.clone()).unwrap_or_default(),
        deadline: drain.settings().deadline.map(rfc3339),
        progress: drain.progress().to_string(),
        blocked: drain.refusals().map(|refused| refused.to_string()).collect(),
        outcome: journal.outcome.clone(),
    })
}

impl Credentials {
    /// Describes the credentials in a few words, without secrets.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Token(_) => "a fixed token".to_owned(),
            Self::Certificate { .. } => "a client certificate".to_owned(),
            Self::Exec(command) => match command.audience() {
                Some(audience) => {
                    format!("instance role (EKS tokens for cluster {} in {})", audience.cluster, audience.region)
                }
                None => format!("tokens printed by `{}`", command.command),
            },
        }
    }
}

impl Display for AgentStatus {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: &str| writeln!(out, "{name:<12} {text}");
        line("agent", &format!("{} {}", self.version, if self.running { "running" } else { "not running" }))?;
        line("phase", &self.phase)?;
        for (name, value) in self.identity.lines() {
            line(name, value)?;
        }
        line("bootstrap", &self.bootstrap.as_ref().map_or_else(|| "no report".to_owned(), ToString::to_string))?;
        for it in &self.conditions {
            line("condition", &format!("{} {} {}: {}", it.kind, it.status, it.reason, it.message))?;
        }
        self.health_lines(&mut line)?;
        line("notices", &plain(&self.notices))?;
        match &self.drain {
            None => line("drain", "none")?,
            Some(drain) => drain.lines(&mut line)?,
        }
        line("usage", &plain(&self.usage))?;
        let steps: Vec<String> = self.timeline.steps().iter().map(|(stage, at)| format!("{stage} {at} ms")).collect();
        line("timeline", &if steps.is_empty() { "none".to_owned() } else { steps.join(", ") })
    }
}

impl AgentStatus {
    fn health_lines(&self, line: &mut impl FnMut(&str, &str) -> fmt::Result) -> fmt::Result {
        let Some(health) = &self.health else { return line("health", "not known") };
        match (health.evaluated, health.troubles.is_empty()) {
            (false, true) => line("health", "not evaluated yet")?,
            (true, true) => line("health", "no problem")?,
            (_, false) => {}
        }
        for HealthProblem { condition, reason, fatal, since, message } in &health.troubles {
            let weight = if *fatal { "is False" } else { "stays True" };
            line("health", &format!("{reason} since {since}: {message} ({condition} {weight})"))?;
        }
        if health.silent { line("", "conditions are managed by another agent") } else { Ok(()) }
    }
}

impl Identity {
    fn lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("instance", &self.instance),
            ("node", &self.node),
            ("api server", &self.api_server),
            ("credentials", &self.credentials),
            ("configured", &self.configured_by),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

impl DrainStatus {
    fn lines(&self, line: &mut impl FnMut(&str, &str) -> fmt::Result) -> fmt::Result {
        let by = self.deadline.as_ref().map(|deadline| format!(", by {deadline}")).unwrap_or_default();
        line("drain", &format!("{}{by}: {}", self.why, self.progress))?;
        for blocked in &self.blocked {
            line("  blocked", blocked)?;
        }
        match &self.outcome {
            Some(outcome) => line("  outcome", &outcome.summary),
            None => Ok(()),
        }
    }
}

/// Returns a value as text; an empty value is `none`.
fn plain(value: &Value) -> String {
    let empty = match value {
        Value::Null => true,
        Value::Object(fields) => {
            fields.is_empty() || fields.values().all(|field| field.is_null() || field == &Value::Array(Vec::new()))
        }
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if empty { "none".to_owned() } else { value.to_string() }
}
