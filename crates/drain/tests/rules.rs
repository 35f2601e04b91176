//! Rules of a drain: groups, retries, the last safe time, limited grace periods, restarts. Each row is a few calls and their
//! expected result.

use std::time::Duration;

use drain::{
    Action, BudgetPolicy, DaemonSets, Drain, Millis, PodOnNode, PodOutcome, Protection, Refusal, Reply, Settings, Skip,
};

const T0: Millis = Millis(1_000_000);

fn at(seconds: u64) -> Millis {
    T0 + Duration::from_secs(seconds)
}

fn pod(uid: &str) -> PodOnNode {
    PodOnNode {
        uid: uid.into(),
        namespace: "default".into(),
        name: format!("pod-{uid}"),
        owner_kind: Some("ReplicaSet".into()),
        grace_seconds: 20,
        ..PodOnNode::default()
    }
}

/// Returns the rules of a spot interruption, for a node in no load balancer.
fn notice() -> Settings {
    Settings { lead: Duration::ZERO, patience: Duration::ZERO, ..Settings::for_notice(at(120), 7) }
}

fn started(settings: Settings, pods: Vec<PodOnNode>) -> Drain {
    let mut drain = Drain::new(settings, T0);
    drain.pods(T0, pods);
    drain
}

/// Returns actions as short text: `evict a`, `evict a 30`, `delete a 5`, `list`.
fn requests(actions: &[Action]) -> Vec<String> {
    let one = |action: &Action| match action {
        Action::Evict { uid, grace: None, .. } => format!("evict {uid}"),
        Action::Evict { uid, grace: Some(grace), .. } => format!("evict {uid} {grace}"),
        Action::Delete { uid, grace, .. } => format!("delete {uid} {grace}"),
        Action::List => "list".into(),
    };
    actions.iter().map(one).collect()
}

fn deleting(mut pod: PodOnNode, until: Millis) -> PodOnNode {
    pod.deletion = Some(until);
    pod
}

#[test]
fn step_returns_no_action_before_the_first_list() {
    let mut drain = Drain::new(notice(), T0);
    assert!(drain.step(T0).is_empty());
    assert!(!drain.is_done());
    drain.pods(T0, vec![]);
    assert!(drain.is_done());
}

#[test]
fn step_evicts_only_the_first_group_that_has_pods() {
    let critical = PodOnNode { critical: true, ..pod("b") };
    let mut drain = started(notice(), vec![pod("a"), critical.clone()]);
    assert_eq!(requests(&drain.step(T0)), ["evict a"]);
    drain.reply(T0, "a", &Reply::Accepted);
    drain.pods(at(1), vec![deleting(pod("a"), at(21)), critical.clone()]);
    assert!(drain.step(at(1)).is_empty(), "a pod that still stops holds the next group");
    drain.pods(at(2), vec![critical]);
    assert_eq!(requests(&drain.step(at(2))), ["evict b"]);
}

#[test]
fn step_orders_by_size_or_by_grace_when_time_is_short() {
    let sized = |uid: &str, size, grace_seconds| PodOnNode { size, grace_seconds, ..pod(uid) };
    let pods = || vec![sized("a", 100, 28), sized("b", 4000, 27), sized("c", 900, 29)];
    let lower = PodOnNode { priority: -1, ..sized("d", 1, 1) };
    let mut calm = started(Settings { deadline: None, ..notice() }, [pods(), vec![lower]].concat());
    assert_eq!(requests(&calm.step(T0)), ["evict d", "evict b", "evict c", "evict a"]);
    let mut urgent = started(Settings { deadline: Some(at(60)), ..notice() }, pods());
    let order: Vec<String> = requests(&urgent.step(T0)).iter().map(|requests| requests[..7].to_owned()).collect();
    assert_eq!(order, ["evict c", "evict a", "evict b"], "the longest grace first");
}

#[test]
fn size_equates_4_gib_with_one_core() {
    assert_eq!([PodOnNode::size(500, 0), PodOnNode::size(500, 8 << 30), PodOnNode::size(-1, -1)], [500, 2000, 0]);
}

#[test]
fn step_skips_daemon_sets_or_evicts_them_after_their_group() {
    let daemon = PodOnNode { owner_kind: Some("DaemonSet".into()), ..pod("d") };
    let drain = started(notice(), vec![daemon.clone()]);
    assert!(drain.is_done());
    let settings = Settings { daemon_sets: DaemonSets::Drain, ..notice() };
    let mut drain = started(settings, vec![daemon.clone(), pod("z")]);
    assert_eq!(requests(&drain.step(T0)), ["evict z"]);
    drain.reply(T0, "z", &Reply::Gone);
    assert_eq!(requests(&drain.step(T0)), ["list", "evict d"]);
}

