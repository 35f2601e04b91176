//! Gates of the agent and other startup taints, as the controller handles them. The agent's taint is removed in two writes after
//! the agent's report. A NodeClaim whose gates remain closed for longer than its EC2NodeClass allows is deleted, and so is one
//! whose startup taints nothing removes, or whose kubelet does not become ready. Plans expect pods on such a node until then.

use std::sync::Arc;
use std::time::Duration;

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, Taint, annotation, condition, reason, taint};
use jiff::Timestamp;
use serde_json::json;

use super::{NodeClaimDecision, NodeClaimView, delete, name, target, time_left};
use crate::reconcile::node::has_live_agent;
use crate::state::index::Index;
use crate::state::registration_health::Registration;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Delay between the two writes that remove the taint, from the second of the first write (timestamps have no fractions): a
/// quarter of a second at least.
const SETTLE: Duration = Duration::from_millis(1250);
/// Delay before the next check of a node that waits for other replacements in its NodePool.
const TURN: Duration = Duration::from_secs(30);
/// Time for which a node must not be ready at the limit. A restart of kubelet or of the container runtime takes less.
const UNREADY: Duration = Duration::from_secs(2 * 60);
/// Maximum number of characters of kubelet's message.
const REPORT: usize = 300;
/// State of an agent that is live and has not published its gates yet.
const NO_REPORT: &str = "no report of the agent";
/// Reasons of NodeClaims that pods could not use in time.
const TIMEOUTS: [&str; 3] = [reason::GATE_TIMEOUT, reason::STARTUP_TAINT_TIMEOUT, reason::NOT_READY_TIMEOUT];

/// Limit for the closed gates and the startup taints of a NodeClaim's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimit {
    /// Maximum time since the registration.
    pub timeout: Duration,
    /// True if the limit applies to gates that a live agent reports as closed. The agent may open them at any time.
    pub gates: bool,
    /// True if pods run on the node. Then a node without obstacles but readiness stays: kubelet may only have restarted.
    pub in_use: bool,
    /// True if this node may be replaced now: at most a fifth of a NodePool is replaced at a time.
    pub turn: bool,
}

impl GateLimit {
    /// Returns the limit of the NodeClaim's EC2NodeClass, only for NodeClaims that wait for gates or startup taints.
    #[must_use]
    pub fn from_index(index: &Index, claim: &NodeClaim, now: Timestamp) -> Option<Self> {
        let waiting = claim.is_true(condition::REGISTERED) && !claim.is_true(condition::INITIALIZED);
        let class = index.classes.get(&claim.spec.node_class_ref.name).filter(|_| waiting)?;
        let gates = class.gate_timeout().is_ok_and(|timeout| timeout.is_some());
        let node_of = |claim: &NodeClaim| index.node_of_claim(claim).map(Arc::as_ref);
        let in_use = node_of(claim).is_some_and(|node| index.is_in_use(node.name()));
        let limit = Self { timeout: class.startup_timeout()?, gates, in_use, turn: true };
        if !limit.is_late(claim, node_of(claim), now) {
            return Some(limit);
        }
        let stays = |other: &NodeClaim, node: &Node| hold(other, node, now).is_none() && index.is_in_use(node.name());
        let candidate = |other| (other, node_of(other).filter(|node| !stays(other, node)));
        let pool: Vec<_> = index.claims_of_pool(claim.nodepool()).map(|other| candidate(other.as_ref())).collect();
        Some(limit.with_turn(claim, &pool, now))
    }

    /// Returns the limit with the turn of `claim`, from all NodeClaims of its NodePool with their nodes, without nodes that stay
    /// because they are in use. The order is by name, so that concurrent reconciles of several NodeClaims agree.
    #[must_use]
    pub fn with_turn(self, claim: &NodeClaim, pool: &[(&NodeClaim, Option<&Node>)], now: Timestamp) -> Self {
        let of_others = Self { in_use: false, ..self };
        let before = |other: &NodeClaim, node: Option<&Node>| {
            is_given_up(other) || name(other) < name(claim) && of_others.is_late(other, node, now)
        };
        let ahead = pool.iter().filter(|(other, node)| before(other, *node)).count();
        Self { turn: ahead < pool.len().div_ceil(5), ..self }
    }

