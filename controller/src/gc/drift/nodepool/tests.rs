//! Tests of drift from the NodePool and of its condition.

use api::status::Conditioned;
use api::{annotation, condition, hash, label, reason};
use serde_json::{Value, json};

use super::{follow_pool, of_pool};
use crate::fixture::{at, claim, condition as cond, merge, pool};

fn requires(requirements: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"requirements": requirements}}}})
}

/// Returns a NodeClaim of this NodePool, with these changes.
fn fresh(of_pool: &Value, changes: &[Value]) -> Value {
    let hash = hash::node_pool(&pool(of_pool)).unwrap();
    let mut all = json!({"metadata": {
        "annotations": {annotation::NODEPOOL_HASH: hash, annotation::NODEPOOL_HASH_VERSION: hash::NODEPOOL_VERSION},
        "labels": {label::ARCH: "amd64", label::INSTANCE_TYPE: "m5.large"},
    }});
    changes.iter().for_each(|change| merge(&mut all, change));
    all
}

fn reason(of_claim: &Value, of_the_pool: &Value) -> Option<&'static str> {
    of_pool(&claim(of_claim), &pool(of_the_pool)).map(|drift| drift.reason)
}

/// Rows: a change of the NodePool's template since the creation of the NodeClaim, and the expected reason.
#[test]
fn of_pool_returns_a_reason_when_template_or_labels_differ() {
    let template = |change: Value| json!({"spec": {"template": change}});
    let before = template(json!({
        "metadata": {"labels": {"tier": "a"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]},
    }));
    let reversed = json!([{"key": "b", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]);
    let arch = |operator: &str, values: &[&str]| {
        template(json!({"spec": {"requirements": [{"key": label::ARCH, "operator": operator, "values": values}]}}))
    };
    let rows = [
        ("nothing", json!({}), None),
        ("a label", template(json!({"metadata": {"labels": {"tier": "b"}}})), Some(reason::NODEPOOL_DRIFTED)),
        ("an annotation", template(json!({"metadata": {"annotations": {"a": "b"}}})), Some(reason::NODEPOOL_DRIFTED)),
        ("its life", template(json!({"spec": {"expireAfter": "1h"}})), Some(reason::NODEPOOL_DRIFTED)),
        ("the order of taints", template(json!({"spec": {"taints": reversed}})), None),
        ("what claims meet", arch("In", &["amd64", "arm64"]), None),
        ("what they do not", arch("In", &["arm64"]), Some(reason::REQUIREMENTS_DRIFTED)),
        ("what they must not be", arch("NotIn", &["amd64"]), Some(reason::REQUIREMENTS_DRIFTED)),
        ("beside the template", json!({"spec": {"weight": 7, "disruption": {"consolidateAfter": "1h"}}}), None),
    ];
    for (what, change, expected) in rows {
        let mut now = before.clone();
        merge(&mut now, &change);
        assert_eq!(reason(&fresh(&before, &[]), &now), expected, "{what}");
    }
}

/// Rows: a requirement of the NodePool, and whether a NodeClaim without the label drifts.
#[test]
fn of_pool_returns_drift_when_a_required_label_is_missing() {
    let rows = [
        (json!({"operator": "In", "values": ["a"]}), true),
        (json!({"operator": "Exists"}), true),
        (json!({"operator": "Gt", "values": ["1"]}), true),
        (json!({"operator": "NotIn", "values": ["a"]}), false),
        (json!({"operator": "DoesNotExist"}), false),
    ];
    for (mut asked, drifts) in rows {
        merge(&mut asked, &json!({"key": "rack"}));
        let now = requires(&json!([asked]));
        let plain = fresh(&now, &[]);
        assert_eq!(reason(&plain, &now), drifts.then_some(reason::REQUIREMENTS_DRIFTED), "{asked}");
        let known = fresh(&now, &[json!({"spec": {"requirements": [asked]}})]);
        assert_eq!(reason(&known, &now), None, "it was required when the claim was made: {asked}");
    }
}

#[test]
fn of_pool_accepts_deprecated_label_names() {
    let now = requires(&json!([{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]));
    assert_eq!(reason(&fresh(&now, &[]), &now), None);
    let arm = json!({"metadata": {"labels": {label::ARCH: "arm64"}}});
    let drift = of_pool(&claim(&fresh(&now, &[arm])), &pool(&now)).unwrap();
    let sentence = "NodePool requires beta.kubernetes.io/arch In amd64, the value is \"arm64\"";
    assert_eq!((drift.reason, drift.message.as_str()), (reason::REQUIREMENTS_DRIFTED, sentence));
}

#[test]
fn of_pool_checks_template_first_and_skips_foreign_hashes() {
    let now = requires(&json!([{"key": label::ARCH, "operator": "In", "values": ["arm64"]}]));
    let hashed = |version: Option<&str>| {
        let annotations = json!({annotation::NODEPOOL_HASH: "of long ago", annotation::NODEPOOL_HASH_VERSION: version});
        fresh(&now, &[json!({"metadata": {"annotations": annotations}})])
    };
    let rows = [
        (Some(hash::NODEPOOL_VERSION), reason::NODEPOOL_DRIFTED),
        (Some("v2"), reason::REQUIREMENTS_DRIFTED),
        (None, reason::REQUIREMENTS_DRIFTED),
    ];
    for (version, expected) in rows {
        assert_eq!(reason(&hashed(version), &now), Some(expected), "{version:?}");
    }
}

/// Rows: conditions of a NodeClaim, whether its NodePool changed (`None`: no NodePool), and the expected reason and transition
/// time.
#[test]
fn follow_pool_writes_its_reasons_and_keeps_others() {
    let drifted = |reason: &str| {
        let mut drifted = cond(condition::DRIFTED, "True", 2);
        drifted["reason"] = reason.into();
        drifted
    };
    let launched = |status: &str| cond(condition::LAUNCHED, status, 1);
    let (ours, theirs) = (reason::NODEPOOL_DRIFTED, reason::AMI_DRIFT);
    let rows = [
        ("fresh", vec![launched("True")], Some(false), None),
        ("changed", vec![launched("True")], Some(true), Some((ours, 60))),
        ("changed and reported", vec![launched("True"), drifted(ours)], Some(true), Some((ours, 2))),
        ("changed and drifted before", vec![launched("True"), drifted(theirs)], Some(true), Some((ours, 2))),
        ("changed back", vec![launched("True"), drifted(ours)], Some(false), None),
        ("as it was, and of another image", vec![launched("True"), drifted(theirs)], Some(false), Some((theirs, 2))),
        ("not launched", vec![launched("Unknown")], Some(true), None),
        ("not launched any more", vec![launched("Unknown"), drifted(ours)], Some(true), None),
        ("without its pool", vec![launched("True"), drifted(ours)], None, Some((ours, 2))),
    ];
    for (what, conditions, changed, expected) in rows {
        let mut claim = claim(&fresh(&json!({}), &[json!({"status": {"conditions": conditions}})])).as_ref().clone();
        let (empty, template) = (json!({}), json!({"spec": {"template": {"metadata": {"labels": {"tier": "b"}}}}}));
        let pool = changed.map(|changed| pool(if changed { &template } else { &empty }));
        follow_pool(&mut claim, pool.as_deref(), at(60));
        let found = api::status::find(claim.conditions(), condition::DRIFTED);
        let found = found.map(|found| (found.reason.as_str(), found.last_transition_time.0));
        assert_eq!(found, expected.map(|(reason, since)| (reason, at(since))), "{what}");
    }
}

#[test]
fn follow_pool_reports_no_drift_when_nodepool_is_deleting() {
    let gone = json!({"metadata": {"deletionTimestamp": at(5).to_string(), "finalizers": ["other"]}});
    let launched = json!({"status": {"conditions": [cond(condition::LAUNCHED, "True", 1)]}});
    let mut claim = claim(&fresh(&json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}), &[launched]));
    let claim = std::sync::Arc::make_mut(&mut claim);
    follow_pool(claim, Some(&pool(&gone)), at(60));
    assert!(!claim.is_true(condition::DRIFTED));
}
