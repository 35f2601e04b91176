//! Pod groups: all of the pods that a group needs get a place, or none of its pods.

use std::sync::Arc;

use planner::{Plan, PodGroup, PodVerdict, Snapshot, UnschedulableReason, check, plan};
use proptest::prelude::{ProptestConfig, proptest};
use proptest::prop_assert;

use crate::applied;
use crate::clusters::{Cluster, cluster};

/// Divides the pending pods into groups that need this many pods.
fn divide(snapshot: &mut Snapshot, least: &[u32]) {
    let groups: Vec<Arc<PodGroup>> = least
        .iter()
        .enumerate()
        .map(|(at, least)| Arc::new(PodGroup { name: format!("group-{at}"), least: *least, running: 0 }))
        .collect();
    for (at, pod) in snapshot.pods.iter_mut().filter(|pod| pod.holder.is_none()).enumerate() {
        // The last third of the pods has no group.
        pod.group = groups.get(at % (groups.len() + 1)).cloned();
    }
}

/// Returns the number of placed pods of each group, with the number that it needs.
fn placed(snapshot: &Snapshot, plan: &Plan) -> Vec<(String, u32, u32)> {
    let mut counts: Vec<(String, u32, u32)> = Vec::new();
    for (pod, verdict) in snapshot.pods.iter().zip(&plan.report.pods) {
        let Some(group) = &pod.group else { continue };
        let has_place = matches!(verdict, PodVerdict::Existing { .. } | PodVerdict::Launch { .. });
        match counts.iter_mut().find(|(name, ..)| *name == group.name) {
            Some((_, count, _)) => *count += u32::from(has_place),
            None => counts.push((group.name.clone(), u32::from(has_place), group.missing())),
        }
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn groups_get_all_places_or_none(
        Cluster(mut snapshot) in cluster(),
        one in 0u32..6,
        other in 0u32..6,
    ) {
        divide(&mut snapshot, &[one, other]);
        let first = plan(&snapshot);
        let next = applied::to(&snapshot, &first);
        for (snapshot, plan) in [(&snapshot, &first), (&next, &plan(&next))] {
            let findings = check(snapshot, plan);
            prop_assert!(findings.is_empty(), "{:#?}", findings);
            for (name, count, missing) in placed(snapshot, plan) {
                prop_assert!(count == 0 || count >= missing, "{name} gets {count} places and needs {missing}");
            }
        }
    }

    /// A group of one pod is no group.
    #[test]
    fn group_of_one_changes_nothing(Cluster(mut snapshot) in cluster()) {
        let alone = plan(&snapshot);
        for pod in &mut snapshot.pods {
            pod.group = Some(Arc::new(PodGroup { name: pod.name.clone(), least: 1, running: 0 }));
        }
        let is_unplaced = |verdict: &PodVerdict| matches!(verdict, PodVerdict::Unschedulable { .. });
        let unplaced = |plan: &Plan| plan.report.pods.iter().map(is_unplaced).collect::<Vec<bool>>();
        prop_assert!(unplaced(&plan(&snapshot)) == unplaced(&alone));
    }
}

#[test]
fn check_finds_a_group_with_some_of_its_places() {
    let rows: &[(&str, super::Mutation)] = &[("pod group train: gets 1 places and needs 2", |snapshot, _| {
        snapshot.pods[0].group = Some(Arc::new(PodGroup { name: "train".to_owned(), least: 2, running: 0 }));
    })];
    super::assert_findings(rows, super::cost_limits::one_pod);
}

#[test]
fn reason_of_a_group_names_what_its_pods_lack() {
    let mut snapshot = super::cost_limits::one_pod();
    snapshot.pods.push(snapshot.pods[0].clone());
    snapshot.pods[1].uid = "two".to_owned();
    let group = Arc::new(PodGroup { name: "default/train".to_owned(), least: 2, running: 0 });
    snapshot.pods.iter_mut().for_each(|pod| pod.group = Some(Arc::clone(&group)));
    snapshot.pools[0].limits = Some([("nodes", 0)].into_iter().collect());
    let plan = plan(&snapshot);
    assert!(plan.launches.is_empty() && plan.nominations.is_empty());
    let [PodVerdict::Unschedulable { pools }, _] = plan.report.pods.as_slice() else {
        unreachable!("none has a place")
    };
    let UnschedulableReason::Group(shortage) = &pools[0].miss else { unreachable!("the group waits") };
    assert_eq!((shortage.placed, shortage.existing, shortage.least), (0, 2, 2));
    assert!(matches!(shortage.nearest.as_deref(), Some(UnschedulableReason::Limit { .. })));
}
