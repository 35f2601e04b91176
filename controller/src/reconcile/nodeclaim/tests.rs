//! Tests of the lifecycle of a NodeClaim, by decision.

mod launched_labels;
mod partition;
mod reboot;
mod start_timeline;
mod startup_taints;
mod timeouts;
mod unready;

use std::sync::Arc;
use std::time::Duration;

use api::objects::Node;
use api::{annotation, condition, label, reason, taint};
use serde_json::{Value, json};

use super::{
    CapacityType, GateLimit, InstanceState, NodeClaimDecision, NodeClaimView, ReplacementResult, ReplacementView,
    Scope, asks, awaits_partition, decide, has_unconfirmed_notice,
};
use crate::fixture::{at, body, claim, condition as cond, merge, node, pod, pool, status, words, written};
use crate::informer::interruption::{Notice, NoticeKind};
use crate::reconcile::work::WorkItem;
use crate::state::class_readiness::ClassReadiness;
use crate::write::writer::{Operation, Target};

const TERMINATION: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// Returns the view of the NodeClaim this many seconds after its creation. Each node has the labels of the NodeClaim, like a
/// registered one.
fn claim_view(change: &Value, nodes: &[Value], seconds: i64) -> NodeClaimView {
    let claim = claim(change);
    let registered = json!({"metadata": {"labels": claim.metadata.labels}});
    NodeClaimView {
        other_nodes: Vec::new(),
        pool: None,
        nodes: nodes.iter().map(|change| node(&merged(&[registered.clone(), change.clone()]))).collect(),
        claim,
        expected: Vec::new(),
        awaited_pod: None,
        awaits_adoption: false,
        instance: InstanceState::Unknown,
        partition: None,
        last_pod_event: None,
        gates: None,
        class: ClassReadiness::Ready,
        replacement: None,
        reboot_timeout: super::reboot::TIMEOUT,
        notice: None,
        is_notice_held: false,
        now: at(seconds),
    }
}

fn merged(parts: &[Value]) -> Value {
    let mut all = json!({});
    parts.iter().for_each(|part| merge(&mut all, part));
    all
}

/// Returns the status of a NodeClaim that is launched and registered since its creation; initialized or not.
fn registered(initialized: &str) -> Value {
    status(&[
        cond(condition::LAUNCHED, "True", 0),
        cond(condition::REGISTERED, "True", 0),
        cond(condition::INITIALIZED, initialized, 0),
        cond(condition::READY, initialized, 0),
    ])
}

fn launched() -> Value {
    status(&[cond(condition::LAUNCHED, "True", 240)])
}

/// Returns the node after its first patch in the decision.
fn patched(change: &Value, decision: &NodeClaimDecision) -> Node {
    let mut object = serde_json::to_value(node(change).as_ref()).unwrap();
    let patch = decision.steps.iter().find_map(|step| match step {
        Operation::Patch(Target::Node(_), body) => Some(body),
        _ => None,
    });
    merge(&mut object, patch.unwrap());
    serde_json::from_value(object).unwrap()
}

fn taints(node: &Node) -> Vec<&str> {
    node.spec.taints.iter().map(|taint| taint.key.as_str()).collect()
}

#[test]
fn decide_adds_the_finalizer_first() {
    let decision = decide(&claim_view(&json!({"metadata": {"finalizers": ["other"]}}), &[], 1));
    assert_eq!(words(&decision.steps), ["patch claim default-1"]);
    assert_eq!(body(&decision.steps)["metadata"]["finalizers"], json!(["other", "karpenter.sh/termination"]));
    assert_eq!(body(&decision.steps)["metadata"]["resourceVersion"], "7");
    assert!(decision.work.is_empty());
}

#[test]
fn decide_enqueues_the_launch_by_token_or_gathers_old_claims() {
    let tokenless = json!({"metadata": {"annotations": null}});
    let rows = [
        (json!({}), 0, vec![WorkItem::Launch("kerf-1-2".to_owned())]),
        (tokenless.clone(), 1, vec![]),
        (tokenless, 2, vec![WorkItem::Gather]),
    ];
    for (change, seconds, work) in rows {
        assert_eq!(decide(&claim_view(&change, &[], seconds)).work, work, "{change} after {seconds} s");
    }
}

/// A NodeClaim without an instance is deleted as soon as its EC2NodeClass is certain to launch nothing. A launched one stays.
#[test]
fn decide_deletes_unlaunched_claims_when_the_class_is_not_ready() {
    let tokenless = json!({"metadata": {"annotations": null}});
    let message = "no subnet matches".to_owned();
    let missing = ClassReadiness::Missing { message: message.clone() };
    let unready = ClassReadiness::NotReady { reason: "UnhealthyDependents".to_owned(), message: message.clone() };
    let unknown = ClassReadiness::Unknown { message };
    let deleted = |reason: &str| vec![format!("event {reason}"), "delete claim default-1 (claim-uid)".to_owned()];
    let rows = [
        ("missing", &tokenless, missing.clone(), Some(deleted(reason::NODE_CLASS_NOT_FOUND))),
        ("not ready", &tokenless, unready.clone(), Some(deleted(reason::NODE_CLASS_NOT_READY))),
        ("not known yet", &tokenless, unknown, None),
        ("launch in progress", &json!({}), unready.clone(), None),
        ("launched", &launched(), missing, None),
        ("in use", &registered("True"), unready, None),
    ];
    for (what, change, class, expected) in rows {
        let decision = decide(&NodeClaimView { class, ..claim_view(change, &[], 250) });
        let steps = words(&decision.steps);
        let deletes = steps.iter().any(|step| step.starts_with("delete"));
        assert_eq!(deletes.then_some(steps), expected, "{what}");
        assert_eq!(decision.disrupted.is_some(), expected.is_some(), "{what}");
    }
}

