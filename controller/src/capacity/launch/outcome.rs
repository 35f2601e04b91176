//! Operations on NodeClaims after the end of a launch. Pure.

use std::collections::BTreeMap;

use api::decisions::{Decision, DecisionKind, LaunchedInstance};
use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, label, reason};
use cloud::launch::claim::ClaimParts;
use cloud::launch::{LaunchChoice, LaunchFailure, LaunchRefusal};
use cloud::{FleetAnswer, FleetRequest, Instance};
use daemon::metric::Metrics;
use jiff::Timestamp;
use serde_json::json;

use crate::metrics;
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Maximum length of a condition message in characters, as in Karpenter.
const MESSAGE: usize = 300;

/// Returns the instances of an answer, with the tags of the request.
pub(super) fn instances(answer: &FleetAnswer, request: &FleetRequest, choice: &LaunchChoice) -> Vec<Instance> {
    let reservation =
        |one: &cloud::FleetInstance| choice.reservations.get(&(one.instance_type.clone(), one.zone.clone())).cloned();
    let launched = |one: &cloud::FleetInstance| Instance {
        id: one.id.clone(),
        instance_type: one.instance_type.clone(),
        zone: one.zone.clone(),
        subnet_id: one.subnet_id.clone(),
        image_id: one.image_id.clone(),
        spot: one.lifecycle == label::CAPACITY_SPOT,
        capacity_reservation_preference: reservation(one).map(|_| "capacity-reservations-only".to_owned()),
        capacity_reservation_id: reservation(one),
        tags: request.tags.clone(),
        ..Instance::default()
    };
    answer.instances.iter().map(launched).collect()
}

/// Returns the failure for an answer without errors but with fewer instances than requested.
pub(super) fn too_few() -> LaunchFailure {
    LaunchFailure::InsufficientCapacity { message: "EC2 launched fewer instances than requested".to_owned() }
}

pub(super) fn count_errors(metrics: &Metrics, index: &Index, answer: &FleetAnswer) {
    for error in &answer.errors {
        let labels = metrics::ByZoneZoneIdCapacityTypeReason {
            zone: &error.zone,
            zone_id: zone_id(index, &error.zone),
            capacity_type: &error.lifecycle,
            reason: &error.code,
        };
        metrics.add(&metrics::LAUNCH_FAILURES, labels, 1.0);
    }
}

/// Returns the id of a zone; empty if no EC2NodeClass has a subnet there.
fn zone_id<'a>(index: &'a Index, zone: &str) -> &'a str {
    let subnets = index.classes.values().filter_map(|class| class.status.as_ref()).flat_map(|status| &status.subnets);
    subnets.into_iter().find(|subnet| subnet.zone == zone).map_or("", |subnet| subnet.zone_id.as_str())
}

/// Returns the event for an unavailable offering. The NodeClaim itself chooses another offering.
pub(super) fn out_of_stock(claim: &NodeClaim, message: &str) -> Operation {
    Operation::Note(Event::warning(ObjectReference::to(claim), reason::INSUFFICIENT_CAPACITY, message.to_owned()))
}

/// Returns the patch with the labels of the instance and its instance profile. Labels of the NodeClaim take precedence. The
/// instance profile must exist as long as the instance runs.
pub(super) fn metadata(claim: &NodeClaim, parts: &ClaimParts, profile: &str) -> Operation {
    let mut labels: BTreeMap<String, String> = parts.labels.clone();
    labels.extend(claim.metadata.labels.clone().unwrap_or_default());
    let mut metadata = json!({"labels": labels});
    if !profile.is_empty() {
        metadata["annotations"] = json!({annotation::INSTANCE_PROFILE_NAME: profile});
    }
    Operation::Patch(target(claim), json!({"metadata": metadata}))
}

/// Returns the status patch of a NodeClaim that has its instance.
pub(super) fn launched(claim: &NodeClaim, parts: &ClaimParts, now: Timestamp) -> Operation {
    let mut changed = claim.clone();
    changed.initialize(now);
    let status = changed.status.get_or_insert_default();
    status.provider_id.clone_from(&parts.provider_id);
    status.image_id.clone_from(&parts.image_id);
    status.capacity.clone_from(&parts.capacity);
    status.allocatable.clone_from(&parts.allocatable);
    changed.set_true(condition::LAUNCHED, now);
    write_status(claim, &changed)
}

