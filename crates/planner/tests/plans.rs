//! Properties of every plan, tested on small random clusters.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "plans/commitments.rs"]
mod commitments;
#[path = "plans/cost_limits.rs"]
mod cost_limits;
#[path = "plans/findings.rs"]
mod findings;
#[path = "plans/inactive_pools.rs"]
mod inactive_pools;
#[path = "plans/invalid_launches.rs"]
mod invalid_launches;
#[path = "plans/invalid_moves.rs"]
mod invalid_moves;
#[path = "plans/large.rs"]
mod large;
#[path = "plans/pod_groups.rs"]
mod pod_groups;
#[path = "plans/split.rs"]
mod split;

use std::sync::Arc;

use crate::applied;
use crate::canonical::canonical;
use crate::clusters::{Cluster, cluster, giant};
use planner::{
    Launch, PlacementReason, Plan, PodVerdict, Purpose, Resources, Snapshot, UnschedulableReason, check, plan,
};
use proptest::prelude::{ProptestConfig, proptest};
use proptest::{prop_assert, prop_assert_eq};

/// Change of a valid plan, or of its snapshot, that plan validation must find.
type Mutation = fn(&mut Snapshot, &mut Plan);

/// Asserts that each mutation leads to a finding that contains its text.
fn assert_findings(rows: &[(&str, Mutation)], cluster: fn() -> Snapshot) {
    for (expected, mutate) in rows {
        let mut snapshot = cluster();
        let mut decided = plan(&snapshot);
        mutate(&mut snapshot, &mut decided);
        let findings: Vec<String> = check(&snapshot, &decided).iter().map(ToString::to_string).collect();
        assert!(findings.iter().any(|it| it.contains(expected)), "{expected}: found only {findings:#?}");
    }
}

fn shuffled(snapshot: &Snapshot, by: usize) -> Snapshot {
    let mut other = snapshot.clone();
    let offset = |length: usize| if length == 0 { 0 } else { by % length };
    other.pods.rotate_left(offset(snapshot.pods.len()));
    other.nodes.rotate_left(offset(snapshot.nodes.len()));
    other.pools.rotate_left(offset(snapshot.pools.len()));
    other.daemons.reverse();
    other.nodes.reverse();
    other
}

fn unplaced(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let pods = snapshot.pods.iter().zip(&plan.report.pods);
    let out = pods.filter(|(_, it)| !matches!(it, PodVerdict::Existing { .. } | PodVerdict::Launch { .. }));
    out.map(|(pod, _)| pod.name.clone()).collect()
}

fn cost(plan: &Plan) -> i64 {
    plan.launches.iter().map(|launch| launch.price.0).sum()
}

fn only(snapshot: &Snapshot, pod: usize) -> Snapshot {
    let pods = vec![snapshot.pods[pod].clone()];
    Snapshot { pods, nodes: Vec::new(), ..snapshot.clone() }
}

/// Returns launches of one type for one pod, built without the solver, for each of the pod's alternatives.
fn candidate_plans(snapshot: &Snapshot, pod: usize) -> Vec<Plan> {
    let shape = &snapshot.shapes[snapshot.pods[pod].shape];
    let terms = if shape.affinity.is_empty() { vec![Vec::new()] } else { shape.affinity.clone() };
    let mut plans = Vec::new();
    for pool in snapshot.pools.iter().filter(|pool| pool.limits.is_none()) {
        if pool.requirements.iter().any(|it| it.min_values.is_some()) {
            continue;
        }
        for kind in &snapshot.catalogues[pool.catalogue].types {
            for (term, offering) in terms.iter().flat_map(|term| kind.offerings.iter().map(move |it| (term, it))) {
                let all = pool.requirements.iter().chain(&shape.selector).chain(term);
                let launch = Launch {
                    pool: pool.name.clone(),
                    requirements: all.cloned().collect(),
                    instance_types: Arc::new(vec![kind.name.clone()]),
                    requests: Resources::default(),
                    min_instance_types: None,
                    pods: vec![pod],
                    price: offering.price,
                    commitment: None,
                    purpose: Purpose::Provision,
                    min_values_relaxed: false,
                };
                plans.push(Plan { launches: vec![launch], ..Plan::default() });
            }
        }
    }
    plans
}

