//! Properties of in-place resizes: requests never exceed the original ones, never fall below the floor, and never exceed the
//! node. Nothing changes without a report, and the changes end after a few rounds.
//!
//! The default number of cases is small; `PROPTEST_CASES` sets another one.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    BoundPod, Budgets, CapacityType, Catalogue, ContainerSize, Disruption, InstanceType, MicroDollars, Millis, Node,
    NotResizable, Offering, Packing, Plan, PodShape, PodUtilization, Pool, Pressure, ResizeReason, Resources,
    RestoredRequests, Size, Sizing, Snapshot, Usage, Utilization, check, fitting, label, plan, resized,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use proptest::{collection, option, sample};

const NOW: Millis = Millis(1_000_000_000);
const HOUR: i64 = 3_600_000;
const MIB: i64 = 1 << 20;
const NODE: Size = Size { cpu: 4000, memory: 8192 * MIB };
/// Rounds after which nothing changes any more: each pod is lowered at most once.
const ROUNDS: usize = 6;

fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let (cases, rng_seed) = if asked { (usual.cases, usual.rng_seed) } else { (256, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..usual }
}

fn size(cpu: i64, memory: i64) -> impl Strategy<Value = Size> {
    (10..=cpu, 10..=memory).prop_map(|(cpu, mebibytes)| Size { cpu, memory: mebibytes * MIB })
}

fn container() -> impl Strategy<Value = ContainerSize> {
    let lowered = prop_oneof![3 => Just((1000, 1000)), 1 => (300i64..=1000, 300i64..=1000)];
    (size(1500, 2000), lowered, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |(requested, (cpu, memory), restarts_for_cpu, restarts_for_memory)| {
            let part =
                |amount: i64, part: i64, restarts: bool| if restarts { amount } else { (amount * part / 1000).max(1) };
            let requests = Size {
                cpu: part(requested.cpu, cpu, restarts_for_cpu),
                memory: part(requested.memory, memory, restarts_for_memory),
            };
            ContainerSize { name: String::new(), requested, requests, restarts_for_cpu, restarts_for_memory }
        },
    )
}

fn used() -> impl Strategy<Value = PodUtilization> {
    (size(1200, 1500), 0i64..=1000, prop_oneof![1 => 0u32..24, 4 => Just(48u32)], prop::bool::weighted(0.05)).prop_map(
        |(p95, part, hours, pressed)| PodUtilization { median_cpu: p95.cpu * part / 1000, p95, hours, pressed },
    )
}

fn sizing() -> impl Strategy<Value = Sizing> {
    let back = option::weighted(0.1, (0i64..60, 1u32..4));
    let least = prop_oneof![4 => Just(Size::default()), 1 => size(800, 800)];
    let fixed = option::weighted(0.1, sample::select(vec![NotResizable::Never, NotResizable::Daemon]));
    (collection::vec(container(), 1..3), least, fixed, option::weighted(0.9, used()), back).prop_map(
        |(mut containers, least, fixed, used, back)| {
            containers.iter_mut().enumerate().for_each(|(position, it)| it.name = format!("c{position}"));
            let given_back = back.map(|(hours, times)| RestoredRequests { last: Millis(NOW.0 - hours * HOUR), times });
            Sizing { containers, least, fixed, used, given_back }
        },
    )
}

/// Random part of a node: its pods, and its report with or without pressure.
type Draft = (Vec<Sizing>, Option<(Size, bool)>);

fn node() -> impl Strategy<Value = Draft> {
    let report = option::weighted(0.85, (size(2500, 5000), prop::bool::weighted(0.1)));
    (collection::vec(sizing(), 1..5), report)
}

fn packing() -> impl Strategy<Value = Packing> {
    (0u32..500, 10u32..=1000, 1u32..=48).prop_map(|(margin, floor, history)| Packing { margin, floor, history })
}

fn shape(sizing: &Sizing) -> PodShape {
    let mut requests = sizing.requested().max(sizing.least).resources();
    requests.set(Resources::PODS, 1);
    PodShape { requests, namespace: "n".to_owned(), ..PodShape::default() }
}

