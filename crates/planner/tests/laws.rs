//! Laws of every plan under all constraints at once: sound, settled after one pass, complete as far as brute force can
//! tell, never dearer than first-fit, indifferent to order and to strangers.
//!
//! Few cases by default, so that the whole package is tested in seconds; `PROPTEST_CASES` asks for more.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "laws/crowds.rs"]
mod crowds;
#[path = "laws/first_fit.rs"]
mod first_fit;
#[path = "laws/mixed.rs"]
mod mixed;
#[path = "laws/oracle.rs"]
mod oracle;
#[path = "laws/order.rs"]
mod order;
#[path = "laws/outgoing.rs"]
mod outgoing;
#[path = "laws/scattered.rs"]
mod scattered;
#[path = "laws/tiny.rs"]
mod tiny;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::applied;
use crate::clusters;
use crate::clusters::Cluster;
use planner::{
    CommandReason, Effect, Millis, Operator, Plan, PlanCache, Pod, PodShape, PodVerdict, Pool, Requirement, Resources,
    Snapshot, Taint, Toleration, TolerationOperator, check, plan,
};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm, RngSeed, TestRng, TestRunner};
use proptest::{prop_assert, prop_assert_eq, prop_assume};

/// A few cases that are always the same, unless `PROPTEST_CASES` asks for another number: then they are of chance, or
/// follow from `PROPTEST_RNG_SEED`. Failures are kept beside this file.
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

