//! Tests of the status of a NodePool.

use std::sync::Arc;

use api::{annotation, condition, hash, reason};
use serde_json::{Value, json};

use super::{NodePoolView, PoolMemory, decide, is_renewed};
use crate::fixture::{at, body, claim, class, condition as cond, merge, node, pool, words, written};
use crate::state::attempts::launches::BlockedLaunches;
use crate::state::attempts::replacements::ReplacementHealth;
use crate::state::index::Permissions;
use crate::state::registration_health::RegistrationHealth;

fn pool_view(change: &Value) -> NodePoolView {
    NodePoolView {
        pool: pool(change),
        class: Some(class(&ready())),
        claims: Vec::new(),
        daemonsets: Vec::new(),
        registrations: RegistrationHealth::Unknown,
        replacements: ReplacementHealth::Unknown,
        launches: None,
        held_notices: None,
        memory: PoolMemory::default(),
        stale: Vec::new(),
        permissions: Permissions::default(),
        now: at(60),
    }
}

fn ready() -> Value {
    json!({"status": {"conditions": [cond(condition::READY, "True", 1)]}})
}

/// Returns a NodePool that has its hash, so that the first patch is its status.
fn hashed() -> Value {
    let hash = hash::node_pool(&pool(&json!({}))).unwrap();
    json!({"metadata": {"annotations": {
        annotation::NODEPOOL_HASH: hash, annotation::NODEPOOL_HASH_VERSION: hash::NODEPOOL_VERSION,
    }}})
}

#[test]
fn decide_writes_the_hash_when_it_is_missing_or_stale() {
    let stale = json!({"metadata": {"annotations": {annotation::NODEPOOL_HASH: "1"}}});
    for (change, written) in [(json!({}), true), (stale, true), (hashed(), false)] {
        let steps = decide(&pool_view(&change));
        assert_eq!(words(&steps)[0] == "patch pool default", written, "{change}");
    }
    let annotations = &body(&decide(&pool_view(&json!({}))))["metadata"]["annotations"];
    assert_eq!(annotations, &hashed()["metadata"]["annotations"]);
}

#[test]
fn decide_writes_nothing_when_the_status_is_current() {
    let steps = decide(&pool_view(&hashed()));
    let mut settled = pool(&hashed()).as_ref().clone();
    settled.status = serde_json::from_value(body(&steps)["status"].clone()).unwrap();
    let again = decide(&NodePoolView { pool: Arc::new(settled), ..pool_view(&json!({})) });
    assert!(again.is_empty(), "{:?}", words(&again));
}

/// The annotations are written once, and removed once they have no facts.
#[test]
fn decide_writes_what_a_restart_must_not_forget() {
    let memory = PoolMemory { notice_removals: Some("{}".to_owned()), ..PoolMemory::default() };
    let with = |change: &Value, memory: PoolMemory| {
        let steps = decide(&NodePoolView { memory, ..pool_view(&merge_of(&hashed(), change)) });
        assert_eq!(words(&steps)[0], "status of pool default");
        if steps.len() > 1 { body(&steps[1..])["metadata"]["annotations"].clone() } else { Value::Null }
    };
    let written = json!({"metadata": {"annotations": {annotation::NOTICE_REMOVALS: "{}"}}});
    assert_eq!(with(&json!({}), memory.clone()), json!({annotation::NOTICE_REMOVALS: "{}"}));
    assert_eq!(with(&written, memory.clone()), Value::Null);
    assert_eq!(PoolMemory::from_pool(&pool(&written)), memory);
    assert_eq!(with(&written, PoolMemory::default()), json!({annotation::NOTICE_REMOVALS: null}));
    let other = PoolMemory { failed_attempts: Some("3".to_owned()), ..memory };
    assert_eq!(with(&written, other), json!({annotation::FAILED_ATTEMPTS: "3"}));
}

#[test]
fn decide_writes_nothing_when_the_nodepool_is_deleting() {
    let gone = json!({"metadata": {"deletionTimestamp": at(1).to_string(), "finalizers": ["other"]}});
    assert!(decide(&pool_view(&gone)).is_empty());
}

