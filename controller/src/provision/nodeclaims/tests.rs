//! Tests of the NodeClaims of planned launches.

use api::{NodeClaim, annotation, hash, label, taint};
use planner::{Launch, MicroDollars, Operator, Resources};
use serde_json::{Value, json};
use snapshot::Overlaid;

use super::{LaunchOrigin, claim};
use crate::fixture::{class, pool};

fn launch() -> Launch {
    let wanted = |key: &str, values: &[&str]| planner::Requirement {
        key: key.to_owned(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    };
    Launch {
        pool: "default".to_owned(),
        requirements: vec![
            wanted("team", &["blue"]),
            wanted("tier", &["a", "b"]),
            wanted(label::CAPACITY_TYPE, &["spot"]),
        ],
        instance_types: std::sync::Arc::new(vec!["m5.large".to_owned(), "c5.large".to_owned()]),
        requests: Resources::from_iter([("cpu", 1500), ("memory", 1 << 30)]),
        min_instance_types: Some(2),
        pods: vec![0],
        price: MicroDollars(1),
        commitment: None,
        purpose: planner::Purpose::Provision,
        min_values_relaxed: false,
    }
}

fn made(plan: u64, index: usize, pool_change: &Value, class_change: &Value) -> NodeClaim {
    let origin = LaunchOrigin { plan, position: index, overlaid: None, timeline: None };
    claim(&launch(), &origin, &pool(pool_change), &class(class_change))
}

fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap()
}

#[test]
fn name_is_the_same_only_when_the_launch_is_the_same() {
    let one = made(1, 0, &json!({}), &json!({}));
    assert_eq!(name(&one), name(&made(1, 0, &json!({}), &json!({}))));
    let mut names: Vec<String> = (0..1000_u64)
        .flat_map(|plan| (0..10).map(move |index| (plan, index)))
        .map(|(plan, index)| super::name("default", plan, index))
        .collect();
    names.sort();
    names.dedup();
    assert!(names.len() > 9_990, "{} of 10,000 names differ", names.len());
}

#[test]
fn name_has_63_characters_when_the_nodepool_name_is_long() {
    let name = super::name(&"p".repeat(200), u64::MAX, usize::MAX);
    assert_eq!(name.len(), 63);
}

#[test]
fn claim_has_the_startup_taint_only_when_the_agent_is_enabled() {
    let agent = json!({"metadata": {"annotations": {annotation::AGENT: "enabled"}}});
    let disabled = json!({"metadata": {"annotations": {annotation::AGENT: "disabled"}}});
    let cilium = json!({"spec": {"template": {"spec": {"startupTaints": [{"key": "cilium", "effect": "NoExecute"}]}}}});
    let rows = [
        (json!({}), json!({}), vec![]),
        (json!({}), disabled, vec![]),
        (json!({}), agent.clone(), vec![taint::AGENT_NOT_READY]),
        (cilium.clone(), json!({}), vec!["cilium"]),
        (cilium, agent, vec!["cilium", taint::AGENT_NOT_READY]),
    ];
    for (pool, class, expected) in rows {
        let claim = made(1, 0, &pool, &class);
        let taints: Vec<String> = claim.spec.startup_taints.into_iter().flatten().map(|taint| taint.key).collect();
        assert_eq!(taints, expected, "{pool} {class}");
    }
}

