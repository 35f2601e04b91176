//! Instance tags that can be written only after registration: the name and the owner of the instance. Nothing waits for these
//! tags, so they are written slowly, and only if they are missing. An existing tag `Name` is kept.
//!
//! A tag that the IAM policies deny is left out, with one event, and tried again later: Karpenter's policies deny Kerf's tag with
//! the UID. IAM denies a call as a whole, so each tag of a denied call is then written alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, reason};
use cloud::launch::{ClaimId, ownership_tags};
use cloud::tags::{CLUSTER_TAG, NODE_CLAIM_UID_TAG};
use cloud::{CloudError, ErrorKind, Instance, Tags};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::gc::periodic::{PeriodicTask, TaskContext};
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, Target, WriteError, Writer};

/// Interval between checks for nodes without their tags.
const EVERY: Duration = Duration::from_secs(10);
/// Interval while every missing tag is denied.
const BLOCKED: Duration = Duration::from_secs(60);
/// Pause after each CreateTags call, which shares its rate limit with urgent calls.
const PAUSE: Duration = Duration::from_secs(1);
/// Time until a denied tag is tried again.
const RETRY: SignedDuration = SignedDuration::from_hours(1);
/// The same if all tags are denied, among them Karpenter's.
const EARLY_RETRY: SignedDuration = SignedDuration::from_mins(5);
/// Tag that consoles show as the name of an instance.
const NAME: &str = "Name";

/// Periodic tagging of instances with the names of their nodes.
#[derive(Debug, Default)]
pub struct Tagging {
    denied: DeniedTags,
}

/// Keys of tags that the IAM policies deny, each with the time of the next attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DeniedTags(BTreeMap<String, Timestamp>);

/// Tags that CreateTags wrote and that the IAM policies deny.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TagResult {
    written: Tags,
    denied: Tags,
}

impl PeriodicTask for Tagging {
    const NAME: &'static str = "tagging";
    const FIRST_PAUSE: Duration = EVERY;
    const REMOVES: bool = false;

    async fn run(&mut self, context: &TaskContext) -> Result<Duration, CloudError> {
        let TaskContext { cluster, offerings, writer, .. } = context;
        let shifted = offerings.shifted_zones(cluster.now());
        let mut due = cluster.read(untagged);
        due.retain(|claim| !cloud::is_in_zones(claim.provider_id(), &shifted));
        if due.is_empty() {
            return Ok(EVERY);
        }
        let known = offerings.own_instances_by_provider_id().await?;
        let mut is_blocked = true;
        for claim in due {
            let Some(instance) = claim.provider_id().and_then(|id| known.get(id)) else { continue };
            let missing = missing_tags(&claim, instance, &offerings.settings().cluster_name);
            let (allowed, left_out) = self.denied.split(missing, cluster.now());
            is_blocked &= allowed.is_empty() && !is_done(&left_out);
            let mut denied = left_out.clone();
            match tag(writer, &claim, &instance.id, Tagged { allowed, left_out }).await {
                Ok(result) => {
                    self.denied.learn(&result, cluster.now());
                    denied.extend(result.denied);
                    report(cluster, &claim, &denied);
                }
                Err(error) => {
                    let (name, error) =
                        (claim.metadata.name.as_deref().unwrap_or_default(), daemon::error::chain(&error));
                    tracing::warn!(nodeclaim = name, error = error.as_str(), "failed to tag instance, retrying");
                }
            }
        }
        Ok(if is_blocked { BLOCKED } else { EVERY })
    }
}

impl DeniedTags {
    /// Splits tags into those to write now and those that are denied.
    fn split(&self, tags: Tags, now: Timestamp) -> (Tags, Tags) {
        tags.into_iter().partition(|(key, _)| self.0.get(key).is_none_or(|retry| *retry <= now))
    }

    /// Stores denied tags until their next attempt. If all tags are denied, CreateTags itself may be.
    fn learn(&mut self, result: &TagResult, now: Timestamp) {
        if result.denied.is_empty() {
            return;
        }
        let wait = if result.written.is_empty() && !is_done(&result.denied) { EARLY_RETRY } else { RETRY };
        let retry = now.saturating_add(wait).unwrap_or(now);
        let keys: Vec<&str> = result.denied.keys().map(String::as_str).collect();
        tracing::warn!(reason = keys.join(", "), "IAM policies deny tags of instances, left out");
        self.0.extend(keys.into_iter().map(|key| (key.to_owned(), retry)));
    }
}

/// Reports whether an instance has all tags that people and programs expect, without these. The UID only makes the assignment of
/// an instance after a crash more exact.
fn is_done(left_out: &Tags) -> bool {
    left_out.keys().all(|key| key == NODE_CLAIM_UID_TAG)
}