#[test]
fn decide_reports_the_problems_of_the_class() {
    let with = |conditions: &[Value]| Some(class(&json!({"status": {"conditions": conditions}})));
    let because = |type_: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": at(1).to_string(),
        })
    };
    let unready = because("Ready", "UnhealthyDependents", "SubnetsReady=False");
    let subnets = because("SubnetsReady", reason::SUBNETS_NOT_FOUND, "no subnet matches");
    let after = because("ValidationSucceeded", reason::DEPENDENCIES_NOT_READY, "waiting for SubnetsReady");
    let gone = json!({"metadata": {"deletionTimestamp": at(1).to_string(), "finalizers": ["other"]}});
    let rows = [
        ("ready", Some(class(&ready())), "True", condition::NODE_CLASS_READY, ""),
        ("no class", None, "False", reason::NODE_CLASS_NOT_FOUND, "create it"),
        ("a class that goes", Some(class(&gone)), "False", reason::NODE_CLASS_TERMINATING, "being deleted"),
        (
            "a new class",
            Some(class(&json!({}))),
            "Unknown",
            reason::NODE_CLASS_READINESS_UNKNOWN,
            "not been reconciled",
        ),
        (
            "a wrong class",
            with(&[subnets, after, unready.clone()]),
            "False",
            "UnhealthyDependents",
            "no subnet matches",
        ),
        ("no cause known", with(&[unready]), "False", "UnhealthyDependents", "SubnetsReady=False"),
    ];
    for (what, class, state, why, part) in rows {
        let steps = decide(&NodePoolView { class, ..pool_view(&hashed()) });
        let (found, reason, message) = written(&steps, condition::NODE_CLASS_READY).unwrap();
        assert_eq!((found.as_str(), reason.as_str()), (state, why), "{what}");
        assert!(message.contains(part) && !message.contains("waiting for"), "{what}: {message}");
        assert_eq!(written(&steps, condition::READY).unwrap().0, state, "{what}");
    }
}

#[test]
fn decide_reports_not_ready_when_the_spec_is_invalid() {
    let wrong = json!({"spec": {"template": {"spec": {
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}],
    }}}});
    let steps = decide(&pool_view(&wrong));
    let (state, why, message) = written(&steps, condition::VALIDATION_SUCCEEDED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("False", reason::NODEPOOL_VALIDATION_FAILED), "{message}");
    assert!(message.contains("karpenter.sh/nodepool"), "{message}");
    assert_eq!(written(&steps, condition::READY).unwrap().0, "False");
}

#[test]
fn decide_stays_ready_when_budgets_are_invalid() {
    let budgets = |schedule: &str| {
        json!({"spec": {"disruption": {"consolidateAfter": "30s", "budgets": [
            {"nodes": "3", "schedule": schedule, "duration": "8h"}, {"nodes": "1"},
        ]}}})
    };
    let zoned = |zone: &str| {
        let mut all = budgets("0 9 * * mon-fri");
        merge(&mut all, &json!({"metadata": {"annotations": {"kerf.sh/budget-timezone": zone}}}));
        all
    };
    let rows = [
        (budgets("0 9 * * mon-fri"), None),
        (budgets("0 9 * *"), Some("spec.disruption.budgets[0] allows no disruption")),
        (zoned("Europe/Berlin"), None),
        (zoned("Berlin"), Some("\"Berlin\" is not a time zone")),
    ];
    for (change, expected) in rows {
        let mut all = hashed();
        merge(&mut all, &change);
        let steps = decide(&pool_view(&all));
        let reported = written(&steps, condition::DISRUPTION_VALID);
        assert_eq!(reported.is_some(), expected.is_some(), "{change}");
        if let (Some((status, reason, message)), Some(part)) = (reported, expected) {
            assert_eq!((status.as_str(), reason.as_str()), ("False", reason::DISRUPTION_INVALID));
            assert!(message.contains(part), "{message}");
        }
        let valid = written(&steps, condition::VALIDATION_SUCCEEDED).map(|(status, ..)| status);
        assert_eq!(valid.as_deref(), Some("True"), "{change}");
        let ready = written(&steps, condition::READY).map(|(status, ..)| status);
        assert_eq!(ready.as_deref(), Some("True"), "{change}");
    }
}

