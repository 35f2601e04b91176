//! Laws of every plan under all constraints at once: it is sound, complete as far as brute force can tell, and nobody is in
//! the way of those who have nothing to do with them.
//!
//! Few cases by default, so that the whole package is tested in seconds; `PROPTEST_CASES` asks for more.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "plans/clusters.rs"]
mod clusters;
#[path = "laws/crowds.rs"]
mod crowds;
#[path = "laws/oracle.rs"]
mod oracle;
#[path = "laws/tiny.rs"]
mod tiny;

use std::sync::Arc;

use clusters::Cluster;
use planner::{
    Effect, Operator, Plan, Pod, PodShape, PodVerdict, Pool, Requirement, Resources, Snapshot, Taint, Toleration,
    TolerationOperator, check, plan,
};
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::test_runner::{FileFailurePersistence, RngSeed};
use proptest::{prop_assert, prop_assert_eq};

/// Always the same cases, unless `PROPTEST_CASES` asks for another number: then they are of chance. Failures are kept
/// beside this file.
fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = usual.cases != 256;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/laws.proptest-regressions");
    ProptestConfig {
        rng_seed: if asked { RngSeed::Random } else { RngSeed::Fixed(1) },
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..usual
    }
}

fn findings(snapshot: &Snapshot, plan: &Plan) -> String {
    check(snapshot, plan).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn unplaced(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let pods = snapshot.pods.iter().zip(&plan.report.pods);
    let out = pods.filter(|(_, it)| !matches!(it, PodVerdict::Existing { .. } | PodVerdict::Launch { .. }));
    out.map(|(pod, _)| pod.name.clone()).collect()
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

/// A pod that tolerates everything could use the strangers' nodes.
fn choosy(shape: &mut Arc<PodShape>) {
    Arc::make_mut(shape).tolerations.retain(|it| it.key.is_some());
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_checker_finds_nothing(Cluster(snapshot) in crowds::calm()) {
        let found = findings(&snapshot, &plan(&snapshot));
        prop_assert!(found.is_empty(), "{}", found);
    }

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