#[test]
fn outcomes_report_the_reason_when_a_pod_is_skipped() {
    let rows = [
        (PodOnNode { terminal: true, ..pod("p") }, Skip::Ended),
        (PodOnNode { mirror: true, ..pod("p") }, Skip::Mirror),
        (PodOnNode { tolerates_disrupted: true, ..pod("p") }, Skip::Tolerates),
        (PodOnNode { owner_kind: Some("DaemonSet".into()), ..pod("p") }, Skip::DaemonSet),
        (deleting(pod("p"), T0 - Duration::from_secs(60)), Skip::Stuck),
    ];
    for (pod, why) in rows {
        let mut drain = started(notice(), vec![pod]);
        assert!(drain.step(T0).is_empty(), "{why}");
        assert!(drain.is_done(), "{why}");
        let outcomes: Vec<_> = drain.outcomes(T0).map(|(_, outcome)| outcome).collect();
        assert_eq!(outcomes, [Some(PodOutcome::Left(why))]);
        assert_eq!(drain.progress().skipped, 1);
    }
}

#[test]
fn step_retries_a_blocked_pod_and_deletes_it_at_the_switch() {
    let mut drain = started(notice(), vec![pod("a")]);
    assert_eq!(requests(&drain.step(T0)), ["evict a"]);
    drain.reply(T0, "a", &Reply::Blocked { retry_after: None, budget: None });
    assert_eq!(drain.progress().blocked, 1);
    let next = drain.poll_timeout(T0).map(|next| next.since(T0));
    assert_eq!(next, Some(Duration::from_millis(100)));
    assert!(drain.step(T0).is_empty());
    assert_eq!(requests(&drain.step(at(1))), ["evict a"]);
    drain.reply(at(1), "a", &Reply::Blocked { retry_after: Some(Duration::from_secs(600)), budget: None });
    // 120 s minus 10 s of reserve minus the pod's own 20 s.
    assert_eq!(drain.poll_timeout(at(1)), Some(at(90)));
    assert!(drain.step(at(89)).is_empty());
    assert_eq!(requests(&drain.step(at(90))), ["delete a 20"]);
    drain.reply(at(90), "a", &Reply::Accepted);
    drain.pods(at(91), vec![]);
    assert!(drain.is_done());
    assert_eq!((drain.progress().evicted, drain.progress().forced), (0, 1));
}

#[test]
fn step_respects_retry_after_before_the_switch() {
    let mut drain = started(notice(), vec![pod("a")]);
    assert_eq!(drain.step(T0).len(), 1);
    drain.reply(T0, "a", &Reply::Blocked { retry_after: Some(Duration::from_secs(40)), budget: None });
    assert_eq!(drain.poll_timeout(T0), Some(at(40)));
    assert!(drain.step(at(39)).is_empty());
    assert_eq!(requests(&drain.step(at(40))), ["evict a"]);
}

#[test]
fn retry_delays_grow_and_respect_their_bounds() {
    let mut drain = started(Settings::default(), vec![pod("a")]);
    let mut now = T0;
    let mut waits = Vec::new();
    for _ in 0..12 {
        assert_eq!(drain.step(now).len(), 1);
        drain.reply(now, "a", &Reply::SeveralBudgets);
        let next = drain.poll_timeout(now).unwrap_or(now);
        waits.push(next.since(now));
        now = next;
    }
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(10));
    assert!(waits.iter().all(|wait| (least..=most).contains(wait)), "{waits:?}");
    assert!(waits[11] >= Duration::from_secs(5), "{waits:?}");
    let refusals: Vec<_> = drain.refusals().map(|refused| refused.why).collect();
    assert_eq!(refusals, [Refusal::SeveralBudgets]);
}

#[test]
fn step_limits_the_grace_when_it_exceeds_the_deadline() {
    let long = PodOnNode { grace_seconds: 600, ..pod("a") };
    let mut drain = started(notice(), vec![long]);
    assert_eq!(requests(&drain.step(T0)), ["evict a 110"]);
    drain.reply(T0, "a", &Reply::Unreachable);
    assert_eq!(requests(&drain.step(at(80))), ["delete a 30"], "the cap of 30 s sets the switch");
}

