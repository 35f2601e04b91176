//! Disruption commands: from the start to the deletion of their NodeClaims, or to a rollback.
//!
//! The state of a command is on its NodeClaims. The condition `DisruptionReason` has its reason and start. The annotation
//! [`annotation::REPLACED_BY`] has the replacements that must be initialized first. So any process can continue a command, also
//! after a crash. Everything here is pure except `execute`.

mod execute;
mod labels;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::objects::{Node, Pod, Unevictable};
use api::status::Conditioned;
use api::{NodeClaim, Taint, annotation, condition, reason, taint};
use jiff::Timestamp;
use planner::CommandReason;
use serde_json::json;

pub use execute::Disruptor;
pub use labels::{CommandKind, named, said_of};
pub use start::{DisruptionCommand, begin, finish, stale};

use crate::reconcile::node::surges;
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Maximum wait for replacements: this much for each node of any command, within the bounds below.
const PATIENCE_EACH: Duration = Duration::from_millis(80);
const LEAST_PATIENCE: Duration = Duration::from_secs(10 * 60);
const MOST_PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Pods of Nodes, by Node, from a live list. A watch may be late, and what it does not show is lost with the node.
pub type LivePods = BTreeMap<String, Vec<Arc<Pod>>>;

/// NodeClaim to disrupt, with the pods that prevent its disruption.
#[derive(Clone, Debug)]
pub struct DisruptedClaim {
    /// NodeClaim to disrupt.
    pub claim: Arc<NodeClaim>,
    /// Its node, if it exists.
    pub node: Option<Arc<Node>>,
    /// Reason why a pod blocks the node: the pod has do-not-disrupt, or can never be evicted.
    pub held_by: Option<String>,
    /// Reason why a pod of the node may not be moved to save money yet: it came after the plan.
    pub rests: Option<String>,
    /// True if the node has pods that would need another node.
    pub in_use: bool,
}

