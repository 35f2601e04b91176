//! Machines that are no longer what their class would launch: the condition Drifted of their claims (aws 1.7). The loop that
//! compares them with what EC2 says also follows those in reservations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, condition, reason};
use cloud::Instance;
use cloud::nodeclass::{Drift, Group, ResolvedClass};
use jiff::Timestamp;

use crate::act::{Act, Step, Target};
use crate::cluster::Cluster;
use crate::index::{Index, provider_id};
use crate::market::Market;
use crate::{patch, reserved};

/// A class changes seldom, and replacing a machine takes minutes.
const EVERY: Duration = Duration::from_secs(60);
/// The reasons that are told here; who else finds a claim drifted keeps its own.
const OURS: [&str; 6] = [
    reason::NODE_CLASS_DRIFT,
    reason::AMI_DRIFT,
    reason::SECURITY_GROUP_DRIFT,
    reason::SUBNET_DRIFT,
    reason::CAPACITY_RESERVATION_DRIFT,
    reason::PLACEMENT_GROUP_DRIFT,
];

/// Compares for ever.
pub async fn compare_for_ever(cluster: Arc<Cluster>, market: Arc<Market>, act: Act) {
    loop {
        tokio::time::sleep(EVERY).await;
        if !cluster.read(Index::is_synced) {
            continue;
        }
        let instances: BTreeMap<String, Instance> = match market.own_instances().await {
            Ok(instances) => instances.into_iter().map(|one| (one.provider_id(), one)).collect(),
            Err(error) => {
                let error = daemon::error::chain(&error);
                log::warn!(error = error.as_str(); "cannot list our instances to compare them with their classes");
                continue;
            }
        };
        let resolved = |class: &str| market.class(class);
        let mut steps = cluster.read(|index| decide(index, &instances, &resolved, Timestamp::now()));
        steps.extend(cluster.read(|index| reserved::decide(index, &instances)));
        for step in steps {
            // Somebody else has changed the claim meanwhile, or it is gone: the next comparison sees that.
            if let Err(error) = act.run(step).await {
                let error = daemon::error::chain(&error);
                log::debug!(error = error.as_str(); "what the comparison came to was not written");
            }
        }
    }
}

/// What to write on claims. `instances` are known by provider id; `resolved` gives a class as it is launched now.
#[must_use]
pub fn decide(
    index: &Index,
    instances: &BTreeMap<String, Instance>,
    resolved: &dyn Fn(&str) -> Option<Arc<ResolvedClass>>,
    now: Timestamp,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for claim in index.claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
        let class = index.classes.get(&claim.spec.node_class_ref.name);
        let Some(class) = class.filter(|class| class.metadata.deletion_timestamp.is_none()) else { continue };
        let found = match claim.is_true(condition::LAUNCHED) {
            true => compare(claim, class, instances, resolved),
            false => Some(None),
        };
        steps.extend(found.and_then(|drift| write(claim, drift, now)));
    }
    steps
}

/// `None` where it cannot be told.
fn compare(
    claim: &NodeClaim,
    class: &EC2NodeClass,
    instances: &BTreeMap<String, Instance>,
    resolved: &dyn Fn(&str) -> Option<Arc<ResolvedClass>>,
) -> Option<Option<Drift>> {
    let resolved = resolved(&claim.spec.node_class_ref.name);
    let group = match &resolved {
        None => Group::Unknown,
        Some(class) => class.placement_group.as_ref().map_or(Group::None, |group| Group::Id(&group.id)),
    };
    let instance = provider_id(claim).and_then(|id| instances.get(id));
    match cloud::nodeclass::drift(claim, class, instance, group) {
        Ok(drift) => Some(drift),
        Err(untold) => {
            log::debug!("{untold}");
            None
        }
    }
}

fn write(before: &NodeClaim, drift: Option<Drift>, now: Timestamp) -> Option<Step> {
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
    let patch = patch::status(&before.metadata, &claim.status);
    (claim.status != before.status).then_some(Step::PatchStatus(Target::Claim(name), patch))
}

#[cfg(test)]
mod tests;
