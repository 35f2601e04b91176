//! Properties of every plan under all constraints at once. A plan is valid, stable after one pass, complete as far as brute
//! force shows, and never more expensive than first-fit. Input order and unrelated pods do not change a plan.
//!
//! The default number of cases is small, so that the whole package is tested in seconds; `PROPTEST_CASES` sets another one.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "properties/constrained.rs"]
mod constrained;
#[path = "properties/first_fit.rs"]
mod first_fit;
#[path = "properties/mixed.rs"]
mod mixed;
#[path = "properties/oracle.rs"]
mod oracle;
#[path = "properties/order.rs"]
mod order;
#[path = "properties/outgoing.rs"]
mod outgoing;
#[path = "properties/scattered.rs"]
mod scattered;
#[path = "properties/tiny.rs"]
mod tiny;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::applied;
use crate::clusters;
use crate::clusters::Cluster;
use planner::{
    CommandReason, Effect, Launch, Millis, Operator, Plan, PlanCache, Pod, PodShape, PodVerdict, Pool, Requirement,
    Resources, Snapshot, Taint, Toleration, TolerationOperator, check, plan,
};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm, RngSeed, TestRng, TestRunner};
use proptest::{prop_assert, prop_assert_eq, prop_assume};

/// Returns a configuration with few fixed cases. With `PROPTEST_CASES` the number is that one, and the cases are random or
/// follow from `PROPTEST_RNG_SEED`. Failures are stored beside this file.
fn cases(few: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/laws.proptest-regressions");
    ProptestConfig {
        cases: if asked { usual.cases } else { few },
        rng_seed: if asked { usual.rng_seed } else { RngSeed::Fixed(1) },
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..usual
    }
}

fn unplaced(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let pods = snapshot.pods.iter().zip(&plan.report.pods);
    let out = pods.filter(|(_, it)| !matches!(it, PodVerdict::Existing { .. } | PodVerdict::Launch { .. }));
    out.map(|(pod, _)| pod.name.clone()).collect()
}

/// Returns the launches of a plan that the one before it should have made. A pod without a place before may have one now: a
/// removed node is no domain of a spread, and a new node of virtual pods takes other pods, so that these launch again.
fn late_launches<'a>(snapshot: &Snapshot, before: &Plan, plan: &'a Plan) -> Vec<&'a Launch> {
    let waited = |pod: usize| matches!(before.report.pods.get(pod), Some(PodVerdict::Unschedulable { .. }));
    let is_virtual = |pod: &usize| snapshot.pods.get(*pod).is_some_and(|pod| pod.holder.is_some());
    let is_spare = |launch: &Launch| !launch.pods.is_empty() && launch.pods.iter().all(is_virtual);
    let frees = !before.moves.is_empty() || before.launches.iter().any(is_spare);
    let took = (0..before.report.pods.len())
        .any(|pod| waited(pod) && matches!(plan.report.pods[pod], PodVerdict::Existing { .. }));
    let has_cause = |launch: &Launch| launch.pods.iter().any(|pod| waited(*pod)) || took && is_spare(launch);
    plan.launches.iter().filter(|launch| !(frees && has_cause(launch))).collect()
}

