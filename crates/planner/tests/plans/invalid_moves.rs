//! Validation of commands: a valid plan that removes nodes, with one violation in each case.

use std::sync::Arc;

use planner::{
    BoundPod, Budgets, CapacityType, Catalogue, CommandReason, Destination, Disruption, DriftCanary, Drifted,
    InstanceType, Leaving, MicroDollars, Millis, Node, Offering, Plan, PodShape, Pool, Pressure, Purpose, Resources,
    Size, Snapshot, Stage, Usage, check, plan,
};

use super::{Mutation, assert_findings};

fn amounts(cpu: i64) -> Resources {
    Resources::from_iter([(Resources::CPU, cpu), (Resources::MEMORY, 1 << 30), (Resources::PODS, 1)])
}

fn kind(name: &str, cpu: i64, price: i64) -> InstanceType {
    let resources = Resources::from_iter([(Resources::CPU, cpu), (Resources::MEMORY, 64 << 30), (Resources::PODS, 20)]);
    InstanceType {
        name: name.to_owned(),
        capacity: resources.clone(),
        allocatable: resources,
        offerings: vec![Offering {
            zone: "a".to_owned(),
            capacity_type: CapacityType::OnDemand,
            price: MicroDollars(price),
            premium: MicroDollars(0),
            available: true,
            labels: [].into(),
            reservation: None,
        }],
        ..InstanceType::default()
    }
}

fn node(name: &str, kind: &InstanceType, pods: &[i64]) -> Node {
    let mut node = Node {
        name: name.to_owned(),
        claim: Some(format!("{name}-claim")),
        pool: Some("pool".to_owned()),
        stage: Stage::Initialized,
        instance_type: Some(kind.name.clone()),
        allocatable: kind.allocatable.clone(),
        quiet_since: Some(Millis(0)),
        price: Some(kind.offerings[0].price),
        ..Node::default()
    };
    for (position, cpu) in pods.iter().enumerate() {
        let name = format!("n/{name}-{position}");
        let shape = Arc::new(PodShape { requests: amounts(*cpu), ..PodShape::default() });
        node.used.add(&shape.requests);
        node.pods.push(BoundPod { uid: name.clone(), name, reschedulable: true, shape, ..BoundPod::default() });
    }
    node
}

/// Creates a cluster in which `spare` is removed, because its pod fits on `full`, and a small node replaces `large`.
fn cluster() -> Snapshot {
    let (small, large) = (kind("small", 4000, 100_000), kind("large", 16_000, 400_000));
    let mut pool = Pool { name: "pool".to_owned(), ..Pool::default() };
    pool.disruption =
        Disruption { consolidate_after: Some(1000), budgets: Budgets::UNLIMITED, ..Disruption::default() };
    let mut full = node("full", &small, &[3000]);
    full.pods[0].cost = 3 * BoundPod::COST;
    let nodes = [full, node("large", &large, &[3900]), node("spare", &small, &[1000])];
    Snapshot {
        now: Millis(1_000_000),
        pools: vec![pool],
        catalogues: vec![Arc::new(Catalogue {
            name: "default".to_owned(),
            types: vec![large, small],
            ..Catalogue::default()
        })],
        nodes: nodes.map(Arc::new).into(),
        ..Snapshot::default()
    }
}

fn of<'s>(snapshot: &'s mut Snapshot, name: &str) -> &'s mut Node {
    Arc::make_mut(snapshot.nodes.iter_mut().find(|node| node.name == name).unwrap())
}

fn reports(node: &mut Node, cpu: i64, pressed: Option<Pressure>) {
    node.usage = Some(Usage { cpu, memory: 1, pressed, ..Usage::default() });
}

/// Lets the first commands replace these drifted nodes, in a NodePool whose canary of one node is not over.
fn drifts(snapshot: &mut Snapshot, plan: &mut Plan, names: &[&str]) {
    snapshot.pools[0].disruption.canary = Some(DriftCanary { nodes: 1, time: 1000 });
    of(snapshot, "full").healthy_since = Some(Millis(999_999));
    for (name, planned) in names.iter().zip(&mut plan.moves) {
        planned.reason = CommandReason::Drifted;
        of(snapshot, name).drifted = Some(Drifted::default());
    }
}

