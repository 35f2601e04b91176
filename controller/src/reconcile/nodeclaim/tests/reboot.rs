//! Tests of reboots: the NodeClaim is kept, and for a limited time only.

use super::*;

const REBOOTING: &str = condition::REBOOTING;

/// Returns a node that reports a reboot, which begins this many seconds after the creation of the NodeClaim.
fn rebooting(begin: i64, ready: &str) -> Value {
    json!({
        "metadata": {"annotations": {"kerf.sh/interruption-deadline": at(begin).to_string()}},
        "status": {"conditions": [
            {"type": condition::INTERRUPTED, "status": "True", "reason": reason::INSTANCE_REBOOT, "message": "reboots"},
            {"type": "Ready", "status": ready},
        ]},
    })
}

fn back() -> Value {
    json!({"metadata": {"labels": {label::INITIALIZED: label::TRUE}}})
}

/// NodeClaim whose status follows its decisions.
struct Followed(Value);

impl Followed {
    fn new() -> Self {
        Self(registered("True"))
    }

    /// Decides about the NodeClaim and applies the status that the decision writes.
    fn decide(&mut self, node: &Value, seconds: i64, notice: Option<NoticeKind>) -> NodeClaimDecision {
        let mut view = claim_view(&self.0, std::slice::from_ref(node), seconds);
        view.notice = notice.map(|kind| Notice { kind, deadline: None });
        let decision = decide(&view);
        if words(&decision.steps).iter().any(|step| step.starts_with("status of claim")) {
            self.0 = merged(&[self.0.clone(), json!({"status": body(&decision.steps)["status"]})]);
        }
        decision
    }

    fn record(&self) -> Option<String> {
        let found = claim(&self.0);
        api::status::find(found.status.as_ref()?.conditions.as_slice(), REBOOTING).map(|it| it.status.clone())
    }
}

#[test]
fn decide_keeps_the_claim_of_a_node_that_reboots_and_returns() {
    let mut followed = Followed::new();
    let begun = followed.decide(&rebooting(60, "True"), 60, None);
    assert_eq!((words(&begun.steps), begun.disrupted), (vec!["status of claim default-1".to_owned()], None));
    let (status, why, message) = written(&begun.steps, REBOOTING).unwrap();
    assert_eq!((status.as_str(), why.as_str()), ("True", "InstanceReboot"), "{message}");
    assert_eq!(begun.after, Some(Duration::from_secs(600)));
    let later = followed.decide(&rebooting(60, "Unknown"), 300, None);
    assert!(later.steps.is_empty(), "{:?}", words(&later.steps));
    assert_eq!(later.after, Some(Duration::from_secs(360)));
    let returned = followed.decide(&back(), 400, None);
    assert_eq!(returned.disrupted, None);
    assert_eq!(followed.record().as_deref(), Some("False"));
    assert_eq!(followed.decide(&back(), 1000, None).disrupted, None);
    assert_eq!(followed.record(), None, "the record ends");
}

#[test]
fn decide_replaces_a_node_that_does_not_return_from_its_reboot() {
    for (ready, forced) in [("True", false), ("Unknown", true)] {
        let mut followed = Followed::new();
        followed.decide(&rebooting(60, ready), 60, None);
        assert_eq!(followed.decide(&rebooting(60, ready), 659, None).disrupted, None);
        let late = followed.decide(&rebooting(60, ready), 660, None);
        assert_eq!(late.disrupted, Some("reboot_timeout"));
        let mut steps = vec!["event RebootTimeout", "event RebootTimeout", "patch claim default-1"];
        steps.retain(|step| forced || !step.starts_with("patch"));
        steps.push("delete claim default-1 (claim-uid)");
        assert_eq!(words(&late.steps), steps, "pods are forced where kubelet is gone");
    }
}

/// A node is drained ahead of maintenance, so its limit begins at the window. A node that invents a later one, or reports one
/// reboot after the other, gains no more than an hour.
#[test]
fn decide_bounds_a_reboot_whatever_the_node_reports() {
    let rows = [("in half an hour", 1860, 1860 + 600), ("in a year", 31_536_000, 60 + 3600 + 600), ("past", 0, 660)];
    for (what, begin, end) in rows {
        let mut followed = Followed::new();
        followed.decide(&rebooting(begin, "True"), 60, None);
        assert_eq!(followed.decide(&rebooting(begin, "True"), end - 1, None).disrupted, None, "{what}");
        assert_eq!(followed.decide(&rebooting(begin, "True"), end, None).disrupted, Some("reboot_timeout"), "{what}");
    }
    let mut followed = Followed::new();
    let ended = (60..10_000).find(|second| {
        let node = if second % 20 == 0 { back() } else { rebooting(*second, "True") };
        followed.decide(&node, *second, None).disrupted.is_some()
    });
    assert!(ended.is_some_and(|second| second < 60 + 3600 + 700), "{ended:?}");
    let mut followed = Followed::new();
    let ended = (60..10_000).find(|second| {
        let node = if second % 20 == 0 { back() } else { rebooting(60, "True") };
        followed.decide(&node, *second, None).disrupted.is_some()
    });
    assert!(ended.is_some_and(|second| second < 60 + 700), "{ended:?}");
}

#[test]
fn decide_gives_each_of_two_reboots_its_time() {
    let mut followed = Followed::new();
    followed.decide(&rebooting(60, "True"), 60, None);
    followed.decide(&back(), 180, None);
    followed.decide(&rebooting(700, "True"), 700, None);
    assert_eq!(followed.decide(&rebooting(700, "True"), 1179, None).disrupted, None, "two minutes were used");
    assert_eq!(followed.decide(&rebooting(700, "True"), 1180, None).disrupted, Some("reboot_timeout"));
}

/// A reboot explains failed status checks and maintenance, not the end of the instance.
#[test]
fn decide_follows_only_notices_that_a_reboot_does_not_explain() {
    let rows = [
        (NoticeKind::InstanceStatus, None),
        (NoticeKind::EventStatus, None),
        (NoticeKind::ScheduledChange, None),
        (NoticeKind::SystemStatus, Some("system_status")),
        (NoticeKind::InstanceStopped, Some("instance_stopped")),
        (NoticeKind::InstanceTerminated, Some("instance_terminated")),
        (NoticeKind::SpotInterrupted, Some("spot_interrupted")),
    ];
    for (kind, disrupted) in rows {
        let mut followed = Followed::new();
        assert_eq!(followed.decide(&rebooting(60, "True"), 60, Some(kind)).disrupted, disrupted, "{kind:?}");
        let mut followed = Followed::new();
        followed.decide(&rebooting(60, "True"), 60, None);
        assert_eq!(followed.decide(&rebooting(60, "Unknown"), 120, Some(kind)).disrupted, disrupted, "{kind:?}");
    }
    let mut followed = Followed::new();
    let status = followed.decide(&json!({}), 60, Some(NoticeKind::InstanceStatus));
    assert_eq!(status.disrupted, Some("instance_status"), "without a reboot");
}

/// The agent reports the power-off itself, as soon as the operating system announces it.
#[test]
fn decide_replaces_a_node_whose_reboot_becomes_a_shutdown() {
    let mut followed = Followed::new();
    followed.decide(&rebooting(60, "True"), 60, None);
    let mut node = rebooting(60, "True");
    node["status"]["conditions"][0]["reason"] = json!(reason::INSTANCE_SHUTDOWN);
    assert_eq!(followed.decide(&node, 70, None).disrupted, Some("instance_stopped"));
}
