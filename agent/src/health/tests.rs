//! Tests of health without I/O: which problems count, for how long, and which agent reports.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(seconds: u64) -> Millis {
    Millis(1_767_268_800_000) + Duration::from_secs(seconds)
}

fn node(conditions: Value) -> Node {
    serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap()
}

fn sample(check: &Check, trouble: bool) -> HealthSample {
    HealthSample {
        checks: vec![CheckRun { check: check.clone(), trouble: trouble.then(|| "it hurts".into()) }],
        incidents: vec![],
    }
}

fn condition_of(health: &Health, kind: &str, now: Millis) -> Option<(&'static str, String, String)> {
    let all = health.condition_updates(&node(json!([])), WallOffset::default(), now);
    let found = all.into_iter().find(|it| it.kind == kind)?;
    Some((found.status, found.reason, found.message))
}

#[test]
fn condition_is_false_while_a_fatal_check_fails() {
    let (lasting, plain) = (
        [check::TASK_HUNG, check::DISK_HUNG, check::NAMES_LOST],
        [check::DISK_FULL, check::KUBELET_FAILED, check::NO_ROUTE, check::READ_ONLY_ROOT, check::NVIDIA_LOST],
    );
    for check in plain.into_iter().chain(lasting) {
        let (mut health, patience) = (Health::default(), check.patience().as_secs());
        assert_eq!(condition_of(&health, check.condition, at(0)), None, "not evaluated yet");
        health.take(sample(&check, false), WallOffset::default(), at(0));
        let (status, well, message) = condition_of(&health, check.condition, at(0)).unwrap();
        assert_eq!((status, message.as_str()), ("True", "kerf-agent: no problem"));
        assert!(well.ends_with("IsReady"), "{well}");
        health.take(sample(&check, true), WallOffset::default(), at(10));
        health.take(sample(&check, true), WallOffset::default(), at(9 + patience));
        assert_eq!(condition_of(&health, check.condition, at(9)).unwrap().0, "True");
        health.take(sample(&check, true), WallOffset::default(), at(10 + patience));
        let expected = format!("kerf-agent: {} since 2026-01-01T12:00:10Z: it hurts", check.reason);
        assert_eq!(
            condition_of(&health, check.condition, at(999)),
            Some(("False", check.reason.to_string(), expected))
        );
        assert_eq!(health.events()[0].message, format!("{}: it hurts", check.reason));
        health.take(sample(&check, false), WallOffset::default(), at(2000));
        assert_eq!(condition_of(&health, check.condition, at(2000)).unwrap().0, "False");
        health.take(sample(&check, false), WallOffset::default(), at(2000 + patience));
        assert_eq!(condition_of(&health, check.condition, at(9999)).unwrap().0, "True");
        assert_eq!((health.events().len(), health.summary(WallOffset::default())), (0, None));
    }
}

#[test]
fn condition_remains_true_when_the_check_is_a_warning() {
    let mut health = Health::default();
    for second in [0, 60] {
        health.take(sample(&check::NO_DNS, true), WallOffset::default(), at(second));
    }
    let (status, reason, message) = condition_of(&health, "NetworkingReady", at(60)).unwrap();
    assert_eq!((status, reason.as_str()), ("True", "NetworkingIsReady"));
    assert_eq!(message, "kerf-agent: DNSUnreachable since 2026-01-01T12:00:00Z: it hurts");
    let events = health.events();
    assert_eq!((events.len(), events[0].reason, events[0].warning), (1, "NetworkingReady", true));
}

#[test]
fn condition_is_false_while_the_incident_quota_is_met() {
    let mut health = Health::default();
    let oom = |second| Incident {
        check: check::OOM_LOOP,
        quota: Quota { times: 3, within: Duration::from_secs(600) },
        at: at(second),
        text: format!("killed at {second}"),
    };
    let take = |health: &mut Health, incidents: Vec<Incident>, now| {
        health.take(HealthSample { checks: vec![], incidents }, WallOffset::default(), at(now));
    };
    take(&mut health, vec![oom(0), oom(1)], 10);
    assert_eq!(condition_of(&health, "KernelReady", at(10)).unwrap().0, "True", "twice is no loop");
    take(&mut health, vec![oom(590)], 595);
    let (status, reason, message) = condition_of(&health, "KernelReady", at(595)).unwrap();
    assert_eq!((status, reason.as_str()), ("False", "OOMLoop"));
    assert!(message.contains("since 2026-01-01T12:00:00Z: killed at 590"), "{message}");
    take(&mut health, vec![], 602);
    assert_eq!(condition_of(&health, "KernelReady", at(602)).unwrap().0, "True");
    // A restart reads the kernel's whole buffer again, with its old records.
    let mut again = Health::default();
    take(&mut again, vec![oom(0), oom(1), oom(590)], 602);
    assert_eq!(condition_of(&again, "KernelReady", at(602)).unwrap().0, "True");
}