/// Rows: a part of the expected finding, and the change of the valid plan.
const ROWS: [(&str, Mutation); 32] = [
    ("goes for a reason that it has not", |_, plan| plan.moves[0].reason = CommandReason::Drifted),
    ("goes for a reason that it has not", |snapshot, _| {
        snapshot.pools[0].disruption.policy = planner::ConsolidationPolicy::WhenEmpty;
    }),
    ("n/spare-0: is moved to save money while web rests", |snapshot, _| {
        of(snapshot, "spare").pods[0].workload = Some("web".into());
        snapshot.resting.insert("web".to_owned(), Millis(1_000_001));
    }),
    ("n/large-0: is moved to save money while web rests", |snapshot, _| {
        of(snapshot, "spare").pods[0].workload = Some("web".into());
        of(snapshot, "large").pods[0].workload = Some("web".into());
    }),
    ("n/spare-0: is moved to save money while web rests", |snapshot, _| {
        of(snapshot, "spare").pods[0].workload = Some("web".into());
        let mut gone = of(snapshot, "spare").clone();
        (gone.name, gone.leaving, gone.claim) = ("gone".to_owned(), Some(Leaving::Deleting), None);
        snapshot.nodes.push(Arc::new(gone));
    }),
    ("goes for a reason that it has not", |snapshot, _| of(snapshot, "spare").quiet_since = Some(Millis(999_999))),
    ("goes though something holds one of its pods", |snapshot, _| {
        of(snapshot, "spare").pods[0].held_by = vec!["budget".to_owned()];
    }),
    ("goes though something holds one of its pods", |snapshot, _| of(snapshot, "spare").pods[0].do_not_disrupt = true),
    ("goes before it is initialized", |snapshot, _| of(snapshot, "spare").stage = Stage::Registered),
    ("has another claim", |_, plan| plan.moves[0].nodes[0].claim = "x".to_owned()),
    ("is not in the snapshot", |_, plan| plan.moves[0].nodes[0].node = "x".to_owned()),
    ("has places for []", |_, plan| plan.moves[0].pods.clear()),
    ("which is no place for it", |_, plan| plan.moves[0].pods[0].to = Destination::Node("x".to_owned())),
    ("which is no place for it", |snapshot, _| of(snapshot, "full").quiet_since = Some(Millis(999_999))),
    ("sends n/large-0 to a launch of another move", |_, plan| plan.moves[1].replacements.clear()),
    ("by its purpose of 1", |_, plan| plan.moves[1].replacements.clear()),
    ("by its purpose of 0", |_, plan| plan.launches[0].purpose = Purpose::Provision),
    ("has replacements that are not launched", |_, plan| plan.moves[1].replacements.push(7)),
    ("and says Some", |_, plan| plan.moves[1].saving = Some(MicroDollars(1))),
    ("may cost Some(400000) in place of Some(400000)", |_, plan| {
        Arc::make_mut(&mut plan.launches[0].instance_types).push("large".to_owned());
    }),
    ("loses 1 nodes by then, its budget for Underutilized is 0", |snapshot, _| {
        snapshot.pools[0].disruption.budgets.underutilized = 0;
    }),
    ("loses 2 nodes by then, its budget for Underutilized is 1", |snapshot, _| {
        snapshot.pools[0].disruption.budgets.underutilized = 1;
    }),
    ("replaces 1 drifted nodes, its canary allows 0", |snapshot, plan| {
        drifts(snapshot, plan, &["spare"]);
        of(snapshot, "full").healthy_since = None;
    }),
    ("replaces 2 drifted nodes, its canary allows 1", |snapshot, plan| drifts(snapshot, plan, &["spare", "large"])),
    ("is overfull", |snapshot, _| of(snapshot, "full").used.set(Resources::CPU, 3500)),
    ("is busy and goes to save money", |snapshot, _| reports(of(snapshot, "spare"), 3200, None)),
    ("is busy and goes to save money", |snapshot, _| reports(of(snapshot, "spare"), 1, Some(Pressure::Disk))),
    ("gets pods to save money", |snapshot, _| reports(of(snapshot, "full"), 2200, None)),
    ("gets pods to save money", |snapshot, _| reports(of(snapshot, "full"), 1, Some(Pressure::Cpu))),
    ("gets pods to save money", |snapshot, _| {
        reports(of(snapshot, "full"), 400, None);
        of(snapshot, "spare").pods[0].used = Some(Size { cpu: 2800, memory: 0 });
    }),
    ("launch 0: would be busy as small", |snapshot, _| {
        of(snapshot, "large").pods[0].used = Some(Size { cpu: 3200, memory: 0 });
    }),
    ("the verdict says []", |_, plan| plan.report.nodes[1].1 = planner::NodeVerdict::Nominated),
];

