//! What the agent says on its Node and in events: pure shapes, diffed against what the Node says already so that nothing is said twice.

use api::{annotation, condition, label, reason};
use drain::{Drain, Millis, PodOnNode, Refusal};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::Node;
use crate::interruption::{Kind, Notice};
use crate::journal::Leftover;

/// Who the events are from.
const COMPONENT: &str = "kerf-agent";
/// How the keys of all tidings about bootstrap begin.
pub const BOOTSTRAP_KEY: &str = "bootstrap-";
/// Names of pods listed in a message.
const NAMED: usize = 3;

/// A condition as the agent wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its type.
    pub kind: &'static str,
    /// `True` or `False`.
    pub status: &'static str,
    /// In one word (or several gates, with commas).
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// A `core/v1` Event to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiding {
    /// The same tiding has the same key over restarts.
    pub key: String,
    /// Warning rather than Normal.
    pub warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// RFC 3339 in whole seconds, as Kubernetes writes it.
#[must_use]
pub fn rfc3339(moment: Millis) -> String {
    let seconds = i64::try_from(moment.0 / 1000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}

/// The condition `kerf.sh/Interrupted` for these notices; the spot notice outweighs the recommendation.
#[must_use]
pub fn interrupted(spot: Option<&Notice>, rebalance: Option<&Notice>, drain: Option<&Drain>) -> Option<Statement> {
    let notice = spot.or(rebalance)?;
    let at = rfc3339(notice.time);
    let (reason, message) = match &notice.kind {
        Kind::Spot { action } => {
            let drain = drain.map(progress).unwrap_or_default();
            (reason::SPOT_INTERRUPTION, format!("deadline={at} action={action}{drain}"))
        }
        Kind::Rebalance => {
            let risk = format!("EC2 sees an elevated risk of interruption since {at}; nothing is drained yet");
            (reason::REBALANCE_RECOMMENDATION, risk)
        }
    };
    Some(Statement { kind: condition::INTERRUPTED, status: condition::TRUE, reason: reason.to_owned(), message })
}

/// Takes back the condition `kerf.sh/Interrupted` of an earlier boot.
#[must_use]
pub fn interruption_over() -> Statement {
    Statement {
        kind: condition::INTERRUPTED,
        status: condition::FALSE,
        reason: reason::INTERRUPTION_OVER.to_owned(),
        message: "the machine has booted again since it was interrupted".to_owned(),
    }
}

/// The merge patch that takes back what an interruption before this boot did to the Node's specification and metadata. `None` when
/// nothing of it is left.
#[must_use]
pub fn undo_patch(node: &Node, leftover: Leftover) -> Option<Value> {
    let mut patch = json!({});
    if leftover.cordoned && node.spec.unschedulable {
        patch["spec"]["unschedulable"] = json!(false);
    }
    let excluded = node.metadata.labels.get(label::EXCLUDE_BALANCERS);
    if leftover.cordoned && excluded.is_some_and(|by| by == label::KARPENTER) {
        patch["metadata"]["labels"][label::EXCLUDE_BALANCERS] = Value::Null;
    }
    if node.metadata.annotations.contains_key(annotation::INTERRUPTION_DEADLINE) {
        patch["metadata"]["annotations"][annotation::INTERRUPTION_DEADLINE] = Value::Null;
    }
    changes(patch)
}

fn changes(patch: Value) -> Option<Value> {
    patch.as_object().is_some_and(|fields| !fields.is_empty()).then_some(patch)
}

fn progress(drain: &Drain) -> String {
    let blocked: Vec<String> = drain.refusals().take(NAMED).map(refusal).collect();
    format!(" drain: {}{}", drain.progress(), blocked.concat())
}

fn refusal((pod, why, budget): (&PodOnNode, Refusal, Option<&str>)) -> String {
    let budget = budget.map(|budget| format!(" ({budget})")).unwrap_or_default();
    format!("; {}/{}: {why}{budget}", pod.namespace, pod.name)
}

/// How a drain went, in a sentence, and whether everything that had to go is gone.
#[must_use]
pub fn outcome(drain: &Drain, now: Millis) -> (bool, String) {
    let report = drain.report(now);
    (drain.is_empty(), report.to_string())
}

/// The merge patch that cordons the Node, takes it out of load balancers and names the deadline, as far as it is not so already.
/// `None` when there is nothing to change.
#[must_use]
pub fn interruption_patch(node: &Node, spot: &Notice) -> Option<Value> {
    let mut patch = json!({});
    let deadline = rfc3339(spot.time);
    if !node.spec.unschedulable {
        patch["spec"]["unschedulable"] = json!(true);
    }
    if !node.metadata.labels.contains_key(label::EXCLUDE_BALANCERS) {
        patch["metadata"]["labels"][label::EXCLUDE_BALANCERS] = json!(label::KARPENTER);
    }
    if node.metadata.annotations.get(annotation::INTERRUPTION_DEADLINE) != Some(&deadline) {
        patch["metadata"]["annotations"][annotation::INTERRUPTION_DEADLINE] = json!(deadline);
    }
    changes(patch)
}

/// The strategic merge patch of the Node's status for these conditions. `flipped` says whose status changes: only theirs is the
/// transition time that is set.
#[must_use]
pub fn status_patch(said: &[Statement], flipped: impl Fn(&Statement) -> bool, now: Millis) -> Value {
    let at = rfc3339(now);
    let conditions: Vec<Value> = said
        .iter()
        .map(|statement| {
            let mut condition = json!({
                "type": statement.kind,
                "status": statement.status,
                "reason": statement.reason,
                "message": statement.message,
                "lastHeartbeatTime": at,
            });
            if flipped(statement) {
                condition["lastTransitionTime"] = json!(at);
            }
            condition
        })
        .collect();
    json!({"status": {"conditions": conditions}})
}

impl Tiding {
    /// EC2 takes the machine back.
    #[must_use]
    pub fn spot(notice: &Notice, action: &str) -> Self {
        Self {
            key: notice.id.clone(),
            warning: true,
            reason: reason::SPOT_INTERRUPTION,
            message: format!("EC2 takes this machine back ({action}) at {}; draining", rfc3339(notice.time)),
        }
    }

    /// EC2 may take the machine back.
    #[must_use]
    pub fn rebalance(notice: &Notice) -> Self {
        Self {
            key: notice.id.clone(),
            warning: false,
            reason: reason::REBALANCE_RECOMMENDATION,
            message: format!("EC2 sees an elevated risk of interruption since {}", rfc3339(notice.time)),
        }
    }

    /// The drain is over.
    #[must_use]
    pub fn drained(notice: &Notice, complete: bool, summary: &str) -> Self {
        Self {
            key: format!("drained-{}", notice.id),
            warning: !complete,
            reason: if complete { condition::DRAINED } else { reason::FAILED_DRAINING },
            message: format!("Drain for the interruption at {}: {summary}", rfc3339(notice.time)),
        }
    }

    /// Bootstrap cannot follow what the machine was told.
    #[must_use]
    pub fn bootstrap_failed(why: &str) -> Self {
        Self {
            key: format!("{BOOTSTRAP_KEY}failed-{:016x}", fnv(why)),
            warning: true,
            reason: reason::BOOTSTRAP_FAILED,
            message: format!("The agent cannot bootstrap this node: {why}"),
        }
    }

    /// Bootstrap has waited for too long.
    #[must_use]
    pub fn bootstrap_waiting(why: &str) -> Self {
        Self {
            key: format!("{BOOTSTRAP_KEY}waiting-{:016x}", fnv(why)),
            warning: true,
            reason: reason::BOOTSTRAP_WAITING,
            message: format!("The agent waits to bootstrap this node: {why}"),
        }
    }

    /// The Event about the Node `name`. Its own name follows from its key, so that telling it twice is refused by the server. Without a
    /// Node the event names it all the same: `kubectl describe node` finds it by that.
    #[must_use]
    pub fn event(&self, name: &str, node: Option<&Node>, now: Millis) -> Value {
        let at = rfc3339(now);
        let uid = node.map_or(name, |node| node.metadata.uid.as_str());
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{:016x}", fnv(&self.key)), "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
            "type": if self.warning { "Warning" } else { "Normal" },
            "reason": self.reason,
            "message": self.message.chars().take(1000).collect::<String>(),
            "source": {"component": COMPONENT, "host": name},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "reportingComponent": COMPONENT,
            "reportingInstance": name,
        })
    }
}

/// FNV-1a: short, and the same after every restart and upgrade.
pub(crate) fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
