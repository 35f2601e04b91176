//! Tests of the gates without I/O: the facts that close each gate, single failures, and the condition after a restart of the
//! agent.

use std::time::Duration;

use machine::agent::gates::GateSettings;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn settings(text: &str) -> GateSettings {
    machine::agent::parse(&format!("gates: {text}")).unwrap().gates
}

fn at(seconds: u64) -> Millis {
    Millis(1_767_268_800_000) + Duration::from_secs(seconds)
}

fn node(conditions: &Value) -> Node {
    let object =
        json!({"status": {"conditions": conditions, "allocatable": {"nvidia.com/gpu": "8", "empty/one": "0"}}});
    serde_json::from_value(object).unwrap()
}

fn ready() -> Value {
    json!([{"type": "Ready", "status": "True"}])
}

fn done() -> BootstrapState {
    BootstrapState::Done { node_name: "n".into(), since: jiff::Timestamp::UNIX_EPOCH }
}

fn fails(why: &str) -> GateAnswer {
    GateAnswer::Fails(why.to_owned())
}

fn observe(gates: &mut Gates, bootstrap: Option<&BootstrapState>, node: &Node, now: Millis) {
    gates.observe(&MachineFacts { bootstrap, node: Some(node), ..MachineFacts::default() }, now);
}

/// Returns gates of a Node that are all open.
fn opened(text: &str, now: Millis) -> Gates {
    let mut gates = Gates::new(&settings(text), now);
    let cni = gates.id("CNI").unwrap();
    gates.take(cni, GateAnswer::Holds, now);
    observe(&mut gates, Some(&done()), &node(&ready()), now);
    gates
}

fn condition(gates: &Gates) -> (&'static str, String, String) {
    let condition = gates.condition_update(WallOffset::default());
    (condition.status, condition.reason, condition.message)
}

#[test]
fn statement_names_each_closed_gate_with_reason_and_time() {
    let waiting = BootstrapState::Waiting { reason: "no NodeConfig".into(), since: jiff::Timestamp::UNIX_EPOCH };
    let failed = BootstrapState::Failed { reason: "no NodeConfig".into(), since: jiff::Timestamp::UNIX_EPOCH };
    let (good, unhealthy) = (ready(), json!([{"type": "Ready", "status": "False", "message": "PLEG is not healthy"}]));
    let cut = json!([{"type": "Ready", "status": "True"}, {"type": "NetworkUnavailable", "status": "True", "message": "no route"}]);
    let ill =
        json!([{"type": "Ready", "status": "True"}, {"type": "NetworkingReady", "status": "False", "message": "eth0"}]);
    let since = "since 2026-01-01T12:00:00Z:";
    let rows = [
        (None, &good, "{}", "Bootstrap", "Bootstrap SINCE no report of bootstrap since the boot"),
        (Some(waiting), &good, "{}", "Bootstrap", "Bootstrap SINCE bootstrap is waiting: no NodeConfig"),
        (Some(failed), &good, "{}", "Bootstrap", "Bootstrap SINCE bootstrap failed: no NodeConfig"),
        (Some(done()), &unhealthy, "{}", "Kubelet", "Kubelet SINCE kubelet is not ready: PLEG is not healthy"),
        (Some(done()), &json!([]), "{}", "Kubelet", "Kubelet SINCE no report of kubelet yet"),
        (
            Some(done()),
            &cut,
            "{}",
            "CNI",
            "CNI network SINCE the Node's condition NetworkUnavailable is True: no route",
        ),
        (Some(done()), &ill, "{}", "CNI", "CNI network SINCE the Node's condition NetworkingReady is False: eth0"),
        (
            Some(done()),
            &good,
            "{devices: [nvidia.com/gpu, empty/one, no/such]}",
            "Device",
            "Device empty/one SINCE the Node has no empty/one; its device plugin did not register it; Device \
             no/such SINCE the Node has no no/such; its device plugin did not register it",
        ),
        (Some(done()), &good, "{csiDrivers: [ebs]}", "CSIDriver", "CSIDriver ebs SINCE not evaluated yet"),
    ];
    for (bootstrap, conditions, text, reason, message) in rows {
        let mut gates = Gates::new(&settings(text), at(0));
        let cni = gates.id("CNI").unwrap();
        gates.take(cni, GateAnswer::Holds, at(1));
        observe(&mut gates, bootstrap.as_ref(), &node(conditions), at(1));
        let expected = ("False", reason.to_owned(), message.replace("SINCE", since));
        assert_eq!(condition(&gates), expected, "{text} {conditions}");
    }
    let all = "all gates are open: Bootstrap, Kubelet, CNI, CNI network".to_owned();
    assert_eq!(condition(&opened("{}", at(0))), ("True", "GatesOpen".to_owned(), all));
    let without = Gates::new(&settings("{cni: {enabled: false}}"), at(0));
    assert_eq!(without.iter().map(Gate::name).collect::<Vec<_>>(), ["Bootstrap", "Kubelet"]);
}

