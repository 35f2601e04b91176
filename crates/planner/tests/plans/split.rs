//! Validation of workloads that are split over on-demand and spot: valid plans with one violation in each case.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    BoundPod, CapacitySplit, CapacityType, Catalogue, CommandCause, CommandReason, Destination, InstanceType,
    MicroDollars, Node, Offering, Plan, PlannedCommand, Pod, PodShape, PodVerdict, Policy, Pool, Preference,
    Relocation, Resources, Snapshot, Stage, check, label, plan,
};

use crate::clusters::amounts;

fn mix() -> Option<Arc<CapacitySplit>> {
    let name = "n/web".to_owned();
    Some(Arc::new(CapacitySplit { workload: name.clone(), owner: name, on_demand_base: 2, spot_share: Some(50) }))
}

fn kind() -> InstanceType {
    let offering = |capacity_type, price| Offering {
        zone: "a".to_owned(),
        capacity_type,
        price: MicroDollars(price),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    InstanceType {
        name: "m.large".to_owned(),
        capacity: amounts(2000, 8, 10),
        allocatable: amounts(2000, 8, 10),
        offerings: vec![offering(CapacityType::OnDemand, 10), offering(CapacityType::Spot, 4)],
        ..InstanceType::default()
    }
}

fn node(name: &str, capacity_type: &str) -> Node {
    let labels = [(label::CAPACITY_TYPE, capacity_type), (label::ZONE, "a"), (label::INSTANCE_TYPE, "m.large")];
    Node {
        name: name.to_owned(),
        claim: Some(format!("{name}-claim")),
        pool: Some("pool".to_owned()),
        stage: Stage::Initialized,
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        allocatable: amounts(2000, 8, 10),
        ..Node::default()
    }
}

/// Creates seven pods with a base of two and a share of a half. One pod of the base runs and one is pending; three of the
/// others are on-demand and two on spot.
fn example() -> Snapshot {
    let shape = Arc::new(PodShape { requests: amounts(1000, 1, 1), namespace: "n".to_owned(), ..PodShape::default() });
    let mut od = node("od", "on-demand");
    let uid = "n/there".to_owned();
    od.pods.push(BoundPod {
        name: uid.clone(),
        uid,
        reschedulable: true,
        shape: Arc::clone(&shape),
        mix: mix(),
        ..BoundPod::default()
    });
    od.used = amounts(1000, 1, 1);
    od.allocatable.set(Resources::CPU, 1000);
    let pod = |number: usize| {
        let name = format!("n/web-{number}");
        Pod { uid: name.clone(), name, mix: mix(), ..Pod::default() }
    };
    let well_known = [label::ZONE, label::CAPACITY_TYPE, label::INSTANCE_TYPE].map(str::to_owned);
    Snapshot {
        policy: Policy { well_known: well_known.into(), least_spot_types: 0, ..Policy::default() },
        pools: vec![Pool { name: "pool".to_owned(), ..Pool::default() }],
        catalogues: vec![Arc::new(Catalogue { name: "class".to_owned(), types: vec![kind()], ..Catalogue::default() })],
        nodes: vec![Arc::new(od), Arc::new(Node { allocatable: Resources::default(), ..node("spot", "spot") })],
        shapes: vec![shape],
        pods: (0..6).map(pod).collect(),
        ..Snapshot::default()
    }
}

/// Changes the capacity types of this pod's launch.
fn buy(plan: &mut Plan, pod: usize, capacity_types: &[&str]) {
    let PodVerdict::Launch { launch, .. } = plan.report.pods[pod] else { panic!("{:?}", plan.report.pods[pod]) };
    let asked = plan.launches[launch].requirements.iter_mut().find(|it| it.key == label::CAPACITY_TYPE).unwrap();
    asked.values = capacity_types.iter().map(|it| (*it).to_owned()).collect();
}

fn take_to(plan: &mut Plan, to: Destination) {
    let name = || "n/there".to_owned();
    let pod = Relocation { uid: name(), pod: name(), from: "od".to_owned(), to, surge: false };
    plan.moves.push(PlannedCommand {
        reason: CommandReason::Underutilized,
        nodes: Vec::new(),
        replacements: Vec::new(),
        pods: vec![pod],
        saving: None,
        cost: 0,
        why: CommandCause::Cheaper,
    });
}

fn spot_launch(plan: &Plan) -> usize {
    let PodVerdict::Launch { launch, .. } = plan.report.pods[5] else { panic!("{:?}", plan.report.pods[5]) };
    launch
}

type Mutation = fn(&mut Snapshot, &mut Plan);

const ROWS: [(&str, Mutation); 8] = [
    ("pods may go to spot, 1 are of the base", |_, plan| (0..6).for_each(|pod| buy(plan, pod, &["spot"]))),
    ("pods may go to spot, 1 are of the base", |_, plan| (0..6).for_each(|pod| buy(plan, pod, &["spot", "on-demand"]))),
    ("pods may go to spot, 2 by the share", |_, plan| buy(plan, 2, &["spot"])),
    ("pods may miss spot, 4 by the share", |_, plan| buy(plan, 5, &["on-demand"])),
    ("pods may miss spot, 4 by the share", |_, plan| buy(plan, 5, &["spot", "on-demand"])),
    ("moves leave 0 of 1 pods on demand", |_, plan| take_to(plan, Destination::Node("spot".to_owned()))),
    ("moves leave 0 of 1 pods on demand", |_, plan| {
        let to = Destination::Launch(spot_launch(plan));
        take_to(plan, to);
    }),
    ("may go to spot", |snapshot, _| drop(Arc::make_mut(&mut snapshot.nodes[0]).labels.remove(label::CAPACITY_TYPE))),
];

#[test]
fn check_reports_each_violation_of_a_capacity_split() {
    let good = example();
    let decided = plan(&good);
    assert_eq!(check(&good, &decided), []);
    for (row, (part, mutate)) in ROWS.iter().enumerate() {
        let (mut snapshot, mut invalid) = (good.clone(), decided.clone());
        mutate(&mut snapshot, &mut invalid);
        let found: Vec<String> = check(&snapshot, &invalid).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|it| it.contains(part)), "row {row}, {part}: {found:#?}");
    }
}

#[test]
fn check_allows_a_split_deviation_when_it_is_reported() {
    let snapshot = example();
    let mut decided = plan(&snapshot);
    buy(&mut decided, 5, &["on-demand"]);
    for pod in decided.launches[spot_launch(&decided)].pods.clone() {
        if let PodVerdict::Launch { dropped, .. } = &mut decided.report.pods[pod] {
            dropped.push(Preference::Share { of: CapacityType::Spot });
        }
    }
    assert!(!check(&snapshot, &decided).iter().any(|it| it.subject == "workload n/web"));
}