#[test]
fn claim_has_labels_hashes_finalizer_and_owner() {
    let pool = json!({
        "metadata": {"annotations": {annotation::NODEPOOL_HASH: "of an older template"}},
        "spec": {"template": {"metadata": {"labels": {"zone-kind": "edge"}, "annotations": {"note": "mine"}}}},
    });
    let class = json!({"metadata": {"annotations": {annotation::EC2_NODE_CLASS_HASH: "22"}}});
    let hash = hash::node_pool(&crate::fixture::pool(&pool)).unwrap();
    let claim = made(1, 0, &pool, &class);
    let labels = claim.metadata.labels.unwrap();
    let label_value = |key: &str| labels.get(key).map(String::as_str);
    assert_eq!(
        (label_value(label::NODEPOOL), label_value("zone-kind"), label_value("team")),
        (Some("default"), Some("edge"), Some("blue"))
    );
    assert_eq!(label_value(label::EC2_NODE_CLASS), Some("default"));
    assert_eq!((label_value("tier"), label_value(label::CAPACITY_TYPE)), (None, None), "not settled before the launch");
    let annotations = claim.metadata.annotations.unwrap();
    assert_eq!((&*annotations["note"], &annotations[annotation::NODEPOOL_HASH]), ("mine", &hash));
    assert_eq!(annotations[annotation::NODEPOOL_HASH_VERSION], hash::NODEPOOL_VERSION);
    assert_eq!(annotations[annotation::EC2_NODE_CLASS_HASH], "22");
    assert_eq!(claim.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    assert_eq!(claim.metadata.owner_references.unwrap()[0].uid, "pool-uid");
}

#[test]
fn claim_has_requests_and_instance_types_of_the_launch() {
    let claim = made(1, 0, &json!({}), &json!({}));
    let requests: Vec<(&str, &str)> =
        claim.spec.resources.requests.iter().map(|(name, amount)| (name.as_str(), amount.0.as_str())).collect();
    assert_eq!(requests, [("cpu", "1500m"), ("memory", "1Gi")]);
    let types = claim.spec.requirements.iter().find(|wanted| wanted.key == label::INSTANCE_TYPE).unwrap();
    assert_eq!((types.values.len(), types.min_values), (2, Some(2)));
}

fn annotated(launch: &Launch, overlaid: Option<&Overlaid>) -> Vec<(String, String)> {
    let origin = LaunchOrigin { plan: 1, position: 0, overlaid, timeline: None };
    let claim = claim(launch, &origin, &pool(&json!({})), &class(&json!({})));
    let annotations = claim.metadata.annotations.into_iter().flatten();
    annotations.filter(|(key, _)| !key.starts_with(annotation::NODEPOOL_HASH)).collect()
}

#[test]
fn claim_records_relaxed_min_values_and_overlays() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let overlaid = Overlaid { price: names(&["m5.large"]), capacity: names(&["r5.large"]) };
    let on = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let relaxed = Launch { min_values_relaxed: true, ..launch() };
    assert_eq!(annotated(&launch(), None), [on(annotation::MIN_VALUES_RELAXED, "false")]);
    assert_eq!(annotated(&relaxed, None), [on(annotation::MIN_VALUES_RELAXED, "true")]);
    let expected = [on(annotation::MIN_VALUES_RELAXED, "false"), on(annotation::PRICE_OVERLAY_APPLIED, "true")];
    assert_eq!(annotated(&launch(), Some(&overlaid)), expected, "of the types that it lists");
}

/// A NodeClaim of a static NodePool is the template: a later launch choice may find more offerings than the plan found.
#[test]
fn claim_has_template_requirements_when_launch_is_static() {
    let launch = Launch {
        purpose: planner::Purpose::Static,
        requests: Resources::default(),
        min_instance_types: None,
        pods: Vec::new(),
        ..launch()
    };
    let template =
        |requirements: Value| json!({"spec": {"replicas": 1, "template": {"spec": {"requirements": requirements}}}});
    let spot = json!([{"key": label::CAPACITY_TYPE, "operator": "In", "values": ["spot"]}]);
    let tier = json!([{"key": "tier", "operator": "In", "values": ["a", "b"], "minValues": 2}]);
    let rows = [
        (spot, vec![(label::CAPACITY_TYPE, vec!["spot"])]),
        (tier, vec![("tier", vec!["a", "b"]), (label::CAPACITY_TYPE, vec!["on-demand"])]),
    ];
    for (requirements, expected) in rows {
        let origin = LaunchOrigin { plan: 1, position: 0, overlaid: None, timeline: None };
        let claim = claim(&launch, &origin, &pool(&template(requirements)), &class(&json!({})));
        let found: Vec<(&str, Vec<&str>)> = claim
            .spec
            .requirements
            .iter()
            .map(|one| (one.key.as_str(), one.values.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(found, expected);
        assert!(claim.spec.resources.requests.is_empty());
        let annotations = claim.metadata.annotations.unwrap_or_default();
        assert!(!annotations.contains_key(annotation::MIN_VALUES_RELAXED), "minValues was not evaluated");
    }
}

/// Pods that the plan assigns to a new node of a static NodePool rely on the requirements of the plan.
#[test]
fn claim_has_plan_requirements_when_a_static_launch_has_pods() {
    let launch = Launch { purpose: planner::Purpose::Static, ..launch() };
    let origin = LaunchOrigin { plan: 1, position: 0, overlaid: None, timeline: None };
    let planned = Launch { purpose: planner::Purpose::Provision, ..launch.clone() };
    let of = |launch: &Launch| claim(launch, &origin, &pool(&json!({})), &class(&json!({}))).spec.requirements;
    assert_eq!(of(&launch), of(&planned));
    let kept = pool(&json!({"spec": {"replicas": 1}}));
    let of_kept = |launch: &Launch| claim(launch, &origin, &kept, &class(&json!({}))).spec.requirements;
    let replacement = Launch { purpose: planner::Purpose::Replacement, pods: Vec::new(), ..planned.clone() };
    assert_eq!(of_kept(&replacement), of(&planned), "pods of the node that goes count on it");
    let without_requests = Launch { requests: Resources::default(), ..replacement };
    assert_eq!(of_kept(&without_requests).to_vec(), kept.template_requirements());
}
