//! Garbage collection of instances without a NodeClaim and of NodeClaims without an instance.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, label, reason};
use cloud::{CloudError, Instance};
use daemon::metric::NoLabels;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::capacity::offerings::Offerings;
use crate::gc::periodic::{PeriodicTask, TaskContext};
use crate::metrics;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, Target};

/// Interval between the first checks. A leaked instance costs money from the first minute.
const EARLY: Duration = Duration::from_secs(10);
const EARLY_RUNS: u32 = 20;
const LATER: Duration = Duration::from_secs(120);
/// Interval between checks of launch templates. Launch templates cost nothing, and a region permits 5,000 of them.
const TEMPLATES: Duration = Duration::from_secs(600);
/// Grace period after the launch of an instance, whose NodeClaim may have no status yet, and after a registration.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// Number of orphaned instances that are terminated whatever their share.
const FEW: usize = 3;
/// Above one of this many running instances, orphaned ones are kept.
const SHARE: usize = 5;
/// Number of kept instances that an event names.
const NAMED: usize = 3;

/// Periodic deletion of orphaned resources.
pub struct GarbageCollection {
    runs: u32,
    templates_due: Instant,
}

impl Default for GarbageCollection {
    /// Returns a collection that checks launch templates in its first run.
    fn default() -> Self {
        Self { runs: 0, templates_due: Instant::now() }
    }
}

impl PeriodicTask for GarbageCollection {
    const NAME: &'static str = "garbage collection";
    const FIRST_PAUSE: Duration = EARLY;
    const REMOVES: bool = true;

    async fn run(&mut self, context: &TaskContext) -> Result<Duration, CloudError> {
        let TaskContext { cluster, offerings, writer, .. } = context;
        let instances = offerings.own_instances().await?;
        cluster.change(|index| index.name_instances(&instances));
        self.runs = self.runs.saturating_add(1);
        let shifted = offerings.shifted_zones(cluster.now());
        let now = cluster.now();
        let mut orphans = cluster.read(|index| orphans_of(index, &instances, &shifted, now));
        confirm(&mut orphans, context, &shifted).await;
        keep_too_many(&mut orphans, &instances, context);
        let mut operations = cluster.read(|index| operations(index, &orphans, &instances, &shifted, now));
        if self.templates_due <= Instant::now() {
            self.templates_due = Instant::now() + TEMPLATES;
            operations.extend(unused_templates(cluster, offerings, cluster.now()).await);
        }
        for operation in operations {
            let span = operation.span();
            span.in_scope(|| tracing::info!(operation = operation.name(), "deleting orphaned resource"));
            if let Err(error) = writer.run(operation).await {
                let error = daemon::error::chain(&error);
                span.in_scope(|| {
                    tracing::warn!(error = error.as_str(), "failed to delete orphaned resource, retrying")
                });
            }
        }
        Ok(if self.runs < EARLY_RUNS { EARLY } else { LATER })
    }
}

/// Lists launch templates and returns operations that delete unused ones.
pub async fn unused_templates(cluster: &Cluster, offerings: &Offerings, now: Timestamp) -> Vec<Operation> {
    let tags = cloud::tags::cluster_tags(offerings.settings());
    match offerings.cloud().launch_templates(&tags).await {
        Ok(listed) => {
            let classes: BTreeSet<String> = cluster.read(|index| index.classes.keys().cloned().collect());
            offerings.templates().verify(&listed, now);
            let unused = offerings.templates().unused(&classes, now);
            offerings.templates().forget(unused.iter());
            unused.into_iter().map(Operation::DeleteLaunchTemplate).collect()
        }
        Err(error) => {
            let error = daemon::error::chain(&error);
            tracing::warn!(error = error.as_str(), "failed to list launch templates, retrying");
            Vec::new()
        }
    }
}

/// Returns the instances that belong to no NodeClaim of the index. `instances` are all instances with the tags of this cluster.
/// `shifted` are the zones that zonal shifts exclude: EC2 may not list their instances, and terminates none.
fn orphans_of<'i>(
    index: &Index,
    instances: &'i [Instance],
    shifted: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<&'i Instance> {
    let claims: Vec<&NodeClaim> = index.claims.values().map(AsRef::as_ref).collect();
    orphaned(&claims, instances.iter(), shifted, now)
}

/// Returns the instances that belong to no NodeClaim.
fn orphaned<'i>(
    claims: &[&NodeClaim],
    instances: impl Iterator<Item = &'i Instance>,
    shifted: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<&'i Instance> {
    let claimed: BTreeSet<&str> = claims.iter().filter_map(|claim| claim.provider_id()).collect();
    // A NodeClaim that has its instance waits for no other: further instances of its launch are orphaned.
    let waiting = claims.iter().filter(|claim| claim.provider_id().is_none());
    let tokens: BTreeSet<&str> = waiting.filter_map(|claim| claim.launch_token()).collect();
    let is_orphaned = |instance: &&Instance| {
        let awaited =
            instance.tags.get(cloud::tags::LAUNCH_TOKEN_TAG).is_some_and(|token| tokens.contains(token.as_str()));
        let kept = instance.is_ending() || is_young(instance, now) || shifted.contains(&instance.zone);
        !kept && !awaited && !claimed.contains(instance.provider_id().as_str())
    };
    instances.filter(is_orphaned).collect()
}

