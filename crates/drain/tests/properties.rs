//! What holds under any pods and any replies: a small world of pods that obey the API's answers runs a drain to its deadline and
//! watches every request. The world is a function of its input, so that running it twice compares a drain with its restored self.

#![expect(clippy::expect_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use drain::{Action, Drain, Millis, Outcome, PodOnNode, Reply, Settings};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

const T0: Millis = Millis(10_000_000);
const TICK: Duration = Duration::from_millis(250);

fn deadline() -> Millis {
    T0 + Duration::from_secs(120)
}

/// One run's input.
#[derive(Clone, Debug)]
struct Script {
    pods: Vec<PodOnNode>,
    replies: Vec<Reply>,
    /// Ticks until an answer arrives, taken round robin.
    delays: Vec<u8>,
    /// From the switch on, deletions are accepted at once.
    deletes_work: bool,
    /// Serialise and restore before this tick.
    restore_at: Option<u32>,
}

/// What a run left behind.
struct Trace {
    log: Vec<(Millis, Action)>,
    left: usize,
    drain: Drain,
}

struct World {
    script: Script,
    pods: BTreeMap<String, PodOnNode>,
    replies: VecDeque<Reply>,
    out: Vec<(Millis, Action, Reply)>,
    asked: usize,
}

impl World {
    fn new(script: Script) -> Self {
        let pods = script.pods.iter().map(|pod| (pod.uid.clone(), pod.clone()));
        Self {
            pods: pods.collect(),
            replies: script.replies.iter().copied().collect(),
            out: Vec::new(),
            asked: 0,
            script,
        }
    }

    fn run(mut self) -> Trace {
        let mut drain = Drain::new(Settings::for_notice(deadline(), 3), T0);
        let mut log = Vec::new();
        let mut now = T0;
        for tick in 0.. {
            if now > deadline() {
                break;
            }
            self.pods.retain(|_, pod| pod.deletion.is_none_or(|end| now < end));
            self.deliver(&mut drain, now);
            drain.pods(now, self.pods.values().cloned().collect());
            if self.script.restore_at == Some(tick) {
                let text = serde_json::to_string(&drain).expect("a drain serialises");
                drain = serde_json::from_str(&text).expect("a drain is restored");
            }
            for action in drain.step(now) {
                self.check(&action, now);
                self.send(&action, now);
                log.push((now, action));
            }
            let again: Vec<_> = drain.step(now);
            assert!(again.is_empty(), "the same moment twice: {again:?}");
            assert!(drain.poll_timeout(now).is_none_or(|next| next > now));
            now = now + TICK;
        }
        Trace { log, left: self.pods.len(), drain }
    }

    /// Never two requests for one pod; no budget bypassed before the pod's switch.
    fn check(&self, action: &Action, now: Millis) {
        let (uid, forced) = match action {
            Action::Evict { uid, .. } => (uid, false),
            Action::Delete { uid, .. } => (uid, true),
            Action::List => return,
        };
        let outstanding = self.out.iter().filter(|(_, other, _)| uid_of(other) == Some(uid));
        assert_eq!(outstanding.count(), 0, "two requests for {uid}");
        let pod = &self.pods[uid];
        assert!(!pod.mirror && !pod.terminal && !pod.tolerates_disrupted);
        if forced {
            let settings = Settings::for_notice(deadline(), 3);
            let switch = settings.switch(pod).expect("there is a deadline");
            let overstays = pod.deletion.is_some_and(|end| end > deadline());
            assert!(now >= switch || overstays, "{uid} forced at {now:?}, before {switch:?}");
        }
    }

    fn send(&mut self, action: &Action, now: Millis) {
        if matches!(action, Action::List) {
            return;
        }
        let delays = &self.script.delays;
        let delay = delays[self.asked % delays.len()];
        self.asked += 1;
        let works = self.script.deletes_work && matches!(action, Action::Delete { .. });
        let scripted = self.replies.pop_front().unwrap_or(Reply::Blocked { retry_after: None });
        let reply = if works { Reply::Accepted } else { scripted };
        self.out.push((now + TICK * u32::from(delay), action.clone(), reply));
    }

    fn deliver(&mut self, drain: &mut Drain, now: Millis) {
        let (due, later) = std::mem::take(&mut self.out).into_iter().partition(|(at, ..)| *at <= now);
        self.out = later;
        let due: Vec<(Millis, Action, Reply)> = due;
        for (_, action, reply) in due {
            let uid = uid_of(&action).expect("only requests are sent");
            if reply == Reply::Accepted
                && let Some(pod) = self.pods.get_mut(uid)
            {
                let end = now + Duration::from_secs(grace_of(&action, pod));
                pod.deletion = Some(pod.deletion.map_or(end, |old| old.min(end)));
            }
            if matches!(reply, Reply::Gone | Reply::Recreated) {
                self.pods.remove(uid);
            }
            drain.reply(now, uid, reply);
        }
    }
}