fn findings(snapshot: &Snapshot, plan: &Plan) -> String {
    check(snapshot, plan).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Adds a NodePool that no other pod may use, and returns a shape that may use only this one.
fn strangers(snapshot: &mut Snapshot) -> PodShape {
    let taint = Taint { key: "stranger".to_owned(), value: String::new(), effect: Effect::NoSchedule };
    let labels = [("stranger".to_owned(), "yes".to_owned())].into();
    snapshot.pools.push(Pool { name: "strangers".to_owned(), taints: vec![taint], labels, ..Pool::default() });
    let key = Some("stranger".to_owned());
    PodShape {
        requests: Resources::from_iter([(Resources::CPU, 500), (Resources::PODS, 1)]),
        selector: vec![Requirement::new("stranger", Operator::Exists, [""; 0])],
        tolerations: vec![Toleration { key, operator: TolerationOperator::Exists, value: String::new(), effect: None }],
        namespace: "elsewhere".to_owned(),
        ..PodShape::default()
    }
}

/// Restricts a shape: a pod that tolerates everything could use the new NodePool's nodes, and a spread that ignores taints
/// counts them as domains.
fn choosy(shape: &mut Arc<PodShape>) {
    let shape = Arc::make_mut(shape);
    shape.tolerations.retain(|it| it.key.is_some());
    shape.spread.iter_mut().for_each(|it| it.honor_taints = true);
}

/// Removes inter-pod constraints, ports, volumes and labels that only claims decide.
fn alone(shape: &mut Arc<PodShape>) {
    let PodShape { requests, mut selector, mut affinity, tolerations, .. } = PodShape::clone(shape);
    selector.retain(|it| it.key != "team");
    affinity.iter_mut().for_each(|term| term.retain(|it| it.key != "team"));
    *shape = Arc::new(PodShape { requests, selector, affinity, tolerations, ..PodShape::default() });
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn plan_passes_validation(Cluster(snapshot) in constrained::constrained()) {
        let found = findings(&snapshot, &plan(&snapshot));
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn plan_is_empty_when_the_previous_plan_is_applied(Cluster(snapshot) in constrained::constrained()) {
        let first = plan(&snapshot);
        // The next plan places pods of a static NodePool's surplus nodes.
        prop_assume!(first.moves.iter().all(|it| it.reason != CommandReason::Static));
        let after = applied::to(&snapshot, &first);
        let again = plan(&after);
        let late = late_launches(&after, &first, &again);
        prop_assert!(late.is_empty(), "{:#?}\nafter {:#?}", late, first.launches);
        prop_assert!(again.moves.is_empty(), "{:#?}", again.moves);
        let found = findings(&after, &again);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn plan_is_equal_when_the_input_order_differs(Cluster(snapshot) in constrained::constrained(), by in any::<u64>()) {
        let other = order::shuffled(&snapshot, by);
        let (first, second) = (order::canonical(&snapshot, &plan(&snapshot)), order::canonical(&other, &plan(&other)));
        let difference = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        prop_assert!(first == second, "{:?}", difference);
    }

    #[test]
    fn plan_keeps_places_when_an_unrelated_pod_is_added(Cluster(snapshot) in constrained::constrained(), first in any::<bool>()) {
        let mut before = snapshot;
        before.shapes.iter_mut().for_each(choosy);
        constrained::unreserved(&mut before);
        before.shapes.push(Arc::new(PodShape::default()));
        *before.shapes.last_mut().unwrap() = Arc::new(strangers(&mut before));
        let mut after = before.clone();
        let shape = after.shapes.len() - 1;
        let stranger = Pod { uid: "stranger".to_owned(), name: "stranger".to_owned(), shape, ..Pod::default() };
        after.pods.insert(if first { 0 } else { after.pods.len() }, stranger);
        let (out, still_out) = (unplaced(&before, &plan(&before)), unplaced(&after, &plan(&after)));
        let lost: Vec<&String> = still_out.iter().filter(|it| *it != "stranger" && !out.contains(it)).collect();
        prop_assert!(lost.is_empty(), "{:?} had a place", lost);
    }

    #[test]
    fn plan_is_equal_when_an_unschedulable_pod_is_added(Cluster(snapshot) in constrained::constrained()) {
        let mut more = snapshot.clone();
        clusters::giant(&mut more);
        let (before, after) = (plan(&snapshot), plan(&more));
        prop_assert_eq!(&before.launches, &after.launches);
        prop_assert_eq!(&before.nominations, &after.nominations);
        prop_assert_eq!(&before.report.pods[..], &after.report.pods[..snapshot.pods.len()]);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn plan_never_places_the_on_demand_base_on_spot(Cluster(snapshot) in mixed::mixed()) {
        let decided = plan(&snapshot);
        prop_assert_eq!(mixed::broken_promises(&snapshot, &decided), Vec::<String>::new());
        let found = findings(&snapshot, &decided);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn plan_leaves_no_more_pods_pending_with_spot_shares(Cluster(snapshot) in mixed::mixed()) {
        let bare = mixed::without_shares(&snapshot);
        let (with, without) = (unplaced(&snapshot, &plan(&snapshot)), unplaced(&bare, &plan(&bare)));
        prop_assert!(with.len() <= without.len(), "{:?} wait, without shares {:?}", with, without);
    }

    #[test]
    fn plan_launches_nothing_when_a_split_plan_is_applied(Cluster(snapshot) in mixed::mixed()) {
        let first = plan(&snapshot);
        prop_assume!(first.moves.iter().all(|it| it.reason != CommandReason::Static));
        let after = applied::to(&snapshot, &first);
        let again = plan(&after);
        let late = late_launches(&after, &first, &again);
        prop_assert!(late.is_empty(), "{:#?}\nafter {:#?}", late, first.launches);
        let found = findings(&after, &again);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn plan_is_equal_when_the_order_of_split_workloads_differs(Cluster(snapshot) in mixed::mixed(), by in any::<u64>()) {
        let other = order::shuffled(&snapshot, by);
        let (first, second) = (order::canonical(&snapshot, &plan(&snapshot)), order::canonical(&other, &plan(&other)));
        let difference = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        prop_assert!(first == second, "{:?}", difference);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn plan_removes_only_nodes_that_may_be_disrupted(Cluster(snapshot) in outgoing::outgoing()) {
        let decided = plan(&snapshot);
        let found = findings(&snapshot, &decided);
        prop_assert!(found.is_empty(), "{}", found);
        prop_assert_eq!(outgoing::torn_away(&snapshot, &decided), Vec::<String>::new());
        prop_assert_eq!(outgoing::overdrawn(&snapshot, &decided), Vec::<String>::new());
        prop_assert_eq!(outgoing::dearer(&snapshot, &decided), Vec::<String>::new());
    }

    #[test]
    fn plan_cache_is_valid_until_its_stated_time(Cluster(snapshot) in outgoing::outgoing()) {
        // The property is about plans without actions, so budgets and pending pods are removed.
        let budgets = planner::Budgets { empty: 0, underutilized: 0, drifted: 0, expired: 0 };
        let mut snapshot = Snapshot { pods: Vec::new(), ..snapshot };
        snapshot.pools.iter_mut().for_each(|pool| pool.disruption.budgets = budgets);
        let rest = PlanCache::new(&snapshot, &plan(&snapshot));
        prop_assume!(rest.is_some());
        let rest = rest.unwrap();
        let later = Snapshot { now: Millis(rest.until().0 - 1), ..snapshot.clone() };
        prop_assert!(rest.is_valid(&snapshot, &later));
        prop_assert!(PlanCache::new(&later, &plan(&later)).is_some());
    }

    #[test]
    fn plan_order_allows_binding_of_moved_pods(Cluster(snapshot) in outgoing::outgoing()) {
        let (after, done) = outgoing::bound(&snapshot, &plan(&snapshot));
        let found = findings(&after, &done);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn command_passes_validation_without_the_others(Cluster(snapshot) in outgoing::outgoing()) {
        let mut snapshot = snapshot;
        // A command may use the limits that a removed node of another command releases.
        snapshot.pools.iter_mut().for_each(|pool| pool.limits = None);
        let decided = plan(&snapshot);
        for position in 0..decided.moves.len() {
            let found = findings(&snapshot, &outgoing::alone(&decided, position));
            prop_assert!(found.is_empty(), "{} of {:#?}", found, decided.moves);
        }
    }

    #[test]
    fn plan_has_no_commands_when_previous_ones_are_applied(Cluster(snapshot) in outgoing::outgoing()) {
        let first = plan(&snapshot);
        prop_assume!(!outgoing::strands(&snapshot, &first));
        let after = applied::to(&snapshot, &first);
        let again = plan(&after);
        // The total cost of a NodePool has changed, which affects the policy Balanced.
        prop_assume!(!again.moves.iter().any(|it| outgoing::is_weighed(&snapshot, it)));
        let late = late_launches(&after, &first, &again);
        prop_assert!(late.is_empty(), "{:#?}\nafter {:#?}", late, first);
        prop_assert!(again.moves.is_empty(), "{:#?}\nafter {:#?}", again.moves, first);
        let found = findings(&after, &again);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn plan_commands_are_equal_when_the_input_order_differs(Cluster(snapshot) in outgoing::outgoing(), by in any::<u64>()) {
        let other = order::shuffled(&snapshot, by);
        let (first, second) = (order::canonical(&snapshot, &plan(&snapshot)), order::canonical(&other, &plan(&other)));
        let difference = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        prop_assert!(first == second, "{:?}", difference);
    }
}

/// Ensures that the properties of commands are tested with commands for every reason.
#[test]
fn plan_removes_nodes_for_every_reason() {
    let mut runner = TestRunner::new_with_rng(cases(1), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut seen: BTreeMap<CommandReason, usize> = BTreeMap::new();
    for _ in 0..600 {
        let Cluster(snapshot) = outgoing::outgoing().new_tree(&mut runner).unwrap().current();
        plan(&snapshot).moves.iter().for_each(|it| *seen.entry(it.reason).or_default() += 1);
    }
    assert!(CommandReason::ALL.iter().all(|reason| seen.get(reason).is_some_and(|count| *count >= 3)), "{seen:?}");
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn plan_leaves_a_pod_pending_only_when_no_place_exists(Cluster(snapshot) in tiny::tiny()) {
        let decided = plan(&snapshot);
        for pod in 0..snapshot.pods.len() {
            if matches!(decided.report.pods[pod], PodVerdict::Unschedulable { .. }) {
                let place = oracle::place(&snapshot, &decided, pod);
                prop_assert!(place.is_none(), "{} fits: {}", snapshot.pods[pod].name, place.unwrap_or_default());
            }
        }
    }

    #[test]
    fn plan_costs_no_more_than_first_fit(Cluster(snapshot) in constrained::constrained()) {
        let mut snapshot = Snapshot { nodes: Vec::new(), daemons: Vec::new(), ..snapshot };
        snapshot.pods.retain(|pod| pod.holder.is_none() && pod.leaving_node.is_none());
        snapshot.pods.iter_mut().for_each(|pod| pod.claims.clear());
        snapshot.shapes.iter_mut().for_each(alone);
        snapshot.policy.least_spot_types = 0;
        for pool in &mut snapshot.pools {
            (pool.limits, pool.replicas, pool.weight) = (None, None, 0);
            pool.taints.retain(|it| it.effect != Effect::PreferNoSchedule);
            pool.requirements.retain(|it| it.key != "team");
            pool.requirements.iter_mut().for_each(|it| it.min_values = None);
        }
        let types = &mut Arc::make_mut(&mut snapshot.catalogues[0]).types;
        types.iter_mut().for_each(|kind| kind.performance = None);
        types.iter_mut().for_each(|kind| kind.offerings.retain(|it| it.reservation.is_none()));
        let decided = plan(&snapshot);
        let (bins, left) = first_fit::cost(&snapshot);
        let fees = |pool: &str| snapshot.pools.iter().find(|it| it.name == pool).unwrap().node_fee.0;
        let own: i64 = decided.launches.iter().map(|it| it.price.0 + fees(&it.pool)).sum();
        prop_assert_eq!(unplaced(&snapshot, &decided), left);
        prop_assert!(own <= bins, "{} for {:#?}, first-fit pays {}", own, decided.launches, bins);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn plan_savings_exceed_the_cost_of_pods_without_capacity(Cluster(snapshot) in scattered::sized()) {
        let decided = plan(&snapshot);
        let (over, saving) = scattered::left_over(&snapshot, &decided).unwrap_or_default();
        prop_assert!(over == 0 || saving > scattered::NODE, "{over} pods are left over, and but {saving:?} saved");
    }
}