/// The event names the EC2NodeClass when the launch was never tried.
#[test]
fn launch_timeout_reports_the_class_without_an_attempt() {
    let tokenless = json!({"metadata": {"annotations": null}});
    let message = |class| {
        let decision = decide(&NodeClaimView { class, ..claim_view(&tokenless, &[], 300) });
        match &decision.steps[0] {
            Operation::Note(note) => note.message().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    let unknown = ClassReadiness::Unknown { message: "not reconciled yet".to_owned() };
    assert_eq!(message(unknown), "timed out after 5 minutes: not reconciled yet");
    assert!(message(ClassReadiness::Ready).contains(r#"EC2NodeClass "default" and its instance types are not loaded"#));
}

/// A replacement whose command was rolled back is deleted 15 minutes after its registration, unless pods run there.
#[test]
fn decide_deletes_abandoned_replacements_that_stay_uninitialized() {
    let view = |awaited, in_use, seconds| {
        let replaces = json!({"metadata": {"annotations": {annotation::REPLACES: "old-1"}}});
        let change = merged(&[registered("Unknown"), replaces]);
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let view = claim_view(&change, &[not_ready], seconds);
        NodeClaimView { replacement: Some(ReplacementView { awaited, in_use }), ..view }
    };
    let rows = [
        ("in time", view(false, false, 899), false),
        ("late", view(false, false, 900), true),
        ("late, but a command waits", view(true, false, 5000), false),
        ("late, but pods run there", view(false, true, 5000), false),
    ];
    for (what, view, deleted) in rows {
        let decision = decide(&view);
        assert_eq!(
            words(&decision.steps).contains(&"delete claim default-1 (claim-uid)".to_owned()),
            deleted,
            "{what}"
        );
        let failed = matches!(decision.replacement_result(&view.claim), Some(ReplacementResult::Failed { .. }));
        assert_eq!(failed, deleted, "{what}");
        assert_eq!(decision.disrupted, deleted.then_some("initialization_timeout"), "{what}");
        assert_eq!(decision.after.is_some(), !deleted, "{what}");
    }
}

#[test]
fn register_waits_for_exactly_one_node() {
    let none = decide(&claim_view(&launched(), &[], 300));
    let (state, why, _) = written(&none.steps, condition::REGISTERED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("Unknown", reason::NODE_NOT_FOUND));

    let duplicates = [json!({}), json!({"metadata": {"name": "node-2"}})];
    let two = decide(&claim_view(&launched(), &duplicates, 300));
    let (state, why, message) = written(&two.steps, condition::REGISTERED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("False", reason::MULTIPLE_NODES_FOUND));
    assert!(message.contains("node-1, node-2"), "{message}");
    assert_eq!(words(&two.steps), ["status of claim default-1"], "neither node is touched");
}

#[test]
fn decide_nominates_pods_before_the_node_accepts_pods() {
    let waiting = |name: &str, nominated: Option<&str>| {
        pod(
            &json!({"metadata": {"name": name}, "spec": {"nodeName": null}, "status": {"nominatedNodeName": nominated}}),
        )
    };
    let bound = pod(&json!({"metadata": {"name": "bound"}, "spec": {"nodeName": "node-2"}}));
    let expected =
        vec![waiting("new", None), waiting("nominated", Some("node-1")), waiting("moved", Some("node-2")), bound];
    let fresh = json!({"spec": {"taints": [{"key": taint::UNREGISTERED, "effect": "NoExecute"}]}});
    let registers = NodeClaimView { expected: expected.clone(), ..claim_view(&launched(), &[fresh], 300) };
    let steps = ["expect new moved on node-1", "patch node node-1", "status of claim default-1"];
    assert_eq!(words(&decide(&registers).steps), steps);
    let (claim, node) = gated("default-1", &json!({}));
    let waits = NodeClaimView { claim, nodes: vec![node], expected, ..claim_view(&json!({}), &[], 300) };
    assert_eq!(words(&decide(&waits).steps)[..1], steps[..1], "kube-scheduler may have forgotten");
}

#[test]
fn register_copies_the_metadata_of_the_claim_to_the_node() {
    let wanted = json!({
        "metadata": {"annotations": {"note": "kept"}},
        "spec": {
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "startupTaints": [{"key": taint::AGENT_NOT_READY, "effect": "NoExecute"}],
        },
    });
    let fresh = json!({
        "metadata": {"finalizers": ["own"], "labels": {"own": "yes", "team": "red"}},
        "spec": {"taints": [
            {"key": taint::UNREGISTERED, "effect": "NoExecute"},
            {"key": "gpu", "value": "image", "effect": "NoSchedule"},
        ]},
    });
    let decision = decide(&claim_view(&merged(&[launched(), wanted]), std::slice::from_ref(&fresh), 300));
    assert_eq!(words(&decision.steps), ["patch node node-1", "status of claim default-1"]);
    let after = patched(&fresh, &decision);
    assert_eq!(taints(&after), ["gpu", taint::AGENT_NOT_READY]);
    assert_eq!(after.spec.taints[0].value(), "image", "the image's own taint stays as it is");
    assert_eq!((after.label("own"), after.label("team")), (Some("yes"), Some("blue")));
    assert_eq!(after.label(label::REGISTERED), Some("true"));
    assert_eq!(after.annotation("note"), Some("kept"));
    assert_eq!(after.annotation("kerf.sh/launch-token"), None, "the token is the claim's own business");
    assert_eq!(after.metadata.finalizers.unwrap(), ["own", "karpenter.sh/termination"]);
    let owner = &after.metadata.owner_references.unwrap()[0];
    let owner = (owner.kind.as_str(), owner.uid.as_str(), owner.block_owner_deletion);
    assert_eq!(owner, ("NodeClaim", "claim-uid", Some(true)));
    assert_eq!(written(&decision.steps, condition::REGISTERED).unwrap().0, "True");
}

/// A startup taint that the image set may be gone already. No program removes a taint of the NodePool before the registration, so
/// a node without it has only invented the label.
#[test]
fn register_adds_no_startup_taints_when_the_label_forbids_it() {
    let wanted = json!({"spec": {
        "taints": [{"key": "gpu", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "cilium", "effect": "NoExecute"}],
    }});
    let fresh = json!({
        "metadata": {"labels": {label::DO_NOT_SYNC_TAINTS: "true"}},
        "spec": {"taints": [
            {"key": taint::UNREGISTERED, "effect": "NoExecute"}, {"key": "own", "effect": "NoSchedule"},
        ]},
    });
    let decision = decide(&claim_view(&merged(&[launched(), wanted]), std::slice::from_ref(&fresh), 300));
    assert_eq!(taints(&patched(&fresh, &decision)), ["own", "gpu"]);
}

/// The status of the first registration was not written, and the owner of the startup taint has removed it since.
#[test]
fn register_adds_no_taints_again_when_the_node_is_owned() {
    let wanted = json!({"spec": {"startupTaints": [{"key": "cilium", "effect": "NoExecute"}]}});
    let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "default-1", "uid": "claim-uid"});
    let node = |uid: &str| {
        let owner = merged(&[owner.clone(), json!({"uid": uid})]);
        json!({"metadata": {"ownerReferences": [owner], "labels": {label::REGISTERED: "true"}}})
    };
    for (uid, expected) in [("claim-uid", vec![]), ("other-uid", vec!["cilium"])] {
        let node = node(uid);
        let decision = decide(&claim_view(&merged(&[launched(), wanted.clone()]), std::slice::from_ref(&node), 300));
        assert_eq!(taints(&patched(&node, &decision)), expected, "{uid}");
    }
}

#[test]
fn register_warns_when_the_unregistered_taint_is_missing() {
    let decision = decide(&claim_view(&launched(), &[json!({})], 300));
    assert_eq!(words(&decision.steps)[0], format!("event {}", reason::UNREGISTERED_TAINT_MISSING));
}

#[test]
fn lift_taint_removes_only_the_agent_taint_when_agent_is_ready() {
    let start = json!({"spec": {"startupTaints": [
        {"key": taint::AGENT_NOT_READY, "effect": "NoExecute"}, {"key": "cilium", "effect": "NoExecute"},
    ]}});
    let reports = |word: &str| {
        json!({
            "spec": {"taints": [
                {"key": taint::AGENT_NOT_READY, "effect": "NoExecute"}, {"key": "cilium", "effect": "NoExecute"},
            ]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": condition::AGENT_READY, "status": word},
            ]},
        })
    };
    let unready = decide(&claim_view(&merged(&[registered("Unknown"), start.clone()]), &[reports("False")], 60));
    assert_eq!(words(&unready.steps), ["status of claim default-1"]);
    let (_, why, message) = written(&unready.steps, condition::INITIALIZED).unwrap();
    assert!(why == reason::STARTUP_TAINTS_EXIST && message.contains(taint::AGENT_NOT_READY), "{why}: {message}");

    let ready = decide(&claim_view(&merged(&[registered("Unknown"), start.clone()]), &[reports("True")], 60));
    assert_eq!(words(&ready.steps), ["patch node node-1"], "the rest waits for the node to be seen without it");
    let harmless = patched(&reports("True"), &ready);
    assert_eq!(taints(&harmless), ["cilium", taint::AGENT_NOT_READY]);
    assert!(!harmless.has_taint(taint::AGENT_NOT_READY, taint::NO_EXECUTE), "first it only loses its sting");

    // Any process that continues here, also after a crash, reads the elapsed time from the taint itself.
    let harmless = json!({"spec": serde_json::to_value(&harmless.spec).unwrap(), "status": reports("True")["status"]});
    let claimed = merged(&[registered("Unknown"), start.clone()]);
    let soon = decide(&claim_view(&claimed, std::slice::from_ref(&harmless), 61));
    assert_eq!((soon.steps.len(), soon.after.map(|after| after.as_millis())), (0, Some(250)));
    let doubted = merged(&[harmless.clone(), json!({"status": reports("False")["status"]})]);
    let doubted = decide(&claim_view(&claimed, &[doubted], 70));
    assert_eq!(
        words(&doubted.steps),
        ["status of claim default-1"],
        "never before the agent's word, not in between either"
    );
    assert_eq!(written(&doubted.steps, condition::INITIALIZED).unwrap().1, reason::STARTUP_TAINTS_EXIST);
    let gone = decide(&claim_view(&claimed, std::slice::from_ref(&harmless), 62));
    assert_eq!(taints(&patched(&harmless, &gone)), ["cilium"]);

    let later = decide(&claim_view(&merged(&[registered("True"), start]), &[reports("True")], 60));
    assert!(later.steps.is_empty(), "once only: later changes by users stay: {:?}", words(&later.steps));
}

#[test]
fn initialize_reports_each_obstacle() {
    let conditions = |word: &str| json!({"status": {"conditions": [{"type": "Ready", "status": word}]}});
    let tainted = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
    let gpus = |count: &str| json!({"status": {"allocatable": {"nvidia.com/gpu": count, "cpu": "4"}}});
    let wants_gpu = json!({"spec": {"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}});
    let startup = json!({"spec": {"startupTaints": [{"key": "cilium", "effect": "NoExecute"}]}});
    let rows = [
        ("silent kubelet", json!({}), conditions("Unknown"), Some(reason::NODE_NOT_READY)),
        ("unready kubelet", json!({}), conditions("False"), Some(reason::NODE_NOT_READY)),
        ("a startup taint", startup.clone(), tainted("cilium", "NoExecute"), Some(reason::STARTUP_TAINTS_EXIST)),
        ("its twin of another effect", startup, tainted("cilium", "NoSchedule"), None),
        (
            "not ready taint",
            json!({}),
            tainted(taint::NOT_READY, "NoSchedule"),
            Some(reason::KNOWN_EPHEMERAL_TAINTS_EXIST),
        ),
        ("GPUs not there", wants_gpu.clone(), json!({}), Some(reason::RESOURCE_NOT_REGISTERED)),
        ("no GPU counted yet", wants_gpu.clone(), gpus("0"), Some(reason::RESOURCE_NOT_REGISTERED)),
        ("a GPU is there", wants_gpu, gpus("1"), None),
        ("nothing in the way", json!({}), json!({}), None),
    ];
    for (what, asked, node, obstacle) in rows {
        let decision = decide(&claim_view(&merged(&[registered("Unknown"), asked]), std::slice::from_ref(&node), 60));
        let (state, why, _) = written(&decision.steps, condition::INITIALIZED).unwrap();
        match obstacle {
            Some(reason) => assert_eq!((state.as_str(), why.as_str()), ("Unknown", reason), "{what}"),
            None => {
                assert_eq!(state, "True", "{what}");
                assert_eq!(patched(&node, &decision).label(label::INITIALIZED), Some("true"), "{what}");
            }
        }
    }
}

#[test]
fn decide_deletes_the_claim_when_the_agent_reports_a_notice() {
    let deadline = "2026-03-01T12:07:00Z";
    let noticed = |reason: &str| {
        json!({
            "metadata": {"annotations": {"kerf.sh/interruption-deadline": deadline}},
            "status": {"conditions": [{"type": condition::INTERRUPTED, "status": "True", "reason": reason}]},
        })
    };
    let decision = decide(&claim_view(&registered("True"), &[noticed(reason::SPOT_INTERRUPTION)], 60));
    let gone = ["record interrupted", "event TerminatingOnInterruption", "delete claim default-1 (claim-uid)"];
    assert_eq!(words(&decision.steps), ["patch claim default-1", gone[0], gone[1], gone[2]]);
    let annotations = &body(&decision.steps)["metadata"]["annotations"];
    assert_eq!(annotations["karpenter.sh/nodeclaim-termination-timestamp"], deadline);
    assert_eq!(decision.disrupted, Some("spot_interrupted"));

    let known = json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": deadline}}});
    let again = decide(&claim_view(&merged(&[registered("True"), known]), &[noticed(reason::SPOT_INTERRUPTION)], 60));
    assert_eq!(words(&again.steps), gone);

    let sooner =
        json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "2026-03-01T12:06:00Z"}}});
    let kept = decide(&claim_view(&merged(&[registered("True"), sooner]), &[noticed(reason::SPOT_INTERRUPTION)], 60));
    assert_eq!(words(&kept.steps), gone, "a deadline never moves later");

    let advice = decide(&claim_view(&registered("True"), &[noticed(reason::REBALANCE_RECOMMENDATION)], 60));
    assert!(advice.steps.is_empty(), "a recommendation is no notice");
}