fn uid_of(action: &Action) -> Option<&String> {
    match action {
        Action::Evict { uid, .. } | Action::Delete { uid, .. } => Some(uid),
        Action::List => None,
    }
}

fn grace_of(action: &Action, pod: &PodOnNode) -> u64 {
    match action {
        Action::Delete { grace, .. } => *grace,
        Action::Evict { grace, .. } => grace.unwrap_or(pod.grace_seconds),
        Action::List => 0,
    }
}

fn any_reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Accepted),
        Just(Reply::Gone),
        Just(Reply::Recreated),
        proptest::option::of(0_u64..200)
            .prop_map(|after| Reply::Blocked { retry_after: after.map(Duration::from_secs) }),
        Just(Reply::SeveralBudgets),
        Just(Reply::ServerError),
        Just(Reply::Forbidden),
        Just(Reply::Invalid),
        Just(Reply::Unreachable),
    ]
}

fn any_pod() -> impl Strategy<Value = PodOnNode> {
    let owner = prop_oneof![
        4 => Just(Some("ReplicaSet".to_owned())),
        1 => Just(Some("DaemonSet".to_owned())),
        1 => Just(None),
    ];
    let rarely = || proptest::bool::weighted(0.1);
    let deletion = proptest::option::weighted(0.15, 1_u64..400);
    let grace = prop_oneof![0_u64..=60, 61_u64..=4000];
    (owner, any::<bool>(), grace, deletion, [rarely(), rarely(), rarely(), rarely()]).prop_map(
        |(owner_kind, critical, grace_seconds, deletion, [terminal, tolerates, mirror, held])| PodOnNode {
            uid: String::new(),
            namespace: "default".into(),
            name: String::new(),
            owner_kind,
            critical,
            grace_seconds,
            terminal,
            deletion: deletion.map(|seconds| T0 + Duration::from_secs(seconds)),
            tolerates_disrupted: tolerates,
            mirror,
            do_not_disrupt: held,
        },
    )
}

fn any_script() -> impl Strategy<Value = Script> {
    (
        proptest::collection::vec(any_pod(), 0..8),
        proptest::collection::vec(any_reply(), 0..60),
        proptest::collection::vec(0_u8..8, 1..5),
        any::<bool>(),
    )
        .prop_map(|(pods, replies, delays, deletes_work)| Script {
            pods: numbered(pods),
            replies,
            delays,
            deletes_work,
            restore_at: None,
        })
}

fn numbered(mut pods: Vec<PodOnNode>) -> Vec<PodOnNode> {
    for (index, pod) in pods.iter_mut().enumerate() {
        pod.uid = format!("uid-{index}");
        pod.name = format!("pod-{index}");
    }
    pods
}

proptest! {
    #[test]
    fn every_pod_has_its_outcome_at_the_deadline(script in any_script()) {
        let trace = World::new(script).run();
        for (pod, outcome) in trace.drain.outcomes(deadline()) {
            assert!(outcome.is_some(), "{pod:?}");
        }
    }

    #[test]
    fn a_pod_that_is_left_was_at_least_to_be_forced(script in any_script()) {
        let trace = World::new(script).run();
        let forced: BTreeSet<_> = trace.log.iter()
            .filter(|(_, action)| matches!(action, Action::Delete { .. }))
            .filter_map(|(_, action)| uid_of(action))
            .collect();
        for (pod, outcome) in trace.drain.outcomes(deadline()) {
            if outcome == Some(Outcome::Left(drain::Skip::Deadline)) {
                assert!(forced.contains(&pod.uid) || pod.deletion.is_some(), "{pod:?}");
            }
        }
    }

    #[test]
    fn nobody_is_left_when_deletions_work(script in any_script()) {
        let script = Script { deletes_work: true, ..script };
        let staying = script.pods.iter().filter(|pod| {
            pod.terminal || pod.mirror || pod.tolerates_disrupted || pod.is_daemon()
        });
        let staying = staying.filter(|pod| pod.deletion.is_none_or(|end| end > deadline())).count();
        let trace = World::new(script).run();
        assert!(trace.drain.is_done(), "{:?}", trace.drain.progress());
        assert_eq!(trace.left, staying);
    }

    #[test]
    fn a_restored_drain_asks_for_the_same(script in any_script(), tick in 0_u32..480) {
        let restored = Script { restore_at: Some(tick), ..script.clone() };
        assert_eq!(World::new(restored).run().log, World::new(script).run().log);
    }

    #[test]
    fn without_a_deadline_nothing_is_ever_forced(script in any_script(), seconds in 0_u64..100_000) {
        let mut drain = Drain::new(Settings::for_termination(None, 5), T0);
        drain.pods(T0, script.pods.clone());
        let mut now = T0;
        for reply in script.replies.iter().copied().filter(|reply| *reply != Reply::Accepted) {
            for action in drain.step(now) {
                assert!(!matches!(action, Action::Delete { .. }), "{action:?}");
                if let Some(uid) = uid_of(&action) {
                    drain.reply(now, uid, reply);
                }
            }
            now = now + Duration::from_secs(seconds);
        }
    }
}
