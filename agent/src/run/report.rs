//! Reports of the agent on its Node and in events: their texts and patches. The reports are pure values, compared with the Node's
//! current state so that no report is sent twice.

use api::hash::fnv1a;
use api::{DrainProgress, RebalanceRisk, annotation, condition, label, reason};
use drain::{Drain, DrainOrders, Millis};
use machine::agent::notices::Rebalance;
use serde_json::{Value, json};

use super::journal::{self, OrderRecord, OwnedMarks};
use crate::cluster::{ConditionUpdate, Node, NodeEvent};
use crate::host::clock::{WallOffset, rfc3339};
use crate::notices::{ImdsNoticeKind, StoredNotice};

/// Prefix of the keys of all events about bootstrap.
pub const BOOTSTRAP_KEY: &str = "bootstrap-";
/// Greatest number of pod names in a message.
const NAMED: usize = 3;

/// Returns the condition `kerf.sh/Interrupted` of a node that is drained.
#[must_use]
pub fn interrupted(order: &OrderRecord, drain: Option<&Drain>, wall: WallOffset) -> ConditionUpdate {
    let deadline = order.deadline.map(|at| format!("deadline={} ", rfc3339(wall.wall_time(at)))).unwrap_or_default();
    let drain = drain.map(|drain| format!(" drain: {}", progress(drain))).unwrap_or_default();
    ConditionUpdate {
        kind: condition::INTERRUPTED,
        status: condition::TRUE,
        reason: order.reason.clone(),
        message: format!("{deadline}id={} {}{drain}", order.id, order.why),
    }
}

/// Returns the condition `kerf.sh/Interrupted` of a node that is cordoned, but not drained, for the notice.
#[must_use]
pub fn cordoned(entry: &StoredNotice, reason: &str, why: &str, wall: WallOffset) -> ConditionUpdate {
    let deadline = rfc3339(wall.wall_time(entry.at));
    ConditionUpdate {
        kind: condition::INTERRUPTED,
        status: condition::TRUE,
        reason: reason.to_owned(),
        message: format!("deadline={deadline} id={} {why}; no drain by the settings", entry.notice.id),
    }
}

/// Returns the condition `kerf.sh/Interrupted` of a node that is at risk, but not drained.
#[must_use]
pub fn at_risk(entry: &StoredNotice, policy: Rebalance) -> ConditionUpdate {
    let since = rfc3339(entry.notice.time);
    let said = RebalanceRisk { id: entry.notice.id.clone(), replace: policy == Rebalance::Replace };
    let next = if said.replace { "drain starts when its replacement is approved" } else { "no drain yet" };
    ConditionUpdate {
        kind: condition::INTERRUPTED,
        status: condition::TRUE,
        reason: reason::REBALANCE_RECOMMENDATION.to_owned(),
        message: format!("{said} rebalance recommendation since {since}; {next}"),
    }
}

/// Returns the condition `kerf.sh/MaintenanceScheduled`, with the next maintenance and the start of its drain.
#[must_use]
pub fn maintenance(next: Option<(&StoredNotice, Option<Millis>)>, wall: WallOffset) -> ConditionUpdate {
    let kind = condition::MAINTENANCE_SCHEDULED;
    let Some((entry, due)) = next else {
        let message = "no scheduled maintenance any more".to_owned();
        let reason = reason::INTERRUPTION_OVER.to_owned();
        return ConditionUpdate { kind, status: condition::FALSE, reason, message };
    };
    let code = entry.notice.kind.name();
    let drain = due.map_or_else(|| "none".to_owned(), |due| rfc3339(wall.wall_time(due)));
    let message =
        format!("id={} code={code} notBefore={} drain={drain}", entry.notice.id, rfc3339(wall.wall_time(entry.at)));
    ConditionUpdate { kind, status: condition::TRUE, reason: reason::SCHEDULED_EVENT.to_owned(), message }
}

/// Returns the condition `kerf.sh/Interrupted` with the status `False`.
#[must_use]
pub fn interruption_over() -> ConditionUpdate {
    ConditionUpdate {
        kind: condition::INTERRUPTED,
        status: condition::FALSE,
        reason: reason::INTERRUPTION_OVER.to_owned(),
        message: "cancelled, or completed by a reboot".to_owned(),
    }
}

