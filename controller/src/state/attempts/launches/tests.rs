//! Tests of pauses after launches that gave their pods no place.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::PoolVersion;
use super::{AttemptState, AttemptView, BlockedLaunches, LaunchAttempts, NodeUse, PodGroup, PodGroups};
use crate::fixture::at;

const UNUSED: AttemptState = AttemptState::Up(NodeUse::Unused);
const USED: AttemptState = AttemptState::Up(NodeUse::Pods);

fn group() -> PodGroup {
    PodGroup::Controller("web".to_owned())
}

fn pods(group: PodGroup) -> PodGroups {
    [(group, ["pod-1".to_owned()].into())].into()
}

/// Launches of one NodePool whose pods are pending.
#[derive(Default)]
struct Fixture {
    attempts: LaunchAttempts,
    version: PoolVersion,
    launched: u32,
}

impl Fixture {
    fn launch(&mut self, group: PodGroup, now: i64) {
        self.launched += 1;
        let claim = format!("claim-{}", self.launched);
        self.attempts.begin(&claim, "default", pods(group), self.version.clone(), at(now));
    }

    fn update(&mut self, state: AttemptState, now: i64) {
        self.update_needed(state, true, now);
    }

    fn update_needed(&mut self, state: AttemptState, needed: bool, now: i64) {
        let version = self.version.clone();
        self.attempts.update(&AttemptView {
            state: &|_| state,
            needs: &|_, _| needed,
            version: &|_| version.clone(),
            now: at(now),
        });
    }

    /// Returns failures and end of the pause of a pod.
    fn pause(&mut self, pod: &str, now: i64) -> Option<(u32, Timestamp)> {
        let pauses = self.attempts.pauses(&group(), pod, at(now));
        pauses.first().map(|pause| (pause.failures, Timestamp::from_millisecond(pause.until.0).unwrap()))
    }

    /// Launches one node that comes up after 20 s and takes no pod, and returns the end of the pause.
    fn fail(&mut self, now: i64) -> Option<(u32, Timestamp)> {
        self.launch(group(), now);
        self.update(AttemptState::Starting, now + 10);
        self.update(UNUSED, now + 20);
        self.update(UNUSED, now + 25);
        self.pause("pod-1", now + 25)
    }
}

