//! Model of EC2: the NodeClaim and the Node of a planned launch.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::nodeclaim::{NodeClaimSpec, NodeClaimStatus, ResourceRequirements};
use api::objects::{Node, NodeCondition, NodeSpec, NodeStatus};
use api::status::{Conditioned, Time};
use api::{NodeClaim, NodePool, annotation, condition, hash, label, quantity};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::{Catalogue, InstanceType, Launch, Offer, Offering, Operator, Requirements};

/// Returns the NodeClaim of a launch with the instance type and offering that the plan has priced; `None` if none of them is available.
pub(crate) fn launched(
    launch: &Launch,
    pool: &NodePool,
    catalogue: &Catalogue,
    name: &str,
    now: Timestamp,
) -> Option<NodeClaim> {
    let (kind, offering) = choice(launch, catalogue)?;
    let template = &pool.spec.template;
    let spec = NodeClaimSpec {
        taints: template.spec.taints.clone(),
        startup_taints: None,
        requirements: Arc::default(),
        resources: ResourceRequirements { requests: quantity::list(launch.requests.iter()) },
        node_class_ref: template.spec.node_class_ref.clone(),
        termination_grace_period: template.spec.termination_grace_period.clone(),
        expire_after: template.spec.expire_after.clone(),
    };
    let mut claim = NodeClaim::new(name, spec);
    claim.metadata.uid = Some(name.to_owned());
    claim.metadata.creation_timestamp = Some(Time(now));
    claim.metadata.labels = Some(labels(launch, pool, kind, offering));
    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    if let Ok(hash) = hash::node_pool(pool) {
        annotations.insert(annotation::NODEPOOL_HASH.to_owned(), hash);
        annotations.insert(annotation::NODEPOOL_HASH_VERSION.to_owned(), hash::NODEPOOL_VERSION.to_owned());
    }
    claim.metadata.annotations = Some(annotations);
    let status = NodeClaimStatus {
        provider_id: format!("aws:///{}/{name}", offering.zone),
        capacity: quantity::list(kind.capacity.iter()),
        allocatable: quantity::list(kind.allocatable.iter()),
        ..NodeClaimStatus::default()
    };
    claim.status = Some(status);
    claim.set_true(condition::LAUNCHED, now);
    Some(claim)
}

/// Returns the cheapest available offering of the listed instance types. EC2 may choose another one for spot, which costs more and is
/// interrupted less.
fn choice<'c>(launch: &Launch, catalogue: &'c Catalogue) -> Option<(&'c InstanceType, &'c Offering)> {
    let requirements: Requirements = launch.requirements.iter().collect();
    let types = launch.instance_types.iter().filter_map(|name| catalogue.instance_type(name));
    let offerings = types.flat_map(|kind| {
        let offer = Offer::new(kind);
        let available = offer.offerings(&requirements).filter(|offering| offering.available);
        available.map(move |offering| (kind, offering)).collect::<Vec<_>>()
    });
    offerings.min_by_key(|(kind, offering)| (kind.cost(offering.price), &kind.name, &offering.zone))
}

fn labels(launch: &Launch, pool: &NodePool, kind: &InstanceType, offering: &Offering) -> BTreeMap<String, String> {
    let template = &pool.spec.template;
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    let single = launch.requirements.iter().filter(|it| it.operator == Operator::In && it.values.len() == 1);
    labels.extend(single.map(|it| (it.key.clone(), it.values[0].clone())));
    let fixed = kind.labels.iter().filter(|(_, values)| values.len() == 1);
    labels.extend(fixed.map(|(key, values)| (key.clone(), values[0].clone())));
    labels.extend(offering.labels.clone());
    let class = &template.spec.node_class_ref;
    let reservation = offering.reservation.as_ref().map(|own| (label::CAPACITY_RESERVATION_ID, own.id.clone()));
    let own = [
        (label::NODEPOOL, launch.pool.clone()),
        (label::INSTANCE_TYPE, kind.name.clone()),
        (label::ZONE, offering.zone.clone()),
        (label::CAPACITY_TYPE, offering.capacity_type.as_str().to_owned()),
    ];
    labels.extend(own.into_iter().chain(reservation).map(|(key, value)| (key.to_owned(), value)));
    labels.insert(label::node_class_key(&class.group, &class.kind), class.name.clone());
    labels
}

/// Returns the initialized Node of a NodeClaim, and completes the NodeClaim.
pub(crate) fn initialized(claim: &mut NodeClaim, now: Timestamp) -> Node {
    let name = claim.metadata.name.clone().unwrap_or_default();
    let status = claim.status.get_or_insert_default();
    if status.node_name.is_empty() {
        status.node_name.clone_from(&name);
    }
    for type_ in [condition::REGISTERED, condition::INITIALIZED] {
        claim.set_true(type_, now);
    }
    let status = claim.status.clone().unwrap_or_default();
    let name = status.node_name;
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    let own = [(label::HOSTNAME, name.as_str()), (label::REGISTERED, label::TRUE), (label::INITIALIZED, label::TRUE)];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let ready = NodeCondition {
        type_: condition::READY.to_owned(),
        status: condition::TRUE.to_owned(),
        last_transition_time: Some(Time(now)),
        ..NodeCondition::default()
    };
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            uid: Some(name),
            creation_timestamp: Some(Time(now)),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: NodeSpec {
            provider_id: status.provider_id,
            taints: claim.spec.taints.clone().unwrap_or_default(),
            ..NodeSpec::default()
        },
        status: NodeStatus {
            conditions: vec![ready],
            capacity: status.capacity,
            allocatable: status.allocatable,
            ..NodeStatus::default()
        },
    }
}
