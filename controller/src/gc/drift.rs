//! Drift detection: the condition Drifted of NodeClaims whose node no longer matches NodePool and EC2NodeClass. The reconcile
//! of a NodeClaim detects drift from the NodePool. A loop here compares with EC2 and follows instances in reservations.

mod nodepool;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, condition, label, reason};
use cloud::nodeclass::{Drift, Group, ResolvedClass};
use cloud::{CloudError, Instance};
use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, Catalogue};

pub use nodepool::{follow_pool, of_pool};

use crate::capacity::offerings::Offerings;
use crate::capacity::reservations;
use crate::gc::periodic::{PeriodicTask, TaskContext};
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Interval between comparisons. An EC2NodeClass changes seldom, and the replacement of a node takes minutes.
const EVERY: Duration = Duration::from_secs(60);
/// Minimum age of a NodeClaim for drift of its offering. Instance types and offerings may be incomplete while EC2 is queried.
const SETTLED: SignedDuration = SignedDuration::from_hours(1);
/// Reasons that this module writes. Other code keeps its own reasons.
const OURS: [&str; 7] = [
    reason::INSTANCE_TYPE_NOT_FOUND,
    reason::NODE_CLASS_DRIFT,
    reason::AMI_DRIFT,
    reason::SECURITY_GROUP_DRIFT,
    reason::SUBNET_DRIFT,
    reason::CAPACITY_RESERVATION_DRIFT,
    reason::PLACEMENT_GROUP_DRIFT,
];

/// Periodic comparison of NodeClaims with EC2.
pub struct DriftDetection;

impl PeriodicTask for DriftDetection {
    const NAME: &'static str = "drift detection";
    const FIRST_PAUSE: Duration = EVERY;
    const REMOVES: bool = false;

    async fn run(&mut self, context: &TaskContext) -> Result<Duration, CloudError> {
        let TaskContext { cluster, offerings, writer, .. } = context;
        let instances = offerings.own_instances_by_provider_id().await?;
        let mut operations = found(cluster, offerings, &instances);
        operations.extend(cluster.read(|index| reservations::decide(index, &instances)));
        for operation in operations {
            // The NodeClaim has changed or is deleted: the next comparison handles it.
            let span = operation.span();
            if let Err(error) = writer.run(operation).await {
                let error = daemon::error::chain(&error);
                span.in_scope(|| tracing::debug!(error = error.as_str(), "failed to update the Drifted condition"));
            }
        }
        Ok(EVERY)
    }
}

fn found(cluster: &Cluster, offerings: &Offerings, instances: &BTreeMap<String, Instance>) -> Vec<Operation> {
    let now = cluster.now();
    let resolved = |class: &str| offerings.class(class);
    let catalogue = |claim: &NodeClaim| offerings.catalogue_of(claim, now);
    let world = DriftContext { instances, resolved: &resolved, catalogue: &catalogue };
    cluster.read(|index| decide(index, &world, now))
}

/// Data that NodeClaims are compared with.
#[derive(Clone, Copy)]
pub struct DriftContext<'a> {
    /// Instances in EC2 by provider id.
    pub instances: &'a BTreeMap<String, Instance>,
    /// Returns the current resolution of an EC2NodeClass.
    pub resolved: &'a dyn Fn(&str) -> Option<Arc<ResolvedClass>>,
    /// Returns the current catalogue of a NodeClaim's NodePool; `None` while it is unknown.
    pub catalogue: &'a dyn Fn(&NodeClaim) -> Option<Arc<Catalogue>>,
}

/// Returns the status patches of the condition Drifted. Drift from the NodePool is skipped: the reconcile of the NodeClaim
/// writes it.
#[must_use]
pub fn decide(index: &Index, world: &DriftContext<'_>, now: Timestamp) -> Vec<Operation> {
    let mut steps = Vec::new();
    for claim in index.claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
        let class = index.classes.get(&claim.spec.node_class_ref.name);
        let Some(class) = class.filter(|class| class.metadata.deletion_timestamp.is_none()) else { continue };
        let launched = claim.is_true(condition::LAUNCHED);
        if launched && index.pool_of(claim).is_some_and(|pool| of_pool(claim, pool).is_some()) {
            continue;
        }
        let found = if launched { compare(claim, class, world, now) } else { Some(None) };
        steps.extend(found.and_then(|drift| write(claim, drift, now)));
    }
    steps
}

/// Returns the drift of a NodeClaim, or `None` if it cannot be determined.
fn compare(claim: &NodeClaim, class: &EC2NodeClass, world: &DriftContext<'_>, now: Timestamp) -> Option<Option<Drift>> {
    if let Some(drift) = unknown_type(claim, world, now) {
        return Some(Some(drift));
    }
    let resolved = (world.resolved)(&claim.spec.node_class_ref.name);
    let group = match &resolved {
        None => Group::Unknown,
        Some(class) => class.placement_group.as_ref().map_or(Group::None, |group| Group::Id(&group.id)),
    };
    let instance = claim.provider_id().and_then(|id| world.instances.get(id));
    match cloud::nodeclass::drift(claim, class, instance, group) {
        Ok(drift) => Some(drift),
        Err(untold) => {
            tracing::debug!(nodeclaim = untold.claim.as_str(), reason = untold.what, "drift is unknown");
            None
        }
    }
}

/// Returns drift if the instance type has no offering, available or not, in the zone and with the capacity type of the
/// NodeClaim.
fn unknown_type(claim: &NodeClaim, world: &DriftContext<'_>, now: Timestamp) -> Option<Drift> {
    let created = claim.metadata.creation_timestamp.as_ref()?.0;
    let label = |key: &str| claim.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let (name, zone) = (label(label::INSTANCE_TYPE)?, label(label::ZONE)?);
    let sold_as = label(label::CAPACITY_TYPE)?;
    if now.duration_since(created) < SETTLED {
        return None;
    }
    let catalogue = (world.catalogue)(claim)?;
    let kind = catalogue.types.iter().find(|kind| kind.name == name);
    // A reservation ends, and its instances continue as on-demand.
    let bought = |it: CapacityType| {
        it.as_str() == sold_as || sold_as == CapacityType::Reserved.as_str() && it == CapacityType::OnDemand
    };
    let sold = kind.is_some_and(|kind| kind.offerings.iter().any(|it| it.zone == zone && bought(it.capacity_type)));
    (!sold).then(|| Drift {
        reason: reason::INSTANCE_TYPE_NOT_FOUND,
        message: format!("{name} is no longer offered as {sold_as} in {zone} for its EC2NodeClass"),
    })
}

fn write(before: &NodeClaim, drift: Option<Drift>, now: Timestamp) -> Option<Operation> {
    let mut claim = before.clone();
    let known = api::status::find(before.conditions(), condition::DRIFTED);
    match drift {
        Some(drift) => claim.set(condition::DRIFTED, condition::TRUE, drift.reason, &drift.message, now),
        None if known.is_some_and(|known| OURS.contains(&known.reason.as_str())) => {
            claim.clear(condition::DRIFTED, now)
        }
        None => false,
    };
    let name = before.metadata.name.clone().unwrap_or_default();
    let patch = patches::status(&before.metadata, &before.status, &claim.status);
    (claim.status != before.status).then_some(Operation::PatchStatus(Target::Claim(name), patch))
}

#[cfg(test)]
mod tests;
