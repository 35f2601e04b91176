//! Requests that evict or delete pods, and requests of the controller, with their responses. The source is the API server's
//! audit log, which clients cannot influence.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// One request that evicts or deletes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRemoval {
    /// Time of the request.
    pub at: Timestamp,
    /// User of the request.
    pub user: String,
    /// User agent, such as `kerf-agent/0.1.0`: an agent and its kubelet are the same user.
    pub program: String,
    /// Name of the pod.
    pub pod: String,
    /// True for an eviction, false for a deletion.
    pub evicts: bool,
    /// Status code of the response: 201 for an accepted eviction, 429 for one that a budget forbids.
    pub code: u16,
    /// Message of an error response, including its causes.
    pub message: String,
}

/// One request of the controller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditedRequest {
    /// Verb, such as `patch`.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Resource, such as `pods/eviction`; empty for a path without a resource, such as `/version`.
    pub resource: String,
    /// Name of the object; empty if the request contains none.
    pub name: String,
    /// Status code of the response.
    pub code: u16,
    /// True if the authorizer rejected the request for a missing permission; false for rejections by admission.
    pub forbidden: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: Object,
    #[serde(default)]
    response_status: Status,
    request_received_timestamp: Timestamp,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Object {
    api_group: String,
    resource: String,
    name: String,
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

/// Returns every request so far that evicts or deletes a pod, in the log's order.
pub(super) fn removals(log: &Path) -> Result<Vec<PodRemoval>> {
    let ends =
        |entry: &Entry| entry.object_ref.resource == "pods" && matches!(entry.verb.as_str(), "create" | "delete");
    Ok(read(log)?.into_iter().filter(ends).map(removal).collect())
}

/// Returns every request of one user so far, in the log's order.
pub(super) fn requests_of(log: &Path, user: &str) -> Result<Vec<AuditedRequest>> {
    let of_user = |entry: &Entry| entry.user.username == user;
    Ok(read(log)?.into_iter().filter(of_user).map(request).collect())
}

fn read(log: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    // The last line may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).with_context(|| format!("no audit event: {line}"))).collect()
}

fn removal(entry: Entry) -> PodRemoval {
    let Entry { user, user_agent, object_ref, response_status, request_received_timestamp, .. } = entry;
    let Status { code, message, details } = response_status;
    let message: Vec<String> =
        std::iter::once(message).chain(details.causes.into_iter().map(|it| it.message)).collect();
    PodRemoval {
        at: request_received_timestamp,
        user: user.username,
        program: user_agent,
        pod: object_ref.name,
        evicts: object_ref.subresource == "eviction",
        code,
        message: message.join(" "),
    }
}

fn request(entry: Entry) -> AuditedRequest {
    let Object { api_group, resource, name, subresource } = entry.object_ref;
    let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
    let forbidden = entry.annotations.get("authorization.k8s.io/decision").is_some_and(|message| message == "forbid");
    AuditedRequest { verb: entry.verb, group: api_group, resource, name, code: entry.response_status.code, forbidden }
}