fn build(position: usize, (sizings, report): Draft) -> Node {
    let mut allocatable = NODE.resources();
    allocatable.set(Resources::PODS, 20);
    let mut node = Node {
        name: format!("node-{position}"),
        claim: Some(format!("claim-{position}")),
        pool: Some("pool".to_owned()),
        allocatable,
        instance_type: Some("large".to_owned()),
        price: Some(MicroDollars(100_000)),
        quiet_since: Some(Millis(0)),
        ..Node::default()
    };
    let labels = [(label::INSTANCE_TYPE, "large"), (label::ZONE, "a"), (label::CAPACITY_TYPE, "on-demand")];
    node.labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let mut of_pods = Size::default();
    for (number, sizing) in sizings.into_iter().enumerate() {
        let taken = sizing.requests().max(sizing.least);
        if !Size::from_resources(&node.used).plus(taken).is_within(NODE) {
            continue;
        }
        of_pods = of_pods.plus(sizing.used.map(|used| used.p95).unwrap_or_default());
        node.used.add(&taken.resources());
        node.used.add(&Resources::from_iter([(Resources::PODS, 1)]));
        let name = format!("n/pod-{position}-{number}");
        let shape = Arc::new(shape(&sizing));
        let used = sizing.used.map(|used| used.p95);
        let sizing = Some(Box::new(sizing));
        let uid = name.clone();
        node.pods.push(BoundPod { uid, name, reschedulable: true, shape, used, sizing, ..BoundPod::default() });
    }
    node.usage = report.map(|(use_of_node, pressed)| Usage {
        cpu: use_of_node.cpu,
        memory: use_of_node.memory,
        pressed: pressed.then_some(Pressure::Memory),
        of_pods,
        newcomers: Size::default(),
    });
    node
}

fn cluster(utilization: Utilization) -> impl Strategy<Value = Snapshot> {
    (collection::vec(node(), 1..5), packing()).prop_map(move |(nodes, packing)| of_nodes(nodes, utilization, packing))
}

fn of_nodes(nodes: Vec<Draft>, utilization: Utilization, packing: Packing) -> Snapshot {
    let nodes: Vec<Arc<Node>> =
        nodes.into_iter().enumerate().map(|(position, it)| Arc::new(build(position, it))).collect();
    let offering = Offering {
        zone: "a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars(100_000),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    let large = InstanceType {
        name: "large".to_owned(),
        capacity: nodes[0].allocatable.clone(),
        allocatable: nodes[0].allocatable.clone(),
        offerings: vec![offering],
        ..InstanceType::default()
    };
    let disruption = Disruption {
        consolidate_after: Some(0),
        budgets: Budgets::UNLIMITED,
        utilization,
        packing,
        ..Disruption::default()
    };
    let running = u32::try_from(nodes.len()).unwrap();
    let pool = Pool { name: "pool".to_owned(), running, disruption, ..Pool::default() };
    let catalogues =
        vec![Arc::new(Catalogue { name: "default".to_owned(), types: vec![large], ..Catalogue::default() })];
    Snapshot { now: NOW, pools: vec![pool], catalogues, nodes, ..Snapshot::default() }
}