#[test]
fn check_reports_nothing_for_the_unchanged_plan() {
    let snapshot = cluster();
    let decided = plan(&snapshot);
    assert_eq!(check(&snapshot, &decided), Vec::new());
    let listed: Vec<(&str, usize, usize)> =
        decided.moves.iter().map(|it| (it.nodes[0].node.as_str(), it.replacements.len(), it.pods.len())).collect();
    assert_eq!(listed, [("spare", 0, 1), ("large", 1, 1)]);
}

#[test]
fn plan_ignores_disruption_intervals_of_terminating_pods() {
    let mut snapshot = cluster();
    snapshot.resting.insert("web".to_owned(), Millis(2_000_000));
    let (name, workload) = ("n/gone".to_owned(), Some("web".into()));
    of(&mut snapshot, "spare").pods.push(BoundPod { name, ending: true, workload, ..BoundPod::default() });
    let planned = plan(&snapshot);
    assert!(planned.moves.iter().flat_map(|it| &it.nodes).any(|leaver| leaver.node == "spare"));
    assert_eq!(check(&snapshot, &planned), Vec::new());
}

/// The usage is a thousandth below the values of the violations.
#[test]
fn check_allows_utilization_below_four_fifths() {
    let rows: [fn(&mut Snapshot); 4] = [
        |snapshot| of(snapshot, "large").pods[0].used = Some(Size { cpu: 3199, memory: 0 }),
        |snapshot| reports(of(snapshot, "spare"), 3199, None),
        |snapshot| reports(of(snapshot, "full"), 2199, None),
        |snapshot| {
            reports(of(snapshot, "full"), 400, None);
            of(snapshot, "spare").pods[0].used = Some(Size { cpu: 2799, memory: 0 });
        },
    ];
    for (row, change) in rows.into_iter().enumerate() {
        let mut snapshot = cluster();
        let decided = plan(&snapshot);
        change(&mut snapshot);
        assert_eq!(check(&snapshot, &decided), Vec::new(), "{row}");
        assert_eq!(plan(&snapshot), decided, "{row}");
    }
}

#[test]
fn check_reports_each_violation_of_a_command() {
    assert_findings(&ROWS, cluster);
}

#[test]
fn checked_keeps_the_first_command_when_the_last_is_invalid() {
    let snapshot = cluster();
    let mut invalid = plan(&snapshot);
    invalid.moves[1].saving = Some(MicroDollars(1));
    let checked = planner::checked(&snapshot, invalid.clone());
    let found: Vec<String> = checked.findings.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["move of large: saves Some(300000), and says Some(1)"]);
    assert_eq!(checked.sound, Some(invalid.with_moves(1, &found[0])));
}

#[test]
fn with_moves_passes_validation_for_each_count() {
    let snapshot = cluster();
    let whole = plan(&snapshot);
    for (count, launches) in [(2, 1), (1, 0), (0, 0)] {
        let part = whole.clone().with_moves(count, "move of large: is too bold");
        assert_eq!((part.moves.len(), part.launches.len()), (count, launches));
        assert_eq!(check(&snapshot, &part), Vec::new());
        let expected = "stays: underutilized, but the plan failed its validation and is made again (move of large: is too \
                    bold)";
        let left_out = part.report.nodes.iter().filter(|(_, verdict)| verdict.to_string() == expected);
        assert_eq!(left_out.count(), 2 - count);
    }
}
