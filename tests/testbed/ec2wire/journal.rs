//! Log of the server: one readable line per request, and the same data in memory for tests.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use http::{HeaderMap, header};
use jiff::Timestamp;

use super::Call;
use super::answer::{Failure, Reply};
use super::form::Form;

/// Most characters of a request's parameters in a line.
const SHOWN: usize = 160;

/// One request and its result.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Moment of the response.
    pub at: Timestamp,
    /// Name of the call in AWS, such as `CreateFleet`.
    pub action: String,
    /// Main parameters, shortened.
    pub asked: String,
    /// Result: a summary, EC2's error code, or the end of the connection.
    pub answered: String,
    /// True for a successful response.
    pub good: bool,
    /// User agent of the client.
    pub user_agent: String,
    /// Time from the request's last byte to the response.
    pub took: Duration,
}

#[derive(Debug)]
pub(super) struct Journal {
    exchanges: Vec<Exchange>,
    file: Option<File>,
}

impl Journal {
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        let file = match path {
            None => None,
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Some(file.with_context(|| format!("cannot open {}, the log of the EC2 fake", path.display()))?)
            }
        };
        Ok(Self { exchanges: Vec::new(), file })
    }

    pub(super) fn write(&mut self, call: &Call, headers: &HeaderMap, answer: &Result<Reply, Failure>, took: Duration) {
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let exchange = Exchange {
            at: Timestamp::now(),
            action: call.action().to_owned(),
            asked: asked(call),
            answered: answered(answer),
            good: answer.is_ok(),
            user_agent: agent.unwrap_or_default().to_owned(),
            took,
        };
        self.print(&exchange);
        self.exchanges.push(exchange);
    }

    pub(super) fn of(&self, action: &str) -> Vec<Exchange> {
        let wanted = |exchange: &&Exchange| action.is_empty() || exchange.action == action;
        self.exchanges.iter().filter(wanted).cloned().collect()
    }

    /// Writes a line to the log file. Calls continue if the file cannot be written; only the first failure is reported.
    fn print(&mut self, exchange: &Exchange) {
        let Some(file) = &mut self.file else { return };
        let Exchange { at, action, asked, answered, took, .. } = exchange;
        let line = format!("{at:.3} {action} {asked} -> {answered} ({} ms)\n", took.as_millis());
        if let Err(error) = file.write_all(line.as_bytes()) {
            log::warn!("the EC2 fake's log ends here: {error}");
            self.file = None;
        }
    }
}

fn answered(answer: &Result<Reply, Failure>) -> String {
    match answer {
        Ok(reply) => reply.summary.clone(),
        Err(Failure::Refused { status, code, .. }) => format!("{} {code}", status.as_u16()),
        Err(Failure::Garbled(status)) => format!("{} with a page of HTML", status.as_u16()),
        Err(Failure::Dropped) => "connection closed".to_owned(),
    }
}

fn asked(call: &Call) -> String {
    let text = match call {
        Call::Ec2(_, form) | Call::Iam(form) | Call::Sts(form) => parameters(form),
        Call::Json(_, _, body) => String::from_utf8_lossy(body).into_owned(),
        Call::Eks(call) => call.path.clone(),
        Call::Fis(call) => call.path.clone(),
        Call::Arc(name) => name.clone(),
    };
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Returns the main parameters of a form: all of them, or a summary of a long form.
fn parameters(form: &Form) -> String {
    match form.text("Action") {
        "CreateFleet" => fleet(form),
        "CreateLaunchTemplate" => form.owned("LaunchTemplateName"),
        _ => {
            let pairs = form.pairs().filter(|(key, _)| !matches!(*key, "Action" | "Version"));
            pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Returns a summary such as `instant, 2 spot, token 17, 3 pools: m7g.large us-west-2a, ...`.
fn fleet(form: &Form) -> String {
    let capacity = form.at("TargetCapacitySpecification");
    let configs = form.list("LaunchTemplateConfigs");
    let overrides = configs.iter().flat_map(|config| config.list("Overrides"));
    let pools = overrides.map(|pool| format!("{} {}", pool.text("InstanceType"), pool.text("AvailabilityZone")));
    let pools = pools.collect::<Vec<_>>();
    format!(
        "{}, {} {}, token {}, {} pools: {}",
        form.text("Type"),
        capacity.text("TotalTargetCapacity"),
        capacity.text("DefaultTargetCapacityType"),
        form.text("ClientToken"),
        pools.len(),
        pools.join(", ")
    )
}