#[test]
fn decide_deletes_the_claim_when_the_controller_has_a_notice() {
    let labels = json!({"metadata": {"labels": {
        label::CAPACITY_TYPE: "spot",
        label::INSTANCE_TYPE: "m5.large",
        label::ZONE: "us-west-2a",
        label::CAPACITY_RESERVATION_ID: "cr-1",
    }}});
    let with_notice = |kind: NoticeKind, deadline: Option<i64>| {
        let mut view = claim_view(&merged(&[registered("True"), labels.clone()]), &[json!({})], 60);
        view.notice = Some(Notice { kind, deadline: deadline.map(at) });
        decide(&view)
    };
    let spot = with_notice(NoticeKind::SpotInterrupted, Some(180));
    let reported = ["event SpotInterrupted", "event SpotInterrupted", "event TerminatingOnInterruption"];
    assert_eq!(
        words(&spot.steps),
        [
            "patch claim default-1",
            reported[0],
            reported[1],
            "record interrupted",
            reported[2],
            "delete claim default-1 (claim-uid)"
        ],
        "on claim and node"
    );
    assert_eq!(spot.disrupted, Some("spot_interrupted"));
    assert!(spot.short.is_some());
    let stopped = with_notice(NoticeKind::InstanceStopped, None);
    assert_eq!(words(&stopped.steps)[0], "event InstanceStopping", "no deadline, no patch");
    assert_eq!((stopped.disrupted, stopped.short), (Some("instance_stopped"), None));
    let taken = with_notice(NoticeKind::CapacityReservationInterrupted, None);
    assert_eq!(taken.short, Some(Scope::Reservation("cr-1".to_owned())), "nothing is left of what is taken back");
    let forced = with_notice(NoticeKind::SystemStatus, Some(60));
    let annotations = &body(&forced.steps)["metadata"]["annotations"];
    assert_eq!(annotations["karpenter.sh/nodeclaim-termination-timestamp"], at(60).to_string());
}

