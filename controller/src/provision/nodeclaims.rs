//! Conversion of planned launches into NodeClaims. Pure. The same launch always has the same name, so that a repeated creation
//! creates one NodeClaim.

use std::collections::{BTreeMap, BTreeSet};

use api::nodeclaim::{NodeClaimSpec, ResourceRequirements};
use api::{EC2NodeClass, NodeClaim, NodePool, Requirement, Taint, annotation, finalizer, hash, label, quantity, taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use planner::{Launch, Purpose};
use snapshot::Overlaid;

use crate::reconcile::hashes;

/// Letters of name suffixes: no vowels, so that no words result, and no characters that resemble others.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const ENDING: usize = 6;
/// Maximum length of the NodePool's name in the name of a NodeClaim: the name of a node has at most 63 characters.
const POOL_LETTERS: usize = 63 - 1 - ENDING;

/// Origin of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchOrigin<'a> {
    /// Id of the plan.
    pub plan: u64,
    /// Position of the launch in that plan.
    pub position: usize,
    /// Instance types of the NodePool that NodeOverlays change, if any.
    pub overlaid: Option<&'a Overlaid>,
    /// Begin of the node's timeline, where a pod needs the node; see [`api::timeline`].
    pub timeline: Option<&'a str>,
}

/// Returns the NodeClaim of one launch.
#[must_use]
pub fn claim(launch: &Launch, origin: &LaunchOrigin<'_>, pool: &NodePool, class: &EC2NodeClass) -> NodeClaim {
    let template = &pool.spec.template;
    let spec = NodeClaimSpec {
        taints: template.spec.taints.clone(),
        startup_taints: startup_taints(pool, class),
        requirements: match launch.purpose {
            // The template's requirements without a change, unless pods rely on narrower ones.
            Purpose::Static if launch.pods.is_empty() => pool.template_requirements().into(),
            Purpose::Replacement if pool.spec.replicas.is_some() && launch.requests.is_empty() => {
                pool.template_requirements().into()
            }
            Purpose::Provision | Purpose::Static | Purpose::Replacement => requirements(launch).into(),
        },
        resources: ResourceRequirements { requests: quantity::list(launch.requests.iter()) },
        node_class_ref: template.spec.node_class_ref.clone(),
        termination_grace_period: template.spec.termination_grace_period.clone(),
        expire_after: template.spec.expire_after.clone(),
    };
    let mut claim = NodeClaim::new(&name(&launch.pool, origin.plan, origin.position), spec);
    claim.metadata.labels = Some(labels(launch, pool));
    claim.metadata.annotations = Some(annotations(launch, origin, pool, class));
    claim.metadata.finalizers = Some(vec![finalizer::TERMINATION.to_owned()]);
    claim.metadata.owner_references = Some(vec![owner(pool)]);
    claim
}

/// Returns a short, readable name that is the same for the same launch.
fn name(pool: &str, plan: u64, index: usize) -> String {
    let front: String = pool.chars().take(POOL_LETTERS).collect();
    let mut hash = hash::fnv1a(format!("{pool}/{plan}/{index}").into_bytes());
    let mut ending = String::new();
    for _ in 0..ENDING {
        let letter = usize::try_from(hash % LETTERS.len() as u64).unwrap_or_default();
        ending.push(char::from(LETTERS[letter]));
        hash /= LETTERS.len() as u64;
    }
    format!("{front}-{ending}")
}