#[test]
fn gate_closes_when_a_fact_fails_for_five_seconds() {
    let mut gates = opened("{}", at(0));
    let away = node(&json!([]));
    observe(&mut gates, Some(&done()), &away, at(10));
    observe(&mut gates, Some(&done()), &away, at(14));
    assert_eq!(condition(&gates).0, "True");
    observe(&mut gates, Some(&done()), &node(&ready()), at(14));
    observe(&mut gates, Some(&done()), &away, at(20));
    observe(&mut gates, Some(&done()), &away, at(24));
    assert_eq!(condition(&gates).0, "True", "it was fine in between");
    observe(&mut gates, Some(&done()), &away, at(25));
    let (status, reason, message) = condition(&gates);
    assert_eq!((status, reason.as_str()), ("False", "Kubelet"));
    assert!(message.contains("since 2026-01-01T12:00:20Z"), "{message}");
}

#[test]
fn gate_keeps_its_state_when_the_answer_is_unknown() {
    let mut gates = opened("{csiDrivers: [ebs]}", at(0));
    let driver = gates.id("CSIDriver ebs").unwrap();
    gates.take(driver, GateAnswer::Unknown("no route".into()), at(1));
    assert!(condition(&gates).2.ends_with("no route"), "{}", condition(&gates).2);
    gates.take(driver, GateAnswer::Holds, at(2));
    for second in 3..100 {
        gates.take(driver, GateAnswer::Unknown("no route".into()), at(second));
    }
    assert_eq!(condition(&gates).0, "True");
    for second in 100..103 {
        assert_eq!(condition(&gates).0, "True");
        gates.take(driver, fails("gone"), at(second));
    }
    assert_eq!(condition(&gates).1, "CSIDriver");
}

/// Tests that a restart of the agent is no change of the machine.
#[test]
fn news_returns_none_when_a_restarted_agent_has_no_answers() {
    let stands = node(&json!([{"type": "Ready", "status": "True"}, {"type": "kerf.sh/Ready", "status": "True"}]));
    let mut gates = Gates::new(&settings("{csiDrivers: [ebs]}"), at(0));
    observe(&mut gates, Some(&done()), &stands, at(0));
    assert_eq!(gates.news(&stands, WallOffset::default()), None);
    assert_eq!(
        gates.news(&node(&ready()), WallOffset::default()).map(|condition| condition.status),
        Some("False"),
        "no condition is True yet"
    );
    let cni = gates.id("CNI").unwrap();
    let mut closed = gates.clone();
    closed.take(cni, fails("no CNI"), at(1));
    assert_eq!(
        closed.news(&stands, WallOffset::default()).map(|condition| condition.reason),
        Some("CNI,CSIDriver".to_owned())
    );
    let driver = gates.id("CSIDriver ebs").unwrap();
    gates.take(cni, GateAnswer::Holds, at(1));
    gates.take(driver, GateAnswer::Holds, at(1));
    assert_eq!(gates.news(&stands, WallOffset::default()).map(|condition| condition.status), Some("True"));
}

/// Returns a Node on which NetworkingReady is False, with this message and transition.
fn cut_off(message: &str, transition: Option<&str>) -> Node {
    let failed = json!({
        "type": "NetworkingReady", "status": "False", "message": message, "lastTransitionTime": transition,
    });
    node(&json!([{"type": "Ready", "status": "True"}, failed]))
}

