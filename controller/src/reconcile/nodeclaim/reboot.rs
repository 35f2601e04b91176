//! Reboots. The NodeClaim of an instance that reboots is kept until a time limit, and replaced if the node has not returned by
//! then. Begin and end of a reboot are a condition of the NodeClaim: a node reports a reboot, but its time limit does not depend
//! on the node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::objects::Node;
use api::status::Conditioned;
use api::{Condition, NodeClaim, annotation, condition, reason};
use jiff::Timestamp;
use serde_json::json;

use super::{NodeClaimDecision, NodeClaimView, delete, target, time_left};
use crate::informer::interruption::{NoticeKind, notice_limit};
use crate::state::index::Index;
use crate::state::nominations::after;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::Operation;

/// Time limit of a reboot by default. Instances with large memory or without virtualization take minutes.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Greatest time from the report to the announced begin of the reboot that is added to the limit: a node is drained ahead of
/// scheduled maintenance.
const LEAD: Duration = Duration::from_secs(60 * 60);

/// Returns the time limit of a reboot. The EC2NodeClass reports an invalid one.
#[must_use]
pub fn timeout(index: &Index, claim: &NodeClaim) -> Duration {
    let class = index.classes.get(&claim.spec.node_class_ref.name);
    class.and_then(|class| class.reboot_timeout().ok().flatten()).unwrap_or(TIMEOUT)
}

/// Reports whether a reboot explains the controller's own notice. A rebooting instance fails its status checks, and its agent
/// follows scheduled maintenance after the boot. The end of the instance is never explained.
#[must_use]
pub(super) fn explains(view: &NodeClaimView, kind: NoticeKind) -> bool {
    let is_explained =
        matches!(kind, NoticeKind::InstanceStatus | NoticeKind::ScheduledChange | NoticeKind::EventStatus);
    is_explained && (view.claim.is_true(condition::REBOOTING) || reported(view).is_some())
}

/// Follows the reboot of a registered node. Returns the decision that gives up the NodeClaim after the time limit.
pub(super) fn follow(
    view: &NodeClaimView,
    claim: &mut NodeClaim,
    decision: &mut NodeClaimDecision,
) -> Option<NodeClaimDecision> {
    let Some(node) = reported(view) else {
        if let Some(known) = condition_of(claim).cloned() {
            finish(view, claim, &known, decision);
        }
        return None;
    };
    let record = running(view, claim, node);
    let left = time_until(record.end, view.now);
    if left.is_zero() && !view.is_notice_held {
        return Some(give_up(view, node, record.end));
    }
    let message = format!("{record}; replaced if the node has not returned by then");
    claim.set(condition::REBOOTING, condition::TRUE, reason::INSTANCE_REBOOT, &message, view.now);
    decision.wake(if left.is_zero() { notice_limit::RECHECK } else { left });
    None
}

/// Reports whether the node says that it reboots and has exceeded the time limit.
pub(super) fn is_overdue(view: &NodeClaimView) -> bool {
    let is_registered = view.claim.is_true(condition::REGISTERED);
    let node = reported(view).filter(|_| is_registered);
    node.is_some_and(|node| time_until(running(view, &view.claim, node).end, view.now).is_zero())
}

/// Returns the record of the reboot that the node reports.
fn running(view: &NodeClaimView, claim: &NodeClaim, node: &Node) -> Record {
    let known = condition_of(claim);
    let record = known.map_or_else(|| Record::new(view), |known| Record::parse(known, view));
    let since = known.filter(|known| known.is_true()).map_or(view.now, |known| known.last_transition_time.0);
    Record { end: record.limit(since, node.interruption_deadline()), ..record }
}

fn reported(view: &NodeClaimView) -> Option<&Arc<Node>> {
    view.nodes.first().filter(|node| node.reboot().is_some())
}

fn condition_of(claim: &NodeClaim) -> Option<&Condition> {
    api::status::find(claim.conditions(), condition::REBOOTING)
}

fn time_until(end: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}

/// Records the end of a reboot. The record stays as long as a reboot may take, so that reboots in quick succession have one time
/// limit together.
fn finish(view: &NodeClaimView, claim: &mut NodeClaim, known: &Condition, decision: &mut NodeClaimDecision) {
    if known.is_true() {
        let record = Record::parse(known, view);
        let budget = record.budget.min(time_until(record.end, view.now));
        let message = format!("{}; the node has returned", Record { budget, ..record });
        claim.set_false(condition::REBOOTING, reason::REBOOTED, &message, view.now);
        decision.wake(view.reboot_timeout);
        return;
    }
    let left = time_left(known.last_transition_time.0, view.reboot_timeout, view.now);
    if left.is_zero() {
        claim.clear(condition::REBOOTING, view.now);
    } else {
        decision.wake(left);
    }
}

/// Reboots of a node in quick succession, as the message of the condition has them.
struct Record {
    /// Time of the first report.
    first: Timestamp,
    /// Time that reboots may still take.
    budget: Duration,
    /// End of the time limit.
    end: Timestamp,
}

impl Record {
    fn new(view: &NodeClaimView) -> Self {
        Self { first: view.now, budget: view.reboot_timeout, end: after(view.now, view.reboot_timeout) }
    }

    /// Parses the message. A word that is missing has its value for a reboot that began with the condition.
    fn parse(known: &Condition, view: &NodeClaimView) -> Self {
        let words = || known.message.split([' ', ';']).filter_map(|word| word.split_once('='));
        let word = |key: &str| words().find(|(name, _)| *name == key).map(|(_, value)| value);
        let time = |key: &str| word(key).and_then(|text| text.parse::<Timestamp>().ok());
        let since = known.last_transition_time.0;
        let seconds = word("budget").and_then(|text| text.trim_end_matches('s').parse().ok());
        let budget = seconds.map_or(view.reboot_timeout, Duration::from_secs);
        Self { first: time("first").unwrap_or(since), budget, end: time("end").unwrap_or_else(|| after(since, budget)) }
    }

    /// Returns the end of the time limit of a reboot that is reported since `since`. The announced begin is the node's own word,
    /// so it moves the limit by [`LEAD`] from the first report at most.
    fn limit(&self, since: Timestamp, announced: Option<Timestamp>) -> Timestamp {
        let latest = after(self.first, LEAD).max(since);
        after(announced.unwrap_or(since).clamp(since, latest), self.budget)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "first={} budget={}s end={}", self.first, self.budget.as_secs(), self.end)
    }
}

/// Deletes the NodeClaim. Pods on a node whose kubelet does not respond are not waited for.
fn give_up(view: &NodeClaimView, node: &Arc<Node>, end: Timestamp) -> NodeClaimDecision {
    let claim = &view.claim;
    let message = format!(
        "the node has not returned from its reboot by {end}: check the console output of its instance, or raise the \
         annotation {} of the EC2NodeClass",
        annotation::REBOOT_TIMEOUT
    );
    let objects = [ObjectReference::to(claim.as_ref()), ObjectReference::to(node.as_ref())];
    let mut steps: Vec<Operation> = objects
        .into_iter()
        .map(|object| Operation::Note(Event::warning(object, reason::REBOOT_TIMEOUT, message.clone())))
        .collect();
    if !node.is_ready() {
        let annotations = json!({annotation::TERMINATION_TIMESTAMP: view.now.to_string()});
        steps.push(Operation::Patch(target(claim), json!({"metadata": {"annotations": annotations}})));
    }
    steps.push(delete(claim));
    NodeClaimDecision { steps, disrupted: Some("reboot_timeout"), ..NodeClaimDecision::default() }
}