/// Above the limit for unconfirmed notices a NodeClaim stays, and is checked again. EC2's own notice needs no limit.
#[test]
fn decide_keeps_the_claim_when_too_many_notices_are_unconfirmed() {
    let condition = json!({"type": condition::INTERRUPTED, "status": "True", "reason": reason::SPOT_INTERRUPTION});
    let reported = [json!({"status": {"conditions": [condition]}})];
    let rows = [
        ("the agent's word", &reported[..], None, true),
        ("the agent's word, and a failed check", &reported, Some(NoticeKind::SystemStatus), true),
        ("a failed check", &[json!({})], Some(NoticeKind::InstanceStatus), true),
        ("the agent's word, and EC2's", &reported, Some(NoticeKind::SpotInterrupted), false),
        ("EC2's word", &[json!({})], Some(NoticeKind::InstanceTerminated), false),
        ("no notice", &[json!({})], None, false),
    ];
    for (what, nodes, kind, unconfirmed) in rows {
        let mut view = claim_view(&registered("True"), nodes, 60);
        view.notice = kind.map(|kind| Notice { kind, deadline: None });
        assert_eq!(has_unconfirmed_notice(&view), unconfirmed, "{what}");
        view.is_notice_held = unconfirmed;
        let decision = decide(&view);
        assert_eq!(decision.disrupted.is_some(), kind.is_some_and(NoticeKind::is_announced), "{what}");
        assert_eq!(decision.after.map(|after| after.as_secs()), unconfirmed.then_some(30), "{what}");
    }
    let mut leaving = claim_view(
        &merged(&[registered("True"), json!({"metadata": {"deletionTimestamp": at(1).to_string()}})]),
        &reported,
        60,
    );
    leaving.notice = None;
    assert!(!has_unconfirmed_notice(&leaving), "it is being deleted already");
}

