//! Validity of cached plans.

use std::sync::Arc;

use super::{LONGEST, PlanCache};
use crate::{
    BoundPod, CommandCause, CommandReason, DisruptedNode, Disruption, Launch, MicroDollars, Millis, Node, NodeVerdict,
    Plan, PlannedCommand, Pod, PodShape, PodVerdict, Policy, Pool, Purpose, Report, Resources, Snapshot, Unhealthy,
};

const NOW: i64 = 1_000_000;

fn snapshot(node: Node) -> Snapshot {
    let disruption = Disruption { consolidate_after: Some(30_000), ..Disruption::default() };
    let pool = Pool { name: "default".to_owned(), disruption, ..Pool::default() };
    Snapshot { now: Millis(NOW), pools: vec![pool], nodes: vec![Arc::new(node)], ..Snapshot::default() }
}

fn node() -> Node {
    Node { name: "node".to_owned(), pool: Some("default".to_owned()), ..Node::default() }
}

fn reported(pods: Vec<PodVerdict>, nodes: Vec<NodeVerdict>) -> Plan {
    let nodes = nodes.into_iter().map(|verdict| ("node".to_owned(), verdict)).collect();
    Plan { report: Report { pods, nodes, ..Report::default() }, ..Plan::default() }
}

fn rest(snapshot: &Snapshot) -> PlanCache {
    PlanCache::new(snapshot, &Plan::default()).unwrap()
}

#[test]
fn new_returns_none_when_the_plan_has_actions() {
    let planned = PlannedCommand {
        reason: CommandReason::Empty,
        nodes: vec![DisruptedNode { node: "node".to_owned(), claim: "claim".to_owned() }],
        replacements: Vec::new(),
        pods: Vec::new(),
        saving: None,
        cost: 0,
        why: CommandCause::NothingRuns,
    };
    let launch = Launch {
        pool: "default".to_owned(),
        requirements: Vec::new(),
        instance_types: Arc::default(),
        requests: Resources::default(),
        min_instance_types: None,
        pods: Vec::new(),
        price: MicroDollars(1),
        commitment: None,
        purpose: Purpose::Provision,
        min_values_relaxed: false,
    };
    let left_out = NodeVerdict::LeftOut { reason: CommandReason::Empty, finding: String::new() };
    let rows = [
        ("a launch", Plan { launches: vec![launch], ..Plan::default() }),
        ("a move", Plan { moves: vec![planned], ..Plan::default() }),
        ("a pod whose turn never came", reported(vec![PodVerdict::Postponed], vec![])),
        ("a node whose turn never came", reported(vec![], vec![NodeVerdict::Postponed])),
        ("a move that was left out", reported(vec![], vec![left_out])),
    ];
    for (what, plan) in rows {
        assert!(PlanCache::new(&snapshot(node()), &plan).is_none(), "{what}");
    }
    let nothing = reported(vec![PodVerdict::Unschedulable { pools: Vec::new().into() }], vec![NodeVerdict::Static]);
    assert!(PlanCache::new(&snapshot(node()), &nothing).is_some());
}

#[test]
fn until_is_the_first_moment_when_time_changes_a_decision() {
    let at = |millis: i64| Some(Millis(NOW + millis));
    // Works for 1 min 40 s by the clock's minutes; its work counts in doublings.
    let works = BoundPod { works_since: at(-100_000), ..BoundPod::default() };
    let unhealthy = Unhealthy { due: Millis(NOW + 7), condition: "Ready".to_owned() };
    let rows = [
        ("nothing ahead", node(), LONGEST),
        ("expires", Node { expires: at(5), ..node() }, 5),
        ("expired already", Node { expires: at(0), ..node() }, LONGEST),
        ("pods may still come", Node { nominated_until: at(6), ..node() }, 6),
        ("a pod has worked for two minutes", Node { pods: vec![works], ..node() }, 20_000),
        ("is given up", Node { unhealthy: Some(unhealthy), ..node() }, 7),
        (
            "stands for longer",
            Node { claim: Some("claim".to_owned()), created: Millis(NOW - 100_000), ..node() },
            20_000,
        ),
        ("is quiet for long enough", Node { quiet_since: at(-29_991), ..node() }, 9),
        ("the first of two", Node { expires: at(5), nominated_until: at(4), ..node() }, 4),
    ];
    for (what, node, remaining) in rows {
        let seen = snapshot(node);
        let rest = rest(&seen);
        assert_eq!(rest.until(), Millis(NOW + remaining), "{what}");
        let when = |millis: i64| Snapshot { now: Millis(NOW + millis), seed: 7, ..seen.clone() };
        assert!(rest.is_valid(&seen, &when(remaining - 1)), "{what}");
        assert!(!rest.is_valid(&seen, &when(remaining)), "{what}");
        assert!(!rest.is_valid(&seen, &when(-1)), "{what}: a clock that was set back");
    }
}

#[test]
fn until_is_the_end_of_a_workload_disruption_interval() {
    let resting = [("Deployment shop/web".to_owned(), Millis(NOW + 8)), ("gone".to_owned(), Millis(NOW - 8))];
    let seen = Snapshot { resting: resting.into(), ..snapshot(node()) };
    assert_eq!(rest(&seen).until(), Millis(NOW + 8));
}

#[test]
fn until_is_the_next_rotation_when_nodes_wait_for_it() {
    let by_turns = reported(vec![], vec![NodeVerdict::Static, NodeVerdict::ByTurns { pods: 1 }]);
    let rest = PlanCache::new(&snapshot(node()), &by_turns).unwrap();
    assert_eq!(rest.until(), Millis(1_020_000), "turns are half minutes of the clock");
}

/// Name of a change, and the change.
type Change = (&'static str, fn(&mut Snapshot));

#[test]
fn is_valid_returns_false_when_any_input_changes() {
    let seen = snapshot(node());
    let rest = rest(&seen);
    let changes: [Change; 10] = [
        ("a node", |it| it.nodes.push(Arc::new(Node::default()))),
        ("what a node is", |it| Arc::make_mut(&mut it.nodes[0]).unschedulable = true),
        ("a pod", |it| it.pods.push(Pod::default())),
        ("a pool", |it| it.pools[0].disruption.budgets.empty += 1),
        ("a shape", |it| it.shapes.push(Arc::new(PodShape::default()))),
        ("a catalogue", |it| it.catalogues.push(Arc::default())),
        ("a policy", |it| it.policy = Policy { max_steps: 1, ..Policy::default() }),
        ("a namespace", |it| drop(it.namespaces.insert("web".to_owned(), [].into()))),
        ("a workload that rests", |it| it.resting.extend([("web".to_owned(), Millis(NOW))])),
        ("a claim of one pod", |it| it.single_claims.extend(["web/data".to_owned()])),
    ];
    for (what, change) in changes {
        let mut after = seen.clone();
        change(&mut after);
        assert!(!rest.is_valid(&seen, &after), "{what}");
    }
    // A new snapshot of the same cluster has other pointers to equal values.
    let again = Snapshot { nodes: vec![Arc::new(node())], seed: 3, ..seen.clone() };
    assert!(rest.is_valid(&seen, &again));
}
