//! Validation of plans: valid plans with one violation in each case.

use std::sync::Arc;

use planner::{
    Budgets, DisruptedNode, Disruption, Effect, Leaving, MicroDollars, Millis, Node, Operator, PlannedCommand,
    PodShape, PodVerdict, Pool, Requirement, Resources, Snapshot, Stage, Taint, check, label, plan,
};

use super::{Mutation, assert_findings, large};

/// Creates ten pods over ten types, one empty node that is removed and one that is too full to be removed.
fn cluster() -> Snapshot {
    let mut snapshot = large::large(10, 10);
    let kind = snapshot.catalogues[0].types[0].clone();
    let pool: &mut Pool = &mut snapshot.pools[0];
    pool.disruption = Disruption {
        consolidate_after: Some(1000),
        budgets: Budgets { empty: 1, ..Budgets::NONE },
        ..Disruption::default()
    };
    let node = |name: &str| Node {
        name: name.to_owned(),
        claim: Some(format!("{name}-claim")),
        pool: Some("pool-0".to_owned()),
        stage: Stage::Initialized,
        allocatable: kind.allocatable.clone(),
        quiet_since: Some(Millis(0)),
        price: Some(MicroDollars(7)),
        ..Node::default()
    };
    // The idle node has no capacity for pods.
    let idle = Node { allocatable: Resources::default(), ..node("idle") };
    snapshot.nodes = vec![Arc::new(node("busy")), Arc::new(idle)];
    snapshot
}

/// Rows: a part of the expected finding, and the change of a valid plan.
const ROWS: [(&str, Mutation); 28] = [
    ("has 2 places", |_, plan| {
        let pod = plan.launches[0].pods[0];
        plan.launches[1].pods.push(pod);
    }),
    ("is not in the snapshot", |_, plan| plan.launches[0].pods.push(99)),
    ("verdicts for", |_, plan| plan.report.pods.truncate(3)),
    ("the verdict says", |_, plan| plan.report.pods[0] = PodVerdict::Postponed),
    ("lacks cpu", |snapshot, _| Arc::make_mut(&mut snapshot.shapes[4]).requests.set(Resources::CPU, 90_000)),
    ("memory 19536 of", |_, plan| {
        Arc::make_mut(&mut plan.launches[0].instance_types).insert(0, "family-000.02".to_owned())
    }),
    ("is not in the pool's catalogue", |_, plan| {
        Arc::make_mut(&mut plan.launches[0].instance_types).push("other.large".to_owned())
    }),
    ("lists a type twice", |_, plan| {
        let first = plan.launches[0].instance_types[0].clone();
        Arc::make_mut(&mut plan.launches[0].instance_types).insert(0, first);
    }),
    ("lists more than 2 types", |snapshot, _| snapshot.policy.max_instance_types = 2),
    ("lists no types", |_, plan| Arc::make_mut(&mut plan.launches[0].instance_types).clear()),
    ("types are not cheapest first", |_, plan| Arc::make_mut(&mut plan.launches[0].instance_types).reverse()),
    ("lists bare-metal or accelerated types beside", |snapshot, plan| {
        let first = &plan.launches[0].instance_types[0];
        let types = &mut Arc::make_mut(&mut snapshot.catalogues[0]).types;
        let kinds = types.iter_mut().filter(|kind| kind.name == *first);
        kinds.for_each(|kind| drop(kind.labels.insert(label::INSTANCE_GPU_COUNT.to_owned(), vec!["1".to_owned()])));
    }),
    ("the cheapest is", |_, plan| plan.launches[0].price.0 -= 1),
    ("does not bear taint", |snapshot, _| {
        let taint = Taint { key: "k".to_owned(), value: String::new(), effect: Effect::NoSchedule };
        snapshot.pools[0].taints.push(taint);
    }),
    ("cannot be had as required", |_, plan| {
        plan.launches[0].requirements.push(Requirement::new(label::ZONE, Operator::In, ["nowhere"]));
    }),
    ("allows no value of", |_, plan| {
        plan.launches[0].requirements.push(Requirement::new("team", Operator::In, ["a"]));
        plan.launches[0].requirements.push(Requirement::new("team", Operator::In, ["b"]));
    }),
    ("names a host or types", |_, plan| {
        plan.launches[0].requirements.push(Requirement::new(label::HOSTNAME, Operator::Exists, [""; 0]));
    }),
    ("cpu may reach", |snapshot, _| {
        snapshot.pools[0].limits = Some(Resources::from_iter([(Resources::CPU, 8000)]));
    }),
    ("nodes may reach", |snapshot, _| {
        snapshot.pools[0].limits = Some(Resources::from_iter([(Resources::NODES, 1)]));
    }),
    ("is overfull", |snapshot, _| Arc::make_mut(&mut snapshot.nodes[0]).used.set(Resources::CPU, 1900)),
    ("is leaving and gets pods", |snapshot, _| Arc::make_mut(&mut snapshot.nodes[0]).leaving = Some(Leaving::Deleting)),
    ("is cordoned and gets pods", |snapshot, _| Arc::make_mut(&mut snapshot.nodes[0]).unschedulable = true),
    ("its budget for Empty is 0", |snapshot, _| snapshot.pools[0].disruption.budgets.empty = 0),
    ("goes while pods are sent there", |_, plan| {
        let claim = "busy-claim".to_owned();
        let saving = Some(MicroDollars(7));
        let leaver = DisruptedNode { node: "busy".to_owned(), claim };
        plan.moves = vec![PlannedCommand { nodes: vec![leaver], saving, ..plan.moves[0].clone() }];
    }),
    ("goes for a reason that it has not", |snapshot, _| {
        Arc::make_mut(&mut snapshot.nodes[1]).quiet_since = Some(snapshot.now)
    }),
    ("goes against do-not-disrupt", |snapshot, _| Arc::make_mut(&mut snapshot.nodes[1]).do_not_disrupt = true),
    ("saves Some(7), and says None", |_, plan| plan.moves[0].saving = None),
    ("leaves only", |snapshot, plan| {
        let asked = Requirement::new(label::ZONE, Operator::Exists, [""; 0]);
        snapshot.pools[0].requirements.push(Requirement { min_values: Some(3), ..asked });
        plan.launches.truncate(9);
    }),
];