fn findings(snapshot: &Snapshot, plan: &Plan) -> String {
    check(snapshot, plan).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Returns the nodes whose pods together request more than the allocatable resources.
fn overfull(snapshot: &Snapshot) -> Vec<&str> {
    let over = |node: &&Arc<Node>| !Size::from_resources(&node.used).is_within(Size::from_resources(&node.allocatable));
    snapshot.nodes.iter().filter(over).map(|node| node.name.as_str()).collect()
}

/// Creates a pod with one container and this CPU usage.
fn one(requested: i64, requests: i64, uses: i64) -> Sizing {
    let size = |cpu| Size { cpu, memory: 100 * MIB };
    let container = ContainerSize {
        name: "main".to_owned(),
        requested: size(requested),
        requests: size(requests),
        ..ContainerSize::default()
    };
    let used = PodUtilization { median_cpu: uses, p95: size(uses), hours: 48, pressed: false };
    Sizing { containers: vec![container], used: Some(used), ..Sizing::default() }
}

/// Returns a cluster of two nodes and its plan, which lowers a pod on the first node so that the second node can be removed.
fn lowered(pressed: bool) -> (Snapshot, Plan) {
    let report = Some((Size { cpu: 600, memory: 200 * MIB }, pressed));
    let (first, second) = (one(2500, if pressed { 1250 } else { 2500 }, 500), one(2000, 2000, 1900));
    let snapshot = of_nodes(vec![(vec![first], report), (vec![second], report)], Utilization::Pack, Packing::default());
    let decided = plan(&snapshot);
    (snapshot, decided)
}

#[test]
fn check_reports_each_invalid_resize() {
    let (snapshot, decided) = lowered(false);
    let changes: Vec<(ResizeReason, Size, Size)> =
        decided.resizes.iter().map(|it| (it.why, it.containers[0].from, it.containers[0].to)).collect();
    let size = |cpu| Size { cpu, memory: 100 * MIB };
    assert_eq!(changes, [(ResizeReason::MakesRoom, size(2500), size(1250))]);
    assert_eq!((findings(&snapshot, &decided), decided.saved_by_usage), (String::new(), MicroDollars(100_000)));
    let (pressed, back) = lowered(true);
    assert_eq!(back.resizes[0].containers[0].to, size(2500));
    assert_eq!(findings(&pressed, &back), "");

    let (mut snapshot, mut decided) = lowered(false);
    let requested = 300 * MIB;
    decided.resizes[0].containers[0].requested.memory = requested;
    let sizing = &mut Arc::make_mut(&mut snapshot.nodes[0]).pods[0].sizing;
    sizing.as_mut().unwrap().containers[0].requested.memory = requested;
    assert_eq!(findings(&snapshot, &decided), "", "what stays may be under a floor that has risen");

    type Mutation = fn(&mut Snapshot, &mut Plan);
    let rows: [(bool, &str, Mutation); 15] = [
        (true, "changes nothing", |_, plan| plan.resizes[0].containers.clear()),
        (true, "and nothing was", |snapshot, _| {
            Arc::make_mut(&mut snapshot.nodes[0]).usage.as_mut().unwrap().pressed = None;
        }),
        (true, "and nothing was", |snapshot, _| {
            let back = Some(RestoredRequests { last: Millis(NOW.0 - 1000), times: 1 });
            Arc::make_mut(&mut snapshot.nodes[0]).pods[0].sizing.as_mut().unwrap().given_back = back;
        }),
        (false, "lowered under the floor", |_, plan| plan.resizes[0].containers[0].to.cpu = 1249),
        (false, "from Size", |_, plan| plan.resizes[0].containers[0].to.cpu = 2600),
        (false, "requests something else", |_, plan| plan.resizes[0].containers[0].from.cpu = 2400),
        (false, "resized 2 times", |_, plan| plan.resizes.push(plan.resizes[0].clone())),
        (false, "does not run on", |_, plan| plan.resizes[0].node = "node-1".to_owned()),
        (false, "without known utilization", |snapshot, _| Arc::make_mut(&mut snapshot.nodes[0]).usage = None),
        (false, "without a history", |snapshot, _| snapshot.pools[0].disruption.packing.history = 49),
        (false, "does not pack", |snapshot, _| snapshot.pools[0].disruption.utilization = Utilization::Observe),
        (false, "short within a day", |snapshot, _| {
            let back = Some(RestoredRequests { last: NOW, times: 1 });
            Arc::make_mut(&mut snapshot.nodes[0]).pods[0].sizing.as_mut().unwrap().given_back = back;
        }),
        (false, "are fixed", |snapshot, _| {
            Arc::make_mut(&mut snapshot.nodes[0]).pods[0].sizing.as_mut().unwrap().fixed = Some(NotResizable::Never);
        }),
        (true, "from Size", |_, plan| plan.resizes[0].containers[0].to.cpu = 2501),
        (true, "has no room for", |snapshot, _| {
            Arc::make_mut(&mut snapshot.nodes[0]).used.set(Resources::CPU, 3000);
        }),
    ];
    for (is_pressed, expected, mutate) in rows {
        let (mut snapshot, mut plan) = lowered(is_pressed);
        mutate(&mut snapshot, &mut plan);
        let found = findings(&snapshot, &plan);
        assert!(found.contains(expected), "{expected}: {found:?}");
    }
}

/// One container was lowered below its share. With both shares the pod would have less than it needs, and be raised again.
#[test]
fn plan_lowers_no_request_that_it_would_raise_again() {
    let report = Some((Size { cpu: 1000, memory: 200 * MIB }, false));
    let mut uneven = one(1500, 1500, 1000);
    uneven.containers.push(ContainerSize { name: "side".to_owned(), ..uneven.containers[0].clone() });
    uneven.containers[0].requests.cpu = 300;
    let pods = vec![(vec![uneven], report), (vec![one(2400, 2400, 500)], report)];
    let mut snapshot = of_nodes(pods, Utilization::Pack, Packing::default());
    for _ in 0..ROUNDS {
        let decided = plan(&snapshot);
        let of_uneven = decided.resizes.iter().filter(|resize| resize.uid == "n/pod-0-0");
        assert_eq!(of_uneven.map(|resize| resize.why).collect::<Vec<_>>(), []);
        snapshot = resized(&snapshot, &decided);
    }
}

#[test]
fn plan_lowers_memory_later_when_cpu_usage_grew() {
    let report = Some((Size { cpu: 2000, memory: 500 * MIB }, false));
    let mut grown = one(2500, 1250, 1500);
    let memory = 6000 * MIB;
    grown.containers[0].requested.memory = memory;
    grown.containers[0].requests.memory = memory;
    let mut other = one(1000, 1000, 900);
    other.containers[0].requested.memory = 4000 * MIB;
    other.containers[0].requests.memory = 4000 * MIB;
    let snapshot = of_nodes(vec![(vec![grown], report), (vec![other], None)], Utilization::Pack, Packing::default());
    let first = plan(&snapshot);
    assert_eq!(findings(&snapshot, &first), "");
    assert_eq!(first.resizes.iter().map(|it| it.why).collect::<Vec<_>>(), [ResizeReason::Grown]);

    let next = plan(&resized(&snapshot, &first));
    let change = |it: &planner::Resize| (it.why, it.containers[0].to);
    let expected = (ResizeReason::MakesRoom, Size { cpu: 1800, memory: 3000 * MIB });
    assert_eq!(next.resizes.iter().map(change).collect::<Vec<_>>(), [expected]);
}

#[test]
fn plan_restores_infeasible_requests_and_waits_for_a_day() {
    let report = Some((Size { cpu: 600, memory: 200 * MIB }, false));
    let refused = Sizing { fixed: Some(NotResizable::Infeasible), ..one(2500, 1250, 500) };
    let mut snapshot = of_nodes(
        vec![(vec![refused], report), (vec![one(2000, 2000, 1900)], report)],
        Utilization::Pack,
        Packing::default(),
    );
    // Kubelet keeps the pod's present requests.
    let kept = |snapshot: &mut Snapshot| Arc::make_mut(&mut snapshot.nodes[0]).used.set(Resources::CPU, 2500);
    kept(&mut snapshot);
    let back = plan(&snapshot);
    let changes: Vec<(ResizeReason, i64, bool)> =
        back.resizes.iter().map(|it| (it.why, it.containers[0].to.cpu, it.marks)).collect();
    assert_eq!((changes, findings(&snapshot, &back)), (vec![(ResizeReason::Unpacked, 2500, true)], String::new()));

    let mut after = resized(&snapshot, &back);
    kept(&mut after);
    Arc::make_mut(&mut after.nodes[0]).pods[0].sizing.as_mut().unwrap().fixed = None;
    assert_eq!(plan(&after).resizes, vec![]);
    after.now = Millis(NOW.0 + 25 * HOUR);
    let again = plan(&after).resizes;
    assert_eq!(again.iter().map(|it| it.containers[0].to.cpu).collect::<Vec<_>>(), [1875]);
}

proptest! {
    #![proptest_config(cases())]

    /// The validation covers the other rules: the floor, the history, fixed requests, the day without lower requests, capacity
    /// for all assigned pods.
    #[test]
    fn plan_keeps_requests_and_nodes_within_their_bounds(snapshot in cluster(Utilization::Pack)) {
        let decided = plan(&snapshot);
        prop_assert_eq!(findings(&snapshot, &decided), "");
        let after = resized(&snapshot, &decided);
        prop_assert_eq!(overfull(&after), Vec::<&str>::new());
        for container in after.nodes.iter().flat_map(|node| &node.pods).flat_map(|pod| &pod.sizing.as_ref().unwrap().containers) {
            prop_assert!(container.requests.is_within(container.requested), "{container:?}");
        }
        for node in &after.nodes {
            let taken = node.pods.iter().map(|pod| pod.sizing.as_ref().unwrap());
            let sum = taken.fold(Size::default(), |sum, it| sum.plus(it.requests().max(it.least)));
            prop_assert_eq!(Size::from_resources(&node.used), sum);
        }
    }

    #[test]
    fn plan_stops_resizing_when_usage_is_constant(snapshot in cluster(Utilization::Pack)) {
        let mut now = snapshot;
        let mut lowered: Vec<String> = Vec::new();
        for _ in 0..ROUNDS {
            let decided = plan(&now);
            for resize in &decided.resizes {
                let down = resize.why == ResizeReason::MakesRoom;
                prop_assert!(down || !lowered.contains(&resize.uid), "{} goes up and down", resize.pod);
                lowered.extend(down.then(|| resize.uid.clone()));
            }
            now = resized(&now, &decided);
        }
        prop_assert_eq!(plan(&now).resizes, vec![]);
    }

    #[test]
    fn plan_resizes_nothing_when_reports_are_missing(mut snapshot in cluster(Utilization::Pack)) {
        for node in &mut snapshot.nodes {
            Arc::make_mut(node).usage = None;
        }
        let up = |resize: &planner::Resize| {
            let pods = snapshot.nodes.iter().flat_map(|node| &node.pods);
            let pod = pods.into_iter().find(|pod| pod.uid == resize.uid).unwrap();
            resize.why == ResizeReason::Unpacked && pod.sizing.as_ref().unwrap().fixed.is_some()
        };
        prop_assert!(plan(&snapshot).resizes.iter().all(up));
    }

    #[test]
    fn plan_only_restores_requests_when_the_pool_observes(snapshot in cluster(Utilization::Observe)) {
        let decided = plan(&snapshot);
        prop_assert_eq!(findings(&snapshot, &decided), "");
        prop_assert!(decided.resizes.iter().all(|resize| resize.why == ResizeReason::Unpacked));
        let unpacked = decided.report.unpacked;
        prop_assert!(unpacked.is_empty(), "{unpacked:?}");
    }

    /// The needed requests are always between the floor and the original request, and a higher usage never reduces them.
    #[test]
    fn fitting_increases_with_usage_between_floor_and_request(own in sizing(), rules in packing(), node in size(3000, 6000), more in size(500, 500)) {
        let usage = Usage { cpu: node.cpu, memory: node.memory, ..Usage::default() };
        let Ok(fits) = fitting(&own, &usage, rules) else { return Ok(()) };
        let used = own.used.unwrap();
        let greater = Sizing { used: Some(PodUtilization { p95: used.p95.plus(more), ..used }), ..own.clone() };
        let fits_greater = fitting(&greater, &usage, rules).unwrap();
        for ((container, fit), greater) in own.containers.iter().zip(&fits).zip(&fits_greater) {
            prop_assert!(fit.is_within(container.requested) && fit.is_within(*greater), "{fit:?} {greater:?}");
            let floor = |amount: i64| amount * i64::from(rules.floor) / 1000;
            let restarts = container.restarts_for_cpu || container.restarts_for_memory;
            prop_assert!(restarts || fit.cpu >= floor(container.requested.cpu));
            prop_assert!(restarts || fit.memory >= floor(container.requested.memory));
        }
    }
}
