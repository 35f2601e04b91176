//! Health by itself: what counts, for how long, and who has the say.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(seconds: u64) -> Millis {
    Millis(1_767_268_800_000) + Duration::from_secs(seconds)
}

fn node(conditions: Value) -> Node {
    serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap()
}

fn look(check: &Check, trouble: bool) -> HealthSample {
    HealthSample {
        looks: vec![CheckRun { check: check.clone(), trouble: trouble.then(|| "it hurts".into()) }],
        incidents: vec![],
    }
}

fn said(health: &Health, kind: &str, now: Millis) -> Option<(&'static str, String, String)> {
    let all = health.statements(&node(json!([])), WallOffset::default(), now);
    let found = all.into_iter().find(|it| it.kind == kind)?;
    Some((found.status, found.reason, found.message))
}

#[test]
fn a_fatal_trouble_makes_the_condition_false_and_goes_by_itself() {
    let (lasting, plain) = (
        [check::TASK_HUNG, check::DISK_HUNG, check::NAMES_LOST],
        [check::DISK_FULL, check::KUBELET_FAILED, check::NO_ROUTE, check::READ_ONLY_ROOT, check::NVIDIA_LOST],
    );
    for check in plain.into_iter().chain(lasting) {
        let (mut health, patience) = (Health::default(), check.patience().as_secs());
        assert_eq!(said(&health, check.condition, at(0)), None, "not evaluated yet");
        health.take(look(&check, false), WallOffset::default(), at(0));
        let (status, well, message) = said(&health, check.condition, at(0)).unwrap();
        assert_eq!((status, message.as_str()), ("True", "kerf-agent: no problem"));
        assert!(well.ends_with("IsReady"), "{well}");
        health.take(look(&check, true), WallOffset::default(), at(10));
        health.take(look(&check, true), WallOffset::default(), at(9 + patience));
        assert_eq!(said(&health, check.condition, at(9)).unwrap().0, "True");
        health.take(look(&check, true), WallOffset::default(), at(10 + patience));
        let expected = format!("kerf-agent: {} since 2026-01-01T12:00:10Z: it hurts", check.reason);
        assert_eq!(said(&health, check.condition, at(999)), Some(("False", check.reason.to_string(), expected)));
        assert_eq!(health.tidings()[0].message, format!("{}: it hurts", check.reason));
        health.take(look(&check, false), WallOffset::default(), at(2000));
        assert_eq!(said(&health, check.condition, at(2000)).unwrap().0, "False");
        health.take(look(&check, false), WallOffset::default(), at(2000 + patience));
        assert_eq!(said(&health, check.condition, at(9999)).unwrap().0, "True");
        assert_eq!((health.tidings().len(), health.summary(WallOffset::default())), (0, None));
    }
}

#[test]
fn a_warning_is_told_but_the_condition_stays_true() {
    let mut health = Health::default();
    for second in [0, 60] {
        health.take(look(&check::NO_DNS, true), WallOffset::default(), at(second));
    }
    let (status, reason, message) = said(&health, "NetworkingReady", at(60)).unwrap();
    assert_eq!((status, reason.as_str()), ("True", "NetworkingIsReady"));
    assert_eq!(message, "kerf-agent: DNSUnreachable since 2026-01-01T12:00:00Z: it hurts");
    let told = health.tidings();
    assert_eq!((told.len(), told[0].reason, told[0].warning), (1, "NetworkingReady", true));
}

#[test]
fn what_happens_again_and_again_is_trouble_until_it_has_not_for_a_while() {
    let mut health = Health::default();
    let oom = |second| Incident {
        check: check::OOM_LOOP,
        quota: Quota { times: 3, within: Duration::from_secs(600) },
        at: at(second),
        text: format!("killed at {second}"),
    };
    let take = |health: &mut Health, incidents: Vec<Incident>, now| {
        health.take(HealthSample { looks: vec![], incidents }, WallOffset::default(), at(now));
    };
    take(&mut health, vec![oom(0), oom(1)], 10);
    assert_eq!(said(&health, "KernelReady", at(10)).unwrap().0, "True", "twice is no loop");
    take(&mut health, vec![oom(590)], 595);
    let (status, reason, message) = said(&health, "KernelReady", at(595)).unwrap();
    assert_eq!((status, reason.as_str()), ("False", "OOMLoop"));
    assert!(message.contains("since 2026-01-01T12:00:00Z: killed at 590"), "{message}");
    take(&mut health, vec![], 602);
    assert_eq!(said(&health, "KernelReady", at(602)).unwrap().0, "True");
    // A restart reads the kernel's buffer again, old records and all.
    let mut again = Health::default();
    take(&mut again, vec![oom(0), oom(1), oom(590)], 602);
    assert_eq!(said(&again, "KernelReady", at(602)).unwrap().0, "True");
}