/// EC2 has no capacity in a spot pool in which it interrupts instances. A notice for on-demand gives no information about the
/// capacity pool.
#[test]
fn decide_marks_the_spot_offering_when_a_notice_arrives() {
    let condition = json!({"type": condition::INTERRUPTED, "status": "True", "reason": reason::SPOT_INTERRUPTION});
    let noticed = json!({"status": {"conditions": [condition]}});
    for (bought, short) in [("spot", true), ("on-demand", false)] {
        let labels = json!({"metadata": {"labels": {
            label::CAPACITY_TYPE: bought,
            label::INSTANCE_TYPE: "m5.large",
            label::ZONE: "us-west-2a",
        }}});
        let decision = decide(&claim_view(&merged(&[registered("True"), labels]), std::slice::from_ref(&noticed), 60));
        let expected = Scope::offering(CapacityType::Spot, "m5.large", "us-west-2a");
        assert_eq!(decision.short, short.then_some(expected), "{bought}");
    }
}

/// Only a spot interruption counts as one: neither a shutdown, nor the Auto Scaling group, nor maintenance of a spot instance
/// says that its pool has no capacity.
#[test]
fn decide_counts_the_agents_reason_of_an_interruption() {
    let labels = json!({"metadata": {"labels": {
        label::CAPACITY_TYPE: "spot", label::INSTANCE_TYPE: "m5.large", label::ZONE: "us-west-2a",
    }}});
    let rows = [
        (reason::SPOT_INTERRUPTION, "spot_interrupted", true),
        (reason::REBALANCE_REPLACEMENT, "rebalance_recommendation", false),
        (reason::SCHEDULED_EVENT, "scheduled_change", false),
        (reason::INSTANCE_SHUTDOWN, "instance_stopped", false),
        (reason::ASG_LIFECYCLE, "instance_terminated", false),
        ("LaterReason", "instance_terminated", false),
    ];
    for (why, counted, short) in rows {
        let condition = json!({"type": condition::INTERRUPTED, "status": "True", "reason": why});
        let noticed = json!({"status": {"conditions": [condition]}});
        let decision = decide(&claim_view(&merged(&[registered("True"), labels.clone()]), &[noticed], 60));
        assert_eq!((decision.disrupted, decision.short.is_some()), (Some(counted), short), "{why}");
        assert_eq!(
            words(&decision.steps).last().map(String::as_str),
            Some("delete claim default-1 (claim-uid)"),
            "{why}"
        );
    }
}