#[test]
fn decide_reports_daemonsets_when_they_lack_the_toleration() {
    let set = |name: &str, tolerations: Value| {
        let set = json!({
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"template": {"spec": {"tolerations": tolerations, "containers": [{"name": "app"}]}}},
        });
        Arc::new(serde_json::from_value::<api::objects::DaemonSet>(set).unwrap())
    };
    let ours = json!([{"key": "kerf.sh/agent-not-ready", "operator": "Exists", "effect": "NoExecute"}]);
    let daemonsets = vec![
        set("locked-out", json!([{"key": "other", "operator": "Exists"}])),
        set("tolerant", json!([{"operator": "Exists"}])),
        set("precise", ours),
    ];
    let mut guarded = ready();
    merge(&mut guarded, &json!({"metadata": {"annotations": {annotation::AGENT: "enabled"}}}));
    for (change, named) in [(guarded, true), (ready(), false)] {
        let view = NodePoolView { class: Some(class(&change)), daemonsets: daemonsets.clone(), ..pool_view(&hashed()) };
        let steps = decide(&view);
        let found = written(&steps, condition::DAEMONSETS_TOLERATE_AGENT_TAINT);
        assert_eq!(found.is_some(), named, "{change}");
        let Some((_, why, message)) = found else { continue };
        assert_eq!(why, reason::TOLERATION_MISSING);
        assert!(message.contains("kube-system/locked-out"), "{message}");
        assert!(!message.contains("tolerant;") && !message.contains("precise"), "{message}");
        assert_eq!(written(&steps, condition::READY).unwrap().0, "True", "a warning stops nothing");
    }
}

/// The event has the text of the condition, and comes once.
#[test]
fn decide_reports_replacements_while_they_fail() {
    let cause = "default-7: the node of default-7 did not register".to_owned();
    let failing = ReplacementHealth::Failing { failures: 2, until: at(1200), cause };
    let view = NodePoolView { replacements: failing, ..pool_view(&hashed()) };
    let steps = decide(&view);
    assert_eq!(words(&steps), ["event ReplacementsFailed", "status of pool default"]);
    let (status, reason, message) = written(&steps, condition::REPLACEMENTS_HEALTHY).unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", reason::REPLACEMENTS_FAILED));
    assert!(
        message.contains("the last 2 replacements did not initialize") && message.contains("did not register"),
        "{message}"
    );
    assert_eq!(written(&steps, condition::READY).unwrap().0, "True", "the NodePool continues to launch");
    let mut known = pool(&hashed()).as_ref().clone();
    known.status = serde_json::from_value(body(&steps[1..])["status"].clone()).unwrap();
    let again =
        |replacements| decide(&NodePoolView { pool: Arc::new(known.clone()), replacements, ..pool_view(&json!({})) });
    assert!(again(view.replacements).is_empty());
    assert!(again(ReplacementHealth::Unknown).is_empty(), "a restart does not end the condition");
    let healthy = again(ReplacementHealth::Healthy);
    assert_eq!(words(&healthy), ["status of pool default"]);
    assert_eq!(written(&healthy, condition::REPLACEMENTS_HEALTHY), None);
}

