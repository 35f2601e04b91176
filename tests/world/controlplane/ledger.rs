//! Who asked for the end of which pod, and what the answer was: the API server's own audit log, which those who ask cannot colour.

use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// One request for a pod's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// When it came.
    pub at: Timestamp,
    /// By whom.
    pub user: String,
    /// With which program, such as `kerf-agent/0.1.0`: an agent and its kubelet are the same user.
    pub program: String,
    /// Of which pod.
    pub pod: String,
    /// By eviction, else by deletion.
    pub evicts: bool,
    /// The answer's code: 201 for an eviction that was granted, 429 for one that a budget forbids.
    pub code: u16,
    /// What a refusal says, its causes included.
    pub said: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    user: User,
    #[serde(default)]
    user_agent: String,
    object_ref: Object,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    name: String,
    #[serde(default)]
    subresource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    message: String,
}

/// Everything in the log so far, in its order.
pub(super) fn read(log: &Path) -> Result<Vec<Ending>> {
    let text = std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    // The last line may be half written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| entry(line).with_context(|| line.to_owned())).collect()
}

fn entry(line: &str) -> Result<Ending> {
    let Entry { user, user_agent, object_ref, response_status, request_received_timestamp } =
        serde_json::from_str(line).context("no audit event")?;
    let Status { code, message, details } = response_status;
    let said: Vec<String> = std::iter::once(message).chain(details.causes.into_iter().map(|it| it.message)).collect();
    Ok(Ending {
        at: request_received_timestamp,
        user: user.username,
        program: user_agent,
        pod: object_ref.name,
        evicts: object_ref.subresource == "eviction",
        code,
        said: said.join(" "),
    })
}