#[test]
fn api_server_check_is_fatal_when_it_fails_repeatedly() {
    let mut health = Health::default();
    let record = |health: &mut Health, trouble: bool, second| {
        health.record(CheckRun { check: check::NO_API, trouble: trouble.then(|| "refused".into()) }, at(second));
        health.take(HealthSample::default(), WallOffset::default(), at(second));
        condition_of(health, "NetworkingReady", at(second)).unwrap()
    };
    // The failed attempts of one long outage are one loss, not many.
    for second in (0..1200).step_by(15) {
        assert_eq!(record(&mut health, true, second).0, "True", "{second}");
    }
    for second in [1200, 1260] {
        assert_eq!(record(&mut health, false, second).0, "True");
    }
    for loss in 1..=5 {
        assert_eq!(record(&mut health, true, 1800 + loss * 10).0, "True", "{loss}");
        record(&mut health, false, 1805 + loss * 10);
    }
    let (status, reason, message) = record(&mut health, true, 1900);
    assert_eq!((status, reason.as_str()), ("False", "APIServerUnstable"), "{message}");
    assert_eq!(record(&mut health, false, 1810 + 1799).0, "False", "six within half an hour");
    assert_eq!(record(&mut health, false, 1810 + 1800).0, "True");
}

#[test]
fn statements_are_empty_while_another_agent_reports() {
    let mut health = Health::default();
    health.take(sample(&check::DISK_FULL, false), WallOffset::default(), at(0));
    let with = |message: &str, seconds: u64| {
        let heartbeat = rfc3339(at(seconds));
        node(json!([{"type": "KernelReady", "status": "True", "message": message, "lastHeartbeatTime": heartbeat}]))
    };
    let kinds = |node: &Node, now: Millis| {
        health.condition_updates(node, WallOffset::default(), now).iter().map(|it| it.kind).collect::<Vec<_>>()
    };
    assert!(kinds(&with("Kernel is running properly", 0), at(899)).is_empty());
    assert!(other_agent(&with("", 0), at(10)));
    let all = ["KernelReady", "StorageReady", "ContainerRuntimeReady", "NetworkingReady"];
    assert_eq!(kinds(&with("Kernel is running properly", 0), at(900)), all, "it has not spoken for long");
    assert_eq!(kinds(&with("kerf-agent: no problem", 0), at(1)), all, "that was ours");
    assert_eq!(kinds(&node(json!([{"type": "Ready", "status": "True", "message": "kubelet"}])), at(1)), all);
}

#[test]
fn is_old_returns_true_after_five_minutes() {
    let mut health = Health::default();
    health.take(sample(&check::DISK_FULL, false), WallOffset::default(), at(0));
    let update = health.condition_updates(&node(json!([])), WallOffset::default(), at(0)).remove(0);
    let stands = |seconds| node(json!([{"type": update.kind, "lastHeartbeatTime": rfc3339(at(seconds))}]));
    assert!(!is_old(&stands(0), &update, at(299)));
    assert!(is_old(&stands(0), &update, at(300)));
    let ready = ConditionUpdate { kind: "kerf.sh/Ready", ..update };
    assert!(!is_old(&node(json!([])), &ready, at(9999)), "others have no need of it");
}

proptest! {
    /// Tests that, with any results, a condition changes no faster than its `patience` and finally matches the checks.
    #[test]
    fn condition_changes_no_faster_than_its_patience(
        runs in prop::collection::vec((any::<bool>(), 1_u64..40), 1..60),
        truth in any::<bool>(),
    ) {
        let (check, mut health) = (check::DISK_FULL, Health::default());
        let patience = check.patience().as_secs();
        let (mut now, mut status, mut turned) = (0, "True", 0);
        for (trouble, pause) in runs.into_iter().chain(std::iter::repeat_n((truth, 15), 5)) {
            now += pause;
            health.take(sample(&check, trouble), WallOffset::default(), at(now));
            let update = condition_of(&health, check.condition, at(now)).unwrap().0;
            if update != status {
                prop_assert!(now - turned >= patience, "after {} s", now - turned);
                (status, turned) = (update, now);
            }
        }
        prop_assert_eq!(status == "False", truth);
    }
}