#[test]
fn decide_reports_launches_while_pods_wait() {
    let rows = [(0, "gave missing nodes no place"), (1, "gave 1 pod no place"), (2, "gave 2 pods no place")];
    for (pods, part) in rows {
        let launches = Some(BlockedLaunches { pods, failures: 3, until: at(100), cause: None });
        let steps = decide(&NodePoolView { launches, ..pool_view(&hashed()) });
        assert_eq!(words(&steps), ["event LaunchesFailed", "status of pool default"]);
        let (status, reason, message) = written(&steps, condition::LAUNCHES_HEALTHY).unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", reason::LAUNCHES_FAILED));
        assert!(message.contains(part) && message.contains("2026-03-01T12:01:40Z"), "{message}");
    }
    let cause = Some("startup taint x was not removed".to_owned());
    let launches = Some(BlockedLaunches { pods: 2, failures: 3, until: at(100), cause });
    let steps = decide(&NodePoolView { launches, ..pool_view(&hashed()) });
    let (_, _, message) = written(&steps, condition::LAUNCHES_HEALTHY).unwrap();
    let parts = ["3 launches became no usable node (startup taint x was not removed)", "2 pods", "EC2NodeClass change"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    let steps = decide(&pool_view(&hashed()));
    assert_eq!(written(&steps, condition::LAUNCHES_HEALTHY), None);
}

/// Rows: annotations, permissions for packing and surge, and the values of the chart in the message.
#[test]
fn decide_reports_annotations_that_need_a_missing_permission() {
    let pack = json!({annotation::UTILIZATION: "pack"});
    let both = json!({annotation::UTILIZATION: "pack", annotation::SURGE: "true"});
    let rows = [
        (&pack, (false, true), vec!["kerf.packing.enabled=true"]),
        (&both, (false, false), vec!["kerf.packing.enabled=true", "kerf.surge.enabled=true"]),
        (&both, (true, false), vec!["kerf.surge.enabled=true"]),
        (&both, (true, true), vec![]),
        (&json!({annotation::UTILIZATION: "observe", annotation::SURGE: "false"}), (false, false), vec![]),
    ];
    for (annotations, (packing, surge), fixes) in rows {
        let change = merge_of(&hashed(), &json!({"metadata": {"annotations": annotations}}));
        let view = NodePoolView { permissions: Permissions { packing, surge }, ..pool_view(&change) };
        let steps = decide(&view);
        let found = written(&steps, condition::PERMISSIONS_GRANTED);
        assert_eq!(words(&steps).contains(&"event PermissionMissing".to_owned()), !fixes.is_empty(), "{annotations}");
        let message = found.map(|(status, _, message)| format!("{status}: {message}")).unwrap_or_default();
        assert!(fixes.iter().all(|fix| message.starts_with("False") && message.contains(fix)), "{message}");
        assert_eq!(message.is_empty(), fixes.is_empty(), "{message}");
        assert_eq!(message.matches(".enabled=true").count(), fixes.len(), "{message}");
    }
}

fn merge_of(one: &Value, other: &Value) -> Value {
    let mut all = one.clone();
    merge(&mut all, other);
    all
}

/// The NodeClaim's capacity counts, with plausible memory of its node. A NodeClaim without both counts as a node without
/// resources.
#[test]
fn decide_adds_up_the_resources_of_nodes_and_claims() {
    let capacity = |cpu: &str, memory: &str| json!({"status": {"capacity": {"cpu": cpu, "memory": memory}}});
    let hostile = json!({"cpu": "9223372036854775807", "memory": "8Ei", "invented.com/a": "1", "pods": "8Ei"});
    let claims = vec![
        (claim(&capacity("4", "8Gi")), Some(node(&capacity("3900m", "9Gi")))),
        (claim(&capacity("4", "8500Mi")), Some(node(&json!({"status": {"capacity": hostile}})))),
        (claim(&capacity("2", "8Gi")), Some(node(&json!({})))),
        (claim(&json!({})), None),
    ];
    let steps = decide(&NodePoolView { claims, ..pool_view(&hashed()) });
    let status = &body(&steps)["status"];
    assert_eq!(status["nodes"], 4);
    let resources = &status["resources"];
    assert_eq!((&resources["cpu"], &resources["memory"]), (&json!("10"), &json!("27408Mi")));
    assert_eq!((&resources["nodes"], &resources["ephemeral-storage"]), (&json!("4"), &json!("0")), "zero is present");
    assert_eq!(resources["invented.com/a"], json!(null));
}

#[test]
fn is_renewed_returns_true_when_the_nodepool_changed() {
    let unhealthy = RegistrationHealth::Unhealthy { reason: "LaunchFailed".to_owned(), message: "no".to_owned() };
    for (verdict, state) in
        [(RegistrationHealth::Healthy, "True"), (unhealthy, "False"), (RegistrationHealth::Unknown, "Unknown")]
    {
        let steps = decide(&NodePoolView { registrations: verdict.clone(), ..pool_view(&hashed()) });
        assert_eq!(written(&steps, condition::NODE_REGISTRATION_HEALTHY).unwrap().0, state, "{verdict:?}");
    }
    let steps = decide(&NodePoolView { registrations: RegistrationHealth::Healthy, ..pool_view(&hashed()) });
    let mut reconciled = pool(&hashed()).as_ref().clone();
    reconciled.status = serde_json::from_value(body(&steps)["status"].clone()).unwrap();
    let again = |pool: api::NodePool| NodePoolView { pool: Arc::new(pool), ..pool_view(&json!({})) };
    assert!(!is_renewed(&again(reconciled.clone())));
    reconciled.metadata.generation = Some(7);
    assert!(is_renewed(&again(reconciled)));
}