#[test]
fn check_reports_nothing_for_the_unchanged_plan() {
    let snapshot = cluster();
    let decided = plan(&snapshot);
    assert_eq!(check(&snapshot, &decided), Vec::new());
    assert!(decided.launches.len() >= 2 && !decided.nominations.is_empty() && decided.moves.len() == 1);
}

#[test]
fn check_reports_each_violation() {
    assert_findings(&ROWS, cluster);
}

#[test]
fn check_counts_daemon_overhead_on_nodes_and_launches() {
    let snapshot = cluster();
    let decided = plan(&snapshot);
    let mut heavier = snapshot.clone();
    let shape = PodShape::clone(&heavier.shapes[4]);
    heavier.daemons = vec![planner::Daemon { name: "kube-system/agent".to_owned(), shape }];
    let findings: Vec<String> = check(&heavier, &decided).iter().map(ToString::to_string).collect();
    assert!(findings.iter().any(|it| it.starts_with("launch") && it.contains("lacks")), "{findings:#?}");
    assert!(findings.iter().any(|it| it.starts_with("node busy") && it.contains("overfull")), "{findings:#?}");
}

#[test]
fn check_reports_launches_when_offerings_are_unavailable() {
    let mut snapshot = cluster();
    let decided = plan(&snapshot);
    let catalogue = Arc::get_mut(&mut snapshot.catalogues[0]).unwrap();
    catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings).for_each(|it| it.available = false);
    let findings = check(&snapshot, &decided);
    assert!(findings.iter().any(|it| it.fault.contains("cannot be had as required")), "{findings:#?}");
}
