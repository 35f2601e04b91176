//! The journal's file. Kerf wrote it, but perhaps an older agent, another machine with the same image, or a faulty disk.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agent::cluster::Node;
use agent::run::journal::Journal;
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use drain::{Action, Millis, PodOnNode, Reply};
use jiff::Timestamp;
use serde_json::json;

use crate::ParseResult;
use crate::sentence;

/// Instance id of every test.
pub(crate) const INSTANCE: &str = "i-0abc";
/// An arbitrary moment.
pub(crate) const NOON: Millis = Millis(1_767_268_800_000);
/// Possible times of a machine's clock: unset, now, and far in the future.
pub(crate) const HOURS: [Timestamp; 3] =
    [Timestamp::UNIX_EPOCH, Timestamp::constant(1_767_268_800, 0), Timestamp::constant(16_725_225_600, 0)];
/// Highest number of bytes that a few steps may add to a journal.
const GROWTH: usize = 64 * 1024;

static NODE: LazyLock<Arc<Node>> = LazyLock::new(|| {
    let node = json!({
        "metadata": {
            "name": "node", "uid": "node-uid", "annotations": {"kerf.sh/agent-heartbeat": "2026-01-01T12:00:00Z"},
        },
        "spec": {"providerID": format!("aws:///us-west-2a/{INSTANCE}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    Arc::new(serde_json::from_value(node).unwrap_or_else(|error| unreachable!("a Node: {error}")))
});

/// Returns the Node of [`INSTANCE`].
pub(crate) fn node() -> Arc<Node> {
    Arc::clone(&NODE)
}

pub(crate) fn check(bytes: &[u8]) -> ParseResult {
    let journal = match Journal::parse(bytes) {
        Ok(journal) => journal,
        Err(error) => return sentence::refused(&error),
    };
    assert_eq!(Journal::parse(&written(&journal)).ok().as_ref(), Some(&journal), "what was read is read again");
    let ours = journal.clone().carried_on(INSTANCE, journal.boot.clone());
    let rebooted = journal.clone().carried_on(INSTANCE, Some("another".to_owned()));
    for journal in [journal, ours, rebooted] {
        carried_on(journal);
    }
    ParseResult::Accepted
}

/// Asserts that an agent with this journal continues, at any time, with and without its pods.
fn carried_on(journal: Journal) {
    let before = written(&journal).len();
    let start = journal.anchor.and_then(|anchor| u64::try_from(anchor).ok()).map_or(NOON, Millis);
    let mut lifecycle = Lifecycle::new("node", journal, start);
    for seconds in [0, 1, 30, 3_600, 1_000_000] {
        let now = start + Duration::from_secs(seconds);
        lifecycle.take(Input::Node(Some(Node::clone(&node()))), now);
        let acts = lifecycle.step(now);
        acts.iter().for_each(|act| answer(&mut lifecycle, act, now));
        let _ = (lifecycle.summary(), lifecycle.poll_timeout(now));
    }
    let after = written(lifecycle.journal());
    assert!(after.len() < before + GROWTH, "{before} bytes became {}", after.len());
    assert_eq!(Journal::parse(&after).ok().as_ref(), Some(lifecycle.journal()));
}

/// Responds to an action: writes succeed, the node has one pod, and its budget refuses the eviction.
fn answer(lifecycle: &mut Lifecycle, act: &AgentAction, now: Millis) {
    let answer = match act {
        AgentAction::PatchNode(_) => Input::NodeWritten(true),
        AgentAction::PatchStatus(_) => Input::StatusWritten(true),
        AgentAction::CreateEvent(event) => Input::EventWritten(event.key.clone(), true),
        AgentAction::Complete(_) => Input::Completed(true),
        AgentAction::ReadNode(_) => Input::NodeRead(now, Some(Node::clone(&node()))),
        AgentAction::ReadAttachment { volume, .. } => Input::Detached(volume.clone()),
        AgentAction::FollowPods | AgentAction::Drain(Action::List) => Input::Pods(vec![pod()]),
        AgentAction::Drain(Action::Evict { uid, .. } | Action::Delete { uid, .. }) => {
            Input::Reply(uid.clone(), Reply::Blocked { budget: Some("default/b".to_owned()), retry_after: None })
        }
        AgentAction::Save | AgentAction::Yield => return,
    };
    lifecycle.take(answer, now);
}

fn pod() -> PodOnNode {
    PodOnNode {
        uid: "a".to_owned(),
        namespace: "default".to_owned(),
        name: "pod-a".to_owned(),
        grace_seconds: 20,
        ..PodOnNode::default()
    }
}

fn written(journal: &Journal) -> Vec<u8> {
    serde_json::to_vec(journal).unwrap_or_else(|error| unreachable!("a journal can be written: {error}"))
}