/// Returns the merge patch that reverts the changes of an interruption to the Node's spec and metadata, as far as the agent
/// made them. `None` when nothing remains to revert.
#[must_use]
pub fn undo_patch(node: &Node, leftover: OwnedMarks) -> Option<Value> {
    let mut patch = json!({});
    if leftover.cordoned && node.spec.unschedulable {
        patch["spec"]["unschedulable"] = json!(false);
    }
    let excluded = node.metadata.labels.get(label::EXCLUDE_BALANCERS);
    if leftover.excluded && excluded.is_some_and(|by| by == label::KARPENTER) {
        patch["metadata"]["labels"][label::EXCLUDE_BALANCERS] = Value::Null;
    }
    if leftover.dated && node.metadata.annotations.contains_key(annotation::INTERRUPTION_DEADLINE) {
        patch["metadata"]["annotations"][annotation::INTERRUPTION_DEADLINE] = Value::Null;
    }
    changes(patch)
}

fn changes(patch: Value) -> Option<Value> {
    patch.as_object().is_some_and(|fields| !fields.is_empty()).then_some(patch)
}

/// Returns the progress of a drain, with the pods that block it.
fn progress(drain: &Drain) -> String {
    let blocked = drain.refusals().take(NAMED);
    blocked.fold(drain.progress().to_string(), |said, refused| format!("{said}; {refused}"))
}

/// Returns the condition `kerf.sh/Drained` of a node that is drained for `orders`.
#[must_use]
pub fn drained(
    drain: &Drain,
    orders: &DrainOrders,
    outcome: Option<&journal::DrainOutcome>,
    wall: WallOffset,
    now: Millis,
) -> ConditionUpdate {
    let report = drain.report(now);
    let (status, reason, words) = match outcome {
        None => (condition::FALSE, reason::DRAINING, draining(drain)),
        Some(outcome) if outcome.complete => (condition::TRUE, condition::DRAINED, outcome.summary.clone()),
        Some(outcome) => (condition::FALSE, reason::DRAIN_INCOMPLETE, outcome.summary.clone()),
    };
    let ids = orders.ids().map(str::to_owned).collect();
    let left = drain.progress().remaining();
    let said = DrainProgress { ids, evicted: report.evicted, forced: report.forced, left };
    let since = rfc3339(wall.wall_time(drain.started()));
    let message = format!("{said} since={since}; {words}");
    ConditionUpdate { kind: condition::NODE_DRAINED, status, reason: reason.to_owned(), message }
}

/// Returns the progress of a drain, or that it waits for volumes.
fn draining(drain: &Drain) -> String {
    let waits = if drain.is_empty() && drain.detaches() { "; waiting for volumes to detach" } else { "" };
    format!("{}{waits}", progress(drain))
}

/// Returns the condition `kerf.sh/Drained` after the last order was withdrawn.
#[must_use]
pub fn drain_withdrawn() -> ConditionUpdate {
    ConditionUpdate {
        kind: condition::NODE_DRAINED,
        status: condition::FALSE,
        reason: reason::DRAIN_WITHDRAWN.to_owned(),
        message: "drain cancelled".to_owned(),
    }
}

/// Returns whether all pods of the drain are gone, and the outcome in one sentence.
#[must_use]
pub fn outcome(drain: &Drain, now: Millis) -> (bool, String) {
    let report = drain.report(now);
    (drain.is_empty(), report.to_string())
}

/// Desired marks of a Node whose machine is about to be terminated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedMarks {
    /// Cordon against new pods.
    pub cordon: bool,
    /// Exclusion from load balancers.
    pub exclude: bool,
    /// Earliest time at which the machine may be terminated, in an annotation.
    pub deadline: Option<Millis>,
    /// Condition that reports the interruption.
    pub report: bool,
}

impl WantedMarks {
    /// Returns the marks that the agent will own.
    #[must_use]
    pub fn marks(&self) -> OwnedMarks {
        OwnedMarks {
            cordoned: self.cordon,
            excluded: self.exclude,
            dated: self.deadline.is_some(),
            reported: self.report,
        }
    }
}

