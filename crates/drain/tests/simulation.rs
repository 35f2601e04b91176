//! Properties of a drain for any pods, budgets, grace periods, deadlines and faults. A small API server is drained event by
//! event, with restarts of the agent, and every request is validated.

#![expect(clippy::expect_used, reason = "a failed assumption should fail the test")]

#[path = "simulation/client.rs"]
mod client;
#[path = "simulation/server.rs"]
mod server;

use std::time::Duration;

use drain::{AwaitedCopy, DaemonSets, DrainOrder, Millis, PodOnNode, PodOutcome, Protection, Settings, Skip};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use client::{Client, Event};
use server::{Budget, Held, Server, Stall};

const T0: Millis = Millis(10_000_000);
const SPOT: Duration = Duration::from_secs(120);

fn at(seconds: f64) -> Millis {
    T0 + Duration::from_secs_f64(seconds)
}

fn order(deadline: Option<Millis>) -> DrainOrder {
    DrainOrder { id: "o".into(), reason: "test".into(), deadline, daemon_sets: DaemonSets::Skip, termination: false }
}

/// Input of one run.
#[derive(Clone, Debug)]
struct Script {
    server: Server,
    rules: Settings,
    deadline: Option<Millis>,
    events: Vec<(Millis, Event)>,
}

impl Script {
    fn run(self) -> Client {
        let Self { server, rules, deadline, events } = self;
        Client::new(server, rules, order(deadline), events, T0).run(at(270.0))
    }
}

fn plain(uid: &str, grace_seconds: u64) -> PodOnNode {
    PodOnNode {
        uid: uid.into(),
        namespace: "default".into(),
        name: format!("pod-{uid}"),
        owner_kind: Some("ReplicaSet".into()),
        grace_seconds,
        ..PodOnNode::default()
    }
}

fn any_pod() -> impl Strategy<Value = PodOnNode> {
    let owner = prop_oneof![
        6 => Just(Some("ReplicaSet".to_owned())),
        1 => Just(Some("DaemonSet".to_owned())),
        1 => Just(None),
    ];
    let rarely = || proptest::bool::weighted(0.07);
    let grace = prop_oneof![8 => 0_u64..=60, 1 => 61_u64..=4000];
    let deletion = proptest::option::weighted(0.07, 1_u64..400);
    let protection = prop_oneof![
        12 => Just(Protection::None),
        1 => Just(Protection::Always),
        1 => (1_u64..150).prop_map(|seconds| Protection::Until(T0 + Duration::from_secs(seconds))),
    ];
    let copy = prop_oneof![
        12 => Just(AwaitedCopy::None),
        1 => Just(AwaitedCopy::Requested),
        1 => (1_u64..150).prop_map(|seconds| AwaitedCopy::Starting(T0 + Duration::from_secs(seconds))),
    ];
    (owner, rarely(), -5_i32..5, grace, deletion, (protection, copy), [rarely(), rarely(), rarely()]).prop_map(
        |(owner_kind, critical, priority, grace, deletion, (protection, copy), [terminal, tolerates, mirror])| {
            PodOnNode {
                owner_kind,
                critical,
                priority,
                terminal,
                deletion: deletion.map(|seconds| T0 + Duration::from_secs(seconds)),
                tolerates_disrupted: tolerates,
                mirror,
                do_not_disrupt: protection,
                copy,
                ..plain("", grace)
            }
        },
    )
}

/// Generates a pod, the percentage of its grace period that its stop takes (`None` hangs), its budget, and the second of its
/// creation.
fn any_held(hangs: f64) -> impl Strategy<Value = (PodOnNode, Option<u8>, u8, u16)> {
    let stops = (proptest::bool::weighted(hangs), 0_u8..120).prop_map(|(hangs, percent)| (!hangs).then_some(percent));
    let from = prop_oneof![6 => Just(0_u16), 1 => 0_u16..90];
    (any_pod(), stops, 0_u8..12, from)
}

fn any_budget() -> impl Strategy<Value = Budget> {
    let retry_after = proptest::option::weighted(0.2, 0_u64..15);
    (0_usize..4, 100_u64..20_000, retry_after).prop_map(|(most, heals, retry_after)| Budget {
        most,
        heals_in: Duration::from_millis(heals),
        retry_after: retry_after.map(Duration::from_secs),
        disrupted: Vec::new(),
        peak: 0,
    })
}