/// Tests that a condition of another agent closes the gate only until our own checks have a verdict, also while its transition
/// time moves with each reason.
#[test]
fn network_gate_opens_when_only_another_agent_reports_a_failure() {
    let mut gates = Gates::new(&settings("{}"), at(0));
    gates.take(gates.id("CNI").unwrap(), GateAnswer::Holds, at(0));
    assert_eq!(gates.changes_at(at(0)), None);
    for second in 0..60 {
        let moved = jiff::Timestamp::from_millisecond(at(second).0.cast_signed()).unwrap().to_string();
        observe(&mut gates, Some(&done()), &cut_off("ipamd", Some(&moved)), at(second));
        assert_eq!(condition(&gates).1, "CNI", "after {second} s");
        assert_eq!(gates.changes_at(at(second)), Some(at(60)));
    }
    observe(&mut gates, Some(&done()), &cut_off("ipamd", None), at(60));
    assert_eq!((condition(&gates).0, gates.changes_at(at(60))), ("True", None));
    observe(&mut gates, Some(&done()), &node(&ready()), at(70));
    let failed_again = cut_off("ipamd", None);
    for second in 80..86 {
        observe(&mut gates, Some(&done()), &failed_again, at(second));
    }
    assert_eq!(condition(&gates).1, "CNI", "a new failure counts again");
}

#[test]
fn network_gate_is_open_after_a_restart_beside_an_old_failure() {
    let mut gates = Gates::new(&settings("{}"), at(0));
    gates.take(gates.id("CNI").unwrap(), GateAnswer::Holds, at(0));
    observe(&mut gates, Some(&done()), &cut_off("ipamd", Some("2026-01-01T11:00:00Z")), at(0));
    assert_eq!(condition(&gates).0, "True");
}

#[test]
fn network_gate_stays_closed_when_our_own_checks_fail() {
    let own = "no default route";
    let rows = [
        ("our condition", cut_off("kerf-agent: no default route", None), None),
        ("our check beside the other agent", cut_off("ipamd", None), Some(own)),
        ("our check alone", node(&ready()), Some(own)),
    ];
    for (name, node, network) in rows {
        let mut gates = Gates::new(&settings("{}"), at(0));
        gates.take(gates.id("CNI").unwrap(), GateAnswer::Holds, at(0));
        let done = done();
        let facts = MachineFacts { bootstrap: Some(&done), node: Some(&node), network, ..MachineFacts::default() };
        for second in [0, 60, 600] {
            gates.observe(&facts, at(second));
            let (status, reason, message) = condition(&gates);
            assert_eq!((status, reason.as_str()), ("False", "CNI"), "{name} after {second} s");
            assert!(message.ends_with(own), "{name}: {message}");
        }
    }
}

proptest! {
    /// Tests that, with any results of a probe, the gate changes no faster than its thresholds and finally matches the probe.
    #[test]
    fn probe_gate_changes_no_faster_than_its_thresholds(
        (success, failure) in (1_u64..5, 1_u64..5),
        answers in prop::collection::vec(any::<bool>(), 1..60),
        truth in any::<bool>(),
    ) {
        let probe = format!("{{name: p, file: {{path: /p}}, successThreshold: {success}, failureThreshold: {failure}}}");
        let mut gates = opened(&format!("{{probes: [{probe}]}}"), at(0));
        let id = gates.id("Probe p").unwrap();
        let (mut open, mut turned) = (false, 0);
        let answers: Vec<bool> = answers.into_iter().chain(std::iter::repeat_n(truth, 5)).collect();
        for (good, count) in answers.into_iter().zip(1_u64..) {
            gates.take(id, if good { GateAnswer::Holds } else { fails("no") }, at(count));
            let now = condition(&gates).0 == "True";
            if now != open {
                let least = if now { success } else { failure };
                prop_assert!(count - turned >= least);
                prop_assert_eq!(now, good);
                (open, turned) = (now, count);
            }
        }
        prop_assert_eq!(open, truth);
    }
}