#[test]
fn pauses_double_when_nodes_come_up_and_take_no_pod() {
    let mut fixture = Fixture::default();
    let mut now = 0;
    let mut spans = Vec::new();
    for attempt in 1..=9 {
        let (failures, until) = fixture.fail(now).unwrap();
        assert_eq!(failures, attempt);
        spans.push((until - at(now + 25)).get_seconds());
        assert_eq!(fixture.pause("pod-1", now + 25 + spans[spans.len() - 1]), None, "the pause ends");
        now += 25 + spans[spans.len() - 1];
    }
    assert_eq!(spans, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
}

#[test]
fn pauses_wait_for_the_scheduler_only_with_pods_of_the_launch() {
    let mut fixture = Fixture::default();
    fixture.launch(group(), 0);
    fixture.update(UNUSED, 20);
    assert_eq!(fixture.pause("pod-1", 21), Some((0, at(25))));
    assert_eq!(fixture.pause("pod-2", 21), None, "a new pod of the group is not delayed");
    fixture.update(USED, 22);
    assert_eq!(fixture.pause("pod-1", 22), None);
    assert!(!fixture.attempts.has_pauses());
}

/// A node that starts slowly is no failure as long as plans expect the pods there.
#[test]
fn pauses_do_not_begin_while_plans_expect_pods_on_the_node() {
    let mut fixture = Fixture::default();
    fixture.launch(group(), 0);
    for now in [20, 40, 600] {
        fixture.update(AttemptState::Up(NodeUse::Expected), now);
    }
    assert_eq!(fixture.pause("pod-1", 600), None);
    fixture.update(UNUSED, 601);
    assert_eq!(fixture.pause("pod-1", 601), Some((1, at(611))), "a taint came late");
}

#[test]
fn pauses_end_when_the_node_keeps_capacity_for_a_buffer() {
    let buffer = || PodGroup::Buffer("default/spare".to_owned());
    for (node_use, failures) in [(NodeUse::Unused, 1), (NodeUse::Expected, 0), (NodeUse::VirtualPods, 0)] {
        let mut fixture = Fixture::default();
        fixture.launch(buffer(), 0);
        fixture.update(AttemptState::Up(node_use), 20);
        fixture.update(AttemptState::Up(node_use), 25);
        assert_eq!(fixture.attempts.pauses(&buffer(), "", at(25)).len(), failures, "{node_use:?}");
    }
}

#[test]
fn pauses_end_when_a_late_pod_is_bound() {
    let mut fixture = Fixture::default();
    assert_eq!(fixture.fail(0), Some((1, at(35))));
    fixture.update(USED, 30);
    assert_eq!(fixture.pause("pod-1", 30), None);
    assert_eq!(fixture.fail(100), Some((1, at(135))), "the next failure is the first one again");
}

#[test]
fn pauses_end_when_the_pool_changes() {
    let mut fixture = Fixture::default();
    fixture.fail(0);
    fixture.version = PoolVersion { pool: Some(("uid".to_owned(), 2)), ..PoolVersion::default() };
    fixture.update(UNUSED, 30);
    assert_eq!(fixture.pause("pod-1", 30), None);
}

#[test]
fn pauses_affect_neither_other_groups_nor_unneeded_nodes() {
    let mut fixture = Fixture::default();
    fixture.fail(0);
    let other = PodGroup::Controller("other".to_owned());
    assert!(fixture.attempts.pauses(&other, "pod-9", at(26)).is_empty());
    let mut unneeded = Fixture::default();
    unneeded.launch(group(), 0);
    unneeded.update_needed(UNUSED, false, 20);
    unneeded.update_needed(AttemptState::Gone, false, 40);
    assert_eq!(unneeded.pause("pod-1", 40), None, "the pods found another place");
}

#[test]
fn failures_of_one_wave_count_once() {
    let mut fixture = Fixture::default();
    (0..5).for_each(|_| fixture.launch(group(), 0));
    fixture.update(UNUSED, 20);
    fixture.update(UNUSED, 25);
    assert_eq!(fixture.pause("pod-1", 25), Some((1, at(35))));
}

#[test]
fn pauses_begin_with_the_second_claim_without_a_node() {
    let mut fixture = Fixture::default();
    let mut ends = Vec::new();
    for now in [0, 100, 200, 400, 600, 800] {
        fixture.launch(group(), now);
        fixture.update(AttemptState::Gone, now + 1);
        ends.push(fixture.pause("pod-1", now + 1).map(|(_, until)| (until - at(now + 1)).get_seconds()));
    }
    assert_eq!(ends, [None, Some(10), Some(20), Some(40), Some(60), Some(60)]);
}

#[test]
fn static_pools_pause_only_when_no_node_comes_up() {
    let mut fixture = Fixture::default();
    for now in [0, 100] {
        fixture.launch(PodGroup::Replicas, now);
        fixture.update(AttemptState::Gone, now + 1);
    }
    assert_eq!(fixture.attempts.static_pools(at(101)), [("default".to_owned(), at(111))].into());
    fixture.launch(PodGroup::Replicas, 120);
    fixture.update(UNUSED, 140);
    assert_eq!(fixture.attempts.static_pools(at(140)), BTreeMap::new(), "an empty replica is no failure");
    assert!(!fixture.attempts.has_pauses());
}

#[test]
fn failures_are_dropped_when_the_group_has_no_pods_for_an_hour() {
    let mut fixture = Fixture::default();
    fixture.fail(0);
    fixture.update(AttemptState::Gone, 30);
    fixture.pause("pod-1", 3000);
    fixture.update(AttemptState::Gone, 3700);
    assert!(fixture.attempts.has_pauses(), "pods were pending within the hour");
    fixture.update(AttemptState::Gone, 6600);
    assert!(!fixture.attempts.has_pauses());
}

#[test]
fn block_returns_pools_whose_pauses_changed() {
    let blocked = |failures| BlockedLaunches { pods: 1, failures, until: at(60), cause: None };
    let of = |failures| BTreeMap::from([("default".to_owned(), blocked(failures))]);
    let mut attempts = LaunchAttempts::default();
    assert_eq!(attempts.block(of(1)), ["default"]);
    assert!(attempts.block(of(1)).is_empty());
    assert_eq!(attempts.blocked("default"), Some(blocked(1)));
    assert_eq!(attempts.block(BTreeMap::new()), ["default"]);
    assert_eq!(attempts.holders(), BTreeSet::new());
}

/// Three nodes that no pod could use pause the whole NodePool for an hour, also for pods and CapacityBuffers without a launch.
#[test]
fn pauses_cover_the_pool_when_three_nodes_stay_unready() {
    let mut fixture = Fixture::default();
    let fail = |fixture: &mut Fixture, now| {
        fixture.attempts.fail_startup("default", fixture.version.clone(), "taint x stayed", at(now));
    };
    for now in [900, 1800] {
        fail(&mut fixture, now);
        assert_eq!((fixture.pause("pod-1", now), fixture.attempts.has_paused_pools(at(now))), (None, false));
    }
    fail(&mut fixture, 2700);
    assert_eq!(fixture.pause("pod-1", 2700), Some((3, at(6300))));
    assert_eq!(fixture.attempts.static_pools(at(2700)), [("default".to_owned(), at(6300))].into());
    assert_eq!(fixture.attempts.static_failures("default"), 3);
    let blocked = BlockedLaunches { pods: 1, failures: 3, until: at(6300), cause: None };
    fixture.attempts.block([("default".to_owned(), blocked)].into());
    assert_eq!(fixture.attempts.blocked("default").unwrap().cause.as_deref(), Some("taint x stayed"));
    assert_eq!(fixture.pause("pod-1", 6300), None, "the next attempt");
    fail(&mut fixture, 7200);
    assert_eq!(fixture.pause("pod-1", 7200), Some((4, at(10_800))), "one failure more is enough");
}

#[test]
fn pauses_of_a_pool_end_with_a_success_or_a_change() {
    for changes in [false, true] {
        let mut fixture = Fixture::default();
        for now in [1, 2, 3] {
            fixture.attempts.fail_startup("default", fixture.version.clone(), "stayed", at(now));
        }
        assert!(fixture.pause("pod-1", 4).is_some());
        if changes {
            fixture.version = PoolVersion { content: 1, ..PoolVersion::default() };
            fixture.update(AttemptState::Starting, 4);
        } else {
            fixture.attempts.succeed_startup("default", fixture.version.clone(), at(4));
        }
        assert_eq!(fixture.pause("pod-1", 4), None, "{changes}");
        fixture.attempts.fail_startup("default", fixture.version.clone(), "stayed", at(5));
        assert_eq!(fixture.pause("pod-1", 5), None, "the count begins again");
    }
}