fn any_server(hangs: f64, faults: bool) -> impl Strategy<Value = Server> {
    let stall = (0.0_f64..100.0, 0.0_f64..25.0, any::<bool>()).prop_map(|(from, span, acts)| Stall {
        from: at(from),
        until: at(from + span),
        acts,
    });
    let error = prop_oneof![20 => Just(0_u16), 1 => Just(403), 1 => Just(409), 1 => Just(429), 1 => Just(422), 2 => Just(500), 1 => Just(503)];
    let most = usize::from(faults);
    (
        proptest::collection::vec(any_held(hangs), 0..14),
        proptest::collection::vec(any_budget(), 3),
        proptest::collection::vec(stall, 0..=2 * most),
        proptest::collection::vec(error, 0..=60 * most),
        1_u64..300,
    )
        .prop_map(|(pods, budgets, stalls, errors, latency)| Server {
            pods: pods.into_iter().enumerate().map(held).collect(),
            budgets,
            stalls,
            errors,
            latency: Duration::from_millis(latency),
            ..Server::default()
        })
}

fn held((index, (pod, stops, budget, from)): (usize, (PodOnNode, Option<u8>, u8, u16))) -> (String, Held) {
    let uid = format!("uid-{index:03}");
    let pod = PodOnNode { name: format!("pod-{index}"), uid: uid.clone(), ..pod };
    let budgets = match budget {
        0..=2 => vec![usize::from(budget)],
        3 => vec![0, 1],
        _ => vec![],
    };
    let stops_in = stops.map(|percent| pod.grace() * u32::from(percent) / 100);
    let gone = pod.deletion.filter(|_| stops_in.is_some());
    (uid, Held { budgets, stops_in, from: at(f64::from(from)), gone, ended: None, pod })
}

fn any_script(hangs: f64, faults: bool) -> impl Strategy<Value = Script> {
    let deadline = proptest::option::weighted(0.9, 20_u64..200);
    let kills = proptest::collection::vec(0.0_f64..150.0, 0..=if faults { 3 } else { 0 });
    (any_server(hangs, faults), deadline, kills, 0_u64..12, any::<u64>()).prop_map(
        |(server, deadline, kills, lead, seed)| Script {
            server,
            rules: Settings { lead: Duration::from_secs(lead), ..Settings::for_machine(seed) },
            deadline: deadline.map(|seconds| T0 + Duration::from_secs(seconds)),
            events: kills.into_iter().map(|moment| (at(moment), Event::Kill)).collect(),
        },
    )
}

/// Generates a change of the request during the drain: another deadline, none, or a withdrawal.
fn any_event() -> impl Strategy<Value = (Millis, Event)> {
    let deadline = prop_oneof![
        3 => (0_u64..150).prop_map(|seconds| Some(order(Some(T0 + Duration::from_secs(seconds))))),
        1 => Just(Some(order(None))),
        2 => Just(None),
    ];
    (0.0_f64..120.0, deadline).prop_map(|(moment, order)| (at(moment), Event::Order(order)))
}

/// Each case is a complete drain, so the number of cases is a quarter of the default.
fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases / 4, ..config }
}