#[test]
fn step_forces_no_pod_when_there_is_no_deadline() {
    let held = PodOnNode { do_not_disrupt: Protection::Always, ..pod("h") };
    let mut drain = started(Settings::for_termination(None, 1), vec![held, pod("a")]);
    assert_eq!(requests(&drain.step(T0)), ["evict a"]);
    drain.reply(T0, "a", &Reply::Accepted);
    drain.pods(T0, vec![PodOnNode { do_not_disrupt: Protection::Always, ..pod("h") }]);
    assert!(drain.step(at(100_000)).is_empty());
    assert_eq!(drain.poll_timeout(at(100_000)), None);
    assert!(!drain.is_done());
}

#[test]
fn step_deletes_do_not_disrupt_pods_at_the_switch() {
    let held = PodOnNode { do_not_disrupt: Protection::Always, ..pod("h") };
    let mut drain = started(notice(), vec![held]);
    assert!(drain.step(T0).is_empty());
    assert_eq!(drain.poll_timeout(T0), Some(at(90)));
    assert_eq!(requests(&drain.step(at(90))), ["delete h 20"]);
}

#[test]
fn poll_timeout_returns_the_end_of_do_not_disrupt() {
    let rows = [(BudgetPolicy::Hold, false), (BudgetPolicy::Leave, true)];
    for (do_not_disrupt, done) in rows {
        let held = |uid: &str, seconds| PodOnNode { do_not_disrupt: Protection::Until(at(seconds)), ..pod(uid) };
        let settings = Settings { do_not_disrupt, ..Settings::for_termination(None, 1) };
        let mut drain = started(settings, vec![held("a", 60), held("b", 90)]);
        assert!(drain.step(T0).is_empty(), "{do_not_disrupt:?}");
        assert_eq!((drain.poll_timeout(T0), drain.is_done()), (Some(at(60)), done), "{do_not_disrupt:?}");
        assert_eq!(requests(&drain.step(at(60))), ["evict a"], "{do_not_disrupt:?}");
        drain.reply(at(60), "a", &Reply::Accepted);
        drain.pods(at(61), vec![deleting(held("a", 60), at(95)), held("b", 90)]);
        assert!(!drain.is_done(), "{do_not_disrupt:?}");
        assert_eq!(requests(&drain.step(at(90))), ["evict b"], "{do_not_disrupt:?}");
    }
}

#[test]
fn poll_timeout_ignores_do_not_disrupt_of_other_skips() {
    let ended = PodOnNode { do_not_disrupt: Protection::Until(at(60)), terminal: true, ..pod("a") };
    let settings = Settings { do_not_disrupt: BudgetPolicy::Leave, ..Settings::for_termination(None, 1) };
    let mut drain = started(settings, vec![ended]);
    assert!(drain.step(T0).is_empty());
    assert_eq!(drain.poll_timeout(T0), None);
}

#[test]
fn step_deletes_with_one_second_when_the_deadline_passed() {
    let mut drain = started(Settings::for_termination(Some(T0), 1), vec![pod("a")]);
    assert_eq!(requests(&drain.step(at(30))), ["delete a 1"]);
}

#[test]
fn tighten_moves_the_deadline_earlier_only() {
    let mut drain = started(notice(), vec![pod("a")]);
    drain.tighten(at(500));
    assert_eq!(drain.settings().deadline, Some(at(120)));
    drain.tighten(at(30));
    assert_eq!(requests(&drain.step(T0)), ["delete a 20"], "the switch of the new deadline is now");
}

#[test]
fn step_shortens_a_deletion_once_when_it_outlasts_the_deadline() {
    let leaving = deleting(pod("a"), at(600));
    let mut drain = started(notice(), vec![leaving.clone()]);
    assert_eq!(requests(&drain.step(T0)), ["delete a 20"]);
    drain.reply(T0, "a", &Reply::Accepted);
    drain.pods(at(1), vec![leaving]);
    assert!(drain.step(at(1)).is_empty());
    let in_time = deleting(pod("b"), at(100));
    let mut drain = started(notice(), vec![in_time]);
    assert!(drain.step(T0).is_empty(), "it ends in time by itself");
    drain.tighten(at(50));
    assert_eq!(requests(&drain.step(T0)), ["delete b 20"], "not any more");
}