/// Keeps only the instances without a NodeClaim in a live list. A replica whose watch has stopped does not see the NodeClaims that
/// another replica has launched, and its view is not stale yet when it begins to lead.
async fn confirm(orphans: &mut Vec<&Instance>, context: &TaskContext, shifted: &BTreeSet<String>) {
    if orphans.is_empty() {
        return;
    }
    match context.writer.claims().await {
        Ok(claims) => {
            let claims: Vec<&NodeClaim> = claims.iter().collect();
            *orphans = orphaned(&claims, std::mem::take(orphans).into_iter(), shifted, context.cluster.now());
        }
        Err(error) => {
            let error = daemon::error::chain(&error);
            tracing::warn!(error = error.as_str(), "failed to list NodeClaims, keeping orphaned instances");
            orphans.clear();
        }
    }
}

/// Removes all orphaned instances from the list, and reports them, where they are suspiciously many.
fn keep_too_many(orphans: &mut Vec<&Instance>, instances: &[Instance], context: &TaskContext) {
    let alive = instances.iter().filter(|instance| !instance.is_ending()).count();
    let kept = if are_too_many(orphans.len(), alive) { std::mem::take(orphans) } else { Vec::new() };
    context.metrics.set(&metrics::ORPHANS_KEPT, NoLabels, kept.len() as f64);
    if kept.is_empty() {
        return;
    }
    tracing::error!(orphaned = kept.len(), instances = alive, "too many instances have no nodeclaim, keeping them");
    let events = context.cluster.read(|index| events_of(index, &kept, alive));
    events.into_iter().for_each(|event| context.cluster.notes.publish(event));
}

/// Reports whether so many of the running instances are orphaned that the NodeClaims are rather lost than the instances: after a
/// restore of etcd, after a deletion of the CRD, or in a second cluster of the same name.
const fn are_too_many(orphaned: usize, alive: usize) -> bool {
    orphaned > FEW && orphaned * SHARE > alive
}

/// Returns an event for each NodePool of these instances.
fn events_of(index: &Index, kept: &[&Instance], alive: usize) -> Vec<Event> {
    let pools: BTreeSet<&str> =
        kept.iter().filter_map(|instance| instance.tags.get(label::NODEPOOL).map(String::as_str)).collect();
    let first: Vec<&str> = kept.iter().take(NAMED).map(|instance| instance.id.as_str()).collect();
    let message = format!(
        "{} of {alive} instances of this cluster have no NodeClaim, too many for garbage collection, such as {}: restore the \
         NodeClaims, or terminate the instances",
        kept.len(),
        first.join(", ")
    );
    let pools = pools.into_iter().filter_map(|pool| index.pools.get(pool));
    let event = |pool: &Arc<NodePool>| {
        Event::warning(ObjectReference::to(pool.as_ref()), reason::ORPHANED_INSTANCES_KEPT, message.clone())
    };
    pools.map(event).collect()
}

/// Returns operations that delete these orphaned instances with their nodes, and NodeClaims without an instance.
fn operations(
    index: &Index,
    orphans: &[&Instance],
    instances: &[Instance],
    shifted: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<Operation> {
    let mut steps = Vec::new();
    for instance in orphans {
        let id = instance.provider_id();
        steps.push(Operation::Terminate(instance.id.clone()));
        for node in index.all_nodes_of(&id) {
            steps.push(Operation::Delete(
                Target::Node(node.name().to_owned()),
                node.metadata.uid.clone().unwrap_or_default(),
            ));
        }
    }
    let alive: BTreeSet<String> =
        instances.iter().filter(|instance| !instance.is_ending()).map(Instance::provider_id).collect();
    let excluded = |claim: &NodeClaim| cloud::is_in_zones(claim.provider_id(), shifted);
    let orphans = index.claims.values().filter(|claim| is_orphan(index, claim, &alive, now) && !excluded(claim));
    steps.extend(orphans.map(|claim| delete(claim)));
    steps
}

fn is_young(instance: &Instance, now: Timestamp) -> bool {
    // An instance of unknown age is not deleted.
    instance.launched.parse::<Timestamp>().map_or(true, |launched| now.duration_since(launched) < GRACE)
}

/// Reports whether a registered NodeClaim has no instance. A node with condition Ready proves that its instance exists.
fn is_orphan(index: &Index, claim: &NodeClaim, alive: &BTreeSet<String>, now: Timestamp) -> bool {
    let Some(id) = claim.provider_id() else { return false };
    let registered = api::status::find(claim.conditions(), condition::REGISTERED).filter(|found| found.is_true());
    let settled = registered.is_some_and(|found| now.duration_since(found.last_transition_time.0) >= GRACE);
    let ready = index.nodes_of(id).iter().any(|node| Node::is_ready(node));
    settled && claim.metadata.deletion_timestamp.is_none() && !alive.contains(id) && !ready
}

fn delete(claim: &NodeClaim) -> Operation {
    let name = claim.metadata.name.clone().unwrap_or_default();
    Operation::Delete(Target::Claim(name), claim.metadata.uid.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests;