#[test]
fn an_api_server_that_is_lost_for_long_is_told_and_one_that_is_lost_again_and_again_is_fatal() {
    let mut health = Health::default();
    let heard = |health: &mut Health, trouble: bool, second| {
        health.look(CheckRun { check: check::NO_API, trouble: trouble.then(|| "refused".into()) }, at(second));
        health.take(HealthSample::default(), WallOffset::default(), at(second));
        said(health, "NetworkingReady", at(second)).unwrap()
    };
    // Each failed try of one long outage is no loss of its own.
    for second in (0..1200).step_by(15) {
        assert_eq!(heard(&mut health, true, second).0, "True", "{second}");
    }
    for second in [1200, 1260] {
        assert_eq!(heard(&mut health, false, second).0, "True");
    }
    for loss in 1..=5 {
        assert_eq!(heard(&mut health, true, 1800 + loss * 10).0, "True", "{loss}");
        heard(&mut health, false, 1805 + loss * 10);
    }
    let (status, reason, message) = heard(&mut health, true, 1900);
    assert_eq!((status, reason.as_str()), ("False", "APIServerUnstable"), "{message}");
    assert_eq!(heard(&mut health, false, 1810 + 1799).0, "False", "six within half an hour");
    assert_eq!(heard(&mut health, false, 1810 + 1800).0, "True");
}

#[test]
fn where_another_agent_speaks_ours_is_silent_and_comes_back_when_it_is_gone() {
    let mut health = Health::default();
    health.take(look(&check::DISK_FULL, false), WallOffset::default(), at(0));
    let with = |message: &str, seconds: u64| {
        let heartbeat = rfc3339(at(seconds));
        node(json!([{"type": "KernelReady", "status": "True", "message": message, "lastHeartbeatTime": heartbeat}]))
    };
    let kinds = |node: &Node, now: Millis| {
        health.statements(node, WallOffset::default(), now).iter().map(|it| it.kind).collect::<Vec<_>>()
    };
    assert!(kinds(&with("Kernel is running properly", 0), at(899)).is_empty());
    assert!(other_agent(&with("", 0), at(10)));
    let all = ["KernelReady", "StorageReady", "ContainerRuntimeReady", "NetworkingReady"];
    assert_eq!(kinds(&with("Kernel is running properly", 0), at(900)), all, "it has not spoken for long");
    assert_eq!(kinds(&with("kerf-agent: no problem", 0), at(1)), all, "that was ours");
    assert_eq!(kinds(&node(json!([{"type": "Ready", "status": "True", "message": "kubelet"}])), at(1)), all);
}

#[test]
fn ours_are_renewed_every_five_minutes() {
    let mut health = Health::default();
    health.take(look(&check::DISK_FULL, false), WallOffset::default(), at(0));
    let said = health.statements(&node(json!([])), WallOffset::default(), at(0)).remove(0);
    let stands = |seconds| node(json!([{"type": said.kind, "lastHeartbeatTime": rfc3339(at(seconds))}]));
    assert!(!is_old(&stands(0), &said, at(299)));
    assert!(is_old(&stands(0), &said, at(300)));
    let ready = ConditionUpdate { kind: "kerf.sh/Ready", ..said };
    assert!(!is_old(&node(json!([])), &ready, at(9999)), "others have no need of it");
}

proptest! {
    /// Whatever is found, a condition turns no faster than its patience, and in the end it says the truth.
    #[test]
    fn conditions_do_not_flap_and_end_at_the_truth(
        looks in prop::collection::vec((any::<bool>(), 1_u64..40), 1..60),
        truth in any::<bool>(),
    ) {
        let (check, mut health) = (check::DISK_FULL, Health::default());
        let patience = check.patience().as_secs();
        let (mut now, mut status, mut turned) = (0, "True", 0);
        for (trouble, pause) in looks.into_iter().chain(std::iter::repeat_n((truth, 15), 5)) {
            now += pause;
            health.take(look(&check, trouble), WallOffset::default(), at(now));
            let said = said(&health, check.condition, at(now)).unwrap().0;
            if said != status {
                prop_assert!(now - turned >= patience, "after {} s", now - turned);
                (status, turned) = (said, now);
            }
        }
        prop_assert_eq!(status == "False", truth);
    }
}