    /// Reports whether the limit has passed for a NodeClaim that waits for its initialization.
    fn is_late(&self, claim: &NodeClaim, node: Option<&Node>, now: Timestamp) -> bool {
        let waiting = claim.metadata.deletion_timestamp.is_none() && !claim.is_true(condition::INITIALIZED);
        let is_held = || node.is_some_and(|node| self.hold(claim, node, now).is_some());
        waiting && left(claim, self.timeout, now).is_some_and(|left| left.is_zero()) && is_held()
    }

    /// Returns what keeps pods away from a node, if the limit applies to it.
    fn hold<'n>(&self, claim: &NodeClaim, node: &'n Node, now: Timestamp) -> Option<Hold<'n>> {
        match hold(claim, node, now) {
            Some(Hold::Gates(_)) if !self.gates => None,
            None => self.unready_left(claim, node, now).filter(Duration::is_zero).map(|_| Hold::Unready),
            found => found,
        }
    }

    /// Returns the time until a node that has no other obstacle is given up because it is not ready. The node writes the time of
    /// its condition, so that time counts only up to twice the limit.
    fn unready_left(&self, claim: &NodeClaim, node: &Node, now: Timestamp) -> Option<Duration> {
        let may_return = self.in_use || claim.is_true(condition::REBOOTING);
        // Replacements of commands have a time limit of their own.
        let is_replacement = claim.replaces().next().is_some();
        if node.is_ready() || may_return || is_replacement || hold(claim, node, now).is_some() {
            return None;
        }
        let since = node.condition(condition::READY).and_then(|ready| ready.last_transition_time.as_ref());
        let settles = since.map_or(Duration::ZERO, |since| time_left(since.0, UNREADY, now));
        let longest = left(claim, self.timeout.saturating_mul(2), now)?;
        Some(left(claim, self.timeout, now)?.max(settles.min(longest)))
    }
}

/// Obstacle that keeps pods away from a node after its registration.
enum Hold<'n> {
    /// Gates that a live agent, or one that has reported, did not open.
    Gates(&'n str),
    /// Startup taint of the agent, without an agent that reports.
    NoAgent(&'n Taint),
    /// Startup taint of another program.
    Foreign(&'n Taint),
    /// Kubelet that is not ready, without a startup taint.
    Unready,
}

/// Returns the startup taint that stays, with its likely cause.
fn hold<'n>(claim: &NodeClaim, node: &'n Node, now: Timestamp) -> Option<Hold<'n>> {
    if let Some(taint) = taint_of(node).filter(|_| !says_ready(node)) {
        let reported = node.condition(condition::AGENT_READY).map(|found| found.message.as_str());
        let is_live = has_live_agent(node, now);
        return Some(reported.or_else(|| is_live.then_some(NO_REPORT)).map_or(Hold::NoAgent(taint), Hold::Gates));
    }
    let startup = || claim.spec.startup_taints.iter().flatten();
    let foreign = |found: &&Taint| found.key != taint::AGENT_NOT_READY && startup().any(|wanted| found.matches(wanted));
    node.spec.taints.iter().find(foreign).map(Hold::Foreign)
}

impl Hold<'_> {
    /// Returns the cause and the fix.
    fn explain(&self, claim: &NodeClaim, node: &Node) -> String {
        match self {
            Self::Gates(said) => (*said).to_owned(),
            Self::NoAgent(_) => format!(
                "no agent has reported: use images with the agent, or remove the annotation {} from EC2NodeClass {:?}",
                annotation::AGENT,
                claim.spec.node_class_ref.name
            ),
            Self::Foreign(_) if !node.is_ready() => {
                "the node is not Ready, so the program that removes the taint may not run".to_owned()
            }
            Self::Foreign(_) => format!(
                "no program has removed it: check the DaemonSet that does, and its tolerations, or remove the taint from \
                 spec.template.spec.startupTaints of NodePool {:?}",
                claim.nodepool()
            ),
            Self::Unready => {
                let report = node.condition(condition::READY).map(|ready| ready.message.chars().take(REPORT).collect());
                let report: String = report.unwrap_or_default();
                format!("check kubelet and the CNI of the image; kubelet reports: {report:?}")
            }
        }
    }
}

/// Returns cause and fix of a startup taint that stays on the node; empty without one.
pub(super) fn hint(claim: &NodeClaim, node: &Node, now: Timestamp) -> String {
    hold(claim, node, now).map_or_else(String::new, |hold| format!(": {}", hold.explain(claim, node)))
}

/// Reports whether the NodeClaim is being deleted because pods could not use its node.
fn is_given_up(claim: &NodeClaim) -> bool {
    let initialized = api::status::find(claim.conditions(), condition::INITIALIZED);
    claim.metadata.deletion_timestamp.is_some() && initialized.is_some_and(|it| TIMEOUTS.contains(&it.reason.as_str()))
}