fn removal(change: &Value, nodes: &[Value], instance: InstanceState) -> NodeClaimDecision {
    let gone = json!({"metadata": {"deletionTimestamp": at(60).to_string()}});
    let mut view = claim_view(&merged(&[registered("True"), gone, change.clone()]), nodes, 70);
    view.instance = instance;
    decide(&view)
}

fn removal_asks(change: &Value, nodes: &[Value]) -> bool {
    let gone = json!({"metadata": {"deletionTimestamp": at(60).to_string()}});
    asks(&claim_view(&merged(&[registered("True"), gone, change.clone()]), nodes, 70))
}

/// First the node, then the instance, then the finalizer, each only when the one before is gone.
#[test]
fn deletion_removes_node_then_instance_then_finalizer() {
    let leaving = json!({"metadata": {"deletionTimestamp": at(61).to_string()}});
    let unlaunched = json!({"status": {"providerID": null, "conditions": null}});
    let unregistered = json!({"status": {"conditions": [cond(condition::LAUNCHED, "True", 0)]}});
    let (status, release) = ("status of claim default-1", "patch claim default-1");
    let rows = [
        ("a node is there", json!({}), vec![json!({})], InstanceState::Unknown, vec!["delete node node-1 (node-uid)"]),
        ("it is on its way", json!({}), vec![leaving], InstanceState::Unknown, vec![]),
        ("EC2 was not asked", json!({}), vec![], InstanceState::Unknown, vec![]),
        ("the instance lives", json!({}), vec![], InstanceState::Alive, vec!["terminate i-1", status]),
        ("its zone is shifted", json!({}), vec![], InstanceState::Shifted, vec!["event ZonalShiftActive"]),
        ("it is ending", json!({}), vec![], InstanceState::Ending, vec![status]),
        ("it is gone", json!({}), vec![], InstanceState::Gone, vec![release]),
        (
            "a node that never registered",
            unregistered,
            vec![json!({})],
            InstanceState::Alive,
            vec!["terminate i-1", status],
        ),
        ("never launched", unlaunched, vec![], InstanceState::Unknown, vec![release]),
    ];
    for (what, change, nodes, instance, expected) in rows {
        let decision = removal(&change, &nodes, instance);
        assert_eq!(removal_asks(&change, &nodes), what.starts_with("a node that") || nodes.is_empty(), "{what}");
        assert_eq!(words(&decision.steps), expected, "{what}");
        assert_eq!(decision.released, expected.contains(&release), "{what}");
        assert!(!decision.released || body(&decision.steps)["metadata"]["finalizers"] == json!([]), "{what}");
    }
}

#[test]
fn deletion_keeps_finalizers_and_claims_of_others() {
    let held = json!({"metadata": {"finalizers": ["other", "karpenter.sh/termination"]}});
    let decision = removal(&held, &[], InstanceState::Gone);
    assert_eq!(body(&decision.steps)["metadata"]["finalizers"], json!(["other"]));
    let released = removal(&json!({"metadata": {"finalizers": ["other"]}}), &[], InstanceState::Alive);
    assert!(released.steps.is_empty(), "{:?}", words(&released.steps));
}

#[test]
fn deletion_writes_the_deadline_first() {
    let graceful = json!({"spec": {"terminationGracePeriod": "5m"}});
    let decision = removal(&graceful, &[json!({})], InstanceState::Unknown);
    assert_eq!(words(&decision.steps), ["patch claim default-1", "event TerminationGracePeriodExpiring"]);
    let annotations = &body(&decision.steps)["metadata"]["annotations"];
    assert_eq!(annotations["karpenter.sh/nodeclaim-termination-timestamp"], at(360).to_string());
}

/// A node writes the deadline of its own interruption. A lie shortens its termination grace period at most.
#[test]
fn decide_ignores_deadlines_that_a_node_invents() {
    let graceful = json!({"spec": {"terminationGracePeriod": "5m"}});
    let rows = [
        (json!({}), "tomorrow", None),
        (graceful.clone(), "tomorrow", None),
        (graceful.clone(), "2036-03-01T12:00:00Z", Some(at(360))),
        (graceful, "2026-03-01T12:02:00Z", Some(at(120))),
    ];
    for (spec, deadline, expected) in rows {
        let node = json!({
            "metadata": {"annotations": {"kerf.sh/interruption-deadline": deadline}},
            "status": {"conditions": [{"type": condition::INTERRUPTED, "status": "True", "reason": "SpotInterruption"}]},
        });
        let decision = decide(&claim_view(&merged(&[registered("True"), spec]), &[node], 60));
        let written = words(&decision.steps).first().is_some_and(|first| first == "patch claim default-1");
        let written = written.then(|| body(&decision.steps)["metadata"]["annotations"][TERMINATION].clone());
        assert_eq!(written, expected.map(|at| json!(at.to_string())), "{deadline}");
    }
}