fn owner(pool: &NodePool) -> OwnerReference {
    let ObjectMeta { name, uid, .. } = pool.metadata.clone();
    OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodePool".to_owned(),
        name: name.unwrap_or_default(),
        uid: uid.unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

/// Returns the startup taints of the NodePool, and Kerf's own if nodes of the EC2NodeClass run the agent.
fn startup_taints(pool: &NodePool, class: &EC2NodeClass) -> Option<Vec<Taint>> {
    let mut taints = pool.spec.template.spec.startup_taints.clone().unwrap_or_default();
    if class.has_agent() {
        taints.push(Taint::new(taint::AGENT_NOT_READY, taint::NO_EXECUTE));
    }
    (!taints.is_empty()).then_some(taints)
}

fn labels(launch: &Launch, pool: &NodePool) -> BTreeMap<String, String> {
    let template = &pool.spec.template;
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    for wanted in &launch.requirements {
        let own = !label::is_well_known(&wanted.key) && !label::is_restricted(&wanted.key);
        if own && wanted.operator == planner::Operator::In && wanted.values.len() == 1 {
            labels.entry(wanted.key.clone()).or_insert_with(|| wanted.values[0].clone());
        }
    }
    let class = &template.spec.node_class_ref;
    labels.insert(label::NODEPOOL.to_owned(), launch.pool.clone());
    labels.insert(label::node_class_key(&class.group, &class.kind), class.name.clone());
    labels
}

/// Returns the annotations of the template, the hashes that detect drift from NodePool and EC2NodeClass, and the choices of the
/// plan that the launch needs. The NodePool's hash is computed from this template, because the annotation on the NodePool may
/// be older.
fn annotations(
    launch: &Launch,
    origin: &LaunchOrigin<'_>,
    pool: &NodePool,
    class: &EC2NodeClass,
) -> BTreeMap<String, String> {
    let mut annotations = pool.spec.template.metadata.annotations.clone().unwrap_or_default();
    for key in [annotation::EC2_NODE_CLASS_HASH, annotation::EC2_NODE_CLASS_HASH_VERSION] {
        let value = class.metadata.annotations.as_ref().and_then(|all| all.get(key));
        annotations.extend(value.map(|value| (key.to_owned(), value.clone())));
    }
    if let Ok(hash) = hash::node_pool(pool) {
        annotations.extend(hashes::OF_POOL.stamp(Some(&hash)).into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
    let mut set = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    if launch.purpose != Purpose::Static {
        set(annotation::MIN_VALUES_RELAXED, launch.min_values_relaxed.to_string());
    }
    if let Some(timeline) = origin.timeline {
        set(annotation::TIMELINE, timeline.to_owned());
    }
    let spoken_of = |names: &BTreeSet<String>| launch.instance_types.iter().any(|name| names.contains(name));
    if let Some(overlaid) = origin.overlaid {
        for (key, names) in [
            (annotation::PRICE_OVERLAY_APPLIED, &overlaid.price),
            (annotation::CAPACITY_OVERLAY_APPLIED, &overlaid.capacity),
        ] {
            if spoken_of(names) {
                set(key, annotation::TRUE.to_owned());
            }
        }
    }
    annotations
}

fn requirements(launch: &Launch) -> Vec<Requirement> {
    let mut all: Vec<Requirement> = launch
        .requirements
        .iter()
        .map(|wanted| {
            let mut requirement = Requirement::new(&wanted.key, operator(wanted.operator), wanted.values.clone());
            requirement.min_values = wanted.min_values.and_then(|count| i32::try_from(count).ok());
            requirement
        })
        .collect();
    let mut types = Requirement::new(label::INSTANCE_TYPE, api::Operator::In, launch.instance_types.iter().cloned());
    types.min_values = launch.min_instance_types.and_then(|count| i32::try_from(count).ok());
    all.push(types);
    all
}

fn operator(operator: planner::Operator) -> api::Operator {
    match operator {
        planner::Operator::In => api::Operator::In,
        planner::Operator::NotIn => api::Operator::NotIn,
        planner::Operator::Exists => api::Operator::Exists,
        planner::Operator::DoesNotExist => api::Operator::DoesNotExist,
        planner::Operator::Gt => api::Operator::Gt,
        planner::Operator::Lt => api::Operator::Lt,
        planner::Operator::Gte => api::Operator::Gte,
        planner::Operator::Lte => api::Operator::Lte,
    }
}

#[cfg(test)]
mod tests;