/// Input of a decision about a command in progress.
#[derive(Clone, Debug)]
pub struct CommandView {
    /// NodeClaims to disrupt.
    pub leavers: Vec<DisruptedClaim>,
    /// Replacements that must be initialized first, by name; `None` if deleted.
    pub replacements: Vec<(String, Option<Arc<NodeClaim>>)>,
    /// Number of NodeClaims in any command.
    pub queued: usize,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decision about a command in progress.
#[derive(Debug, Default)]
pub struct CommandDecision {
    /// Operations in order.
    pub steps: Vec<Operation>,
    /// Delay before the next reconcile without a change.
    pub after: Option<Duration>,
    /// End of the command, counted after the operations.
    pub end: Option<CommandEnd>,
}

/// End of a command.
#[derive(Clone, Debug)]
pub enum CommandEnd {
    /// Deletion of these NodeClaims.
    Done {
        /// Kind of the command.
        kind: CommandKind,
        /// NodeClaims before their deletion.
        claims: Vec<Arc<NodeClaim>>,
    },
    /// Rollback, which keeps the nodes.
    RolledBack {
        /// Kind of the command.
        kind: CommandKind,
        /// Reason of the rollback.
        why: String,
        /// NodeClaims that stay.
        claims: Vec<Arc<NodeClaim>>,
        /// Number of replacements that were not initialized.
        unready: usize,
        /// Replacements that were not initialized in time; empty after any other cause.
        late: Vec<Arc<NodeClaim>>,
    },
}

/// Returns the command with this list of replacements, or `None` if no NodeClaim has the list. Nodes without live pods have
/// those of the index.
#[must_use]
pub fn view(index: &Index, id: &str, live: &LivePods, now: Timestamp) -> Option<CommandView> {
    let moving = || index.claims.values().filter(|claim| claim.replaced_by().is_some());
    let of_move = moving().filter(|claim| claim.replaced_by() == Some(id));
    let leavers: Vec<DisruptedClaim> = of_move.map(|claim| leaver(index, claim, live, now)).collect();
    let replacements = id.split(',').map(|name| (name.to_owned(), index.claims.get(name).cloned())).collect();
    (!leavers.is_empty()).then(|| CommandView { leavers, replacements, queued: moving().count(), now })
}

fn leaver(index: &Index, claim: &Arc<NodeClaim>, live: &LivePods, now: Timestamp) -> DisruptedClaim {
    let node = index.node_of_claim(claim).cloned();
    let name = node.as_ref().map_or("", |node| node.name());
    let known = live.get(name).cloned().unwrap_or_else(|| index.pods_on(name).cloned().collect());
    let pods = || known.iter().filter(|pod| !pod.is_terminal());
    DisruptedClaim {
        claim: Arc::clone(claim),
        held_by: pods().find_map(|pod| hold(index, claim, pod, now)),
        rests: pods().find_map(|pod| rest(pod, now)),
        in_use: pods().any(|pod| !pod.is_daemon() && !pod.is_static() && (!pod.is_terminating() || pod.is_stateful())),
        node,
    }
}

/// Returns the reason why the pod blocks its node, if it does. A budget that allows no disruption now does not block: it may
/// allow one soon.
fn hold(index: &Index, claim: &NodeClaim, pod: &Pod, now: Timestamp) -> Option<String> {
    let name = || format!("pod {}/{}", pod.namespace(), pod.name());
    if pod.is_do_not_disrupt(now) {
        return Some(format!("{} has karpenter.sh/do-not-disrupt since", name()));
    }
    let own = index.budgets_of(pod);
    let surges = !own.is_empty() && surges(index, claim, pod);
    Some(format!("{} can never be evicted: {}", name(), Unevictable::from_pod(pod, &own, surges, now)?))
}

/// Returns the reason why the pod may not be moved to save money, if it may not. A plan moves no such pod, so this one has started
/// since.
fn rest(pod: &Pod, now: Timestamp) -> Option<String> {
    let until = pod.rests_until().ok().flatten().filter(|until| *until > now && !pod.is_terminating())?;
    let name = format!("pod {}/{}", pod.namespace(), pod.name());
    Some(format!("{name} has started since, and {} protects it until {until}", annotation::DISRUPT_AT_MOST_ONCE_PER))
}

/// Decides about one command.
#[must_use]
pub fn decide(view: &CommandView) -> CommandDecision {
    let staying: Vec<&DisruptedClaim> = view.leavers.iter().filter(|leaver| !is_going(&leaver.claim)).collect();
    if staying.is_empty() {
        return CommandDecision::default();
    }
    let kind = kind(view, &staying);
    if let Some(obstacle) = obstacle(view, &staying, &kind) {
        return roll_back(view, &staying, kind, obstacle);
    }
    let mut decision = CommandDecision {
        steps: staying.iter().filter_map(|leaver| close(leaver)).collect(),
        ..CommandDecision::default()
    };
    if is_ready(view) || !kind.waits() {
        let reason = kind.reason.clone();
        decision.steps.extend(staying.iter().flat_map(|leaver| give_back(leaver, &reason, view.now)));
        let claims = staying.iter().map(|leaver| Arc::clone(&leaver.claim)).collect();
        decision.end = Some(CommandEnd::Done { kind, claims });
    } else {
        decision.steps.extend(view.replacements.iter().filter_map(|(_, found)| tell_of(found.as_ref()?, &kind.reason)));
        decision.after = begun(&staying).map(|begun| left(begun, patience(view.queued), view.now));
    }
    decision
}

fn is_going(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

fn why(claim: &NodeClaim) -> Option<&api::Condition> {
    api::status::find(claim.conditions(), condition::DISRUPTION_REASON).filter(|found| found.is_true())
}

fn begun(leavers: &[&DisruptedClaim]) -> Option<Timestamp> {
    leavers.iter().filter_map(|leaver| Some(why(&leaver.claim)?.last_transition_time.0)).min()
}

fn kind(view: &CommandView, staying: &[&DisruptedClaim]) -> CommandKind {
    let reason = staying.iter().find_map(|leaver| Some(why(&leaver.claim)?.reason.clone())).unwrap_or_default();
    CommandKind { reason, replaces: !view.replacements.is_empty(), nodes: view.leavers.len() }
}

fn is_ready(view: &CommandView) -> bool {
    let ready = |claim: &Arc<NodeClaim>| claim.is_true(condition::INITIALIZED);
    view.replacements.iter().all(|(_, found)| found.as_ref().is_some_and(ready))
}

/// Reason why a command cannot continue.
struct Obstacle {
    why: String,
    /// True if replacements were not initialized in time.
    is_late: bool,
}

fn obstacle(view: &CommandView, staying: &[&DisruptedClaim], kind: &CommandKind) -> Option<Obstacle> {
    if let Some(why) = hindrance(view, staying, kind) {
        return Some(Obstacle { why, is_late: false });
    }
    let patience = patience(view.queued);
    let late = begun(staying).is_some_and(|begun| left(begun, patience, view.now).is_zero());
    let why = || format!("replacements were not initialized within {} s", patience.as_secs());
    (late && !is_ready(view)).then(|| Obstacle { why: why(), is_late: true })
}

/// Returns the reason why the command cannot continue, other than the time.
fn hindrance(view: &CommandView, staying: &[&DisruptedClaim], kind: &CommandKind) -> Option<String> {
    if let Some(half) = staying.iter().find(|leaver| why(&leaver.claim).is_none()) {
        return Some(format!("the command was not started completely: {} has no reason", name(&half.claim)));
    }
    let lost = view.replacements.iter().find(|(_, found)| found.as_ref().is_none_or(|claim| is_going(claim)));
    if let Some((name, _)) = lost.filter(|_| kind.waits()) {
        return Some(format!("replacement {name} was deleted"));
    }
    staying.iter().find_map(|leaver| blocking_pod(leaver, kind))
}

/// Returns the reason why a pod of the node blocks the command.
fn blocking_pod(leaver: &DisruptedClaim, kind: &CommandKind) -> Option<String> {
    let saves = [CommandReason::Empty, CommandReason::Underutilized].iter().any(|reason| kind.is(*reason));
    let held = leaver.held_by.as_ref().filter(|_| respects_blocked_pods(&leaver.claim, kind));
    held.or_else(|| leaver.rests.as_ref().filter(|_| saves)).cloned()
}

/// Reports whether a blocked pod blocks the command too. Drift and expiration continue if the NodeClaim has a termination grace
/// period.
fn respects_blocked_pods(claim: &NodeClaim, kind: &CommandKind) -> bool {
    let forced = [CommandReason::Drifted, CommandReason::Expired].iter().any(|reason| kind.is(*reason));
    kind.waits() && !(forced && claim.spec.termination_grace_period.is_some())
}

fn patience(queued: usize) -> Duration {
    let all = PATIENCE_EACH.saturating_mul(u32::try_from(queued).unwrap_or(u32::MAX));
    all.clamp(LEAST_PATIENCE, MOST_PATIENCE)
}

fn left(begun: Timestamp, patience: Duration, now: Timestamp) -> Duration {
    patience.saturating_sub(Duration::try_from(now.duration_since(begun)).unwrap_or_default())
}

/// Rolls a command back and opens its nodes. The list of replacements is removed last: as long as it exists, the next reconcile
/// completes the rollback.
fn roll_back(
    view: &CommandView,
    staying: &[&DisruptedClaim],
    kind: CommandKind,
    obstacle: Obstacle,
) -> CommandDecision {
    let Obstacle { why, is_late } = obstacle;
    let mut steps: Vec<Operation> = staying.iter().filter_map(|leaver| open(leaver.node.as_ref()?)).collect();
    steps.extend(staying.iter().filter_map(|leaver| unsay(&leaver.claim, view.now)));
    let notes = staying.iter().flat_map(|leaver| {
        said_of(
            &leaver.claim,
            leaver.node.as_deref(),
            reason::DISRUPTION_BLOCKED,
            &format!("Disruption rolled back: {why}"),
        )
    });
    steps.extend(notes.map(Operation::Note));
    let unmark = json!({"metadata": {"annotations": {annotation::REPLACED_BY: null}}});
    steps.extend(staying.iter().map(|leaver| Operation::Patch(target(&leaver.claim), unmark.clone())));
    let ready = |claim: &Arc<NodeClaim>| claim.is_true(condition::INITIALIZED);
    let unready = view.replacements.iter().filter(|(_, found)| !found.as_ref().is_some_and(ready));
    let late = unready.clone().filter(|_| is_late).filter_map(|(_, found)| found.clone()).collect();
    let claims = staying.iter().map(|leaver| Arc::clone(&leaver.claim)).collect();
    let end = CommandEnd::RolledBack { kind, why, claims, unready: unready.count(), late };
    CommandDecision { steps, end: Some(end), after: None }
}

/// Deletes the NodeClaim; its termination does the rest. An unhealthy node does not wait for its pods.
fn give_back(leaver: &DisruptedClaim, reason: &str, now: Timestamp) -> Vec<Operation> {
    let claim = &leaver.claim;
    let mut steps = Vec::new();
    if reason == CommandReason::Unhealthy.as_str() && !is_overdue(claim, now) {
        let annotations = json!({annotation::TERMINATION_TIMESTAMP: now.to_string()});
        steps.push(Operation::Patch(target(claim), json!({"metadata": {"annotations": annotations}})));
    }
    steps.push(Operation::Delete(target(claim), claim.metadata.uid.clone().unwrap_or_default()));
    let message = format!("Disrupting Node: {reason}");
    let notes = said_of(claim, leaver.node.as_deref(), reason::DISRUPTION_TERMINATING, &message);
    steps.extend(notes.into_iter().map(Operation::Note));
    steps
}

/// Reports whether the termination deadline of the NodeClaim has passed.
fn is_overdue(claim: &NodeClaim, now: Timestamp) -> bool {
    let deadline = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotation::TERMINATION_TIMESTAMP));
    deadline.and_then(|text| text.parse::<Timestamp>().ok()).is_some_and(|deadline| deadline <= now)
}