#[test]
fn deletion_replaces_deadlines_that_end_after_the_grace_period() {
    for (carried, expected) in [("tomorrow", true), ("2036-03-01T12:00:00Z", true), ("2026-03-01T12:02:00Z", false)] {
        let graceful = json!({
            "metadata": {"annotations": {TERMINATION: carried}}, "spec": {"terminationGracePeriod": "5m"},
        });
        let decision = removal(&graceful, &[json!({})], InstanceState::Unknown);
        let is_patched = words(&decision.steps).first().is_some_and(|first| first == "patch claim default-1");
        assert_eq!(is_patched, expected, "{carried}");
        if is_patched {
            assert_eq!(body(&decision.steps)["metadata"]["annotations"][TERMINATION], at(360).to_string());
        }
    }
}

#[test]
fn decide_reports_other_nodes_that_claim_the_instance() {
    let mut view = claim_view(&registered("True"), &[json!({})], 60);
    view.other_nodes = vec![node(&json!({"metadata": {"name": "a-node"}}))];
    assert_eq!(words(&decide(&view).steps), ["event ProviderIDConflict"]);
    view.claim = claim(&launched());
    assert!(!words(&decide(&view).steps).contains(&"event ProviderIDConflict".to_owned()), "nothing registered yet");
}

/// The policy of an image is a word of the node. Only the NodeClaim's policy leads to a replacement.
#[test]
fn decide_reports_a_rebalance_policy_that_only_the_node_has() {
    let recommended = json!({"type": condition::INTERRUPTED, "status": "True", "reason": reason::REBALANCE_RECOMMENDATION,
        "message": "id=rebalance-1 policy=replace EC2 sees a risk"});
    let noticed = json!({"status": {"conditions": [recommended]}});
    for (policy, reported) in [(None, true), (Some("cordon"), true), (Some("replace"), false)] {
        let of_pool = json!({"metadata": {"annotations": {annotation::REBALANCE: policy}}});
        let view = claim_view(&merged(&[registered("True"), of_pool]), std::slice::from_ref(&noticed), 60);
        let steps = words(&decide(&view).steps);
        assert_eq!(steps.contains(&"event RebalanceNotApproved".to_owned()), reported, "{policy:?}: {steps:?}");
    }
}

#[test]
fn decide_stores_pod_events_at_most_every_ten_seconds() {
    let mut view = claim_view(&registered("True"), &[json!({})], 100);
    view.last_pod_event = Some(at(95));
    let first = decide(&view);
    assert_eq!(body(&first.steps)["status"]["lastPodEventTime"], at(95).to_string());

    let before = json!({"status": {"lastPodEventTime": at(92).to_string()}});
    view.claim = claim(&merged(&[registered("True"), before]));
    let second = decide(&view);
    assert!(second.steps.is_empty(), "8 s after the last one");
    assert_eq!(second.after.map(|after| after.as_secs()), Some(2));
}

#[test]
fn consolidatable_follows_pod_events_and_the_nodepool() {
    let asks = |after: &str| Some(pool(&json!({"spec": {"disruption": {"consolidateAfter": after}}})));
    let visited = json!({"status": {"lastPodEventTime": at(60).to_string()}});
    let node = json!({"metadata": {"labels": {label::INITIALIZED: label::TRUE}}});
    let mut view = claim_view(&merged(&[registered("True"), visited]), &[node], 359);
    view.pool = asks("5m");
    let early = decide(&view);
    assert!(early.steps.is_empty(), "{:?}", words(&early.steps));
    assert_eq!(early.after, Some(Duration::from_secs(1)), "it is looked at exactly then");

    view.now = at(360);
    let decision = decide(&view);
    assert_eq!(written(&decision.steps, condition::CONSOLIDATABLE).map(|reported| reported.0), Some("True".to_owned()));
    view.claim = claim(&merged(&[serde_json::to_value(view.claim.as_ref()).unwrap(), body(&decision.steps)]));
    assert!(decide(&view).steps.is_empty(), "it is said once");

    let takes_back = |view: &NodeClaimView| {
        let decision = decide(view);
        assert_eq!(words(&decision.steps), ["status of claim default-1"]);
        assert_eq!(written(&decision.steps, condition::CONSOLIDATABLE), None);
        decision.after
    };
    let mut visited = view.clone();
    visited.last_pod_event = Some(at(358));
    assert_eq!(takes_back(&visited), Some(Duration::from_secs(298)));
    for never in [asks("Never"), asks("10m")] {
        takes_back(&NodeClaimView { pool: never, ..view.clone() });
    }
    view.pool = Some(pool(&json!({"spec": {"replicas": 1, "disruption": {"consolidateAfter": "Never"}}})));
    assert!(decide(&view).steps.is_empty(), "of static pools nothing is said");
}