/// A node has five minutes. A pod with a grace period of five minutes is deleted immediately, one with a grace period of one
/// minute after four minutes. A pod whose deletion would outlast the node gets the time left, regardless of do-not-disrupt.
#[test]
fn step_gives_each_pod_its_grace_within_the_deadline() {
    let long = PodOnNode { grace_seconds: 300, ..pod("long") };
    let short = PodOnNode { grace_seconds: 60, ..pod("short") };
    let mut drain = started(Settings::for_termination(Some(at(300)), 1), vec![long, short.clone()]);
    assert_eq!(requests(&drain.step(T0)), ["delete long 300", "evict short"]);
    drain.reply(T0, "long", &Reply::Accepted);
    drain.reply(T0, "short", &Reply::Blocked { retry_after: Some(Duration::from_secs(900)), budget: None });
    let endless =
        PodOnNode { do_not_disrupt: Protection::Always, grace_seconds: 6000, ..deleting(pod("endless"), at(6000)) };
    drain.pods(at(90), vec![short, endless]);
    assert_eq!(requests(&drain.step(at(90))), ["delete endless 210"]);
    drain.reply(at(90), "endless", &Reply::Accepted);
    assert!(drain.step(at(239)).is_empty());
    assert_eq!(requests(&drain.step(at(240))), ["delete short 60"]);
}

#[test]
fn step_requests_a_list_when_the_reply_is_forbidden() {
    let mut drain = started(notice(), vec![pod("a"), pod("b")]);
    assert_eq!(drain.step(T0).len(), 2);
    drain.reply(T0, "a", &Reply::Forbidden);
    assert_eq!(drain.poll_timeout(T0), Some(T0));
    assert_eq!(requests(&drain.step(T0)), ["list"]);
    assert!(drain.step(T0).is_empty());
    drain.pods(T0, vec![pod("b")]);
    drain.reply(T0, "b", &Reply::ServerError);
    assert!(!drain.is_done());
}

#[test]
fn step_requests_a_list_until_it_arrives_when_a_pod_is_gone() {
    for reply in [Reply::Gone, Reply::Recreated] {
        let mut drain = started(notice(), vec![pod("a")]);
        assert_eq!(requests(&drain.step(T0)), ["evict a"]);
        drain.reply(T0, "a", &reply);
        assert!(!drain.is_done(), "it may have been bound a moment ago");
        assert_eq!(requests(&drain.step(T0)), ["list"]);
        assert_eq!(drain.poll_timeout(T0), Some(at(10)));
        assert!(drain.step(at(9)).is_empty() && !drain.is_done());
        assert_eq!(requests(&drain.step(at(10))), ["list"], "the first one never came");
        drain.pods(at(11), vec![pod("a")]);
        assert_eq!(requests(&drain.step(at(11))), ["evict a"]);
        drain.reply(at(11), "a", &reply);
        assert_eq!(requests(&drain.step(at(11))), ["list"]);
        drain.pods(at(11), vec![]);
        assert!(drain.is_done());
    }
}

#[test]
fn step_requests_a_list_when_an_eviction_has_no_effect() {
    let mut drain = started(notice(), vec![pod("a")]);
    assert_eq!(drain.step(T0).len(), 1);
    drain.reply(T0, "a", &Reply::Accepted);
    assert_eq!(drain.poll_timeout(T0), Some(at(10)));
    assert_eq!(requests(&drain.step(at(10))), ["list"]);
    assert!(drain.step(at(10)).is_empty());
    assert_eq!(drain.poll_timeout(at(11)), Some(at(20)));
    drain.pods(at(11), vec![pod("a")]);
    assert_eq!(requests(&drain.step(at(11))), ["evict a"]);
}

#[test]
fn resume_waits_for_a_list_and_infers_outcomes_from_it() {
    let mut drain = started(notice(), vec![pod("a"), pod("b"), pod("c")]);
    assert_eq!(drain.step(T0).len(), 3);
    drain.resume(at(1));
    assert!(drain.step(at(1)).is_empty());
    drain.pods(at(2), vec![deleting(pod("a"), at(20)), pod("b")]);
    assert_eq!(requests(&drain.step(at(2))), ["evict b"], "a was evicted before the restart, c is gone");
    let outcomes: Vec<_> = drain.outcomes(at(2)).map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, [Some(PodOutcome::Evicted), None, Some(PodOutcome::Evicted)]);
}