fn findings(snapshot: &Snapshot, plan: &Plan) -> String {
    check(snapshot, plan).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A pool that nobody else may use, and a shape that may use nothing else.
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

/// A pod that tolerates everything could use the strangers' nodes, and who ignores taints counts them as domains.
fn choosy(shape: &mut Arc<PodShape>) {
    let shape = Arc::make_mut(shape);
    shape.tolerations.retain(|it| it.key.is_some());
    shape.spread.iter_mut().for_each(|it| it.honor_taints = true);
}

/// Leaves out what speaks of pods beside the own one, of ports, volumes and labels that only claims decide.
fn alone(shape: &mut Arc<PodShape>) {
    let PodShape { requests, mut selector, mut affinity, tolerations, .. } = PodShape::clone(shape);
    selector.retain(|it| it.key != "team");
    affinity.iter_mut().for_each(|term| term.retain(|it| it.key != "team"));
    *shape = Arc::new(PodShape { requests, selector, affinity, tolerations, ..PodShape::default() });
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_checker_finds_nothing(Cluster(snapshot) in crowds::crowd()) {
        let found = findings(&snapshot, &plan(&snapshot));
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn planning_again_changes_nothing(Cluster(snapshot) in crowds::crowd()) {
        let first = plan(&snapshot);
        // Pods of a static pool's surplus get their places by the next plan.
        prop_assume!(first.moves.iter().all(|it| it.reason != CommandReason::Static));
        let after = applied::to(&snapshot, &first);
        let again = plan(&after);
        prop_assert!(again.launches.is_empty(), "{:#?}\nafter {:#?}", again.launches, first.launches);
        prop_assert!(again.moves.is_empty(), "{:#?}", again.moves);
        let found = findings(&after, &again);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(Cluster(snapshot) in crowds::crowd(), by in any::<u64>()) {
        let other = order::shuffled(&snapshot, by);
        let (told, retold) = (order::canonical(&snapshot, &plan(&snapshot)), order::canonical(&other, &plan(&other)));
        let difference = told.lines().zip(retold.lines()).find(|(one, other)| one != other);
        prop_assert!(told == retold, "{:?}", difference);
    }

    #[test]
    fn a_stranger_never_unplaces_another(Cluster(snapshot) in crowds::crowd(), first in any::<bool>()) {
        let mut before = snapshot;
        before.shapes.iter_mut().for_each(choosy);
        crowds::unreserved(&mut before);
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
    fn a_hopeless_pod_changes_nothing_for_others(Cluster(snapshot) in crowds::crowd()) {
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
    fn a_base_never_goes_to_spot(Cluster(snapshot) in mixed::mixed()) {
        let decided = plan(&snapshot);
        prop_assert_eq!(mixed::broken_promises(&snapshot, &decided), Vec::<String>::new());
        let found = findings(&snapshot, &decided);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn nobody_waits_because_of_a_share(Cluster(snapshot) in mixed::mixed()) {
        let bare = mixed::without_shares(&snapshot);
        let (with, without) = (unplaced(&snapshot, &plan(&snapshot)), unplaced(&bare, &plan(&bare)));
        prop_assert!(with.len() <= without.len(), "{:?} wait, without shares {:?}", with, without);
    }

    #[test]
    fn splits_are_settled_after_one_pass(Cluster(snapshot) in mixed::mixed()) {
        let first = plan(&snapshot);
        prop_assume!(first.moves.iter().all(|it| it.reason != CommandReason::Static));
        let after = applied::to(&snapshot, &first);
        let again = plan(&after);
        prop_assert!(again.launches.is_empty(), "{:#?}\nafter {:#?}", again.launches, first.launches);
        let found = findings(&after, &again);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn the_order_of_split_workloads_does_not_matter(Cluster(snapshot) in mixed::mixed(), by in any::<u64>()) {
        let other = order::shuffled(&snapshot, by);
        let (told, retold) = (order::canonical(&snapshot, &plan(&snapshot)), order::canonical(&other, &plan(&other)));
        let difference = told.lines().zip(retold.lines()).find(|(one, other)| one != other);
        prop_assert!(told == retold, "{:?}", difference);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn whatever_goes_may_go(Cluster(snapshot) in outgoing::outgoing()) {
        let decided = plan(&snapshot);
        let found = findings(&snapshot, &decided);
        prop_assert!(found.is_empty(), "{}", found);
        prop_assert_eq!(outgoing::torn_away(&snapshot, &decided), Vec::<String>::new());
        prop_assert_eq!(outgoing::overdrawn(&snapshot, &decided), Vec::<String>::new());
        prop_assert_eq!(outgoing::dearer(&snapshot, &decided), Vec::<String>::new());
    }

    #[test]
    fn a_cluster_at_rest_stays_so_until_the_moment_that_is_said(Cluster(snapshot) in outgoing::outgoing()) {
        // What there is to do is not what this is about: what is left then rests.
        let budgets = planner::Budgets { empty: 0, underutilized: 0, drifted: 0, expired: 0 };
        let mut snapshot = Snapshot { pods: Vec::new(), ..snapshot };
        snapshot.pools.iter_mut().for_each(|pool| pool.disruption.budgets = budgets);
        let rest = PlanCache::new(&snapshot, &plan(&snapshot));
        prop_assume!(rest.is_some());
        let rest = rest.unwrap();
        let later = Snapshot { now: Millis(rest.until().0 - 1), ..snapshot };
        prop_assert!(rest.is_valid(&later));
        prop_assert!(PlanCache::new(&later, &plan(&later)).is_some());
    }

    #[test]
    fn whoever_moves_can_be_bound_in_the_order_that_is_said(Cluster(snapshot) in outgoing::outgoing()) {
        let (after, done) = outgoing::bound(&snapshot, &plan(&snapshot));
        let found = findings(&after, &done);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn no_move_depends_on_another(Cluster(snapshot) in outgoing::outgoing()) {
        let mut snapshot = snapshot;
        // What a node that goes gives back of its pool's limits, the next move may use.
        snapshot.pools.iter_mut().for_each(|pool| pool.limits = None);
        let decided = plan(&snapshot);
        for position in 0..decided.moves.len() {
            let found = findings(&snapshot, &outgoing::alone(&decided, position));
            prop_assert!(found.is_empty(), "{} of {:#?}", found, decided.moves);
        }
    }

    #[test]
    fn what_goes_is_not_followed_by_more(Cluster(snapshot) in outgoing::outgoing()) {
        let first = plan(&snapshot);
        prop_assume!(!outgoing::strands(&snapshot, &first));
        let after = applied::to(&snapshot, &first);
        let again = plan(&after);
        // What a pool costs in all has changed, and Balanced weighs by that.
        prop_assume!(!again.moves.iter().any(|it| outgoing::is_weighed(&snapshot, it)));
        prop_assert!(again.launches.is_empty(), "{:#?}\nafter {:#?}", again.launches, first);
        prop_assert!(again.moves.is_empty(), "{:#?}\nafter {:#?}", again.moves, first);
        let found = findings(&after, &again);
        prop_assert!(found.is_empty(), "{}", found);
    }

    #[test]
    fn the_order_of_what_may_go_does_not_matter(Cluster(snapshot) in outgoing::outgoing(), by in any::<u64>()) {
        let other = order::shuffled(&snapshot, by);
        let (told, retold) = (order::canonical(&snapshot, &plan(&snapshot)), order::canonical(&other, &plan(&other)));
        let difference = told.lines().zip(retold.lines()).find(|(one, other)| one != other);
        prop_assert!(told == retold, "{:?}", difference);
    }
}

/// The laws of what goes would hold of plans in which nothing does.
#[test]
fn nodes_go_for_every_reason() {
    let mut runner = TestRunner::new_with_rng(cases(1), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut seen: BTreeMap<CommandReason, usize> = BTreeMap::new();
    for _ in 0..600 {
        let Cluster(snapshot) = outgoing::outgoing().new_tree(&mut runner).unwrap().current();
        plan(&snapshot).moves.iter().for_each(|it| *seen.entry(it.reason).or_default() += 1);
    }
    let all = [
        CommandReason::Empty,
        CommandReason::Underutilized,
        CommandReason::Drifted,
        CommandReason::Expired,
        CommandReason::Unhealthy,
        CommandReason::Static,
    ];
    assert!(all.iter().all(|reason| seen.get(reason).is_some_and(|count| *count >= 3)), "{seen:?}");
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn brute_force_finds_no_place_for_what_is_left(Cluster(snapshot) in tiny::tiny()) {
        let decided = plan(&snapshot);
        for pod in 0..snapshot.pods.len() {
            if matches!(decided.report.pods[pod], PodVerdict::Unschedulable { .. }) {
                let place = oracle::place(&snapshot, &decided, pod);
                prop_assert!(place.is_none(), "{} fits: {}", snapshot.pods[pod].name, place.unwrap_or_default());
            }
        }
    }

    #[test]
    fn a_plan_is_never_dearer_than_first_fit(Cluster(snapshot) in crowds::crowd()) {
        let mut snapshot = Snapshot { nodes: Vec::new(), daemons: Vec::new(), ..snapshot };
        snapshot.pods.retain(|pod| pod.buffer.is_none() && pod.leaving_node.is_none());
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
    fn what_is_saved_bears_what_kube_scheduler_leaves_over(Cluster(snapshot) in scattered::sized()) {
        let decided = plan(&snapshot);
        let (over, saving) = scattered::left_over(&snapshot, &decided).unwrap_or_default();
        prop_assert!(over == 0 || saving > scattered::NODE, "{over} pods are left over, and but {saving:?} saved");
    }
}