/// Returns a registered node that waits for its gates, with its NodeClaim.
fn gated(name: &str, more: &Value) -> (Arc<api::NodeClaim>, Arc<Node>) {
    let named = json!({"metadata": {"name": name}});
    let node = json!({
        "metadata": {"labels": {label::NODEPOOL: "default"}},
        "spec": {"taints": [{"key": taint::AGENT_NOT_READY, "effect": "NoExecute"}]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True"},
            {"type": condition::AGENT_READY, "status": "False", "message": "CNI since noon: no CNI"},
        ]},
    });
    (claim(&merged(&[registered("Unknown"), named, more.clone()])), crate::fixture::node(&node))
}

#[test]
fn decide_deletes_the_claim_when_gates_stay_closed() {
    let timeout = Duration::from_secs(600);
    let (claim, node) = gated("default-1", &json!({}));
    let mut view = NodeClaimView { claim, nodes: vec![node], ..claim_view(&json!({}), &[], 599) };
    assert_eq!(decide(&view).disrupted, None, "without a limit it waits for ever");
    view.gates = Some(GateLimit { timeout, gates: true, in_use: false, turn: true });
    let early = decide(&view);
    assert_eq!((early.disrupted, early.after.map(|after| after.as_secs())), (None, Some(1)));
    view.now = at(600);
    let late = decide(&view);
    let steps = ["status of claim default-1", "event GateTimeout", "delete claim default-1 (claim-uid)"];
    assert_eq!(words(&late.steps), steps);
    let (state, why, message) = written(&late.steps, condition::INITIALIZED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("False", "GateTimeout"));
    assert!(message.contains("within 600 s") && message.contains("CNI since noon: no CNI"), "{message}");
    assert_eq!(late.disrupted, Some("gate_timeout"));
    view.gates = Some(GateLimit { timeout, gates: true, in_use: false, turn: false });
    let waits = decide(&view);
    assert_eq!((waits.disrupted, waits.after.map(|after| after.as_secs())), (None, Some(30)));
    view.gates = Some(GateLimit { timeout, gates: true, in_use: false, turn: true });
    let ready = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True"}, {"type": condition::AGENT_READY, "status": "True"},
    ]}});
    view.nodes = vec![crate::fixture::node(&merged(&[serde_json::to_value(view.nodes[0].as_ref()).unwrap(), ready]))];
    assert_eq!(words(&decide(&view).steps), ["patch node node-1"], "late, but there");
    view.nodes = vec![crate::fixture::node(&json!({}))];
    assert_eq!(decide(&view).disrupted, None, "no gate delays it");
}

/// A fifth of the NodePool, rounded up, is deleted at a time, for any number of late nodes and any order of reconciles.
#[test]
fn gate_limit_allows_at_most_a_fifth_of_a_nodepool() {
    let timeout = Duration::from_secs(600);
    let going = json!({
        "metadata": {"deletionTimestamp": at(600).to_string()},
        "status": {"conditions": [merged(&[cond(condition::INITIALIZED, "False", 600), json!({"reason": "GateTimeout"})])]},
    });
    for (size, late, gone) in
        [(1, 1, 0), (4, 4, 0), (5, 5, 1), (6, 6, 0), (10, 3, 0), (10, 10, 1), (10, 1, 2), (11, 5, 1)]
    {
        let fine = registered("True");
        let pool: Vec<_> = (0..size)
            .map(|index| match index {
                _ if index < gone => gated(&format!("n-{index:02}"), &going),
                _ if index < gone + late => gated(&format!("n-{index:02}"), &json!({})),
                _ => gated(&format!("n-{index:02}"), &fine),
            })
            .collect();
        let all: Vec<_> = pool.iter().map(|(claim, node)| (claim.as_ref(), Some(node.as_ref()))).collect();
        let waiting = pool.iter().skip(gone).take(late);
        let limit = GateLimit { timeout, gates: true, in_use: false, turn: true };
        let turns = waiting.filter(|(claim, _)| limit.with_turn(claim, &all, at(700)).turn).count();
        let allowed = size.div_ceil(5);
        assert_eq!(turns, late.min(allowed.saturating_sub(gone)), "{late} late and {gone} going of {size}");
    }
}

#[test]
fn decide_writes_drifted_when_the_nodepool_changed() {
    let narrowed = json!({"spec": {"template": {"spec": {"requirements": [{"key": "rack", "operator": "Exists"}]}}}});
    let drifted_with = |pool| {
        let view = NodeClaimView { pool, ..claim_view(&registered("True"), &[json!({})], 600) };
        written(&decide(&view).steps, condition::DRIFTED).map(|(status, reason, _)| (status, reason))
    };
    let drifted = ("True".to_owned(), reason::REQUIREMENTS_DRIFTED.to_owned());
    assert_eq!(drifted_with(Some(pool(&narrowed))), Some(drifted));
    assert_eq!(drifted_with(Some(pool(&json!({})))), None);
}

#[test]
fn decide_deletes_no_claim_when_the_clock_is_set_back() {
    let conditions = [cond(condition::LAUNCHED, "True", 240), cond(condition::REGISTERED, "Unknown", 240)];
    let decision = decide(&claim_view(&status(&conditions), &[], 10));
    assert_eq!(decision.disrupted, None);
    assert_eq!(decision.after, Some(super::timeouts::REGISTRATION_TIMEOUT), "its whole time again, and no more");
    assert!(words(&decision.steps).iter().all(|step| !step.starts_with("delete")), "{:?}", words(&decision.steps));
}