proptest! {
    #![proptest_config(cases())]

    // The client validates each request: see client.rs.
    #[test]
    fn outcomes_are_complete_at_the_deadline(script in any_script(0.1, true)) {
        let deadline = script.deadline;
        let client = script.run();
        if let Some(deadline) = deadline {
            for (pod, outcome) in client.drain.outcomes(deadline) {
                assert!(outcome.is_some(), "{pod:?}");
            }
        }
    }

    #[test]
    fn requests_respect_the_rules_when_orders_change(
        script in any_script(0.1, true),
        events in proptest::collection::vec(any_event(), 1..4),
    ) {
        let mut script = script;
        script.events.extend(events);
        script.events.sort_by_key(|(at, _)| *at);
        script.run();
    }

    /// With a responsive server, each pod that stops in time is gone at the deadline.
    #[test]
    fn drain_removes_all_pods_when_the_server_responds(script in any_script(0.0, false)) {
        let Some(deadline) = script.deadline else { return Ok(()) };
        let rules = script.rules.clone();
        let client = script.run();
        for held in client.server.pods.values().filter(|held| held.goes() && held.pod.owner_kind.is_some()) {
            // Time for two round trips and a list before the end, and one second for the pod.
            let late = held.from + Duration::from_secs(4) > deadline - rules.reserve;
            assert!(late || held.gone.is_some_and(|gone| gone <= deadline), "{held:?}");
        }
    }

    /// A free disruption of a budget is found soon, through any of its pods, so no pod is forced that could be evicted.
    #[test]
    fn drain_uses_free_disruptions_within_1500_milliseconds(script in any_script(0.0, false)) {
        let mut script = script;
        script.rules.lead = Duration::ZERO;
        script.server.pods.retain(|_, held| held.goes() && !held.pod.critical && held.pod.deletion.is_none());
        for budget in &mut script.server.budgets {
            budget.retry_after = None;
        }
        let client = script.run();
        assert!(client.idle <= Duration::from_millis(1500), "{:?}", client.idle);
    }

    /// Without budgets the drain ends together with its slowest pod.
    #[test]
    fn drain_ends_with_its_slowest_pod_when_no_budget_exists(script in any_script(0.0, false)) {
        let mut script = script;
        script.rules.lead = Duration::ZERO;
        script.server.pods.retain(|_, held| {
            let new = held.from == T0 && held.pod.deletion.is_none();
            new && held.goes() && !held.pod.critical && held.pod.grace_seconds < 100
        });
        for held in script.server.pods.values_mut() {
            held.budgets.clear();
        }
        let latency = script.server.latency;
        let client = script.run();
        let slowest = client.server.pods.values().filter_map(|held| held.gone).max().unwrap_or(T0);
        let last_asked = client.log.iter().map(|(at, _)| *at).max().unwrap_or(T0);
        assert!(client.done.is_some_and(|done| done <= slowest.max(last_asked) + latency * 4), "{:?}", client.done);
        let evictions = client.server.pods.values().filter_map(|held| held.ended);
        for (ended, _) in evictions {
            assert!(ended <= T0 + latency * 4, "asked only {:?} after the beginning", ended.since(T0));
        }
    }

    #[test]
    fn drain_evicts_thirty_pods_within_a_budget_of_one_in_time(
        graces in proptest::collection::vec(1_u64..30, 30),
        heals in 100_u64..1500,
        latency in 1_u64..80,
        kills in proptest::collection::vec(0.0_f64..60.0, 0..2),
        seed in any::<u64>(),
    ) {
        let budget = Budget { most: 1, heals_in: Duration::from_millis(heals), retry_after: None, disrupted: vec![], peak: 0 };
        let pods = graces.into_iter().map(|grace| (plain("", grace), Some(50), 0, 0));
        let server = Server {
            pods: pods.enumerate().map(held).collect(),
            budgets: vec![budget],
            latency: Duration::from_millis(latency),
            ..Server::default()
        };
        let events = kills.into_iter().map(|moment| (at(moment), Event::Kill)).collect();
        let script = Script { server, rules: Settings::for_machine(seed), deadline: Some(T0 + SPOT), events };
        let client = script.run();
        assert_eq!(client.drain.report(T0 + SPOT).running, Vec::<String>::new());
        assert!(client.server.pods.values().all(|held| held.ended.is_some_and(|(_, forced)| !forced)));
        assert_eq!(client.server.budgets[0].peak, 1, "the budget was never violated");
        assert!(client.done.is_some_and(|done| done < T0 + SPOT - Duration::from_secs(10)), "{:?}", client.done);
    }
}

#[test]
fn drain_forces_a_hanging_pod_once_and_reports_its_budget() {
    let pods = [held((0, (plain("", 20), None, 0, 0))), held((1, (plain("", 5), Some(100), 9, 0)))];
    let budget = Budget { most: 0, heals_in: Duration::ZERO, retry_after: None, disrupted: vec![], peak: 0 };
    let latency = Duration::from_millis(10);
    let server = Server { pods: pods.into(), budgets: vec![budget], latency, ..Server::default() };
    let script = Script { server, rules: Settings::for_machine(1), deadline: Some(T0 + SPOT), events: vec![] };
    let client = script.run();
    let report = client.drain.report(T0 + SPOT);
    assert_eq!((report.evicted, report.forced), (1, 1));
    assert_eq!(report.blocked.into_iter().collect::<Vec<_>>(), [("default/pdb-0".to_owned(), 1)]);
    assert_eq!(client.outcome("uid-000"), Some(PodOutcome::Forced));
    let forced = client.log.iter().filter(|(_, action)| matches!(action, drain::Action::Delete { .. })).count();
    assert_eq!(forced, 1);
    assert_ne!(client.outcome("uid-001"), Some(PodOutcome::Left(Skip::Deadline)));
}
