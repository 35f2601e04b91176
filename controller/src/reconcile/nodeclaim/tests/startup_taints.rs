//! Tests of startup taints that nothing removes.

use super::super::startup_failure;
use super::*;

const LIMIT: GateLimit = GateLimit { timeout: Duration::from_secs(900), gates: false, in_use: false, turn: true };
const CILIUM: &str = "node.cilium.io/agent-not-ready";

/// Returns a ready node with a taint, and with this report of an agent: its condition, or only its heartbeat.
fn tainted(key: &str, reported: Option<&str>, heartbeat: Option<i64>) -> Value {
    let mut conditions = vec![json!({"type": "Ready", "status": "True"})];
    conditions
        .extend(reported.map(|status| json!({"type": condition::AGENT_READY, "status": status, "message": "CNI"})));
    let annotations = heartbeat.map(|seconds| json!({"kerf.sh/agent-heartbeat": at(seconds).to_string()}));
    json!({
        "metadata": {"annotations": annotations},
        "spec": {"taints": [{"key": key, "effect": "NoExecute"}]},
        "status": {"conditions": conditions},
    })
}

fn view(node: Value, gates: GateLimit, seconds: i64) -> NodeClaimView {
    let startup = json!({"spec": {"startupTaints": [{"key": CILIUM, "effect": "NoExecute"}]}});
    NodeClaimView { gates: Some(gates), ..claim_view(&merged(&[registered("Unknown"), startup]), &[node], seconds) }
}

#[test]
fn decide_replaces_a_node_whose_startup_taint_stays() {
    let agent = taint::AGENT_NOT_READY;
    let rows = [
        (agent, "no agent has reported: use images with the agent, or remove the annotation kerf.sh/agent"),
        (CILIUM, "check the DaemonSet that does, and its tolerations, or remove the taint from"),
    ];
    for (key, cause) in rows {
        let waits = decide(&view(tainted(key, None, None), LIMIT, 899));
        assert_eq!((waits.disrupted, waits.after), (None, Some(Duration::from_secs(1))), "{key}");
        let (state, _, message) = written(&waits.steps, condition::INITIALIZED).unwrap();
        assert!(state == "Unknown" && message.contains(key) && message.contains(cause), "{message}");
        let late = decide(&view(tainted(key, None, None), LIMIT, 900));
        let steps = ["status of claim default-1", "event StartupTaintTimeout", "delete claim default-1 (claim-uid)"];
        assert_eq!(
            (words(&late.steps), late.disrupted),
            (steps.map(str::to_owned).to_vec(), Some("startup_taint_timeout"))
        );
        let (state, why, message) = written(&late.steps, condition::INITIALIZED).unwrap();
        assert_eq!((state.as_str(), why.as_str()), ("False", reason::STARTUP_TAINT_TIMEOUT));
        assert!(message.contains(key) && message.contains(cause) && message.contains("within 900 s"), "{message}");
        assert_eq!(startup_failure(&late), Some(message.as_str()));
        let turn = decide(&view(tainted(key, None, None), GateLimit { turn: false, ..LIMIT }, 900));
        assert_eq!(turn.disrupted, None, "{key}");
    }
}

/// An agent that is live may open its gates at any time, so only the annotation limits it.
#[test]
fn decide_waits_for_a_live_agent_without_a_gate_timeout() {
    let rows = [
        ("closed gates", Some("False"), Some(890), false),
        ("closed gates, agent died", Some("False"), None, false),
        ("no gates yet", None, Some(890), false),
        ("no agent", None, None, true),
        ("agent died before it reported", None, Some(600), true),
    ];
    for (what, reported, heartbeat, gives_up) in rows {
        let node = || tainted(taint::AGENT_NOT_READY, reported, heartbeat);
        assert_eq!(decide(&view(node(), LIMIT, 900)).disrupted.is_some(), gives_up, "{what}");
        let limited = GateLimit { gates: true, ..LIMIT };
        assert!(decide(&view(node(), limited, 900)).disrupted.is_some(), "{what}");
    }
}

#[test]
fn decide_ignores_taints_that_are_no_startup_taints() {
    let decision = decide(&view(tainted("other", None, None), LIMIT, 5000));
    assert_eq!(decision.disrupted, None);
    assert!(decision.initialized, "{:?}", words(&decision.steps));
}