/// Tags of one instance to write, and tags to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tagged {
    allowed: Tags,
    left_out: Tags,
}

/// Writes the tags, then annotates the NodeClaim if no further tag is expected.
async fn tag(writer: &Writer, claim: &NodeClaim, id: &str, tags: Tagged) -> Result<TagResult, WriteError> {
    let Tagged { allowed, mut left_out } = tags;
    let result = match write_tags(writer, id, allowed).await {
        Err(error) if is_gone(&error) => return Ok(TagResult::default()),
        result => result?,
    };
    left_out.extend(result.denied.clone());
    if is_done(&left_out) {
        match writer.run(annotate(claim)).await {
            Err(error) if is_gone(&error) => {}
            done => done?,
        }
    }
    Ok(result)
}

/// Writes tags in one call. If IAM denies the call, writes each tag alone.
async fn write_tags(writer: &Writer, id: &str, tags: Tags) -> Result<TagResult, WriteError> {
    if tags.is_empty() || create_tags(writer, id, &tags).await? {
        return Ok(TagResult { written: tags, denied: Tags::new() });
    }
    let mut result = TagResult::default();
    let is_single = tags.len() == 1;
    for (key, value) in tags {
        let one = Tags::from([(key, value)]);
        if !is_single && create_tags(writer, id, &one).await? {
            result.written.extend(one);
        } else {
            result.denied.extend(one);
        }
    }
    Ok(result)
}

/// Calls CreateTags, and pauses. Returns false if IAM denies the call.
async fn create_tags(writer: &Writer, id: &str, tags: &Tags) -> Result<bool, WriteError> {
    let written = match writer.run(Operation::Tag(id.to_owned(), tags.clone())).await {
        Err(WriteError::Cloud(error)) if error.kind == ErrorKind::Unauthorized => false,
        result => result.map(|()| true)?,
    };
    tokio::time::sleep(PAUSE).await;
    Ok(written)
}

/// Publishes denied tags as an event of the EC2NodeClass. An equal event is sent once.
fn report(cluster: &Cluster, claim: &NodeClaim, denied: &Tags) {
    if denied.is_empty() {
        return;
    }
    let keys: Vec<&str> = denied.keys().map(String::as_str).collect();
    let keys = keys.join(", ");
    let class = cluster.read(|index| index.classes.get(&claim.spec.node_class_ref.name).cloned());
    if let Some(class) = class {
        let message = format!(
            "the controller's IAM policies deny CreateTags with {keys}: instances that are launched together do not get these \
             tags; add the keys to aws:TagKeys of statement AllowScopedResourceTagging"
        );
        cluster.notes.publish(Event::warning(ObjectReference::to(class.as_ref()), reason::TAGS_DENIED, message));
    }
}

/// Reports whether the instance or the NodeClaim is deleted, so that no tags are needed.
fn is_gone(error: &WriteError) -> bool {
    error.status() == Some(404) || matches!(error, WriteError::Cloud(error) if error.kind == ErrorKind::NotFound)
}

/// Returns registered NodeClaims without the annotation of written tags.
fn untagged(index: &Index) -> Vec<Arc<NodeClaim>> {
    let is_due = |claim: &&Arc<NodeClaim>| {
        let annotations = claim.metadata.annotations.as_ref();
        let tagged = annotations.and_then(|all| all.get(annotation::INSTANCE_TAGGED));
        let named = claim.status.as_ref().is_some_and(|status| !status.node_name.is_empty());
        claim.metadata.deletion_timestamp.is_none()
            && claim.is_true(condition::REGISTERED)
            && named
            && tagged.is_none_or(|value| value != annotation::TRUE)
    };
    index.claims.values().filter(is_due).cloned().collect()
}

/// Returns the tags that the instance of a registered NodeClaim lacks.
fn missing_tags(claim: &NodeClaim, instance: &Instance, cluster: &str) -> Tags {
    let id = ClaimId {
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
    };
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    let mut wanted: Tags = ownership_tags(&id);
    wanted.insert(NAME.to_owned(), node);
    wanted.insert(CLUSTER_TAG.to_owned(), cluster.to_owned());
    wanted.retain(|key, value| match instance.tags.get(key) {
        Some(_) if key == NAME => false,
        Some(found) => found != value,
        None => true,
    });
    wanted
}

/// Returns the operation that annotates a NodeClaim whose instance is tagged.
fn annotate(claim: &NodeClaim) -> Operation {
    let annotations = json!({"metadata": {"annotations": {
        annotation::INSTANCE_TAGGED: annotation::TRUE,
        annotation::CLUSTER_NAME_TAGGED: annotation::TRUE,
    }}});
    Operation::Patch(Target::Claim(claim.metadata.name.clone().unwrap_or_default()), annotations)
}

#[cfg(test)]
mod tests;
