//! Status of NodePools: total resources, readiness of the EC2NodeClass, validation, the hash that detects drift, and DaemonSets
//! that the agent's taint excludes from nodes.

mod memory;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::{DaemonSet, Node, ResourceList};
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, Quantity, Taint, condition, hash, quantity, reason, taint};
use jiff::Timestamp;
use planner::Resources;

use crate::informer::interruption::notice_limit::HeldNotices;
use crate::reconcile::hashes;
use crate::state::attempts::launches::BlockedLaunches;
use crate::state::attempts::replacements::ReplacementHealth;
use crate::state::class_readiness::ClassReadiness;
use crate::state::index::Permissions;
use crate::state::registration_health::RegistrationHealth;
use crate::state::view_ages::StaleKind;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};
pub use memory::PoolMemory;
pub use view::view;

/// Resources that the status always contains, zero or not.
const BASE: [&str; 5] = ["cpu", "memory", "pods", "ephemeral-storage", "nodes"];

/// Input of a decision about a NodePool.
pub struct NodePoolView {
    /// NodePool to decide about.
    pub pool: Arc<NodePool>,
    /// Its EC2NodeClass, if it exists.
    pub class: Option<Arc<EC2NodeClass>>,
    /// Its NodeClaims, each with its node if registered.
    pub claims: Vec<(Arc<NodeClaim>, Option<Arc<Node>>)>,
    /// All DaemonSets.
    pub daemonsets: Vec<Arc<DaemonSet>>,
    /// Result of the last registrations of its NodeClaims.
    pub registrations: RegistrationHealth,
    /// Result of its last replacements.
    pub replacements: ReplacementHealth,
    /// Pause of launches that keeps pods or missing nodes waiting.
    pub launches: Option<BlockedLaunches>,
    /// Kinds whose watches have not delivered anything for too long.
    pub stale: Vec<StaleKind>,
    /// NodeClaims that the limit for unconfirmed notices keeps.
    pub held_notices: Option<HeldNotices>,
    /// Facts that a restart must not forget.
    pub memory: PoolMemory,
    /// Optional permissions of the controller.
    pub permissions: Permissions,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decides about one NodePool.
#[must_use]
pub fn decide(view: &NodePoolView) -> Vec<Operation> {
    let name = view.pool.metadata.name.clone().unwrap_or_default();
    let mut steps = Vec::new();
    if view.pool.metadata.deletion_timestamp.is_some() {
        return steps;
    }
    // A NodePool with invalid durations has no hash; the validation reports them.
    if let Ok(hash) = hash::node_pool(&view.pool) {
        let claims = view.claims.iter().map(|(claim, _)| claim);
        steps.extend(hashes::OF_POOL.steps(&view.pool.metadata, Target::Pool(name.clone()), claims, &hash, None));
    }
    let mut pool = NodePool::clone(&view.pool);
    pool.initialize(view.now);
    check_spec(&mut pool, view.now);
    check_disruption(&mut pool, view.now);
    check_class(&mut pool, view.class.as_deref(), view.now);
    check_daemonsets(&mut pool, view);
    check_registrations(&mut pool, view);
    steps.extend(check_replacements(&mut pool, view));
    steps.extend(check_launches(&mut pool, view));
    steps.extend(check_watches(&mut pool, view));
    steps.extend(check_notices(&mut pool, view));
    steps.extend(check_permissions(&mut pool, view));
    let status = pool.status.get_or_insert_default();
    status.resources = resources(view);
    status.nodes = i64::try_from(view.claims.len()).unwrap_or(i64::MAX);
    if pool.status != view.pool.status {
        let patch = patches::status(&view.pool.metadata, &view.pool.status, &pool.status);
        steps.push(Operation::PatchStatus(Target::Pool(name), patch));
    }
    steps.extend(view.memory.patch(&view.pool));
    steps
}

fn check_spec(pool: &mut NodePool, now: Timestamp) {
    let faults: Vec<String> = api::validate::node_pool(pool).iter().map(ToString::to_string).collect();
    if faults.is_empty() {
        pool.set_true(condition::VALIDATION_SUCCEEDED, now);
    } else {
        let message = faults.join("; ");
        pool.set_false(condition::VALIDATION_SUCCEEDED, reason::NODEPOOL_VALIDATION_FAILED, &message, now);
    }
}

/// Reports invalid budgets and invalid annotations of budgets. The NodePool continues to launch nodes: only fewer disruptions
/// are allowed.
fn check_disruption(pool: &mut NodePool, now: Timestamp) {
    let faults: Vec<String> = pool.disruption_faults().iter().map(ToString::to_string).collect();
    if faults.is_empty() {
        pool.clear(condition::DISRUPTION_VALID, now);
    } else {
        pool.set_false(condition::DISRUPTION_VALID, reason::DISRUPTION_INVALID, &faults.join("; "), now);
    }
}

fn check_class(pool: &mut NodePool, class: Option<&EC2NodeClass>, now: Timestamp) {
    const TYPE: &str = condition::NODE_CLASS_READY;
    match ClassReadiness::new(&pool.spec.template.spec.node_class_ref.name, class) {
        ClassReadiness::Ready => pool.set_true(TYPE, now),
        ClassReadiness::Unknown { message } => {
            pool.set_unknown(TYPE, reason::NODE_CLASS_READINESS_UNKNOWN, &message, now)
        }
        ClassReadiness::Missing { message } => pool.set_false(TYPE, reason::NODE_CLASS_NOT_FOUND, &message, now),
        ClassReadiness::Terminating { message } => pool.set_false(TYPE, reason::NODE_CLASS_TERMINATING, &message, now),
        ClassReadiness::NotReady { reason, message } => pool.set_false(TYPE, &reason, &message, now),
    };
}

/// Reports DaemonSets that do not tolerate the agent's taint on new nodes. Such a DaemonSet starts only after the agent reports
/// ready. If the agent waits for that DaemonSet, the node never starts.
fn check_daemonsets(pool: &mut NodePool, view: &NodePoolView) {
    let guarded = view.class.as_deref().is_some_and(EC2NodeClass::has_agent);
    let taint = Taint::new(taint::AGENT_NOT_READY, taint::NO_EXECUTE);
    let locked_out: Vec<String> = view
        .daemonsets
        .iter()
        .filter(|_| guarded)
        .filter(|set| !set.spec.template.spec.tolerations.iter().any(|toleration| toleration.tolerates(&taint)))
        .map(|set| {
            let meta = &set.metadata;
            format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
        })
        .collect();
    if locked_out.is_empty() {
        pool.clear(condition::DAEMONSETS_TOLERATE_AGENT_TAINT, view.now);
    } else {
        let message = format!(
            "DaemonSets do not tolerate {}:{} and start only after the agent removes it: {}; add the toleration to \
             those that nodes need to become ready, such as the CNI",
            taint.key,
            taint.effect,
            locked_out.join(", ")
        );
        let reason = reason::TOLERATION_MISSING;
        pool.set_false(condition::DAEMONSETS_TOLERATE_AGENT_TAINT, reason, &message, view.now);
    }
}

/// Reports whether NodePool or EC2NodeClass has changed since the last evaluation of registrations.
#[must_use]
pub fn is_renewed(view: &NodePoolView) -> bool {
    let health = api::status::find(view.pool.conditions(), condition::NODE_REGISTRATION_HEALTHY);
    let pool = view.pool.metadata.generation.unwrap_or_default();
    health.is_none_or(|health| health.observed_generation != pool) || seen_class(&view.pool) != class_generation(view)
}

fn seen_class(pool: &NodePool) -> Option<i64> {
    pool.status.as_ref()?.node_class_observed_generation
}

fn class_generation(view: &NodePoolView) -> Option<i64> {
    view.class.as_ref()?.metadata.generation
}

/// Sets the condition of registrations. The status from before a restart remains until a new result, or a change of NodePool or
/// EC2NodeClass.
fn check_registrations(pool: &mut NodePool, view: &NodePoolView) {
    const TYPE: &str = condition::NODE_REGISTRATION_HEALTHY;
    match &view.registrations {
        RegistrationHealth::Healthy => drop(pool.set_true(TYPE, view.now)),
        RegistrationHealth::Unhealthy { reason, message } => drop(pool.set_false(TYPE, reason, message, view.now)),
        RegistrationHealth::Unknown if is_renewed(view) => {
            let message = "no node with the current NodePool and EC2NodeClass registered yet";
            pool.set_unknown(TYPE, reason::AWAITING_RECONCILIATION, message, view.now);
        }
        RegistrationHealth::Unknown => {}
    }
    pool.status.get_or_insert_default().node_class_observed_generation = class_generation(view);
}

/// Sets the condition of replacements, and returns an event if they begin to fail. The status from before a restart remains
/// until a new result, or a change of NodePool or EC2NodeClass.
fn check_replacements(pool: &mut NodePool, view: &NodePoolView) -> Option<Operation> {
    const TYPE: &str = condition::REPLACEMENTS_HEALTHY;
    match &view.replacements {
        ReplacementHealth::Failing { failures, until, cause } => {
            let last = planner::last_attempts(*failures, ["replacement", "replacements"]);
            let message =
                format!("{last} did not initialize ({cause}); disruption commands that need one wait until {until}");
            return warn(pool, TYPE, reason::REPLACEMENTS_FAILED, &message, view);
        }
        ReplacementHealth::Unknown if !is_renewed(view) => {}
        ReplacementHealth::Unknown | ReplacementHealth::Healthy => drop(pool.clear(TYPE, view.now)),
    }
    None
}

/// Sets the condition of launches while a pause keeps pods waiting, and returns an event if it begins or lasts longer.
fn check_launches(pool: &mut NodePool, view: &NodePoolView) -> Option<Operation> {
    const TYPE: &str = condition::LAUNCHES_HEALTHY;
    let Some(BlockedLaunches { pods, failures, until, cause }) = &view.launches else {
        pool.clear(TYPE, view.now);
        return None;
    };
    let waiting = match pods {
        0 => "missing nodes".to_owned(),
        1 => "1 pod".to_owned(),
        pods => format!("{pods} pods"),
    };
    let last = planner::last_attempts(*failures, ["launch", "launches"]);
    let message = match cause {
        Some(cause) => format!(
            "{last} became no usable node ({cause}); {waiting} and all other launches wait until {until}, or until NodePool or \
             EC2NodeClass change"
        ),
        None => format!(
            "{last} gave {waiting} no place, the next one waits until {until}: check taints that other programs add to \
             new nodes, and events of NodeClaims"
        ),
    };
    warn(pool, TYPE, reason::LAUNCHES_FAILED, &message, view)
}

/// Sets the condition of watches while a stale view of the cluster keeps nodes from disruption.
fn check_watches(pool: &mut NodePool, view: &NodePoolView) -> Option<Operation> {
    const TYPE: &str = condition::WATCHES_HEALTHY;
    if view.stale.is_empty() {
        pool.clear(TYPE, view.now);
        return None;
    }
    let kinds: Vec<String> = view.stale.iter().map(|stale| format!("{} (since {})", stale.kind, stale.since)).collect();
    let message = format!(
        "the API server has not confirmed the view of {}; no voluntary disruption until it does: check the controller's \
         log and its RBAC",
        kinds.join(", ")
    );
    warn(pool, TYPE, reason::WATCH_STALE, &message, view)
}

/// Sets the condition of notices while more nodes ask to be replaced than the limit allows, and returns an event if that begins.
fn check_notices(pool: &mut NodePool, view: &NodePoolView) -> Option<Operation> {
    const TYPE: &str = condition::NOTICES_WITHIN_LIMIT;
    let Some(HeldNotices { held, removed }) = view.held_notices else {
        pool.clear(TYPE, view.now);
        return None;
    };
    let message = format!(
        "{removed} nodes were replaced in 10 minutes by notices of their agents or failed status checks, and {held} more \
         wait: check the image, the zone and the nodes' logs; delete a NodeClaim to replace its node now"
    );
    warn(pool, TYPE, reason::TOO_MANY_NOTICES, &message, view)
}

/// Sets the condition of permissions while one that the NodePool asks for is missing.
fn check_permissions(pool: &mut NodePool, view: &NodePoolView) -> Option<Operation> {
    const TYPE: &str = condition::PERMISSIONS_GRANTED;
    let missing: Vec<&str> = view.permissions.missing(&view.pool).collect();
    if missing.is_empty() {
        pool.clear(TYPE, view.now);
        return None;
    }
    warn(pool, TYPE, reason::PERMISSION_MISSING, &missing.join("; "), view)
}

/// Sets a condition to `False`, and returns an event with the same text if the condition changed.
fn warn(
    pool: &mut NodePool,
    type_: &str,
    reason: &'static str,
    message: &str,
    view: &NodePoolView,
) -> Option<Operation> {
    let object = ObjectReference::to(view.pool.as_ref());
    let changed = pool.set_false(type_, reason, message, view.now);
    changed.then(|| Operation::Note(Event::warning(object, reason, message.to_owned())))
}

/// Returns the total of all NodeClaims of the NodePool, as it counts for limits. Nodes can report any number of resources, so only
/// those of the instances and of the limits are added up.
fn resources(view: &NodePoolView) -> BTreeMap<String, Quantity> {
    let limits = view.pool.spec.limits.as_ref();
    let mut total: Resources = BASE.iter().map(|name| (*name, 0)).collect();
    for (claim, node) in &view.claims {
        let of_claim = claim.status.as_ref().map(|status| amounts(&status.capacity, |_| true)).unwrap_or_default();
        let is_listed = |name: &str| {
            BASE.contains(&name) || of_claim.names(name) || limits.is_some_and(|limits| limits.contains_key(name))
        };
        let of_node = node.as_ref().map(|node| amounts(&node.status.capacity, is_listed)).unwrap_or_default();
        total.add(&snapshot::instance_capacity(of_node, &of_claim));
    }
    total.set(Resources::NODES, i64::try_from(view.claims.len()).unwrap_or(i64::MAX));
    total.iter().map(|(name, sum)| (name.to_owned(), Quantity(quantity::text(name, sum)))).collect()
}

/// Returns the included amounts of a list; omits invalid quantities.
fn amounts(list: &ResourceList, is_included: impl Fn(&str) -> bool) -> Resources {
    let included = list.iter().filter(|(name, _)| is_included(name));
    included.filter_map(|(name, quantity)| Some((name.clone(), quantity.amount(name).ok()?))).collect()
}

#[cfg(test)]
mod tests;
