//! Tests of nodes that register and do not become ready.

use super::super::startup_failure;
use super::*;
use crate::fixture::{PROVIDER_ID, class};
use crate::state::index::Index;

const LIMIT: GateLimit = GateLimit { timeout: Duration::from_secs(900), gates: false, in_use: false, turn: true };

/// Returns a node without taints, with its status of `Ready` since this time.
fn reporting(status: &str, since: i64) -> Value {
    let ready = json!({
        "type": "Ready", "status": status, "lastTransitionTime": at(since).to_string(), "message": "cni plugin not initialized",
    });
    json!({"status": {"conditions": [ready]}})
}

fn view(node: Value, gates: GateLimit, seconds: i64) -> NodeClaimView {
    NodeClaimView { gates: Some(gates), ..claim_view(&registered("Unknown"), &[node], seconds) }
}

#[test]
fn decide_replaces_a_node_that_does_not_become_ready() {
    for status in ["False", "Unknown"] {
        let waits = decide(&view(reporting(status, 10), LIMIT, 899));
        assert_eq!((waits.disrupted, waits.after), (None, Some(Duration::from_secs(1))), "{status}");
        let late = decide(&view(reporting(status, 10), LIMIT, 900));
        let steps = ["status of claim default-1", "event NotReadyTimeout", "delete claim default-1 (claim-uid)"];
        assert_eq!(
            (words(&late.steps), late.disrupted),
            (steps.map(str::to_owned).to_vec(), Some("not_ready_timeout"))
        );
        let (state, why, message) = written(&late.steps, condition::INITIALIZED).unwrap();
        assert_eq!((state.as_str(), why.as_str()), ("False", reason::NOT_READY_TIMEOUT));
        assert!(message.contains("within 900 s") && message.contains("cni plugin not initialized"), "{message}");
        assert_eq!(startup_failure(&late), Some(message.as_str()), "three of them pause the NodePool");
    }
    let silent = json!({"status": {"conditions": []}});
    assert!(decide(&view(silent, LIMIT, 900)).disrupted.is_some(), "kubelet reports nothing");
    let turn = decide(&view(reporting("False", 10), GateLimit { turn: false, ..LIMIT }, 900));
    assert_eq!((turn.disrupted, turn.after), (None, Some(Duration::from_secs(30))));
    let ready = decide(&view(reporting("True", 899), LIMIT, 900));
    assert!(ready.disrupted.is_none() && ready.initialized, "late, but there");
}

/// Rows: a node that is not ready at 900 s and later, and the time at which it is given up.
#[test]
fn decide_waits_while_a_node_may_return() {
    let in_use = GateLimit { in_use: true, ..LIMIT };
    let rows = [
        ("kubelet restarts", LIMIT, 890, 1010),
        ("a node that writes a later time again and again", LIMIT, i64::MAX, 1800),
        ("pods run there", in_use, 10, i64::MAX),
    ];
    for (what, limit, since, until) in rows {
        for now in [900, 1009, 1010, 1799, 1800, 100_000] {
            let decision = decide(&view(reporting("False", since.min(now)), limit, now));
            assert_eq!(decision.disrupted.is_some(), now >= until, "{what} at {now}");
            let wakes = decision.after.is_some_and(|after| !after.is_zero());
            assert!(wakes || limit.in_use || now >= until, "{what} at {now}");
        }
    }
    let mut reboots = reporting("False", 10);
    let notice = json!({"type": condition::INTERRUPTED, "status": "True", "reason": reason::INSTANCE_REBOOT});
    reboots["status"]["conditions"].as_array_mut().unwrap().push(notice);
    let rebooting = view(reboots, LIMIT, 900);
    assert_eq!(decide(&rebooting).disrupted, None, "the limit of reboots applies");
    let mut replacement = view(reporting("False", 10), LIMIT, 900);
    let replaces = json!({"metadata": {"annotations": {annotation::REPLACES: "default-0"}}});
    replacement.claim = claim(&merged(&[registered("Unknown"), replaces]));
    assert_eq!(decide(&replacement).disrupted, None, "a command waits for it, or its own limit applies");
    let unlimited = NodeClaimView { gates: None, ..view(reporting("False", 10), LIMIT, 900) };
    assert_eq!(decide(&unlimited).disrupted, None, "kerf.sh/gate-timeout: Never");
}

/// The limit comes from the EC2NodeClass, and pods other than those of DaemonSets and kubelet keep the node.
#[test]
fn gate_limit_knows_whether_pods_run_on_the_node() {
    let claim = claim(&merged(&[registered("Unknown"), json!({"status": {"providerID": PROVIDER_ID}})]));
    let daemon = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "ds", "controller": true},
    ]}});
    for (change, in_use) in [(json!({}), true), (daemon, false)] {
        let mut index = Index::default();
        drop(index.apply(class(&json!({})).as_ref().clone(), at(0), true));
        drop(index.apply(claim.as_ref().clone(), at(0), true));
        drop(index.apply(node(&reporting("False", 10)).as_ref().clone(), at(0), true));
        let bound = merged(&[json!({"spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}}), change]);
        drop(index.apply(pod(&bound).as_ref().clone(), at(0), true));
        let limit = GateLimit::from_index(&index, &claim, at(900)).unwrap();
        assert_eq!(limit, GateLimit { in_use, ..LIMIT });
    }
}