/// Returns the event of a replacement that is not initialized yet.
fn tell_of(claim: &Arc<NodeClaim>, why: &str) -> Option<Operation> {
    let note =
        |reason, message| Some(Operation::Note(Event::normal(ObjectReference::to(claim.as_ref()), reason, message)));
    match (claim.is_true(condition::LAUNCHED), claim.is_true(condition::INITIALIZED)) {
        (_, true) => None,
        (false, false) => note(reason::DISRUPTION_LAUNCHING, format!("Launching NodeClaim: {why}")),
        (true, false) => {
            let message = "Replaced nodes are removed after its initialization".to_owned();
            note(reason::DISRUPTION_WAITING_READINESS, message)
        }
    }
}

/// Taints a node in the version that was read, so that it receives no new pods.
fn close(leaver: &DisruptedClaim) -> Option<Operation> {
    let node = leaver.node.as_ref().filter(|node| !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE))?;
    let mut taints = others(node);
    taints.push(Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE));
    Some(set_taints(node, &taints))
}

/// Removes the taint, so that the node receives pods again.
fn open(node: &Arc<Node>) -> Option<Operation> {
    let closed = node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE) && node.metadata.deletion_timestamp.is_none();
    closed.then(|| set_taints(node, &others(node)))
}

fn others(node: &Node) -> Vec<Taint> {
    node.spec.taints.iter().filter(|found| found.key != taint::DISRUPTED).cloned().collect()
}

fn set_taints(node: &Node, taints: &[Taint]) -> Operation {
    let patch = json!({
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": taints},
    });
    Operation::Patch(Target::Node(node.name().to_owned()), patch)
}

/// Sets the condition DisruptionReason on the NodeClaim.
fn say(claim: &NodeClaim, why: &str, now: Timestamp) -> Option<Operation> {
    change_status(claim, |claim| claim.set(condition::DISRUPTION_REASON, condition::TRUE, why, "", now))
}

fn unsay(claim: &NodeClaim, now: Timestamp) -> Option<Operation> {
    change_status(claim, |claim| claim.clear(condition::DISRUPTION_REASON, now))
}

fn change_status(before: &NodeClaim, change: impl FnOnce(&mut NodeClaim) -> bool) -> Option<Operation> {
    let mut claim = before.clone();
    let patch = |claim: &NodeClaim| patches::status(&before.metadata, &before.status, &claim.status);
    change(&mut claim).then(|| Operation::PatchStatus(target(before), patch(&claim)))
}

fn target(claim: &NodeClaim) -> Target {
    Target::Claim(name(claim).to_owned())
}

fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