fn left(claim: &NodeClaim, timeout: Duration, now: Timestamp) -> Option<Duration> {
    let registered = api::status::find(claim.conditions(), condition::REGISTERED).filter(|it| it.is_true())?;
    Some(time_left(registered.last_transition_time.0, timeout, now))
}

fn says_ready(node: &Node) -> bool {
    node.condition(condition::AGENT_READY).is_some_and(|found| found.status == condition::TRUE)
}

fn taint_of(node: &Node) -> Option<&Taint> {
    node.spec.taints.iter().find(|found| found.key == taint::AGENT_NOT_READY)
}

/// Adds the next of the two writes that remove the taint after the agent's report, and reports whether one is left. The first
/// write only changes the effect. A taint controller with an older view must not evict pods that kube-scheduler has just bound.
pub(super) fn lift_taint(view: &NodeClaimView, node: &Node, decision: &mut NodeClaimDecision) -> bool {
    let Some(held) = taint_of(node).filter(|_| says_ready(node)) else { return false };
    let others = node.spec.taints.iter().filter(|found| found.key != taint::AGENT_NOT_READY).cloned();
    let mut taints: Vec<Taint> = others.collect();
    if node.has_taint(taint::AGENT_NOT_READY, taint::NO_EXECUTE) {
        let since = Timestamp::from_second(view.now.as_second()).unwrap_or(view.now);
        let harmless = Taint::new(taint::AGENT_NOT_READY, taint::NO_SCHEDULE);
        taints.push(Taint { time_added: Some(since.to_string()), ..harmless });
    } else {
        let since = held.time_added.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
        let wait = since.map_or(Duration::ZERO, |since| time_left(since, SETTLE, view.now));
        if !wait.is_zero() {
            decision.wake(wait);
            return true;
        }
    }
    let patch = json!({
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": taints},
    });
    decision.steps.push(Operation::Patch(Target::Node(node.name().to_owned()), patch));
    decision.wake(SETTLE);
    true
}

/// Returns the cause, if the decision gives up a node that came up and that pods could not use.
#[must_use]
pub fn startup_failure(decision: &NodeClaimDecision) -> Option<&str> {
    match &decision.registration {
        Some(Registration::Bad { reason, message }) if TIMEOUTS.contains(&reason.as_str()) => Some(message),
        _ => None,
    }
}

/// Deletes the NodeClaim if gates, startup taints or kubelet kept pods away for too long and the node may be replaced now.
pub(super) fn give_up(
    view: &NodeClaimView,
    claim: &NodeClaim,
    decision: &mut NodeClaimDecision,
) -> Option<NodeClaimDecision> {
    let (limit, node) = (view.gates?, view.nodes.first()?);
    let Some(hold) = limit.hold(claim, node, view.now) else {
        limit.unready_left(claim, node, view.now).into_iter().for_each(|left| decision.wake(left));
        return None;
    };
    let left = left(claim, limit.timeout, view.now)?;
    if !left.is_zero() || !limit.turn {
        decision.wake(if left.is_zero() { TURN } else { left });
        return None;
    }
    let (reason, label, what) = match &hold {
        Hold::Gates(_) => (reason::GATE_TIMEOUT, "gate_timeout", "gates did not open".to_owned()),
        Hold::NoAgent(taint) | Hold::Foreign(taint) => {
            let what = format!("startup taint {} was not removed", taint.key);
            (reason::STARTUP_TAINT_TIMEOUT, "startup_taint_timeout", what)
        }
        Hold::Unready => (reason::NOT_READY_TIMEOUT, "not_ready_timeout", "the node was not Ready".to_owned()),
    };
    let cause = hold.explain(claim, node);
    let message = format!("{what} within {} s of registration: {cause}", limit.timeout.as_secs());
    let mut failed = claim.clone();
    failed.set_false(condition::INITIALIZED, reason, &message, view.now);
    let note = Event::warning(ObjectReference::to(claim), reason, message.clone());
    let patch = patches::status(&view.claim.metadata, &view.claim.status, &failed.status);
    Some(NodeClaimDecision {
        steps: vec![Operation::PatchStatus(target(claim), patch), Operation::Note(note), delete(claim)],
        disrupted: Some(label),
        registration: Some(Registration::Bad { reason: reason.to_owned(), message }),
        ..NodeClaimDecision::default()
    })
}