/// Returns the merge patch that adds the missing marks to the Node. `None` when nothing is missing.
#[must_use]
pub fn wanted_patch(node: &Node, wanted: &WantedMarks, wall: WallOffset) -> Option<Value> {
    let mut patch = json!({});
    if wanted.cordon && !node.spec.unschedulable {
        patch["spec"]["unschedulable"] = json!(true);
    }
    if wanted.exclude && !node.metadata.labels.contains_key(label::EXCLUDE_BALANCERS) {
        patch["metadata"]["labels"][label::EXCLUDE_BALANCERS] = json!(label::KARPENTER);
    }
    let deadline = wanted.deadline.map(|at| rfc3339(wall.wall_time(at)));
    if deadline.is_some() && node.metadata.annotations.get(annotation::INTERRUPTION_DEADLINE) != deadline.as_ref() {
        patch["metadata"]["annotations"][annotation::INTERRUPTION_DEADLINE] = json!(deadline);
    }
    changes(patch)
}

impl NodeEvent {
    /// Returns the event of a new notice.
    #[must_use]
    pub fn announced(entry: &StoredNotice, wall: WallOffset) -> Self {
        let at = rfc3339(wall.wall_time(entry.at));
        let (warning, reason, message) = match &entry.notice.kind {
            ImdsNoticeKind::Spot { action } => {
                (true, reason::SPOT_INTERRUPTION, format!("Spot interruption ({action}) at {at}; draining"))
            }
            ImdsNoticeKind::Shutdown => {
                (true, reason::INSTANCE_SHUTDOWN, "The operating system shuts down; draining".to_owned())
            }
            ImdsNoticeKind::Reboot => (false, reason::INSTANCE_REBOOT, "The operating system reboots".to_owned()),
            ImdsNoticeKind::Scaling => {
                (true, reason::ASG_LIFECYCLE, "The Auto Scaling group terminates this instance; draining".to_owned())
            }
            ImdsNoticeKind::Maintenance { code, .. } => {
                (true, reason::SCHEDULED_EVENT, format!("Scheduled maintenance {code} at {at} or later"))
            }
            ImdsNoticeKind::Rebalance => {
                let message = format!("Rebalance recommendation since {at}");
                (false, reason::REBALANCE_RECOMMENDATION, message)
            }
        };
        Self { key: entry.notice.id.clone(), warning, reason, message }
    }

    /// Returns the event of a notice that was canceled, or whose interruption is over.
    #[must_use]
    pub fn over(entry: &StoredNotice) -> Self {
        let what = entry.notice.kind.name();
        Self {
            key: format!("over-{}", entry.notice.id),
            warning: false,
            reason: reason::INTERRUPTION_OVER,
            message: format!("Interruption ({what}) cancelled or completed"),
        }
    }

    /// Returns the event of a finished drain with the deadline `by`.
    #[must_use]
    pub fn drained(orders: &DrainOrders, outcome: &journal::DrainOutcome, by: Option<Millis>) -> Self {
        let journal::DrainOutcome { complete, summary } = outcome;
        let by = by.map(|at| format!(" by {}", rfc3339(at))).unwrap_or_default();
        let ids: Vec<&str> = orders.ids().collect();
        Self {
            key: format!("drained-{}", ids.join("-")),
            warning: !complete,
            reason: if *complete { condition::DRAINED } else { reason::FAILED_DRAINING },
            message: format!("Drain{by} ({}): {summary}", orders.reasons()),
        }
    }

    /// Returns the event of a bootstrap that failed because of invalid user data.
    #[must_use]
    pub fn bootstrap_failed(why: &str) -> Self {
        Self {
            key: format!("{BOOTSTRAP_KEY}failed-{:016x}", fnv1a(why.bytes())),
            warning: true,
            reason: reason::BOOTSTRAP_FAILED,
            message: format!("Bootstrap failed: {why}"),
        }
    }

    /// Returns the event of a bootstrap that has been waiting for too long.
    #[must_use]
    pub fn bootstrap_waiting(why: &str) -> Self {
        Self {
            key: format!("{BOOTSTRAP_KEY}waiting-{:016x}", fnv1a(why.bytes())),
            warning: true,
            reason: reason::BOOTSTRAP_WAITING,
            message: format!("Bootstrap is waiting: {why}"),
        }
    }
}