#[test]
fn doubt_requests_a_list_before_any_eviction() {
    let mut drain = started(notice(), vec![pod("a"), pod("b")]);
    assert_eq!(drain.step(T0).len(), 2);
    drain.mark_outdated(at(60));
    assert_eq!(requests(&drain.step(at(60))), ["list"]);
    drain.reply(at(60), "a", &Reply::Accepted);
    assert_eq!(drain.poll_timeout(at(60)), Some(at(70)));
    assert_eq!(requests(&drain.step(at(70))), ["list"], "the first one never came");
    drain.pods(at(71), vec![pod("a"), deleting(pod("b"), at(80))]);
    assert_eq!(
        requests(&drain.step(at(71))),
        ["evict a"],
        "an answer from before the gap tells nothing, the list does"
    );
}

#[test]
fn hold_suspends_requests_and_wants_still_reports_them() {
    let mut drain = started(notice(), vec![pod("a")]);
    drain.hold(true);
    assert!(drain.step(T0).is_empty() && drain.has_due_requests(T0));
    assert_eq!(drain.poll_timeout(T0), None, "who holds it knows when to come back");
    drain.hold(false);
    assert_eq!(requests(&drain.step(T0)), ["evict a"]);
    assert!(!drain.has_due_requests(T0));
}

/// A node can create and delete static pods as it likes, so only pods that must leave count.
#[test]
fn without_progress_ends_when_a_pod_that_must_leave_leaves() {
    let own = PodOnNode { mirror: true, ..pod("static") };
    let mut drain = started(Settings::for_termination(None, 7), vec![pod("a"), pod("b"), own]);
    let stalled = |drain: &Drain, now: u64| drain.without_progress(at(now)).as_secs();
    drain.pods(at(10), vec![pod("a"), pod("b")]);
    assert_eq!(stalled(&drain, 20), 20, "a static pod");
    drain.pods(at(30), vec![deleting(pod("a"), at(60)), pod("b")]);
    assert_eq!(stalled(&drain, 40), 10, "a pod begins to leave");
    drain.pods(at(50), vec![pod("b"), pod("late")]);
    assert_eq!(stalled(&drain, 60), 30, "the same pod is gone");
    drain.pods(at(70), vec![pod("late")]);
    assert_eq!(stalled(&drain, 75), 5);
    drain.postpone(at(100));
    assert_eq!(stalled(&drain, 101), 1);
}

/// A journal of any version has the phase of the list as three booleans, and an agent's hold as `held`.
#[test]
fn drain_keeps_the_phase_of_its_list_in_the_journal() {
    let read = |listed: bool, relist: bool, listing: bool| -> Drain {
        let mut journal = serde_json::to_value(started(notice(), vec![pod("a")])).unwrap();
        for (key, value) in [("listed", listed), ("relist", relist), ("listing", listing), ("held", listed)] {
            journal[key] = value.into();
        }
        serde_json::from_value(journal).unwrap()
    };
    let rows = [
        ((false, false, false), (false, false, false)),
        ((false, false, true), (false, false, true)),
        ((false, true, false), (false, true, false)),
        ((true, false, false), (true, false, false)),
        ((true, false, true), (true, false, true)),
        ((true, true, false), (true, true, false)),
        // Only a need counts: the outstanding list is requested again.
        ((true, true, true), (true, true, false)),
    ];
    for ((listed, relist, listing), expected) in rows {
        let mut drain = read(listed, relist, listing);
        let journal = serde_json::to_value(&drain).unwrap();
        let phase = ["listed", "relist", "listing"].map(|key| journal[key].as_bool());
        assert_eq!(phase, [Some(expected.0), Some(expected.1), Some(expected.2)]);
        assert_eq!(journal["held"], listed);
        assert_eq!(requests(&drain.step(T0)), if relist { vec!["list"] } else { vec![] }, "{expected:?}");
    }
}

#[test]
fn from_status_converts_status_codes_into_replies() {
    let after = Some(Duration::from_secs(10));
    let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let rows = [
        (200, "", Reply::Accepted),
        (201, "", Reply::Accepted),
        (400, "", Reply::Invalid),
        (401, "", Reply::Unreachable),
        (403, "", Reply::Forbidden),
        (404, "", Reply::Gone),
        (409, "", Reply::Recreated),
        (422, "", Reply::Invalid),
        (429, "", Reply::Blocked { retry_after: after, budget: None }),
        (500, several, Reply::SeveralBudgets),
        (500, "etcdserver: leader changed", Reply::ServerError),
        (503, "", Reply::ServerError),
    ];
    for (status, message, reply) in rows {
        assert_eq!(Reply::from_status(status, message, after), reply, "{status} {message}");
    }
}