/// Returns the record of a launched instance.
pub(super) fn launched_record(claim: &NodeClaim, instance: &Instance, parts: &ClaimParts, now: Timestamp) -> Decision {
    Decision {
        nodepools: [claim.nodepool()].into_iter().collect(),
        nodeclaims: claim.metadata.name.iter().cloned().collect(),
        instance: Some(LaunchedInstance {
            id: instance.id.clone(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: parts.labels.get(label::CAPACITY_TYPE).cloned().unwrap_or_default(),
        }),
        price_per_hour: parts.price.map(|price| price.0),
        ..Decision::new(now, DecisionKind::Launched, "CreateFleet")
    }
}

/// Returns the operation that records a launch without an instance.
fn record_failure(claim: &NodeClaim, reason: &str, message: &str, now: Timestamp) -> Operation {
    Operation::Record(Box::new(Decision {
        message: message.to_owned(),
        nodepools: [claim.nodepool()].into_iter().collect(),
        nodeclaims: claim.metadata.name.iter().cloned().collect(),
        ..Decision::new(now, DecisionKind::LaunchFailed, reason)
    }))
}

/// Returns the operations for a NodeClaim whose launch choice was refused.
pub(super) fn refused(claim: &NodeClaim, refusal: &LaunchRefusal, now: Timestamp) -> Vec<Operation> {
    let message = daemon::error::chain(refusal);
    match refusal {
        LaunchRefusal::InsufficientCapacity(_) => failed(claim, &LaunchFailure::InsufficientCapacity { message }, now),
        LaunchRefusal::Class { .. } => {
            failed(claim, &LaunchFailure::Create { reason: reason::NODE_CLASS_NOT_READY, message }, now)
        }
    }
}

/// Returns the operations for a NodeClaim without an instance. After insufficient capacity, the NodeClaim is deleted and its
/// pods are planned again. Otherwise, its condition Launched has the reason, and the NodeClaim waits.
pub(super) fn failed(claim: &NodeClaim, failure: &LaunchFailure, now: Timestamp) -> Vec<Operation> {
    match failure {
        LaunchFailure::InsufficientCapacity { message } => {
            let note = Event::warning(ObjectReference::to(claim), reason::INSUFFICIENT_CAPACITY, message.clone());
            vec![
                Operation::Note(note),
                record_failure(claim, reason::INSUFFICIENT_CAPACITY, message, now),
                Operation::Delete(target(claim), claim.metadata.uid.clone().unwrap_or_default()),
            ]
        }
        LaunchFailure::Create { reason, message } => {
            let mut changed = claim.clone();
            changed.initialize(now);
            let message: String = message.chars().take(MESSAGE).collect();
            changed.set_unknown(condition::LAUNCHED, reason, &message, now);
            let note =
                Event::warning(ObjectReference::to(claim), reason::LAUNCH_FAILED, format!("{reason}: {message}"));
            let known = api::status::find(claim.conditions(), condition::LAUNCHED).map(|found| found.reason.as_str());
            let record = (known != Some(reason)).then(|| record_failure(claim, reason, &message, now));
            // The event comes first: the status patch may conflict with another change, and the reason must not be lost.
            std::iter::once(Operation::Note(note)).chain(record).chain([write_status(claim, &changed)]).collect()
        }
    }
}

fn write_status(before: &NodeClaim, after: &NodeClaim) -> Operation {
    Operation::PatchStatus(target(before), patches::status(&before.metadata, &before.status, &after.status))
}

fn target(claim: &NodeClaim) -> Target {
    Target::Claim(claim.metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use cloud::FleetError;

    use super::*;
    use crate::fixture::{at, class};
    use crate::metrics::table;

    #[test]
    fn count_errors_adds_the_id_of_the_zone() {
        let (metrics, mut index) = (Metrics::new(&table()), Index::default());
        let subnets = json!([{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"}]);
        drop(index.apply(class(&json!({"status": {"subnets": subnets}})).as_ref().clone(), at(0), true));
        let error = |zone: &str| FleetError {
            code: "InsufficientInstanceCapacity".to_owned(),
            zone: zone.to_owned(),
            lifecycle: "spot".to_owned(),
            ..FleetError::default()
        };
        let errors = vec![error("us-west-2a"), error("us-west-2b")];
        count_errors(&metrics, &index, &FleetAnswer { errors, ..FleetAnswer::default() });
        let text = metrics.render();
        for zone in [r#"zone="us-west-2a",zone_id="usw2-az1""#, r#"zone="us-west-2b",zone_id="""#] {
            let labels = format!(r#"{zone},capacity_type="spot",reason="InsufficientInstanceCapacity""#);
            assert!(text.contains(&format!("launch_failures_total{{{labels}}} 1.0")), "{labels} is missing in\n{text}");
        }
    }
}