/// Reports whether a plan for one pod passes validation.
fn passes(alone: &Snapshot, candidate_plans: Plan) -> bool {
    let mut plan = candidate_plans;
    plan.report.pods = vec![PodVerdict::Launch { launch: 0, why: PlacementReason::Opened, dropped: Vec::new() }];
    check(alone, &plan).is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn plan_passes_validation(Cluster(snapshot) in cluster()) {
        let findings = check(&snapshot, &plan(&snapshot));
        prop_assert!(findings.is_empty(), "{:#?}", findings);
    }

    #[test]
    fn plan_is_equal_when_the_input_order_differs(Cluster(snapshot) in cluster(), by in 0usize..20) {
        let other = shuffled(&snapshot, by);
        prop_assert_eq!(canonical(&snapshot, &plan(&snapshot)), canonical(&other, &plan(&other)));
    }

    #[test]
    fn plan_is_empty_when_the_previous_plan_is_applied(Cluster(snapshot) in cluster()) {
        let after = applied::to(&snapshot, &plan(&snapshot));
        let again = plan(&after);
        prop_assert!(again.launches.is_empty(), "{:#?}", again.launches);
        prop_assert!(again.moves.is_empty(), "{:#?}", again.moves);
        let findings = check(&after, &again);
        prop_assert!(findings.is_empty(), "{:#?}", findings);
    }

    #[test]
    fn plan_is_equal_when_an_unschedulable_pod_is_added(Cluster(snapshot) in cluster()) {
        let mut more = snapshot.clone();
        giant(&mut more);
        let (before, after) = (plan(&snapshot), plan(&more));
        prop_assert_eq!(&before.launches, &after.launches);
        prop_assert_eq!(&before.nominations, &after.nominations);
        prop_assert_eq!(&before.moves, &after.moves);
        prop_assert_eq!(&before.report.pods[..], &after.report.pods[..snapshot.pods.len()]);
    }

    #[test]
    fn plan_places_each_pod_that_fits_alone_without_limits(Cluster(snapshot) in cluster()) {
        let mut snapshot = snapshot;
        snapshot.pools.iter_mut().for_each(|pool| pool.limits = None);
        let all = unplaced(&snapshot, &plan(&snapshot));
        for pod in 0..snapshot.pods.len() {
            let name = &snapshot.pods[pod].name;
            let fits_alone = unplaced(&only(&snapshot, pod), &plan(&only(&snapshot, pod))).is_empty();
            prop_assert!(!fits_alone || !all.contains(name), "{} fits alone but not with others", name);
        }
    }

    #[test]
    fn plan_costs_no_more_than_one_node_per_pod(Cluster(snapshot) in cluster()) {
        let mut snapshot = Snapshot { nodes: Vec::new(), ..snapshot };
        snapshot.pools.iter_mut().for_each(|pool| pool.limits = None);
        let separate: i64 = (0..snapshot.pods.len()).map(|pod| cost(&plan(&only(&snapshot, pod)))).sum();
        prop_assert!(cost(&plan(&snapshot)) <= separate);
    }

    #[test]
    fn plan_reports_unschedulable_when_no_type_fits(Cluster(snapshot) in cluster()) {
        // DaemonSet pods on only some nodes of a NodePool count for the whole NodePool, so they are removed here.
        let mut snapshot = snapshot;
        snapshot.daemons.retain(|daemon| daemon.shape.affinity.is_empty() && daemon.shape.selector.is_empty());
        let decided = plan(&snapshot);
        for (pod, verdict) in decided.report.pods.iter().enumerate() {
            let PodVerdict::Unschedulable { pools } = verdict else { continue };
            let is_limit = |miss: &UnschedulableReason| matches!(miss, UnschedulableReason::Limit { .. } | UnschedulableReason::MinValues { .. });
            prop_assert_eq!(pools.len(), snapshot.pools.len());
            for miss in pools.iter().filter(|it| is_limit(&it.miss)) {
                let pool = snapshot.pools.iter().find(|it| it.name == miss.pool).unwrap();
                prop_assert!(pool.limits.is_some() || pool.requirements.iter().any(|it| it.min_values.is_some()));
            }
            let alone = only(&snapshot, pod);
            let mine = |mut plan: Plan| {
                plan.launches[0].pods = vec![0];
                plan
            };
            for candidate in candidate_plans(&snapshot, pod).into_iter().map(mine) {
                let shown = format!("{:?}", candidate.launches);
                prop_assert!(!passes(&alone, candidate), "{} would do for {}", shown, snapshot.pods[pod].name);
            }
        }
    }

    #[test]
    fn types_mismatch_counts_every_type_once(Cluster(snapshot) in cluster()) {
        for verdict in plan(&snapshot).report.pods {
            let PodVerdict::Unschedulable { pools } = verdict else { continue };
            for miss in pools.iter() {
                let UnschedulableReason::Types(types) = &miss.miss else { continue };
                let labels: usize = types.labels.iter().map(|it| it.types).sum();
                let counted: usize = types.small.iter().map(|(_, count)| count).sum();
                prop_assert_eq!(types.total, labels + counted + types.unavailable);
                prop_assert_eq!(types.total, snapshot.catalogues[0].types.len());
            }
        }
    }

    #[test]
    fn plan_passes_validation_when_max_steps_is_small(Cluster(snapshot) in cluster(), steps in 0u64..40) {
        let mut snapshot = snapshot;
        snapshot.policy.max_steps = steps;
        let decided = plan(&snapshot);
        prop_assert!(check(&snapshot, &decided).is_empty());
        if steps == 0 {
            prop_assert!(decided.launches.is_empty());
        }
    }
}

#[test]
fn plan_lists_at_most_600_types_for_1000_pods() {
    let snapshot = large::large(1000, 700);
    let decided = plan(&snapshot);
    assert!(check(&snapshot, &decided).is_empty());
    assert!(decided.launches.len() < 1000, "{} launches", decided.launches.len());
    assert!(decided.launches.iter().all(|launch| launch.instance_types.len() <= 600));
    assert!(decided.launches.iter().any(|launch| launch.instance_types.len() == 600));
    assert!(Arc::strong_count(&snapshot.catalogues[0]) == 1);
}
